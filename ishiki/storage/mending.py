"""Mending a log that `inspection` found damaged. Every byte that leaves the log is kept beside it.

The mended log is written next to the old one and takes its name when it is on the disk: a crash at any moment leaves
the one or the other whole. Blocks; only for who holds the folder's lock.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ishiki.errors import StorageError
from ishiki.storage.files import force_folder
from ishiki.storage.findings import LogReport
from ishiki.storage.format import checked_entry, encode_header, is_header, parse_line
from ishiki.storage.inspection import BOM, LogPlace, bare, read_lines
from ishiki.storage.recovery import new_cut_file
from ishiki.storage.tail import BLOCK_BYTES

__all__ = ["MENDED_SUFFIX", "mend_log"]

MENDED_SUFFIX = ".mending"
"""Behind the log's name: the mended log before it takes that name. One that lies there was left by a crash."""


def mend_log(report: LogReport, place: LogPlace, now_ms: int) -> Path:
    """Mend the log that `report` is about, and return the file beside it that holds the removed bytes, in their order.

    Args:
        report: what `inspect_log` has just found; it must be mendable.
        place: where the log lies; a broken first line is replaced by a header where it tells the channel.
        now_ms: names the file of the removed bytes.

    Raises:
        StorageError: `storage_unwritable`: nothing was changed. `storage_changed`: the log is no longer what was
            inspected; nothing was changed.
    """
    path = report.path.resolve()  # a link stays a link
    mended = path.with_name(f"{path.name}{MENDED_SUFFIX}")
    removed: Path | None = None
    try:
        with path.open("rb") as log:
            before = os.fstat(log.fileno())
            removed, descriptor = new_cut_file(path, now_ms)
            with os.fdopen(descriptor, "wb") as cut, mended.open("wb") as out:
                if before.st_size == report.size:
                    _rewrite(log, out, cut, report, place)
                for file in (cut, out):
                    file.flush()
                    os.fsync(file.fileno())
        shutil.copymode(path, mended)
        with suppress(PermissionError):  # only root may give files away, and only then is it needed
            os.chown(mended, before.st_uid, before.st_gid)
        after = path.stat()
        if (after.st_size, after.st_mtime_ns) != (report.size, before.st_mtime_ns):
            raise StorageError(
                "it changed while it was being mended; stop the bot and try again", path=path, code="storage_changed"
            )
        mended.replace(path)
        force_folder(path.parent)
    except (OSError, StorageError) as error:
        for leftover in (mended, removed):
            if leftover is not None:
                leftover.unlink(missing_ok=True)  # the log still holds these bytes
        if isinstance(error, StorageError):
            raise
        raise StorageError(
            f"cannot be mended: {error}; free space or mend its permissions, nothing was changed",
            path=path,
            code="storage_unwritable",
        ) from error
    return removed


def _rewrite(log: BinaryIO, out: BinaryIO, cut: BinaryIO, report: LogReport, place: LogPlace) -> None:
    """Write what stays of `log` to `out`, and what does not to `cut`."""
    # The first line is broken: it was the header, for nothing else stands there in a log that we have begun.
    header = b"" if report.has_header or place.identity is None else encode_header(*place.identity)
    has_first = False
    for line in read_lines(log, report.end):
        kept = None if line.offset in report.copies else _kept(line.raw, is_first=not has_first)
        if kept is None:
            if not has_first:
                out.write(header)
                header = b""
            _copy(log, cut, line.offset, line.offset + line.size)
            continue
        has_first = has_first or bool(kept.strip())
        out.write(kept)
        if kept != line.raw:
            before, _, after = line.raw.partition(kept.rstrip(b"\n") or b"\n")
            cut.write(before + after.removesuffix(b"\n"))
    _copy(log, cut, report.end, report.size)


def _kept(raw: bytes, *, is_first: bool) -> bytes | None:
    """Return what a mended log holds instead of a line, with its newline; None where the line is taken out."""
    text = bare(raw)
    if not text:
        if b"\0" in raw or BOM in raw or not raw:
            return None
        return b"\n" if raw.endswith(b"\r\n") else raw
    try:
        data = parse_line(text)
        if not (is_first and is_header(data)):
            checked_entry(data)
    except ValueError:
        return None
    return raw if raw in (text, text + b"\n") else text + b"\n"


def _copy(log: BinaryIO, target: BinaryIO, start: int, end: int) -> None:
    """Copy a range; the place in `log` stays where it was."""
    position = start
    while position < end:
        block = os.pread(log.fileno(), min(BLOCK_BYTES, end - position), position)
        if not block:
            return
        target.write(block)
        position += len(block)
