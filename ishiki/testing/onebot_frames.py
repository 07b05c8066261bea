"""OneBot v11 on the wire: segments, CQ codes, and the frames an end sends. Pure functions.

Source: the OneBot v11 standard, sections message (array, string, segment), event (message, notice, meta), api and
communication (ws). Fields beyond it (`message_format`, `message_seq`, `group_name`) are those that NapCat sends too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from ishiki.jsonvalue import JsonObject, JsonValue, read_object, read_str

__all__ = [
    "Frame",
    "MessageFormat",
    "Segment",
    "at",
    "failed",
    "image",
    "message_value",
    "meta",
    "notice",
    "ok",
    "parse_cq",
    "read_segments",
    "reply",
    "segment",
    "text",
    "to_cq",
    "visible_text",
]

Segment: TypeAlias = JsonObject
"""One part of a message: `{"type": …, "data": {…}}`."""

Frame: TypeAlias = "dict[str, JsonValue]"
"""One JSON frame, to be sent."""

MessageFormat: TypeAlias = Literal["array", "string"]
"""How an end writes `message`: a list of segments, or one string with CQ codes."""

_CQ_CODE = re.compile(r"\[CQ:([A-Za-z0-9_.-]+)((?:,[^,\[\]]*)*)\]")


def segment(kind: str, /, **data: JsonValue) -> Frame:
    """Return a segment of any type, also one that nobody knows."""
    return {"type": kind, "data": data}


def text(value: str) -> Frame:
    """Return a `text` segment."""
    return segment("text", text=value)


def at(user_id: int | Literal["all"]) -> Frame:
    """Return an `at` segment; ids are text there, as the standard has it."""
    return segment("at", qq=str(user_id))


def reply(message_id: int) -> Frame:
    """Return a `reply` segment: the quote of an earlier message."""
    return segment("reply", id=str(message_id))


def image(file: str, *, url: str = "") -> Frame:
    """Return an `image` segment as an end sends it: `file` is a name, `url` where it can be fetched."""
    return segment("image", file=file, url=url)


def to_cq(segments: Sequence[Segment]) -> str:
    """Return the segments as one string with CQ codes (standard, message/string: escapes in text and in values)."""
    return "".join(_segment_to_cq(part) for part in segments)


def _segment_to_cq(part: Segment) -> str:
    kind, data = read_str(part, "type"), read_object(part, "data")
    if kind == "text":
        return _escape(read_str(data, "text"))
    values = "".join(f",{key}={_escape(_scalar(value)).replace(',', '&#44;')}" for key, value in data.items())
    return f"[CQ:{kind}{values}]"


def _scalar(value: JsonValue) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)


def _escape(value: str) -> str:
    return value.replace("&", "&amp;").replace("[", "&#91;").replace("]", "&#93;")


def _unescape(value: str) -> str:
    return value.replace("&#44;", ",").replace("&#91;", "[").replace("&#93;", "]").replace("&amp;", "&")


def parse_cq(message: str) -> list[Frame]:
    """Return the segments of a string with CQ codes; brackets that form no code stay text."""
    segments: list[Frame] = []
    position = 0
    for code in _CQ_CODE.finditer(message):
        if code.start() > position:
            segments.append(text(_unescape(message[position : code.start()])))
        data: dict[str, JsonValue] = {}
        for pair in code[2].split(",")[1:]:
            key, _, value = pair.partition("=")
            data[key] = _unescape(value)
        segments.append({"type": code[1], "data": data})
        position = code.end()
    if position < len(message):
        segments.append(text(_unescape(message[position:])))
    return segments


def read_segments(message: JsonValue, *, auto_escape: bool = False) -> tuple[Segment, ...] | None:
    """Read the `message` of an API call: a string with CQ codes, a list of segments, or one segment.

    Args:
        message: the parameter.
        auto_escape: whether a string is plain text (standard, api/send_private_msg).

    Returns:
        The segments in order, or None where an end would refuse the message as malformed.
    """
    if isinstance(message, str):
        return (text(message),) if auto_escape else tuple(parse_cq(message))
    if isinstance(message, Mapping):
        message = [message]
    if not isinstance(message, Sequence):
        return None
    segments: list[Segment] = []
    for part in message:
        if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
            return None
        if not isinstance(part.get("data", {}), Mapping | None):
            return None
        segments.append(part)
    return tuple(segments)


def message_value(segments: Sequence[Segment], message_format: MessageFormat) -> JsonValue:
    """Return the segments in the form that an end with this format puts on the wire."""
    return list(segments) if message_format == "array" else to_cq(segments)


def visible_text(segments: Sequence[Segment]) -> str:
    """Return a message as a person roughly sees it: text as it is, `@42`, `[image]`; a quote is not shown."""
    return "".join(_visible(part) for part in segments)


def _visible(part: Segment) -> str:
    kind, data = read_str(part, "type"), read_object(part, "data")
    if kind == "text":
        return read_str(data, "text")
    if kind == "at":
        return f"@{read_str(data, 'qq')}"
    return "" if kind == "reply" else f"[{kind}]"


def notice(notice_type: str, **fields: JsonValue) -> Frame:
    """Return a notice event without time and account (standard, event/notice)."""
    return {"post_type": "notice", "notice_type": notice_type, **fields}


def meta(meta_event_type: str, **fields: JsonValue) -> Frame:
    """Return a meta event without time and account (standard, event/meta)."""
    return {"post_type": "meta_event", "meta_event_type": meta_event_type, **fields}


def ok(data: JsonValue, echo: JsonValue, *, is_async: bool = False) -> Frame:
    """Return a successful API answer (standard, api and communication/ws); `is_async` for `…_async` actions."""
    status, retcode = ("async", 1) if is_async else ("ok", 0)
    return {"status": status, "retcode": retcode, "data": data, "message": "", "wording": "", "echo": echo}


def failed(retcode: int, wording: str, echo: JsonValue) -> Frame:
    """Return a failed API answer; `wording` is what the end tells a person."""
    return {"status": "failed", "retcode": retcode, "data": None, "message": wording, "wording": wording, "echo": echo}
