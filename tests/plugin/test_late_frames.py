"""A clock that is behind is told from frames that were long on their way, and both from times that are none."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.contracts.events import ChatEvent, MessageCreated, StandingChanged
from ishiki.jsonvalue import JsonObject
from ishiki.plugin.accounts import Accounts
from ishiki.plugin.clock_offsets import ClockOffsets
from ishiki.plugin.intake import Intake
from ishiki.plugin.sent_registry import SentRegistry
from ishiki.testing.clock import FakeClock

MINUTE_S = 60
DAY_S = 86_400


class Wire:
    """An implementation whose clock is off, and the way from it to us. All times are seconds."""

    def __init__(self, off_s: float = 0) -> None:
        self.off_s = off_s
        self.clock = FakeClock()
        self.intake = Intake(Accounts(), SentRegistry(self.clock), self.clock)
        self.facts: list[ChatEvent] = []
        self.intake.open(self.facts.append)

    @property
    def offset_s(self) -> float:
        return self.intake.offsets.offset_ms("10001") / 1000

    def comes(self, kind: str, *, ago_s: float = 0, **fields: str | int) -> float:
        """Let a frame come that was made `ago_s` ago, and return the offset that counts then."""
        time = (self.clock.now_ms() - ago_s * 1000) / 1000 + self.off_s
        frame: JsonObject = {"post_type": kind, "self_id": 10001, "time": int(time), **fields}
        self.intake.offer(frame)
        return self.offset_s

    def beats(self, *, ago_s: float = 0) -> float:
        return self.comes("meta_event", meta_event_type="heartbeat", ago_s=ago_s)

    def connects(self) -> float:
        return self.comes("meta_event", meta_event_type="lifecycle")

    def says(self, *, ago_s: float = 0) -> float:
        return self.comes("message", message_type="private", user_id=42, message_id=1, message="hi", ago_s=ago_s)

    def lives(self, minutes: int, act: Callable[[], float], *, every_s: float = 30) -> float:
        for _ in range(round(minutes * MINUTE_S / every_s)):
            self.clock.advance(every_s)
            act()
        return self.offset_s


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the log has warned of."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("off_s", [0, -600, 600])
@pytest.mark.parametrize("every_s", [1, 5, 30])
def test_a_backlog_behind_a_stall_leaves_the_clock_as_it_was(
    off_s: float, every_s: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Bug: its heartbeats, an hour late, made an hour of old lines look new, and all of them were answered."""
    wire = Wire(off_s)
    wire.connects()
    wire.lives(2, wire.beats)
    told = len(warnings_in(caplog))
    wire.clock.advance(3_600)
    for ago_s in range(3_600, 0, -every_s):
        assert wire.beats(ago_s=ago_s) == pytest.approx(off_s, abs=4)
        wire.clock.advance(0.001)
    assert wire.beats() == pytest.approx(off_s, abs=4)
    assert len(warnings_in(caplog)) == told


def test_a_backlog_behind_a_sleep_of_this_machine_leaves_the_clock_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    """Bug: the same, where the clock that nobody sets stood still as well."""
    wire = Wire()
    wire.connects()
    wire.lives(2, wire.beats)
    wire.clock.set_wall(3_600)
    for ago_s in range(3_600, 0, -30):
        assert wire.beats(ago_s=ago_s) == 0
    assert wire.beats() == 0
    assert warnings_in(caplog) == []


@pytest.mark.parametrize("step_s", [-3_600, -120, 120, 3_600])
def test_a_clock_that_is_set_is_known_with_the_next_heartbeat(step_s: float) -> None:
    """Issue, OneBot implementations: clocks apart, also where one is corrected in mid-life."""
    wire = Wire()
    wire.connects()
    wire.lives(2, wire.beats)
    wire.off_s = step_s
    assert wire.lives(1, wire.beats, every_s=60) == pytest.approx(step_s, abs=1)


@pytest.mark.parametrize("step_s", [-3_600, 3_600])
def test_our_own_clock_that_is_set_is_known_two_heartbeats_later(step_s: float) -> None:
    """Our choice: set forward it looks like frames that were long on their way, until two of them say the same."""
    wire = Wire()
    wire.connects()
    wire.lives(2, wire.beats)
    wire.clock.set_wall(step_s)
    wire.off_s = -step_s
    assert wire.lives(1, wire.beats) == pytest.approx(-step_s, abs=1)


def test_a_new_connection_tells_the_clock_at_once() -> None:
    """Our choice: its first frame has waited for nothing."""
    wire = Wire()
    wire.connects()
    wire.clock.advance(3_600)
    wire.off_s = -600
    assert wire.connects() == pytest.approx(-600, abs=1)


@pytest.mark.parametrize("every_s", [1, 5, 60])
def test_live_lines_tell_the_clock_where_no_meta_event_does_however_many_there_are(every_s: float) -> None:
    """Bug: in a group in which more than three lines came within twenty seconds it was never known."""
    wire = Wire(-600)
    assert wire.lives(3, wire.says, every_s=every_s) == pytest.approx(-600, abs=1)


def test_live_lines_tell_the_clock_where_meta_events_have_ended() -> None:
    """Our choice: an implementation without heartbeats says one thing, when it connects."""
    wire = Wire()
    wire.connects()
    wire.off_s = -600
    assert wire.lives(5, wire.says, every_s=10) == pytest.approx(-600, abs=1)


@given(st.lists(st.tuples(st.integers(0, 4_000), st.floats(0, 0.05)), min_size=1, max_size=60))
def test_a_backlog_of_lines_tells_nothing(backlog: list[tuple[int, float]]) -> None:
    """Our choice: it comes in a burst, whatever its lines are dated."""
    wire = Wire()
    for ago_s, gap_s in sorted(backlog, reverse=True):
        assert wire.says(ago_s=ago_s) == 0
        wire.clock.advance(gap_s)


@pytest.mark.parametrize("days", [2, 400])
def test_lines_of_a_clock_that_is_days_ahead_are_as_old_as_they_come(days: int) -> None:
    """Bug: intake dates them by our clock, and they counted as days old all the same."""
    wire = Wire(days * DAY_S)
    wire.connects()
    wire.says()
    (line,) = wire.facts
    assert isinstance(line, MessageCreated)
    assert abs(line.timestamp - wire.clock.now_ms()) < 1000
    assert wire.offset_s == 0


@pytest.mark.parametrize("off_s", [-600, 0, 600])
def test_a_mute_lasts_as_long_as_was_meant_where_clocks_are_apart(off_s: float) -> None:
    """Bug: a mute of a minute by a clock ten minutes behind was over before it came."""
    wire = Wire(off_s)
    wire.connects()
    wire.comes("notice", notice_type="group_ban", sub_type="ban", group_id=500, user_id=10001, duration=60)
    (mute,) = wire.facts
    assert isinstance(mute, StandingChanged)
    assert mute.until_ms - wire.clock.now_ms() == pytest.approx(60_000, abs=1_001)


def test_milliseconds_and_texts_are_read_as_times() -> None:
    """Bug: some implementations count milliseconds."""
    offsets = ClockOffsets()
    now_ms = FakeClock().now_ms()
    frame: JsonObject = {"post_type": "meta_event", "self_id": "10001", "time": str(now_ms - 600_000)}
    offsets.note(frame, account="", now_ms=now_ms, monotonic=0)
    assert offsets.offset_ms("10001") == -600_000
