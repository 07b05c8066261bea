"""How far an implementation's clock is from ours: from meta events at once, from lines only where they are live."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.jsonvalue import JsonObject
from ishiki.plugin.clock_offsets import ClockOffsets

NOW = 1_764_400_000_000
MINUTE = 60_000


def frame(kind: str, at_ms: int) -> JsonObject:
    """Return a frame that an implementation dates `at_ms`, to the second."""
    return {"post_type": kind, "self_id": 10001, "time": at_ms // 1000}


def heard(offsets: ClockOffsets, kind: str, offset_ms: int, at_s: float) -> int:
    """Let a frame come `at_s` seconds after the beginning, and return the offset that counts then."""
    now_ms = NOW + round(at_s * 1000)
    offsets.note(frame(kind, now_ms + offset_ms), account="", now_ms=now_ms, monotonic=at_s)
    return offsets.offset_ms("10001")


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_meta_event_tells_the_offset_at_once_and_it_is_said_once(
    minutes: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Issue, OneBot implementations: clocks apart; one WARNING with the offset."""
    offsets = ClockOffsets()
    for beat in range(5):
        assert heard(offsets, "meta_event", minutes * MINUTE, beat * 30) == minutes * MINUTE
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "600 s" in warnings[0].getMessage()
    caplog.clear()
    caplog.set_level(logging.INFO, "ishiki")
    assert heard(offsets, "meta_event", 0, 200) == 0
    assert "agrees with ours again" in caplog.text


def test_a_backlog_before_the_first_meta_event_tells_nothing() -> None:
    """Our choice: it comes in a burst, and its lines are off by different times."""
    offsets = ClockOffsets()
    for number in range(20):
        assert heard(offsets, "message", -60 * MINUTE + number * MINUTE, number / 100) == 0
    assert heard(offsets, "meta_event", 0, 1) == 0


def test_lines_that_come_over_a_while_and_are_off_by_the_same_tell_it_where_no_meta_event_does() -> None:
    """Our choice: an implementation may send no heartbeats."""
    offsets = ClockOffsets()
    told = [heard(offsets, "message", -10 * MINUTE, at_s) for at_s in (0, 15, 30, 45)]
    assert told == [0, 0, -10 * MINUTE, -10 * MINUTE]
    assert heard(offsets, "meta_event", 0, 60) == 0, "it tells of another clock, or of one that has been set"


@pytest.mark.parametrize(("meta", "lines"), [(0, -10), (0, 10), (-10, 0), (10, 0)])
def test_live_lines_know_better_than_heartbeats_which_another_clock_may_date(
    meta: int, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    """NapCat: a message has the time of QQ's servers (`msgTime`), a heartbeat that of a machine, perhaps of ours."""
    offsets, told = ClockOffsets(), list[int]()
    for at_s in range(0, 120, 15):
        if at_s % 30 == 0:
            heard(offsets, "meta_event", meta * MINUTE, at_s)
        told.append(heard(offsets, "message", lines * MINUTE, at_s))
    assert told[:2] == [meta * MINUTE] * 2
    assert told[2:] == [lines * MINUTE] * 6, "heartbeats go on, and change nothing"
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert heard(offsets, "meta_event", meta * MINUTE + 5 * MINUTE, 130) == meta * MINUTE + 5 * MINUTE


def test_notices_are_dated_by_the_clock_of_the_heartbeats() -> None:
    """NapCat: a notice has the machine's time, so that is what the end of a mute is counted from."""
    offsets = ClockOffsets()
    for at_s in range(0, 90, 15):
        heard(offsets, "meta_event", -10 * MINUTE, at_s)
        heard(offsets, "message", 0, at_s)
    assert (offsets.offset_ms("10001"), offsets.notice_offset_ms("10001")) == (0, -10 * MINUTE)


@given(st.lists(st.integers(-29_000, 29_000), max_size=8))
def test_less_than_half_a_minute_counts_as_none(parts: list[int]) -> None:
    """Our choice: lines wait a moment on the way."""
    offsets = ClockOffsets()
    assert all(heard(offsets, "meta_event", part, number) == 0 for number, part in enumerate(parts))


@pytest.mark.parametrize("raw", [None, [], {}, {"post_type": ["message"]}, {"post_type": "meta_event", "time": "now"}])
def test_a_frame_that_tells_no_time_tells_nothing(raw: JsonObject) -> None:
    """Design: whatever a frame does to us, the next one is read."""
    offsets = ClockOffsets()
    offsets.note(raw, account="10001", now_ms=NOW, monotonic=0)
    assert offsets.offset_ms("10001") == 0
