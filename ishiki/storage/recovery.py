"""Finding the end of the last whole batch of a log, and cutting off what a crash left behind it.

Nothing is thrown away: what is cut is kept beside the log. Blocks; call it in a worker thread.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from ishiki.storage.format import parse_entry
from ishiki.storage.tail import BLOCK_BYTES, damaged_line, lines_backwards

__all__ = ["LogEnd", "cut_off", "find_end", "new_cut_file", "without_zeros"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where the whole batches of a log end."""

    offset: int
    """Behind the last whole batch, its newline included; what follows in the file is to be cut."""
    needs_newline: bool
    """Whether the last line is whole but for its newline, which the next append has to write first."""


def find_end(path: Path, fd: int, start: int, size: int) -> LogEnd:
    """Return where the last whole batch between `start` and `size` ends.

    Bytes of zero at the end (a power loss after the file had grown), a last line that is torn or otherwise broken, and
    the lines of a batch whose last line is missing lie behind it.

    Raises:
        StorageError: there is a second broken line before the last one; that is not what a crash leaves.
    """
    cut_at = without_zeros(fd, start, size)
    is_last = True
    for offset, raw in lines_backwards(fd, start, cut_at):
        if not raw.strip():
            continue
        try:
            data = parse_entry(raw)
        except ValueError as error:
            if not is_last:
                raise damaged_line(path, fd, offset, str(error)) from error
        else:
            if data.get("more") is not True:
                return LogEnd(cut_at, needs_newline=offset + len(raw) == cut_at)
        is_last, cut_at = False, offset
    return LogEnd(cut_at, needs_newline=False)


def without_zeros(fd: int, start: int, size: int) -> int:
    """Return the end of what is left when zeros at the end of `start`..`size` are taken away."""
    end = size
    while end > start:
        block = os.pread(fd, min(BLOCK_BYTES, end - start), max(start, end - BLOCK_BYTES))
        kept = len(block.rstrip(b"\0"))
        if kept:
            return end - len(block) + kept
        end -= len(block)
    return start


def cut_off(path: Path, end: int, now_ms: int) -> Path:
    """Cut `path` at the offset `end` and return the new file beside it, `<name>.cut-<ms>`, that holds what was cut.

    The copy is on the disk before the log is cut: a crash in between leaves both.

    Raises:
        OSError: the copy could not be written, or the log not be cut; nothing is lost.
    """
    with path.open("r+b") as log:
        target, descriptor = new_cut_file(path, now_ms)
        try:
            with os.fdopen(descriptor, "wb") as copy:
                log.seek(end)
                while block := log.read(BLOCK_BYTES):
                    copy.write(block)
                copied_bytes = copy.tell()
                copy.flush()
                os.fsync(copy.fileno())
        except OSError:
            target.unlink(missing_ok=True)  # the log still holds these bytes
            raise
        log.truncate(end)
        os.fsync(log.fileno())
    _logger.warning(
        "%s: cut %d bytes of an unfinished batch from the end, as a crash leaves them; they are kept in %s",
        path,
        copied_bytes,
        target.name,
    )
    return target


def new_cut_file(path: Path, now_ms: int) -> tuple[Path, int]:
    """Create a file for the cut bytes that did not exist before; return it and its descriptor."""
    while True:
        target = path.with_name(f"{path.name}.cut-{now_ms}")
        try:
            return target, os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            now_ms += 1
