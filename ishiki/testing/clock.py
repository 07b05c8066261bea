"""`FakeClock` and `FixedRandom`: time and chance that a test owns."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import anyio

__all__ = ["FakeClock", "FixedRandom"]

_START_MS = 1_764_400_000_000
"""2025-11-29 07:06:40 UTC: a day like any other."""


@dataclass(slots=True, eq=False)
class _Sleeper:
    due: float
    number: int
    awake: anyio.Event


class FakeClock:
    """A clock that stands still until `advance`. Fits `ishiki.core.clock.Clock`.

    Attributes:
        slept: the seconds of every sleep so far, in the order in which they began; those of no length as well.
    """

    def __init__(self, *, now_ms: int = _START_MS) -> None:
        """Start at `now_ms`, epoch milliseconds."""
        self.slept: list[float] = []
        self._start_ms = now_ms
        self._elapsed = 0.0
        self._sleepers: list[_Sleeper] = []
        self._numbers = itertools.count()
        self._changed = anyio.Event()

    @property
    def sleepers(self) -> int:
        """How many tasks sleep now."""
        return len(self._sleepers)

    def now_ms(self) -> int:
        """Return the time of day in epoch milliseconds."""
        return self._start_ms + round(self._elapsed * 1000)

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Return when the clock has been advanced by `seconds`; at once where they are zero or fewer."""
        self.slept.append(seconds)
        if seconds <= 0:
            await anyio.lowlevel.checkpoint()
            return
        sleeper = _Sleeper(self._elapsed + seconds, next(self._numbers), anyio.Event())
        self._sleepers.append(sleeper)
        self._tell()
        try:
            await sleeper.awake.wait()
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass and wake whoever is due, the earliest first; they run once the caller awaits.

        All of them see the new time. A task that sleeps again has to be advanced again: `wait_sleepers` first.

        Raises:
            ValueError: time does not go back.
        """
        if seconds < 0:
            raise ValueError(f"a clock cannot be advanced by {seconds} seconds")
        self._elapsed += seconds
        due = sorted(
            (sleeper for sleeper in self._sleepers if sleeper.due <= self._elapsed),
            key=lambda sleeper: (sleeper.due, sleeper.number),
        )
        for sleeper in due:
            self._sleepers.remove(sleeper)
            sleeper.awake.set()

    def set_wall(self, seconds: float) -> None:
        """Set the time of day by `seconds` forward, or back where they are below zero; no span passes by that."""
        self._start_ms += round(seconds * 1000)

    async def wait_sleepers(self, count: int = 1, *, within_s: float = 5.0) -> None:
        """Return as soon as at least `count` tasks sleep.

        Raises:
            TimeoutError: they do not within `within_s` seconds of real time.
        """
        with anyio.fail_after(within_s):
            while len(self._sleepers) < count:
                await self._changed.wait()

    def _tell(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


class FixedRandom:
    """Dice that fall as told. Fits `ishiki.core.clock.Random`."""

    def __init__(self, values: Sequence[float] = (0.5,)) -> None:
        """Give `values` in order, again and again."""
        self._values = itertools.cycle(values)

    def random(self) -> float:
        """Return the next value."""
        return next(self._values)
