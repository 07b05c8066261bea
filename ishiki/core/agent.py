"""`Agent`: the loop's public face. It owns one log, one feed and one queue of turns, and knows nothing of chat.

An agent is served by one task (`serve`), which its owner starts; every other method only asks and returns at once.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

import anyio
from anyio.abc import TaskStatus

from ishiki.core.clock import Clock, SystemClock
from ishiki.core.disposer import resolved
from ishiki.core.entries import MESSAGE, Entry
from ishiki.core.events import (
    AgentEvent,
    AgentInit,
    AgentStop,
    MessageAppended,
    TurnAborted,
    TurnDone,
    TurnFailed,
    TurnQueued,
)
from ishiki.core.feed import AgentFeed
from ishiki.core.inbox import IfBusy, Inbox, QueuedTurn
from ishiki.core.journal import Journal, Receipt
from ishiki.core.messages import Message
from ishiki.core.model import LanguageModel
from ishiki.core.plugin import AgentPlugin, ordered_plugins, overrides
from ishiki.core.slot import ModelSlot
from ishiki.core.state import AgentState
from ishiki.core.store import EntryStore
from ishiki.core.turn import TurnLimits, TurnRunner

__all__ = ["Agent"]

logger = logging.getLogger(__name__)

_PLUGIN_STOP_LIMIT_S = 30.0
"""How long one plugin's `stop` may take. Plugins limit what they call themselves; this is for one that does not."""


class Agent:
    """One mind's loop: facts in, turns out.

    Attributes:
        id: whose it is, for logs and accounting.
        feed: its events.
        store: its entries; append only through the agent.
        state: a small versioned object that survives restarts.
    """

    def __init__(
        self,
        agent_id: str,
        *,
        model: LanguageModel,
        store: EntryStore,
        plugins: Sequence[AgentPlugin] = (),
        limits: TurnLimits | None = None,
        clock: Clock | None = None,
        wrap: Callable[[LanguageModel], LanguageModel] | None = None,
    ) -> None:
        """Make an agent; nothing runs before `serve`.

        Args:
            agent_id: whose it is.
            model: who answers; `set_model` changes it.
            store: an open store; the agent is its only writer.
            plugins: hooks, in order of registration.
            limits: how long a turn waits for others.
            clock: time; the system's by default.
            wrap: what stands between the loop and whichever model it has; called once.
        """
        limits = limits or TurnLimits()
        self.id = agent_id
        self.store = store
        self.feed = AgentFeed(listener_limit_s=limits.hook_s)
        self._clock = clock or SystemClock()
        self._inbox = Inbox()
        self._plugins = ordered_plugins(plugins)
        hooks = [plugin.on_append for plugin in self._plugins if overrides(plugin, "on_append")]
        self._journal = Journal(store, self.feed, self._inbox, self._clock, hooks)
        self.state = AgentState(store.window(), self._journal.submit, self._clock)
        self._slot = ModelSlot(model)
        asked = self._slot if wrap is None else wrap(self._slot)
        self._runner = TurnRunner(
            agent_id, asked, store, self._journal, self._inbox, self.feed, self._plugins, limits, self._clock
        )
        self._work = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()
        self._stopped = anyio.Event()
        self._is_serving = False
        self._initialised: list[AgentPlugin] = []
        self._holds: set[str] = set()

    @property
    def model(self) -> LanguageModel:
        """Who answers the next step."""
        return self._slot.target

    @property
    def active_turn_id(self) -> str | None:
        """The running turn, or None."""
        return self._inbox.active_turn_id

    @property
    def backlog(self) -> int:
        """How many submissions are not in the log yet."""
        return self._journal.backlog

    @property
    def is_blocked(self) -> bool:
        """Whether the store refuses to be written at the moment."""
        return self._journal.is_blocked

    def set_model(self, model: LanguageModel) -> None:
        """Let `model` answer from the next step on."""
        self._slot.target = model

    def send(
        self,
        message: Message | Sequence[Message],
        *,
        trigger: bool = True,
        if_busy: IfBusy = "defer",
        is_stale: bool = False,
        is_self: bool = False,
    ) -> str | None:
        """Submit one message, or several that belong together, and return at once.

        Args:
            message: several are appended as one batch.
            trigger: whether it starts a turn.
            if_busy: what happens while a turn runs: `join` it, `defer` to behind it, or `reject`.
            is_stale: announced with the messages: too old to wake on.
            is_self: announced with the messages: the mind's own words.

        Returns:
            The id of the turn that it starts or triggers, or None for a mere record.

        Raises:
            AgentStoppedError: the agent is stopping.
            AgentBusyError: `trigger` and `reject` while a turn runs.
        """
        turn_id, _ = self.submit(message, trigger=trigger, if_busy=if_busy, is_stale=is_stale, is_self=is_self)
        return turn_id

    def submit(
        self,
        message: Message | Sequence[Message],
        *,
        trigger: bool = False,
        if_busy: IfBusy = "join",
        is_stale: bool | Callable[[], bool] = False,
        is_self: bool = False,
        no_wake: str = "",
    ) -> tuple[str | None, Receipt | None]:
        """Do as `send`, and return a receipt that tells when the messages are in the log.

        `no_wake` is announced with the messages: why nothing may wake on them, "" where something may.

        The receipt is None where they open a new turn: that turn stores them.
        """
        messages = [message] if not isinstance(message, Sequence) else list(message)
        decision = self._inbox.send(messages, trigger=trigger, if_busy=if_busy)
        receipt: Receipt | None = None
        if decision.store_now:
            now = self._clock.now_ms()
            dated = [item if item.timestamp else replace(item, timestamp=now) for item in messages]
            entries = [Entry(MESSAGE, item, now, joins=decision.joins) for item in dated]
            receipt = self._journal.submit(entries, is_stale=is_stale, is_self=is_self, no_wake=no_wake)
        if decision.is_new_turn and decision.turn_id is not None:
            self._announce_turn(decision.turn_id)
        return decision.turn_id, receipt

    async def record(self, *entries: Entry) -> None:
        """Append entries that are no messages, such as a compaction, and return when they are in the log.

        Raises:
            StorageError: they are not.
            ValueError: they are not, because one of them has no JSON form.
            AgentStoppedError: they are not, because the agent has stopped.
        """
        await self._journal.submit(entries).wait()

    def continue_(self, prompt: str | None = None) -> str | None:
        """Ask for a turn on what is there.

        Args:
            prompt: the turn's opening user message, as it is; None: none.

        Returns:
            The turn's id, or None when the request merged into the one pending wake.

        Raises:
            AgentStoppedError: the agent is stopping.
        """
        turn_id = self._inbox.continue_(prompt)
        if turn_id is not None:
            self._announce_turn(turn_id)
        return turn_id

    async def run(self, message: Message | Sequence[Message]) -> AsyncIterator[AgentEvent]:
        """Send `message` as a turn of its own and yield that turn's events up to its last one."""
        sender, receiver = anyio.create_memory_object_stream[AgentEvent](float("inf"))
        wanted: list[str] = []

        def forward(event: AgentEvent) -> None:
            turn_id = _turn_of(event)
            if turn_id is not None and turn_id in wanted:
                sender.send_nowait(event)

        unsubscribe = self.feed.subscribe("agent", forward)
        try:
            turn_id = self.send(message)
            wanted.append(turn_id or "")
            event: AgentEvent | None = None
            while not isinstance(event, TurnDone | TurnFailed | TurnAborted):
                event = await receiver.receive()
                yield event
        finally:
            unsubscribe()
            sender.close()
            receiver.close()

    def hold(self, reason: str) -> None:
        """Start no turn until `release` is called with the same `reason`. What runs goes on; wakes are kept."""
        self._holds.add(reason)

    def release(self, reason: str) -> None:
        """Undo `hold`. Turns start again when no other reason is left."""
        self._holds.discard(reason)
        self._work.set()

    @property
    def holds(self) -> frozenset[str]:
        """Why no turn starts at the moment; empty when turns start."""
        return frozenset(self._holds)

    def is_idle(self) -> bool:
        """Whether no turn runs or waits and no wake is pending."""
        return self._inbox.is_idle()

    async def wait(self) -> None:
        """Return when the agent is idle and everything sent is in the log."""
        while not self._idle.is_set() or self._journal.backlog:
            await self._idle.wait()
            await self._journal.settled()

    async def written(self) -> None:
        """Return when everything sent so far is in the log and announced."""
        await self._journal.settled()

    async def interrupt(self, reason: str) -> None:
        """Abort the running turn and wait for its end; drop the waiting ones and the pending wake.

        The end is in the log by then, unless the store refuses to be written.
        """
        self._drop(self._inbox.drop_waiting(), reason)
        await self._runner.interrupt(reason)
        if self._is_serving:
            await self._journal.caught_up()

    def take_pending_wake(self) -> tuple[str | None] | None:
        """Take the pending wake away, for the agent that continues this conversation; None: none is owed."""
        pending = self._inbox.take_pending()
        self._note_idle()
        return pending

    async def stop(self, reason: str = "the agent stops") -> None:
        """Take nothing any more, abort what runs, store what was sent, stop the plugins. Idempotent.

        Where the store refuses to be written, what waits is tried once more and then lost, with an error in the log.
        """
        self._drop(self._inbox.stop(), reason)
        self._runner.cancel(reason)
        self._journal.give_up()
        self._work.set()
        if self._is_serving:
            await self._stopped.wait()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run turns until `stop`, or until cancelled. Started once, by the agent's owner, in its own task group.

        Either way the running turn's end and what was sent are written, and the plugins are stopped, before it returns.

        Raises:
            Exception: what a plugin's `init` raised; those initialised before it have been stopped.
        """
        self._is_serving = True
        failure: Exception | None = None
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._journal.run)
                try:
                    failure = await self._init_plugins()
                    if failure is None:
                        await self.feed.emit(AgentInit())
                        task_status.started()
                        await self._pump()
                finally:
                    await self._wind_up()
            if failure is not None:
                raise failure
        finally:
            with anyio.CancelScope(shield=True):
                await self.feed.emit(AgentStop())
            self._stopped.set()

    async def _pump(self) -> None:
        while not self._inbox.stopping:
            if self._journal.is_blocked:
                # What cannot be written down must not be answered either.
                await self._journal.writable()
                continue
            turn = None if self._holds else self._inbox.next_turn()
            if turn is not None:
                if turn.is_wake:
                    self._journal.submit(events=[TurnQueued(turn.turn_id)])
                await self._runner.run(turn)
                continue
            self._note_idle()
            self._work = anyio.Event()
            await self._work.wait()

    def _announce_turn(self, turn_id: str) -> None:
        self._note_idle()
        self._journal.submit(events=[TurnQueued(turn_id)])
        self._work.set()

    def _note_idle(self) -> None:
        if self._inbox.is_idle():
            self._idle.set()
        elif self._idle.is_set():
            self._idle = anyio.Event()

    def _drop(self, turns: Sequence[QueuedTurn], reason: str) -> None:
        for turn in turns:
            self._journal.submit(events=[TurnAborted(turn.turn_id, reason)])
        self._note_idle()

    async def _wind_up(self) -> None:
        """Write what was sent, with the engines still listening; then stop the plugins, who may record a last fact."""
        with anyio.CancelScope(shield=True):
            self._drop(self._inbox.stop(), "the agent has stopped")
            await self._journal.caught_up()
            await self._stop_plugins()
            self._journal.close()

    async def _init_plugins(self) -> Exception | None:
        for plugin in self._plugins:
            try:
                await resolved(plugin.init(self))
            except Exception as error:  # noqa: BLE001 - `serve` raises it, as soon as what began has been stopped
                return error
            self._initialised.append(plugin)
        return None

    async def _stop_plugins(self) -> None:
        while self._initialised:
            plugin = self._initialised.pop()
            try:
                with anyio.fail_after(_PLUGIN_STOP_LIMIT_S):
                    await resolved(plugin.stop())
            except Exception:
                logger.warning("%s: stop of %s raised", self.id, plugin.name, exc_info=True)


def _turn_of(event: AgentEvent) -> str | None:
    match event:
        case MessageAppended():
            return event.entry.turn_id
        case AgentInit() | AgentStop():
            return None
        case _:
            return event.turn_id
