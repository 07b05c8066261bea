"""`Mind`: the one agent plugin of a runtime. It puts engines, extensions and the kernel's tools in their places."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ishiki.contracts.engines import ContextEngineInstance, WakeupEngineInstance
from ishiki.contracts.events import ChannelRef
from ishiki.contracts.extension import ExtensionInstance
from ishiki.core.agent import Agent
from ishiki.core.disposer import Disposer
from ishiki.core.entries import DELIVERY, Entry
from ishiki.core.messages import CustomMessage, Message, ModelMessage
from ishiki.core.plugin import AgentPlugin, ContextRequest, StepOptions, StepResult
from ishiki.core.tool import ToolSet
from ishiki.errors import HookError
from ishiki.profile import Profile
from ishiki.runtime.facts import FactMemory
from ishiki.runtime.guards.channel import ChannelGuards
from ishiki.runtime.hooks import call_hook
from ishiki.runtime.host import RuntimeHost
from ishiki.runtime.prompt import BASE_PROMPT, CROSS_PROMPT
from ishiki.runtime.reminder import Reminder
from ishiki.runtime.silence import Silence
from ishiki.runtime.toolset import ToolMerge
from ishiki.tools import kernel_tools
from ishiki.tools.deliveries import settle_entries
from ishiki.tools.stop_rule import StopRule

__all__ = ["Mind", "MindParts"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MindParts:
    """What a mind is made of."""

    profile: Profile
    host: RuntimeHost
    context: ContextEngineInstance
    wakeup: WakeupEngineInstance
    facts: FactMemory
    guards: ChannelGuards
    silence: Silence
    extensions: Sequence[tuple[str, ExtensionInstance]]
    last_tools: ToolSet
    """The kernel's tools that stand behind the extensions'."""
    allows: Callable[[ChannelRef], bool]
    """In cross mode, whether the mind may speak in a channel."""


class Mind(AgentPlugin):
    """Forwards each hook of the loop to the one who owns the decision."""

    name = "the runtime"

    def __init__(self, parts: MindParts) -> None:
        """Keep the parts; engines attach in `init`."""
        self._parts = parts
        self._limit_s = parts.profile.config.limits.hook_s
        self._attached: list[tuple[str, Disposer | None]] = []
        self._agent: Agent | None = None
        self._stop_rule = StopRule(parts.silence.is_doubtful)
        self._reminder = Reminder(parts.host.clock)
        self._kernel = kernel_tools(parts.host, parts.profile.config, guard=parts.silence, allows=parts.allows)
        self._is_cross = parts.host.domain.mode == "cross"

    async def init(self, agent: Agent) -> None:
        """Attach the context engine, then the wakeup engine, so that no fact is stored unseen."""
        self._agent = agent
        for owner, attach in (
            ("context engine", self._parts.context.attach),
            ("wakeup engine", self._parts.wakeup.attach),
        ):
            try:
                hook = partial(attach, agent)
                disposer = await call_hook(self._named(owner), "attach", hook, limit_s=self._limit_s)
                self._attached.append((self._named(owner), disposer))
            except HookError as error:
                logger.warning("%s: %s", self._parts.host.runtime_id, error, exc_info=error.__cause__)

    async def stop(self) -> None:
        """Detach the engines in reverse."""
        while self._attached:
            owner, disposer = self._attached.pop()
            if disposer is None:
                continue
            try:
                await call_hook(owner, "the disposer of attach", disposer, limit_s=self._limit_s)
            except HookError as error:
                logger.warning("%s: %s", self._parts.host.runtime_id, error, exc_info=error.__cause__)

    def on_append(self, entries: Sequence[Entry]) -> None:
        """Remember what was said, for quotes of it, and let the guards count."""
        for entry in entries:
            self._parts.guards.note(entry)
            self._parts.silence.note(entry)
            if entry.type == DELIVERY:
                self._parts.facts.note_entry(entry)

    async def extend_instructions(self, turn_id: str) -> str:
        """Return the system prompt: base, persona, extensions in order, context engine."""
        profile = self._parts.profile
        base = f"{BASE_PROMPT}\n\n{CROSS_PROMPT}" if self._is_cross else BASE_PROMPT
        paragraphs = [base, await profile.persona(), profile.config.instruction.strip()]
        for name, instance in self._parts.extensions:
            text = await call_hook(
                f"extension {name}", "extend_instructions", instance.extend_instructions, limit_s=self._limit_s
            )
            paragraphs.append((text or "").strip())
        text = await call_hook(
            self._named("context engine"), "instructions", self._parts.context.instructions, limit_s=self._limit_s
        )
        paragraphs.append((text or "").strip())
        return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)

    async def extend_tools(self, turn_id: str) -> ToolSet:
        """Return the kernel's tools and each extension's, in order."""
        merge = ToolMerge(self._kernel)
        for name, instance in self._parts.extensions:
            owner = f"extension {name}"
            merge.add(owner, await call_hook(owner, "extend_tools", instance.extend_tools, limit_s=self._limit_s))
        merge.append(self._parts.last_tools)
        return merge.tools

    async def transform_entries(self, entries: Sequence[Entry], request: ContextRequest) -> Sequence[Entry]:
        """Let the context engine choose. It may ask a model, so only the turn's own limit holds."""
        hook = partial(self._parts.context.prepare_entries, entries, request)
        return await call_hook(self._named("context engine"), "prepare_entries", hook, limit_s=None)

    async def transform_messages(self, messages: Sequence[Message], request: ContextRequest) -> Sequence[Message]:
        """Let the context engine render."""
        hook = partial(self._parts.context.render_messages, messages, request)
        return await call_hook(self._named("context engine"), "render_messages", hook, limit_s=None)

    def to_model_messages(self, message: CustomMessage) -> Sequence[ModelMessage] | None:
        """Write what the context engine left as it was: one user message per fact."""
        return self._parts.host.transcript.project(message)

    def prepare_step(self, options: StepOptions) -> StepOptions | None:
        """Remind a model that has just called nothing."""
        return self._reminder.prepare(options)

    async def on_step_finish(self, result: StepResult) -> bool | None:
        """Apply the stop rule of the kernel's tools; a step that called nothing is left to the reminder."""
        decision = self._stop_rule.goes_on(result)
        if self._agent is None:
            return decision
        reminded = await self._reminder.goes_on(result, self._agent)
        return reminded if decision is None else decision

    def settle_turn(self, turn_id: str, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Write down what an unfinished turn has said, so that the mind remembers it."""
        return settle_entries(turn_id, entries, self._parts.host.clock.now_ms(), shows_target=self._is_cross)

    def _named(self, family: str) -> str:
        config = self._parts.profile.config
        engine = config.context.engine if family == "context engine" else config.wakeup.engine
        return f"{family} {engine}"
