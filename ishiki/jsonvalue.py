"""JSON as a type: the one alias that every layer uses for decoded JSON, and narrow readers for it.

A leaf: imports nothing of Ishiki. The readers never raise; a wrong type reads as the default, because what they read
comes from outside (a platform, a model, a file written by another version).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

__all__ = ["JsonObject", "JsonValue", "is_array", "is_object", "read_array", "read_bool", "read_int", "read_object", "read_str"]

JsonValue: TypeAlias = "None | bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue]"
"""Any decoded JSON value. Read-only by type: whoever needs to change it makes a copy."""

JsonObject: TypeAlias = "Mapping[str, JsonValue]"
"""A decoded JSON object."""


def is_object(value: JsonValue) -> bool:
    """Return whether `value` is a JSON object."""
    return isinstance(value, Mapping)


def is_array(value: JsonValue) -> bool:
    """Return whether `value` is a JSON array (a string is none)."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def read_object(data: JsonObject, key: str) -> JsonObject:
    """Return the object under `key`; an empty one where it is absent or something else."""
    value = data.get(key)
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
