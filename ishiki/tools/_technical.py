"""Technical forms that small models put where words belong: a tool call, or a list of content parts, as text. Pure.

A group must never see them. What they hold is said where that is certain; otherwise the model is told. Only whole
strings of exactly these forms count, so that somebody who talks about JSON still can.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence

from ishiki.jsonvalue import JsonValue, normalise, read_str
from ishiki.tools.deliveries import SEND_MESSAGE

__all__ = ["words_of"]

_BLOCK = re.compile(r"<(tool_call|function_call)>(?P<body>.*?)(?:</\1>|\Z)", re.DOTALL)
_FENCE = re.compile(r"```\w*\n(?P<body>.*?)\n?```\s*", re.DOTALL)

_MESSAGE_KEYS = frozenset({"messages", "mode", "continue", "target"})
_CALL_KEYS = frozenset({"name", "arguments", "parameters", "id", "type", "tool_call_id"})


def words_of(text: str) -> Sequence[str]:
    """Return what `text` says: itself, as a rule; the words in it where it is technical; nothing where it has none."""
    blocks = list(_BLOCK.finditer(text))
    if blocks:
        rest = _BLOCK.sub("", text).strip()
        if rest:
            return [rest]
        return [word for block in blocks for word in _of_value(_read(block["body"])) or ()]
    fence = _FENCE.fullmatch(text.strip())
    words = _of_value(_read(text if fence is None else fence["body"]))
    return [text] if words is None else words


def _read(text: str) -> JsonValue:
    """Return `text` as the JSON, or the Python literal, that it is; None where it is neither object nor list."""
    text = text.strip()
    if text[:1] not in ("{", "["):
        return None
    try:
        return normalise(json.loads(text))
    except (ValueError, TypeError, RecursionError):
        pass
    try:
        return normalise(ast.literal_eval(text))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def _of_value(value: JsonValue) -> Sequence[str] | None:
    """Return the words in a value; None where it is of no form that we know."""
    if isinstance(value, Mapping):
        if value and value.keys() <= _MESSAGE_KEYS and "messages" in value:
            return _texts(value["messages"])
        if "name" in value and value.keys() <= _CALL_KEYS and value.keys() & {"arguments", "parameters"}:
            return _of_call(read_str(value, "name"), value.get("arguments", value.get("parameters")))
        return [read_str(value, "text")] if value.get("type") == "text" and isinstance(value.get("text"), str) else None
    if isinstance(value, Sequence) and not isinstance(value, str):
        parts = [part for part in value if isinstance(part, Mapping) and part.get("type") == "text"]
        if value and len(parts) == len(value):
            return ["".join(read_str(part, "text") for part in parts)]
    return None


def _of_call(name: str, arguments: JsonValue) -> Sequence[str]:
    if isinstance(arguments, str):
        arguments = _read(arguments)
    if name != SEND_MESSAGE or not isinstance(arguments, Mapping):
        return ()
    return _texts(arguments.get("messages"))


def _texts(value: JsonValue) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Sequence):
        return ()
    return [item for item in value if isinstance(item, str)]
