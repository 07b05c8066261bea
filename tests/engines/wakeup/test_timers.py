"""Wakeup `timers`: when the mind wakes by itself, and what a restart makes of it."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.config import validate_config
from ishiki.contracts.services import ServiceRegistry
from ishiki.core.entries import STATE, Entry, message_entry
from ishiki.engines import BUILTIN_ENGINES
from ishiki.engines.wakeup._triggers import QuietHours, cron_times
from ishiki.engines.wakeup.standard import StandardWakeupConfig
from ishiki.engines.wakeup.timers import RandomGap, TimersConfig, TimersEngine
from ishiki.errors import ActivationError, ConfigError
from ishiki.jsonvalue import JsonObject
from ishiki.profile import Profile, ValidatedBlocks, read_profile, validate_blocks
from ishiki.testing.clock import FakeClock, FixedRandom

from .kit import LOGGER, Mind, at, fact, minding, said

ENGINE = TimersEngine()
HOURLY = TimersConfig(interval_minutes=60)
BASE = "timers:\n  interval_minutes: 5\n  base:\n    engine: standard"
NIGHT_MS = round(datetime(2025, 11, 29, 23, 30, tzinfo=UTC).timestamp() * 1000)


async def passes(mind: Mind, minutes: float) -> list[tuple[bool, str]]:
    """Let time pass in steps of at most a minute; return the decisions that come."""
    since = len(mind.decisions)
    left = minutes * 60
    await anyio.wait_all_tasks_blocked()
    while left > 0:
        mind.clock.advance(min(left, 60))
        left -= 60
        await anyio.wait_all_tasks_blocked()
    return [(one.woke, one.reason) for one in mind.decisions.items[since:]]


async def test_an_interval_wakes_every_so_many_minutes_without_a_word_said() -> None:
    """Specification, wakeup contract: no input is required."""
    async with minding(ENGINE, HOURLY) as mind:
        assert await passes(mind, 59) == []
        assert await passes(mind, 1) == [(True, "interval of 60 minutes")]
        assert await passes(mind, 120) == [(True, "interval of 60 minutes")] * 2
    assert len(mind.model.requests) == 3
    assert ENGINE.runs_without_input


async def test_a_cron_expression_is_read_in_the_profiles_zone() -> None:
    """Our choice: the zone of the profile is the one its people live in."""
    config = TimersConfig(cron=("0 9 * * *",))
    async with minding(ENGINE, config, clock=FakeClock(now_ms=NIGHT_MS), zone=ZoneInfo("Asia/Shanghai")) as mind:
        assert await passes(mind, 89) == []  # 07:30 there
        assert await passes(mind, 1) == [(True, "cron 0 9 * * *")]


async def test_gaps_fall_between_their_bounds_by_the_dice() -> None:
    """Design, decided here: random-gap triggers."""
    config = TimersConfig(random_gap=RandomGap(min_minutes=30, max_minutes=90))
    name = "random gap of 30 to 90 minutes"
    async with minding(ENGINE, config, random=FixedRandom([0.0, 0.5, 0.99])) as mind:
        assert await passes(mind, 29) == []
        assert await passes(mind, 1) == [(True, name)]
        assert await passes(mind, 59) == []
        assert await passes(mind, 1) == [(True, name)]
        assert await passes(mind, 89) == []
        assert await passes(mind, 1) == [(True, name)]


async def test_no_timer_wakes_in_quiet_hours() -> None:
    """Design, decided here: quiet hours."""
    config = TimersConfig(interval_minutes=60, quiet_hours=("23:00-02:00",))
    async with minding(ENGINE, config, clock=FakeClock(now_ms=NIGHT_MS)) as mind:
        woke = [woke for woke, _ in await passes(mind, 180)]
    assert woke == [False, False, True]


async def test_a_timer_waits_for_the_silence_it_was_told() -> None:
    """Design, decided here: a minimum silence, since the last message and since the mind's own last turn."""
    config = TimersConfig(interval_minutes=10, min_silence_minutes=15)
    async with minding(ENGINE, config) as mind:
        await passes(mind, 5)
        mind.send(said("hello"))
        await mind.quiet()
        spoken = await passes(mind, 15)
        own_turn = await passes(mind, 20)
    name = "interval of 10 minutes"
    assert spoken == [(False, f"{name}, silent for 5.0 of 15 minutes"), (True, name)]
    assert own_turn == [(False, f"{name}, silent for 10.0 of 15 minutes"), (True, name)]


async def test_a_timer_that_comes_while_a_turn_runs_is_passed_over() -> None:
    """Specification, example rhythm: skip when busy."""
    async with minding(ENGINE, HOURLY) as mind:
        mind.model.hold()
        mind.agent.continue_()
        await mind.model.wait_requests(1)
        await mind.clock.wait_sleepers(1)
        mind.clock.advance(3600)
        decision = (await mind.decisions.at_least(1))[0]
        mind.model.release()
        await mind.quiet()
    assert (decision.woke, decision.reason) == (False, "interval of 60 minutes, a turn runs")
    assert len(mind.model.requests) == 1


async def test_the_prompt_opens_the_turn() -> None:
    """Our choice: a mind that wakes by itself may be told what for."""
    async with minding(ENGINE, TimersConfig(interval_minutes=60, prompt=" Look round. ")) as mind:
        await passes(mind, 60)
    assert [getattr(message, "content", None) for message in mind.model.requests[0].messages] == ["Look round."]


async def test_each_time_leaves_one_line_and_one_event(caplog: pytest.LogCaptureFixture) -> None:
    """Issue, wakeup: why it did or did not wake."""
    caplog.set_level(logging.DEBUG, LOGGER)
    async with minding(ENGINE, HOURLY) as mind:
        await passes(mind, 60)
    (decision,) = mind.decisions
    assert (decision.engine, decision.channel, decision.message_id) == ("timers", "onebot:10001/group:500", "")
    assert decision.turn_id
    lines = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert lines == ["test: timer interval of 60 minutes wakes"]


async def kept(config: TimersConfig, minutes: float, clock: FakeClock) -> Sequence[Entry]:
    """Run a mind for so long and return its log."""
    async with minding(ENGINE, config, clock=clock) as mind:
        await passes(mind, minutes)
        entries = list(mind.agent.store.window())
    return entries


@pytest.mark.parametrize("config", [HOURLY, TimersConfig(random_gap=RandomGap(min_minutes=60, max_minutes=60))])
async def test_a_restart_goes_on_with_the_time_that_was_due(config: TimersConfig) -> None:
    """Issue, wakeup: timers survive restarts."""
    clock = FakeClock()
    entries = await kept(config, 20, clock)
    async with minding(ENGINE, config, clock=clock, entries=entries) as mind:
        assert await passes(mind, 39) == []
        assert [woke for woke, _ in await passes(mind, 1)] == [True]


@pytest.mark.parametrize(
    "config",
    [HOURLY, TimersConfig(cron=("6 * * * *",)), TimersConfig(random_gap=RandomGap(min_minutes=60, max_minutes=60))],
)
@pytest.mark.parametrize(("late", "comes"), [(5, True), (11, False)])
async def test_a_time_missed_lately_is_made_up_once_and_an_older_one_is_not(
    config: TimersConfig, late: int, comes: bool
) -> None:
    """Our choice: a morning greeting survives a restart at nine, and a weekend off does not end in a burst."""
    clock = FakeClock()  # 07:06:40, so that 08:06 is 59 minutes and 20 seconds away
    entries = await kept(config, 20, clock)
    clock.advance((40 + late) * 60)
    async with minding(ENGINE, config, clock=clock, entries=entries) as mind:
        await anyio.wait_all_tasks_blocked()
        assert [one.woke for one in mind.decisions] == [True] * comes


async def test_of_several_missed_times_one_is_made_up() -> None:
    """Our choice: once."""
    config = TimersConfig(interval_minutes=1, missed_minutes=30)
    clock = FakeClock()
    entries = await kept(config, 0.5, clock)
    clock.advance(20 * 60)
    async with minding(ENGINE, config, clock=clock, entries=entries) as mind:
        await anyio.wait_all_tasks_blocked()
        assert len(mind.decisions) == 1


async def test_an_edited_timer_begins_anew() -> None:
    """Our choice: what was due under another setting is not due any more."""
    clock = FakeClock()
    entries = await kept(HOURLY, 20, clock)
    async with minding(ENGINE, TimersConfig(interval_minutes=30), clock=clock, entries=entries) as mind:
        assert await passes(mind, 29) == []
        assert [woke for woke, _ in await passes(mind, 1)] == [True]


async def test_the_silence_counts_from_what_the_log_holds() -> None:
    """Issue, wakeup: surviving restarts."""
    clock = FakeClock()
    now = clock.now_ms()
    entries = [message_entry(fact(said(when=now - 60_000)), timestamp=now - 60_000)]
    async with minding(ENGINE, TimersConfig(interval_minutes=5, min_silence_minutes=7), entries=entries) as mind:
        assert [woke for woke, _ in await passes(mind, 5)] == [False]


async def test_the_times_are_kept_in_one_state_beside_what_else_is_there() -> None:
    """Our choice: the agent's state, under a key of its own."""
    clock = FakeClock()
    mine = Entry(STATE, {"version": 1, "mood": "fine"}, clock.now_ms())
    async with minding(ENGINE, HOURLY, clock=clock, entries=[mine]) as mind:
        await passes(mind, 60)
        state = mind.agent.state.get()
    due = clock.now_ms() + 3_600_000
    assert state == {"version": 1, "mood": "fine", "timers": {"interval of 60 minutes": due}}


async def test_a_detached_engine_wakes_nobody() -> None:
    """Design, contracts: the disposer ends timers and the base engine."""
    clock = FakeClock()
    base = validated_config("timers: {interval_minutes: 60, base: {engine: standard}}")
    async with minding(ENGINE, base, clock=clock) as mind:
        await clock.wait_sleepers(1)
        await_end = mind.dispose()
        assert await_end is not None
        await await_end
        clock.advance(7200)
        mind.send(said(at))
        await mind.quiet()
    assert len(mind.decisions) == 0
    assert mind.model.requests == []


async def test_the_base_engine_judges_messages_as_it_does_alone() -> None:
    """Design, decided here: an optional base engine."""
    config = validated_config("timers: {interval_minutes: 60, base: {engine: standard, standard: {keywords: [neko]}}}")
    async with minding(ENGINE, config) as mind:
        decisions = [await mind.hear(said("neko", message_id="1")), await mind.hear(said("cat", message_id="2"))]
        by_clock = await passes(mind, 60)
    assert [(one.engine, one.woke) for one in decisions] == [("standard", True), ("standard", False)]
    assert by_clock == [(True, "interval of 60 minutes")]


async def test_without_a_base_engine_messages_wake_nobody() -> None:
    """Design, decided here: timers judge no message."""
    async with minding(ENGINE, HOURLY) as mind:
        mind.send(said(at))
        await mind.quiet()
    assert mind.model.requests == []


# -- settings --------------------------------------------------------------------------------------------------------


def profile_of(folder: Path, wakeup: str, *, engine: str = "timers") -> Profile:
    """Read a profile whose wakeup section stands from line 3 on."""
    file = folder / "neko" / "profile.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    head = f'model: a:b\nchannels: {{"onebot:1": ["*"]}}\nwakeup:\n  engine: {engine}\n'
    file.write_text(head + "".join(f"  {line}\n" for line in wakeup.splitlines()), encoding="utf-8")
    return read_profile(file.parent, {})


def validated(folder: Path, wakeup: str, *, engine: str = "timers") -> ValidatedBlocks:
    """Validate such a profile with the built-in engines."""
    services = ServiceRegistry()
    for provider in BUILTIN_ENGINES:
        services.provide(provider)
    return validate_blocks(profile_of(folder, wakeup, engine=engine), services)


def validated_config(wakeup: str) -> TimersConfig:
    """Return the settings of such a profile."""
    with tempfile.TemporaryDirectory() as folder:
        config = validated(Path(folder), wakeup).engines["wakeup"]
    assert isinstance(config, TimersConfig)
    return config


def test_the_base_engines_block_is_validated_by_its_owner(tmp_path: Path) -> None:
    """Design, contracts: an engine that builds on another holds that one's block inside its own."""
    config = validated(tmp_path, "timers: {interval_minutes: 5, base: {engine: standard, standard: {atSelf: false}}}")
    timers = config.engines["wakeup"]
    assert isinstance(timers, TimersConfig)
    assert timers.base is not None
    assert timers.base.provider.name == "standard"
    assert timers.base.config == StandardWakeupConfig(at_self=False)


@pytest.mark.parametrize(
    ("wakeup", "line", "says"),
    [
        ("timers: {}", 5, "names no time"),
        ("timers:\n  interval_minutes: 0", 6, "interval_minutes"),
        ('timers:\n  cron: ["0 9 * *"]', 6, "4 fields"),
        ('timers:\n  cron: ["0 25 * * *"]', 6, "no time of a calendar"),
        ('timers:\n  interval_minutes: 5\n  quiet_hours: ["23-7"]', 7, "23:00-07:30"),
        ("timers:\n  random_gap: {min_minutes: 9, max_minutes: 3}", 6, "swap"),
        ("timers:\n  interval_minutes: 5\n  base: standard", 7, "names no engine"),
        (
            "timers:\n  interval_minutes: 5\n  base:\n    engine: standard\n    standard:\n      at_slef: true",
            10,
            "at_self",
        ),
        (f"{BASE}\n    at_self: true", 9, "one level deeper"),
        (
            "timers:\n  interval_minutes: 0\n  base: {engine: willingness, willingness: {base: -1}}",
            6,
            "willingness.base",
        ),
    ],
)
def test_a_faulty_setting_is_an_error_at_its_place(tmp_path: Path, wakeup: str, line: int, says: str) -> None:
    """Design, configuration: file, line, column, key; in the base engine's block too."""
    with pytest.raises(ConfigError) as caught:
        validated(tmp_path, wakeup)
    assert caught.value.line == line
    assert says in str(caught.value)


def test_a_missing_base_engine_is_a_missing_service_at_its_place(tmp_path: Path) -> None:
    """Design, contracts: a profile that names a missing service waits for it."""
    wakeup = "timers:\n  interval_minutes: 5\n  base:\n    engine: rhythm"
    blocks = validated(tmp_path, wakeup)
    assert [(one.name, one.error.line) for one in blocks.missing] == [("ishiki.engine.wakeup.rhythm", 8)]
    error = blocks.missing_error(profile_of(tmp_path, wakeup))
    assert isinstance(error, ActivationError)
    assert validated(tmp_path, wakeup, engine="standard").missing == (), "nobody needs it"


def test_an_unknown_block_inside_the_base_is_a_warning(tmp_path: Path) -> None:
    """Design, contracts: blocks of packages that are not installed are kept with a warning."""
    (warning,) = validated(tmp_path, f"{BASE}\n    rhythm: {{x: 1}}").warnings
    assert (warning.line, warning.code) == (9, "unknown_engine_block")


@pytest.mark.parametrize(
    ("written", "quiet", "loud"),
    [("23:00-07:30", ["23:00", "00:00", "07:29"], ["07:30", "22:59"]), ("12:00-13:00", ["12:30"], ["13:00", "11:59"])],
)
def test_quiet_hours_may_go_over_midnight(written: str, quiet: list[str], loud: list[str]) -> None:
    """Our choice."""
    hours = QuietHours.parse(written)
    day = datetime(2025, 1, 1, tzinfo=UTC)

    def holds(time: str) -> bool:
        hour, _, minute = time.partition(":")
        return hours.holds(day.replace(hour=int(hour), minute=int(minute)))

    assert [holds(time) for time in quiet] == [True] * len(quiet)
    assert [holds(time) for time in loud] == [False] * len(loud)
    assert QuietHours.parse("00:00-24:00").holds(day)


@given(st.text(alphabet="0123456789:- ", max_size=14))
def test_no_text_breaks_the_reading_of_quiet_hours(written: str) -> None:
    """Our choice: what is read covers some part of a day; anything else is a ValueError."""
    try:
        hours = QuietHours.parse(written)
    except ValueError:
        return
    day = datetime(2025, 1, 1, tzinfo=UTC)
    assert any(hours.holds(day + timedelta(minutes=minute)) for minute in range(24 * 60))


@pytest.mark.parametrize(
    ("weekdays", "days"),
    [
        ("0", [6]),
        ("7", [6]),
        ("1", [0]),
        ("1-5", [0, 1, 2, 3, 4]),
        ("0-2", [0, 1, 6]),
        ("5-7", [4, 5, 6]),
        ("fri-mon", [0, 4, 5, 6]),
        ("*/2", [1, 3, 5, 6]),
        ("mon,WED", [0, 2]),
        ("*", [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_weekdays_count_as_cron_counts_them(weekdays: str, days: list[int]) -> None:
    """crontab(5): 0 and 7 are Sunday; APScheduler's own count begins on Monday."""
    now = datetime(2025, 1, 1, tzinfo=UTC)
    trigger = cron_times(f"0 9 * * {weekdays}")(now)
    found: set[int] = set()
    due: datetime | None = None
    for _ in range(14):
        due = trigger.get_next_fire_time(due, due or now)
        assert due is not None
        found.add(due.weekday())
    assert sorted(found) == days


def test_camel_case_is_accepted() -> None:
    """Design, configuration."""
    block: JsonObject = {"intervalMinutes": 5, "minSilenceMinutes": 1, "randomGap": {"minMinutes": 1, "maxMinutes": 2}}
    assert validate_config(TimersConfig, block).min_silence_minutes == 1


async def test_after_a_restart_with_the_clock_set_back_a_timer_comes_after_one_distance_at_most() -> None:
    """Our choice: the log has the wall's time alone, which may have been set meanwhile."""
    clock = FakeClock()
    due = clock.now_ms() + 3 * 3_600_000
    state = Entry(STATE, {"version": 1, "timers": {"interval of 60 minutes": due}}, clock.now_ms())
    async with minding(ENGINE, HOURLY, clock=clock, entries=[state]) as mind:
        assert len(await passes(mind, 59)) == 0
        assert len(await passes(mind, 1)) == 1
