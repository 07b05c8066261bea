"""The live window: the newest entries of one log in history order, kept so by small changes.

`core.place_joined` of the window's lines, in the order of the file, is what it always shows. Pure; knows no file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import overload

from ishiki.core.entries import Entry
from ishiki.storage.format import StoredEntry

__all__ = ["LiveWindow", "WindowView"]


class WindowView(Sequence[Entry]):
    """A window as it was at one moment, in history order. Entries are decoded as they are looked at."""

    __slots__ = ("_stored",)

    def __init__(self, stored: tuple[StoredEntry, ...]) -> None:
        """Show `stored`."""
        self._stored = stored

    def __len__(self) -> int:
        return len(self._stored)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> WindowView: ...
    def __getitem__(self, index: int | slice) -> Entry | WindowView:
        if isinstance(index, slice):
            return WindowView(self._stored[index])
        return self._stored[index].entry

    def __iter__(self) -> Iterator[Entry]:
        return (stored.entry for stored in self._stored)

    def __reversed__(self) -> Iterator[Entry]:
        return (stored.entry for stored in reversed(self._stored))

    def of_type(self, kind: str) -> Sequence[Entry]:
        """Return the entries of a type, in history order; only those are decoded."""
        return [stored.entry for stored in self._stored if stored.kind == kind]

    def newest(self, kind: str) -> Entry | None:
        """Return the newest entry of a type; only that one is decoded."""
        return next((stored.entry for stored in reversed(self._stored) if stored.kind == kind), None)


class LiveWindow:
    """The newest lines of a log, at most `limit`.

    What falls out is what is oldest in the file, so that opening the file again gives the same window. A line costs a
    few list operations, whatever the window holds: joined entries stand near the end when their batch is appended, and
    near the start when they fall out.
    """

    def __init__(self, limit: int) -> None:
        """Start empty; hold `limit` lines (1 or more)."""
        self.limit = limit
        """The most lines it holds."""
        self._by_age: deque[StoredEntry] = deque()  # in the order of the file
        self._ordered: list[StoredEntry] = []  # in the order of the history
        self._joining: dict[str, list[StoredEntry]] = {}  # entries with `joins`, in the order of the file
        self._compactions: deque[int] = deque()  # their offsets
        self._view: WindowView | None = None

    def __len__(self) -> int:
        return len(self._by_age)

    @property
    def start(self) -> int | None:
        """The offset of the oldest line, or None where the window is empty."""
        return self._by_age[0].offset if self._by_age else None

    @property
    def has_compaction(self) -> bool:
        """Whether one of the lines is a compaction."""
        return bool(self._compactions)

    def view(self) -> WindowView:
        """Return the window as it is now, in history order; later lines do not change what was returned."""
        if self._view is None:
            self._view = WindowView(tuple(self._ordered))
        return self._view

    def add(self, stored: StoredEntry, closes: str | None, *, is_compaction: bool = False) -> bool:
        """Add the next line of the file; return whether an older one fell out.

        Args:
            stored: the line.
            closes: the `joins` key whose batch it belongs to (`format.batch_key`): what joined that batch so far now
                stands behind this line.
            is_compaction: whether it is a compaction.
        """
        self._view = None
        self._by_age.append(stored)
        self._ordered.append(stored)
        if is_compaction:
            self._compactions.append(stored.offset)
        if stored.joins is not None:
            self._joining.setdefault(stored.joins, []).append(stored)
        if closes is not None:
            for joined in self._joining.get(closes, ()):
                self._take_out_backwards(joined)
                self._ordered.append(joined)
        if len(self._by_age) <= self.limit:
            return False
        self._drop_oldest()
        return True

    def _take_out_backwards(self, stored: StoredEntry) -> None:
        for index in range(len(self._ordered) - 1, -1, -1):
            if self._ordered[index] is stored:
                del self._ordered[index]
                return

    def _drop_oldest(self) -> None:
        oldest = self._by_age.popleft()
        # First in the history too, unless it joined a batch: then it stands behind that one, not far away.
        for index, stored in enumerate(self._ordered):
            if stored is oldest:
                del self._ordered[index]
                break
        if self._compactions and self._compactions[0] == oldest.offset:
            self._compactions.popleft()
        if oldest.joins is not None:
            remaining = self._joining[oldest.joins]
            del remaining[0]
            if not remaining:
                del self._joining[oldest.joins]
