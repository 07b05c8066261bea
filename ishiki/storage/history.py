"""Older entries from the disk, newest first, in blocks of whole turns.

The order is that of `core.place_joined`, applied to each block. A block ends where no turn is open, so that a fact and
the batch that it joined come in one block; a turn of more than two blocks is the exception, and a fact of it whose
batch lies in another block keeps the place of its arrival. Each entry is yielded exactly once in any case.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ishiki.core.entries import EVENT, Entry, place_joined
from ishiki.errors import StorageError
from ishiki.storage.format import StoredEntry
from ishiki.storage.tail import damaged_line, lines_backwards

__all__ = ["HISTORY_BLOCK", "read_block"]

HISTORY_BLOCK = 1_000
"""Lines a block; twice as many where a turn is open at its edge."""


def read_block(
    path: Path, start: int, end: int, version: int, block_lines: int = HISTORY_BLOCK
) -> tuple[list[Entry], int]:
    """Return the entries of the block that ends at the offset `end`, newest first, and the offset where it starts.

    Blocks; call it in a worker thread.

    Args:
        path: the log.
        start: the offset of the log's first entry; a block that starts there is the last one.
        end: where the block ends, at the end of a line.
        version: the version of the file.
        block_lines: how many lines make a block.

    Raises:
        StorageError: a line is broken (`storage_damaged`), or the file cannot be read (`storage_unreadable`).
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise StorageError(f"cannot be read: {error}", path=path, code="storage_unreadable") from error
    try:
        entries, block_start = _whole_turns(
            _entries_backwards(path, descriptor, start, end, version), start, block_lines
        )
    except OSError as error:
        raise StorageError(f"cannot be read: {error}", path=path, code="storage_unreadable") from error
    finally:
        os.close(descriptor)
    placed = place_joined(reversed(entries))
    placed.reverse()
    return placed, block_start


def _whole_turns(entries: Iterator[tuple[int, Entry]], start: int, block_lines: int) -> tuple[list[Entry], int]:
    block: list[Entry] = []
    open_turns: set[str] = set()
    for offset, entry in entries:
        block.append(entry)
        if entry.turn_id is not None:
            if entry.type == EVENT and entry.json_data.get("type") == "turn.start":
                open_turns.discard(entry.turn_id)
            else:
                open_turns.add(entry.turn_id)
        is_long_enough = len(block) >= block_lines and not open_turns
        if is_long_enough or len(block) >= 2 * block_lines:
            return block, offset
    return block, start


def _entries_backwards(path: Path, fd: int, start: int, end: int, version: int) -> Iterator[tuple[int, Entry]]:
    for offset, raw in lines_backwards(fd, start, end):
        try:
            yield offset, StoredEntry(offset, "", None, None, raw, version).entry
        except ValueError as error:
            if raw.strip():
                raise damaged_line(path, fd, offset, str(error)) from error
