"""Arguments as models write them, brought into the form that a tool's schema asks for.

Only what is unmistakable is changed, and only where the schema refuses what stands there: a list, a switch or a number
as text, one thing for a list of it, `null` for what is optional, a whole object written as text once more, or wrapped
in `{"arguments": …}`. What is valid already comes back as the same object.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.modeltext.json_text import JsonReader, arguments_json, compact_json, strict_json
from ishiki.modeltext.schema_values import Shape

__all__ = ["Check", "coerced", "unwrapped"]

Check: TypeAlias = "Callable[[JsonValue, JsonObject], str]"
"""Returns what is wrong with a value by a schema; "" for nothing. The core's `schema_problem`."""

_WRAPPERS = ("arguments", "parameters", "args", "params", "input", "kwargs", "tool_input", "action_input")
"""Keys inside which models put all their arguments once more."""

_BESIDE = frozenset({"name", "function", "tool", "tool_name", "action", "id", "type", "tool_call_id"})
"""Keys that may stand beside such a wrapper, as the rest of a call that was written out."""

_JSON = re.compile(r"[\[{]\s*+[\"'{\[\]}].*[\]}]|\{\s*+[A-Za-z_]\w{0,80}+\s*+:.*\}", re.DOTALL)
"""A list or an object, whose repair is no guess."""

_MAX_DEPTH = 32
_MAX_WRAPPERS = 4
"""How often arguments may be wrapped or encoded again."""


def coerced(value: JsonValue, schema: JsonObject, check: Check) -> JsonValue:
    """Return `value` as `schema` has it where that is unmistakable, else `value` itself.

    Args:
        value: the whole arguments.
        schema: the tool's.
        check: judges; what comes back is either `value` or passes it.
    """
    if not check(value, schema):
        return value
    shape = Shape(schema, schema, JsonReader())
    for candidate in (value, unwrapped(value, shape)):
        changed = _changed(candidate, shape, 0)
        if not check(changed, schema):
            return changed
    return value


def unwrapped(value: JsonValue, shape: Shape) -> JsonValue:
    """Return the arguments inside `value`: an object written as text, a list of one, or a wrapper around them."""
    for _ in range(_MAX_WRAPPERS):
        inner = _inner(value, frozenset(shape.properties()))
        if inner is None:
            break
        value = inner
    return value


def _inner(value: JsonValue, known: frozenset[str]) -> JsonValue:
    match value:
        case str():
            return arguments_json(value)
        case Mapping():
            keys = [key for key in _WRAPPERS if key in value and key not in known]
            rest = value.keys() - set(keys)
            if len(keys) != 1 or not rest <= _BESIDE or rest & known:
                return None
            inner = value[keys[0]]
            return inner if isinstance(inner, Mapping | str) else None
        case Sequence():
            return value[0] if len(value) == 1 and isinstance(value[0], Mapping) else None
        case _:
            return None


def _changed(value: JsonValue, shape: Shape, depth: int) -> JsonValue:
    """Return what `value` means at this place; `value` where nothing better is certain."""
    if depth > _MAX_DEPTH:
        return value
    types = shape.types
    match value:
        case str() if "string" in types:
            return _choice(value, shape)
        case str():
            return _of_text(value, shape, depth)
        case Mapping() if "object" in types:
            return _object(value, shape, depth)
        case Sequence() if "array" in types:
            items = shape.items()
            return [_changed(item, items, depth + 1) for item in value]
        case Sequence() if len(value) == 1 and not isinstance(value[0], Sequence | Mapping) and "object" not in types:
            return _changed(value[0], shape, depth + 1)  # a list of one, where one is due
        case bool() | int() | float() if _scalar(value, types) is not None:
            return _scalar(value, types)
        case None if "null" in types:
            return None
        case _ if "array" in types and value is not None:
            return [_changed(value, shape.items(), depth + 1)]
        case _:
            return value


def _of_text(text: str, shape: Shape, depth: int) -> JsonValue:
    """Return what a text means where no text may stand."""
    types = shape.types
    # What begins like JSON and goes on as prose is a text in brackets, and nothing to repair.
    is_plain = text.lstrip()[:1] not in ("{", "[") or _JSON.fullmatch(text.strip()) is not None
    read = shape.read(text) if is_plain else _strictly(text)
    if not isinstance(read, str):
        return _changed(read, shape, depth + 1)
    if types & {"object", "array"} and text.lstrip()[:1] in ("{", "`") and (value := arguments_json(text)):
        return _changed(value, shape, depth + 1)
    if "boolean" in types and (word := text.strip().lower()) in ("yes", "no", "on", "off"):
        return word in ("yes", "on")
    if "array" in types:
        return [_changed(text, shape.items(), depth + 1)]
    # A text in quotation marks of its own holds what was meant.
    inner = _quoted(text)
    return text if inner is None else _of_text(inner, shape, depth + 1)


def _strictly(text: str) -> JsonValue:
    try:
        return strict_json(text.strip())
    except ValueError:
        return text


def _quoted(text: str) -> str | None:
    try:
        value = strict_json(text.strip())
    except ValueError:
        return None
    return value if isinstance(value, str) and value != text else None


def _scalar(value: float, types: frozenset[str]) -> JsonValue:
    """Return a number or a switch as one of `types`; None where that is not certain."""
    if isinstance(value, bool):
        if "boolean" in types:
            return value
    elif isinstance(value, int):
        if "integer" in types:
            return value
        if "boolean" in types and value in (0, 1):
            return value == 1
    elif "number" in types:
        return value
    elif "integer" in types and math.isfinite(value) and value.is_integer():
        return int(value)
    return compact_json(value) if "string" in types else None


def _choice(text: str, shape: Shape) -> str:
    """Return the one word of a closed choice that `text` means, whatever its case and the space around it."""
    choices = [item for item in shape.choices() if isinstance(item, str)]
    if not choices or text in choices:
        return text
    word = text.strip().strip("\"'").casefold()
    meant = [item for item in choices if item.casefold() == word]
    return meant[0] if len(meant) == 1 else text


def _object(value: JsonObject, shape: Shape, depth: int) -> JsonObject:
    known = shape.properties()
    required = shape.required()
    names = {_plain_name(name): name for name in known}
    changed: dict[str, JsonValue] = {}
    for key, item in value.items():
        name = key
        if key not in known and (meant := names.get(_plain_name(key))) is not None and meant not in value:
            name = meant
        place = shape.property(name)
        if item is None and name not in required and ("null" not in place.types or name not in known):
            continue  # nothing, written out
        changed[name] = _changed(item, place, depth + 1)
    return changed


def _plain_name(name: str) -> str:
    """Return what a property's name is without its spelling: `Channel_ID`, `channelId` and `channel-ids` are one."""
    return name.replace("_", "").replace("-", "").casefold().removesuffix("s")
