"""The world state: a window of the history as one text with tags.

What people typed stays content: in a message's own markup, unknown tags are text; anywhere else, what would read as one
of our tags loses its bracket. So nobody can end a message, open one, or speak as somebody else. Facts are read from the
transcript's lines, so that names, times, quotes and cuts are the same as everywhere.
Source: specification, context engine `v3`; escaping and wording are ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ishiki.content import INDENT, ReadLine, escape, escape_attribute, parse, serialise, split_lines
from ishiki.contracts.events import ATTACHMENT, MESSAGE_CREATED, TOOLS_CATALOG, ChannelRef
from ishiki.contracts.transcript import Transcript
from ishiki.core.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    OpaquePart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    UserMessage,
)
from ishiki.jsonvalue import JsonValue, read_str

__all__ = ["World", "render_world"]

_STRUCTURE = (
    *("world_state", "channel", "users", "user", "name", "working_memory", "summary", "processed_events"),
    *("new_events", "message", "system_event", "system_note", "action", "observation", "function", "params"),
    *("input", "status", "result", "thoughts", "core_memory"),
)
_OURS = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(_STRUCTURE)})\b)", re.IGNORECASE)
_SPOKEN = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(set(_STRUCTURE) - {'thoughts'})})\b)", re.IGNORECASE)
_NODE_TAG = re.compile(r"<(/?)message\b")

_HEAD_SAFE = {ord(mark): ord(mark) + 0xFEE0 for mark in "[]|"}
"""To their full-width forms."""
_TAG_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")

_SUMMARY = "processed_events: what you have dealt with already. new_events: what has come since, results first."
_NO_USERS = "<system_note>Nobody has spoken in what you see.</system_note>"
_NO_PROCESSED = "<system_note>Nothing before this.</system_note>"
_NO_NEW = "<system_note>Nothing has come since your last step.</system_note>"


@dataclass(slots=True)
class World:
    """What a window shows."""

    channel: ChannelRef | None
    """Where the newest message was said; None where nothing tells."""
    users: dict[str, str] = field(default_factory=dict[str, str])
    """Id -> name as it was last, in the order of their first words; an empty name where there is none."""
    processed: list[str] = field(default_factory=list[str])
    new: list[str] = field(default_factory=list[str])

    def text(self) -> str:
        """Return the whole."""
        return "\n".join(
            [
                "<world_state>",
                *self._channel_lines(),
                "<users>",
                *([_user(user_id, name) for user_id, name in self.users.items()] or [_NO_USERS]),
                "</users>",
                "<working_memory>",
                f"<summary>{_SUMMARY}</summary>",
                "<processed_events>",
                *(self.processed or [_NO_PROCESSED]),
                "</processed_events>",
                "<new_events>",
                *(self.new or [_NO_NEW]),
                "</new_events>",
                "</working_memory>",
                "</world_state>",
            ]
        )

    def _channel_lines(self) -> list[str]:
        if self.channel is None:
            return []
        platform, _, _ = self.channel.sid.partition(":")
        kind = "private" if self.channel.channel_id.startswith("private:") else "guild"
        channel_id = escape_attribute(self.channel.channel_id)
        return [f'<channel id="{channel_id}" type="{kind}" platform="{escape_attribute(platform)}"/>']


def render_world(
    messages: Sequence[Message], transcript: Transcript, channel: ChannelRef | None
) -> tuple[str, list[Message]]:
    """Return the text of `messages`, and those that stay as they are: attachments, catalogues, foreign records.

    Args:
        messages: in order; what stands behind the last assistant message is new.
        transcript: renders facts.
        channel: where the mind lives, for as long as nobody has spoken.
    """
    world = World(channel)
    rest: list[Message] = []
    split = next((i for i in range(len(messages), 0, -1) if isinstance(messages[i - 1], AssistantMessage)), 0)
    header = ""
    for index, message in enumerate(messages):
        lines = world.processed if index < split else world.new
        if index == split:
            header = ""
        match message:
            case CustomMessage():
                fact = None if message.type in (ATTACHMENT, TOOLS_CATALOG) else transcript.fact(message)
                if fact is None or not fact.is_line:
                    rest.append(message)
                    continue
                if fact.header and fact.header != header:
                    header = fact.header
                    lines.append(f"<system_note>{escape(header)}</system_note>")
                lines.extend(_fact_line(world, message, line) for line in split_lines(fact.text)[:1])
            case AssistantMessage():
                lines.extend(_assistant(message))
            case ToolMessage():
                lines.extend(_observation(part.tool_name, part.output) for part in message.content)
            case SystemMessage():
                lines.append(f"<system_event>[System] {_fenced(message.content)}</system_event>")
            case UserMessage():
                lines.append(_user_text(message))
    return world.text(), rest


def _user(user_id: str, name: str) -> str:
    return f'<user id="{escape_attribute(user_id)}"><name>{escape(name or user_id)}</name></user>'


def _fact_line(world: World, message: CustomMessage, line: ReadLine) -> str:
    if message.type != MESSAGE_CREATED:
        return f"<system_event>[{line.time}|System] {escape(line.content)}</system_event>"
    data = message.data
    world.channel = ChannelRef(f"{read_str(data, 'platform')}:{read_str(data, 'selfId')}", read_str(data, "channelId"))
    if line.is_self:
        who = "(you)"
    else:
        who = f"{line.name}({line.user_id})" if line.name else line.user_id
        # A key keeps its place: the order is that of first words, the name is the newest.
        world.users[line.user_id] = line.name or world.users.get(line.user_id, "")
    head = [_bar(line.message_id), line.time, _bar(who), *([f"reply to {_bar(line.reply)}"] if line.reply else [])]
    # What is no known element becomes text; in old logs it may stand there as it was typed.
    # A forward's <message> nodes would read as lines of this window, so they are shown under another name.
    content = _NODE_TAG.sub(r"<\1node", serialise(parse(line.content)))
    body = content.replace("\n", f"\n{INDENT}")
    return f"<message>[{'|'.join(head)}] {body}</message>"


def _bar(text: str) -> str:
    """Return `text` without the characters that part the fields of a head and end it."""
    return text.translate(_HEAD_SAFE)


def _assistant(message: AssistantMessage) -> list[str]:
    lines: list[str] = []
    for part in message.content:
        if isinstance(part, TextPart) and part.text.strip():
            lines.append(_SPOKEN.sub("&lt;", part.text.strip()))
        elif isinstance(part, ToolCallPart):
            lines.append(_action(part))
    return lines


def _action(call: ToolCallPart) -> str:
    arguments = call.input
    if isinstance(arguments, Mapping) and all(_TAG_NAME.fullmatch(key) for key in arguments):
        params = "".join(f"<{key}>{_value(value, key)}</{key}>" for key, value in arguments.items())
    else:
        params = f"<input>{_value(arguments, 'input')}</input>"
    name = _fenced(call.tool_name)
    return f"<action>\n  <function>{name}</function>\n  <params>{params}</params>\n</action>"


def _observation(tool_name: str, output: ToolOutput) -> str:
    status = "error" if output.is_error else "success"
    result = "denied" if output.type == "execution-denied" and output.value is None else _value(output.value)
    return (
        f"<observation>\n  <function>{_fenced(tool_name)}</function>\n  <status>{status}</status>\n"
        f"  <result>{result}</result>\n</observation>"
    )


def _value(value: JsonValue, tag: str = "") -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    fenced = _fenced(text)
    return re.sub(rf"<(?=\s*/\s*{re.escape(tag)}\b)", "&lt;", fenced, flags=re.IGNORECASE) if tag else fenced


def _fenced(text: str) -> str:
    return _OURS.sub("&lt;", text)


def _user_text(message: UserMessage) -> str:
    if isinstance(message.content, str):
        return _fenced(message.content)
    parts = [part.text if isinstance(part, TextPart) else f"[{_kind(part)}]" for part in message.content]
    return _fenced("\n".join(parts))


def _kind(part: object) -> str:
    return (read_str(part.data, "type") or "part") if isinstance(part, OpaquePart) else "file"
