"""`Scheduler`: work at computed times. Triggers are APScheduler's, or anything of the same shape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol, runtime_checkable

from ishiki.core.disposer import Disposer

__all__ = ["Scheduler", "SpanTrigger", "Trigger"]


class Trigger(Protocol):
    """Computes times. `apscheduler.triggers.interval.IntervalTrigger`, `CronTrigger` and the others fit."""

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """Return the next time (aware), or None when there is none any more."""
        ...


@runtime_checkable
class SpanTrigger(Protocol):
    """A trigger that says whether its times are spans apart: those pass though the clock of the day is set."""

    is_span: bool


class Scheduler(Protocol):
    """One runtime's schedule: the trigger computes, the injected clock waits, the runtime's task group runs."""

    def add(self, trigger: Trigger, fn: Callable[[], Awaitable[None] | None]) -> Disposer:
        """Call `fn` at every time of `trigger` until the disposer is called or the runtime stops.

        One run at a time: a time that comes while `fn` still runs is passed over. A raise is logged and the schedule
        goes on.
        """
        ...
