"""JSON and XML cards: what a person sees of the box that the client draws, in place of kilobytes of layout.

The layouts are QQ's and documented nowhere; the field names are those that real cards carry. A card in which nothing is
recognised keeps its source as its content, so that nothing disappears. Card texts come from strangers: the XML reader
takes no document type, hence no entity and no external reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from xml.etree import ElementTree

from ishiki.content import Element, Text, element
from ishiki.jsonvalue import JsonObject, JsonValue, read_object
from ishiki.plugin.wire import decode, read_id, read_text

__all__ = ["read_json_card", "read_xml_card", "web_url"]

_MAX_SOURCE_CHARS: Final = 256 * 1024
"""A longer source is not looked into; real cards have up to 10 KiB."""

_DECLARATION = re.compile(r"<!(?!--|\[CDATA\[)")
"""A document type or entity declaration: no card has one, and every XML hazard needs one."""

_WEB_URL = re.compile(r"https?://[^\s]+", re.IGNORECASE)
_HOST_FIRST = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+/[^\s]*")

_TITLE_KEYS: Final = ("title", "nickname", "name")
_SUMMARY_KEYS: Final = ("desc", "text", "summary", "contact", "address", "source")
_URL_KEYS: Final = ("jumpUrl", "qqdocurl", "url")
_PICTURE_KEYS: Final = ("preview", "cover", "avatar", "icon")


def web_url(value: str) -> str:
    """Return `value` where it is an http(s) address, completed where cards leave the scheme out; else ""."""
    value = value.strip()
    if _WEB_URL.fullmatch(value):
        return value
    return f"https://{value}" if _HOST_FIRST.fullmatch(value) else ""


def read_json_card(data: JsonValue) -> Element:
    """Return the element for a JSON card.

    Args:
        data: the card's JSON, as text (the standard) or decoded already (some ends).
    """
    source = data if isinstance(data, str) else ""
    card = _decoded(source) if source else data
    if not isinstance(card, Mapping):
        return _unread("json", source)
    app, meta = read_text(card, "app"), read_object(card, "meta")
    if app == "com.tencent.multimsg" and (forward_id := read_id(read_object(meta, "detail"), "resid")):
        return element("forward", id=forward_id)
    facts = next((found for found in _described(meta) if _title(found)), None)
    title = _title(facts) if facts is not None else ""
    summary = read_text(facts, *_SUMMARY_KEYS) if facts is not None else ""
    title = title or read_text(card, "prompt").strip() or read_text(card, "desc")
    if not title and not summary:
        return _unread("json", source, app=app)
    return element(
        "card",
        type="json",
        title=title,
        summary=summary if summary != title else None,
        url=web_url(read_text(facts, *_URL_KEYS)) if facts is not None else None,
        src=web_url(read_text(facts, *_PICTURE_KEYS)) if facts is not None else None,
        app=app,
    )


def _decoded(source: str) -> JsonValue:
    if len(source) > _MAX_SOURCE_CHARS:
        return None
    try:
        return decode(source)
    except ValueError:
        return None


def _described(meta: JsonObject) -> Iterator[JsonObject]:
    """Yield the objects of `meta` that may describe the card: `meta.<view>`, then one level deeper."""
    views = [view for view in meta.values() if isinstance(view, Mapping)]
    yield from views
    for view in views:
        yield from (part for part in view.values() if isinstance(part, Mapping))


def _title(facts: JsonObject) -> str:
    return read_text(facts, *_TITLE_KEYS).strip()


def read_xml_card(data: JsonValue) -> Element:
    """Return the element for an XML card; a merged-forward card becomes a `forward`."""
    source = data if isinstance(data, str) else ""
    root = _parsed(source)
    if root is None:
        return _unread("xml", source)
    if root.get("action") == "viewMultiMsg" and (forward_id := root.get("m_resid", "")):
        return element("forward", id=forward_id)
    title = _first_text(root, "title")
    summary = _first_text(root, "summary")
    picture = next(root.iter("picture"), None)
    cover = picture.get("cover", "") if picture is not None else ""
    title = title or root.get("brief", "").strip()
    if not title and not summary:
        return _unread("xml", source)
    return element(
        "card", type="xml", title=title, summary=summary, url=web_url(root.get("url", "")), src=web_url(cover)
    )


def _parsed(source: str) -> ElementTree.Element | None:
    if not source or len(source) > _MAX_SOURCE_CHARS or _DECLARATION.search(source):
        return None
    # The encoding named in the head is that of the bytes once sent; the text is decoded already.
    body = re.sub(r"^\s*<\?xml[^>]*\?>", "", source, count=1)
    try:
        return ElementTree.fromstring(body)
    except (ElementTree.ParseError, ValueError):
        return None


def _first_text(root: ElementTree.Element, tag: str) -> str:
    texts = ("".join(found.itertext()).strip() for found in root.iter(tag))
    return next((text for text in texts if text), "")


def _unread(kind: str, source: str, **attributes: str) -> Element:
    content = (Text(source),) if source else ()
    return element("card", *content, type=kind, **attributes)
