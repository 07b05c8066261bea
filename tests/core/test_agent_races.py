"""What can come between any two steps of a turn: interrupts, stops, cancellation, a disk that refuses, bad plugins."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from ishiki.core.agent import Agent
from ishiki.core.entries import DELIVERY, Entry, message_entry
from ishiki.core.events import TurnDone, TurnFailed
from ishiki.core.messages import AssistantMessage, FilePart, UserMessage
from ishiki.core.plugin import AgentPlugin, ContextRequest, StepOptions, StepResult, TurnResult
from ishiki.core.tool import ToolContext, ToolSet
from ishiki.core.turn import TurnLimits
from ishiki.errors import ModelError
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.clock import FakeClock
from ishiki.testing.scripted_model import ScriptedModel, call, text

from .core_kit import Ear, FakeDisk, Tools, fatal, served, texts, tool_of, turn_events

POINTS = (
    "extend_instructions",
    "extend_tools",
    "transform",
    "prepare_step",
    "model",
    "tool",
    "append of the start",
    "append of the step",
    "on_step_finish",
)


class Trap(AgentPlugin):
    """Holds the turn at one point until the test lets it go."""

    name = "trap"

    def __init__(self, point: str, disk: FakeDisk) -> None:
        self.point = point
        self.disk = disk
        self.reached = anyio.Event()

    async def at(self, point: str) -> None:
        """Wait for ever at the point."""
        if point == self.point:
            self.reached.set()
            await anyio.Event().wait()

    async def extend_instructions(self, turn_id: str) -> str | None:
        await self.at("extend_instructions")
        return "  "

    async def extend_tools(self, turn_id: str) -> ToolSet | None:
        await self.at("extend_tools")
        return {"tool": tool_of(self._tool)}

    async def transform_entries(self, entries: Sequence[Entry], request: ContextRequest) -> None:
        await self.at("transform")

    async def prepare_step(self, options: StepOptions) -> None:
        await self.at("prepare_step")

    async def on_step_finish(self, result: StepResult) -> None:
        await self.at("on_step_finish")

    async def _tool(self, arguments: JsonObject, context: ToolContext) -> JsonValue:
        if self.point == "append of the step":
            self.disk.hold()
        await self.at("tool")
        return "done"

    async def wait(self, model: ScriptedModel) -> None:
        """Return when the turn waits at the point."""
        match self.point:
            case "model":
                await model.wait_requests(1)
            case "append of the start" | "append of the step":
                await self.disk.wait_held()
            case _:
                with anyio.fail_after(5):
                    await self.reached.wait()

    def expects_batch(self) -> bool:
        """Whether the step's batch is on its way to the log already."""
        return self.point in ("append of the step", "on_step_finish")


def check_log(entries: Sequence[Entry], sent: Sequence[str]) -> None:
    """Check that every turn in the log has one end, and that what was sent is in it once."""
    for turn_id in {entry.turn_id for entry in entries if entry.type == "event"}:
        events = turn_events([entry for entry in entries if entry.turn_id == turn_id])
        assert len(events) == 2
        assert events[0] == "turn.start"
    found = texts(entries)
    assert [found.count(one) for one in sent] == [1] * len(sent)


@pytest.mark.parametrize("how", ["interrupt", "stop", "cancel"])
@pytest.mark.parametrize("point", POINTS)
async def test_a_turn_that_is_ended_at_any_point_has_one_end_in_the_log(point: str, how: str) -> None:
    """Reference, interrupt and stop; bug: cancelled from outside, the turn's end was not written."""
    disk = FakeDisk()
    trap = Trap(point, disk)
    model = ScriptedModel([call("tool", {}), text("over")])
    if point == "model":
        model.hold()
    if point == "append of the start":
        disk.hold()
    agent = Agent("test", model=model, store=disk, plugins=[trap])
    ear = Ear(agent)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            await group.start(agent.serve)
            agent.send(UserMessage("opening"))
            await trap.wait(model)
            agent.send(UserMessage("deferred"), trigger=False)
            agent.send(UserMessage("joined"), trigger=False, if_busy="join")
            agent.continue_("dropped")
            match how:
                case "interrupt":
                    group.start_soon(agent.interrupt, "enough")
                case "stop":
                    group.start_soon(agent.stop, "enough")
                case _:
                    group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
                disk.let_go()
                if how != "interrupt":
                    await agent.stop()
                await agent.wait()
                await agent.stop()
    assert agent.is_idle()
    check_log(disk.window(), ["opening", "deferred", "joined"])
    assert turn_events(disk.window()) == ["turn.start", "turn.aborted"]
    assert "dropped" not in texts(disk.window())
    assert ear.texts() == texts(disk.window())
    assert ear.types().count("turn.aborted") == 1
    assert any(isinstance(entry.message, AssistantMessage) for entry in disk.window()) == trap.expects_batch()
    assert ear.events[-1].type == "agent.stop"


async def test_an_interrupt_while_the_end_is_written_ends_nothing_twice() -> None:
    """Bug: a turn that was done got a second end, turn.aborted."""
    disk = FakeDisk()
    model = ScriptedModel([text("answer")])

    class HoldAtEnd(AgentPlugin):
        def on_step_finish(self, result: StepResult) -> None:
            disk.hold()

    async with served(model, store=disk, plugins=[HoldAtEnd()]) as agent:
        ear = Ear(agent)
        agent.send(UserMessage("hi"))
        await disk.wait_held()
        async with anyio.create_task_group() as group:
            group.start_soon(agent.interrupt, "too late")
            await anyio.wait_all_tasks_blocked()
            disk.let_go()
    assert turn_events(disk.window()) == ["turn.start", "turn.done"]
    assert [kind for kind in ear.types() if kind in ("turn.done", "turn.aborted")] == ["turn.done"]


async def test_an_observer_of_the_end_that_hangs_or_raises_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    """Reference: onTurnFinish, observers, exceptions ignored; the limit is design section 5's hook_s."""

    class Hangs(AgentPlugin):
        name = "hangs"

        async def on_turn_finish(self, result: TurnResult) -> None:
            await anyio.Event().wait()

    class Raises(AgentPlugin):
        name = "raises"

        def on_turn_finish(self, result: TurnResult) -> None:
            raise RuntimeError(f"after {result.steps} steps")

        def on_step_finish(self, result: StepResult) -> None:
            raise RuntimeError("no opinion")

    model = ScriptedModel([text("one"), text("two")])
    limits = TurnLimits(hook_s=0.01)
    async with served(model, plugins=[Hangs(), Raises()], limits=limits) as agent:
        agent.send(UserMessage("first"))
        agent.send(UserMessage("second"))
        with anyio.fail_after(5):
            await agent.wait()
        assert texts(agent.store.window()) == ["first", "one", "second", "two"]
    assert "on_turn_finish of hangs raised" in caplog.text
    assert "on_turn_finish of raises raised" in caplog.text


async def test_what_was_said_is_told_once_when_the_step_is_interrupted_while_its_batch_is_written() -> None:
    """Bug: the batch was not in the window yet, so that the same call was told a second time."""
    disk = FakeDisk()

    class Speaks(AgentPlugin):
        def extend_tools(self, turn_id: str) -> ToolSet:
            return {"say": tool_of(self._say)}

        async def _say(self, arguments: JsonObject, context: ToolContext) -> JsonValue:
            await context.record(Entry(DELIVERY, {"toolCallId": context.tool_call_id}, 1, turn_id=context.turn_id))
            disk.hold()
            return "sent"

        def settle_turn(self, turn_id: str, entries: Sequence[Entry]) -> Sequence[Entry]:
            said = any(entry.type == DELIVERY for entry in entries)
            told = any(isinstance(entry.message, AssistantMessage) for entry in entries)
            return [message_entry(AssistantMessage([]), timestamp=1, turn_id=turn_id)] if said and not told else []

    async with served(ScriptedModel([call("say", {})]), store=disk, plugins=[Speaks()]) as agent:
        agent.send(UserMessage("hi"))
        await disk.wait_held()
        async with anyio.create_task_group() as group:
            group.start_soon(agent.interrupt, "enough")
            await anyio.wait_all_tasks_blocked()
            disk.let_go()
    assert sum(isinstance(entry.message, AssistantMessage) for entry in disk.window()) == 1
    assert turn_events(disk.window()) == ["turn.start", "turn.aborted"]


async def test_what_plugins_settle_is_in_the_turns_last_batch_and_one_that_raises_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Design, section 3, deliveries: written as one call with its result, then the end."""

    class Settles(AgentPlugin):
        def settle_turn(self, turn_id: str, entries: Sequence[Entry]) -> Sequence[Entry]:
            return [message_entry(UserMessage(f"settled {len(entries)}"), timestamp=1, turn_id=turn_id)]

    class Raises(AgentPlugin):
        name = "raises"

        def settle_turn(self, turn_id: str, entries: Sequence[Entry]) -> Sequence[Entry]:
            raise RuntimeError("bug")

    disk = FakeDisk()
    down = ModelError("down", kind="unavailable", retryable=True)
    async with served(ScriptedModel([down]), store=disk, plugins=[Raises(), Settles()]) as agent:
        agent.send(UserMessage("hi"))
        await agent.wait()
    assert [entry.type for entry in disk.batches[-1]] == ["message", "event"]
    assert texts(disk.window()) == ["hi", "settled 2"]
    assert turn_events(disk.window()) == ["turn.start", "turn.failed"]
    assert "settle_turn of raises raised" in caplog.text


# -- a disk that refuses ---------------------------------------------------------------------------------------------


async def test_a_full_disk_starts_no_turn_and_stopping_does_not_wait_for_it(caplog: pytest.LogCaptureFixture) -> None:
    """Design, section 3, full disk; bug: stop and interrupt waited for the disk."""
    disk, clock = FakeDisk(), FakeClock()
    model = ScriptedModel([])
    disk.refuses = True
    async with served(model, store=disk, clock=clock) as agent:
        ear = Ear(agent)
        agent.send(UserMessage("fact"), trigger=False)
        await clock.wait_sleepers()
        assert agent.is_blocked
        agent.send(UserMessage("opening"))
        await anyio.wait_all_tasks_blocked()
        assert ear.events == []
        assert agent.backlog == 2
        with anyio.fail_after(5):
            await agent.interrupt("enough")
        assert agent.is_idle()
    assert model.requests == []
    assert disk.window() == []
    assert "1 entries could not be written" in caplog.text
    assert ear.types() == ["turn.queued", "turn.aborted", "agent.stop"]


async def test_a_turn_that_meets_a_full_disk_waits_and_goes_on_where_it_was() -> None:
    """Design, section 3, full disk: nothing half-written, then all goes on."""
    disk, clock = FakeDisk(), FakeClock()

    def fill(arguments: JsonObject, context: ToolContext) -> JsonValue:
        disk.refuses = True
        return "done"

    model = ScriptedModel([call("fill", {}), text("over")])
    async with served(model, store=disk, clock=clock, plugins=[Tools({"fill": tool_of(fill)})]) as agent:
        agent.send(UserMessage("opening"))
        await clock.wait_sleepers()
        agent.send(UserMessage("joined"), trigger=False, if_busy="join")
        disk.refuses = False
        clock.advance(5)
        with anyio.fail_after(5):
            await agent.wait()
    assert texts(disk.window()) == ["opening", "", "joined", "over"]
    assert len(model.requests) == 2


async def test_interrupting_a_turn_whose_batch_cannot_be_written_returns_and_the_log_is_whole_later() -> None:
    """Bug: the end of the turn waited for the disk, in order to say that it is over."""
    disk, clock = FakeDisk(), FakeClock()

    def fill(arguments: JsonObject, context: ToolContext) -> JsonValue:
        disk.refuses = True
        return "done"

    model = ScriptedModel([call("fill", {}), text("second")])
    async with served(model, store=disk, clock=clock, plugins=[Tools({"fill": tool_of(fill)})]) as agent:
        ear = Ear(agent)
        agent.send(UserMessage("opening"))
        await clock.wait_sleepers()
        with anyio.fail_after(4):
            await agent.interrupt("enough")
        assert agent.is_idle()
        agent.continue_("again")
        await anyio.wait_all_tasks_blocked()
        assert "turn.aborted" not in ear.types()
        disk.refuses = False
        clock.advance(5)
        with anyio.fail_after(5):
            await agent.wait()
    assert texts(disk.window()) == ["opening", "", "again", "second"]
    assert turn_events(disk.window()) == ["turn.start", "turn.aborted", "turn.start", "turn.done"]


async def test_a_log_that_is_broken_for_good_fails_turns_and_not_the_agent(caplog: pytest.LogCaptureFixture) -> None:
    """Bug: the StorageError of the turn's end came out of `serve`."""
    disk = FakeDisk()
    disk.refusals = [fatal(), fatal()]
    async with served(ScriptedModel([text("works again")]), store=disk) as agent:
        with anyio.fail_after(5):
            events = [event async for event in agent.run(UserMessage("lost"))]
            assert isinstance(events[-1], TurnFailed)
            assert events[-1].error.code == "storage_changed"
            events = [event async for event in agent.run(UserMessage("hi"))]
            assert isinstance(events[-1], TurnDone)
    assert texts(disk.window()) == ["hi", "works again"]
    assert "changed by another program" in caplog.text


async def test_a_message_without_a_json_form_fails_its_turn_and_not_the_agent() -> None:
    """Bug: a file part with bytes ended the agent."""
    async with served(ScriptedModel([text("fine")]), store=FakeDisk()) as agent:
        with anyio.fail_after(5):
            events = [event async for event in agent.run(UserMessage([FilePart("image/png", b"x")]))]
            assert isinstance(events[-1], TurnFailed)
            with pytest.raises(ValueError, match="resource"):
                await agent.record(Entry("message", UserMessage([FilePart("image/png", b"x")]), 1))
            events = [event async for event in agent.run(UserMessage("hi"))]
            assert isinstance(events[-1], TurnDone)
