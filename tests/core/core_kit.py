"""What the tests of the core share: a store that can refuse, agents that are served, and short readings of a log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio

from ishiki.core.agent import Agent
from ishiki.core.clock import Clock
from ishiki.core.entries import Entry, entry_from_json, entry_to_json
from ishiki.core.events import AgentEvent, MessageAppended
from ishiki.core.messages import AssistantMessage, UserMessage
from ishiki.core.model import LanguageModel
from ishiki.core.plugin import AgentPlugin
from ishiki.core.store import EntryStore, MemoryStore
from ishiki.core.tool import Tool, ToolContext, ToolExecute, ToolSet
from ishiki.core.turn import TurnLimits
from ishiki.errors import StorageError
from ishiki.jsonvalue import JsonObject, JsonValue

ANY: JsonObject = {"type": "object"}
"""The schema of a tool that takes anything."""


class FakeDisk(MemoryStore):
    """A store in memory that refuses, fails, and takes its time as told; it writes entries as JSON, as a file would.

    Attributes:
        batches: what was written, one list for each append.
        refusals: what the next appends raise, in order.
        refuses: as long as it is set, every append is refused as on a full disk.
        attempts: how many appends were asked for.
    """

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        super().__init__(entries)
        self.batches: list[list[Entry]] = []
        self.refusals: list[StorageError] = []
        self.refuses = False
        self.attempts = 0
        self._gate: anyio.Event | None = None
        self._reached = anyio.Event()

    def hold(self) -> None:
        """Let appends wait for `let_go`."""
        self._gate = anyio.Event()

    def let_go(self) -> None:
        """Let the held append go on."""
        if self._gate is not None:
            self._gate.set()
            self._gate = None
            self._reached = anyio.Event()

    async def wait_held(self) -> None:
        """Return when an append waits."""
        with anyio.fail_after(5):
            await self._reached.wait()

    async def append(self, *entries: Entry) -> None:
        self.attempts += 1
        written = [entry_from_json(entry_to_json(entry)) for entry in entries]
        # Not cancellable half way, like a write in a thread.
        with anyio.CancelScope(shield=True):
            if self._gate is not None:
                self._reached.set()
                with anyio.fail_after(10):
                    await self._gate.wait()
            await anyio.lowlevel.checkpoint()
            if self.refusals:
                raise self.refusals.pop(0)
            if self.refuses:
                raise full()
            await super().append(*written)
            self.batches.append(written)


def full() -> StorageError:
    """Return what a full disk raises."""
    return StorageError("no space left", path="events.jsonl", code="storage_unwritable")


def fatal() -> StorageError:
    """Return what a log raises that cannot be written any more."""
    return StorageError("changed by another program", path="events.jsonl", code="storage_changed")


class Tools(AgentPlugin):
    """Contributes tools."""

    name = "tools of the test"

    def __init__(self, tools: ToolSet) -> None:
        self.tools = tools

    def extend_tools(self, turn_id: str) -> ToolSet:
        return self.tools


def tool_of(execute: ToolExecute, *, sequential: bool = False) -> Tool:
    """Return a tool that takes anything."""
    return Tool("for a test", ANY, execute, sequential=sequential)


def echo(arguments: JsonObject, context: ToolContext) -> JsonValue:
    """Return the argument `value`."""
    return arguments.get("value")


@asynccontextmanager
async def served(
    model: LanguageModel,
    *,
    store: EntryStore | None = None,
    plugins: Sequence[AgentPlugin] = (),
    limits: TurnLimits | None = None,
    clock: Clock | None = None,
) -> AsyncGenerator[Agent]:
    """Serve an agent, and stop it at the end, each within five seconds."""
    agent = Agent("test", model=model, store=store or MemoryStore(), plugins=plugins, limits=limits, clock=clock)
    async with anyio.create_task_group() as group:
        with anyio.fail_after(5):
            await group.start(agent.serve)
        yield agent
        with anyio.fail_after(5):
            await agent.stop()


class Ear:
    """Remembers an agent's events, and waits for one of a type."""

    def __init__(self, agent: Agent) -> None:
        self.events: list[AgentEvent] = []
        self._heard = anyio.Event()
        agent.feed.subscribe("agent", self._hear)

    def _hear(self, event: AgentEvent) -> None:
        self.events.append(event)
        heard, self._heard = self._heard, anyio.Event()
        heard.set()

    async def wait_for(self, wanted: Callable[[AgentEvent], bool]) -> None:
        """Return as soon as there has been an event that is `wanted`."""
        with anyio.fail_after(5):
            while not any(wanted(event) for event in self.events):
                await self._heard.wait()

    def types(self) -> list[str]:
        """Return the types of all events but announcements."""
        return [event.type for event in self.events if not isinstance(event, MessageAppended)]

    def texts(self) -> list[str]:
        """Return the texts of what was announced, in order."""
        return texts([event.entry for event in self.events if isinstance(event, MessageAppended)])


def texts(entries: Sequence[Entry]) -> list[str]:
    """Return the texts of user and assistant messages, in order."""
    found: list[str] = []
    for entry in entries:
        match entry.message:
            case UserMessage(content=str() as content):
                found.append(content)
            case AssistantMessage() as message:
                found.append(message.text)
            case _:
                pass
    return found


def turn_events(entries: Sequence[Entry]) -> list[str]:
    """Return the types of the turn events in the log, in order."""
    return [str(entry.json_data.get("type")) for entry in entries if entry.type == "event"]
