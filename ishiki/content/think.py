"""Taking a model's reasoning out of what it says.

Some models write their reasoning between `<think>` tags into the text itself. When in doubt text is removed: a group
must never see reasoning, and a caller reports what became empty.
"""

from __future__ import annotations

import re

__all__ = ["strip_think"]

_TAG = re.compile(
    r"<\s{0,9}+(?P<a>/?)\s{0,9}+(?:seed:|antml:|mm:|minimax:)?(?:think(?:ing)?|thoughts?|reasoning|inner_thoughts)"
    r"(?:\s{0,9}+(?P<empty>/?)>|\s[^<>]{0,500}+>|\s{0,999}+\Z)"
    r"|◁(?P<b>/?)think▷"
    r"|\[(?P<c>/?)THINK\]"
    r"|<\|(?:START|(?P<d>END))_THINKING\|>"
    r"|<\|(?:begin|(?P<e>end))_of_thought\|>"
    r"|<\|(?:open|(?P<f>close))\|>think<\|sep\|>"
    r"|<\|channel\|>analysis[^<>\n]{0,40}<\|message\|>|<\|channel\|?>thought\b|(?P<g><channel\|>)"
    r"|<\|(?P<h>/?)think(?:ing)?\|>"
    r"|<unused94>(?:thought)?|(?P<i><unused95>)",
    re.IGNORECASE,
)
"""Any member of the family opens and closes any other; attributes are allowed; the last tag may be torn off.

The vendors' forms: Seed and Doubao, Anthropic, Kimi (`◁think▷`, `<|open|>think<|sep|>`), Magistral (`[THINK]`), Cohere,
gpt-oss's channels, Gemma (`<|channel>thought`, `<unused94>`). Source: their chat templates."""

_HARMONY_END = re.compile(r"<\|(?:end|return|call)\|>|(?=<\|(?:start|channel)\|>)", re.IGNORECASE)
"""What ends a channel of gpt-oss."""


def strip_think(text: str) -> str:
    """Return `text` without reasoning.

    A pair goes with what it holds, nested pairs with the outermost; an opening tag that is never closed goes with
    everything behind it; a closing tag that was never opened goes with everything before it. Tags are
    `think`, `thinking`, `thought`, `reasoning` and the vendors' own, in any case, with or without attributes.

    Returns:
        What is left, without white space at its edges; `text` itself when it holds no such tag.
    """
    kept: list[str] = []
    depth = position = 0
    is_changed = False
    for tag in _TAG.finditer(text):
        if tag.start() < position:
            continue  # inside a channel that is gone already
        closes = any(tag.group(name) for name in "abcdefghi")
        if tag["c"] is not None and tag.group() not in ("[THINK]", "[/THINK]"):
            continue  # only this spelling is a token
        is_changed = True
        if depth == 0:
            kept.append(text[position : tag.start()])
        position = tag.end()
        if tag["empty"]:  # <think/> holds nothing
            continue
        if tag.group().lower().startswith("<|channel|>analysis"):
            # The channel ends with a token of its own, which ends other things too.
            end = _HARMONY_END.search(text, position)
            position = len(text) if end is None else end.end()
        elif not closes:
            depth += 1
        elif depth:
            depth -= 1
        elif tag["g"] is None:
            kept.clear()
    if not is_changed:
        return text
    if depth == 0:
        kept.append(text[position:])
    return "".join(kept).strip()
