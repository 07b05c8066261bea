"""Time and randomness as things that are handed in, so that tests own both."""

from __future__ import annotations

import random
import time
from typing import Protocol

import anyio

__all__ = ["Clock", "Random", "SystemClock", "SystemRandom"]


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
