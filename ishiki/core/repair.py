"""History repair: whatever the history looks like, the request is well-formed. A pure function.

A crash, a trimmed history or a log of another version can leave a call without its result or the other way round;
providers answer that with an error that sticks. Costs one pass.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from ishiki.core.messages import (
    AssistantMessage,
    AssistantPart,
    ModelMessage,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolResultPart,
    UserMessage,
)

__all__ = ["MAX_CALL_ID_LENGTH", "NO_INPUT", "NO_RESULT", "well_formed"]

MAX_CALL_ID_LENGTH = 64
"""Providers refuse longer ids."""

MAX_NAME_LENGTH = 64
"""Providers refuse longer names of tools."""

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")

NO_RESULT = "No result was recorded for this call; it may or may not have taken effect."
"""What the model reads where a call has no result."""

NO_INPUT = "(There is nothing new to read.)"
"""The user message of a request that would have none; providers refuse such a request."""


def well_formed(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return `messages` so that every provider takes them; what is well-formed comes back as the same objects.

    Every assistant message has text or calls; its calls have unique ids of at most 64 characters, legal names and one
    result each, directly behind it and in call order; results without a call are dropped; at least one user message is
    there. Calls that the provider ran itself are its own business: nothing is made up for them.
    """
    repaired: list[ModelMessage] = []
    used_ids: set[str] = set()
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        match message:
            case AssistantMessage():
                if _own_calls(message):
                    found, behind, index = _collect(messages, index)
                    repaired.extend((*_pair(message, found, used_ids), *behind))
                elif message.text.strip():
                    repaired.append(message)
            case ToolMessage():
                continue  # its call is not in the history
            case _:
                repaired.append(message)
    if not any(isinstance(message, UserMessage) for message in repaired):
        repaired.append(UserMessage(NO_INPUT))
    return repaired


def _own_calls(message: AssistantMessage) -> Sequence[ToolCallPart]:
    return [call for call in message.tool_calls if not call.provider_executed]


def _collect(messages: Sequence[ModelMessage], index: int) -> tuple[list[ToolMessage], list[ModelMessage], int]:
    """Return the tool messages up to the next assistant message, what stood between them, and where that is."""
    found: list[ToolMessage] = []
    behind: list[ModelMessage] = []
    while index < len(messages) and not isinstance(message := messages[index], AssistantMessage):
        index += 1
        if isinstance(message, ToolMessage):
            found.append(message)
        else:
            behind.append(message)
    return found, behind, index


def _pair(
    assistant: AssistantMessage, found: Sequence[ToolMessage], used_ids: set[str]
) -> tuple[AssistantMessage, ToolMessage]:
    results: dict[str, deque[ToolResultPart]] = {}
    for result in (part for message in found for part in message.content):
        results.setdefault(result.tool_call_id, deque()).append(result)
    parts: list[AssistantPart] = []
    answers: list[ToolResultPart] = []
    for part in assistant.content:
        if not isinstance(part, ToolCallPart) or part.provider_executed:
            parts.append(part)
            continue
        call_id, name = _unique_id(part.tool_call_id, used_ids), _legal_name(part.tool_name)
        is_legal = (call_id, name) == (part.tool_call_id, part.tool_name)
        parts.append(part if is_legal else replace(part, tool_call_id=call_id, tool_name=name))
        waiting = results.get(part.tool_call_id)
        answers.append(_answer(call_id, name, waiting.popleft() if waiting else None))
    return _with_parts(assistant, parts), _with_answers(found, answers)


def _answer(call_id: str, name: str, found: ToolResultPart | None) -> ToolResultPart:
    if found is None:
        return ToolResultPart(call_id, name, ToolOutput("error-text", NO_RESULT))
    return (
        found
        if (found.tool_call_id, found.tool_name) == (call_id, name)
        else replace(found, tool_call_id=call_id, tool_name=name)
    )


def _with_parts(assistant: AssistantMessage, parts: Sequence[AssistantPart]) -> AssistantMessage:
    return assistant if _same(parts, assistant.content) else replace(assistant, content=parts)


def _with_answers(found: Sequence[ToolMessage], answers: Sequence[ToolResultPart]) -> ToolMessage:
    return next((message for message in found if _same(answers, message.content)), ToolMessage(answers))


def _same(new: Sequence[object], old: Sequence[object]) -> bool:
    return len(new) == len(old) and all(one is other for one, other in zip(new, old, strict=True))


def _legal_name(name: str) -> str:
    """Return `name` as providers take it: a model may have called what no tool can be called."""
    return _ILLEGAL.sub("_", name)[:MAX_NAME_LENGTH] or "unknown"


def _unique_id(call_id: str, used_ids: set[str]) -> str:
    candidate = call_id[:MAX_CALL_ID_LENGTH] or "call"
    number = 1
    while candidate in used_ids:
        number += 1
        suffix = f"_{number}"
        candidate = call_id[: MAX_CALL_ID_LENGTH - len(suffix)] + suffix
    used_ids.add(candidate)
    return candidate
