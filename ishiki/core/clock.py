"""Time and randomness as things that are handed in, so that tests own both.

Two kinds of time. A time of day ("at eight", midnight, a cron expression) is the wall clock's, which people set. A span
("60 seconds", turns of an hour, a rest of ten minutes) is the monotonic clock's, which nobody sets. `SteadyTime`
measures spans in the unit of times of day; only what is written to disk is turned into the wall's time and back.
"""

from __future__ import annotations

import random
import time
from typing import Protocol

import anyio

__all__ = ["LONGEST_NAP_S", "Clock", "Random", "SteadyTime", "SystemClock", "SystemRandom"]

LONGEST_NAP_S = 60.0
"""The wall clock may be set while somebody waits for a time of day, so it is looked at this often. Our choice: what a
person who has set the clock finds prompt enough, and one timer a minute for each who waits costs nothing."""


class Clock(Protocol):
    """What tells the time and waits. One clock serves the whole process."""

    def now_ms(self) -> int:
        """Return the time of day in epoch milliseconds (UTC)."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back; only differences mean something."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`; at once where they are zero or fewer. Cancellable."""
        ...


class Random(Protocol):
    """What rolls the dice."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Return the time of day in epoch milliseconds (UTC)."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        await anyio.sleep(max(0.0, seconds))


class SystemRandom:
    """The process's own generator."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return random.random()


class SteadyTime:
    """Epoch milliseconds that nobody sets: the wall's at the beginning, moved on by the monotonic clock.

    Good for differences. It shows the time of day as long as the wall clock is not set.
    """

    def __init__(self, clock: Clock) -> None:
        """Begin with `clock`'s time of day."""
        self._clock = clock
        self._base_ms = clock.now_ms() - round(clock.monotonic() * 1000)

    def now_ms(self) -> int:
        """Return the time now."""
        return self._base_ms + round(self._clock.monotonic() * 1000)

    @property
    def shift_ms(self) -> int:
        """How far the wall has been set since the beginning: its time now less this one's; positive: forward."""
        return self._clock.now_ms() - self.now_ms()

    def of_past(self, wall_ms: int) -> int:
        """Return the time of something that the wall has dated, and that is over: it is never later than now."""
        return min(wall_ms - self.shift_ms, self.now_ms())

    def to_wall(self, at_ms: int) -> int:
        """Return what the wall shows at a time of this clock, as it is set now."""
        return at_ms + self.shift_ms
