"""Cutting content that is too long: a reply into several messages, a message down to what the model is shown.

Lengths are Unicode code points. Nothing here cuts inside an element or inside what a reader sees as one character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ishiki.content.graphemes import cut_at_or_before, is_boundary
from ishiki.content.markup import Element, Node, Text, parse, serialise

__all__ = ["shorten_markup", "split_reply", "split_text"]

_SMALLEST_SHARE = 4
"""A good place to cut counts only behind the first quarter of a piece, so that pieces do not become crumbs."""

_LOOKAHEAD_CHARS = 16
"""How far behind the limit closing quotes are looked for, so that they are not cut off their sentence."""

_PLACEHOLDER = "\ufffc"
_CLOSERS = "”’)）」』】》\\]"
_BREAKS = (
    re.compile(r"(?=\r?\n[^\S\n]*+\n)"),
    re.compile(r"(?=\r?\n)"),
    re.compile(
        rf"""(?:[。！？…｡]|(?<![!?.])[!?.]++(?=[\s"'{_CLOSERS}]))++(?:[{_CLOSERS}]|["'](?=\s))*+(?=[^{_CLOSERS}。！？…｡!?.])"""
    ),
    re.compile(rf"(?:[，、；：]|[,;:](?=\s))[{_CLOSERS}]*+"),
    re.compile(r"(?=\s)"),
)
"""Where to cut, best first: between paragraphs, lines, sentences, clauses, words."""


@dataclass(frozen=True, slots=True)
class _Tape:
    """Nodes laid out as one text in which an element is a run of placeholders."""

    text: str
    spans: tuple[tuple[int, int, Node], ...]
    inside: frozenset[int]
    """Offsets inside an element."""

    def allows(self, index: int) -> bool:
        return index not in self.inside and is_boundary(self.text, index)

    def nodes(self, start: int, end: int) -> tuple[Node, ...]:
        found: list[Node] = []
        for first, last, node in self.spans:
            if first >= end or last <= start:
                continue
            if isinstance(node, Text):
                node = Text(self.text[max(first, start) : min(last, end)])
            found.append(node)
        return tuple(found)


def split_reply(nodes: Sequence[Node], limit: int) -> tuple[tuple[Node, ...], ...]:
    """Split what the model said into messages of at most `limit` characters.

    An element counts as what a reader sees of it: a mention as its name, anything else as one character. Only an
    element or a visible character that is longer than the limit by itself makes a longer piece.

    Args:
        nodes: the reply.
        limit: characters per message, at least 1.

    Returns:
        The pieces in order, each without white space at its edges and none empty; the reply unchanged when it fits.
        Joined, they give the reply back but for the white space at the cuts.

    Raises:
        ValueError: `limit` is below 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1 character, not {limit}")
    tape = _lay_out(nodes)
    if not tape.text or tape.text.isspace():
        return ()
    if len(tape.text) <= limit:
        return (tuple(nodes),)
    pieces: list[tuple[Node, ...]] = []
    start, end = _trim(tape.text, 0, len(tape.text))
    while start < end:
        cut = _find_cut(tape, start, end, limit)
        first, last = _trim(tape.text, start, cut)
        if first < last:
            pieces.append(tape.nodes(first, last))
        start, _ = _trim(tape.text, cut, end)
    return tuple(pieces)


def split_text(text: str, limit: int) -> tuple[str, ...]:
    """Split plain text the same way.

    Raises:
        ValueError: `limit` is below 1.
    """
    pieces = split_reply((Text(text),), limit)
    return tuple("".join(node.value for node in piece if isinstance(node, Text)) for piece in pieces)


def _lay_out(nodes: Iterable[Node]) -> _Tape:
    parts: list[str] = []
    spans: list[tuple[int, int, Node]] = []
    inside: set[int] = set()
    position = 0
    for node in nodes:
        shown = node.value if isinstance(node, Text) else _PLACEHOLDER * _width(node)
        end = position + len(shown)
        if isinstance(node, Element):
            inside.update(range(position + 1, end))
        parts.append(shown)
        spans.append((position, end, node))
        position = end
    return _Tape("".join(parts), tuple(spans), frozenset(inside))


def _width(node: Element) -> int:
    if node.name == "at":
        return 1 + len(node.get("name") or node.get("id"))
    return max(1, sum(len(child.value) if isinstance(child, Text) else _width(child) for child in node.children))


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave white space at both edges out, but not a space that carries a combining mark."""
    while end > start and text[end - 1].isspace():
        end -= 1
    while start < end and text[start].isspace() and is_boundary(text, start + 1):
        start += 1
    return start, end


def _find_cut(tape: _Tape, start: int, end: int, limit: int) -> int:
    """Return where the piece that begins at `start` ends: at most `limit` further on, if that is possible."""
    farthest = start + limit
    if farthest >= end:
        return end
    nearest = start + max(1, limit // _SMALLEST_SHARE)
    for pattern in _BREAKS:
        found = 0
        for match in pattern.finditer(tape.text, nearest - 1, min(end, farthest + _LOOKAHEAD_CHARS)):
            if match.end() > farthest:
                break
            if match.end() >= nearest and tape.allows(match.end()):
                found = match.end()
        if found:
            return found
    cut = farthest
    while cut > start and not tape.allows(cut):
        cut -= 1
    if cut > start:
        return cut
    cut = farthest + 1
    while cut < end and not tape.allows(cut):
        cut += 1
    return cut


def shorten_markup(content: str, limit: int) -> str:
    """Return content of which about `limit` characters stay, with a note of how many are missing.

    Args:
        content: markup; returned as it is when not longer than `limit`.
        limit: characters of text and attribute values that stay. An element that does not fit is left out.

    Returns:
        Well-formed markup, longer than the limit only by tags, references and the note.
    """
    if len(content) <= limit:
        return content
    budget = _Budget(limit)
    kept = serialise(_shorten(parse(content), budget))
    if not budget.is_spent:
        return kept
    return f"{kept} [… {max(1, len(content) - len(kept))} more characters]"


@dataclass(slots=True)
class _Budget:
    left: int
    is_spent: bool = False


def _shorten(nodes: Iterable[Node], budget: _Budget) -> list[Node]:
    kept: list[Node] = []
    for node in nodes:
        if budget.is_spent:
            break
        if isinstance(node, Text):
            text = node.value
            if len(text) > budget.left:
                text = text[: cut_at_or_before(text, budget.left)]
                budget.is_spent = True
            budget.left -= len(text)
            kept.append(Text(text))
            continue
        cost = 1 + sum(len(value) for _, value in node.attributes)
        if cost > budget.left:
            budget.is_spent = True
            break
        budget.left -= cost
        kept.append(Element(node.name, node.attributes, tuple(_shorten(node.children, budget))))
    return kept
