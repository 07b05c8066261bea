"""Halves of calls: where one breaks off at the end of a text, and where the second half of one begins.

A server that has read the beginning of a call, or a model that has lost it, leaves the rest. Linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ishiki.content.code_spans import code_at
from ishiki.modeltext.json_text import json_values

__all__ = ["KnownTools", "second_half", "torn_end", "without_stray_end"]

KnownTools = tuple[tuple[str, tuple[str, ...]], ...]
"""Names of tools, each with those of its parameters."""

_TORN_CHARS = 120
_MIN_TORN_CHARS = 3
_TORN_START = re.compile(r"<|\[|\]<|(?<![\[])\{|```|\b(?:functools|assistantc|commentary to)")
_BLANK = re.compile(r"\s+")
_OPEN_FENCE = re.compile(r"\n?[ \t]{0,9}```\w{0,20}\s{0,40}\Z")
_OPENERS = (
    *("<tool_calls>", "<tool_call>", "<toolcall>", "<TOOLCALL>", "<tool_use>", "<tool_request>", "<tool_code>"),
    *("<function_calls>", "<function_call>", "<function=", "<invokename=", "<parametername=", "<longcat_tool_call>"),
    *(
        "<minimax:tool_call>",
        "<seed:tool_call>",
        "<invoke",
        "<steptml:invoke",
        "<action><function>",
        "<messages><item>",
    ),
    *("[TOOL_CALLS]", "[TOOL_REQUEST]", "]<]minimax[>[", "functools[{", "assistantcommentaryto=functions."),
    *("commentaryto=functions.", "```tool_code", "```tool_call", '{"name"', '[{"name"', '{"tool_calls"', '{"thoughts"'),
    *('{"actions"', '{"action"', '{"function"', '{"arguments"', '{"messages"', '[{"function"', '[{"type"'),
)
"""Beginnings of calls, without white space, of which a part may be all that is there."""

_END_TAGS = frozenset(
    {"tool_call", "tool_calls", "function_call", "function_calls", "invoke", "parameter", "function", "arguments"}
    | {"params", "messages", "actions", "action", "toolcall", "tool_use", "item", "tool_code", "tool"}
)
_END_TAG = re.compile(r"</([A-Za-z_][\w:.-]{0,64})(>[ \t\r\n]{0,40}|)\Z")
_MAX_END_TAGS = 32

_BAR_END = re.compile(r"[|｜]>")
_TAG_END = re.compile(r"(?:tool_calls?|function_calls?|arg_key|arg_value)>")
_MAX_TOKEN_CHARS = 60
_ACTION_INPUT = re.compile(r"(?m)^(?:\*\*)?Action Input(?:\*\*)?[ ]?[:：](?:\*\*)?[ \t]*\{")
_KEYS = r"(?:arguments|parameters|args|params|input|tool_input|action_input|actions|messages)"
_ARGUMENTS_KEY = re.compile(rf"\"{_KEYS}\"[ ]{{0,3}}:[ ]{{0,3}}[\[{{\"]")
_CLOSING = re.compile(
    r"</(?:[a-z]{2,10}:)?(?:longcat_)?(tool_calls?|function_calls?|invoke|parameter|arguments|params|arg_value|tool_use)>"
)
_BARE_ARGUMENTS = re.compile(r"\{\s{0,20}+\"messages\"\s{0,9}+:\s{0,9}+\[\s{0,20}+\"")
_FRAME_END = re.compile(r"[\s})\];]*+(?:\Z|</?[A-Za-z_]|<[|｜]|```)")
_JSON_CHARS = frozenset("\"',:{}[]_-./\\")
_SEPARATORS = frozenset(",:{[")
_MAX_BACK = 300
_MAX_LEFT_OVER = 40
_LEFT_OVER = re.compile(r"[\s\"'\]}>|]{2,40}\Z")
"""What closes JSON, in front of a frame's end."""


def torn_end(text: str, end: int, names: Sequence[str]) -> int | None:
    """Return where call syntax begins that breaks off at `end`, or a block of code that was opened for it; or None."""
    begin = max(0, end - _TORN_CHARS)
    tail = text[begin:end]
    if end < len(text) and (fence := _OPEN_FENCE.search(tail)) is not None:
        return begin + fence.start()
    if end < len(text):
        return None
    for match in _TORN_START.finditer(tail):
        rest = _BLANK.sub("", tail[match.start() :])
        if len(rest) < _MIN_TORN_CHARS:
            continue
        openers = (*_OPENERS, *(form.format(name) for name in names for form in ("<{0}>", "[{0}(")))
        if any(opener.startswith(rest) for opener in openers):
            return begin + match.start()
    return None


def second_half(text: str, known: KnownTools, spans: Sequence[tuple[int, int]]) -> int | None:
    """Return where the second half of a call begins, whose first half is not there; None for none.

    Args:
        text: what a model wrote.
        known: the tools that are there.
        spans: the code in it, where nothing is looked for.
    """
    return min((start for start in _halves(text, known) if code_at(spans, start) is None), default=None)


def _halves(text: str, known: KnownTools) -> Iterator[int]:
    if (given := _ACTION_INPUT.search(text)) is not None:
        yield given.start()
    for pattern in (_BAR_END, _TAG_END) if ">" in text else ():
        starts = (_token_start(text, match.start()) for match in pattern.finditer(text))
        if (first := next((start for start in starts if start is not None), None)) is not None:
            yield first
    if "</" in text:
        yield from _closings(text, known)
    key = _ARGUMENTS_KEY.search(text)
    if key is not None:
        position = key.end() - 1
        if _takes_known(text, position, known) or _is_unbalanced(text, position):
            yield _fragment_start(text, key.start())
    for bare in _BARE_ARGUMENTS.finditer(text):
        # A text that is nothing else is not torn: whoever says it decides.
        if text[: bare.start()].strip() and _ends_text(text, bare.start()):
            yield bare.start()
            return


def _closings(text: str, known: KnownTools) -> Iterator[int]:
    """Yield where a closing tag of a call stands that nothing before it opens; what opens it is a mark by itself."""
    closing = _CLOSING.search(text)
    if closing is not None and f"<{closing[1]}" not in text[: closing.start()]:
        left = _LEFT_OVER.search(text, max(0, closing.start() - _MAX_LEFT_OVER), closing.start())
        yield closing.start() if left is None else left.start()
    parameters = _own_elements(known).search(text)
    if parameters is not None:
        odd = parameters["odd"]
        if odd is None or f"<{odd}" not in text[: parameters.start()]:
            yield parameters.start()


def _token_start(text: str, end: int) -> int | None:
    """Return where the name begins whose last part stands at `end`; None where it is whole, or an operator."""
    start = end
    while start > max(0, end - _MAX_TOKEN_CHARS) and (text[start - 1].isalnum() or text[start - 1] in "_▁:"):
        start -= 1
    before = text[start - 1 : start]
    is_name = start < end or text[end] == "｜" or text[end].isalpha()
    if before == "/":
        start, before = start - 1, text[start - 2 : start - 1] if start > 1 else ""
    return start if is_name and before not in ("<", "|", "｜") else None


def _ends_text(text: str, start: int) -> bool:
    """Return whether the object at `start` ends the text, or the rest of a frame does."""
    _, end = json_values(text, start)
    return end == start or _FRAME_END.match(text, end) is not None


@lru_cache(maxsize=64)
def _own_elements(known: KnownTools) -> re.Pattern[str]:
    """Return what finds parameters as elements, or the end of one, in front of the closing tag of their tool."""
    forms = [
        rf"(?:<(?:{names})>[^<]{{0,2000}}+)?</(?:{names})>\s{{0,40}}+"
        rf"(?:<(?:{names})>[^<]{{0,2000}}+</(?:{names})>\s{{0,40}}+){{0,9}}</{re.escape(tool)}>"
        for tool, properties in known
        if properties and (names := "|".join(map(re.escape, properties)))
    ]
    odd = [re.escape(tool) for tool, _ in known if "_" in tool or "-" in tool]
    forms.append(rf"</(?P<odd>{'|'.join(odd) or '(?!)'})>")
    return re.compile("|".join(forms))


def _takes_known(text: str, position: int, known: KnownTools) -> bool:
    """Return whether the object at `position` begins with a parameter of a tool that is there."""
    near = re.match(r"\{\s{0,9}\"(\w{1,64})\"", text[position : position + 90])
    return near is not None and any(near[1] in properties for _, properties in known)


def _is_unbalanced(text: str, position: int) -> bool:
    """Return whether brackets behind `position` close more than is opened there and before."""
    depth = 0
    is_inside = is_escaped = False
    for char in text[:position]:
        depth += (char in "{[") - (char in "}]")
    depth = max(0, depth)
    for char in text[position:]:
        if is_escaped:
            is_escaped = False
        elif is_inside:
            is_escaped = char == "\\"
            is_inside = char != '"'
        elif char == '"':
            is_inside = True
        elif char in "{[":
            depth += 1
        elif char in "}]":
            depth -= 1
            if depth < 0:
                return True
    return False


def _fragment_start(text: str, position: int) -> int:
    """Return where the run of JSON begins in which `position` stands."""
    start = position
    while start > max(0, position - _MAX_BACK):
        char = text[start - 1]
        is_part = (char.isascii() and char.isalnum()) or char in _JSON_CHARS
        is_space = char in " \n\t" and start > 1 and text[start - 2] in _SEPARATORS
        if not (is_part or is_space):
            break
        start -= 1
    # Letters that only touch it are words.
    while start < position and (text[start].isalnum() or text[start].isspace()):
        start += 1
    return start


def without_stray_end(text: str) -> str:
    """Return `text` without closing tags of calls at its end that nothing in it opens."""
    kept = text
    is_call = False
    for _ in range(_MAX_END_TAGS):
        # What stands before the last tag is looked at as it is: tags are short.
        found = _END_TAG.search(kept, max(0, len(kept) - _TORN_CHARS))
        if found is None or f"<{found[1]}" in kept:
            break
        is_call = is_call or _ends_call(found[1], is_torn=not found[2])
        kept = kept[: found.start()]
    return kept.rstrip() if is_call else text


def _ends_call(name: str, *, is_torn: bool) -> bool:
    plain = name.lower().rsplit(":", 1)[-1]
    if is_torn and len(plain) >= _MIN_TORN_CHARS:
        return any(end.startswith(plain) for end in _END_TAGS)
    return plain in _END_TAGS or "_" in plain
