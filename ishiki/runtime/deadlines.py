"""How long a wait still lasts. A span is measured by a clock that nobody sets, a time of day by the clock of the day.

The log keeps the time of day at which a span ends, for that is all that outlives a process. What is left of a span
after a restart is therefore at most the span itself, whatever was done to the clock meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

from ishiki.core.clock import LONGEST_NAP_S, Clock
from ishiki.tools.wait import Wait

__all__ = ["Deadlines"]


class Deadlines:
    """Of all waits of a process that are spans, whether their runtime is in memory or not."""

    def __init__(self, clock: Clock) -> None:
        """Know none."""
        self._clock = clock
        self._by_id: dict[str, float] = {}
        """Monotonic seconds."""

    def left_s(self, wait: Wait) -> float:
        """Return the seconds until `wait` ends; zero or fewer where it has."""
        left_s = (wait.until_ms - self._clock.now_ms()) / 1000
        if wait.span_s is None:
            return left_s
        now = self._clock.monotonic()
        deadline = self._by_id.get(wait.id)
        if deadline is None:
            deadline = self._by_id[wait.id] = now + min(left_s, wait.span_s)
        return deadline - now

    def nap_s(self, wait: Wait) -> float:
        """Return the seconds to sleep until `wait` ends, or until it is time to look whether the clock was set."""
        left_s = self.left_s(wait)
        return left_s if wait.span_s is not None else min(left_s, LONGEST_NAP_S)

    def forget(self, ids: Iterable[str]) -> None:
        """Forget waits that are over."""
        for wait_id in ids:
            self._by_id.pop(wait_id, None)
