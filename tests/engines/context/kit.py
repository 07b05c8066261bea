"""A mind with one context engine: a real agent and host, a scripted model, and what its requests are compared by."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

import anyio

from ishiki.config import ConfigModel
from ishiki.contracts.engines import ContextEngine, ContextEngineInstance
from ishiki.contracts.events import (
    ATTACHMENT,
    MESSAGE_CREATED,
    MESSAGE_DELETED,
    Attachment,
    AttachmentItem,
    ChannelRef,
    MessageCreated,
    MessageDeleted,
    User,
)
from ishiki.contracts.host import ChannelDomain
from ishiki.contracts.transcript import Transcript
from ishiki.core.agent import Agent
from ishiki.core.disposer import DisposerStack, resolved
from ishiki.core.entries import COMPACT, EVENT, MESSAGE, Entry
from ishiki.core.messages import CustomMessage, Message, ModelMessage, SystemMessage, UserMessage, message_to_json
from ishiki.core.model import LanguageModel, ModelRequest
from ishiki.core.plugin import AgentPlugin, ContextRequest, StepResult
from ishiki.core.signal import CancelSignal
from ishiki.core.store import EntryStore, MemoryStore
from ishiki.core.tool import ToolSet
from ishiki.jsonvalue import JsonObject
from ishiki.resources.center import SchemeRouter
from ishiki.runtime.host import BoundLogger, RuntimeHost, TaskOwner
from ishiki.runtime.schedule import RuntimeScheduler
from ishiki.testing.clock import FakeClock, FixedRandom
from ishiki.testing.fake_platform import FakePlatform
from ishiki.testing.scripted_model import ScriptedModel
from ishiki.testing.task_scope import TaskScope
from ishiki.tools.finish import finish_tool
from ishiki.tools.stop_rule import goes_on

__all__ = [
    "CHANNEL",
    "LOGGER",
    "Mind",
    "chatter",
    "entries",
    "is_prefix",
    "minding",
    "picture",
    "recalled",
    "request",
    "said",
    "turn",
]

LOGGER = logging.LoggerAdapter(logging.getLogger("test"), {})
CHANNEL = ChannelRef("onebot:1", "group:5")


def said(number: int, content: str = "hi", *, user: str = "42", channel_id: str = "group:5") -> CustomMessage:
    """Return the fact that somebody spoke."""
    event = MessageCreated(0, "onebot", "1", channel_id, str(number), content, False, User(user, f"n{user}"))
    return CustomMessage(MESSAGE_CREATED, event.to_data())


def recalled(number: int) -> CustomMessage:
    """Return the fact that a message of 42 was recalled by 43."""
    event = MessageDeleted(0, "onebot", "1", "group:5", str(number), "42", "43")
    return CustomMessage(MESSAGE_DELETED, event.to_data())


def picture(number: int) -> CustomMessage:
    """Return the attachment of a message with a picture."""
    item = AttachmentItem(f"asset://{number:032x}", "image/png")
    return CustomMessage(ATTACHMENT, Attachment("platform", [item], channel=CHANNEL, message_id=str(number)).to_data())


def entries(*messages: Message) -> list[Entry]:
    """Return messages as entries."""
    return [Entry(MESSAGE, message, 0) for message in messages]


def turn(*messages: Message) -> list[Entry]:
    """Return a whole turn as entries."""
    return [Entry(EVENT, {"type": "turn.start"}, 0), *entries(*messages), Entry(EVENT, {"type": "turn.done"}, 0)]


def request(turn_id: str = "t", *, budget_scale: float = 1.0) -> ContextRequest:
    """Return what a step asks the engine with."""
    return ContextRequest(turn_id, CancelSignal(), budget_scale)


class Runtime(AgentPlugin):
    """The engine as the runtime plugs it in, with `finish` to end turns."""

    name = "the runtime"

    def __init__(self, context: ContextEngineInstance, transcript: Transcript) -> None:
        self.context = context
        self.transcript = transcript
        self.disposers = DisposerStack()

    async def init(self, agent: Agent) -> None:
        self.disposers.push(await resolved(self.context.attach(agent)))

    async def stop(self) -> None:
        while (disposer := self.disposers.pop()) is not None:
            await resolved(disposer())

    async def extend_instructions(self, turn_id: str) -> str:
        return await resolved(self.context.instructions()) or ""

    def extend_tools(self, turn_id: str) -> ToolSet:
        return {"finish": finish_tool()}

    async def transform_entries(self, entries: Sequence[Entry], request: ContextRequest) -> Sequence[Entry]:
        return await resolved(self.context.prepare_entries(entries, request))

    async def transform_messages(self, messages: Sequence[Message], request: ContextRequest) -> Sequence[Message]:
        return await resolved(self.context.render_messages(messages, request))

    def to_model_messages(self, message: CustomMessage) -> Sequence[ModelMessage] | None:
        return self.transcript.project(message)

    def on_step_finish(self, result: StepResult) -> bool | None:
        return goes_on(result)


@dataclass(slots=True)
class Mind:
    """The running mind, as a test sees it."""

    agent: Agent
    model: ScriptedModel
    host: RuntimeHost

    async def turn(self, *facts: Message, prompt: str | None = None) -> None:
        """Let it hear `facts` and take a turn."""
        for fact in facts:
            self.agent.send(fact, trigger=False)
        self.agent.continue_(prompt)
        await self.quiet()

    async def quiet(self) -> None:
        """Wait until it is idle and everything said is stored."""
        with anyio.fail_after(5):
            await self.agent.wait()

    async def settled(self) -> None:
        """Wait until nothing works in the background either, and what that wrote is stored."""
        with anyio.fail_after(5):
            while self.host.tasks.kept_alive_by:
                await anyio.lowlevel.checkpoint()
            await self.agent.written()

    def compactions(self) -> list[JsonObject]:
        """Return the summaries in the log, the oldest first."""
        return [entry.json_data for entry in self.agent.store.window() if entry.type == COMPACT]


@asynccontextmanager
async def minding(
    engine: ContextEngine[Any],
    config: ConfigModel,
    model: ScriptedModel,
    *,
    store: EntryStore | None = None,
    root: Path = Path(),
    find_model: Callable[[str | None], LanguageModel] | None = None,
) -> AsyncGenerator[Mind]:
    """Run a mind with one context engine.

    Args:
        engine: the provider.
        config: its settings.
        model: who answers.
        store: its log; empty by default.
        root: the profile's folder.
        find_model: the gateway; `model` by default.
    """
    clock = FakeClock()
    async with TaskScope() as group:
        tasks = TaskOwner(group, "test")
        host = RuntimeHost(
            runtime_id="test",
            profile_id="neko",
            domain=ChannelDomain(CHANNEL),
            root=root,
            home=root,
            logger=BoundLogger(logging.getLogger("test"), {"runtime": "test"}),
            resources=SchemeRouter(),
            platform=FakePlatform(),
            clock=clock,
            random=FixedRandom(),
            scheduler=RuntimeScheduler(clock, UTC, tasks.spawn),
            transcript=Transcript(UTC),
            find_model=find_model or (lambda ref: model),
            tasks=tasks,
        )
        context = await resolved(engine.create(host, config))
        plugin = Runtime(context, host.transcript)
        agent = Agent("test", model=model, store=store or MemoryStore(), plugins=[plugin], clock=clock)
        await group.start(agent.serve)
        yield Mind(agent, model, host)
        await agent.stop()


def wire(message: ModelMessage) -> object:
    """Return what of a message goes over the wire."""
    return [message.role, message_to_json(message)["content"]]


def is_prefix(before: ModelRequest, after: ModelRequest) -> bool:
    """Whether `after` begins with the bytes of `before`; its last run of lines may have grown at its end."""
    if (before.instructions, before.tools) != (after.instructions, after.tools):
        return False
    if len(before.messages) > len(after.messages):
        return False
    *all_but_last, last = before.messages
    pairs = zip(all_but_last, after.messages, strict=False)
    same = all(message is other or wire(message) == wire(other) for message, other in pairs)
    continued = after.messages[len(all_but_last)]
    if not isinstance(last, UserMessage | SystemMessage) or not isinstance(continued, UserMessage | SystemMessage):
        return same and wire(last) == wire(continued)
    return same and str(continued.content).startswith(str(last.content))


def chatter(number: int) -> list[Message]:
    """Return what happens in a group between two turns."""
    base = number * 10
    facts: list[Message] = [said(base + i, "words " * 5, user=str(40 + (base + i) % 7)) for i in range(8)]
    if number % 2:
        facts += [said(base + 8, '<img src="asset://x"/>'), picture(base + 8)]
    if number % 3 == 0:
        facts.append(recalled(base - 7))
    return facts
