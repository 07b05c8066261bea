"""Reading a log backwards from its end, in blocks: the cost depends on how much is wanted, not on the file's size.

Works on an open file descriptor and blocks; call it in a worker thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ishiki.errors import StorageError

__all__ = ["BLOCK_BYTES", "damaged_line", "lines_backwards"]

BLOCK_BYTES = 256 * 1024
"""Bytes a read: some 500 lines. Larger blocks gain nothing and make short reads dearer."""


def lines_backwards(fd: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes (without the newline) of each line between `start` and `end`, the last one first.

    `start` is the start of a line. What follows the last newline is a line too, and is empty where the range ends with
    a newline. A range of no bytes has no lines.
    """
    pieces: list[bytes] = []  # of the line whose start is not found yet, the last one first
    position = end
    while position > start:
        size = min(BLOCK_BYTES, position - start)
        position -= size
        parts = _read(fd, size, position).split(b"\n")
        offset = position + size - len(parts[-1])
        pieces.append(parts[-1])
        if len(parts) == 1:
            continue
        yield offset, b"".join(reversed(pieces))
        for part in parts[-2:0:-1]:
            offset -= len(part) + 1
            yield offset, part
        pieces = [parts[0]]
    if end > start:
        yield start, b"".join(reversed(pieces))


def _read(fd: int, size: int, position: int) -> bytes:
    """Return exactly `size` bytes at `position`; one read may return fewer."""
    block = os.pread(fd, size, position)
    while len(block) < size:
        more = os.pread(fd, size - len(block), position + len(block))
        if not more:
            raise OSError(f"the file ends at byte {position + len(block)}, while it was being read")
        block += more
    return block


def damaged_line(path: Path, fd: int, offset: int, problem: str) -> StorageError:
    """Return the error for the broken line at `offset`; counts the lines before it, through the whole file."""
    line, position = 1, 0
    while position < offset:
        block = os.pread(fd, min(BLOCK_BYTES, offset - position), position)
        if not block:
            break
        line += block.count(b"\n")
        position += len(block)
    return StorageError(
        f"this line is broken: {problem}. Mend or remove it by hand; the channel stands still until then",
        path=path,
        line=line,
        code="storage_damaged",
    )
