"""`from ishiki import …`: what authors may rely on. A change here is a change of the public interface."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ishiki

EXPORTS = [
    "ATTACHMENT",
    "MESSAGE_CREATED",
    "MESSAGE_DELETED",
    "STANDING_CHANGED",
    "TOOLS_CATALOG",
    "ActivationError",
    "Agent",
    "AgentError",
    "AgentEvent",
    "AgentFeed",
    "AgentRuntime",
    "AgentStoppedError",
    "AssistantMessage",
    "Attachment",
    "AttachmentItem",
    "CancelSignal",
    "ChannelDomain",
    "ChannelRef",
    "ChatEvent",
    "ChosenWakeup",
    "Clock",
    "ConfigError",
    "ConfigModel",
    "ContextEngine",
    "ContextEngineInstance",
    "ContextRequest",
    "CrossDomain",
    "CustomMessage",
    "Disposer",
    "Domain",
    "Entry",
    "EntryStore",
    "Extension",
    "ExtensionHost",
    "ExtensionInstance",
    "ExtensionTools",
    "FileEntry",
    "FilePart",
    "FilePayload",
    "FileScheme",
    "FileStat",
    "FileUrl",
    "Finish",
    "ForwardNode",
    "IshikiError",
    "JsonObject",
    "JsonValue",
    "LanguageModel",
    "MediaRef",
    "Message",
    "MessageAppended",
    "MessageCreated",
    "MessageDeleted",
    "ModelError",
    "ModelInfo",
    "ModelMessage",
    "ModelMiddleware",
    "ModelPart",
    "ModelRequest",
    "ModelSettings",
    "NextStream",
    "Platform",
    "Provider",
    "Quote",
    "Random",
    "ReasoningDelta",
    "ReasoningPart",
    "ResourceCenter",
    "ResourceError",
    "ResourceFileSystem",
    "ResourcePayload",
    "ResponseStart",
    "Scheduler",
    "SchemeHandler",
    "SendOutcome",
    "ServiceConflictError",
    "Standing",
    "StandingChanged",
    "StorageError",
    "StreamEvent",
    "SystemMessage",
    "TextDelta",
    "TextPart",
    "TextPayload",
    "TextSource",
    "Tool",
    "ToolBlocked",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallPart",
    "ToolConflictError",
    "ToolContext",
    "ToolDone",
    "ToolError",
    "ToolFailed",
    "ToolInvocation",
    "ToolMessage",
    "ToolOutput",
    "ToolResultPart",
    "ToolSet",
    "ToolSpec",
    "ToolStart",
    "ToolcallEngine",
    "ToolcallEngineInstance",
    "Transcript",
    "Trigger",
    "TurnAborted",
    "TurnDone",
    "TurnFailed",
    "TurnQueued",
    "TurnStart",
    "TurnStep",
    "Usage",
    "User",
    "UserMessage",
    "WakeupDecision",
    "WakeupEngine",
    "WakeupEngineInstance",
    "provide",
    "tool",
]
"""Taken out or renamed: breaking, and the change log says so. Added: written here on purpose."""


def test_the_exports_are_these_and_no_others() -> None:
    """Design, contracts for authors: `ishiki.__all__` is pinned by a test."""
    assert ishiki.__all__ == EXPORTS
    assert len(set(EXPORTS)) == len(EXPORTS)


@pytest.mark.parametrize("name", EXPORTS)
def test_every_export_is_there_and_documented(name: str) -> None:
    """Our choice: what an author can import, an editor can explain."""
    value: object = getattr(ishiki, name)
    if isinstance(value, type):
        assert (value.__doc__ or "").strip(), f"{name} has no docstring"


def test_importing_every_export_loads_no_host_no_model_library_and_no_test_tool(tmp_path: Path) -> None:
    """Design, who may import whom; run in a process of its own, away from this folder."""
    heavy = ("nonebot", "litellm", "pytest")
    code = f"import sys\nfrom ishiki import *\nprint(*(name for name in {heavy!r} if name in sys.modules))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.split() == []
