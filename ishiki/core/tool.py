"""Tools: what a model may call, and what a tool is told when it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ishiki.core.clock import Clock
from ishiki.core.messages import ModelMessage, ToolOutput
from ishiki.core.signal import CancelSignal
from ishiki.jsonvalue import JsonObject, JsonValue

__all__ = ["Tool", "ToolContext", "ToolExecute", "ToolInvocation", "ToolSet", "default_output"]


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a running tool call knows of its surroundings."""

    tool_call_id: str
    turn_id: str
    step: int
    messages: Sequence[ModelMessage]
    """The request that led to the call, in order; not to be changed."""
    signal: CancelSignal
    """Set when the turn is interrupted; the tool's task is cancelled as well."""
    clock: Clock
    record: Callable[..., Awaitable[None]]
    """`await record(entry, …)`: append entries of this turn now; on return they survive the process's death."""
    extra: JsonObject = field(default_factory=dict[str, JsonValue])
    """What plugins put into `StepOptions.tools_context`."""
    tools: ToolSet = field(default_factory=dict[str, "Tool"])
    """The tools that the model may call in this step, by name."""


ToolExecute: TypeAlias = "Callable[[JsonObject, ToolContext], Awaitable[JsonValue] | JsonValue]"
"""Runs the call. The input has passed the tool's schema. Whatever it raises, the model is told."""


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """One finished run, for `to_model_output`."""

    tool_call_id: str
    input: JsonObject
    output: JsonValue


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool from plain JSON Schema. `ishiki.tool` makes one from a typed function.

    The schemas are enforced: an input that does not fit never reaches `execute`, an output that does not fit is the
    tool's own error.
    """

    description: str
    input_schema: JsonObject
    execute: ToolExecute | None = None
    """None: the call is answered with an error; whoever wants to run it elsewhere watches `tool.start`."""
    output_schema: JsonObject | None = None
    to_model_output: Callable[[ToolInvocation], Awaitable[ToolOutput] | ToolOutput] | None = None
    """How the result is written for the model; by default text as text, anything else as JSON."""
    sequential: bool = False
    """True for calls whose order matters: they run one after another in call order, beside the concurrent ones."""
    limit_s: float | None = None
    """Seconds after which a run is cancelled and answered as timed out; None: the runtime's own limit."""
    name: str = ""
    """Used where tools come as a list; in a mapping the key counts."""


ToolSet: TypeAlias = "Mapping[str, Tool]"
"""Tools by name, in the order in which the model sees them. Names match `[A-Za-z0-9_-]{1,64}`."""


def default_output(value: JsonValue) -> ToolOutput:
    """Return a result as the model reads it by default: a string as text, anything else as JSON."""
    return ToolOutput("text", value) if isinstance(value, str) else ToolOutput("json", value)
