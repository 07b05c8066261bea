"""What the OpenAI-compatible server answers: completions, and everything that can go wrong instead. No I/O.

Source: OpenAI API reference, chat completions (the chat completion object; the chunk object; streaming) and error
codes; `reasoning_content` is DeepSeek's field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import anyio
import orjson

from ishiki.jsonvalue import JsonObject, JsonValue

__all__ = [
    "Choices",
    "Completion",
    "Ending",
    "Hang",
    "Holds",
    "RawReply",
    "Reply",
    "Reset",
    "ToolCall",
    "Usage",
    "bad_gateway",
    "body_of",
    "call",
    "chunks_of",
    "cut",
    "error",
    "garbled",
    "reply_saying",
    "text",
    "tool_calls",
]

Holds: TypeAlias = "Mapping[int, anyio.Event]"
"""Stream part number -> an event that is awaited before that part goes out; 0 is before the status line.

An answer in one piece has only part 0."""

Choices: TypeAlias = Literal["one", "empty", "absent"]
"""Whether a completion has its choice, an empty list, or no `choices` at all."""

Ending: TypeAlias = Literal["done", "no_done", "cut", "reset"]
"""How a completion ends.

`done`: in order. `no_done`: the HTTP response ends in order, but without a finish part and `[DONE]`. `cut`: the
connection closes inside the response. `reset`: the same by a TCP reset.
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the provider counts them."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    """Part of the prompt's tokens."""
    reasoning_tokens: int = 0
    """Part of the completion's tokens."""

    def to_json(self) -> dict[str, JsonValue]:
        """Return the `usage` object."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning_tokens, "audio_tokens": 0},
        }


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model makes."""

    name: str
    arguments: str
    """As on the wire: JSON text, or what a model wrote instead."""
    call_id: str | None = None
    """None: one made from the request's number."""
    signature: str | None = None
    """Gemini's `thought_signature`, as its OpenAI door has it; None: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A model's answer, in one piece or as a stream, as the request asks."""

    content: JsonValue = None
    """Text, None, or a list of parts (some compatible servers)."""
    reasoning: str | None = None
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = "auto"
    """`auto`: `tool_calls` where there are calls, else `stop`."""
    usage: Usage | Literal["counted", "null", "absent"] = "counted"
    """`counted`: a quarter of the characters, so that it is the same for the same request."""
    choices: Choices = "one"
    pieces: int = 1
    """Into how many parts a stream cuts each text and each call's arguments."""
    holds: Holds = field(default_factory=dict[int, anyio.Event])
    ending: Ending = "done"
    parts_sent: int = 2
    """How many parts go out before an ending that is not `done`; of an answer in one piece, half of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawReply:
    """Any HTTP response."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    stream_body: bytes | None = None
    """What a streaming request gets instead of `body`, as `text/event-stream`; None: the same."""
    hold: anyio.Event | None = None
    """Awaited before the first byte."""


@dataclass(frozen=True, slots=True)
class Reset:
    """A TCP reset; `Completion(ending="reset")` is one in mid-stream."""

    when: Literal["before_headers", "after_headers"] = "before_headers"


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer, until the client or the test ends it."""

    when: Literal["before_headers", "after_headers"] = "before_headers"


Reply: TypeAlias = Completion | RawReply | Reset | Hang
"""Everything the server can do with a request."""


def text(
    content: JsonValue,
    *,
    reasoning: str | None = None,
    usage: Usage | Literal["counted", "null", "absent"] = "counted",
    pieces: int = 1,
    finish_reason: str | None = "auto",
) -> Completion:
    """Answer with plain assistant text (or None, or a list of parts)."""
    return Completion(content=content, reasoning=reasoning, usage=usage, pieces=pieces, finish_reason=finish_reason)


def call(name: str, arguments: JsonObject | str, *, call_id: str | None = None) -> ToolCall:
    """Return a tool call; arguments given as text go out as they are, also when they are no JSON."""
    return ToolCall(name, arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode(), call_id)


def tool_calls(
    calls: Sequence[ToolCall],
    *,
    content: JsonValue = None,
    reasoning: str | None = None,
    usage: Usage | Literal["counted", "null", "absent"] = "counted",
    pieces: int = 1,
    finish_reason: str | None = "auto",
) -> Completion:
    """Answer with tool calls."""
    return Completion(
        calls=tuple(calls),
        content=content,
        reasoning=reasoning,
        usage=usage,
        pieces=pieces,
        finish_reason=finish_reason,
    )


def reply_saying(*messages: str, pieces: int = 1) -> Completion:
    """Answer with one call of the tool `send_message` that says `messages`."""
    return tool_calls([call("send_message", {"messages": list(messages)})], pieces=pieces)


def error(
    status: int,
    message: str = "scripted failure",
    *,
    code: str | None = None,
    kind: str = "invalid_request_error",
    headers: Sequence[tuple[str, str]] = (),
    retry_after_s: int | None = None,
) -> RawReply:
    """Answer with an error status and OpenAI's error object (`kind` is its `type`)."""
    waits = () if retry_after_s is None else (("Retry-After", str(retry_after_s)),)
    body: JsonObject = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return RawReply(status=status, body=orjson.dumps(body), headers=(*headers, *waits))


def bad_gateway() -> RawReply:
    """Answer as a proxy does whose model server is down: 502 and a page in HTML."""
    return RawReply(status=502, body=b"<html><body><h1>502 Bad Gateway</h1></body></html>", content_type="text/html")


def garbled() -> RawReply:
    """Answer 200 with JSON that breaks off; a stream gets one such event and `[DONE]`."""
    broken = b'{"id": "chatcmpl-1", "choices": [{"index": 0, '
    return RawReply(body=broken, stream_body=b"data: " + broken + b"\n\ndata: [DONE]\n\n")


def cut(content: str, *, ending: Ending = "no_done", parts_sent: int = 2, pieces: int = 4) -> Completion:
    """Answer with a text whose stream ends too early, after `parts_sent` parts."""
    return Completion(content=content, ending=ending, parts_sent=parts_sent, pieces=pieces)


def body_of(reply: Completion, *, number: int, model: str, prompt_chars: int) -> dict[str, JsonValue]:
    """Return the chat completion object.

    Args:
        reply: the answer.
        number: the request's, 1-based; ids are made from it.
        model: the model's name, as asked for.
        prompt_chars: the request's length, for counted usage.
    """
    message: dict[str, JsonValue] = {"role": "assistant", "content": reply.content, "refusal": None}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [_call_json(made, _call_id(made, number, i)) for i, made in enumerate(reply.calls)]
    choice: JsonObject = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(reply)}
    body = _head("chat.completion", number, model)
    if reply.choices != "absent":
        body["choices"] = [choice] if reply.choices == "one" else []
    if reply.usage != "absent":
        body["usage"] = _usage(reply, prompt_chars)
    return body


def chunks_of(
    reply: Completion, *, number: int, model: str, prompt_chars: int, include_usage: bool
) -> list[dict[str, JsonValue]]:
    """Return the chunk objects of a stream, in order, without `[DONE]`; the arguments are those of `body_of`.

    With `include_usage` (the request's `stream_options`), every chunk has `usage: null`, and a last one without
    choices has the numbers.
    """
    chunks: list[dict[str, JsonValue]] = []
    for delta, finish_reason in _deltas(reply, number):
        chunk = _head("chat.completion.chunk", number, model)
        if reply.choices != "absent":
            choice: JsonObject = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
            chunk["choices"] = [choice] if reply.choices == "one" else []
        if include_usage and reply.usage != "absent":
            chunk["usage"] = None
        chunks.append(chunk)
    if include_usage and reply.usage != "absent":
        last = _head("chat.completion.chunk", number, model)
        chunks.append({**last, "choices": [], "usage": _usage(reply, prompt_chars)})
    return chunks


def _deltas(reply: Completion, number: int) -> Iterator[tuple[JsonObject, str | None]]:
    yield {"role": "assistant", "content": None if reply.calls and reply.content is None else ""}, None
    for piece in _cut(reply.reasoning or "", reply.pieces):
        yield {"reasoning_content": piece}, None
    if isinstance(reply.content, str):
        for piece in _cut(reply.content, reply.pieces):
            yield {"content": piece}, None
    elif reply.content is not None:
        yield {"content": reply.content}, None
    for index, made in enumerate(reply.calls):
        opened: JsonObject = {"index": index, **_call_json(replace(made, arguments=""), _call_id(made, number, index))}
        yield {"tool_calls": [opened]}, None
        for piece in _cut(made.arguments, reply.pieces):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, None
    yield {}, _finish_reason(reply)


def _cut(value: str, pieces: int) -> Iterator[str]:
    """Cut a text into at most `pieces` parts of nearly equal length, none of them empty."""
    for position in range(pieces):
        piece = value[len(value) * position // pieces : len(value) * (position + 1) // pieces]
        if piece:
            yield piece


def _head(kind: str, number: int, model: str) -> dict[str, JsonValue]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 1_700_000_000 + number, "model": model}


def _call_id(made: ToolCall, number: int, index: int) -> str:
    return f"call_{number}_{index}" if made.call_id is None else made.call_id


def _call_json(made: ToolCall, call_id: str) -> dict[str, JsonValue]:
    function: JsonObject = {"name": made.name, "arguments": made.arguments}
    written: dict[str, JsonValue] = {"id": call_id, "type": "function", "function": function}
    if made.signature is not None:
        written["extra_content"] = {"google": {"thought_signature": made.signature}}
    return written


def _finish_reason(reply: Completion) -> str | None:
    if reply.finish_reason != "auto":
        return reply.finish_reason
    return "tool_calls" if reply.calls else "stop"


def _usage(reply: Completion, prompt_chars: int) -> JsonValue:
    if isinstance(reply.usage, Usage):
        return reply.usage.to_json()
    if reply.usage != "counted":
        return None
    written = [reply.content or "", reply.reasoning or "", *(made.name + made.arguments for made in reply.calls)]
    return Usage(prompt_chars // 4, sum(len(str(part)) for part in written) // 4).to_json()
