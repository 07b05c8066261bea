"""Element markup: parsing and writing a message's content.

Content is text in which `&`, `<` and `>` are written `&amp;`, `&lt;`, `&gt;`, with elements such as
`<at id="42" name="Rin"/>` between. Parsing takes whatever a model or an old log holds: it never raises, and what is no
element of `tags.TAGS` is text. The grammar is in `docs/formats/markup.md`. This module knows nothing of platforms.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from ishiki.content.tags import TAGS

__all__ = [
    "Element",
    "Node",
    "Text",
    "canonical",
    "element",
    "escape",
    "escape_attribute",
    "map_text",
    "parse",
    "serialise",
    "unescape",
]

MAX_DEPTH = 16
"""Containers inside containers beyond this are text: clients nest forwards a few deep, and readers recurse."""

MAX_ATTRIBUTES = 32
"""A tag with more attributes is text; bounds the work a hostile text can cause."""

_ATTRIBUTE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]*")
_TAG = re.compile(r"</?([a-z]+)")
_ATTRIBUTE = re.compile(
    r"""\s++([A-Za-z_][A-Za-z0-9_.:-]*+)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'<>=`]+?)(?=\s|/?>))"""
)
_TAG_END = re.compile(r"\s*+(/?)>")
_REFERENCE = re.compile(r"&(?:(lt|gt|amp|quot|apos)|#([0-9]{1,7})|#x([0-9A-Fa-f]{1,6}));")
_NEEDS_ESCAPE = re.compile(r"[&<>]")
_NEEDS_ATTRIBUTE_ESCAPE = re.compile('[&<>"\x00-\x1f\x7f-\x9f\u2028\u2029]')
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


@dataclass(frozen=True, slots=True)
class Text:
    """A run of plain text, not escaped."""

    value: str


@dataclass(frozen=True, slots=True)
class Element:
    """One element.

    Raises:
        ValueError: an unknown tag, an attribute name that cannot be written, or content in a tag that holds none.
    """

    name: str
    """A key of `tags.TAGS`."""

    attributes: tuple[tuple[str, str], ...] = ()
    """Names and plain values, each name once, in the order written."""

    children: tuple[Node, ...] = ()
    """The content; always empty unless the tag is a container."""

    def __post_init__(self) -> None:
        """Refuse what could not be written and read back."""
        spec = TAGS.get(self.name)
        if spec is None:
            raise ValueError(f"unknown tag {self.name!r}; the known ones are {', '.join(TAGS)}")
        if self.children and not spec.is_container:
            raise ValueError(f"<{self.name}> holds no content")
        for name, _ in self.attributes:
            if _ATTRIBUTE_NAME.fullmatch(name) is None:
                raise ValueError(f"{name!r} cannot be the name of an attribute")

    def get(self, name: str, default: str = "") -> str:
        """Return the attribute's value, or `default` when it is absent."""
        for key, value in self.attributes:
            if key == name:
                return value
        return default


Node: TypeAlias = Text | Element
"""One piece of content."""


def element(tag: str, /, *children: Node, **attributes: str | None) -> Element:
    """Build an element; an attribute that is None or empty is left out.

    Args:
        tag: a known tag.
        *children: its content, for containers.
        **attributes: plain values, in the order to write them.

    Raises:
        ValueError: see `Element`.
    """
    return Element(tag, tuple((key, value) for key, value in attributes.items() if value), children)


def escape(text: str) -> str:
    """Write plain text as markup; `unescape` gives it back exactly."""
    if _NEEDS_ESCAPE.search(text) is None:
        return text
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_attribute(value: str) -> str:
    """Write a plain value for use between double quotes.

    Control characters and line separators become numeric references, so that a tag never spans lines.
    """
    return _NEEDS_ATTRIBUTE_ESCAPE.sub(_attribute_reference, value)


def _attribute_reference(match: re.Match[str]) -> str:
    character = match.group()
    return _ESCAPES.get(character) or f"&#{ord(character)};"


def unescape(markup: str) -> str:
    """Read character references (`&lt; &gt; &amp; &quot; &apos;`, decimal, hexadecimal); any other `&` is text."""
    return _REFERENCE.sub(_referenced, markup) if "&" in markup else markup


def _referenced(match: re.Match[str]) -> str:
    name, decimal, hexadecimal = match.groups()
    if name is not None:
        return _NAMED[name]
    code = int(decimal) if decimal is not None else int(hexadecimal, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return match.group()
    return chr(code)


def serialise(nodes: Iterable[Node]) -> str:
    """Write nodes as markup. `parse` gives them back, with neighbouring texts merged and empty ones dropped."""
    parts: list[str] = []
    for node in nodes:
        if isinstance(node, Text):
            parts.append(escape(node.value))
            continue
        head = "".join([f"<{node.name}", *(f' {name}="{escape_attribute(value)}"' for name, value in node.attributes)])
        content = serialise(node.children)
        parts.append(f"{head}>{content}</{node.name}>" if content else f"{head}/>")
    return "".join(parts)


def map_text(nodes: Iterable[Node], change: Callable[[str], str]) -> tuple[Node, ...]:
    """Return the nodes with `change` applied to every text, also inside containers; texts that become empty leave."""
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Element):
            result.append(Element(node.name, node.attributes, map_text(node.children, change)))
        elif value := change(node.value):
            result.append(Text(value))
    return tuple(result)


def canonical(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return the nodes with attributes under the names that `tags.TAGS` lists, where a model used another for it."""
    return tuple(_canonical(node) if isinstance(node, Element) else node for node in nodes)


def _canonical(element: Element) -> Element:
    aliases = dict(TAGS[element.name].aliases)
    given = {name for name, _ in element.attributes}
    attributes: dict[str, str] = {}
    for name, value in element.attributes:
        meant = aliases.get(name.lower().replace("-", "_"), name)
        # The proper name counts where both are there.
        attributes.setdefault(name if meant in given else meant, value)
    return Element(element.name, tuple(attributes.items()), canonical(element.children))


def parse(markup: str) -> tuple[Node, ...]:
    """Read markup. Never raises, and no text is lost.

    An unknown tag, a stray `<` or `&`, a closing tag without its opening one and a container that is never closed are
    text. An empty tag needs no slash (`<at id="42">`). Linear in the length of `markup`.

    Returns:
        The nodes in order; two texts never stand side by side and none is empty.
    """
    if "<" not in markup:
        return (Text(unescape(markup)),) if markup else ()
    return _Parser(markup).run()


@dataclass(slots=True)
class _Frame:
    """An open container: its parts so far, text still raw."""

    name: str
    source: str
    attributes: tuple[tuple[str, str], ...]
    parts: list[str | Element] = field(default_factory=list[str | Element])
    unclosed: Counter[str] = field(default_factory=Counter[str])


class _Parser:
    def __init__(self, markup: str) -> None:
        self._markup = markup
        self._frames = [_Frame("", "", ())]
        self._open: Counter[str] = Counter()

    def run(self) -> tuple[Node, ...]:
        markup, position = self._markup, 0
        while (start := markup.find("<", position)) >= 0:
            if start > position:
                self._frames[-1].parts.append(markup[position:start])
            position = self._tag(start)
        self._frames[-1].parts.append(markup[position:])
        while len(self._frames) > 1:
            self._unwrap()
        return _nodes(self._frames[0].parts)

    def _tag(self, start: int) -> int:
        """Take the tag at `start` (the index of a `<`), or that `<` as text; return where to go on."""
        match = _TAG.match(self._markup, start)
        end = None
        if match is not None and match.group(1) in TAGS:
            is_closing = self._markup.startswith("</", start)
            end = self._closing(match) if is_closing else self._opening(start, match)
        if end is None:
            self._frames[-1].parts.append("<")
            return start + 1
        return end

    def _opening(self, start: int, match: re.Match[str]) -> int | None:
        name, position = match.group(1), match.end()
        attributes: dict[str, str] = {}
        while (found := _ATTRIBUTE.match(self._markup, position)) is not None:
            if found.group(1) in attributes or len(attributes) == MAX_ATTRIBUTES:
                return None
            attributes[found.group(1)] = unescape(found.group(found.lastindex or 0))
            position = found.end()
        end = _TAG_END.match(self._markup, position)
        if end is None:
            return None
        pairs = tuple(attributes.items())
        frame = self._frames[-1]
        if end.group(1) or not TAGS[name].is_container:
            frame.parts.append(Element(name, pairs))
            if not end.group(1):
                frame.unclosed[name] += 1
        elif len(self._frames) > MAX_DEPTH:
            return None
        else:
            self._frames.append(_Frame(name, self._markup[start : end.end()], pairs))
            self._open[name] += 1
        return end.end()

    def _closing(self, match: re.Match[str]) -> int | None:
        name = match.group(1)
        end = _TAG_END.match(self._markup, match.end())
        if end is None or end.group(1):
            return None
        if not TAGS[name].is_container:
            unclosed = self._frames[-1].unclosed
            if not unclosed[name]:
                return None
            unclosed[name] -= 1
        elif not self._open[name]:
            return None
        else:
            while self._frames[-1].name != name:
                self._unwrap()
            frame = self._pop()
            self._frames[-1].parts.append(Element(name, frame.attributes, _nodes(frame.parts)))
        return end.end()

    def _pop(self) -> _Frame:
        frame = self._frames.pop()
        self._open[frame.name] -= 1
        return frame

    def _unwrap(self) -> None:
        """Give up a container that was never closed: its tag is text, its content its parent's."""
        frame = self._pop()
        self._frames[-1].parts += [frame.source, *frame.parts]


def _nodes(parts: list[str | Element]) -> tuple[Node, ...]:
    """Merge neighbouring raw texts and read their references."""
    nodes: list[Node] = []
    run: list[str] = []
    for part in parts:
        if isinstance(part, str):
            run.append(part)
            continue
        if text := unescape("".join(run)):
            nodes.append(Text(text))
        run.clear()
        nodes.append(part)
    if text := unescape("".join(run)):
        nodes.append(Text(text))
    return tuple(nodes)
