"""Markdown as plain text, for clients that show none.

Removes the signs and keeps the words; it is not a Markdown parser. Works on plain text: apply it to the texts of a
reply (`map_text`), before splitting.
"""

from __future__ import annotations

import re

__all__ = ["flatten_markdown"]

_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n`]*(?:\n|\Z)", re.MULTILINE)
_CODE = re.compile(r"(?<!`)(`{1,3})(?!`)([^\n]+?)(?<!`)\1(?!`)")
_RULE = re.compile(r"^[ \t]*(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$\n?", re.MULTILINE)
_TABLE_RULE = re.compile(r"^(?=[^\n]*\|)(?=[^\n]*-)[ \t|:-]+$\n?", re.MULTILINE)
_HEADING = re.compile(r"^[ \t]{0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$", re.MULTILINE)
_BLOCK_QUOTE = re.compile(r"^[ \t]{0,3}(?:>[ \t]?)+", re.MULTILINE)
_BULLET = re.compile(r"^([ \t]*)[*+][ \t]+(?=\S)", re.MULTILINE)
_IMAGE = re.compile(r"!\[([^\[\]\n]*)\]\(([^()\s]+)(?:[ \t]+\"[^\"\n]*\")?\)")
_LINK = re.compile(r"\[([^\[\]\n]+)\]\(([^()\s]+)(?:[ \t]+\"[^\"\n]*\")?\)")
_ESCAPED = re.compile(r"\\([*#`~])")
_EMPHASIS = (
    re.compile(r"(?<!\\)\*\*\*(?=\S)([^*\n]+)(?<=\S)\*\*\*"),
    re.compile(r"(?<!\\)\*\*(?=\S)([^\n]+?)(?<=\S)\*\*(?!\*)"),
    re.compile(r"(?<![\\\w*])\*(?=[^\s*])([^*\n]+)(?<=[^\s\\])\*(?![\w*])"),
    re.compile(r"(?<![\\\w])__(?=\S)([^_\n]+)(?<=\S)__(?!\w)"),
    re.compile(r"(?<![\\\w])_(?=[^\s_])([^_\n]+)(?<=[^\s\\])_(?!\w)"),
    re.compile(r"(?<!\\)~~(?=\S)([^~\n]+)(?<=\S)~~"),
)


def flatten_markdown(text: str) -> str:
    """Return `text` without Markdown's signs.

    Headings, emphasis, quote marks, rules and code fences lose their signs; a link becomes `words (address)`; bullets
    become `-`. Code keeps its content as it is. What only looks like Markdown stays: `2 * 3 * 4`, `snake_case`.
    """
    parts: list[str] = []
    is_code = False
    position = 0
    for fence in _FENCE.finditer(text):
        block = text[position : fence.start()]
        parts.append(block if is_code else _flatten_block(block))
        is_code = not is_code
        position = fence.end()
    rest = text[position:]
    if not is_code:
        parts.append(_flatten_block(rest))
    else:
        parts.append(rest)
    return "".join(parts)


def _flatten_block(text: str) -> str:
    """Flatten text outside fences; inline code is put aside as it is."""
    for pattern in (_RULE, _TABLE_RULE, _BLOCK_QUOTE):
        text = pattern.sub("", text)
    text = _BULLET.sub(r"\1- ", _HEADING.sub(r"\1", text))
    parts: list[str] = []
    position = 0
    for code in _CODE.finditer(text):
        parts += [_flatten_inline(text[position : code.start()]), code.group(2).strip()]
        position = code.end()
    parts.append(_flatten_inline(text[position:]))
    return "".join(parts)


def _flatten_inline(text: str) -> str:
    text = _LINK.sub(_linked, _IMAGE.sub(_linked, text))
    for pattern in _EMPHASIS:
        text = pattern.sub(r"\1", text)
    return _ESCAPED.sub(r"\1", text)


def _linked(match: re.Match[str]) -> str:
    words, address = match.groups()
    return address if words in ("", address) else f"{words} ({address})"
