"""Where call syntax begins in a text: one recogniser of every grammar that we know, ours and the vendors'.

What people write about such things is not cut: Markdown code is not looked into, tags and JSON count only where
what follows is a call's, and words of everyday use (`<search>`, `Action:`) only where they name a tool that is there.
Sources: the vendors' chat templates and the tool parsers of vLLM and SGLang; `docs/reference/toolcall.md` lists them.
Linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from ishiki.content.code_spans import code_at, code_spans
from ishiki.modeltext.schema_values import HasSchema, Shape
from ishiki.modeltext.torn_calls import KnownTools, second_half, torn_end

__all__ = ["MINIMAX_MARK", "find_mark", "without_frame"]

_SPACE = r"[ \t\r\n]{0,200}+"
_NAME_FOLLOWS = rf"[A-Za-z_][\w.:-]{{0,80}}+(?:{_SPACE}(?:[{{<]|\Z)|\()"
_FOLLOWS = rf"(?:{_SPACE}(?=[{{\[<\"`]|\Z)|(?:[ \t]{{0,9}}+\r?\n{_SPACE})?(?={_NAME_FOLLOWS}))"
"""What stands behind the tag of a call: brackets, another tag, a name that begins one, or nothing more."""

_ANGLE = re.compile(
    r"<(?:"
    # Special tokens: <|…|> with either bar (DeepSeek's is the full-width one), and its DSML however it is spaced.
    r"[|｜][/A-Za-z_▁][\w▁./:\-]{1,60}+[|｜]>"
    r"|/?[ ]{0,2}+[|｜]{1,2}+[ ]{0,2}+DSML"
    r"|\|\"\|>|\|(?:tool_call|tool_response|channel|turn|think)>|(?:tool_call|tool_response|channel|turn)\|>"
    # Names with a vendor in front: <minimax:tool_call>, <invoke>, <seed:tool_call>, <steptml:invoke>.
    r"|/?(?:minimax|antml|seed|steptml|longcat|hunyuan|mm):[a-z_]{2,40}+[ >]"
    r"|/?longcat_[a-z_]{2,40}+>"
    rf"|(?:tool_calls?|toolcalls?|TOOL_?CALLS?|function_?calls?|tool_use|tool_request|tool_code)[ ]?>{_FOLLOWS}"
    r"|(?:tool_call|function_call|tool_use)[ ][^<>\n]{0,200}+>"
    r"|(?:invoke|function|tool|call|parameter)[ ]{1,3}+name[ ]?="
    r"|(?:function|parameter|tool)=[\"'A-Za-z_]"
    r"|/?(?:arg_key|arg_value|tool_sep|tool_response|tool_result|function_results?|function_response)>"
    rf"|(?:function|tool|call)>{_SPACE}<(?:name|tool_name)>"
    rf"|actions?>{_SPACE}(?:<(?:function|action)>|\Z)"
    rf"|messages>{_SPACE}<(?:item|message)>"
    rf"|observation>{_SPACE}<(?:function|status|result)>"
    r")"
    # Torn off in the middle of such a tag.
    r"|<(?:[|｜][A-Za-z_▁][^<>\n]{0,80}+|｜[^<>\n]{0,80}+|/?(?:tool|function|invoke|parameter|minimax:|antml:|seed:|steptml:|longcat|arg_)[^<>\n]{0,80}+)\Z"
)

MINIMAX_MARK = "]<]minimax[>["
"""Stands before every tag of MiniMax M3."""

_SQUARE = re.compile(
    rf"\[TOOL_CALLS?\](?:{_SPACE}(?:[\[{{]|\Z|[\w.-]{{1,80}}+{_SPACE}\{{)|[\w.-])"
    rf"|\[TOOL_REQUEST\]{_SPACE}(?:[\[{{]|\Z)|\[(?:ARGS|CALL_ID)\](?:[\[{{\w]|\Z)|\[END_TOOL_REQUEST\]"
    r"|\]<\]minimax\[>\["
)

_CURLY = re.compile(
    rf"(?:\[{_SPACE})?\{{{_SPACE}(?:"
    rf"(?:\"(?:id|type|index)\"{_SPACE}:{_SPACE}(?:\"[^\"\n]{{0,80}}+\"|[0-9]{{1,4}}+){_SPACE},{_SPACE}){{0,3}}+"
    rf"\"function\"{_SPACE}:{_SPACE}\{{{_SPACE}\"(?:name|arguments)\""
    rf"|\"tool_calls\"{_SPACE}:{_SPACE}\[{_SPACE}[{{\]]"
    rf"|\"thoughts\"{_SPACE}:{_SPACE}(?:\{{|\"[^\"\n]{{0,2000}}+\"{_SPACE},{_SPACE}\"actions\")"
    rf"|\"actions\"{_SPACE}:{_SPACE}\[{_SPACE}\{{{_SPACE}\"(?:function|name)\""
    r")"
)
_TORN_JSON = re.compile(
    rf"(?:\[{_SPACE})?\{{{_SPACE}\"(?:name|function|tool|action|tool_calls|thoughts|actions|messages)\"{_SPACE}"
    rf"(?::{_SPACE}[\[{{]?{_SPACE}[\[{{]?{_SPACE}(?:\"[\w.]{{0,64}}+)?)?\Z"
)
_FENCE_HEAD = re.compile(r"`{3,9}+\w{0,20}+\s{0,40}+")
_MAX_TORN = 3
_NEAR_CHARS = 300
"""How near a tool's name stands to the beginning of a call."""
_CALL_TO = re.compile(r"(?:<\|start\|>)?(?:assistant)?[ ]?(?:commentary|analysis)?[ ]?to=functions\.[A-Za-z_]")
_FENCE_NAME = re.compile(r"```(?:tool_code|tool_calls?|tool_use|function_calls?|tool)\b")
_FUNCTOOLS = re.compile(r"\bfunctools\[[ ]?\{")
_GIGACHAT = re.compile(r"\bfunction call<\|role_sep\|>")

_ARGUMENTS = r"(?:arguments|parameters|args|params|input|tool_input|action_input|kwargs)"
_NAMING = r"(?:name|function|tool|tool_name|action|recipient_name|function_name)"

_LEADING = re.compile(
    r"(?:\s|<s>|<bos>|<\|im_start\|>(?:assistant)?|<\|start_header_id\|>assistant<\|end_header_id\|>|<\|assistant\|>"
    r"|<｜Assistant｜>|<｜begin▁of▁sentence｜>|<\|begin_of_text\|>|<\|(?:header_start)\|>assistant<\|header_end\|>"
    r"|<start_of_turn>model|<\|turn>model|<\|START_OF_TURN_TOKEN\|>|<\|CHATBOT_TOKEN\|>"
    r"|<\|START_(?:RESPONSE|TEXT)\|>|<\|open\|>response<\|sep\|>|<\|start\|>(?:assistant)?"
    r"|<\|channel\|>final[^<\n]{0,40}<\|message\|>|<\|message\|>)++"
)
"""What chat templates put before the words of an answer."""

_FINAL = ("<|channel|>final<|message|>", "<|START_RESPONSE|>", "<|START_TEXT|>", "<|open|>response<|sep|>")
"""Behind the last of these stand the words, whatever came before."""

_BOX = re.compile(r"<\|(?:begin|end)_of_box\|>")
_TRAILING = re.compile(r"(?:\s|</s>|<end_of_turn>|<eos>|<start_of_turn>|<turn\|>|\[/?INST\])++\Z")


def find_mark(text: str, tools: Mapping[str, HasSchema] | None = None) -> int | None:
    """Return where the first call syntax of `text` begins; None where there is none.

    Args:
        text: what a model wrote.
        tools: the tools that are there. Their names count where they stand as a call's.
    """
    known = tuple((name, tuple(Shape.of(tool).properties())) for name, tool in (tools or {}).items())
    patterns = _patterns(known)
    names = [name for name, _ in known]
    spans = code_spans(text)
    found = [
        start
        for needle, pattern in patterns
        # Most texts hold nothing of the kind, and a look for one character costs next to nothing.
        if needle in text and (start := _first(pattern, text, spans, names)) is not None
    ]
    if (half := second_half(text, known, spans)) is not None:
        found.append(half)
    mark = min(found, default=None)
    # What stands before it, or the end of the text, may break off in the middle of another one.
    for _ in range(_MAX_TORN):
        end = len(text) if mark is None else mark
        torn = torn_end(text, end, names)
        if torn is None or code_at(spans, torn) is not None:
            break
        mark = torn
    return mark


def _first(pattern: re.Pattern[str], text: str, spans: Sequence[tuple[int, int]], names: Sequence[str]) -> int | None:
    match = pattern.search(text)
    while match is not None:
        span = code_at(spans, match.start())
        if span is None:
            return match.start()
        if _is_fenced_call(text, span, match.start(), names):
            return span[0]
        match = pattern.search(text, max(span[1], match.start() + 1))
    return None


def _is_fenced_call(text: str, span: tuple[int, int], start: int, names: Sequence[str]) -> bool:
    """Return whether a last block of code begins with a call of a tool that is there: nobody's example is one."""
    opened, end = span
    if not text.startswith("```", opened) or not _FENCE_HEAD.fullmatch(text, opened, start) or text[end:].strip():
        return False
    return any(name in text[start : start + _NEAR_CHARS] for name in names)


@lru_cache(maxsize=64)
def _patterns(known: KnownTools) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return what finds the grammars, each with a text without which it finds nothing."""
    own = (
        ("<", _ANGLE), ("]", _SQUARE), ("{", _CURLY), ("{", _TORN_JSON), ("to=functions.", _CALL_TO),
        ("```", _FENCE_NAME), ("functools[", _FUNCTOOLS), ("<|role_sep|>", _GIGACHAT),
    )  # fmt: skip
    if not known:
        return own
    names = sorted((name for name, _ in known), key=len, reverse=True)
    name = _either(names)
    # A name like send_message is nobody's word; one like search or read needs more to be a call's.
    odd = [one for one in names if "_" in one or "-" in one]
    elements = [
        rf"<{re.escape(one)}[ ]?>{_SPACE}(?:<(?:{_either(properties)})[ >/]|(?:{_either(properties)})[ ]?:|\{{)"
        for one, properties in known
        if properties
    ]
    elements.append(rf"^[ \t]{{0,9}}+<{name}[ ]?/>{_SPACE}(?:$|<)|<{name}[ ]?/>{_SPACE}\Z")
    call = rf"(?:print\([ ]?)?(?:await[ ])?(?:default_api\.|functions\.|tools\.)?{name}\("
    calls = [
        rf"^[ \t]{{0,9}}+\[?{call}{_SPACE}(?:[A-Za-z_]\w{{0,60}}+[ ]?(?:=(?!=)|\Z)|[{{\[])",
        rf"^[ \t]{{0,9}}+\[?{call}\)[ \t]*+\]?$",
    ]
    calls += [
        rf"(?<![\w.`])\[?{re.escape(one)}\({_SPACE}(?:{_either(properties)})[ ]?=(?!=)"
        for one, properties in known
        if properties
    ]
    if odd:
        one = _either(odd)
        elements.append(
            rf"<{one}[ ]?(?:/>|>(?:{_SPACE}(?:[<{{\[\-]|[A-Za-z_]\w{{0,60}}+(?::|\Z)|\Z)|[^<]{{0,4000}}+</{one}>))"
        )
        calls.append(rf"(?<![\w.`])\[?{one}\({_SPACE}(?:[A-Za-z_]\w{{0,60}}+[ ]?(?:=(?!=)|\Z)|\Z|[{{\[\"'])")
    thought = r"[^\n]{0,4000}+(?:\n(?!Action)[^\n]{0,4000}+){0,9}+\n+Action[ ]?:[ ]?"
    beside = rf"\"(?:id|type|tool_call_id)\"{_SPACE}:{_SPACE}\"[^\"\n]{{0,80}}+\"{_SPACE},{_SPACE}"
    by_name = re.compile(
        rf"(?:\[{_SPACE})?\{{{_SPACE}(?:{beside}){{0,3}}+"
        rf"\"{_NAMING}\"{_SPACE}:{_SPACE}\"(?:functions\.)?{name}\"{_SPACE}"
        rf"(?:,{_SPACE}(?:\"{_ARGUMENTS}\"|\"?[a-z_]{{0,16}}+\Z)|\}}{_SPACE}\]?{_SPACE}\Z|\Z)"
    )
    action = rf"(?m)^(?:\*\*)?Action(?:\*\*)?[ ]?[:：](?:\*\*)?[ \t]{{0,9}}+[`\"]?{name}[`\"]?[ \t]*+(?:\(|$)"
    return (
        *own,
        ("<", re.compile("(?m)" + "|".join(elements))),
        ("(", re.compile("(?m)" + "|".join(calls))),
        ("{", by_name),
        ("Action", re.compile(action)),
        ("Thought", re.compile(rf"\bThought[ ]?:(?={thought}(?:{name}\b|[\w.]{{0,64}}+\Z))")),
    )


def _either(words: Iterable[str]) -> str:
    return "(?:" + "|".join(map(re.escape, words)) + ")"


def without_frame(text: str) -> str:
    """Return `text` without what chat templates put around an answer's words: roles, channels, ends of turns."""
    if "<" not in text and "[" not in text:
        return text
    for mark in _FINAL:
        if (found := text.rfind(mark)) >= 0:
            text = text[found + len(mark) :]
    leading = _LEADING.match(text)
    if leading is not None and leading.group().strip():
        text = text[leading.end() :]
    if "of_box|>" in text:
        text = _BOX.sub("", text)
    trailing = _TRAILING.search(text, max(0, len(text) - 200))
    if trailing is not None and trailing.group().strip() and not ("</s>" in trailing.group() and "<s>" in text):
        text = text[: trailing.start()]
    return text
