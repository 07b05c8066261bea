"""An agent from its start to its end: plugins, followers, holds and wakes."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from functools import partial

import anyio
import pytest

from ishiki.core.agent import Agent
from ishiki.core.entries import Entry
from ishiki.core.events import AgentEvent, TurnAborted
from ishiki.core.messages import UserMessage
from ishiki.core.plugin import AgentPlugin
from ishiki.errors import AgentStoppedError
from ishiki.testing.scripted_model import ScriptedModel, text

from .core_kit import Ear, FakeDisk, served, texts


class Stage(AgentPlugin):
    """Notes its life in a list; fails or hangs where it is told to."""

    def __init__(self, name: str, notes: list[str], bad: str = "") -> None:
        self.name = name
        self.notes = notes
        self.bad = bad
        self.agent: Agent | None = None

    async def init(self, agent: Agent) -> None:
        self.agent = agent
        self.notes.append(f"init {self.name}")
        if self.bad == "init":
            raise RuntimeError("no")
        if self.bad == "init hangs":
            await anyio.Event().wait()

    async def stop(self) -> None:
        self.notes.append(f"stop {self.name}")
        if self.bad == "stop":
            raise RuntimeError("no")
        if self.bad == "record at stop":
            assert self.agent is not None
            await self.agent.record(Entry("last words", {}, 1))


async def test_an_init_that_raises_comes_out_of_serve_after_the_earlier_ones_are_stopped() -> None:
    """Reference, init; bug: it came out inside an exception group, and whoever waited then hung."""
    notes: list[str] = []
    stages = [Stage("a", notes), Stage("b", notes), Stage("c", notes, "init"), Stage("d", notes)]
    agent = Agent("test", model=ScriptedModel([]), store=FakeDisk(), plugins=stages)
    _, receipt = agent.submit(UserMessage("early"))
    assert receipt is not None
    turn_id = agent.send(UserMessage("opening"))
    ear = Ear(agent)
    with anyio.fail_after(5):
        with pytest.raises(RuntimeError, match="no"):
            await agent.serve()
        await receipt.wait()
        await agent.wait()
        await agent.interrupt("nothing runs")
        await agent.stop()
    assert notes == ["init a", "init b", "init c", "stop b", "stop a"]
    assert texts(agent.store.window()) == ["early"]
    assert [event.turn_id for event in ear.events if isinstance(event, TurnAborted)] == [turn_id]
    with pytest.raises(AgentStoppedError):
        agent.send(UserMessage("late"))


async def test_cancelling_a_start_that_hangs_stops_what_has_begun() -> None:
    """Style, async rules: cancellation-safe."""
    notes: list[str] = []
    stages = [Stage("a", notes), Stage("b", notes, "init hangs")]
    agent = Agent("test", model=ScriptedModel([]), store=FakeDisk(), plugins=stages)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(agent.serve)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
    assert notes == ["init a", "init b", "stop a"]


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_plugins_stop_in_reverse_may_record_last_words_and_may_raise(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Reference, stop; bugs: cancelled from outside none was stopped, and recording at the end hung."""
    notes: list[str] = []
    disk = FakeDisk()
    stages = [Stage("a", notes, "record at stop"), Stage("b", notes, "stop")]
    agent = Agent("test", model=ScriptedModel([]), store=disk, plugins=stages)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            await group.start(agent.serve)
            if how == "stop":
                await agent.stop()
                await agent.stop()
            group.cancel_scope.cancel()
    assert notes == ["init a", "init b", "stop b", "stop a"]
    assert [entry.type for entry in disk.window()] == ["last words"]
    assert "stop of b raised" in caplog.text


async def test_a_stop_before_serve_leaves_nothing_running() -> None:
    """Reference, stop is idempotent; here in an odd order."""
    disk = FakeDisk()
    agent = Agent("test", model=ScriptedModel([]), store=disk)
    agent.send(UserMessage("fact"), trigger=False)
    agent.send(UserMessage("opening"))
    with anyio.fail_after(5):
        await agent.interrupt("not yet")
        await agent.stop()
        await agent.serve()
        await agent.wait()
    assert texts(disk.window()) == ["fact"]


async def test_who_follows_a_turn_sees_its_end_when_the_agent_is_cancelled() -> None:
    """Bug: a turn that waited in the queue never ended for `run`."""
    model = ScriptedModel([])
    model.hold()
    agent = Agent("test", model=model, store=FakeDisk())
    ends: list[str] = []

    async def follow(line: str) -> None:
        async for event in agent.run(UserMessage(line)):
            if isinstance(event, TurnAborted):
                ends.append(line)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as followers, anyio.create_task_group() as group:
            await group.start(agent.serve)
            followers.start_soon(follow, "one")
            await model.wait_requests(1)
            followers.start_soon(follow, "two")
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
    assert sorted(ends) == ["one", "two"]


async def test_who_stops_following_a_turn_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Reference, run: events are buffered until consumed; here they are not."""
    async with served(ScriptedModel([text("a")])) as agent:
        events = agent.run(UserMessage("hi"))
        assert isinstance(events, AsyncGenerator)
        async for event in events:
            assert event.type == "turn.queued"
            break
        await events.aclose()
        await agent.wait()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_pending_wake_that_fires_is_told_as_a_queued_turn() -> None:
    """Reference: turn.queued for every newly created turn; bug: that of a pending wake was not told."""
    model = ScriptedModel([text("a"), text("b")])
    model.hold()
    async with served(model) as agent:
        ear = Ear(agent)
        agent.continue_("one")
        await model.wait_requests(1)
        agent.continue_("two")
        model.release()
        await agent.wait()
    turns = [getattr(event, "turn_id", "") for event in ear.events if event.type in ("turn.queued", "turn.start")]
    assert len(turns) == 4
    assert turns[0] == turns[1] != turns[2] == turns[3]


async def test_a_held_agent_starts_no_turn_keeps_wakes_and_can_be_interrupted() -> None:
    """Design, section 7: no turn starts while the account is away; bug: interrupt waited for the release."""
    model = ScriptedModel([text("a"), text("b")])
    async with served(model) as agent:
        agent.hold("one")
        agent.hold("two")
        agent.send(UserMessage("first"))
        agent.continue_("dropped")
        assert agent.holds == {"one", "two"}
        with anyio.fail_after(5):
            await agent.interrupt("enough")
            await agent.wait()
        agent.send(UserMessage("second"))
        agent.continue_("kept")
        agent.release("one")
        await anyio.wait_all_tasks_blocked()
        assert model.requests == []
        assert not agent.is_idle()
        agent.release("two")
        with anyio.fail_after(5):
            await agent.wait()
        assert texts(agent.store.window()) == ["second", "a", "kept", "b"]


async def test_the_pending_wake_can_be_taken_away_with_its_prompt() -> None:
    """Design, section 5, hand-over: the pending wake moves over."""
    model = ScriptedModel([text("a")])
    model.hold()
    async with served(model) as agent:
        assert agent.take_pending_wake() is None
        agent.continue_("opening")
        await model.wait_requests(1)
        agent.continue_("later")
        agent.continue_()
        assert agent.take_pending_wake() == ("later",)
        model.release()
        with anyio.fail_after(5):
            await agent.wait()
        assert texts(agent.store.window()) == ["opening", "a"]


async def test_interrupting_waits_for_the_turn_and_not_for_what_comes_after_it() -> None:
    """Bug: in a busy channel an interrupt waited until nobody spoke any more."""
    model = ScriptedModel([text("never"), text("never")])
    model.hold()
    async with served(model) as agent:
        agent.feed.subscribe("agent", partial(_again, agent))
        first = agent.send(UserMessage("one"))
        await model.wait_requests(1)
        with anyio.fail_after(5):
            await agent.interrupt("enough")
            await model.wait_requests(2)
        assert agent.active_turn_id not in (None, first)


def _again(agent: Agent, event: AgentEvent) -> None:
    if isinstance(event, TurnAborted) and event.reason == "enough":
        agent.continue_("again")


async def test_a_turn_may_be_followed_from_before_the_agent_begins() -> None:
    """Reference, run: that turn's events alone, up to its last one."""
    agent = Agent("test", model=ScriptedModel([text("a")]), store=FakeDisk())
    heard: list[str] = []

    async def follow() -> None:
        heard.extend([event.type async for event in agent.run(UserMessage("hi"))])

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            await anyio.wait_all_tasks_blocked()
            await group.start(agent.serve)
            await agent.wait()
            await agent.stop()
    assert (heard[0], heard[-1]) == ("turn.queued", "turn.done")
    assert not [kind for kind in heard if kind.startswith("agent.")]
