"""Taking a model's reasoning out of what it says.

Some models write their reasoning between `<think>` tags into the text itself. When in doubt text is removed: a group
must never see reasoning, and a caller reports what became empty.
"""

from __future__ import annotations

import re

__all__ = ["strip_think"]

_TAG = re.compile(r"<\s*(/?)\s*(?:think|thinking|thought|reasoning)(?:\s*(/?)>|\s[^<>]*>|\s*\Z)", re.IGNORECASE)
"""Any member of the family opens and closes any other; attributes are allowed; the last tag may be torn off."""


def strip_think(text: str) -> str:
    """Return `text` without reasoning.

    A pair goes with what it holds, nested pairs with the outermost; an opening tag that is never closed goes with
    everything behind it; a closing tag that was never opened goes with everything before it. Tags are
    `think`, `thinking`, `thought` and `reasoning`, in any case, with or without attributes.

    Returns:
        What is left, without white space at its edges; `text` itself when it holds no such tag.
    """
    kept: list[str] = []
    depth = position = 0
    is_changed = False
    for tag in _TAG.finditer(text):
        is_changed = True
        if depth == 0:
            kept.append(text[position : tag.start()])
        position = tag.end()
        if tag.group(2):  # <think/> holds nothing
            continue
        if not tag.group(1):
            depth += 1
        elif depth:
            depth -= 1
        else:
            kept.clear()
    if not is_changed:
        return text
    if depth == 0:
        kept.append(text[position:])
    return "".join(kept).strip()
