"""`AgentFeed`: listeners are awaited for a limited time, and hurt nobody but themselves."""

from __future__ import annotations

import anyio
import pytest

from ishiki.core.events import AgentEvent, AgentInit, AgentStop, StreamEvent
from ishiki.core.feed import AgentFeed
from ishiki.core.model import TextDelta

PART = StreamEvent("t", 0, TextDelta("x"))


async def test_each_topic_has_its_own_listeners_called_in_order_of_subscription() -> None:
    """Reference, events: topics agent and stream."""
    feed = AgentFeed()
    heard: list[str] = []
    feed.subscribe("agent", lambda event: heard.append(f"a {event.type}"))
    feed.subscribe("agent", lambda event: heard.append(f"b {event.type}"))
    assert not feed.has_listeners("stream")
    await feed.emit(PART)
    dispose = feed.subscribe("stream", lambda event: heard.append(f"s {event.step}"))
    assert feed.has_listeners("stream")
    await feed.emit(AgentInit())
    await feed.emit(PART)
    dispose()
    dispose()
    await feed.emit(PART)
    assert heard == ["a agent.init", "b agent.init", "s 0"]


async def test_async_listeners_run_together_and_emit_returns_when_all_have() -> None:
    """Reference: emit awaits all listeners concurrently."""
    feed = AgentFeed()
    met = anyio.Event()
    done: list[str] = []

    async def waits(event: AgentEvent) -> None:
        await met.wait()
        done.append("waits")

    async def meets(event: AgentEvent) -> None:
        met.set()
        done.append("meets")

    feed.subscribe("agent", waits)
    feed.subscribe("agent", meets)
    with anyio.fail_after(5):
        await feed.emit(AgentInit())
    assert sorted(done) == ["meets", "waits"]


async def test_a_listener_taken_off_by_another_in_the_same_event_is_not_called() -> None:
    """Our choice."""
    feed = AgentFeed()
    heard: list[str] = []
    feed.subscribe("agent", lambda event: dispose())
    dispose = feed.subscribe("agent", lambda event: heard.append("late"))
    await feed.emit(AgentInit())
    assert heard == []


@pytest.mark.parametrize("kind", ["raises", "raises later", "hangs"])
async def test_a_listener_that_fails_three_times_in_a_row_is_detached(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Design, section 4: listeners that raise or hang are a warning and detached."""
    feed = AgentFeed(listener_limit_s=0.001)
    calls: list[str] = []
    heard: list[str] = []

    def bad(event: AgentEvent) -> None:
        calls.append(event.type)
        raise RuntimeError("bad listener")

    async def bad_later(event: AgentEvent) -> None:
        calls.append(event.type)
        if kind == "hangs":
            await anyio.Event().wait()
        raise RuntimeError("bad listener")

    if kind == "raises":
        feed.subscribe("agent", bad)
    else:
        feed.subscribe("agent", bad_later)
    feed.subscribe("agent", lambda event: heard.append(event.type))
    for _ in range(5):
        await feed.emit(AgentInit())
    assert len(calls) == 3
    assert len(heard) == 5
    assert "is detached" in caplog.text


async def test_one_success_in_between_forgives_a_listener() -> None:
    """Our choice: a fault that mends itself detaches nobody."""
    feed = AgentFeed()
    calls: list[str] = []

    async def later(event: AgentEvent) -> None:
        if isinstance(event, AgentStop):
            raise RuntimeError("now and then")

    def now(event: AgentEvent) -> None:
        calls.append(event.type)
        if isinstance(event, AgentStop):
            raise RuntimeError("now and then")

    feed.subscribe("agent", now)
    feed.subscribe("agent", later)
    for _ in range(3):
        await feed.emit(AgentStop())
        if len(calls) < 5:
            await feed.emit(AgentInit())
    for _ in range(2):
        await feed.emit(AgentInit())
    assert len(calls) == 7


async def test_cancelling_an_emit_reaches_the_listener() -> None:
    """Style, async rules: cancellation is always raised again."""
    feed = AgentFeed()
    began, ended = anyio.Event(), anyio.Event()

    async def hangs(event: AgentEvent) -> None:
        began.set()
        try:
            await anyio.Event().wait()
        finally:
            ended.set()

    feed.subscribe("agent", hangs)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(feed.emit, AgentInit())
            await began.wait()
            group.cancel_scope.cancel()
        await ended.wait()
