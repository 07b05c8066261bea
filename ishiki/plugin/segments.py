"""The one table of OneBot v11 segment types, and the reading of a message into element markup.

Source: OneBot v11, message segments and message formats; the types beyond it are those that NapCat, Lagrange and
LLOneBot send. Elements are built, never written as text, so what a user typed is always escaped. Nothing here raises,
and nothing disappears: a type nobody knows becomes `<unknown type="…"/>`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from ishiki.content import Element, Node, Text, element, escape, parse, serialise
from ishiki.contracts.events import Quote, User
from ishiki.contracts.platform import ForwardNode
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_object, without_surrogates
from ishiki.plugin.cards import read_json_card, read_xml_card, web_url
from ishiki.plugin.cq_code import parse_cq
from ishiki.plugin.wire import read_id, read_text, read_time_ms

__all__ = ["SEGMENTS", "MessageContent", "SegmentSpec", "read_forward", "read_message"]

_MAX_NESTING: Final = 5
"""How deep forwards inside forwards are unfolded; below `ishiki.content`'s own limit, so that they read back."""

_STICKER_SUB_TYPES: Final = frozenset({"1", "2", "3", "7"})
"""`sub_type` of pictures that are stickers, not photos. Source: go-cqhttp and NapCat."""

_NO_CAPTION: Final = frozenset({"", "图片", "image"})
"""Captions that say nothing beyond "picture"."""


_NOTHING: Final[JsonObject] = {}
_FORMS: Final = (list, str, Mapping, Sequence)
"""What a message may be, the usual first: asking for some sequence takes long."""


@dataclass(frozen=True, slots=True)
class MessageContent:
    """What a message holds."""

    nodes: tuple[Node, ...]
    """Its content, without the quote."""

    quote: Quote | None = None
    """The first `reply` segment; a further one stays in the content."""

    @property
    def markup(self) -> str:
        """The content as element markup."""
        return serialise(self.nodes)


Reader: TypeAlias = Callable[[JsonObject, int], "Iterable[Node]"]
"""Reads a segment's data; the number is the nesting depth."""


@dataclass(frozen=True, slots=True)
class SegmentSpec:
    """One segment type."""

    name: str
    """The type on the wire."""

    is_standard: bool
    """Whether OneBot v11 has it; else it is an end's own."""

    read: Reader
    """Returns what the segment stands for."""


def read_message(message: JsonValue, *, fallback: JsonValue = None, depth: int = 0) -> MessageContent:
    """Read a message in any of its forms: a list of segments, one segment, or a string with CQ codes.

    Args:
        message: the `message` of an event.
        fallback: read where `message` is none of the forms, usually `raw_message`.
        depth: how many forwards the message is inside of.

    Returns:
        The content; empty for an empty or unreadable message.
    """
    nodes: list[Node] = []
    quote: Quote | None = None
    for kind, data in _segments(message, fallback):
        if kind == "reply" and quote is None and (quote := _quote(data)) is not None:
            continue
        spec = SEGMENTS.get(kind)
        read = list(spec.read(data, depth)) if spec is not None else [element("unknown", type=kind)]
        _join(nodes, read)
    return MessageContent(tuple(nodes), quote)


def read_forward(nodes: JsonValue, *, depth: int = 0) -> list[ForwardNode]:
    """Read the messages of a forwarded bundle, in order: `node` segments or message events, as ends send them."""
    return [_node(part, depth) for part in _entries(nodes)]


def _segments(message: JsonValue, fallback: JsonValue) -> Iterator[tuple[str, JsonObject]]:
    if not isinstance(message, _FORMS):
        message = fallback
    for part in _entries(message):
        if isinstance(part, str):
            yield "text", {"text": part}
        elif isinstance(part, Mapping):
            yield read_text(part, "type"), read_object(part, "data")
        elif part is not None:  # a null segment says nothing
            yield "", {}


def _entries(message: JsonValue) -> Sequence[JsonValue]:
    if isinstance(message, str):
        return parse_cq(message)
    if isinstance(message, Mapping):
        return (message,)
    return message if isinstance(message, Sequence) else ()


def _join(nodes: list[Node], more: Iterable[Node]) -> None:
    """Append `more`; `node` segments side by side are one bundle, not several."""
    for node in more:
        last = nodes[-1] if nodes else None
        if isinstance(node, Element) and isinstance(last, Element) and _is_loose(node) and _is_loose(last):
            nodes[-1] = Element("forward", (), (*last.children, *node.children))
        else:
            nodes.append(node)


def _is_loose(node: Element) -> bool:
    return node.name == "forward" and not node.attributes and bool(node.children)


def _quote(data: JsonObject) -> Quote | None:
    message_id = read_id(data, "id")
    if not message_id:
        return None
    author = read_id(data, "qq", "user_id")
    return Quote(message_id, escape(read_text(data, "text")), User(author) if author else None)


def _text(data: JsonObject, _depth: int) -> Iterable[Node]:
    text = data.get("text")
    # Not `read_text`: a text of spaces or of "0" is what was said.
    value = without_surrogates(text) if isinstance(text, str) else read_text(data, "text")
    return (Text(value),) if value else ()


def _at(data: JsonObject, _depth: int) -> Iterable[Node]:
    who = read_id(data, "qq", "user_id")
    if who == "all":
        return (element("at", type="all"),)
    if not who:
        return (element("unknown", type="at"),)
    return (element("at", id=who, name=read_text(data, "name")),)


def _face(data: JsonObject, _depth: int) -> Iterable[Node]:
    name = read_text(read_object(data, "raw"), "faceText") or read_text(data, "name")
    # Not `read_id`: 0 is a face.
    return (element("face", id=read_text(data, "id"), name=name.removeprefix("/")),)


def _media(data: JsonObject) -> dict[str, str | None]:
    """Return the source and the platform's own name of a piece of media. Bytes inside the segment are not kept."""
    file = read_text(data, "file")
    source = web_url(read_text(data, "url")) or (file if web_url(file) == file else "")
    return {"src": source or None, "file": _file_name(file) or _file_name(read_text(data, "file_id")) or None}


def _file_name(value: str) -> str:
    if value.startswith(("base64://", "data:")) or web_url(value) == value:
        return ""
    # What stands before the last slash is the layout of the end's own disk.
    return value.replace("\\", "/").rstrip("/").rpartition("/")[2]


def _image(data: JsonObject, _depth: int) -> Iterable[Node]:
    media = _media(data)
    summary = read_text(data, "summary").strip().strip("[]")
    return (
        element(
            "img",
            src=media["src"],
            type=_image_type(data),
            summary=None if summary in _NO_CAPTION else summary,
            file=media["file"],
        ),
    )


def _image_type(data: JsonObject) -> str | None:
    if read_text(data, "type") == "flash":
        return "flash"
    if read_text(data, "emoji_id", "emoji_package_id"):
        return "mface"
    return "sticker" if read_text(data, "sub_type", "subType") in _STICKER_SUB_TYPES else None


def _mface(data: JsonObject, _depth: int) -> Iterable[Node]:
    summary = read_text(data, "summary", "text").strip().strip("[]")
    return (element("img", src=_media(data)["src"], type="mface", summary=summary),)


def _record(data: JsonObject, _depth: int) -> Iterable[Node]:
    return (element("audio", **_media(data)),)


def _video(data: JsonObject, _depth: int) -> Iterable[Node]:
    return (element("video", **_media(data)),)


def _file(data: JsonObject, _depth: int) -> Iterable[Node]:
    media = _media(data)
    return (
        element(
            "file",
            src=media["src"],
            name=read_text(data, "name", "file_name", "fileName") or media["file"],
            size=read_text(data, "file_size", "size", "fileSize"),
            id=read_id(data, "file_id", "id"),
        ),
    )


def _thrown(tag: str) -> Reader:
    def read(data: JsonObject, _depth: int) -> Iterable[Node]:
        return (element(tag, result=read_text(data, "result", "value")),)

    return read


def _shake(_data: JsonObject, _depth: int) -> Iterable[Node]:
    return (element("shake"),)


def _poke(data: JsonObject, _depth: int) -> Iterable[Node]:
    kind, number = read_text(data, "type"), read_text(data, "id", "qq")
    return (element("poke", type=kind, id=number, name=read_text(data, "name")),)


def _anonymous(_data: JsonObject, _depth: int) -> Iterable[Node]:
    return (element("anonymous"),)


def _share(data: JsonObject, _depth: int) -> Iterable[Node]:
    return (
        element(
            "card",
            type="share",
            title=read_text(data, "title"),
            summary=read_text(data, "content"),
            url=web_url(read_text(data, "url")),
            src=web_url(read_text(data, "image")),
        ),
    )


def _contact(data: JsonObject, _depth: int) -> Iterable[Node]:
    return (element("card", type="contact", kind=read_text(data, "type"), id=read_id(data, "id")),)


def _location(data: JsonObject, _depth: int) -> Iterable[Node]:
    return (
        element(
            "card",
            type="location",
            title=read_text(data, "title"),
            summary=read_text(data, "content"),
            lat=read_text(data, "lat"),
            lon=read_text(data, "lon"),
        ),
    )


def _music(data: JsonObject, _depth: int) -> Iterable[Node]:
    return (
        element(
            "card",
            type="music",
            kind=read_text(data, "type"),
            title=read_text(data, "title"),
            summary=read_text(data, "content", "singer"),
            url=web_url(read_text(data, "url", "audio")),
            src=web_url(read_text(data, "image")),
            id=read_id(data, "id"),
        ),
    )


def _reply(data: JsonObject, _depth: int) -> Iterable[Node]:
    message_id = read_id(data, "id")
    return (element("quote", id=message_id) if message_id else element("unknown", type="reply"),)


def _forward(data: JsonObject, depth: int) -> Iterable[Node]:
    inside = read_array(data, "content") if depth < _MAX_NESTING else ()
    nodes = [_message(node) for node in read_forward(inside, depth=depth + 1)]
    return (element("forward", *nodes, id=read_id(data, "id", "resid")),)


def _loose_node(data: JsonObject, depth: int) -> Iterable[Node]:
    """Read a `node` outside a bundle: a reference by id, or a message of its own."""
    if "content" not in data or depth >= _MAX_NESTING:
        return (element("forward", id=read_id(data, "id")),)
    return (element("forward", _message(_node({"type": "node", "data": data}, depth + 1))),)


def _node(part: JsonValue, depth: int) -> ForwardNode:
    outer = part if isinstance(part, Mapping) else _NOTHING
    inner = read_object(outer, "data") if read_text(outer, "type") == "node" else outer
    sender = read_object(inner, "sender")
    # Ends differ: `content` or `message`, the author in `sender` or beside it, `uin`/`name` or `user_id`/`nickname`.
    content = read_message(inner.get("content"), fallback=inner.get("message"), depth=depth)
    nodes = content.nodes if content.quote is None else (element("quote", id=content.quote.id), *content.nodes)
    return ForwardNode(
        user_id=read_id(inner, "user_id", "uin") or read_id(sender, "user_id"),
        user_name=read_text(sender, "card", "nickname") or read_text(inner, "nickname", "name"),
        content=serialise(nodes),
        timestamp=read_time_ms(inner, "time") or 0,
    )


def _message(node: ForwardNode) -> Element:
    time = str(node.timestamp) if node.timestamp else None
    return element("message", *parse(node.content), user_id=node.user_id, name=node.user_name, time=time)


def _xml(data: JsonObject, _depth: int) -> Iterable[Node]:
    return (read_xml_card(data.get("data")),)


def _json(data: JsonObject, _depth: int) -> Iterable[Node]:
    return (read_json_card(data.get("data")),)


def _markdown(data: JsonObject, _depth: int) -> Iterable[Node]:
    source = read_text(data, "content", "data") or read_text(read_object(data, "content"), "content")
    return (element("markdown", *((Text(source),) if source else ())),)


def _keyboard(data: JsonObject, _depth: int) -> Iterable[Node]:
    rows = read_array(data, "rows") or read_array(read_object(data, "content"), "rows")
    labels = [label for row in rows for label in _labels(row)]
    return (element("card", *((Text(" | ".join(labels)),) if labels else ()), type="keyboard"),)


def _labels(row: JsonValue) -> Iterator[str]:
    for button in read_array(row, "buttons") if isinstance(row, Mapping) else ():
        if isinstance(button, Mapping):
            label = read_text(read_object(button, "render_data"), "label") or read_text(button, "label")
            if label:
                yield label


_ALL = (
    SegmentSpec("text", True, _text),
    SegmentSpec("face", True, _face),
    SegmentSpec("image", True, _image),
    SegmentSpec("record", True, _record),
    SegmentSpec("video", True, _video),
    SegmentSpec("at", True, _at),
    SegmentSpec("rps", True, _thrown("rps")),
    SegmentSpec("dice", True, _thrown("dice")),
    SegmentSpec("shake", True, _shake),
    SegmentSpec("poke", True, _poke),
    SegmentSpec("anonymous", True, _anonymous),
    SegmentSpec("share", True, _share),
    SegmentSpec("contact", True, _contact),
    SegmentSpec("location", True, _location),
    SegmentSpec("music", True, _music),
    SegmentSpec("reply", True, _reply),
    SegmentSpec("forward", True, _forward),
    SegmentSpec("node", True, _loose_node),
    SegmentSpec("xml", True, _xml),
    SegmentSpec("json", True, _json),
    SegmentSpec("mface", False, _mface),
    SegmentSpec("file", False, _file),
    SegmentSpec("onlinefile", False, _file),
    SegmentSpec("markdown", False, _markdown),
    SegmentSpec("keyboard", False, _keyboard),
)

SEGMENTS: Mapping[str, SegmentSpec] = MappingProxyType({spec.name: spec for spec in _ALL})
"""Every known segment type by its name on the wire. `docs/reference/segments.md` shows what each becomes."""
