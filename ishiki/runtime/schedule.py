"""The scheduler of one runtime. Triggers compute times, the injected clock waits, the runtime's task group runs.

APScheduler's own scheduler is not started: it would run bare tasks on wall time.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, tzinfo

from ishiki.contracts.scheduler import Trigger
from ishiki.core.clock import Clock
from ishiki.core.disposer import Disposer, resolved

__all__ = ["RuntimeScheduler"]

logger = logging.getLogger(__name__)

_LONGEST_NAP_S = 3600.0
"""The clock of the day may be set while we wait, so the time left is computed anew at least this often."""


class RuntimeScheduler:
    """Implements `Scheduler` over a runtime's `spawn`."""

    def __init__(
        self,
        clock: Clock,
        zone: tzinfo,
        spawn: Callable[[str, Callable[[], Awaitable[None]]], Disposer],
    ) -> None:
        """Wait by `clock`, hand times in `zone` to triggers, run through `spawn`."""
        self._clock = clock
        self._zone = zone
        self._spawn = spawn

    def add(self, trigger: Trigger, fn: Callable[[], Awaitable[None] | None]) -> Disposer:
        """Call `fn` at every time of `trigger` until disposed."""
        return self._spawn(f"schedule {trigger}", lambda: self._run(trigger, fn))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).astimezone(self._zone)

    async def _run(self, trigger: Trigger, fn: Callable[[], Awaitable[None] | None]) -> None:
        previous: datetime | None = None
        while (due := self._next(trigger, previous)) is not None:
            while (left := (due - self._now()).total_seconds()) > 0:
                await self._clock.sleep(min(left, _LONGEST_NAP_S))
            previous = due
            try:
                await resolved(fn())
            except Exception:
                logger.exception("a scheduled call of %s raised; the schedule goes on", trigger)
            while (missed := self._next(trigger, previous)) is not None and missed <= self._now():
                previous = missed

    def _next(self, trigger: Trigger, previous: datetime | None) -> datetime | None:
        """Return the next time; a trigger that does not move on has none, or this would spin for ever."""
        due = trigger.get_next_fire_time(previous, self._now())
        if due is not None and previous is not None and due <= previous:
            logger.error("the trigger %s gave %s after %s; its schedule ends", trigger, due, previous)
            return None
        return due
