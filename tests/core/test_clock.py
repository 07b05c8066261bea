"""The machine's own clock and dice: what tests replace everywhere else."""

from __future__ import annotations

import anyio
import pytest

from ishiki.core.clock import SteadyTime, SystemClock, SystemRandom
from ishiki.testing.clock import FakeClock


@pytest.mark.parametrize("seconds", [-1.0, 0.0])
async def test_sleeping_for_no_time_returns_and_time_never_goes_back(seconds: float) -> None:
    """`Clock`: at once where the seconds are zero or fewer."""
    clock = SystemClock()
    before, day = clock.monotonic(), clock.now_ms()
    with anyio.fail_after(5):
        await clock.sleep(seconds)
    assert clock.monotonic() >= before
    assert clock.now_ms() >= day > 1_700_000_000_000


def test_the_dice_fall_between_zero_and_one() -> None:
    """`Random`: a number in [0, 1)."""
    rolls = [SystemRandom().random() for _ in range(100)]
    assert all(0 <= roll < 1 for roll in rolls)
    assert len(set(rolls)) > 1


def test_steady_time_goes_on_where_the_wall_clock_is_set() -> None:
    """Our choice: spans are the monotonic clock's."""
    clock = FakeClock()
    steady, start = SteadyTime(clock), clock.now_ms()
    clock.advance(10)
    clock.set_wall(-3_600)
    clock.advance(10)
    assert steady.now_ms() == start + 20_000
    assert steady.shift_ms == -3_600_000
    assert steady.to_wall(steady.now_ms() + 5_000) == clock.now_ms() + 5_000
    assert steady.of_past(clock.now_ms() - 5_000) == steady.now_ms() - 5_000
    assert steady.of_past(clock.now_ms() + 5_000) == steady.now_ms(), "what is over lies not ahead"
