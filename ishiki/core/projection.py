"""From entries to the messages of a request: the plugins' hooks in their order, then what the core itself owes.

A projection is made anew for every request and never written back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ishiki.core.disposer import resolved
from ishiki.core.entries import WITHHELD, Entry
from ishiki.core.hidden import marks_of, shown_entries, withheld_ids
from ishiki.core.messages import (
    AssistantMessage,
    AssistantPart,
    CustomMessage,
    Message,
    ModelMessage,
    TextPart,
    ToolMessage,
    ToolOutput,
    UserMessage,
)
from ishiki.core.plugin import AgentPlugin, ContextRequest, overrides
from ishiki.core.repair import well_formed

__all__ = ["WITHHELD_TEXT", "project"]

WITHHELD_TEXT = "[withheld]"
"""What stands for a message that a model refused to read."""


async def project(
    entries: Sequence[Entry], request: ContextRequest, plugins: Sequence[AgentPlugin]
) -> list[ModelMessage]:
    """Return the messages that a model reads for `entries`: ordered, well-formed, at least one user message."""
    marks = marks_of(entries)
    hidden = withheld_ids(marks)
    entries = shown_entries(entries, marks)
    if hidden:
        entries = [_withhold(entry) if entry.id in hidden else entry for entry in entries]
    for plugin in plugins:
        if overrides(plugin, "transform_entries"):
            changed = await resolved(plugin.transform_entries(entries, request))
            entries = entries if changed is None else changed
    messages: Sequence[Message] = [entry.message for entry in entries if entry.message is not None]
    for plugin in plugins:
        if overrides(plugin, "transform_messages"):
            rendered = await resolved(plugin.transform_messages(messages, request))
            messages = messages if rendered is None else rendered
    converters = [plugin for plugin in plugins if overrides(plugin, "to_model_messages")]
    out: list[ModelMessage] = []
    for message in messages:
        if isinstance(message, CustomMessage):
            out.extend(_convert(message, converters))
        else:
            out.append(message)
    return well_formed(out)


def _convert(message: CustomMessage, converters: Sequence[AgentPlugin]) -> Sequence[ModelMessage]:
    for plugin in converters:
        converted = plugin.to_model_messages(message)
        if converted is not None:
            return converted
    return ()


def _withhold(entry: Entry) -> Entry:
    """Return `entry` as a model reads it from now on: who spoke or was called stays, and nothing of what was said."""
    match entry.message:
        case UserMessage() as message:
            return replace(entry, data=replace(message, content=WITHHELD_TEXT))
        case AssistantMessage() as message:
            calls = [replace(call, input={}) for call in message.tool_calls]
            parts: list[AssistantPart] = [TextPart(WITHHELD_TEXT), *calls] if message.text else [*calls]
            return replace(entry, data=replace(message, content=parts))
        case ToolMessage() as message:
            output = ToolOutput("text", WITHHELD_TEXT)
            return replace(
                entry, data=replace(message, content=[replace(part, output=output) for part in message.content])
            )
        case CustomMessage() as message if "content" in message.data:
            data = {key: value for key, value in message.data.items() if key != "quote"} | {"content": WITHHELD_TEXT}
            # A name may be what was refused; the id is enough to tell who it was.
            if isinstance(user := data.get("user"), Mapping):
                data["user"] = {key: value for key, value in user.items() if key == "id"}
            return replace(entry, data=replace(message, data=data))
        case CustomMessage() as message:
            return replace(entry, data=replace(message, type=WITHHELD, data={}))
        case _:
            return entry
