"""A OneBot message as a person reads it in a terminal, and a typed line as the segments that it means. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ishiki.jsonvalue import JsonValue, read_array, read_object, read_str
from ishiki.testing.onebot_frames import Segment, at, read_segments, text

__all__ = ["NameOf", "Rendered", "mention_segments", "plain", "render"]

NameOf: TypeAlias = Callable[[str], str]
"""Gives the display name of a user id (text, as segments hold it)."""

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal would obey instead of show."""

_SHOWN_URL = 80


@dataclass(frozen=True, slots=True)
class Rendered:
    """One message in words."""

    text: str
    """Possibly of several lines."""
    quoted_id: str = ""
    """The id of the message that it quotes."""


def plain(value: str) -> str:
    """Return `value` without characters that steer a terminal; line breaks and tabs stay."""
    return _UNSAFE.sub("\ufffd", value.replace("\r\n", "\n"))


def render(segments: Sequence[Segment], name_of: NameOf) -> Rendered:
    """Return a message as a person sees it; no segment disappears but the quote, which is told apart."""
    quoted = next((read_str(read_object(one, "data"), "id") for one in segments if one.get("type") == "reply"), "")
    return Rendered(plain("".join(_shown(one, name_of) for one in segments)).strip("\n"), quoted)


def _shown(one: Segment, name_of: NameOf) -> str:
    kind, data = read_str(one, "type"), read_object(one, "data")
    match kind:
        case "text":
            return read_str(data, "text")
        case "reply":
            return ""
        case "at":
            who = read_str(data, "qq")
            return "@all" if who == "all" else f"@{name_of(who)}"
        case "markdown":
            return read_str(data, "content")
        case "node":
            inner = read_segments(data.get("content")) or ()
            return f"\n  {_node_name(data, name_of)}: {render(inner, name_of).text}"
        case _:
            detail = _detail(data)
            return f"[{kind} {detail}]" if detail else f"[{kind}]"


def _node_name(data: Mapping[str, JsonValue], name_of: NameOf) -> str:
    return read_str(data, "nickname") or read_str(data, "name") or name_of(read_str(data, "user_id"))


def _detail(data: Mapping[str, JsonValue]) -> str:
    """Return what tells one such segment from another: its address, its size, its name or id."""
    file = read_str(data, "file")
    if file.startswith("base64://"):
        return f"of {_size(len(file.removeprefix('base64://')) * 3 // 4)}"
    for value in (read_str(data, "name"), file, read_str(data, "url"), read_str(data, "id"), read_str(data, "title")):
        if value:
            return value if len(value) <= _SHOWN_URL else f"{value[: _SHOWN_URL - 1]}…"
    return f"of {len(read_array(data, 'content'))} parts" if read_array(data, "content") else ""


def _size(size_bytes: int) -> str:
    return f"{size_bytes} bytes" if size_bytes < 1000 else f"{size_bytes / 1000:.0f} kB"


def mention_segments(line: str, people: Mapping[str, int]) -> list[Segment]:
    """Return a line typed in a group as segments: `@` with a known name, an id or `all` mentions.

    Args:
        line: as typed.
        people: names to user ids; where one name begins another, the longer one is meant.
    """
    known = sorted(people, key=len, reverse=True)
    names = "".join(f"{re.escape(name)}|" for name in known if name)
    # Not inside a word or an address (`me@bot.org`); a CJK character may stand right before and behind.
    pattern = re.compile(rf"(?<![0-9A-Za-z_.+-])@({names}all|[0-9]{{1,19}})(?![0-9A-Za-z_])")
    segments: list[Segment] = []
    position = 0
    for mention in pattern.finditer(line):
        if mention.start() > position:
            segments.append(text(line[position : mention.start()]))
        who = mention[1]
        segments.append(at(people[who] if who in people else "all" if who == "all" else int(who)))
        position = mention.end()
    if position < len(line):
        segments.append(text(line[position:]))
    return segments
