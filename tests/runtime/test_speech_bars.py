"""What bars an account in a channel: pure rules, for any order of what happens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.contracts.events import ChannelRef, MessageCreated, StandingChanged, User
from ishiki.contracts.platform import Standing
from ishiki.core.clock import SteadyTime
from ishiki.runtime.speech_bars import NEVER_MS, SpeechBars
from ishiki.testing.clock import FakeClock
from ishiki.tools.deliveries import Delivery

CHANNEL = ChannelRef("onebot:10001", "group:500")
AT = 1_000_000
MINUTE = 60_000
SENT = Delivery("c", 0, CHANNEL, "hi", "sent", "901")
UNSURE = Delivery("c", 0, CHANNEL, "hi", "unknown")
REFUSED = Delivery("c", 0, CHANNEL, "hi", "failed", reason="refused")
MUTED = Delivery("c", 0, CHANNEL, "hi", "failed", reason="muted")
AWAY = Delivery("c", 0, CHANNEL, "hi", "failed", reason="unreachable")


def line(at_ms: int) -> MessageCreated:
    """Return what somebody says in the channel."""
    return MessageCreated(at_ms, "onebot", "10001", "group:500", "7", "hi", False, User("42"))


def removed(at_ms: int) -> StandingChanged:
    """Return the notice of a removal."""
    return StandingChanged(at_ms, "onebot", "10001", "group:500", "removed")


def turn(bars: SpeechBars, *deliveries: Delivery, at_ms: int = AT) -> None:
    """Let a turn send these, and end."""
    for delivery in deliveries:
        bars.note_delivery(delivery, at_ms)
    bars.note_turn_end(at_ms)


@pytest.mark.parametrize(
    ("turns", "pauses"),
    [
        pytest.param([[REFUSED]] * 4, [None, 1, 2, 4], id="refused"),
        pytest.param([[UNSURE]] * 4, [None, None, 1, 2], id="never confirmed"),
        pytest.param([[MUTED]] * 3, [1, 2, 4], id="muted"),
        pytest.param([[REFUSED, SENT]] * 4, [None] * 4, id="one of two is sent"),
        pytest.param([[REFUSED], [SENT], [REFUSED]], [None] * 3, id="one sent between"),
        pytest.param([[AWAY]] * 4, [None] * 4, id="not connected, which has a hold of its own"),
        pytest.param([list[Delivery]()] * 4, [None] * 4, id="nothing to say"),
        pytest.param([[MUTED]] * 9, [1, 2, 4, 8, 16, 32, 60, 60, 60], id="at most an hour"),
    ],
)
def test_turns_that_can_say_nothing_are_followed_by_a_pause_that_doubles(
    turns: list[list[Delivery]], pauses: list[int | None]
) -> None:
    """Issue, property 2; the numbers are our choice."""
    bars = SpeechBars()
    found: list[int | None] = []
    for deliveries in turns:
        turn(bars, *deliveries)
        until = bars.held_until(AT)
        found.append(None if until is None else (until - AT) // MINUTE)
    assert found == pauses


def test_a_late_report_shows_that_sends_arrive_and_lifts_no_mute() -> None:
    """Our choice: what was said before a mute may be reported behind it."""
    late = Delivery("c", 0, CHANNEL, "hi", "sent", "901", is_late=True)
    bars = SpeechBars()
    for _ in range(3):
        turn(bars, UNSURE)
    bars.note_delivery(late, AT)
    assert bars.held_until(AT) is None
    turn(bars, MUTED)
    bars.note_delivery(late, AT)
    assert bars.held_until(AT) == AT + MINUTE


def test_a_removal_ends_by_a_line_that_is_younger_than_it() -> None:
    """Issue, removed: a message from the group; one that was on its way does not count."""
    bars = SpeechBars()
    bars.note_standing(removed(AT), AT)
    bars.note_heard(line(AT))
    assert bars.held_until(AT) == NEVER_MS
    assert not bars.is_lifted(AT)
    bars.note_heard(line(AT + 1))
    assert bars.is_clear


def test_what_the_platform_knows_of_a_mute_replaces_the_pause() -> None:
    """Issue, muted: `shut_up_timestamp`; an old value tells nothing."""
    bars = SpeechBars()
    turn(bars, MUTED)
    bars.note_probe(Standing(AT - 1), AT)
    assert bars.held_until(AT) == AT + MINUTE
    bars.note_probe(Standing(AT + 5 * MINUTE), AT)
    assert bars.held_until(AT) == AT + 5 * MINUTE
    assert bars.is_lifted(AT + 5 * MINUTE)


@given(st.lists(st.sampled_from([SENT, UNSURE, REFUSED, MUTED, AWAY, "end", "removed", "line"]), max_size=12))
def test_a_checkpoint_restores_what_bars(happened: list[Delivery | str]) -> None:
    """Design, checkpoint: between two turns."""
    bars = SpeechBars()
    for number, one in enumerate(happened):
        at_ms = AT + number
        match one:
            case Delivery():
                bars.note_delivery(one, at_ms)
            case "end":
                bars.note_turn_end(at_ms)
            case "removed":
                bars.note_standing(removed(at_ms), at_ms)
            case _:
                bars.note_heard(line(at_ms))
    bars.note_turn_end(AT)
    steady = SteadyTime(FakeClock(now_ms=AT + MINUTE))
    assert SpeechBars.restored(bars.checkpoint(steady), steady) == bars
    bars.clear()
    assert bars.is_clear
