"""A mind without a model, for `replay`: its wakeup engine hears a log by a clock that the log drives.

Nothing here waits for real: time passes from line to line, and a turn takes no time.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from ishiki.contracts.engines import WakeupEngine
from ishiki.contracts.events import ChannelRef
from ishiki.contracts.host import ChannelDomain, CrossDomain, Domain
from ishiki.contracts.transcript import Transcript
from ishiki.core.agent import Agent
from ishiki.core.disposer import Disposer, resolved
from ishiki.core.entries import Entry, message_entry
from ishiki.core.events import AgentEvent, MessageAppended, TurnDone, TurnStart, WakeupDecision
from ishiki.core.journal import Receipt
from ishiki.core.messages import AssistantMessage, CustomMessage, ToolCallPart
from ishiki.core.model import LanguageModel, ModelInfo, ModelPart, ModelRequest
from ishiki.core.state import AgentState
from ishiki.core.store import MemoryStore
from ishiki.errors import IshikiError
from ishiki.jsonvalue import read_int, read_object, read_str
from ishiki.profile import BlockConfig, Profile
from ishiki.resources.center import SchemeRouter
from ishiki.runtime.host import BoundLogger, RuntimeHost, TaskOwner
from ishiki.runtime.schedule import RuntimeScheduler
from ishiki.testing.fake_platform import FakePlatform

__all__ = ["ReplayMind", "VirtualClock"]

_MAX_STEPS = 10_000
"""How often tasks of engines may yield before something in them is taken to wait for the real world."""

_SAID = AssistantMessage([ToolCallPart("replay", "send_message", {"messages": ["…"]})])
"""What a simulated turn says; engines count it as the mind's own words."""


@dataclass(slots=True, eq=False)
class _Sleeper:
    is_due: anyio.Event = field(default_factory=anyio.Event)
    is_gone: bool = False


class VirtualClock:
    """A clock that goes from one line of a log to the next. Fits `ishiki.core.clock.Clock`.

    Attributes:
        sleeping: how many tasks sleep now.
    """

    def __init__(self, now_ms: int) -> None:
        """Start at `now_ms`, epoch milliseconds."""
        self.sleeping = 0
        self._now_ms = float(now_ms)
        self._sleepers: list[tuple[float, int, _Sleeper]] = []
        self._numbers = itertools.count()

    def now_ms(self) -> int:
        """Return the time of the log."""
        return round(self._now_ms)

    def monotonic(self) -> float:
        """Return seconds."""
        return self._now_ms / 1000

    async def sleep(self, seconds: float) -> None:
        """Return when the log has reached that time."""
        if seconds <= 0:
            await anyio.lowlevel.checkpoint()
            return
        sleeper = _Sleeper()
        heapq.heappush(self._sleepers, (self._now_ms + seconds * 1000, next(self._numbers), sleeper))
        self.sleeping += 1
        try:
            await sleeper.is_due.wait()
        finally:
            if not sleeper.is_due.is_set():
                self.sleeping -= 1
                sleeper.is_gone = True

    def advance(self, until_ms: int) -> bool:
        """Go to the next sleeper that is due by `until_ms` and wake it, or to `until_ms`.

        Returns:
            Whether one was woken; then more may be due.
        """
        while self._sleepers and self._sleepers[0][0] <= until_ms:
            due, _, sleeper = heapq.heappop(self._sleepers)
            if sleeper.is_gone:
                continue
            self._now_ms = max(self._now_ms, due)
            self.sleeping -= 1
            sleeper.is_due.set()
            return True
        self._now_ms = max(self._now_ms, float(until_ms))
        return False


class _Tasks(TaskOwner):
    """Tasks of an engine, counted."""

    def __init__(self, group: TaskGroup, runtime_id: str) -> None:
        super().__init__(group, runtime_id)
        self.running = 0

    def spawn(self, name: str, fn: Callable[[], Awaitable[None]], *, keep_alive: bool = False) -> Disposer:
        """Run `fn`; see `ExtensionHost.spawn`."""
        self.running += 1

        async def counted() -> None:
            try:
                await fn()
            finally:
                self.running -= 1

        return TaskOwner.spawn(self, name, counted, keep_alive=keep_alive)


class _NoModel:
    """Stands where a model would; nothing may ask it."""

    @property
    def ref(self) -> str:
        """Its name."""
        return "replay"

    @property
    def info(self) -> ModelInfo:
        """What is known of it."""
        return ModelInfo("replay")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """Refuse."""
        raise IshikiError("a replay asks no model", code="replay_asks_nobody")
        yield


class _ReplayAgent(Agent):
    """An agent that only notes that it was woken."""

    def __init__(self, agent_id: str, clock: VirtualClock) -> None:
        super().__init__(agent_id, model=_NoModel(), store=MemoryStore(), clock=clock)
        self.state = AgentState((), _written_at_once, clock)
        self.is_woken = False

    def continue_(self, prompt: str | None = None) -> str | None:
        """Note it; several requests before the turn make one turn."""
        self.is_woken = True
        return None

    def is_idle(self) -> bool:
        """Whether no turn is owed."""
        return not self.is_woken


def _written_at_once(entries: Sequence[Entry]) -> Receipt:
    receipt = _WrittenReceipt()
    receipt.resolve()
    return receipt


class _WrittenReceipt(Receipt):
    def on_written(self, callback: Callable[[], None]) -> None:
        """Call it now."""
        callback()


OnDecision = Callable[["ReplayMind", WakeupDecision, CustomMessage | None], None]


class ReplayMind:
    """One profile's wakeup engine over a log.

    Attributes:
        profile: whose it is.
        zone: its time zone.
    """

    def __init__(
        self,
        profile: Profile,
        engine: WakeupEngine[Any],
        config: BlockConfig,
        *,
        zone: ZoneInfo,
        seed: int,
        takes_turns: bool,
        on_decision: OnDecision,
    ) -> None:
        """Describe a mind; `start` attaches its engine.

        Args:
            profile: the profile.
            engine: its wakeup engine.
            config: the engine's settings.
            zone: its time zone.
            seed: of its dice.
            takes_turns: whether it takes a turn when it wakes. Otherwise the turns are those of the log.
            on_decision: told of each decision, with the message that it is about, if it is about one.
        """
        self.profile = profile
        self.zone = zone
        self._engine = engine
        self._config = config
        self._random = random.Random(seed)
        self._takes_turns = takes_turns
        self._on_decision = on_decision
        self._stale_after_ms = profile.config.limits.stale_after * 1000
        self._turns = 0
        self._judged: CustomMessage | None = None
        self._running: _Running | None = None

    @property
    def now_ms(self) -> int:
        """The time that it has reached."""
        return self._started().clock.now_ms()

    async def start(self, group: TaskGroup, now_ms: int, channel: ChannelRef, folder: Path) -> None:
        """Attach the engine as in the runtime of `channel`, or of the whole profile in cross mode.

        Raises:
            Exception: what the engine raises.
        """
        domain: Domain = ChannelDomain(channel)
        if self.profile.config.mode == "cross":
            domain = CrossDomain(self.profile.claims.patterns())
        clock, tasks = VirtualClock(now_ms), _Tasks(group, self.profile.id)
        # What the engine would log is told through its decisions.
        silent = logging.getLogger("ishiki.replay")
        silent.setLevel(logging.CRITICAL + 1)
        host = RuntimeHost(
            runtime_id=f"{self.profile.id}/{channel}",
            profile_id=self.profile.id,
            domain=domain,
            root=self.profile.folder,
            home=folder,
            logger=BoundLogger(silent, {"runtime": self.profile.id}),
            resources=SchemeRouter(),
            platform=FakePlatform(),
            clock=clock,
            random=self._random,
            scheduler=RuntimeScheduler(clock, self.zone, tasks.spawn),
            transcript=Transcript(self.zone),
            find_model=_find_no_model,
            tasks=tasks,
        )
        agent = _ReplayAgent(host.runtime_id, clock)
        agent.feed.subscribe("agent", self._note)
        instance = await resolved(self._engine.create(host, self._config))
        dispose = await resolved(instance.attach(agent))
        self._running = _Running(agent, tasks, clock, dispose)
        await self._settle(self._running)

    async def stop(self) -> None:
        """Detach the engine."""
        running, self._running = self._running, None
        if running is not None:
            await resolved(running.dispose())

    async def hear(self, entry: Entry, message: CustomMessage) -> None:
        """Let time pass up to a message of the log, and let the engine judge it."""
        running = self._started()
        await self._advance(running, entry.timestamp)
        data = message.data
        is_self = data.get("self") is True or read_str(read_object(data, "user"), "id") == read_str(data, "selfId")
        is_stale = entry.timestamp - read_int(data, "timestamp") > self._stale_after_ms
        self._judged = message
        await self._tell(running, MessageAppended(message, entry, is_stale=is_stale, is_self=is_self))
        self._judged = None

    async def live(self, event: AgentEvent, at_ms: int) -> None:
        """Let time pass up to an event of a turn in the log, and let the engine see it."""
        running = self._started()
        await self._advance(running, at_ms)
        await self._tell(running, event)

    async def _tell(self, running: _Running, event: AgentEvent) -> None:
        await running.agent.feed.emit(event)
        if running.has_work:
            await self._settle(running)

    async def _advance(self, running: _Running, until_ms: int) -> None:
        while running.clock.advance(until_ms):
            await self._settle(running)

    async def _settle(self, running: _Running) -> None:
        """Take the turn that is owed, and let the engine's tasks run until all of them sleep or have ended."""
        for _ in range(_MAX_STEPS):
            if running.agent.is_woken:
                await self._take_turn(running)
            elif not running.has_work:
                return
            else:
                await anyio.lowlevel.checkpoint()
        raise IshikiError(f"a task of the engine {self._engine.name} waits for what a replay does not have")

    async def _take_turn(self, running: _Running) -> None:
        running.agent.is_woken = False
        if not self._takes_turns:
            return
        self._turns += 1
        turn_id, feed = f"replay-{self._turns}", running.agent.feed
        await feed.emit(TurnStart(turn_id))
        said = message_entry(_SAID, timestamp=running.clock.now_ms(), turn_id=turn_id)
        await feed.emit(MessageAppended(_SAID, said))
        await feed.emit(TurnDone(turn_id))

    def _note(self, event: AgentEvent) -> None:
        if isinstance(event, WakeupDecision):
            self._on_decision(self, event, self._judged)

    def _started(self) -> _Running:
        assert self._running is not None, "start comes first"
        return self._running


@dataclass(frozen=True, slots=True)
class _Running:
    agent: _ReplayAgent
    tasks: _Tasks
    clock: VirtualClock
    dispose: Disposer

    @property
    def has_work(self) -> bool:
        """Whether a turn is owed, or a task of the engine could go on."""
        return self.agent.is_woken or self.tasks.running > self.clock.sleeping


def _find_no_model(ref: str | None) -> LanguageModel:
    return _NoModel()
