"""What a message says and whom it addresses, read from its markup.

All readers here take content as it is stored, never raise, and are cheap for plain text. A sender's own words are the
text outside elements, and inside `markdown`; what a forwarded message or a card holds was written by someone else, so
it neither mentions nor matches (our choice).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from ishiki.content.graphemes import cut_at_or_before
from ishiki.content.markup import Element, Node, Text, parse
from ishiki.content.tags import TAGS

__all__ = ["contains_keyword", "is_at_all", "is_at_self", "plain_preview", "visible_text"]

EVERYONE = "all"
"""The `type` of an `at` that addresses everyone."""

_SPACE = re.compile(r"\s+")
_DROPPED = frozenset({"Cc", "Cs"})


def is_at_self(content: str, self_id: str) -> bool:
    """Return whether the sender addresses `self_id` by an `<at>`; addressing everyone is not it.

    Source: specification, mention test (substring first, then the parsed elements).
    """
    return bool(self_id) and any(at.get("id") == self_id and at.get("type") != EVERYONE for at in _mentions(content))


def is_at_all(content: str) -> bool:
    """Return whether the sender addresses everyone."""
    return any(at.get("type") == EVERYONE for at in _mentions(content))


def _mentions(content: str) -> Iterator[Element]:
    if "<at" in content:
        yield from (node for node in _own(parse(content)) if isinstance(node, Element) and node.name == "at")


def _own(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield texts and elements of the sender's own words, in order; containers of them before their content."""
    for node in nodes:
        yield node
        if isinstance(node, Element) and node.children and TAGS[node.name].is_own_words:
            yield from _own(node.children)


def visible_text(content: str) -> str:
    """Return the sender's own words as plain text: no elements, references read."""
    if "<" not in content and "&" not in content:
        return content
    return "".join(_texts(content))


def _texts(content: str) -> Iterator[str]:
    return (node.value for node in _own(parse(content)) if isinstance(node, Text))


def contains_keyword(content: str, keywords: Iterable[str]) -> bool:
    """Return whether any keyword that is not empty stands in the sender's own words.

    Plain and case-sensitive, as the specification has it; never across an element.
    """
    wanted = [keyword for keyword in keywords if keyword]
    if not wanted:
        return False
    if "<" not in content and "&" not in content:
        return any(keyword in content for keyword in wanted)
    return any(keyword in text for text in _texts(content) for keyword in wanted)


def plain_preview(content: str, limit: int) -> str:
    """Return one line of plain text for a message: its words, and elements as `@Rin`, `[image]`, `[file: a.txt]`.

    White space is folded and control characters are dropped. The result is not escaped.

    Args:
        content: markup.
        limit: how many code points may stay; what is longer is cut between visible characters and ends in `…`.
    """
    pieces: list[str] = []
    length = 0
    for piece in _preview_pieces(parse(content)):
        folded = _SPACE.sub(" ", piece)
        pieces.append(folded)
        length += len(folded)
        if length > 2 * limit + 16:  # enough: folding at the seams and dropped controls are rare
            break
    line = _SPACE.sub(" ", "".join(pieces)).strip()
    if not line.isprintable():
        line = "".join(character for character in line if unicodedata.category(character) not in _DROPPED)
    if len(line) <= limit:
        return line
    return line[: cut_at_or_before(line, limit)].rstrip() + "…"


def _preview_pieces(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, Text):
            yield node.value
            continue
        spec = TAGS[node.name]
        if node.name == "at":
            yield "@everyone" if node.get("type") == EVERYONE else f"@{node.get('name') or node.get('id')}"
        elif spec.is_own_words:
            yield from _preview_pieces(node.children)
        elif spec.label:
            detail = next((value for key in spec.detail if (value := node.get(key))), "").strip("[]")
            yield f"[{spec.label}: {detail}]" if detail else f"[{spec.label}]"
