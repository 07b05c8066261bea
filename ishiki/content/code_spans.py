"""Markdown code in a text: what stands there is shown as it is, and is nobody's markup, call or line."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

__all__ = ["code_at", "code_spans"]

_FENCE = re.compile(r"(?m)^[ \t]{0,9}(`{3,9}+|~{3,9}+)")
_SPAN = re.compile(r"(?<!`)`(?!`)[^`\n]{1,2000}+`(?!`)|(?<!`)``(?!`)[^\n]{1,2000}?(?<!`)``(?!`)")


def code_spans(text: str) -> list[tuple[int, int]]:
    """Return the Markdown code of `text`, fenced blocks and spans that are closed, as start and end in order."""
    if "`" not in text and "~~~" not in text:
        return []
    spans: list[tuple[int, int]] = []
    position = 0
    opened: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        if opened is None:
            opened = match
        elif match[1][0] == opened[1][0] and len(match[1]) >= len(opened[1]):
            spans.extend(_inline(text, position, opened.start()))
            end = text.find("\n", match.end())
            position = len(text) if end < 0 else end
            spans.append((opened.start(), position))
            opened = None
    spans.extend(_inline(text, position, len(text) if opened is None else opened.start()))
    return spans


def _inline(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for match in _SPAN.finditer(text, start, end):
        yield match.span()


def code_at(spans: Sequence[tuple[int, int]], position: int) -> tuple[int, int] | None:
    """Return the code in which `position` stands, its first character excepted; None where it stands in none."""
    index = bisect_right(spans, (position, len(spans) and spans[-1][1] + 1)) - 1
    if index >= 0 and spans[index][0] < position < spans[index][1]:
        return spans[index]
    return None
