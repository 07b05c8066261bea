"""Open files of all logs: a bounded pool of append handles, who owns which path, and when bytes are forced to the disk.

Knows bytes and offsets, not entries. `AppendFile` blocks and is called in worker threads; `LogFiles` belongs to the
event loop.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import anyio
from anyio import to_thread

from ishiki.core.clock import Clock, SystemClock
from ishiki.errors import StorageError

__all__ = ["AppendFile", "FsyncPolicy", "LogFiles", "force_folder"]

_logger = logging.getLogger(__name__)

FsyncPolicy = Literal["always", "interval", "never"]
"""When bytes that the operating system has are forced to the disk: with each append, within a second, or never.

All three survive the death of the process; they differ in what a power loss takes.
"""

_MAX_OPEN = 128
"""Append handles open at once. Well below the usual limit of 1,024 descriptors, which sockets share."""

_WORKERS = 8
"""Threads that logs use at once; their own, so that slow work elsewhere never holds a fact up."""


class LogFiles:
    """What all logs of one process share. One supervisor owns it: it runs `run` and calls `aclose` last."""

    def __init__(
        self,
        *,
        fsync: FsyncPolicy = "interval",
        interval_s: float = 1.0,
        max_open: int = _MAX_OPEN,
        clock: Clock | None = None,
    ) -> None:
        """Start with no file.

        Args:
            fsync: when bytes are forced to the disk.
            interval_s: seconds between a first unforced byte and its fsync, under `interval`.
            max_open: append handles kept open; the least recently used one is closed beyond that.
            clock: what `run` waits by and cut files are named by; the system's where None.
        """
        self.fsync: FsyncPolicy = fsync
        self.clock = clock or SystemClock()
        self.limiter = anyio.CapacityLimiter(_WORKERS)
        """The worker threads for everything that blocks here."""
        self._interval_s = interval_s
        self._max_open = max_open
        self._claimed: set[str] = set()
        self._unforced = anyio.Event()
        self._pool: OrderedDict[AppendFile, None] = OrderedDict()
        # Held for moments only, and never while waiting for a file's own lock: a thread takes the file's lock first.
        self._pool_lock = threading.Lock()

    @property
    def open_count(self) -> int:
        """How many append handles are open now."""
        return len(self._pool)

    def claim(self, path: Path) -> None:
        """Make the caller the one owner of `path` in this process.

        Raises:
            StorageError: it has an owner already (`storage_in_use`).
        """
        key = os.path.realpath(path)
        if key in self._claimed:
            raise StorageError("this log is open already; close that one first", path=path, code="storage_in_use")
        self._claimed.add(key)

    def release(self, path: Path) -> None:
        """Undo `claim`. Idempotent."""
        self._claimed.discard(os.path.realpath(path))

    async def run(self) -> None:
        """Force what was written to the disk, within the interval. Runs until cancelled; returns under other policies.

        Without writes it waits without waking up.
        """
        while self.fsync == "interval":
            await self._unforced.wait()
            await self.clock.sleep(self._interval_s)
            self._unforced = anyio.Event()
            await self.sync()

    async def sync(self) -> None:
        """Force everything written so far to the disk, now. A file that cannot be is an ERROR in the log, no raise."""
        await to_thread.run_sync(self._sync_all, limiter=self.limiter)

    async def aclose(self) -> None:
        """Force everything to the disk and close every handle. Not cancellable half way. Idempotent."""
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._close_all, limiter=self.limiter)

    def wrote(self) -> None:
        """Tell `run` that there are bytes to force."""
        if self.fsync == "interval":
            self._unforced.set()

    def touch(self, file: AppendFile) -> None:
        """Count `file` as open and just used; close others beyond the bound. Called by `file`, which holds its lock."""
        with self._pool_lock:
            self._pool[file] = None
            self._pool.move_to_end(file)
            excess = len(self._pool) - self._max_open
            if excess <= 0:
                return
            # Handles without unforced bytes first: closing the others costs an fsync.
            oldest_first = [other for other in self._pool if other is not file]
            for other in sorted(oldest_first, key=lambda one: one.is_unforced):
                if excess > 0 and other.close_if_unused():
                    del self._pool[other]
                    excess -= 1

    def forget(self, file: AppendFile) -> None:
        """Stop counting `file`, which is closed."""
        with self._pool_lock:
            self._pool.pop(file, None)

    def _files(self) -> list[AppendFile]:
        with self._pool_lock:
            return list(self._pool)

    def _sync_all(self) -> None:
        for file in self._files():
            file.sync()

    def _close_all(self) -> None:
        for file in self._files():
            file.close()


class AppendFile:
    """The end of one log: appends bytes all or nothing. Its handle opens at need and may be closed between appends."""

    def __init__(self, path: Path, *, end: int, prefix: bytes, files: LogFiles) -> None:
        """Append to `path`.

        Args:
            path: the file. Where `end` is 0 it need not exist: it and its folder are made by the first append.
            end: its size.
            prefix: what the first append writes in front of its own bytes, such as the header.
            files: the pool that the handle belongs to.
        """
        self.path = path
        self.is_unforced = False
        """Whether bytes await their fsync."""
        self._end = end
        self._prefix = prefix
        self._files = files
        self._descriptor: int | None = None
        self._is_torn = False  # a failed write left bytes behind `_end` that could not be cut at once
        self._lock = threading.Lock()

    def append(self, payload: bytes, on_written: Callable[[int], None] | None = None) -> int:
        """Append `payload` in one write; return the offset of its first byte.

        Args:
            payload: the bytes.
            on_written: called with that offset before another thread can append, so that whoever keeps account of
                the file does so in its order. Must not raise.

        Raises:
            StorageError: nothing was appended. `storage_unwritable`: the same call may be tried again.
                `storage_changed`: another program changed the file. `storage_removed`: it is gone, or another one has
                taken its name. It has to be opened again.
        """
        with self._lock:
            try:
                descriptor = self._opened()
                self._check_end(descriptor)
                self._write(descriptor, self._prefix + payload)
            except OSError as error:
                raise StorageError(
                    f"cannot be written: {error}; free space or mend its permissions, nothing of this append was kept",
                    path=self.path,
                    code="storage_unwritable",
                ) from error
            offset = self._end + len(self._prefix)
            self._end = offset + len(payload)
            self._prefix = b""
            if on_written is not None:
                on_written(offset)
            return offset

    def sync(self) -> None:
        """Force what was written to the disk. Appends go on meanwhile. Logs an ERROR where it fails."""
        with self._lock:
            if self._descriptor is None or not self.is_unforced:
                return
            self.is_unforced = False
            descriptor = os.dup(self._descriptor)
        try:
            self._force(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Force what was written to the disk and close the handle. Idempotent; a later append opens it again."""
        with self._lock:
            self._close()
            self._files.forget(self)

    def close_if_unused(self) -> bool:
        """Close the handle unless a thread is at work on it; return whether it is closed. Called by the pool."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._close()
        finally:
            self._lock.release()
        return True

    def _close(self) -> None:
        if self._descriptor is None:
            return
        if self.is_unforced:
            self._force(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = None
        self.is_unforced = False

    def _force(self, descriptor: int) -> None:
        # Trying again would report success without the bytes being safe: the kernel drops them after one report.
        try:
            os.fsync(descriptor)
        except OSError:
            _logger.exception("%s: fsync failed; a power loss now may take its newest facts. Check the disk", self.path)

    def _opened(self) -> int:
        if self._descriptor is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
            if self._end == 0:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                flags |= os.O_CREAT
            try:
                self._descriptor = os.open(self.path, flags, 0o666)
            except FileNotFoundError:
                raise self._removed() from None
        self._files.touch(self)
        return self._descriptor

    def _check_end(self, descriptor: int) -> None:
        """Check that the file still ends where our last append ended, and cut what a failed one has left there."""
        if self._is_torn:
            os.ftruncate(descriptor, self._end)
            self._is_torn = False
        status = os.fstat(descriptor)
        try:
            if not os.path.samestat(status, os.stat(self.path)):
                raise self._removed()
        except FileNotFoundError:
            raise self._removed() from None
        if status.st_size != self._end:
            raise StorageError(
                f"another program changed this log: it has {status.st_size} bytes instead of {self._end}. "
                "Let one bot at a time use the data folder, and restart it",
                path=self.path,
                code="storage_changed",
            )

    def _removed(self) -> StorageError:
        return StorageError("this log was removed", path=self.path, code="storage_removed")

    def _write(self, descriptor: int, data: bytes) -> None:
        try:
            view = memoryview(data)
            while view:  # a write may be short; the next one then names the reason
                view = view[os.write(descriptor, view) :]
            if self._files.fsync == "always":
                os.fsync(descriptor)
                if self._end == 0:
                    force_folder(self.path.parent)
        except OSError:
            self._is_torn = True
            try:
                os.ftruncate(descriptor, self._end)
                self._is_torn = False
            except OSError as error:
                _logger.warning("%s: a failed append is not cut yet (%s); the next one does it", self.path, error)
            raise
        self.is_unforced = self._files.fsync == "interval"


def force_folder(folder: Path) -> None:
    """Force a new file's name to the disk: the fsync of the file alone does not promise that."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
