"""The scheduler of one runtime. Triggers compute times, the injected clock waits, the runtime's task group runs.

APScheduler's own scheduler is not started: it would run bare tasks on wall time.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, tzinfo

from ishiki.contracts.scheduler import SpanTrigger, Trigger
from ishiki.core.clock import LONGEST_NAP_S, Clock
from ishiki.core.disposer import Disposer, resolved

__all__ = ["RuntimeScheduler"]

logger = logging.getLogger(__name__)

_CLOCK_WAS_SET = timedelta(seconds=2)
"""The clock of the day has moved by so much more than the time that passed."""


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
            previous = await self._wait_for(due, is_span=_is_span(trigger))
            try:
                await resolved(fn())
            except Exception:
                logger.exception("a scheduled call of %s raised; the schedule goes on", trigger)
            while (missed := self._next(trigger, previous)) is not None and missed <= self._now():
                previous = missed

    async def _wait_for(self, due: datetime, *, is_span: bool) -> datetime:
        """Wait until `due` and return it; a span ends when it has passed, whatever the clock of the day is set to.

        Then the time that is returned is what `due` has become by that clock, so that the next span begins there.
        """
        began_at, began = self._clock.monotonic(), self._now()
        while (left := (due - self._now()).total_seconds()) > 0 or is_span:
            passed_s = self._clock.monotonic() - began_at
            moved = self._now() - began - timedelta(seconds=passed_s)
            if is_span and abs(moved) > _CLOCK_WAS_SET:
                began, due = began + moved, due + moved
                continue
            if left <= 0:
                break
            await self._clock.sleep(left if is_span else min(left, LONGEST_NAP_S))
        return due

    def _next(self, trigger: Trigger, previous: datetime | None) -> datetime | None:
        """Return the next time; a trigger that does not move on has none, or this would spin for ever."""
        due = trigger.get_next_fire_time(previous, self._now())
        if due is not None and previous is not None and due <= previous:
            logger.error("the trigger %s gave %s after %s; its schedule ends", trigger, due, previous)
            return None
        return due


def _is_span(trigger: Trigger) -> bool:
    """Whether a trigger's times are spans apart, and no times of day."""
    # APScheduler's own is told by its name: its import costs 30 ms.
    if isinstance(trigger, SpanTrigger):
        return trigger.is_span
    return type(trigger).__name__ == "IntervalTrigger"
