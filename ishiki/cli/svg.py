"""What the plots have in common: text that any viewer takes, and axes with round numbers. Pure."""

from __future__ import annotations

import math
import re
from html import escape

__all__ = ["FAINT", "GRID", "INK", "escaped", "round_scale", "text_at"]

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may hold, not even escaped."""

INK, FAINT, GRID = "#1f2933", "#52606d", "#e4e7eb"


def round_scale(most: int) -> tuple[int, int]:
    """Return the top of an axis that reaches `most`, and the distance of its lines.

    The distance is 1, 2 or 5 times a power of ten, and there are at most six lines.
    """
    step = 1
    while step * 5 < most:
        step = step * 5 // 2 if str(step).startswith("2") else step * 2
    return step * max(1, math.ceil(most / step)), step


def text_at(
    x: float, y: float, content: str, *, anchor: str = "start", size: int = 12, weight: str = "400", fill: str = INK
) -> str:
    """Return a text element whose `anchor` (start, middle, end) stands at the point."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="{fill}">{escaped(content)}</text>'
    )


def escaped(content: str) -> str:
    """Return `content` as it may stand in XML; what may not is U+FFFD."""
    return escape(_NOT_XML.sub("\ufffd", content))
