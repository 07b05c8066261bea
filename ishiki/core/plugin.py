"""`AgentPlugin`: the hooks through which a host shapes the agent loop. Only the runtime writes plugins.

Extensions never get these: each decision has one owner. Plugins run in the order `pre`, unmarked, `post`, and in order
of registration inside each. Every hook may be sync or async, except those that say otherwise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from ishiki.core.entries import Entry
from ishiki.core.messages import (
    AssistantMessage,
    CustomMessage,
    FinishReason,
    Message,
    ModelMessage,
    ToolMessage,
    Usage,
)
from ishiki.core.model import ModelSettings, ToolChoice
from ishiki.core.signal import CancelSignal
from ishiki.core.tool import ToolSet
from ishiki.jsonvalue import JsonObject, JsonValue

if TYPE_CHECKING:
    from ishiki.core.agent import Agent

__all__ = [
    "AgentPlugin",
    "Allow",
    "Block",
    "ContextRequest",
    "Replace",
    "StepOptions",
    "StepResult",
    "ToolCallInfo",
    "ToolDecision",
    "ToolOutcome",
    "TurnResult",
    "ordered_plugins",
    "overrides",
]


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """Which turn a projection is made for."""

    turn_id: str
    signal: CancelSignal
    budget_scale: float = 1.0
    """Below 1 when a model has just said that the request was too long: the engine's budget is to shrink by it."""


@dataclass(frozen=True, slots=True)
class StepOptions:
    """What a step is about to send; `prepare_step` returns a changed copy (`replace`)."""

    turn_id: str
    step: int
    messages: Sequence[ModelMessage]
    tool_choice: ToolChoice = "auto"
    active_tools: frozenset[str] | None = None
    """Names of the tools that the model sees in this step; None: all."""
    settings: ModelSettings = field(default_factory=ModelSettings)
    runtime_context: JsonObject = field(default_factory=dict[str, JsonValue])
    """Kept for the rest of the turn."""
    tools_context: JsonObject = field(default_factory=dict[str, JsonValue])
    """Kept for the rest of the turn; tools read it as `ToolContext.extra`."""


@dataclass(frozen=True, slots=True)
class ToolCallInfo:
    """A call that is about to run."""

    turn_id: str
    step: int
    tool_name: str
    tool_call_id: str
    args: JsonObject


@dataclass(frozen=True, slots=True)
class Allow:
    """Run the call as it is."""


@dataclass(frozen=True, slots=True)
class Block:
    """Do not run the call; the model reads `{blocked: true, reason}`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Replace:
    """Run the call with other arguments."""

    args: JsonObject


ToolDecision: TypeAlias = Allow | Block | Replace


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a call returned, or the text of its error."""

    call: ToolCallInfo
    result: JsonValue
    is_error: bool


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step recorded."""

    turn_id: str
    step: int
    assistant: AssistantMessage
    results: ToolMessage | None
    """None where the model called nothing."""
    usage: Usage
    finish_reason: FinishReason


@dataclass(frozen=True, slots=True)
class TurnResult:
    """A turn that ended by itself."""

    turn_id: str
    steps: int
    usage: Usage | None


class AgentPlugin:
    """Override what you need; every default does nothing."""

    name: str = "plugin"
    """The owner that errors and conflicts name."""
    enforce: ClassVar[Literal["pre", "post"] | None] = None

    def init(self, agent: Agent) -> Awaitable[None] | None:
        """Called once before the first use. Raising stops those initialised before, and fails the start."""

    def stop(self) -> Awaitable[None] | None:
        """Called once at the end, in reverse order. Raising is logged."""

    def extend_instructions(self, turn_id: str) -> Awaitable[str | None] | str | None:
        """Called once per turn before its first step; paragraphs are joined by blank lines. Raising fails the turn."""

    def extend_tools(self, turn_id: str) -> Awaitable[ToolSet | None] | ToolSet | None:
        """Called once per turn before its first step. A name that another plugin has fails the turn."""

    def on_append(self, entries: Sequence[Entry]) -> Sequence[Entry] | None:
        """See what is about to be appended, and possibly change it; None keeps it. Sync, and it may not raise."""

    def transform_entries(
        self, entries: Sequence[Entry], request: ContextRequest
    ) -> Awaitable[Sequence[Entry] | None] | Sequence[Entry] | None:
        """Return the entries that this step uses; None keeps them."""

    def transform_messages(
        self, messages: Sequence[Message], request: ContextRequest
    ) -> Awaitable[Sequence[Message] | None] | Sequence[Message] | None:
        """Return the messages that this step uses; None keeps them."""

    def to_model_messages(self, message: CustomMessage) -> Sequence[ModelMessage] | None:
        """Return what a model reads for `message`; the first plugin that does not return None decides. Sync."""

    def prepare_step(self, options: StepOptions) -> Awaitable[StepOptions | None] | StepOptions | None:
        """Return changed options for this step; None keeps them."""

    def before_tool_call(
        self, decision: ToolDecision, call: ToolCallInfo
    ) -> Awaitable[ToolDecision | None] | ToolDecision | None:
        """Return another decision; None keeps it."""

    def after_tool_call(self, outcome: ToolOutcome) -> Awaitable[ToolOutcome | None] | ToolOutcome | None:
        """Return another outcome; None keeps it."""

    def on_step_finish(self, result: StepResult) -> Awaitable[bool | None] | bool | None:
        """Return whether the turn goes on; the first decision wins, None has no opinion. Raising is no opinion."""

    def on_turn_finish(self, result: TurnResult) -> Awaitable[None] | None:
        """Observe a turn that ended by itself. Raising is logged."""

    def settle_turn(self, turn_id: str, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return entries to append in one batch with the end of a turn that failed or was interrupted. Sync.

        Args:
            turn_id: the turn.
            entries: the window, in history order.
        """
        return ()


def overrides(plugin: AgentPlugin, hook: str) -> bool:
    """Whether `plugin` has a hook of its own, so that the loop need not call what does nothing."""
    return getattr(type(plugin), hook) is not getattr(AgentPlugin, hook)


def ordered_plugins(plugins: Sequence[AgentPlugin]) -> Sequence[AgentPlugin]:
    """Return `plugins` as they run: `pre`, unmarked, `post`, stable inside each."""
    rank: Mapping[str | None, int] = {"pre": 0, None: 1, "post": 2}
    return sorted(plugins, key=lambda plugin: rank[plugin.enforce])
