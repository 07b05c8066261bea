"""A mind with both halves of plugins/narrative over scripted models, and the package as NoneBot would load it."""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any, cast

import anyio
import orjson
import pytest

from ishiki.contracts.engines import ContextEngine, ContextEngineInstance, ToolcallEngine, ToolcallEngineInstance
from ishiki.contracts.events import MESSAGE_CREATED, ChannelRef, MessageCreated, User
from ishiki.contracts.host import ChannelDomain
from ishiki.contracts.services import ServiceRegistry
from ishiki.contracts.transcript import Transcript
from ishiki.core.agent import Agent
from ishiki.core.disposer import resolved
from ishiki.core.entries import Entry
from ishiki.core.events import AgentEvent, TurnDone, TurnFailed
from ishiki.core.messages import AssistantMessage, CustomMessage, Message, UserMessage
from ishiki.core.model import LanguageModel, ModelPart, ModelRequest
from ishiki.core.plugin import AgentPlugin, ContextRequest, StepResult
from ishiki.core.store import MemoryStore
from ishiki.core.tool import Tool
from ishiki.engines import BUILTIN_ENGINES
from ishiki.errors import GatewayError
from ishiki.jsonvalue import JsonObject
from ishiki.resources.center import SchemeRouter
from ishiki.runtime.host import BoundLogger, RuntimeHost, TaskOwner
from ishiki.runtime.schedule import RuntimeScheduler
from ishiki.testing.clock import FakeClock, FixedRandom
from ishiki.testing.fake_platform import FakePlatform
from ishiki.testing.scripted_model import ScriptedAnswer, ScriptedModel, text
from ishiki.testing.task_scope import TaskScope

__all__ = ["PACKAGE", "Story", "load_narrative", "note_of", "plot", "shown", "speech", "stages_of", "telling"]

PACKAGE = Path(__file__).parents[2] / "plugins" / "narrative"
_STAGES = ("Narrator", "Replyer", "Action Decoder")


def load_narrative(monkeypatch: pytest.MonkeyPatch) -> ServiceRegistry:
    """Return a registry with the built-in engines in which the package has registered its own at import."""
    registry = ServiceRegistry()
    for provider in BUILTIN_ENGINES:
        registry.provide(provider, module="test")
    monkeypatch.setattr("ishiki.contracts.services.services", registry)
    spec = importlib.util.spec_from_file_location("narrative_under_test", PACKAGE / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return registry


def plot(direction: str, narration: str = "Rin is thirsty.", brief: str = "offer tea") -> list[ModelPart]:
    """Return what a Narrator answers."""
    return text(orjson.dumps({"narration": narration, "direction": direction, "brief": brief}).decode())


def speech(*messages: str) -> list[ModelPart]:
    """Return what a Replyer answers."""
    return text(orjson.dumps({"messages": messages}).decode())


def shown(request: ModelRequest) -> list[str]:
    """Return the messages of a request as one text each."""
    out: list[str] = []
    for message in request.messages:
        match message:
            case UserMessage(content=str(content)):
                out.append(content)
            case AssistantMessage():
                out.append(message.text + "".join(f"[{call.tool_name}]" for call in message.tool_calls))
            case _:
                out.append(message.role)
    return out


def note_of(request: ModelRequest) -> str:
    """Return the last message of a request, which names its stage."""
    return shown(request)[-1]


def stages_of(model: ScriptedModel) -> list[str]:
    """Return what a model was asked for, in order; "again" for an answer that is to be mended."""
    return [
        next((name for name in _STAGES if f"Stage: {name}." in note_of(request)), "again") for request in model.requests
    ]


class _Bridge(AgentPlugin):
    """Puts a context engine and three tools into an agent; speaking and finishing end a turn."""

    name = "bridge"

    def __init__(self, context: ContextEngineInstance | None) -> None:
        self._context = context
        self.said: list[JsonObject] = []

    def extend_instructions(self, turn_id: str) -> str:
        return "Be Neko."

    def extend_tools(self, turn_id: str) -> dict[str, Tool]:
        def say(arguments: JsonObject, context: object) -> JsonObject:
            self.said.append(arguments)
            return {"ok": True}

        free: JsonObject = {"type": "object", "properties": {"reason": {"type": "string"}}}
        messages: JsonObject = {"type": "array", "items": {"type": "string"}}
        schema: JsonObject = {"type": "object", "properties": {"messages": messages}, "required": ["messages"]}
        return {
            "send_message": Tool(description="say", input_schema=schema, execute=say),
            "finish": Tool(description="end", input_schema=free, execute=lambda arguments, context: {"ok": True}),
            "look": Tool(description="look", input_schema=free, execute=lambda arguments, context: "a teapot"),
        }

    async def transform_entries(self, entries: Sequence[Entry], request: ContextRequest) -> Sequence[Entry] | None:
        return None if self._context is None else await resolved(self._context.prepare_entries(entries, request))

    async def transform_messages(
        self, messages: Sequence[Message], request: ContextRequest
    ) -> Sequence[Message] | None:
        return None if self._context is None else await resolved(self._context.render_messages(messages, request))

    def on_step_finish(self, result: StepResult) -> bool | None:
        names = {one.tool_name for one in result.assistant.tool_calls}
        return False if names & {"send_message", "finish"} else None


@dataclass(slots=True)
class Story:
    """The running mind, as a test sees it."""

    agent: Agent
    model: ScriptedModel
    said: list[JsonObject]
    """Arguments of `send_message`, in order."""
    ends: list[TurnDone | TurnFailed] = field(default_factory=list[TurnDone | TurnFailed])
    _count: int = 0

    def hear(self, line: str) -> None:
        """Let somebody say something."""
        self._count += 1
        said = MessageCreated(0, "onebot", "10001", "group:500", f"m{self._count}", line, False, User("42", "Rin"))
        fact = CustomMessage(MESSAGE_CREATED, said.to_data(), timestamp=1_000)
        self.agent.send(fact, trigger=False, if_busy="join")

    async def turn(self, *lines: str) -> TurnDone | TurnFailed:
        """Let people say `lines`, run a turn, and return its end."""
        for line in lines:
            self.hear(line)
        with anyio.fail_after(5):
            await self.agent.wait()
            self.agent.continue_()
            await self.agent.wait()
        return self.ends[-1]

    def answers(self) -> list[AssistantMessage]:
        """Return what the mind did, step by step."""
        messages = [entry.message for entry in self.agent.store.window()]
        return [message for message in messages if isinstance(message, AssistantMessage)]


@asynccontextmanager
async def telling(
    services: ServiceRegistry,
    answers: Sequence[ScriptedAnswer],
    *,
    has_mark: bool = True,
    others: Sequence[ScriptedModel] = (),
    context: JsonObject | None = None,
    toolcall: JsonObject | None = None,
) -> AsyncGenerator[Story]:
    """Run a mind.

    Args:
        services: with the package.
        answers: of the profile's model, in order.
        has_mark: whether the context half is there.
        others: further models, by their references.
        context: settings of the context half.
        toolcall: settings of the toolcall half.
    """
    model = ScriptedModel(answers)
    known = {other.ref: other for other in others}

    def find_model(ref: str | None) -> LanguageModel:
        if ref is not None and ref not in known:
            raise GatewayError(f"no model {ref!r}")
        return model if ref is None else known[ref]

    clock = FakeClock()
    async with TaskScope() as group:
        tasks = TaskOwner(group, "test")
        host = RuntimeHost(
            runtime_id="test",
            profile_id="neko",
            domain=ChannelDomain(ChannelRef("onebot:10001", "group:500")),
            root=Path(),
            home=Path(),
            logger=BoundLogger(logging.getLogger("test.narrative"), {"runtime": "test"}),
            resources=SchemeRouter(),
            platform=FakePlatform(),
            clock=clock,
            random=FixedRandom(),
            scheduler=RuntimeScheduler(clock, UTC, tasks.spawn),
            transcript=Transcript(UTC),
            find_model=find_model,
            tasks=tasks,
        )
        halves = await _halves(services, host, context or {}, toolcall or {})
        bridge = _Bridge(halves[0] if has_mark else None)
        agent = Agent("test", model=model, store=MemoryStore(), plugins=[bridge], clock=clock, wrap=halves[1].wrap)
        story = Story(agent, model, bridge.said)

        def hear(event: AgentEvent) -> None:
            if isinstance(event, TurnDone | TurnFailed):
                story.ends.append(event)

        agent.feed.subscribe("agent", hear)
        await group.start(agent.serve)
        yield story
        await agent.stop()


async def _halves(
    services: ServiceRegistry, host: RuntimeHost, context: JsonObject, toolcall: JsonObject
) -> tuple[ContextEngineInstance, ToolcallEngineInstance]:
    first = cast("ContextEngine[Any]", services.get("ishiki.engine.context.narrative", ContextEngine))
    second = cast("ToolcallEngine[Any]", services.get("ishiki.engine.toolcall.narrative", ToolcallEngine))
    assert first.Config is not None
    assert second.Config is not None
    return (
        await resolved(first.create(host, first.Config.model_validate(context))),
        await resolved(second.create(host, second.Config.model_validate(toolcall))),
    )
