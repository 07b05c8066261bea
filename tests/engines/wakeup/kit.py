"""A mind with one wakeup engine: a real agent and host, a scripted model, and time and dice of the test."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any

import anyio

from ishiki.config import ConfigModel
from ishiki.contracts.engines import WakeupEngine
from ishiki.contracts.events import MESSAGE_CREATED, ChannelRef, MessageCreated, Quote, User
from ishiki.contracts.host import ChannelDomain, Domain
from ishiki.contracts.transcript import Transcript
from ishiki.core.agent import Agent
from ishiki.core.clock import Random
from ishiki.core.disposer import Disposer, resolved
from ishiki.core.entries import Entry
from ishiki.core.events import AgentEvent, WakeupDecision
from ishiki.core.messages import CustomMessage
from ishiki.core.model import LanguageModel, ModelRequest
from ishiki.core.plugin import AgentPlugin
from ishiki.core.store import MemoryStore
from ishiki.core.tool import Tool
from ishiki.resources.center import SchemeRouter
from ishiki.runtime.host import BoundLogger, RuntimeHost, TaskOwner
from ishiki.runtime.schedule import RuntimeScheduler
from ishiki.testing.clock import FakeClock, FixedRandom
from ishiki.testing.fake_platform import FakePlatform
from ishiki.testing.journal import Journal
from ishiki.testing.scripted_model import ScriptedAnswer, ScriptedModel, text
from ishiki.testing.task_scope import TaskScope

__all__ = ["GROUP", "LOGGER", "SELF", "Mind", "at", "minding", "quoting_self", "said"]

SELF = "10001"
GROUP = ChannelRef(f"onebot:{SELF}", "group:500")
LOGGER = "test.wakeup"
at = f'<at id="{SELF}" name="Neko"/>'
quoting_self = Quote("7", "well", User(SELF))


def said(
    content: str = "hi",
    *,
    channel: str = GROUP.channel_id,
    user: str = "42",
    quote: Quote | None = None,
    when: int = 0,
    message_id: str = "9",
    is_self: bool = False,
) -> MessageCreated:
    """Return what somebody said to the account."""
    is_direct = channel.startswith("private:")
    who = User(user, "Rin")
    return MessageCreated(
        when, "onebot", SELF, channel, message_id, content, is_direct, who, quote=quote, is_self=is_self
    )


def fact(created: MessageCreated) -> CustomMessage:
    """Return it as the log holds it."""
    return CustomMessage(MESSAGE_CREATED, created.to_data(), timestamp=created.timestamp)


class Tools(AgentPlugin):
    """Gives the mind a `send_message` that is always heard, and ends the turn after each step."""

    name = "tools"

    def extend_tools(self, turn_id: str) -> dict[str, Tool]:
        """Return it."""
        schema = {"type": "object", "properties": {"messages": {"type": "array"}}}
        return {"send_message": Tool(description="say", input_schema=schema, execute=lambda arguments, context: "ok")}

    def on_step_finish(self, result: object) -> bool:
        """Go on never."""
        return False


@dataclass(slots=True)
class Mind:
    """The running mind, as a test sees it."""

    agent: Agent
    model: ScriptedModel
    clock: FakeClock
    decisions: Journal[WakeupDecision]
    dispose: Disposer

    async def hear(self, created: MessageCreated, *, is_stale: bool = False, is_self: bool = False) -> WakeupDecision:
        """Let the mind hear a message, and return the decision about it once its turn, if any, has ended."""
        since = len(self.decisions)
        self.send(created, is_stale=is_stale, is_self=is_self)
        decision = await self.decisions.first(lambda one: one.message_id == created.message_id, since=since)
        await self.quiet()
        return decision

    def send(self, created: MessageCreated, *, is_stale: bool = False, is_self: bool = False) -> None:
        """Let the mind hear a message."""
        self.agent.send(fact(created), trigger=False, if_busy="join", is_stale=is_stale, is_self=is_self)

    async def quiet(self) -> None:
        """Wait until the mind is idle and everything said is stored."""
        with anyio.fail_after(5):
            await self.agent.wait()


def _answer(request: ModelRequest) -> ScriptedAnswer:
    return text("")


@asynccontextmanager
async def minding(
    engine: WakeupEngine[Any],
    config: ConfigModel,
    *,
    answers: Sequence[ScriptedAnswer] = (),
    clock: FakeClock | None = None,
    random: Random | None = None,
    entries: Sequence[Entry] = (),
    domain: Domain | None = None,
    zone: tzinfo = UTC,
    find_model: Callable[[str | None], LanguageModel] | None = None,
) -> AsyncGenerator[Mind]:
    """Run a mind that `engine` wakes; it answers with `answers`, then with nothing.

    Args:
        engine: the provider.
        config: its settings.
        answers: of the model.
        clock: time; stands still by default.
        random: dice; 0.5 by default.
        entries: what the log held before.
        domain: where it lives; the group by default.
        zone: its time zone.
        find_model: the gateway.
    """
    time = clock or FakeClock()
    model = ScriptedModel(answers, responder=_answer)
    async with TaskScope() as group:
        tasks = TaskOwner(group, "test")
        host = RuntimeHost(
            runtime_id="test",
            profile_id="neko",
            domain=domain or ChannelDomain(GROUP),
            root=Path(),
            home=Path(),
            logger=BoundLogger(logging.getLogger(LOGGER), {"runtime": "test"}),
            resources=SchemeRouter(),
            platform=FakePlatform(),
            clock=time,
            random=random or FixedRandom(),
            scheduler=RuntimeScheduler(time, zone, tasks.spawn),
            transcript=Transcript(zone),
            find_model=find_model or (lambda ref: model),
            tasks=tasks,
        )
        agent = Agent("test", model=model, store=MemoryStore(entries), plugins=[Tools()], clock=time)
        decisions: Journal[WakeupDecision] = Journal("decisions")

        def note(event: AgentEvent) -> None:
            if isinstance(event, WakeupDecision):
                decisions.add(event)

        agent.feed.subscribe("agent", note)
        instance = await resolved(engine.create(host, config))
        dispose = await resolved(instance.attach(agent))
        await group.start(agent.serve)
        yield Mind(agent, model, time, decisions, dispose)
        await resolved(dispose())
        await agent.stop()
