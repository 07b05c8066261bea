"""Where a text may be cut without breaking what a reader sees as one character.

Follows the extended grapheme clusters of Unicode Standard Annex 29 closely enough for cutting chat text: it never cuts
where the annex forbids it for emoji sequences, flags, combining marks, Hangul and Indic conjuncts, and it keeps a few
sequences together that the annex would let go. The rare prepended marks (Arabic number signs) are not covered.
"""

from __future__ import annotations

import unicodedata

__all__ = ["cut_at_or_after", "cut_at_or_before", "is_boundary"]

_ZWNJ = "\u200c"
_ZWJ = "\u200d"
_VIRAMA_CLASS = 9
_BREAKING = frozenset({"Cc", "Zl", "Zp"})
_MARKS = frozenset({"Mn", "Me", "Mc"})
_HANGUL_BASE = 0xAC00
_HANGUL_END = 0xD7A3
_HANGUL_TRAILERS = 28


def is_boundary(text: str, index: int) -> bool:
    """Return whether `text` may be cut before `index`, a code point offset."""
    if index <= 0 or index >= len(text):
        return True
    before, after = text[index - 1], text[index]
    if before < "\u0300" and after < "\u0300":
        return before != "\r" or after != "\n"
    if unicodedata.category(before) in _BREAKING or unicodedata.category(after) in _BREAKING:
        return True
    if _extends(after):
        return False
    if before == _ZWJ and not after.isspace():
        return False
    if _is_flag_half(before) and _is_flag_half(after):
        return _flag_halves_before(text, index) % 2 == 0
    if unicodedata.combining(before) == _VIRAMA_CLASS and unicodedata.category(after) == "Lo":
        return False
    return not _joins_hangul(before, after)


def cut_at_or_before(text: str, index: int) -> int:
    """Return the last boundary at or before `index`; 0 when the first character is longer than that."""
    while not is_boundary(text, index):
        index -= 1
    return max(0, min(index, len(text)))


def cut_at_or_after(text: str, index: int) -> int:
    """Return the first boundary at or after `index`."""
    while not is_boundary(text, index):
        index += 1
    return max(0, min(index, len(text)))


def _extends(character: str) -> bool:
    """Whether it belongs to what stands before it: marks, joiners, variation selectors, skin tones, flag tags."""
    return (
        unicodedata.category(character) in _MARKS
        or character in (_ZWJ, _ZWNJ)
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
        or character in "\uff9e\uff9f"
    )


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flag_halves_before(text: str, index: int) -> int:
    start = index
    while start and _is_flag_half(text[start - 1]):
        start -= 1
    return index - start


def _joins_hangul(before: str, after: str) -> bool:
    left, right = _hangul_kind(before), _hangul_kind(after)
    if left == "L":
        return right in ("L", "V", "LV", "LVT")
    if left in ("LV", "V"):
        return right in ("V", "T")
    return left in ("LVT", "T") and right == "T"


def _hangul_kind(character: str) -> str:
    code = ord(character)
    if 0x1100 <= code <= 0x115F or 0xA960 <= code <= 0xA97C:
        return "L"
    if 0x1160 <= code <= 0x11A7 or 0xD7B0 <= code <= 0xD7C6:
        return "V"
    if 0x11A8 <= code <= 0x11FF or 0xD7CB <= code <= 0xD7FB:
        return "T"
    if _HANGUL_BASE <= code <= _HANGUL_END:
        return "LVT" if (code - _HANGUL_BASE) % _HANGUL_TRAILERS else "LV"
    return ""
