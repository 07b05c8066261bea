"""The lines of `events.jsonl`: header, encoding, decoding, versions (docs/formats/events.md).

Pure: bytes in, values out. Knows no file and no order of lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import orjson

from ishiki.core.entries import EVENT, Entry, closing_key, entry_from_json, entry_to_json, step_key
from ishiki.jsonvalue import JsonObject, JsonValue, normalise, read_object, read_str

__all__ = [
    "FORMAT",
    "MIGRATIONS",
    "VERSION",
    "EncodedLine",
    "StoredEntry",
    "batch_key",
    "checked_entry",
    "encode_entries",
    "encode_header",
    "is_header",
    "parse_entry",
    "parse_line",
    "v0_to_v1",
]

FORMAT = "ishiki.events"
"""The header's `format`."""

VERSION = 1
"""The version that new logs get. A file without a header is version 0."""

_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1
"""What orjson writes and reads as a whole number."""

_BINARY: tuple[type, ...] = (bytes, bytearray, memoryview)
"""Sequences of numbers by type that no fact means as such."""


@dataclass(frozen=True, slots=True)
class EncodedLine:
    """One entry as a line of the log."""

    raw: bytes
    """The line with its newline."""
    is_exact: bool
    """Whether it reads back as the entry it was made of; False where `encode_entries` had to mend a value."""


def encode_header(sid: str, channel_id: str) -> bytes:
    """Return the first line of a new log, with its newline."""
    header: JsonObject = {"type": "header", "format": FORMAT, "version": VERSION, "sid": sid, "channelId": channel_id}
    return orjson.dumps(header) + b"\n"


def is_header(data: JsonObject) -> bool:
    """Return whether a decoded first line is a header of any format; an entry has `data` and no `format`."""
    return data.get("type") == "header" and "format" in data


def encode_entries(entries: Sequence[Entry]) -> list[EncodedLine]:
    """Return one batch as lines; every line but the last carries `"more": true`.

    Lone surrogates, which are no text in UTF-8, are written as U+FFFD, and whole numbers beyond 64 bits as text: the
    log takes every fact.

    Raises:
        ValueError: an entry holds a value that has no JSON form, such as bytes; names the entry.
    """
    last = len(entries) - 1
    return [_encode_entry(entry, more=index < last) for index, entry in enumerate(entries)]


def _encode_entry(entry: Entry, *, more: bool) -> EncodedLine:
    data = entry_to_json(entry)
    if more:
        data["more"] = True
    try:
        return EncodedLine(orjson.dumps(data, default=_plain, option=orjson.OPT_APPEND_NEWLINE), is_exact=True)
    except orjson.JSONEncodeError:
        pass
    try:
        raw = orjson.dumps(_mended(data), default=_plain, option=orjson.OPT_APPEND_NEWLINE)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"entry {entry.id!r} of type {entry.type!r} cannot be written as JSON: {error}") from error
    return EncodedLine(raw, is_exact=False)


def _plain(value: object) -> object:
    """Return read-only mappings and sequences as what orjson takes."""
    if isinstance(value, _BINARY):
        raise TypeError(f"{type(value).__name__} is not JSON")
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, JsonValue]", value))
    if isinstance(value, Sequence):
        return list(cast("Sequence[JsonValue]", value))
    raise TypeError(f"{type(value).__name__} is not JSON")


def _mended(value: JsonValue) -> JsonValue:
    """Return `value` with everything that JSON in UTF-8 cannot hold replaced by the nearest that it can."""
    match value:
        case str():
            return _mended_text(value)
        case bool() | float() | None:
            return value
        case int():
            if _MIN_INT <= value <= _MAX_INT:
                return value
            plain = normalise(value)  # text where there are more digits than Python writes
            return plain if isinstance(plain, str) else str(plain)
        case Mapping():
            return {_mended_text(key): _mended(item) for key, item in value.items()}
        case list() | tuple():
            return [_mended(item) for item in value]
        case _:
            return value  # something of the caller's own: orjson takes it, or its refusal names the type


def _mended_text(text: str) -> str:
    # Through the class, so that a key that is no text is the TypeError that `encode_entries` reports.
    return str.encode(text, "utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def parse_line(raw: bytes) -> JsonObject:
    """Return the JSON object of one line.

    What orjson refuses is tried with the standard parser, which reads lone surrogates (here U+FFFD), `NaN` (here null)
    and numbers of any size: older writers left such lines, and each is one fact, not a broken file.

    Raises:
        ValueError: the line is no JSON object.
    """
    value: JsonValue
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as refusal:
        try:
            value = _mended(json.loads(raw.decode("utf-8", "surrogatepass"), parse_constant=lambda _: None))
        except (ValueError, RecursionError):
            raise ValueError(f"not JSON ({refusal})") from refusal
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def parse_entry(raw: bytes) -> JsonObject:
    """Return the JSON object of an entry's line, so checked that decoding it later cannot fail.

    Raises:
        ValueError: the line is broken, or no entry.
    """
    return checked_entry(parse_line(raw))


def checked_entry(data: JsonObject) -> JsonObject:
    """Return a decoded line as it is, checked as `parse_entry` says.

    Raises:
        ValueError: it is no entry.
    """
    kind = data.get("type")
    if not isinstance(kind, str) or not kind:
        raise ValueError("an entry needs a text field 'type'")
    if not isinstance(data.get("data"), dict):
        raise ValueError("an entry needs an object field 'data'")
    return data


def batch_key(data: JsonObject) -> str | None:
    """Return the `joins` key that a line, decoded from JSON, closes: `core.closing_key` without decoding its message.

    A joined entry closes nothing: it has moved behind a batch itself.
    """
    turn_id = read_str(data, "turnId") if "turnId" in data else ""
    if not turn_id or "joins" in data:
        return None
    step = data.get("step")
    if isinstance(step, int):
        return step_key(turn_id, step)
    if data.get("type") != EVENT:
        return None
    kind = read_str(read_object(data, "data"), "type")
    return closing_key(Entry(EVENT, {"type": kind}, 0, "", None, turn_id))


def v0_to_v1(data: JsonObject) -> JsonObject:
    """Return an entry of a headerless log as one of version 1.

    Version 1 adds the header and the fields `step`, `joins` and `more`, all of which may be absent; no field of
    version 0 changed its name or meaning, so every entry is already one of version 1.
    """
    return data


MIGRATIONS: tuple[Callable[[JsonObject], JsonObject], ...] = (v0_to_v1,)
"""`MIGRATIONS[n]` turns an entry of version n into one of n + 1. Files are never rewritten: reading migrates."""


class StoredEntry:
    """One entry of the log with its place in the file; decoded when it is first asked for.

    A window of thousands of lines is read at every opening and most of it is never looked at; keeping the bytes makes
    opening fast and the resident window small.
    """

    __slots__ = ("_entry", "_raw", "_version", "joins", "kind", "offset")

    def __init__(
        self,
        offset: int,
        kind: str,
        joins: str | None,
        entry: Entry | None,
        raw: bytes = b"",
        version: int = VERSION,
    ) -> None:
        """Keep `entry`, or the line `raw`, which `parse_entry` has checked, and the version of its file."""
        self.offset = offset
        """Where the line starts, in bytes from the start of the file."""
        self.kind = sys.intern(kind)
        """The entry's `type`, to be looked for without decoding."""
        self.joins = joins
        """The entry's own `joins`."""
        self._entry = entry
        self._raw = raw
        self._version = version

    @property
    def entry(self) -> Entry:
        """The entry. One without an id is named after its place, so that it keeps the name when it is read again."""
        if self._entry is None:
            data = parse_entry(self._raw)
            for migrate in MIGRATIONS[self._version : VERSION]:
                data = migrate(data)
            if not read_str(data, "id"):
                data = {**data, "id": f"at-{self.offset}"}
            self._entry = entry_from_json(data)
            self._raw = b""
        return self._entry
