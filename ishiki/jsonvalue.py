"""JSON as a type: the one alias that every layer uses for decoded JSON, and narrow readers for it.

A leaf: imports nothing of Ishiki. The readers never raise; a wrong type reads as the default, because what they read
comes from outside (a platform, a model, a file written by another version).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import TypeAlias, cast
from uuid import UUID

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

_MAX_VALUES = 1_000_000
"""More is nobody's result: a few lists that hold each other twice are exponentially many."""

_MAX_WHOLE_BITS = 14_281
"""Whole numbers of at most 4,300 decimal digits: Python's own limit for reading and writing them as text."""


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

    Mappings, lists, tuples, sets, dates and times (ISO 8601), enums, dataclasses, decimals, UUIDs, paths and bytes
    that are UTF-8 text are taken; a number that JSON does not have (NaN, infinity) becomes null, a whole number of
    more than 4,300 digits its hexadecimal text, a lone surrogate U+FFFD.

    Raises:
        TypeError: something in it has no JSON form, holds itself, is nested more than 100 levels deep, or is one of
            more than 1,000,000 values; the text says which.
    """
    try:
        return _Normaliser().value(value, _MAX_DEPTH)
    except TypeError:
        raise
    except Exception as error:
        # What others wrote runs in here: items, attributes and texts of any class.
        raise TypeError(f"a {type(value).__name__} cannot be read: {type(error).__name__}") from error


class _Normaliser:
    """One run of `normalise`."""

    def __init__(self) -> None:
        self._left = _MAX_VALUES
        self._open: set[int] = set()

    def value(self, value: object, levels: int) -> JsonValue:
        self._left -= 1
        if self._left < 0:
            raise TypeError(f"more than {_MAX_VALUES:,} values are not taken")
        match value:
            case Enum():  # first: an enum may be a number or a text as well
                return self.value(value.value, levels)
            case None | bool():
                return value
            case int():
                return _whole(value)
            case str():
                # Through the class: a subclass may write itself as it likes, or not at all.
                return without_surrogates(str.__str__(value))
            case float():
                number = float.__float__(value)
                return number if math.isfinite(number) else None
            case bytes() | bytearray() | memoryview():
                return _text_of(bytes(cast("bytes", value)))
            case date() | time():
                return value.isoformat()
            case Decimal() | UUID() | PurePath():
                return without_surrogates(str(value))
            case _:
                return self._container(value, levels)

    def _container(self, value: object, levels: int) -> JsonValue:
        if levels <= 0:
            raise TypeError(f"JSON of more than {_MAX_DEPTH} levels is not taken")
        identity = id(value)
        if identity in self._open:
            raise TypeError(f"a {type(value).__name__} that holds itself has no JSON form")
        self._open.add(identity)
        try:
            match value:
                case Mapping():
                    items = cast("Mapping[object, object]", value).items()
                    return {self._key(key): self.value(item, levels - 1) for key, item in items}
                case list() | tuple() | set() | frozenset():
                    return [self.value(item, levels - 1) for item in cast("Iterable[object]", value)]
                case _ if is_dataclass(value) and not isinstance(value, type):
                    return {item.name: self.value(getattr(value, item.name), levels - 1) for item in fields(value)}
                case _:
                    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")
        finally:
            self._open.discard(identity)

    def _key(self, key: object) -> str:
        if isinstance(key, str):
            return without_surrogates(str.__str__(key))
        plain = self.value(key, 1)
        return plain if isinstance(plain, str) else str(key)


def _whole(number: int) -> JsonValue:
    whole = int.__int__(number)
    # Python neither writes nor reads longer ones in decimal digits.
    return whole if whole.bit_length() <= _MAX_WHOLE_BITS else hex(whole)


def _text_of(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise TypeError("bytes that are no UTF-8 text have no JSON form") from None


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
