"""How a text was made, as far as it shows: whether it repeats another, whether a person could have typed it. Pure."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from ishiki.content import Text, parse

__all__ = ["is_like", "is_typed_too_fast", "plain_words"]

_KEPT_CHARS = 120
"""Of each text; longer ones are told apart by how they begin. Our choice."""

_LEAST_CHARS = 3
"""Shorter texts repeat each other among people as well: "ok", "A", a number."""

_LIKE = 0.6
"""Share of the pairs of characters that two texts must have in common. Our choice: a template with one word changed."""

_MOST_CHARS_A_SECOND = 15.0
"""Twice what a very fast typist does over a sentence (90 words a minute are 7.5), and nothing is left for reading."""

_WIDE = 2.5
"""Key strokes of one character that an input method makes, against one of a Latin letter. Our choice."""

_LEAST_STROKES = 20.0
"""Fewer are a word that was on somebody's mind, a paste or a button."""


def plain_words(content: str) -> str:
    """Return what of a message's markup tells it from another: its words, with every number as one sign."""
    words = "".join(node.value for node in parse(content) if isinstance(node, Text))
    words = " ".join(unicodedata.normalize("NFKC", words).casefold().split())
    return re.sub(r"\d+", "#", words)[:_KEPT_CHARS]


def is_like(words: str, other: str) -> bool:
    """Whether two texts of `plain_words` are the same, up to a part of a template."""
    if min(len(words), len(other)) < _LEAST_CHARS:
        return False
    pairs, others = _pairs(words), _pairs(other)
    return len(pairs & others) >= _LIKE * len(pairs | others)


def is_typed_too_fast(words: str, within_ms: int) -> bool:
    """Whether nobody types `words` in so many milliseconds."""
    strokes = sum(_WIDE if unicodedata.east_asian_width(char) in "WF" else 1.0 for char in words)
    return strokes >= _LEAST_STROKES and strokes * 1000 > _MOST_CHARS_A_SECOND * max(within_ms, 1)


@lru_cache(maxsize=512)  # each text is compared with every one that comes after it for a while
def _pairs(words: str) -> frozenset[str]:
    return frozenset(words[at : at + 2] for at in range(len(words) - 1))
