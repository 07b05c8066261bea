"""Sends, wakes, interrupts, refusals of the disk and faults of the model at random moments; what must hold holds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import anyio
import pytest

from ishiki.core.agent import Agent
from ishiki.core.entries import Entry
from ishiki.core.events import AgentEvent, MessageAppended, TurnAborted, TurnDone, TurnFailed, TurnQueued
from ishiki.core.inbox import IfBusy
from ishiki.core.messages import AssistantMessage, ToolMessage, UserMessage
from ishiki.core.model import ModelRequest
from ishiki.core.plugin import AgentPlugin, StepResult
from ishiki.core.projection import WITHHELD_TEXT
from ishiki.core.repair import NO_INPUT
from ishiki.core.store import MemoryStore
from ishiki.core.tool import ToolContext, ToolSet
from ishiki.core.turn import TurnLimits
from ishiki.errors import AgentBusyError, AgentStoppedError, ModelError
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.clock import FakeClock
from ishiki.testing.scripted_model import ScriptedAnswer, ScriptedModel, call, text

from .core_kit import FakeDisk, texts, tool_of, turn_events

BUSY: Sequence[IfBusy] = ("defer", "join", "reject")


class Chance:
    """Dice, and pauses of a few turns of the event loop, so that every await is a place where something comes between.

    Attributes:
        roll: the dice.
    """

    def __init__(self, seed: int) -> None:
        self.roll = random.Random(seed)

    async def pause(self, most: int = 6) -> None:
        """Let others run, now and then not at all."""
        for _ in range(self.roll.randrange(most)):
            await anyio.lowlevel.checkpoint()


class SlowDisk(FakeDisk):
    """A disk that takes its time and refuses now and then."""

    def __init__(self, chance: Chance) -> None:
        super().__init__()
        self.chance = chance

    async def append(self, *entries: Entry) -> None:
        with anyio.CancelScope(shield=True):
            await self.chance.pause()
        await super().append(*entries)


class Meddler(AgentPlugin):
    """Pauses in every hook, wakes and sends from within."""

    name = "meddler"

    def __init__(self, world: World) -> None:
        self.world = world

    async def extend_instructions(self, turn_id: str) -> str | None:
        await self.world.chance.pause()
        if self.world.chance.roll.random() < 0.05:
            raise RuntimeError("no instructions today")
        return None

    async def extend_tools(self, turn_id: str) -> ToolSet:
        await self.world.chance.pause()
        return {"work": tool_of(self._work), "say": tool_of(self._work, sequential=True)}

    async def on_step_finish(self, result: StepResult) -> None:
        await self.world.chance.pause()
        if self.world.chance.roll.random() < 0.1:
            self.world.send(trigger=False, if_busy="join")

    async def _work(self, arguments: JsonObject, context: ToolContext) -> JsonValue:
        await self.world.chance.pause()
        if self.world.chance.roll.random() < 0.2:
            self.world.send(trigger=False, if_busy="join")
        return "done"


class World:
    """One agent, everything that was asked of it, and everything that it told."""

    def __init__(self, seed: int) -> None:
        self.chance = Chance(seed)
        self.disk = SlowDisk(self.chance)
        self.clock = FakeClock()
        self.model = ScriptedModel([], responder=self._answer)
        self.agent = Agent(
            "test",
            model=self.model,
            store=self.disk,
            clock=self.clock,
            plugins=[Meddler(self)],
            limits=TurnLimits(max_steps=4),
        )
        self.facts: list[str] = []
        self.openings: dict[str, str] = {}
        self.reads: dict[tuple[str | None, int], list[str]] = {}
        self.told: list[AgentEvent] = []
        self.untold: list[str] = []
        self.agent.feed.subscribe("agent", self._hear)

    def _hear(self, event: AgentEvent) -> None:
        self.told.append(event)
        if isinstance(event, MessageAppended):
            if event.entry.id not in {entry.id for entry in self.disk.window()}:
                self.untold.append(event.entry.id)
            if isinstance(event.message, UserMessage) and self.chance.roll.random() < 0.3:
                self._ask()

    def _ask(self) -> None:
        with suppress(AgentStoppedError):
            self.agent.continue_("why" if self.chance.roll.random() < 0.2 else None)

    def _answer(self, request: ModelRequest) -> ScriptedAnswer:
        number = len(self.model.requests)
        lines = [message.content for message in request.messages if isinstance(message, UserMessage)]
        origin = request.origin
        self.reads[origin.turn_id, origin.step] = [str(line) for line in lines if line != NO_INPUT]
        match self.chance.roll.randrange(8):
            case 0:
                return ModelError("down", kind="unavailable", retryable=True)
            case 1:
                return ModelError("bad", kind="refused", retryable=False)
            case 2 | 3:
                return call("work", {}) + call("say", {}) + call("say", {})
            case 4:
                return call("nothing", "{")
            case _:
                return text(f"answer {number}")

    def send(self, *, trigger: bool, if_busy: IfBusy) -> None:
        """Send a line that comes only once."""
        line = f"line {len(self.facts) + len(self.openings)}"
        try:
            active = self.agent.active_turn_id
            turn_id = self.agent.send(UserMessage(line), trigger=trigger, if_busy=if_busy)
        except AgentBusyError:
            assert (trigger, if_busy) == (True, "reject")
        except AgentStoppedError:
            pass
        else:
            if turn_id is None or turn_id == active:
                self.facts.append(line)
            else:
                self.openings[line] = turn_id

    async def live(self, moments: int) -> None:
        """Do something at each of some moments."""
        for _ in range(moments):
            await self.chance.pause(20)
            match self.chance.roll.randrange(12):
                case 0:
                    with anyio.fail_after(5):
                        await self.agent.interrupt("enough")
                case 1 | 2:
                    self._ask()
                case 3:
                    self.disk.refuses = not self.disk.refuses
                case 4:
                    self.clock.advance(5)
                case 5:
                    self.agent.hold("a reason")
                case 6:
                    self.agent.release("a reason")
                case _:
                    self.send(trigger=self.chance.roll.random() < 0.4, if_busy=self.chance.roll.choice(BUSY))

    async def calm_down(self) -> None:
        """Let the disk write again and everything come to rest."""
        self.disk.refuses = False
        self.agent.release("a reason")
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(self._keep_time)
                await self.agent.wait()
                group.cancel_scope.cancel()
        assert self.agent.is_idle()
        assert self.agent.backlog == 0

    async def _keep_time(self) -> None:
        while True:
            await self.clock.wait_sleepers()
            self.clock.advance(5)

    def check(self, *, lossless: bool) -> None:
        """Check the log and what was told of it."""
        log = list(self.disk.window())
        self._check_turns(log)
        self._check_reads(log)
        assert self.untold == []
        announced = [event.entry.id for event in self.told if isinstance(event, MessageAppended)]
        assert announced == [entry.id for entry in log if entry.message is not None]
        lines = Counter(texts(log))
        if lossless:
            assert [lines[fact] for fact in self.facts] == [1] * len(self.facts)
        assert max((lines[line] for line in (*self.facts, *self.openings)), default=0) <= 1

    def _check_reads(self, log: Sequence[Entry]) -> None:
        """Check that what stands before an answer in the history is exactly what the model had read."""
        before: list[str] = []
        for entry in log:
            if isinstance(entry.message, UserMessage):
                before.append(str(entry.message.content))
            elif isinstance(entry.message, AssistantMessage) and entry.step is not None:
                read = self.reads[entry.turn_id, entry.step]
                assert len(read) == len(before)
                assert all(one in (line, WITHHELD_TEXT) for one, line in zip(read, before, strict=True))

    def _check_turns(self, log: Sequence[Entry]) -> None:
        for turn_id in {entry.turn_id for entry in log if entry.turn_id is not None}:
            of_turn = [entry for entry in log if entry.turn_id == turn_id]
            events = turn_events(of_turn)
            assert (events[0], len(events)) == ("turn.start", 2)
            assert of_turn[0].type == of_turn[-1].type == "event"
        for number, entry in enumerate(log):
            if isinstance(entry.message, AssistantMessage) and entry.message.tool_calls:
                assert isinstance(log[number + 1].message, ToolMessage)
        queued = [event.turn_id for event in self.told if isinstance(event, TurnQueued)]
        ended = [event.turn_id for event in self.told if isinstance(event, TurnDone | TurnFailed | TurnAborted)]
        assert Counter(queued) == Counter(ended)
        assert max(Counter(ended).values(), default=1) == 1


@pytest.mark.parametrize("seed", range(40))
async def test_whatever_comes_when_every_fact_is_in_the_log_once_and_every_turn_ends_once(seed: int) -> None:
    """Design, sections 2 and 3: joined facts, pending wakes, full disks; reference, interrupt."""
    world = World(seed)
    async with anyio.create_task_group() as group:
        await group.start(world.agent.serve)
        await world.live(60)
        await world.calm_down()
        world.check(lossless=True)
        reopened = MemoryStore([entry for written in world.disk.batches for entry in written])
        assert [entry.id for entry in reopened.window()] == [entry.id for entry in world.disk.window()]
        with anyio.fail_after(5):
            await world.agent.stop()


@pytest.mark.parametrize("how", ["stop", "cancel"])
@pytest.mark.parametrize("seed", range(40))
async def test_an_agent_that_ends_at_any_moment_leaves_a_whole_log(seed: int, how: str) -> None:
    """Design, section 8, stop: interrupts the rest, flushes; here the disk may be full as well, and then says so."""
    world = World(1000 + seed)
    is_writable = True
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            await group.start(world.agent.serve)
            await world.live(world.chance.roll.randrange(40))
            is_writable = not world.disk.refuses
            if how == "stop":
                await world.agent.stop()
            group.cancel_scope.cancel()
        await world.agent.stop()
        await world.agent.wait()
    with pytest.raises(AgentStoppedError):
        world.agent.send(UserMessage("late"))
    assert world.told[-1].type == "agent.stop"
    if is_writable:
        world.check(lossless=True)
