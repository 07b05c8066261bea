"""The chunks of a chat-completions stream as parts of the core. A state machine without I/O.

Source: OpenAI API reference, chat completions (streaming); `reasoning_content` is DeepSeek's field, `reasoning`
OpenRouter's and vLLM's. Nothing of a chunk is trusted: any field may be missing, null or of another type. Content as a
list of parts, calls without id or index, with equal ids, and arguments as an object are seen in the wild.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from ishiki.core.messages import FinishReason, Usage
from ishiki.core.model import Finish, ModelPart, ReasoningDelta, ResponseStart, TextDelta, ToolCall, ToolCallDelta
from ishiki.gateway.chat_request import REPLAY, wire_text
from ishiki.gateway.estimate import estimate_text
from ishiki.jsonvalue import JsonObject, JsonValue

__all__ = ["ChunkReader"]

_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "tool_use": "tool-calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content-filter",
    "safety": "content-filter",
    "sensitive": "content-filter",
    "error": "error",
    "insufficient_system_resource": "error",
    "network_error": "error",
}
"""Finish reasons: OpenAI's, and those of compatible servers (DeepSeek, Zhipu, OpenRouter). Others are `other`."""

_MAX_ID_CHARS = 64
"""Longer ids are refused by providers when they are sent back."""


@dataclass(slots=True)
class _Call:
    call_id: str
    wire_id: str
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    signature: str | None = None

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    @property
    def is_whole(self) -> bool:
        """Whether the arguments so far are complete: what comes next belongs to another call."""
        try:
            json.loads(self.arguments)
        except ValueError:
            return False
        return True


@dataclass(slots=True)
class _Thinking:
    """Anthropic's thinking blocks, which have to be sent back as they came. A signature ends its block."""

    blocks: list[JsonObject] = field(default_factory=list[JsonObject])
    _open: list[str] = field(default_factory=list[str])

    def take(self, piece: object) -> None:
        if _field(piece, "type") == "redacted_thinking":
            self.blocks.append({"type": "redacted_thinking", "data": _text(_field(piece, "data"))})
            return
        self._open.append(_text(_field(piece, "thinking")))
        if signature := _text(_field(piece, "signature")):
            self.blocks.append({"type": "thinking", "thinking": "".join(self._open), "signature": signature})
            self._open.clear()


class ChunkReader:
    """Turns the chunks of one answer into parts.

    Attributes:
        is_finished: whether a finish reason has come; the usage may still follow.
        has_content: whether anything of the answer has come.
    """

    def __init__(self, *, signer: str = "") -> None:
        """Start before the first chunk.

        Args:
            signer: who signs reasoning that has to be sent back; "" where nothing has.
        """
        self._signer = signer
        self._thinking = _Thinking()
        self.is_finished = False
        self.has_content = False
        self._has_started = False
        self._reason: FinishReason = "other"
        self._usage: Usage | None = None
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._written = 0

    def read(self, chunk: object) -> Iterator[ModelPart]:
        """Yield the parts of `chunk`, any object with the fields of a chunk, or a mapping."""
        if not self._has_started:
            self._has_started = True
            yield ResponseStart(_text(_field(chunk, "model")))
        self._take_usage(_field(chunk, "usage"))
        choices = _list(_field(chunk, "choices"))
        choice = choices[0] if choices else None
        delta = _field(choice, "delta")
        for name in ("reasoning_content", "reasoning"):
            if reasoning := _content(_field(delta, name)):
                yield self._counted(ReasoningDelta(reasoning))
                break
        for block in _list(_field(delta, "thinking_blocks")):
            self._thinking.take(block)
        for name in ("content", "refusal"):
            if text := _content(_field(delta, name)):
                yield self._counted(TextDelta(text))
        for call in _list(_field(delta, "tool_calls")):
            yield from self._call(call)
        if reason := _text(_field(choice, "finish_reason")):
            self.is_finished = True
            self._reason = _REASONS.get(reason.lower(), "other")

    def end(self, input_estimate: int) -> Iterator[ModelPart]:
        """Yield the whole calls and the finish.

        Args:
            input_estimate: tokens of the request, used where the provider sent no usage.
        """
        if replay := self._replay():
            yield ReasoningDelta("", {REPLAY: replay})
        for call in self._calls:
            yield ToolCall(call.call_id, call.name, call.arguments)
        reason = "tool-calls" if self._calls and self._reason == "stop" else self._reason
        usage = self._usage or Usage(input_estimate, self._written, is_estimate=True)
        yield Finish(reason, usage)

    def _replay(self) -> JsonObject:
        """Return what goes back to whoever signed it; empty for nothing."""
        replay: dict[str, JsonValue] = {"by": self._signer}
        if self._thinking.blocks:
            replay["thinkingBlocks"] = [*self._thinking.blocks]
        if any(call.signature for call in self._calls):
            replay["callSignatures"] = [call.signature or None for call in self._calls]
        return replay if self._signer and len(replay) > 1 else {}

    def _counted(self, part: TextDelta | ReasoningDelta) -> ModelPart:
        self.has_content = True
        self._written += estimate_text(part.text)
        return part

    def _take_usage(self, usage: object) -> None:
        prompt, completion = _count(_field(usage, "prompt_tokens")), _count(_field(usage, "completion_tokens"))
        if not prompt and not completion:
            return
        details = _field(usage, "prompt_tokens_details")
        cached = _count(_field(details, "cached_tokens")) or _count(_field(usage, "prompt_cache_hit_tokens"))
        reasoning = _count(_field(_field(usage, "completion_tokens_details"), "reasoning_tokens"))
        self._usage = Usage(prompt, completion, min(cached, prompt), reasoning)

    def _call(self, piece: object) -> Iterator[ModelPart]:
        function = _field(piece, "function")
        wire_id, name = _text(_field(piece, "id")), _text(_field(function, "name"))
        arguments = _arguments(_field(function, "arguments"))
        index = _field(piece, "index")
        call = self._open_call(index if isinstance(index, int) else None, wire_id, name, arguments)
        if call is None:
            return
        call.name = call.name or name
        call.signature = call.signature or _signature(piece)
        if arguments:
            call.pieces.append(arguments)
            self._written += estimate_text(arguments)
        yield ToolCallDelta(call.call_id, call.name, arguments)

    def _open_call(self, index: int | None, wire_id: str, name: str, arguments: str) -> _Call | None:
        """Return the call that a piece belongs to; a new one where it begins one; None for a piece of nothing."""
        known = self._calls[-1] if index is None and self._calls else None
        if index is not None:
            known = self._by_index.get(index)
        if known is not None:
            is_other_id = bool(wire_id) and bool(known.wire_id) and wire_id != known.wire_id
            begins_anew = bool(name) and known.is_whole and (name != known.name or bool(arguments))
            if not is_other_id and not begins_anew:
                known.wire_id = known.wire_id or wire_id
                return known
        if not (wire_id or name or arguments):
            return None
        self.has_content = True
        call = _Call(self._own_id(wire_id), wire_id)
        self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        return call

    def _own_id(self, wire_id: str) -> str:
        """Return an id that is unique in this answer: the model's own where it can serve."""
        used = {call.call_id for call in self._calls}
        if wire_id and len(wire_id) <= _MAX_ID_CHARS and wire_id not in used:
            return wire_id
        number = len(self._calls)
        while f"call_{number}" in used:
            number += 1
        return f"call_{number}"


def _signature(piece: object) -> str:
    """Return Gemini's signature of a call: where LiteLLM puts it, or where Gemini's OpenAI door has it."""
    google = _field(_field(piece, "extra_content"), "google")
    own = _field(piece, "provider_specific_fields")
    return _text(_field(own, "thought_signature")) or _text(_field(google, "thought_signature"))


def _field(holder: object, name: str) -> object:
    """Return a field of a foreign object or mapping; None where it is absent."""
    if isinstance(holder, Mapping):
        return cast("Mapping[str, object]", holder).get(name)
    return getattr(holder, name, None)


def _list(value: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()


def _text(value: object) -> str:
    return wire_text(value) if isinstance(value, str) else ""


def _count(value: object) -> int:
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else 0


def _content(value: object) -> str:
    """Return content as text: a string, or a list of parts with text."""
    if isinstance(value, str):
        return wire_text(value)
    return "".join(_text(part) or _text(_field(part, "text")) for part in _list(value))


def _arguments(value: object) -> str:
    if isinstance(value, str):
        return wire_text(value)
    if isinstance(value, Mapping):
        return wire_text(json.dumps(value, ensure_ascii=False, default=str))
    return ""
