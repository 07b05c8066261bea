"""The limit of calls in flight, and who is next."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio
import pytest
from anyio.lowlevel import checkpoint

from ishiki.gateway import CallLimiter
from ishiki.testing.clock import FakeClock


async def settled(limiter: CallLimiter, waiting: int) -> None:
    """Wait until so many calls wait."""
    with anyio.fail_after(5):
        while limiter.waiting != waiting:
            await checkpoint()


async def served_in_order(owners: Sequence[str]) -> list[str]:
    """Return the order in which these waiting calls are served by a limiter of one place."""
    limiter = CallLimiter(1, FakeClock())
    await limiter.acquire("first", "m")
    order: list[str] = []

    async def one(owner: str) -> None:
        async with limiter.place(owner, "m"):
            order.append(owner)

    async with anyio.create_task_group() as tasks:
        for count, owner in enumerate(owners, 1):
            tasks.start_soon(one, owner)
            await settled(limiter, count)
        limiter.release()
    assert (limiter.running, limiter.waiting) == (0, 0)
    return order


async def test_calls_of_different_owners_are_served_as_they_came() -> None:
    """Design, process settings: first come, first served over channels."""
    assert await served_in_order(["a", "b", "c"]) == ["a", "b", "c"]


async def test_an_owner_with_many_calls_does_not_hold_up_the_others() -> None:
    """Issue, gateway: fair over owners."""
    assert await served_in_order(["a", "a", "a", "b", "c", "b"]) == ["a", "b", "c", "a", "b", "a"]


async def test_a_cancelled_wait_gives_up_its_turn() -> None:
    """Async code is cancellation-safe: no place is lost."""
    limiter = CallLimiter(1, FakeClock())
    await limiter.acquire("a", "m")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(limiter.acquire, "b", "m")
        await settled(limiter, 1)
        tasks.cancel_scope.cancel()
    assert (limiter.running, limiter.waiting) == (1, 0)
    limiter.release()
    assert limiter.running == 0


async def test_a_wait_that_is_cancelled_as_its_turn_comes_gives_the_place_on() -> None:
    """Async code is cancellation-safe: between the grant and the waking there is a gap."""
    limiter = CallLimiter(1, FakeClock())
    await limiter.acquire("a", "m")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(limiter.acquire, "b", "m")
        await settled(limiter, 1)
        limiter.release()
        tasks.cancel_scope.cancel()
    assert (limiter.running, limiter.waiting) == (0, 0)


async def test_a_call_that_waits_five_seconds_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Design, process settings: a call that waits 5 s is logged."""
    clock = FakeClock()
    limiter = CallLimiter(1, clock)
    await limiter.acquire("a", "m")
    with caplog.at_level(logging.WARNING, "ishiki.gateway"):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(limiter.acquire, "group:500", "deepseek:chat")
            await clock.wait_sleepers()
            assert not caplog.records
            clock.advance(5)
            with anyio.fail_after(5):
                while not caplog.records:
                    await checkpoint()
            limiter.release()
    (record,) = caplog.records
    assert "group:500" in record.getMessage()
    assert "deepseek:chat" in record.getMessage()


def test_a_limit_below_one_is_refused() -> None:
    """A limiter without places would hang every turn."""
    with pytest.raises(ValueError, match="at least 1"):
        CallLimiter(0, FakeClock())
