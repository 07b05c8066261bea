"""`LanguageModel`: what the agent loop asks for an answer. Vendors live behind it, in `gateway/`.

A model streams parts; there is no second, non-streaming way. The order of one stream: any number of preamble parts
(`ResponseStart`), then deltas and tool calls in any order, then exactly one `Finish`. A stream that ends without
`Finish` was cut.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from ishiki.core.messages import FinishReason, ModelMessage, Usage
from ishiki.core.signal import CancelSignal
from ishiki.jsonvalue import JsonObject, JsonValue

__all__ = [
    "Finish",
    "LanguageModel",
    "ModelInfo",
    "ModelPart",
    "ModelRequest",
    "ModelSettings",
    "ReasoningDelta",
    "RequestOrigin",
    "ResponseStart",
    "TextDelta",
    "ToolCall",
    "ToolCallDelta",
    "ToolChoice",
    "ToolSpec",
]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known of a model before it is asked."""

    ref: str
    """`provider:model[:level]`, or the name of a group."""
    context_window: int | None = None
    """Tokens of request and answer together; None where nobody declared it."""
    max_output_tokens: int | None = None
    input: frozenset[str] = frozenset({"text"})
    """Modalities it reads: text, image, audio, video, pdf."""
    tool_call: bool = True
    """Whether it takes native tools."""
    reasoning: bool = False


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it."""

    name: str
    description: str
    input_schema: JsonObject


ToolChoice: TypeAlias = "Literal['auto', 'none', 'required'] | ToolSpec"
"""`required`: some tool; a `ToolSpec`: that one."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Sampling settings; None leaves the choice to the provider."""

    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    extra: JsonObject = field(default_factory=dict[str, JsonValue])
    """Further fields of the provider's own request, merged in as they are."""


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """Whose request it is: for logs, accounting and fair queueing. Never sent to a provider."""

    owner: str = ""
    """The agent's id."""
    turn_id: str = ""
    step: int = 0


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call."""

    instructions: str
    """The system prompt; may be empty."""
    messages: Sequence[ModelMessage]
    """In order; well-formed: every tool call is followed by its result, at least one user message."""
    tools: Sequence[ToolSpec] = ()
    tool_choice: ToolChoice = "auto"
    settings: ModelSettings = field(default_factory=ModelSettings)
    origin: RequestOrigin = field(default_factory=RequestOrigin)
    signal: CancelSignal = field(default_factory=CancelSignal)


@dataclass(frozen=True, slots=True)
class ResponseStart:
    """The provider has begun to answer. A preamble: nothing of the answer yet."""

    model: str = ""
    """The model's name as the provider gives it."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """The next piece of reasoning."""

    text: str
    provider_options: JsonObject = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """The next piece of a tool call's arguments, for whoever watches the stream. The call itself is `ToolCall`."""

    tool_call_id: str
    tool_name: str
    delta: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A complete tool call. Untrusted: name, id and arguments are what the model wrote."""

    tool_call_id: str
    tool_name: str
    arguments: str
    """JSON text as it came; may be empty or no JSON at all."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The answer is complete."""

    reason: FinishReason
    usage: Usage


ModelPart: TypeAlias = ResponseStart | TextDelta | ReasoningDelta | ToolCallDelta | ToolCall | Finish


class LanguageModel(Protocol):
    """Something that answers requests. One object may serve many agents at once, so it holds no conversation."""

    @property
    def ref(self) -> str:
        """The reference under which it was asked for."""
        ...

    @property
    def info(self) -> ModelInfo:
        """What is known of it now; may change when models.yaml is edited."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """Answer `request`. Closing the iterator, or cancelling its task, ends the call at the provider.

        Raises:
            ModelError: while iterating; everything that can go wrong, redacted.
        """
        ...
