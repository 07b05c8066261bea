"""The fake clock: sleepers wake when told, in order."""

from __future__ import annotations

import anyio
import pytest

from ishiki.core.clock import Clock, Random
from ishiki.testing.clock import FakeClock, FixedRandom


async def test_sleepers_wake_in_the_order_in_which_they_are_due() -> None:
    """Our choice: ties in the order in which they fell asleep."""
    clock: Clock = FakeClock()
    fake = FakeClock()
    woken: list[str] = []

    async def sleep(name: str, seconds: float) -> None:
        await fake.sleep(seconds)
        woken.append(name)

    async with anyio.create_task_group() as group:
        for name, seconds in (("late", 3.0), ("first", 1.0), ("second", 1.0), ("never", 9.0)):
            group.start_soon(sleep, name, seconds)
        await fake.wait_sleepers(4)
        fake.advance(3)
        await fake.wait_sleepers(1)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert woken == ["first", "second", "late"]
        assert (fake.sleepers, fake.monotonic()) == (1, 3.0)
        group.cancel_scope.cancel()
    assert fake.sleepers == 0
    assert fake.now_ms() - clock.now_ms() == 3_000


async def test_a_sleep_of_nothing_returns_at_once_and_time_never_goes_back() -> None:
    """Core, `Clock`: at once where they are zero or fewer."""
    clock = FakeClock()
    with anyio.fail_after(5):
        await clock.sleep(0)
        await clock.sleep(-1)
    assert clock.slept == [0, -1]
    with pytest.raises(ValueError, match="-1"):
        clock.advance(-1)


def test_dice_fall_as_told_again_and_again() -> None:
    """Our choice."""
    dice: Random = FixedRandom([0.1, 0.9])
    assert [dice.random() for _ in range(3)] == [0.1, 0.9, 0.1]
