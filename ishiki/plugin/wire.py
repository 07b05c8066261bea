"""Values as they come off the wire: JSON, ids, text and times, read leniently.

Pure functions. Only `decode` raises for what an end sends.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import Final, cast

import orjson

from ishiki.jsonvalue import JsonObject, JsonValue, without_surrogates

__all__ = ["LATEST_AHEAD_MS", "decode", "read_id", "read_text", "read_time_ms"]

_EARLIEST_MS: Final = 946_684_800_000
"""2000-01-01. An earlier time is a default value of the end, not a time."""

LATEST_AHEAD_MS: Final = 24 * 3_600_000
"""How far another machine's clock may be ahead of ours before its time is absurd. Our choice."""

_SECONDS_BELOW: Final = 100_000_000_000
"""A smaller number counts seconds (until the year 5138), a larger one milliseconds (since 1973)."""


_LONG_NUMBER: Final = re.compile(r":\s?-?\d{20}")
_LONG_NUMBER_IN_BYTES: Final = re.compile(_LONG_NUMBER.pattern.encode())
"""What may be a number of more than 64 bits, such as an id; the fast parser rounds those."""


def decode(data: str | bytes) -> JsonValue:
    """Read one JSON text; what the fast parser refuses or rounds is left to the standard one.

    The fast one refuses lone surrogates and NaN. It rounds whole numbers of more than 64 bits, so that two ids could
    become one.

    Raises:
        ValueError: it is no JSON, or nested too deeply to be a frame.
    """
    try:
        value = cast("JsonValue", orjson.loads(data))
    except orjson.JSONDecodeError:
        return _decode_slowly(data)
    long = _LONG_NUMBER.search(data) if isinstance(data, str) else _LONG_NUMBER_IN_BYTES.search(data)
    if long is not None:
        with contextlib.suppress(ValueError):  # more levels than it reads: rounded is better than lost
            return _decode_slowly(data)
    return value


def _decode_slowly(data: str | bytes) -> JsonValue:
    try:
        return cast("JsonValue", json.loads(data))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


_MAX_PLAIN_ID: Final = 2**64
"""Larger ones have to be looked at: Python does not write out numbers of any length."""

_NUMBERS: Final = (int, float)
"""A tuple: a union is made anew at each call, and this is asked a dozen times a frame."""


def read_text(data: JsonObject, *keys: str) -> str:
    """Return the first text or number that is not empty under one of `keys`; "" where there is none."""
    for key in keys:
        value = data.get(key)
        if isinstance(value, str):
            if value:
                return without_surrogates(value)
        elif value is not None and isinstance(value, _NUMBERS) and not isinstance(value, bool):
            return _number(value)
    return ""


def _number(value: int | float) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return str(value)
    except ValueError:  # more digits than Python writes out: nothing that an end means
        return ""


def read_id(data: JsonObject, *keys: str) -> str:
    """Return the first usable id under one of `keys`, as text; ids are only ever compared.

    Ends write ids as numbers and as text; 0 and blank ones name nothing.
    """
    for key in keys:
        number = data.get(key)
        if type(number) is int and 0 < number <= _MAX_PLAIN_ID:  # nearly all of them
            return str(number)
        value = read_text(data, key).strip()
        if value and value != "0":
            return value
    return ""


def read_time_ms(data: JsonObject, key: str, *, now_ms: int | None = None) -> int | None:
    """Return the time under `key` in epoch milliseconds, or None for an absent or absurd one.

    The standard counts seconds; some ends send milliseconds, which are told apart by their size.

    Args:
        data: where it stands.
        key: its name.
        now_ms: the time of day; a later time by more than a day is absurd. None: any future is taken.
    """
    value = data.get(key)
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 < value < 1e15:  # false for NaN too
        return None
    at = int(value * 1000) if value < _SECONDS_BELOW else int(value)
    is_late = now_ms is not None and at > now_ms + LATEST_AHEAD_MS
    return None if at < _EARLIEST_MS or is_late else at
