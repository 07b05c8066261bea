"""Times for the `timers` engine: at a fixed distance, by the calendar, at random; and how they outlive a process.

Times are computed in the zone of the `now` that the scheduler hands over, which is the profile's. APScheduler computes
the calendar; it counts weekdays from Monday and cron from Sunday, which is put right here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from ishiki.contracts.scheduler import Trigger
from ishiki.core.clock import Random

__all__ = ["LastingTrigger", "QuietHours", "TriggerMaker", "cron_times", "interval_times", "random_times"]

_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_CRON_FIELDS = 5

TriggerMaker = Callable[[datetime], Trigger]
"""Makes a trigger whose times begin behind the given time, in that time's zone."""


@dataclass(frozen=True, slots=True)
class QuietHours:
    """A part of every day; over midnight where it ends before it begins."""

    begin_minute: int
    """Minutes of the day."""
    end_minute: int
    """The first minute that is not quiet any more."""

    @classmethod
    def parse(cls, written: str) -> QuietHours:
        """Read `23:00-07:30`.

        Raises:
            ValueError: it is written otherwise, or has no length.
        """
        found = re.fullmatch(r"\s*(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d)\s*", written)
        if found is None:
            raise ValueError(f"{written!r} is no part of a day; write it as 23:00-07:30")
        begin_hour, begin, end_hour, end = map(int, found.groups())
        if begin_hour > 23 or begin > 59 or end > 59 or end_hour * 60 + end > 24 * 60:
            raise ValueError(f"{written!r} names a time that no day has; write it as 23:00-07:30")
        if (begin_hour, begin) == (end_hour, end):
            raise ValueError(f"{written!r} ends when it begins; for the whole day write 00:00-24:00")
        return cls(begin_hour * 60 + begin, end_hour * 60 + end)

    def holds(self, when: datetime) -> bool:
        """Whether `when` lies in it, by the time of its own zone."""
        minute = when.hour * 60 + when.minute
        if self.begin_minute < self.end_minute:
            return self.begin_minute <= minute < self.end_minute
        return minute >= self.begin_minute or minute < self.end_minute


def interval_times(distance: timedelta) -> TriggerMaker:
    """Return times at a fixed distance from the beginning on."""
    seconds = max(1, round(distance.total_seconds()))

    def make(begin: datetime) -> Trigger:
        # 30 ms, which only profiles with timers shall pay.
        from apscheduler.triggers.interval import IntervalTrigger

        return IntervalTrigger(seconds=seconds, start_date=begin + distance, timezone=begin.tzinfo)

    return make


def cron_times(expression: str) -> TriggerMaker:
    """Return times by a cron expression: minute, hour, day of the month, month, weekday (0 and 7 are Sunday).

    Unlike in cron, a day has to fit both the day of the month and the weekday.

    Raises:
        ValueError: it has another form; the text says how it is written.
    """
    fields = expression.split()
    example = "write minute, hour, day of the month, month and weekday, such as '30 9 * * 1-5'"
    if len(fields) != _CRON_FIELDS:
        raise ValueError(f"{expression!r} has {len(fields)} fields and not {_CRON_FIELDS}; {example}")
    minute, hour, day, month, weekday = fields
    named = ",".join(_named_weekdays(part) for part in weekday.lower().split(","))

    def make(begin: datetime) -> Trigger:
        # As above.
        from apscheduler.triggers.cron import CronTrigger

        return CronTrigger(minute=minute, hour=hour, day=day, month=month, day_of_week=named, timezone=begin.tzinfo)

    try:
        make(datetime.now().astimezone())
    except (ValueError, TypeError) as error:
        raise ValueError(f"{expression!r} is no time of a calendar ({error}); {example}") from error
    return make


def _named_weekdays(part: str) -> str:
    """Return one part of cron's weekday field in APScheduler's words: by name, and never over the end of its week."""
    found = re.fullmatch(r"(\*|[0-7a-z]+)(?:-([0-7a-z]+))?(?:/(\d+))?", part)
    if found is None or part == "*":
        return part
    first, last, step = found[1], found[2], int(found[3] or 1)
    if step < 1:
        return part
    begin = 0 if first == "*" else _weekday(first)
    end = 6 if first == "*" or (last is None and found[3]) else _weekday(last or first)
    if begin is None or end is None:
        return part  # APScheduler's own complaint about it is as good as ours
    if end < begin:
        end += 7
    return ",".join(dict.fromkeys(_WEEKDAYS[number % 7] for number in range(begin, end + 1, step)))


def _weekday(text: str) -> int | None:
    if text.isdigit():
        return int(text) if len(text) == 1 else None
    return _WEEKDAYS.index(text) if text in _WEEKDAYS else None


@dataclass(frozen=True, slots=True)
class _RandomGaps:
    least: timedelta
    most: timedelta
    random: Random
    begin: datetime

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """Return a time between the two distances from the last one."""
        return (previous_fire_time or self.begin) + self.least + (self.most - self.least) * self.random.random()


def random_times(least: timedelta, most: timedelta, random: Random) -> TriggerMaker:
    """Return times whose distances fall between `least` and `most`, each as likely."""
    return lambda begin: _RandomGaps(least, most, random, begin)


class LastingTrigger:
    """A trigger that goes on where an earlier process left off. Fits `Trigger`.

    Attributes:
        name: what it is, and where its next time is kept.
        due: the next time, or the one that has just come; None before the first.
        is_span: whether its times are spans apart, and no times of day.
    """

    def __init__(
        self,
        name: str,
        make: TriggerMaker,
        *,
        saved_ms: int | None,
        longest: timedelta | None,
        makes_up: timedelta,
        on_due: Callable[[], None],
    ) -> None:
        """Wrap the triggers that `make` makes.

        Args:
            name: for people and for the log.
            make: what computes the times.
            saved_ms: the next time that an earlier process had computed, epoch milliseconds.
            longest: the longest span between two times; None where they are a matter of the calendar alone, so that
                only a missed one is taken over.
            makes_up: how late a time may still come; what is later is passed over, and times begin anew.
            on_due: called when the next time is another one.
        """
        self.name = name
        self.due: datetime | None = None
        self._make = make
        self._saved_ms = saved_ms
        self._longest = longest
        self.is_span = longest is not None
        self._makes_up = makes_up
        self._on_due = on_due
        self._inner: Trigger | None = None
        self._answered: datetime | None = None

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """Return the next time; of those that have passed the newest, and only if it is not too late for it.

        Asked again about the same time, it gives the same answer as long as that lies ahead: chance falls once.
        """
        if previous_fire_time is not None and previous_fire_time == self._answered and self.due and self.due > now:
            return self.due
        self._answered = previous_fire_time
        due = self._first(now) if previous_fire_time is None else self._after(previous_fire_time, now)
        if due is not None and now - due > self._makes_up:
            self._inner = self._make(now)
            due = self._after(None, now)
        while due is not None and due <= now and (later := self._after(due, now)) is not None and later <= now:
            due = later
        if due != self.due:
            self.due = due
            self._on_due()
        return due

    def _first(self, now: datetime) -> datetime | None:
        self._inner = self._make(now)
        if self._saved_ms is not None:
            saved = datetime.fromtimestamp(self._saved_ms / 1000, now.tzinfo)
            # The calendar may have moved: another time zone, or another hour of summer time.
            if self._longest is not None:
                # The clock may have been set back while nobody was there: no span grows by that.
                return min(saved, now + self._longest)
            if saved <= now:
                return saved
        return self._after(None, now)

    def _after(self, previous: datetime | None, now: datetime) -> datetime | None:
        assert self._inner is not None, "made with the first time"
        return self._inner.get_next_fire_time(previous, now)

    def __str__(self) -> str:
        """Return its name, for log lines."""
        return self.name
