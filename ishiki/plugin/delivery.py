"""Delivery: element markup becomes OneBot v11 segments, in array form.

Only parsed elements become segments; whatever else the model writes is text, `[CQ:…]` included, because a CQ code has
no meaning inside a `text` segment. What cannot be sent is reported and never blocks the rest. Pure functions.
Source: OneBot v11, message segments; design, delivery and safety defaults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from ishiki.content import Element, Node, Text, canonical, parse
from ishiki.jsonvalue import JsonValue, without_surrogates

__all__ = ["OutgoingMessage", "to_segments"]

_NUMBER = re.compile(r"-?[0-9]{1,20}")
_DATA_URL = re.compile(r"data:[a-z]+/[A-Za-z0-9.+-]+(?:;[A-Za-z0-9=.+-]+)*;base64,([A-Za-z0-9+/=]+)", re.IGNORECASE)
_LOCAL_NAMES = (".localhost", ".local", ".internal", ".lan", ".home", ".arpa")

_MEDIA: Final[Mapping[str, str]] = MappingProxyType({"img": "image", "audio": "record", "video": "video"})
"""The segment type of each media element."""


@dataclass(slots=True)
class OutgoingMessage:
    """One platform message, ready for the API."""

    segments: list[dict[str, JsonValue]] = field(default_factory=list[dict[str, JsonValue]])
    """`{"type": …, "data": {…}}` in order, a `reply` first; empty where nothing can be sent."""

    dropped: list[str] = field(default_factory=list[str])
    """What could not be sent, each in words that the model may read."""

    quote_id: str = ""
    """The message that it replies to."""

    def add(self, kind: str, **data: JsonValue) -> None:
        """Append a segment."""
        self.segments.append({"type": kind, "data": data})

    def add_text(self, text: str) -> None:
        """Append text, joined to text before it."""
        last = self.segments[-1] if self.segments else None
        if last is not None and last["type"] == "text":
            before = last["data"]
            text = f"{before['text']}{text}" if isinstance(before, Mapping) else text
            self.segments.pop()
        if text:
            self.add("text", text=text)


def to_segments(content: str) -> OutgoingMessage:
    """Turn element markup into the segments of one message. Never raises.

    Args:
        content: markup as the model wrote it; text sent literally (`raw`) is escaped by the caller.
    """
    message = OutgoingMessage()
    _add_all(message, canonical(parse(without_surrogates(content))))
    if not any(segment["type"] != "text" or _is_visible(segment) for segment in message.segments):
        message.segments = []  # a reply alone is no message
    elif message.quote_id:
        message.segments.insert(0, {"type": "reply", "data": {"id": message.quote_id}})
    return message


def _is_visible(segment: Mapping[str, JsonValue]) -> bool:
    data = segment["data"]
    return isinstance(data, Mapping) and bool(str(data["text"]).strip())


def _add_all(message: OutgoingMessage, nodes: Iterable[Node]) -> None:
    for node in nodes:
        if isinstance(node, Text):
            message.add_text(node.value)
        else:
            _WRITERS.get(node.name, _cannot_send)(message, node)


def _at(message: OutgoingMessage, at: Element) -> None:
    who = at.get("id")
    if at.get("type") == "all" or who == "all":
        message.add("at", qq="all")
    elif _NUMBER.fullmatch(who):
        message.add("at", qq=who)
    elif name := at.get("name") or who:
        message.add_text(f"@{name}")
    else:
        message.dropped.append("an <at> without an id")


def _quote(message: OutgoingMessage, quote: Element) -> None:
    message_id = quote.get("id").strip()
    if not message_id:
        message.dropped.append("a <quote> without an id")
    elif message.quote_id:
        message.dropped.append("a second <quote>: one message quotes one other")
    else:
        message.quote_id = message_id


def _media(message: OutgoingMessage, media: Element) -> None:
    source = media.get("src")
    file, problem = _sendable(source)
    if file:
        message.add(_MEDIA[media.name], file=file)
    else:
        message.dropped.append(f"<{media.name}> {_short(source)}: {problem}")


def _sendable(source: str) -> tuple[str, str]:
    """Return what the end can take as `file`, or "" and why there is none."""
    if not source:
        return "", "it has no src"
    if source.startswith("base64://"):
        return source, ""
    if (data := _DATA_URL.fullmatch(source)) is not None:
        return f"base64://{data[1]}", ""
    try:
        url = urlsplit(source)
        host = url.hostname or ""
    except ValueError:
        return "", "its src is no URL"
    if url.scheme not in ("http", "https"):
        return "", "only http(s) addresses and data: URLs can be sent"
    # The end would fetch it, from inside the network that it stands in.
    return (source, "") if _is_public(host) else ("", "private and local addresses are not sent")


def _is_public(host: str) -> bool:
    host = host.rstrip(".").lower()
    try:
        address = ip_address(host)
    except ValueError:
        return _is_public_name(host)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_global


def _is_public_name(host: str) -> bool:
    labels = host.split(".")
    # A last label that starts with a digit is an address in a form that only resolvers read (`127.1`, `0x7f.1`).
    return len(labels) > 1 and not labels[-1][:1].isdigit() and not host.endswith(_LOCAL_NAMES)


def _face(message: OutgoingMessage, face: Element) -> None:
    if _NUMBER.fullmatch(face.get("id")):
        message.add("face", id=face.get("id"))
    elif name := face.get("name"):
        message.add_text(f"[{name}]")
    else:
        message.dropped.append("a <face> without an id")


def _thrown(message: OutgoingMessage, thrown: Element) -> None:
    # The result is the platform's to decide.
    message.add(thrown.name)


def _own_words(message: OutgoingMessage, container: Element) -> None:
    _add_all(message, container.children)


def _file(message: OutgoingMessage, file: Element) -> None:
    name = file.get("name") or file.get("src")
    message.dropped.append(f"<file> {_short(name)}: sending files is not supported; say what is in it instead")


def _cannot_send(message: OutgoingMessage, other: Element) -> None:
    """Report an element that only others can send; what it says stays."""
    message.dropped.append(f"<{other.name}>: it can be received, not sent")
    if other.children:
        _add_all(message, other.children)
    elif words := other.get("title") or other.get("summary"):
        message.add_text(words)


def _short(value: str) -> str:
    return repr(value if len(value) <= 80 else f"{value[:80]}…")


_WRITERS: Final[Mapping[str, Callable[[OutgoingMessage, Element], None]]] = MappingProxyType(
    {
        "at": _at,
        "quote": _quote,
        "img": _media,
        "audio": _media,
        "video": _media,
        "file": _file,
        "face": _face,
        "rps": _thrown,
        "dice": _thrown,
        "markdown": _own_words,
        "message": _own_words,
    }
)
