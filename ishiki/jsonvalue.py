"""JSON as a type: the one alias that every layer uses for decoded JSON, and narrow readers for it.

A leaf: imports nothing of Ishiki. The readers never raise; a wrong type reads as the default, because what they read
comes from outside (a platform, a model, a file written by another version).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, time
from enum import Enum
from typing import TypeAlias, cast

__all__ = [
    "JsonObject",
    "JsonValue",
    "normalise",
    "read_array",
    "read_bool",
    "read_int",
    "read_object",
    "read_str",
    "without_surrogates",
]

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
"""Any decoded JSON value. Read-only by type: whoever needs to change it makes a copy."""

JsonObject: TypeAlias = "Mapping[str, JsonValue]"
"""A decoded JSON object."""

_MAX_DEPTH = 100
"""Deeper JSON is nobody's data: writers and validators recurse, and refuse some more levels."""


def without_surrogates(text: str) -> str:
    """Return `text` with every surrogate that is half of nothing as U+FFFD; such text cannot be written as UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def normalise(value: object) -> JsonValue:
    """Return `value` as JSON, or raise: what a tool returned has to survive being written and read.

    Mappings with text keys, lists, tuples, sets, dates (ISO 8601), enums and dataclasses are taken; a number that JSON
    does not have (NaN, infinity) becomes null, a lone surrogate becomes U+FFFD.

    Raises:
        TypeError: something in it has no JSON form, or it is nested more than 100 levels deep; the text says which.
    """
    return _normalised(value, _MAX_DEPTH)


def _normalised(value: object, levels: int) -> JsonValue:
    if levels < 0:
        raise TypeError(f"JSON of more than {_MAX_DEPTH} levels is not taken")
    match value:
        case Enum():  # first: an enum may be a number or a text as well
            return _normalised(value.value, levels)
        case None | bool() | int():
            return value
        case str():
            return without_surrogates(value)
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            items = cast("Mapping[object, object]", value).items()
            return {
                without_surrogates(key if isinstance(key, str) else str(key)): _normalised(item, levels - 1)
                for key, item in items
            }
        case list() | tuple() | set() | frozenset():
            return [_normalised(item, levels - 1) for item in cast("Iterable[object]", value)]
        case date() | time():
            return value.isoformat()
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {item.name: _normalised(getattr(value, item.name), levels - 1) for item in fields(value)}
        case _:
            raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


def read_object(data: JsonObject, key: str) -> JsonObject:
    """Return the object under `key`; an empty one where it is absent or something else."""
    value = data.get(key)
    if type(value) is dict:  # nearly always, and told much faster than that it is some mapping
        return cast("JsonObject", value)
    return value if isinstance(value, Mapping) else {}


def read_array(data: JsonObject, key: str) -> Sequence[JsonValue]:
    """Return the array under `key`; an empty one where it is absent or something else."""
    value = data.get(key)
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def read_str(data: JsonObject, key: str, default: str = "") -> str:
    """Return the text under `key`; a number is written out, anything else reads as `default`."""
    value = data.get(key)
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return default


def read_int(data: JsonObject, key: str, default: int = 0) -> int:
    """Return the whole number under `key`; anything else reads as `default`."""
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def read_bool(data: JsonObject, key: str, *, default: bool = False) -> bool:
    """Return the boolean under `key`; anything else reads as `default`."""
    value = data.get(key)
    return value if isinstance(value, bool) else default
