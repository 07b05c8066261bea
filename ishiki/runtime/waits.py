"""`Waits`: what one runtime waits for. It keeps the time, listens to messages, and wakes the mind past its engine.

The log is the truth: an entry tells that a wait was set, another one that it is over. The agenda, written first, only
says where there is something to look for.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Protocol

from ishiki.contracts.events import MESSAGE_CREATED, MessageCreated
from ishiki.core.agent import Agent
from ishiki.core.clock import Clock
from ishiki.core.disposer import Disposer, resolved
from ishiki.core.entries import Entry
from ishiki.core.events import AgentEvent, MessageAppended
from ishiki.core.messages import CustomMessage, UserMessage
from ishiki.core.tool import ToolContext
from ishiki.errors import AgentStoppedError, StorageError
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_str
from ishiki.runtime.deadlines import Deadlines
from ishiki.runtime.host import TaskOwner
from ishiki.tools.wait import WAIT_ENTRY, Wait

__all__ = ["Waits"]

logger = logging.getLogger(__name__)


class _Note(Protocol):
    """Tells the agenda what a runtime waits for from now on."""

    async def __call__(self, waits: Sequence[Wait], /) -> None:
        """Note it.

        Raises:
            StorageError: it cannot be written.
        """
        ...


class Waits:
    """Implements `WaitKeeper`. `restore`, then `attach`.

    A wait whose time has come stays pending until the turn that it wakes has begun: a guard may hold that, and a kill
    come between.
    """

    def __init__(self, clock: Clock, note: _Note, deadlines: Deadlines) -> None:
        """Wait for nothing yet; tell `note` of every change, and ask `deadlines` how long a wait lasts."""
        self._clock = clock
        self._note = note
        self._deadlines = deadlines
        self._pending: dict[str, Wait] = {}
        self._called: set[str] = set()
        """Those among them that have asked for their turn."""
        self._timers: dict[str, Disposer] = {}
        self._agent: Agent | None = None
        self._tasks: TaskOwner | None = None

    @property
    def pending_count(self) -> int:
        """How many are pending."""
        return len(self._pending)

    def restore(self, checkpoint: JsonObject, entries: Sequence[Entry]) -> None:
        """Take over what a checkpoint's `waits` hold, and then what the entries behind it tell."""
        for data in read_array(checkpoint, "waits"):
            if isinstance(data, Mapping):
                self._restore_one(Wait.from_data(data))
        for entry in entries:
            if entry.type == WAIT_ENTRY and read_str(entry.json_data, "state") == "set":
                self._restore_one(Wait.from_data(entry.json_data))
            elif entry.type == WAIT_ENTRY:
                self._pending.pop(read_str(entry.json_data, "id"), None)
            elif self._pending and isinstance(entry.message, UserMessage):
                # The turn had begun, and a kill came before that was noted.
                for wait in self._told_by(entry.message):
                    if wait.message is not None or wait.until_ms <= entry.timestamp:
                        del self._pending[wait.id]

    async def attach(self, agent: Agent, tasks: TaskOwner, owed: str | None) -> None:
        """Wake `agent` from now on, and at once for what is due already.

        Args:
            agent: the runtime's.
            tasks: what keeps the time runs there.
            owed: the prompt of the wake that an earlier runtime passes on; what it tells of is not asked for again.
        """
        self._agent, self._tasks = agent, tasks
        agent.feed.subscribe("agent", self._hear)
        for wait in tuple(self._pending.values()):
            if owed is not None and wait.prompt in owed:
                self._called.add(wait.id)
            elif self._deadlines.left_s(wait) > 0:
                self._start(wait)
            else:
                self._come(wait)
        await self.settle()

    async def keep(self, wait: Wait, context: ToolContext) -> None:
        """Keep `wait`; see `WaitKeeper`."""
        await self._note([*self._pending.values(), wait])
        # It counts before it is written: a call that is cut off meanwhile has set it all the same.
        self._pending[wait.id] = wait
        self._start(wait)
        try:
            await context.record(wait.to_entry("set", timestamp=self._clock.now_ms()))
        except StorageError:
            self._pending.pop(wait.id, None)
            await self._stop(wait)
            await self.settle()
            raise

    async def settle(self) -> None:
        """Let the agenda say what is pending now. A disk that refuses costs a look at the next start, and no wait."""
        try:
            await self._note(tuple(self._pending.values()))
        except StorageError as error:
            logger.warning("the agenda is not up to date: %s", error)

    def checkpoint(self) -> JsonValue:
        """Return the part of a checkpoint that restores this."""
        return [wait.to_data() for wait in self._pending.values()]

    def _restore_one(self, wait: Wait) -> None:
        if wait.id:
            self._pending[wait.id] = wait

    def _start(self, wait: Wait) -> None:
        assert self._tasks is not None, "attach comes first"
        self._timers[wait.id] = self._tasks.spawn(f"wait {wait.id}", partial(self._keep_time, wait))

    async def _stop(self, wait: Wait) -> None:
        if (timer := self._timers.pop(wait.id, None)) is not None:
            await resolved(timer())

    async def _keep_time(self, wait: Wait) -> None:
        while (nap_s := self._deadlines.nap_s(wait)) > 0:
            await self._clock.sleep(nap_s)
        self._timers.pop(wait.id, None)
        self._come(wait)

    def _hear(self, event: AgentEvent) -> Awaitable[None] | None:
        # Nearly always nothing is waited for, and then a fact must not cost a task switch.
        return self._match(event) if self._pending and isinstance(event, MessageAppended) else None

    async def _match(self, event: MessageAppended) -> None:
        message = event.message
        if isinstance(message, UserMessage):
            for wait in self._told_by(message):
                if wait.id in self._called:
                    self._end(wait)
        elif isinstance(message, CustomMessage) and message.type == MESSAGE_CREATED:
            if event.is_stale or event.is_self:
                return
            said = MessageCreated.from_data(message.data)
            for wait in tuple(self._pending.values()):
                if wait.id not in self._called and wait.message is not None and wait.message.holds(said):
                    await self._stop(wait)
                    self._call(wait)

    def _come(self, wait: Wait) -> None:
        """Act on a time that has come: wake, or give up a message that never came."""
        if wait.id not in self._pending or wait.id in self._called:
            return
        if wait.wakes_in_time:
            self._call(wait)
        else:
            logger.debug("the wait %s is given up: no such message has come", wait.id)
            self._end(wait)

    def _call(self, wait: Wait) -> None:
        assert self._agent is not None, "attach comes first"
        self._called.add(wait.id)
        try:
            self._agent.continue_(wait.prompt)
        except AgentStoppedError:
            logger.debug("%s: the wait %s wakes at the next start", self._agent.id, wait.id)

    def _end(self, wait: Wait) -> None:
        """Forget a wait whose turn has begun, or that is given up; its end is written soon."""
        assert self._tasks is not None, "attach comes first"
        self._pending.pop(wait.id, None)
        self._called.discard(wait.id)
        if not self._tasks.is_closed:  # otherwise the last checkpoint says it
            self._tasks.spawn(f"noting the end of the wait {wait.id}", partial(self._note_end, wait))

    async def _note_end(self, wait: Wait) -> None:
        assert self._agent is not None, "attach comes first"
        try:
            await self._agent.record(wait.to_entry("over", timestamp=self._clock.now_ms()))
        except (AgentStoppedError, StorageError) as error:
            logger.warning("%s: the end of the wait %s is not noted: %s", self._agent.id, wait.id, error)
        await self.settle()

    def _told_by(self, message: UserMessage) -> list[Wait]:
        """Return the waits whose turn `message` opens."""
        if not isinstance(message.content, str):
            return []
        return [wait for wait in self._pending.values() if wait.prompt in message.content]
