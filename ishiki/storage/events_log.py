"""`EventLog`: one channel's `events.jsonl` as the `EntryStore` of its agent."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio
from anyio import to_thread

from ishiki.core.entries import CHECKPOINT, COMPACT, Entry, closing_key
from ishiki.core.store import EntryStore
from ishiki.errors import StorageError
from ishiki.storage.files import AppendFile, LogFiles
from ishiki.storage.format import EncodedLine, StoredEntry, encode_entries
from ishiki.storage.history import read_block
from ishiki.storage.opening import OpenedLog, open_log

__all__ = ["EventLog"]

_logger = logging.getLogger(__name__)

_REMOVED = "storage_removed"
"""What `AppendFile` calls a file whose name is gone, or is another file's."""


class _Written(NamedTuple):
    """A batch that is in the file and not yet in the window."""

    entries: tuple[Entry, ...]
    lines: list[EncodedLine]
    offset: int


class EventLog(EntryStore):
    """An append-only log on disk with its newest entries in memory. Made by `open`; one per path and process."""

    def __init__(self, path: Path, sid: str, channel_id: str, opened: OpenedLog, files: LogFiles) -> None:
        """Take over what opening found; use `open`."""
        self.path = path
        self.sid = sid
        self.channel_id = channel_id
        self._files = files
        self._written: deque[_Written] = deque()
        self._lock = anyio.Lock(fast_acquire=True)
        self._is_closed = False
        self._has_warned = False
        self._take_over(opened)

    def _take_over(self, opened: OpenedLog) -> None:
        self._file = AppendFile(self.path, end=opened.end, prefix=opened.prefix, files=self._files)
        self._version = opened.version
        self._start = opened.start
        self._end = opened.end
        self._window = opened.window
        self._checkpoint = opened.checkpoint
        self._since_checkpoint = opened.entries_since_checkpoint
        self._replay = opened.replay

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        sid: str,
        channel_id: str,
        window_entries: int = 5000,
        files: LogFiles,
        reads_window: bool = True,
    ) -> EventLog:
        """Open the log at `path`, reading its end. A log that does not exist is made by its first append.

        Args:
            path: `events.jsonl` of the channel.
            sid: the account, `<platform>:<self_id>`; checked against the header.
            channel_id: the channel; checked against the header.
            window_entries: how many of the newest entries are kept in memory.
            files: what all logs of the process share.
            reads_window: False where nobody reads it, so that nobody misses what leaves it.

        Raises:
            StorageError: `storage_in_use` (open already), `storage_foreign` (of another channel), `storage_newer` (of
                a newer version), `storage_damaged` (with its line), `storage_unreadable`, `storage_unwritable`.
            ValueError: `window_entries` is not positive.
        """
        if window_entries < 1:
            raise ValueError(f"window_entries is {window_entries}, and at least 1 is needed")
        with ExitStack() as undo:
            files.claim(path)
            undo.callback(files.release, path)
            opened = await _read(path, sid, channel_id, window_entries, files)
            log = cls(path, sid, channel_id, opened, files)
            log._has_warned = not reads_window
            undo.pop_all()
            return log

    @property
    def version(self) -> int:
        """The version of the file: 0 for one without a header, which stays as it is."""
        return self._version

    @property
    def last_checkpoint(self) -> Entry | None:
        """The newest `ishiki.checkpoint`, or None where opening met none and none was appended."""
        self._take_in()
        return self._checkpoint

    @property
    def entries_since_checkpoint(self) -> int:
        """How many entries follow `last_checkpoint`; without one, those that opening read and what came since."""
        self._take_in()
        return self._since_checkpoint

    def take_replay(self) -> Sequence[Entry]:
        """Return, once, what follows the checkpoint that opening found and is older than the window then read.

        In the order of the file, at most 1,000; usually empty, as the window reaches back further than the checkpoint.
        Whoever restores state from the checkpoint reads these first, then the window.
        """
        replay, self._replay = self._replay, ()
        return [stored.entry for stored in replay]

    async def append(self, *entries: Entry) -> None:
        """Append `entries` as one batch: all or nothing. On return they survive the death of the process.

        A cancelled caller finds the batch written or not begun. No entries: nothing is written. A log that somebody
        removed, as people do who want a channel to forget, begins anew, also in the window.

        Raises:
            StorageError: nothing of the batch is in the log. `storage_unwritable`: the same call may be tried again.
                `storage_changed` (by another program) and `storage_closed`: the log has to be opened again.
            ValueError: an entry has no JSON form; nothing was appended.
        """
        await self.append_batches([entries])

    async def append_batches(self, batches: Sequence[Sequence[Entry]]) -> None:
        """Append `batches` in one write; see `BatchStore`. Raises as `append` does."""
        entries = tuple(entry for batch in batches for entry in batch)
        if not entries:
            return
        lines = [line for batch in batches for line in encode_entries(batch)]
        async with self._lock:
            if self._is_closed:
                raise StorageError("this log is closed; open it again", path=self.path, code="storage_closed")
            try:
                try:
                    await to_thread.run_sync(self._write, entries, lines, limiter=self._files.limiter)
                except StorageError as error:
                    if error.code != _REMOVED:
                        raise
                    await self._begin_anew()
                    await to_thread.run_sync(self._write, entries, lines, limiter=self._files.limiter)
            finally:
                self._take_in()

    def window(self) -> Sequence[Entry]:
        """Return the newest entries in history order; later appends do not change what was returned."""
        self._take_in()
        return self._window.view()

    async def history(self, *, before: str | None = None) -> AsyncIterator[Entry]:
        """Yield older entries, newest first: from the window where `before` is in it, then from disk in blocks.

        `history.py` says how joined facts are placed. No file stays open between two entries.

        Args:
            before: an entry id; what is older than it is yielded, and nothing where the log does not hold it. None:
                what is older than the window.

        Raises:
            StorageError: a line is broken, or the file cannot be read.
        """
        window = self.window()
        end = self._end if self._window.start is None else self._window.start
        is_found = before is None
        if not is_found:
            for entry in reversed(window):
                if is_found:
                    yield entry
                is_found = is_found or entry.id == before
        while end > self._start:
            block, end = await to_thread.run_sync(
                read_block, self.path, self._start, end, self._version, limiter=self._files.limiter
            )
            for entry in block:
                if is_found:
                    yield entry
                is_found = is_found or entry.id == before

    async def aclose(self) -> None:
        """Force what was appended to the disk, close the file, and let others open it. Idempotent, not cancellable."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                if self._is_closed:
                    return
                self._is_closed = True
                await to_thread.run_sync(self._file.close, limiter=self._files.limiter)
                self._take_in()
                self._files.release(self.path)

    async def _begin_anew(self) -> None:
        _logger.warning("%s: was removed while it was in use; its channel goes on with what is there now", self.path)
        opened = await _read(self.path, self.sid, self.channel_id, self._window.limit, self._files)
        await to_thread.run_sync(self._file.close, limiter=self._files.limiter)
        self._take_over(opened)

    def _write(self, entries: tuple[Entry, ...], lines: list[EncodedLine]) -> None:
        """Write one batch; runs in a worker thread, to its end also when the task that asked for it is gone."""
        self._file.append(
            b"".join(line.raw for line in lines),
            lambda offset: self._written.append(_Written(entries, lines, offset)),
        )

    def _take_in(self) -> None:
        """Bring what was written into the window. The file decides: it may hold a batch whose caller has gone."""
        while self._written:
            batch = self._written.popleft()
            offset = batch.offset
            for entry, line in zip(batch.entries, batch.lines, strict=True):
                self._take_in_one(entry, line, offset)
                offset += len(line.raw)
            self._end = offset
            self._files.wrote()

    def _take_in_one(self, entry: Entry, line: EncodedLine, offset: int) -> None:
        if line.is_exact:
            stored = StoredEntry(offset, entry.type, entry.joins, entry)
        else:
            stored = StoredEntry(offset, entry.type, entry.joins, None, line.raw)
        closes = closing_key(entry) if entry.joins is None else None
        fell_out = self._window.add(stored, closes, is_compaction=entry.type == COMPACT)
        self._since_checkpoint += 1
        if entry.type == CHECKPOINT:
            self._checkpoint = stored.entry
            self._since_checkpoint = 0
        if fell_out and not self._has_warned and not self._has_compaction():
            self._has_warned = True
            _logger.warning(
                "%s: older entries leave the window of %d without a summary; what the model knew of them is gone. "
                "Use a context engine that compacts, or raise limits.window_entries",
                self.path,
                len(self._window),
            )

    def _has_compaction(self) -> bool:
        """Whether a compaction is in the window, or an older one in force by the newest checkpoint."""
        if self._window.has_compaction:
            return True
        return self._checkpoint is not None and bool(self._checkpoint.json_data.get("compaction"))


async def _read(path: Path, sid: str, channel_id: str, window_entries: int, files: LogFiles) -> OpenedLog:
    read = partial(
        open_log, path, sid=sid, channel_id=channel_id, window_entries=window_entries, now_ms=files.clock.now_ms()
    )
    return await to_thread.run_sync(read, limiter=files.limiter)
