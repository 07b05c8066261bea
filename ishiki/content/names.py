"""Names and ids as they may stand in a line for the model.

A name is chosen by its owner, so it is hostile: it may hold line separators, direction marks, or the very shapes that
tell one speaker from another. `clean_name` makes it one visible line; `line_name` also takes away the characters that a
line's head is built of. Ids come from the platform and get the same treatment.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from ishiki.content.graphemes import cut_at_or_before

__all__ = ["MAX_ID_CHARS", "MAX_NAME_CHARS", "clean_name", "line_id", "line_name"]

MAX_NAME_CHARS = 64
"""A longer name is cut and ends in an ellipsis; the longest group cards in use are 60 bytes."""

MAX_ID_CHARS = 256
"""An id is worth nothing when cut, so it may be longer than any platform's."""

_MAX_INPUT_CHARS = 1024
"""What of a name is looked at: bounds the work and what the cache holds."""

_TO_FULL_WIDTH = 0xFEE0

_STRUCTURE = {ord(character): ord(character) + _TO_FULL_WIDTH for character in "()[]#:<>&"}
"""A line's head is built of these; their full-width forms read the same and build nothing."""

_KEPT_FORMAT = re.compile("[\u200c\u200d\U000e0020-\U000e007f]")
_SUSPECT = re.compile("[()\\[\\]#:<>&\u115f\u1160\u2800\u3164\uffa0]|^ | $|  ")
_INVISIBLE = re.compile("[\\s\u115f\u1160\u2800\u3164\uffa0\u200c\u200d\ufe00-\ufe0f\U000e0000-\U000e01ef]")
_DROPPED = frozenset({"Cc", "Cf", "Cs"})
_SPACE = re.compile(r"\s+")


def clean_name(name: str, fallback: str) -> str:
    """Return `name` as one visible line of at most `MAX_NAME_CHARS` characters.

    Control characters, direction marks, invisible formatting (except what joins emoji) and lone surrogates are
    dropped; any white space, line separators included, becomes one space.

    Args:
        name: what the platform gave.
        fallback: returned when nothing visible is left, usually the user's id.
    """
    return _clean(name[:_MAX_INPUT_CHARS], MAX_NAME_CHARS) or fallback


@lru_cache(maxsize=4096)
def _clean(name: str, limit: int) -> str:
    kept = "".join(_kept(character) for character in name)
    if not _INVISIBLE.sub("", kept):
        return ""
    kept = _SPACE.sub(" ", kept).strip(" ")
    if len(kept) <= limit:
        return kept
    cut = cut_at_or_before(kept, limit - 1) or limit - 1
    return kept[:cut].rstrip(" ") + "…"


def _kept(character: str) -> str:
    if character.isspace():
        return " "
    if unicodedata.category(character) in _DROPPED and _KEPT_FORMAT.match(character) is None:
        return ""
    return character


def line_name(name: str, user_id: str) -> str:
    """Return the name for a line's head: clean, and without the characters a head is built of.

    Args:
        name: what the platform gave; the id stands in when nothing visible is left of it.
        user_id: the user's id, see `line_id`.
    """
    if len(name) <= MAX_NAME_CHARS and name and name.isprintable() and _SUSPECT.search(name) is None:
        return name
    cleaned = clean_name(name, "")
    return cleaned.translate(_STRUCTURE) if cleaned else line_id(user_id)


def line_id(value: str) -> str:
    """Return an id for a line's head: one word without the characters a head is built of; `unknown` when empty."""
    if value.isascii() and value.isalnum() and len(value) <= MAX_ID_CHARS:
        return value
    word = _clean(value[:_MAX_INPUT_CHARS], MAX_ID_CHARS).replace(" ", "_").translate(_STRUCTURE)
    return word or "unknown"
