"""Reads one model's stream into one answer, within its limits."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass

import anyio

from ishiki.core.events import StreamEvent
from ishiki.core.feed import AgentFeed
from ishiki.core.messages import AssistantPart, FinishReason, ReasoningPart, TextPart, ToolCallPart, Usage, new_id
from ishiki.core.model import (
    Finish,
    LanguageModel,
    ModelPart,
    ModelRequest,
    ReasoningDelta,
    ResponseStart,
    TextDelta,
    ToolCall,
    ToolCallDelta,
)
from ishiki.core.toolrun import parse_arguments
from ishiki.errors import ModelError
from ishiki.jsonvalue import JsonObject, JsonValue, without_surrogates

__all__ = ["Answer", "read_answer"]

_CLOSE_LIMIT_S = 1.0
"""How long a provider's connection may take to close; the turn does not wait longer for it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered."""

    parts: Sequence[AssistantPart]
    """Reasoning, text and calls, in order; calls carry our ids."""
    calls: Sequence[tuple[ToolCallPart, str]]
    """The calls among them, each with what is wrong with its arguments ("" for nothing)."""
    finish_reason: FinishReason
    usage: Usage


class _Collector:
    """Joins deltas of the same kind into parts."""

    def __init__(self) -> None:
        self.parts: list[AssistantPart] = []
        self.calls: list[tuple[ToolCallPart, str]] = []
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._options: dict[str, JsonValue] = {}

    def take(self, part: ModelPart) -> None:
        match part:
            case TextDelta(text):
                self._flush_reasoning()
                self._text.append(text)
            case ReasoningDelta(text, options):
                self._flush_text()
                self._reasoning.append(text)
                self._options.update(options)
            case ToolCall():
                self.flush()
                arguments, problem = parse_arguments(part)
                call = ToolCallPart(f"call_{new_id()[:24]}", without_surrogates(part.tool_name), arguments)
                self.parts.append(call)
                self.calls.append((call, problem))
            case ResponseStart() | ToolCallDelta() | Finish():
                pass

    def flush(self) -> None:
        self._flush_reasoning()
        self._flush_text()

    def _flush_text(self) -> None:
        if text := without_surrogates("".join(self._text)):
            self.parts.append(TextPart(text))
        self._text.clear()

    def _flush_reasoning(self) -> None:
        text = without_surrogates("".join(self._reasoning))
        if text or self._options:
            options: JsonObject = dict(self._options)
            self.parts.append(ReasoningPart(text, options))
        self._reasoning.clear()
        self._options.clear()


async def read_answer(
    model: LanguageModel, request: ModelRequest, limits: tuple[float, float, float], feed: AgentFeed
) -> Answer:
    """Ask `model` and read its whole answer.

    Args:
        model: whom to ask.
        request: what to ask.
        limits: seconds to the first part, between parts, and for the whole call.
        feed: gets every part on its topic `stream`, where somebody listens.

    Raises:
        ModelError: whatever went wrong; a stream without its finish is `cut`.
    """
    first_s, between_s, call_s = limits
    collector = _Collector()
    finish: Finish | None = None
    deadline = anyio.current_time() + call_s
    stream = model.stream(request)
    try:
        wait_s = first_s
        while finish is None:
            part = await _next_part(model.ref, stream, wait_s, deadline)
            if part is None:
                raise ModelError(f"the answer of {model.ref} was cut before its end", kind="cut", retryable=True)
            if not isinstance(part, ResponseStart):
                wait_s = between_s
            collector.take(part)
            if feed.has_listeners("stream"):
                await feed.emit(StreamEvent(request.origin.turn_id, request.origin.step, part))
            if isinstance(part, Finish):
                # The answer is complete: a connection that stays open behind it is not waited for.
                finish = part
    finally:
        # Closing it ends the call at the provider. An iterator that is no generator ends with its task.
        if isinstance(stream, AsyncGenerator):
            with anyio.move_on_after(_CLOSE_LIMIT_S, shield=True):
                await stream.aclose()
    collector.flush()
    return Answer(collector.parts, collector.calls, finish.reason, finish.usage)


async def _next_part(ref: str, stream: AsyncIterator[ModelPart], wait_s: float, deadline: float) -> ModelPart | None:
    """Return the next part, or None at the end of the stream."""
    left_s = deadline - anyio.current_time()
    with anyio.move_on_after(max(0.0, min(wait_s, left_s))):
        return await anext(stream, None)
    problem = f"sent nothing for {wait_s:g} s" if wait_s < left_s else "did not come to an end in time"
    raise ModelError(f"{ref} {problem}", kind="timeout", retryable=True)
