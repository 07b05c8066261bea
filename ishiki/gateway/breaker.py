"""A circuit breaker: whether a member that keeps failing is worth another try now.

A pure state machine over an injected clock. Source: reference, groups and circuit breaker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ishiki.core.clock import Clock

__all__ = ["BreakerState", "BreakerStatus", "CircuitBreaker"]

BreakerState: TypeAlias = Literal["closed", "open", "half-open"]
"""`closed`: in use. `open`: left out. `half-open`: the cooldown is over, one try decides."""


@dataclass(frozen=True, slots=True)
class BreakerStatus:
    """A breaker as it is read now."""

    state: BreakerState
    failures: int
    """In a row, since the latest success."""


class CircuitBreaker:
    """Counts one member's failures in a row."""

    def __init__(self, failure_threshold: int, cooldown_s: float, clock: Clock) -> None:
        """Start closed.

        Args:
            failure_threshold: failures in a row that open it; at least 1.
            cooldown_s: seconds after the latest failure until a try is worth it.
            clock: only its differences count.
        """
        self._threshold = max(1, failure_threshold)
        self._cooldown_s = cooldown_s
        self._clock = clock
        self._failures = 0
        self._failed_at = 0.0

    @property
    def status(self) -> BreakerStatus:
        """The state, computed from the clock, and the failures in a row."""
        return BreakerStatus(self.state, self._failures)

    @property
    def state(self) -> BreakerState:
        """The state now."""
        if self._failures < self._threshold:
            return "closed"
        has_cooled = self._clock.monotonic() - self._failed_at >= self._cooldown_s
        return "half-open" if has_cooled else "open"

    def failure(self) -> None:
        """Count a failure; while open or half-open it starts the cooldown anew."""
        self._failures += 1
        self._failed_at = self._clock.monotonic()

    def success(self) -> None:
        """Close it."""
        self._failures = 0

    def reset(self) -> None:
        """Forget everything."""
        self._failures = 0
