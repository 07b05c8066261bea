"""History repair: whatever the history looks like, the request is well-formed. A pure function.

A crash, a trimmed history or a log of another version can leave a call without its result or the other way round;
providers answer that with an error that sticks. Costs one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ishiki.core.messages import (
    AssistantMessage,
    AssistantPart,
    ModelMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolResultPart,
    UserMessage,
)

__all__ = ["MAX_CALL_ID_LENGTH", "NO_INPUT", "NO_RESULT", "well_formed"]

MAX_CALL_ID_LENGTH = 64
"""Providers refuse longer ids."""

NO_RESULT = "No result was recorded for this call; it may or may not have taken effect."
"""What the model reads where a call has no result."""

NO_INPUT = "(There is nothing new to read.)"
"""The user message of a request that would have none; providers refuse such a request."""


def well_formed(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return `messages` so that every provider takes them.

    Every assistant message has text or calls; its calls have unique ids of at most 64 characters and one result each,
    directly behind it and in call order; results without a call are dropped; at least one user message is there.
    """
    repaired: list[ModelMessage] = []
    used_ids: set[str] = set()
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        match message:
            case AssistantMessage() if message.tool_calls:
                results, behind, index = _collect(messages, index, message)
                assistant, tool_message = _pair(message, results, used_ids)
                repaired.extend((assistant, tool_message, *behind))
            case AssistantMessage():
                if message.text.strip():
                    repaired.append(message)
            case ToolMessage():
                continue  # its call is not in the history
            case _:
                repaired.append(message)
    if not any(isinstance(message, UserMessage) for message in repaired):
        repaired.append(UserMessage(NO_INPUT))
    return repaired


def _collect(
    messages: Sequence[ModelMessage], index: int, assistant: AssistantMessage
) -> tuple[dict[str, ToolResultPart], list[ModelMessage], int]:
    """Find the results of `assistant` up to the next assistant message; return what stood between as well."""
    wanted = {call.tool_call_id for call in assistant.tool_calls}
    results: dict[str, ToolResultPart] = {}
    behind: list[ModelMessage] = []
    while index < len(messages) and not isinstance(messages[index], AssistantMessage):
        message = messages[index]
        index += 1
        if isinstance(message, ToolMessage):
            for part in message.content:
                if part.tool_call_id in wanted:
                    results.setdefault(part.tool_call_id, part)
        else:
            behind.append(message)
    return results, behind, index


def _pair(
    assistant: AssistantMessage, results: dict[str, ToolResultPart], used_ids: set[str]
) -> tuple[AssistantMessage, ToolMessage]:
    parts: list[AssistantPart] = []
    answers: list[ToolResultPart] = []
    for part in assistant.content:
        if not isinstance(part, ToolCallPart):
            parts.append(part)
            continue
        call_id = _unique_id(part.tool_call_id, used_ids)
        parts.append(replace(part, tool_call_id=call_id))
        found = results.pop(part.tool_call_id, None)
        output = found.output if found is not None else ToolOutput("error-text", NO_RESULT)
        answers.append(ToolResultPart(call_id, part.tool_name, output))
    unchanged = all(isinstance(part, TextPart) or part in assistant.content for part in parts)
    return (assistant if unchanged else replace(assistant, content=parts)), ToolMessage(answers)


def _unique_id(call_id: str, used_ids: set[str]) -> str:
    candidate = call_id[:MAX_CALL_ID_LENGTH] or "call"
    number = 1
    while candidate in used_ids:
        number += 1
        suffix = f"_{number}"
        candidate = call_id[: MAX_CALL_ID_LENGTH - len(suffix)] + suffix
    used_ids.add(candidate)
    return candidate
