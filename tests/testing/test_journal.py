"""Waiting for what comes, without polling."""

from __future__ import annotations

import anyio
import pytest

from ishiki.testing.journal import Journal
from ishiki.testing.task_scope import TaskScope


async def test_a_wait_ends_when_the_last_item_it_needs_comes() -> None:
    """Our choice: waits are by event."""
    journal: Journal[int] = Journal("numbers")
    got: list[list[int]] = []

    async def wait() -> None:
        got.append(await journal.at_least(2))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        journal.add(1)
        await anyio.wait_all_tasks_blocked()
        assert got == []
        journal.add(2)
    assert got == [[1, 2]]


async def test_a_wait_that_fails_shows_what_came_instead() -> None:
    """Our choice: a failed wait must explain itself."""
    journal: Journal[str] = Journal("lines")
    journal.add("something else")
    with pytest.raises(TimeoutError, match=r"(?s)a match among the lines.*1 came.*'something else'"):
        await journal.first(lambda line: line == "wanted", within=0)


async def test_items_before_the_position_do_not_match() -> None:
    """Our choice: `since` lets a test look at what its own step caused."""
    journal: Journal[int] = Journal("numbers")
    for number in (1, 2, 1, 3):
        journal.add(number)
    assert await journal.before(lambda number: number == 1, since=1) == [2]
    assert await journal.first(lambda number: number > 1, since=2) == 3


async def test_a_failed_assertion_inside_the_scope_comes_out_as_itself() -> None:
    """Our choice: a test's own failure is not wrapped in a group."""

    async def body() -> None:
        async with TaskScope() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            raise AssertionError("mine")

    with pytest.raises(AssertionError, match="mine"):
        await body()


async def test_an_error_in_a_task_of_the_scope_ends_the_body() -> None:
    """Our choice: a fault behind the scenes must not leave the test waiting."""

    async def fail() -> None:
        raise LookupError("behind the scenes")

    async def body() -> None:
        async with TaskScope() as tasks:
            tasks.start_soon(fail)
            await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await body()
    assert caught.group_contains(LookupError)


async def test_a_timeout_around_the_scope_is_a_timeout() -> None:
    """Our choice: cancellation from outside passes through."""

    async def body() -> None:
        with anyio.fail_after(0):
            async with TaskScope() as tasks:
                tasks.start_soon(anyio.sleep_forever)
                await anyio.sleep_forever()

    with pytest.raises(TimeoutError):
        await body()
