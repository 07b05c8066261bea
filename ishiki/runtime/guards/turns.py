"""How many turns have begun within the last hour. Pure: the log tells it, and asks it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

__all__ = ["HOUR_MS", "TurnWindow"]

HOUR_MS = 3_600_000


class TurnWindow:
    """A sliding hour that has room for `limit` turns. Times are steady ones, in milliseconds.

    Attributes:
        is_announced: whether somebody has been told that the bound was met. Taken back when a turn begins in an hour
            that is less than half full: a channel that is always at its bound is one episode, not one a turn.
    """

    def __init__(self, limit: int, starts: Iterable[int] = ()) -> None:
        """Bound the hour to `limit` turns; 0 sets no bound. `starts`: when turns began, oldest first."""
        self.is_announced = False
        self._limit = limit
        # Older ones than the newest `limit` change nothing.
        self._starts: deque[int] = deque(starts, maxlen=limit)

    @property
    def starts(self) -> list[int]:
        """When the turns began that may still count, oldest first."""
        return list(self._starts)

    def began(self, at_ms: int) -> None:
        """Note that a turn has begun."""
        self._settle(at_ms)
        if len(self._starts) * 2 < self._limit:
            self.is_announced = False
        self._starts.append(at_ms)

    def give_back(self, at_ms: int) -> None:
        """Take out the turn that began then: it came to nothing, and no model has answered in it."""
        if at_ms in self._starts:
            self._starts.remove(at_ms)

    def held_until(self, now_ms: int) -> int | None:
        """Return when the next turn may begin; None: now."""
        self._settle(now_ms)
        return self._starts[0] + HOUR_MS if self._limit and len(self._starts) == self._limit else None

    def _settle(self, now_ms: int) -> None:
        while self._starts and self._starts[0] + HOUR_MS <= now_ms:
            self._starts.popleft()
