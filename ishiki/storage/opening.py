"""Opening a log: its header, the end of its whole batches, and its newest lines, read backwards.

Reads at most `window + 1,000` lines, whatever the file's size. Blocks; call it in a worker thread.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ishiki.core.entries import CHECKPOINT, COMPACT, Entry
from ishiki.errors import StorageError
from ishiki.jsonvalue import JsonObject, read_str
from ishiki.storage.format import (
    FORMAT,
    VERSION,
    StoredEntry,
    batch_key,
    encode_header,
    is_header,
    parse_entry,
    parse_line,
)
from ishiki.storage.recovery import cut_off, find_end
from ishiki.storage.tail import damaged_line, lines_backwards
from ishiki.storage.window import LiveWindow

__all__ = ["CHECKPOINT_REACH", "OpenedLog", "open_log"]

CHECKPOINT_REACH = 1_000
"""Lines read beyond the window in search of a checkpoint: as many as lie between two checkpoints."""

_HEAD_BYTES = 16 * 1024
"""What the header is looked for in. A first line longer than this is an entry."""

_IGNORED_BEFORE_HEADER = b"\xef\xbb\xbf \t\r\n"
"""A byte order mark and blank lines, as editors leave them."""


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """What opening found."""

    version: int
    """The version of the file's lines."""
    start: int
    """The offset of the first entry: behind the header."""
    end: int
    """The file's size."""
    prefix: bytes
    """What the first append has to write in front: the header of a new log, or the newline that the last line lacks."""
    window: LiveWindow
    checkpoint: Entry | None
    """The newest checkpoint among the lines that were read."""
    entries_since_checkpoint: int
    """How many entries follow it; without one, how many were read."""
    replay: tuple[StoredEntry, ...]
    """What follows the checkpoint and is older than the window, in the order of the file."""


class _Head(NamedTuple):
    version: int
    start: int  # of the entries
    problem: str  # why the first line cannot be read; empty where it can


@dataclass(slots=True)
class _Lines:
    """Lines, newest first, and what is special about the few that are: an object for each line would cost 10 ms."""

    stored: list[StoredEntry] = field(default_factory=list[StoredEntry])
    closes: dict[int, str] = field(default_factory=dict[int, str])  # by offset: the batch that the line belongs to
    compactions: set[int] = field(default_factory=set[int])  # offsets
    checkpoint_index: int | None = None


def open_log(path: Path, *, sid: str, channel_id: str, window_entries: int, now_ms: int) -> OpenedLog:
    """Read what is needed of the log at `path`, and cut off what a crash left at its end.

    A file that does not exist, or holds nothing, is a new log of this channel.

    Raises:
        StorageError: `storage_foreign`, `storage_newer`, `storage_damaged` (with the line), `storage_unreadable`, or
            `storage_unwritable` where something had to be cut and could not be.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return _new_log(sid, channel_id, window_entries, 0)
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        size = os.fstat(descriptor).st_size
        head = _read_head(path, descriptor, sid, channel_id)
        end = find_end(path, descriptor, head.start, size)
        if head.problem and end.offset > head.start:
            raise damaged_line(path, descriptor, head.start, head.problem)
        if end.offset < size:
            _cut_off(path, end.offset, now_ms)
        if head.version == 0 and end.offset == head.start:
            return _new_log(sid, channel_id, window_entries, end.offset)
        lines = _read_lines(path, descriptor, head, end.offset, window_entries)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(descriptor)
    prefix = b"\n" if end.needs_newline else b""
    return _assembled(lines, head, end.offset, prefix, window_entries)


def _unreadable(path: Path, error: OSError) -> StorageError:
    return StorageError(f"cannot be read: {error}", path=path, code="storage_unreadable")


def _new_log(sid: str, channel_id: str, window_entries: int, end: int) -> OpenedLog:
    """Return what a log without entries is; `end` is not 0 where a byte order mark or blank lines stand in it."""
    header = encode_header(sid, channel_id)
    return OpenedLog(VERSION, end + len(header), end, header, LiveWindow(window_entries), None, 0, ())


def _cut_off(path: Path, end: int, now_ms: int) -> None:
    try:
        cut_off(path, end, now_ms)
    except OSError as error:
        raise StorageError(
            f"the unfinished end of this log cannot be cut off: {error}; free space or mend its permissions",
            path=path,
            code="storage_unwritable",
        ) from error


def _read_head(path: Path, descriptor: int, sid: str, channel_id: str) -> _Head:
    """Read and check the header, if there is one."""
    head = os.pread(descriptor, _HEAD_BYTES, 0)
    text = head.lstrip(_IGNORED_BEFORE_HEADER)
    skipped = len(head) - len(text)
    line, newline, _ = text.partition(b"\n")
    if not text or (not newline and len(head) == _HEAD_BYTES):
        return _Head(0, skipped, "")
    try:
        data = parse_line(line)
    except ValueError as error:
        return _Head(0, skipped, str(error))
    if not is_header(data):
        return _Head(0, skipped, "")
    version = _checked_version(path, data, sid, channel_id)
    if not newline:  # torn: it is cut, and written again by the first append
        return _Head(0, skipped, "its newline is missing")
    return _Head(version, skipped + len(line) + len(newline), "")


def _checked_version(path: Path, header: JsonObject, sid: str, channel_id: str) -> int:
    if header["format"] != FORMAT:
        raise StorageError(
            f"its header names the format {header['format']!r} instead of {FORMAT!r}; this is another kind of file",
            path=path,
            line=1,
            code="storage_foreign",
        )
    version = header.get("version")
    if not isinstance(version, int) or version < 1:
        raise StorageError(
            f"its header has the version {version!r}, not a whole number from 1 on",
            path=path,
            line=1,
            code="storage_damaged",
        )
    if version > VERSION:
        raise StorageError(
            f"it is of version {version}, and this Ishiki reads up to {VERSION}; install a newer one",
            path=path,
            line=1,
            code="storage_newer",
        )
    found = read_str(header, "sid"), read_str(header, "channelId")
    if found != (sid, channel_id):
        raise StorageError(
            f"it belongs to {found[1]!r} of {found[0]!r}, not to {channel_id!r} of {sid!r}; put it back where it was",
            path=path,
            line=1,
            code="storage_foreign",
        )
    return version


def _read_lines(path: Path, descriptor: int, head: _Head, end: int, window_entries: int) -> _Lines:
    """Return the lines that fill the window and reach back to a checkpoint."""
    lines = _Lines()
    stored = lines.stored
    most = window_entries + CHECKPOINT_REACH
    for offset, raw in lines_backwards(descriptor, head.start, end):
        try:
            data = parse_entry(raw)
        except ValueError as error:
            if not raw.strip():
                continue
            raise damaged_line(path, descriptor, offset, str(error)) from error
        joins = read_str(data, "joins") or None if "joins" in data else None
        if "turnId" in data and (key := batch_key(data)) is not None:
            lines.closes[offset] = key
        kind = str(data["type"])
        if kind == COMPACT:
            lines.compactions.add(offset)
        elif kind == CHECKPOINT and lines.checkpoint_index is None:
            lines.checkpoint_index = len(stored)
        stored.append(StoredEntry(offset, kind, joins, None, raw, head.version))
        if len(stored) >= most or (lines.checkpoint_index is not None and len(stored) >= window_entries):
            break
    return lines


def _assembled(lines: _Lines, head: _Head, end: int, prefix: bytes, window_entries: int) -> OpenedLog:
    window = LiveWindow(window_entries)
    for stored in reversed(lines.stored[:window_entries]):
        offset = stored.offset
        window.add(stored, lines.closes.get(offset), is_compaction=offset in lines.compactions)
    index = lines.checkpoint_index
    since = len(lines.stored) if index is None else index
    return OpenedLog(
        version=head.version,
        start=head.start,
        end=end,
        prefix=prefix,
        window=window,
        checkpoint=None if index is None else lines.stored[index].entry,
        entries_since_checkpoint=since,
        replay=tuple(reversed(lines.stored[window_entries:since])),
    )
