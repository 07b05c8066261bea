"""`host.scheduler`: triggers compute, the injected clock waits, the runtime's tasks run."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import anyio
import pytest
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from ishiki.core.disposer import resolved
from ishiki.runtime.host import TaskOwner
from ishiki.runtime.schedule import RuntimeScheduler
from ishiki.testing.journal import Journal
from ishiki.testing.task_scope import TaskScope

from .kit import WatchedClock, logged

ZONE = ZoneInfo("Asia/Shanghai")


class Bench:
    """A scheduler, its clock, and when its work ran: seconds since the start."""

    def __init__(self, clock: WatchedClock, scheduler: RuntimeScheduler) -> None:
        self.clock = clock
        self.scheduler = scheduler
        self.runs: Journal[float] = Journal("runs")
        self.start = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)

    def interval(self, seconds: int) -> IntervalTrigger:
        """Return a trigger that counts from the clock's own start."""
        return IntervalTrigger(seconds=seconds, start_date=self.start + timedelta(seconds=seconds), timezone=UTC)

    def run(self) -> None:
        self.runs.add(self.clock.monotonic())

    async def pass_time(self, *steps: float) -> None:
        """Advance step by step, each when the schedule waits again."""
        for seconds in steps:
            await self.clock.wait_sleepers()
            self.clock.advance(seconds)


@asynccontextmanager
async def bench() -> AsyncGenerator[Bench]:
    """Run a scheduler over a clock that stands still."""
    clock = WatchedClock()
    async with TaskScope() as group:
        yield Bench(clock, RuntimeScheduler(clock, ZONE, TaskOwner(group, "test").spawn))


async def test_an_interval_runs_at_each_of_its_times() -> None:
    """Design, contracts for authors: APScheduler's triggers compute the times, our clock waits."""
    async with bench() as made:
        made.scheduler.add(made.interval(10), made.run)
        await made.pass_time(9, 1, 10, 10)
        assert await made.runs.at_least(3) == [10, 20, 30]


@pytest.mark.parametrize("hours", [-1, 1])
async def test_an_interval_passes_though_the_clock_of_the_day_is_set(hours: int) -> None:
    """Bug: with our own clock set back an hour, every timer was an hour late."""
    async with bench() as made:
        made.scheduler.add(made.interval(10), made.run)
        await made.pass_time(4)
        await made.clock.wait_sleepers()
        made.clock.set_wall(hours * 3600)
        await made.pass_time(6, 10, 10)
        assert await made.runs.at_least(3) == [10, 20, 30]


async def test_a_time_of_day_is_that_of_the_clock_which_was_set() -> None:
    """Our choice: nine o'clock is when the clock says so."""
    async with bench() as made:
        due = made.start + timedelta(hours=2)
        made.scheduler.add(DateTrigger(due, timezone=UTC), made.run)
        await made.pass_time(10)
        await made.clock.wait_sleepers()
        made.clock.set_wall(3600)
        await made.pass_time(3590)
        assert await made.runs.at_least(1) == [3600]


async def test_times_that_come_while_the_work_runs_are_passed_over() -> None:
    """Bug: they were made up for at once, one run behind the other."""
    held = anyio.Event()

    async def work() -> None:
        made.run()
        await held.wait()

    async with bench() as made:
        made.scheduler.add(made.interval(10), work)
        await made.pass_time(10)
        await made.runs.at_least(1)
        made.clock.advance(35)
        held.set()
        await made.pass_time(5)
        assert await made.runs.at_least(2) == [10, 50]


async def test_a_clock_that_jumps_makes_one_run_and_not_all_that_were_missed() -> None:
    """Our choice: a machine that slept over night does not owe a night's work."""
    async with bench() as made:
        made.scheduler.add(made.interval(10), made.run)
        await made.pass_time(1_000, 10)
        assert await made.runs.at_least(2) == [1_000, 1_010]


async def test_a_raise_is_logged_and_the_schedule_goes_on() -> None:
    """Design, contracts for authors."""

    def fail() -> None:
        made.run()
        raise RuntimeError("no")

    with logged() as logs:
        async with bench() as made:
            made.scheduler.add(made.interval(10), fail)
            await made.pass_time(10, 10)
            assert await made.runs.at_least(2) == [10, 20]
    assert len(logs.holding("the schedule goes on")) == 2


async def test_a_disposed_schedule_runs_no_more_and_may_be_disposed_twice() -> None:
    """Design, contracts for authors: disposers are idempotent."""
    async with bench() as made:
        dispose = made.scheduler.add(made.interval(10), made.run)
        made.scheduler.add(made.interval(25), made.run)
        await made.clock.wait_sleepers(2)
        made.clock.advance(10)
        await made.runs.at_least(1)
        await resolved(dispose())
        await resolved(dispose())
        await made.pass_time(15)
        assert await made.runs.at_least(2) == [10, 25]


async def test_a_date_runs_once() -> None:
    """APScheduler, DateTrigger: no time after its own."""
    async with bench() as made:
        made.scheduler.add(DateTrigger(made.start + timedelta(seconds=5), timezone=UTC), made.run)
        made.scheduler.add(made.interval(30), made.run)
        await made.clock.wait_sleepers(2)
        made.clock.advance(5)
        await made.runs.at_least(1)
        made.clock.advance(25)
        assert await made.runs.at_least(2) == [5, 30]


async def test_a_cron_time_is_one_of_the_profile_s_time_zone() -> None:
    """Design, configuration: `timezone`; 15:06:40 in Shanghai at the clock's start."""
    async with bench() as made:
        made.scheduler.add(CronTrigger(hour=16, minute=0, timezone=ZONE), made.run)
        await made.pass_time(53 * 60 + 20)
        assert await made.runs.at_least(1) == [53 * 60 + 20]


async def test_a_trigger_that_does_not_move_on_ends_with_an_error() -> None:
    """Bug: it spun without a pause, and with it the whole bot."""

    class Stuck:
        def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
            return made.start

    with logged() as logs:
        async with bench() as made:
            made.scheduler.add(Stuck(), made.run)
            await logs.saying("its schedule ends")
            assert made.runs.items == [0]


async def test_a_time_of_the_calendar_moves_with_a_clock_that_is_set() -> None:
    """Bug: up to an hour late where the clock was set forward; now that is known within a minute."""
    async with bench() as made:
        made.scheduler.add(CronTrigger(hour=16, minute=0, timezone=ZONE), made.run)
        await made.pass_time(20)
        made.clock.set_wall(50 * 60)
        await made.pass_time(60, 60, 60)
        assert await made.runs.at_least(1) == [200]
