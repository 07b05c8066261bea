"""Technical forms that models put where words belong: calls in any grammar, or a list of content parts, as text. Pure.

A group must never see them. What stands before the first of them is words; a message that is a call of `send_message`
and nothing else is said by the words in it, and of any other call the model is told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from ishiki.content import strip_think
from ishiki.jsonvalue import JsonObject, JsonValue, normalise, read_array, read_str
from ishiki.modeltext.call_marks import find_mark, without_frame
from ishiki.modeltext.call_reading import read_calls
from ishiki.modeltext.element_values import read_arguments
from ishiki.modeltext.json_text import python_literal
from ishiki.modeltext.schema_values import HasSchema, Shape
from ishiki.modeltext.torn_calls import without_stray_end
from ishiki.tools.deliveries import SEND_MESSAGE

__all__ = ["plain_words", "words_of"]

_FENCE = re.compile(r"```\w*\n(?P<body>.*?)\n?```\s*", re.DOTALL)

_MESSAGE_KEYS = frozenset({"messages", "mode", "continue", "target"})
_CALL_KEYS = frozenset({"name", "arguments", "parameters", "id", "type", "tool_call_id"})
_SPEAKING: JsonObject = {
    "type": "object",
    "properties": {"messages": {"type": "array", "items": {"type": "string"}}},
    "required": ["messages"],
}
_FINAL_ANSWER = re.compile(r"(?m)^Final Answer[ ]?:[ \t]*")
_THOUGHT = re.compile(r"\s{0,200}Thought[ ]?:")
_BARE_LIST = re.compile(r"\s{0,200}<messages>|\s{0,200}messages:[ \t]*\n[ \t]*-[ \t]")


class _Speaking:
    """`send_message`, as far as its words go."""

    input_schema = _SPEAKING


def plain_words(text: str, tools: Mapping[str, HasSchema] | None = None) -> str:
    """Return what of `text` is words and no reasoning, frame of a chat template, or call.

    Args:
        text: what the model wrote.
        tools: the tools that are there.
    """
    said = without_frame(strip_think(text))
    if _THOUGHT.match(said) is not None and (final := _FINAL_ANSWER.search(said)) is not None:
        said = said[final.end() :]
    mark = find_mark(said, _table(tools))
    if mark is None:
        return without_stray_end(said)
    return without_stray_end(said[:mark].rstrip())


def words_of(text: str, tools: Mapping[str, HasSchema] | None = None) -> Sequence[str]:
    """Return what `text` says: itself, as a rule; the words in it where it is technical; nothing where it has none."""
    words = plain_words(text, tools)
    if not words.strip():
        return [word for said in _spoken(without_frame(strip_think(text)), tools) if (word := plain_words(said, tools))]
    if _BARE_LIST.match(words) is not None and (listed := _listed(words)):
        return listed
    fence = _FENCE.fullmatch(words.strip())
    value = _read(words if fence is None else fence["body"])
    if fence is not None and _is_example(value, tools):
        return [words]
    found = _of_value(value)
    return [words] if found is None else [word for said in found if (word := plain_words(said, tools))]


def _is_example(value: JsonValue, tools: Mapping[str, HasSchema] | None) -> bool:
    """Return whether JSON in a block of code calls something that is not there: what somebody wanted to see."""
    return bool(tools) and isinstance(value, Mapping) and read_str(value, "name") not in ("", *_table(tools))


def _table(tools: Mapping[str, HasSchema] | None) -> Mapping[str, HasSchema]:
    return {SEND_MESSAGE: _Speaking(), **(tools or {})}


def _spoken(text: str, tools: Mapping[str, HasSchema] | None) -> Sequence[str]:
    """Return the words in the calls of `send_message` that a text without other words holds."""
    reading = read_calls(text, {**_table(tools), SEND_MESSAGE: _Speaking()})
    if reading is None:
        return _listed(text)
    said: list[str] = []
    for call in reading.calls:
        if call.tool_name == SEND_MESSAGE:
            said.extend(_of_call(call.tool_name, call.arguments))
    return said


def _listed(text: str) -> Sequence[str]:
    """Return the words of a list of messages whose call was torn off around it."""
    shape = Shape(_SPEAKING, _SPEAKING)
    inner = text if text.rstrip().endswith("</messages>") or "<messages>" not in text else f"{text}</messages>"
    arguments = read_arguments(inner, shape) if "<messages>" in text else None
    if arguments is not None:
        return _texts(arguments.get("messages"))
    if _BARE_LIST.match(text) is None:
        return ()
    lines = [line.strip() for line in text.strip().splitlines()[1:]]
    items = [line.removeprefix("- ") for line in lines]
    return [str(_read_scalar(item)) for item in items] if all(line.startswith("- ") for line in lines) else ()


def _read_scalar(text: str) -> JsonValue:
    try:
        return python_literal(text)
    except ValueError:
        return text


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
        return python_literal(text)
    except ValueError:
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
    messages = arguments.get("messages")
    if isinstance(messages, str) and isinstance(listed := _read(messages), Sequence):
        messages = listed
    return _texts(messages)


def _texts(value: JsonValue) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    return [item for item in read_array({"messages": value}, "messages") if isinstance(item, str)]
