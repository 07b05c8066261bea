"""Reads one model's stream into one answer, within its limits."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace

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
    ToolSpec,
)
from ishiki.core.toolrun import parse_arguments
from ishiki.errors import ModelError
from ishiki.jsonvalue import JsonObject, JsonValue, without_surrogates
from ishiki.modeltext.call_reading import known_name, read_calls
from ishiki.modeltext.json_text import compact_json

__all__ = ["Answer", "read_answer"]

logger = logging.getLogger(__name__)

_CUT_REASONS: frozenset[FinishReason] = frozenset({"length", "content-filter", "error"})
"""The model was stopped; what it has not finished by then is no call. Half a message must not be sent."""

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

    def __init__(self, request: ModelRequest) -> None:
        self._parts: list[AssistantPart | ToolCall] = []
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._options: dict[str, JsonValue] = {}
        self._tools: Mapping[str, ToolSpec] = {tool.name: tool for tool in request.tools}
        self._takes_calls = request.tool_choice != "none"

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
                self._flush()
                self._parts.append(part)
            case ResponseStart() | ToolCallDelta() | Finish():
                pass

    def written_calls(self, reason: FinishReason) -> Sequence[ToolCall]:
        """Return the calls that the answer's text holds, and keep of the text what stands before them.

        Models leave a grammar that nobody reads on their way: a vendor's own, or another toolcall engine's. A call
        that can be read is a call, where the answer has no other and tools are there.
        """
        self._flush()
        texts = [part.text for part in self._parts if isinstance(part, TextPart)]
        has_calls = any(isinstance(part, ToolCall) for part in self._parts)
        if has_calls or not texts or not self._tools or not self._takes_calls or reason == "content-filter":
            return ()
        reading = read_calls("".join(texts), self._tools, is_cut=reason in _CUT_REASONS)
        if reading is None:
            return ()
        self._parts = [part for part in self._parts if not isinstance(part, TextPart)]
        if reading.words:
            self._parts.append(TextPart(reading.words))
        return [ToolCall("", call.tool_name, _text_of(call.arguments)) for call in reading.calls]

    def answer(self, finish: Finish) -> Answer:
        """Return the whole answer; calls get our ids."""
        self._flush()
        parts: list[AssistantPart] = []
        calls: list[tuple[ToolCallPart, str]] = []
        for part in self._parts:
            if not isinstance(part, ToolCall):
                parts.append(part)
                continue
            name = known_name(part.tool_name, self._tools) or part.tool_name
            schema = self._tools[name].input_schema if name in self._tools else None
            arguments, problem = parse_arguments(part, schema, is_cut=finish.reason in _CUT_REASONS)
            call = ToolCallPart(f"call_{new_id()[:24]}", without_surrogates(name), arguments)
            parts.append(call)
            calls.append((call, problem))
        return Answer(parts, calls, finish.reason, finish.usage)

    def _flush(self) -> None:
        self._flush_reasoning()
        self._flush_text()

    def _flush_text(self) -> None:
        if text := without_surrogates("".join(self._text)):
            self._parts.append(TextPart(text))
        self._text.clear()

    def _flush_reasoning(self) -> None:
        text = without_surrogates("".join(self._reasoning))
        if text or self._options:
            options: JsonObject = dict(self._options)
            self._parts.append(ReasoningPart(text, options))
        self._reasoning.clear()
        self._options.clear()


def _text_of(arguments: JsonValue) -> str:
    return arguments if isinstance(arguments, str) else compact_json(arguments)


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
    collector = _Collector(request)
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
            if isinstance(part, Finish):
                if written := collector.written_calls(part.reason):
                    logger.info(
                        "%s: %s wrote %d tool calls as text; they are taken as calls (%s)",
                        request.origin.owner, model.ref, len(written), ", ".join(call.tool_name for call in written),
                    )  # fmt: skip
                    for call in written:
                        await _take(collector, call, request, feed)
                    part = replace(part, reason="tool-calls" if part.reason == "stop" else part.reason)
                # The answer is complete: a connection that stays open behind it is not waited for.
                finish = part
            await _take(collector, part, request, feed)
    finally:
        # Closing it ends the call at the provider. An iterator that is no generator ends with its task.
        if isinstance(stream, AsyncGenerator):
            with anyio.move_on_after(_CLOSE_LIMIT_S, shield=True):
                await stream.aclose()
    return collector.answer(finish)


async def _take(collector: _Collector, part: ModelPart, request: ModelRequest, feed: AgentFeed) -> None:
    collector.take(part)
    if feed.has_listeners("stream"):
        await feed.emit(StreamEvent(request.origin.turn_id, request.origin.step, part))


async def _next_part(ref: str, stream: AsyncIterator[ModelPart], wait_s: float, deadline: float) -> ModelPart | None:
    """Return the next part, or None at the end of the stream."""
    left_s = deadline - anyio.current_time()
    with anyio.move_on_after(max(0.0, min(wait_s, left_s))):
        return await anext(stream, None)
    problem = f"sent nothing for {wait_s:g} s" if wait_s < left_s else "did not come to an end in time"
    raise ModelError(f"{ref} {problem}", kind="timeout", retryable=True)
