r"""Line breaks that a model wrote out: the two characters `\n`, and `<br>`.

The two characters are a break only where they are surely meant. Linear.
"""

from __future__ import annotations

import re
from itertools import pairwise

from ishiki.content.code_spans import code_at, code_spans

__all__ = ["with_line_breaks"]

_BREAK_TAG = re.compile(r"[ \t]{0,9}<(?:br|BR)[ ]{0,3}/?>[ \t]{0,9}\n?")
_TOKEN = re.compile(r"[^\s]+")
_WRITTEN = re.compile(r"(?:\\r)?\\n")
_PATH = re.compile(r"[A-Za-z]:\\|^\\\\|(?:^|\\)\.\.?\\|%\w{1,40}%\\|\\[^nr\"'\\\s]|\\r(?!\\n)|\.\w{1,5}$", re.ASCII)
"""What makes a word a path of Windows, or a pattern: a drive, another letter behind a backslash, a file's ending."""

_IN_STRING = re.compile(r"[(=,{\[][\"'][^\"']{0,400}\Z")
_CODE_BEFORE = frozenset("[^|(\"'`\\")
_CODE_BEHIND = frozenset("]|+*?{)$\"'`")


def with_line_breaks(text: str) -> str:
    r"""Return `text` with written-out line breaks as such.

    `<br>` is one anywhere but in Markdown code. `\n` is one in a text that has no other line break, outside code, in a
    word that is no path (`C:\new`, `..\notes`, `src\new.py`) and no pattern or string (`[^\n]`, `print("a\nb")`,
    `\n+`), and where it does not stand alone between spaces, as in a sentence about it.
    """
    if "<" in text:
        text = _outside_code(_BREAK_TAG, text)
    if "\\n" not in text or "\n" in text.strip("\n"):
        return text
    spans = code_spans(text)
    return _TOKEN.sub(lambda word: word.group() if code_at(spans, word.start() + 1) else _broken(word.group()), text)


def _broken(word: str) -> str:
    if "\\" not in word or _WRITTEN.fullmatch(word) is not None:
        return word  # alone: somebody talks about it
    pieces = _WRITTEN.split(word)
    if _PATH.search(word) is not None and "\\n\\n" not in word and _is_ascii_word(pieces):
        return word
    if any(_is_code(left, right) for left, right in pairwise(pieces)):
        return word
    return "\n".join(pieces)


def _is_ascii_word(pieces: list[str]) -> bool:
    """Return whether every piece is what paths are made of; other scripts and signs are words."""
    return all(re.fullmatch(r"[\w.:\\%~$/+*?()\[\]^|{}-]*", piece, re.ASCII) is not None for piece in pieces)


def _is_code(left: str, right: str) -> bool:
    if _IN_STRING.search(left) is not None:
        return True
    return (left != "" and left[-1] in _CODE_BEFORE) or (right != "" and right[0] in _CODE_BEHIND)


def _outside_code(pattern: re.Pattern[str], text: str) -> str:
    spans = code_spans(text)
    return pattern.sub(lambda found: found.group() if code_at(spans, found.start() + 1) else "\n", text)
