"""What an agent tells its feed. Topic `agent`: `AgentEvent`. Topic `stream`: `StreamEvent`.

`type` is the event's name in logs, on disk and in listeners' filters. Only the four turn events `turn.start`,
`turn.done`, `turn.failed` and `turn.aborted` are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ishiki.core.entries import Entry
from ishiki.core.messages import FinishReason, Message, Usage
from ishiki.core.model import ModelPart
from ishiki.jsonvalue import JsonObject, JsonValue, without_surrogates

__all__ = [
    "AgentEvent",
    "AgentInit",
    "AgentStop",
    "ErrorInfo",
    "MessageAppended",
    "StreamEvent",
    "ToolBlocked",
    "ToolDone",
    "ToolFailed",
    "ToolStart",
    "TurnAborted",
    "TurnDone",
    "TurnFailed",
    "TurnQueued",
    "TurnStart",
    "TurnStep",
    "WakeupDecision",
    "event_data",
]


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An error as it is stored and shown to an operator: redacted, never for a chat."""

    name: str
    message: str
    code: str = ""

    @classmethod
    def of(cls, error: BaseException) -> ErrorInfo:
        """Describe `error`, also one that cannot say what it is."""
        code: object = getattr(error, "code", "")
        try:
            message = without_surrogates(str(error))
        except Exception:  # noqa: BLE001 - boundary: an error of somebody else's class, whose own text fails
            message = "its text cannot be read"
        return cls(type(error).__name__, message, code if isinstance(code, str) else "")


@dataclass(frozen=True, slots=True)
class AgentInit:
    """The agent is ready: its plugins are initialised."""

    type: Literal["agent.init"] = "agent.init"


@dataclass(frozen=True, slots=True)
class AgentStop:
    """The agent has stopped; the last event."""

    type: Literal["agent.stop"] = "agent.stop"


@dataclass(frozen=True, slots=True)
class TurnQueued:
    """A turn was created."""

    turn_id: str
    type: Literal["turn.queued"] = "turn.queued"


@dataclass(frozen=True, slots=True)
class TurnStart:
    """A turn begins."""

    turn_id: str
    type: Literal["turn.start"] = "turn.start"


@dataclass(frozen=True, slots=True)
class TurnStep:
    """A step's batch is in the log, and so is what joined it."""

    turn_id: str
    step: int
    usage: Usage
    finish_reason: FinishReason
    type: Literal["turn.step"] = "turn.step"


@dataclass(frozen=True, slots=True)
class TurnDone:
    """A turn ended by itself. `usage` is that of its last step, since every step sends the prefix again."""

    turn_id: str
    usage: Usage | None = None
    type: Literal["turn.done"] = "turn.done"


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """A turn ended by an error."""

    turn_id: str
    error: ErrorInfo
    type: Literal["turn.failed"] = "turn.failed"


@dataclass(frozen=True, slots=True)
class TurnAborted:
    """A turn was interrupted."""

    turn_id: str
    reason: str
    type: Literal["turn.aborted"] = "turn.aborted"


@dataclass(frozen=True, slots=True)
class ToolStart:
    """A tool call is about to run."""

    turn_id: str
    tool_name: str
    tool_call_id: str
    args: JsonValue
    type: Literal["tool.start"] = "tool.start"


@dataclass(frozen=True, slots=True)
class ToolDone:
    """A tool call returned."""

    turn_id: str
    tool_name: str
    tool_call_id: str
    result: JsonValue
    type: Literal["tool.done"] = "tool.done"


@dataclass(frozen=True, slots=True)
class ToolFailed:
    """A tool call raised, timed out, or was never run because its input did not fit."""

    turn_id: str
    tool_name: str
    tool_call_id: str
    args: JsonValue
    error: ErrorInfo
    type: Literal["tool.failed"] = "tool.failed"


@dataclass(frozen=True, slots=True)
class ToolBlocked:
    """A plugin forbade a tool call."""

    turn_id: str
    tool_name: str
    tool_call_id: str
    reason: str
    type: Literal["tool.blocked"] = "tool.blocked"


@dataclass(frozen=True, slots=True)
class MessageAppended:
    """A message is in the log and in the window. One for each message of every role, in history order."""

    message: Message
    entry: Entry
    is_stale: bool = False
    """Nothing may wake on the fact: it is older than `stale_after`, or `no_wake` says why."""
    is_self: bool = False
    """The mind's own account said it, or another account of ours: nothing may wake on it."""
    no_wake: str = ""
    """Why nothing may wake on it where that is not its age, as a log line says it; `is_stale` is true then as well."""
    type: Literal["message.appended"] = "message.appended"


@dataclass(frozen=True, slots=True)
class WakeupDecision:
    """A wakeup engine has judged something: one for each message that it judged, and for each time of its clock."""

    engine: str
    """The engine, as profiles name it."""
    channel: str
    """`<sid>/<channel id>`; "" where the decision is about no single channel."""
    message_id: str
    """The platform's id of the message; "" for a decision that is not about one."""
    woke: bool
    reason: str
    """Why it did or did not wake, as its log line says it."""
    fields: Mapping[str, float] = field(default_factory=dict[str, float])
    """The figures behind it, by name; which ones is the engine's."""
    turn_id: str | None = None
    """The turn that it started; None where it started none, or merged into the pending wake."""
    type: Literal["wakeup.decision"] = "wakeup.decision"


AgentEvent: TypeAlias = (
    AgentInit
    | AgentStop
    | TurnQueued
    | TurnStart
    | TurnStep
    | TurnDone
    | TurnFailed
    | TurnAborted
    | ToolStart
    | ToolDone
    | ToolFailed
    | ToolBlocked
    | MessageAppended
    | WakeupDecision
)


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One model part as it arrived."""

    turn_id: str
    step: int
    part: ModelPart
    type: Literal["stream.part"] = field(default="stream.part")


def event_data(event: TurnStart | TurnDone | TurnFailed | TurnAborted) -> JsonObject:
    """Return a stored event as its entry's data, in the log's field names."""
    out: dict[str, JsonValue] = {"type": event.type, "turnId": event.turn_id}
    match event:
        case TurnDone(usage=Usage() as usage):
            out["usage"] = {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens}
        case TurnFailed(error=error):
            out["error"] = {"name": error.name, "message": error.message, "code": error.code}
        case TurnAborted(reason=reason):
            out["reason"] = reason
        case _:
            pass
    return out
