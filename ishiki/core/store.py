"""`EntryStore`: where an agent keeps its entries. The one in memory is here; the one on disk is `storage/`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, runtime_checkable

from ishiki.core.entries import Entry, place_joined

__all__ = ["BatchStore", "EntryStore", "IndexedWindow", "MemoryStore", "all_of", "newest_of"]


@runtime_checkable
class IndexedWindow(Protocol):
    """A window that finds entries by their type without decoding the others, which costs time and memory."""

    def of_type(self, kind: str) -> Sequence[Entry]:
        """Return the entries of a type, in history order."""
        ...

    def newest(self, kind: str) -> Entry | None:
        """Return the newest entry of a type, or None."""
        ...


def all_of(window: Sequence[Entry], kind: str) -> Sequence[Entry]:
    """Return the entries of the type `kind` in a store's window, in history order."""
    if isinstance(window, IndexedWindow):
        return window.of_type(kind)
    return [entry for entry in window if entry.type == kind]


def newest_of(window: Sequence[Entry], kind: str) -> Entry | None:
    """Return the newest entry of the type `kind` in a store's window, or None."""
    if isinstance(window, IndexedWindow):
        return window.newest(kind)
    return next((entry for entry in reversed(window) if entry.type == kind), None)


class EntryStore(Protocol):
    """An append-only log with a live window in memory. One owner; its calls come one at a time."""

    async def append(self, *entries: Entry) -> None:
        """Append `entries` as one batch: all or nothing. On return they survive the death of the process.

        Not cancellable half way: a cancelled caller may find the batch written, never torn.

        Raises:
            StorageError: nothing of the batch is in the log; the same call may be tried again.
        """
        ...

    def window(self) -> Sequence[Entry]:
        """Return the newest entries in history order (`place_joined` applied). The store's own; not to be changed."""
        ...

    def history(self, *, before: str | None = None) -> AsyncIterator[Entry]:
        """Yield older entries, newest first, from disk.

        Args:
            before: an entry id; what is older than it is yielded. None: older than the window.
        """
        ...


@runtime_checkable
class BatchStore(Protocol):
    """A store that writes several batches at once, which belong together no more than if they came one by one."""

    async def append_batches(self, batches: Sequence[Sequence[Entry]]) -> None:
        """Append each of `batches` as `append` does: all of them or none, unless the process dies in the middle.

        Then those in front are kept, each of them whole: what somebody has read in the log by then stays there.

        Raises:
            StorageError: as `append`; none of them is in the log.
        """
        ...


class MemoryStore:
    """A store without a disk: for tests and for agents whose past does not matter. Its window is everything."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        """Start with `entries`, in file order."""
        self._entries = list(entries)
        self._window = place_joined(self._entries)

    async def append(self, *entries: Entry) -> None:
        """Keep `entries`."""
        self._entries.extend(entries)
        self._window = place_joined(self._entries)

    def window(self) -> Sequence[Entry]:
        """Return all entries in history order."""
        return self._window

    async def history(self, *, before: str | None = None) -> AsyncIterator[Entry]:
        """Yield what is older than `before`; nothing without it, since the window is everything."""
        if before is None:
            return
        position = next((index for index, entry in enumerate(self._window) if entry.id == before), 0)
        for entry in reversed(self._window[:position]):
            yield entry
