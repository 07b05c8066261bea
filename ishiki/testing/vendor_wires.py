"""What three vendors' own APIs answer, made from the same `Completion` as the OpenAI-compatible server's. No I/O.

Sources: Anthropic API reference, Messages (streaming, errors); OpenAI API reference, Responses (streaming events);
Gemini API reference, models.streamGenerateContent. Only streams are written: nothing of ours asks for another form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import orjson

from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.openai_replies import Completion, RawReply, Usage

__all__ = ["Wire", "events_of", "vendor_error"]

Wire: TypeAlias = Literal["anthropic", "responses", "gemini"]
"""The Messages API, the Responses API, and streamGenerateContent."""

SIGNATURE = "c2lnbmF0dXJl"
"""What signs reasoning: a vendor demands it back unchanged."""

_REASONS: dict[Wire, dict[str, str]] = {
    "anthropic": {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"},
    "responses": {"length": "max_output_tokens", "content_filter": "content_filter"},
    "gemini": {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"},
}


def events_of(wire: Wire, reply: Completion, *, number: int, model: str, prompt_chars: int) -> list[bytes]:
    """Return the server-sent events of an answer, in order.

    Args:
        wire: the API.
        reply: the answer; `holds`, `ending` and `parts_sent` are the server's business.
        number: the request's, 1-based; ids are made from it.
        model: the model's name, as asked for.
        prompt_chars: the request's length, for counted usage.
    """
    usage = _usage(reply, prompt_chars)
    match wire:
        case "anthropic":
            return [_named(str(data["type"]), data) for data in _anthropic(reply, number, model, usage)]
        case "responses":
            events = enumerate(_responses(reply, number, model, usage))
            return [_named(str(data["type"]), {**data, "sequence_number": count}) for count, data in events]
        case "gemini":
            return [b"data: " + orjson.dumps(data) + b"\r\n\r\n" for data in _gemini(reply, number, model, usage)]


def vendor_error(wire: Wire, status: int, message: str = "scripted failure", *, kind: str = "") -> RawReply:
    """Answer with an error status and the vendor's error object.

    Args:
        wire: the API.
        status: HTTP status.
        message: the vendor's words.
        kind: the vendor's name of the error, such as `overloaded_error`, `context_length_exceeded`.
    """
    body: JsonObject
    match wire:
        case "anthropic":
            body = {"type": "error", "error": {"type": kind or "invalid_request_error", "message": message}}
        case "responses":
            problem: JsonObject = {"message": message, "type": "invalid_request_error", "param": None, "code": kind}
            body = {"error": problem}
        case "gemini":
            body = {"error": {"code": status, "message": message, "status": kind or "INVALID_ARGUMENT"}}
    return RawReply(status=status, body=orjson.dumps(body))


def _named(name: str, data: JsonObject) -> bytes:
    return f"event: {name}\ndata: ".encode() + orjson.dumps(data) + b"\n\n"


def _usage(reply: Completion, prompt_chars: int) -> Usage:
    if isinstance(reply.usage, Usage):
        return reply.usage
    written = [reply.content or "", reply.reasoning or "", *(made.name + made.arguments for made in reply.calls)]
    return Usage(prompt_chars // 4, sum(len(str(part)) for part in written) // 4)


def _reason(reply: Completion) -> str:
    if reply.finish_reason == "auto":
        return "tool_calls" if reply.calls else "stop"
    return reply.finish_reason or "stop"


def _text(reply: Completion) -> str:
    return reply.content if isinstance(reply.content, str) else ""


def _pieces(text: str, count: int) -> Iterator[str]:
    for position in range(count):
        piece = text[len(text) * position // count : len(text) * (position + 1) // count]
        if piece:
            yield piece


# -- Anthropic, Messages -----------------------------------------------------------------------------------------------


def _anthropic(reply: Completion, number: int, model: str, usage: Usage) -> Iterator[JsonObject]:
    # Cached tokens are counted beside the others there, not among them.
    counted: JsonObject = {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": 1,
    }
    message: JsonObject = {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": counted,
    }  # fmt: skip
    yield {"type": "message_start", "message": message}
    yield {"type": "ping"}
    blocks: list[tuple[JsonObject, list[JsonObject]]] = []
    if reply.reasoning is not None:
        thoughts: list[JsonObject] = [
            {"type": "thinking_delta", "thinking": piece} for piece in _pieces(reply.reasoning, reply.pieces)
        ]
        signed: JsonObject = {"type": "signature_delta", "signature": SIGNATURE}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signed]))
    if _text(reply):
        words: list[JsonObject] = [
            {"type": "text_delta", "text": piece} for piece in _pieces(_text(reply), reply.pieces)
        ]
        blocks.append(({"type": "text", "text": ""}, words))
    for index, made in enumerate(reply.calls):
        call_id = made.call_id or f"toolu_{number}_{index}"
        arguments: list[JsonObject] = [
            {"type": "input_json_delta", "partial_json": piece} for piece in _pieces(made.arguments, reply.pieces)
        ]
        blocks.append(({"type": "tool_use", "id": call_id, "name": made.name, "input": {}}, arguments))
    for index, (block, deltas) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = _REASONS["anthropic"].get(_reason(reply), _reason(reply))
    ended: JsonObject = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": usage.completion_tokens}}
    yield {"type": "message_stop"}


# -- OpenAI, Responses -------------------------------------------------------------------------------------------------


def _responses(reply: Completion, number: int, model: str, usage: Usage) -> Iterator[JsonObject]:
    base: JsonObject = {
        "id": f"resp_{number}", "object": "response", "created_at": 1_700_000_000 + number, "model": model,
        "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "temperature": 1.0,
        "top_p": 1.0, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    }  # fmt: skip
    yield {"type": "response.created", "response": {**base, "status": "in_progress", "output": [], "usage": None}}
    output: list[JsonValue] = []
    if reply.reasoning is not None:
        item_id = f"rs_{number}"
        yield from _reasoning_item(reply.reasoning, reply.pieces, item_id, len(output))
        part: JsonObject = {"type": "summary_text", "text": reply.reasoning}
        output.append({"id": item_id, "type": "reasoning", "summary": [part]})
        yield {"type": "response.output_item.done", "output_index": len(output) - 1, "item": output[-1]}
    if _text(reply):
        item_id = f"msg_{number}"
        yield from _message_item(_text(reply), reply.pieces, item_id, len(output))
        output.append(_message(item_id, "completed", [_output_text(_text(reply))]))
        yield {"type": "response.output_item.done", "output_index": len(output) - 1, "item": output[-1]}
    for index, made in enumerate(reply.calls):
        call: JsonObject = {
            "id": f"fc_{number}_{index}", "type": "function_call", "status": "completed", "name": made.name,
            "call_id": made.call_id or f"call_{number}_{index}", "arguments": made.arguments,
        }  # fmt: skip
        at: JsonObject = {"output_index": len(output), "item_id": f"fc_{number}_{index}"}
        opened: JsonObject = {**call, "status": "in_progress", "arguments": ""}
        yield {"type": "response.output_item.added", "output_index": len(output), "item": opened}
        for piece in _pieces(made.arguments, reply.pieces):
            yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
        yield {"type": "response.function_call_arguments.done", **at, "arguments": made.arguments}
        output.append(call)
        yield {"type": "response.output_item.done", "output_index": len(output) - 1, "item": call}
    reason = _REASONS["responses"].get(_reason(reply))
    kind = "completed" if reason is None else "incomplete"
    counted: JsonObject = {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
    why: JsonValue = None if reason is None else {"reason": reason}
    whole: JsonObject = {**base, "status": kind, "incomplete_details": why, "output": output, "usage": counted}
    yield {"type": f"response.{kind}", "response": whole}


def _reasoning_item(text: str, pieces: int, item_id: str, position: int) -> Iterator[JsonObject]:
    at: JsonObject = {"item_id": item_id, "output_index": position, "summary_index": 0}
    opened: JsonObject = {"id": item_id, "type": "reasoning", "summary": []}
    yield {"type": "response.output_item.added", "output_index": position, "item": opened}
    yield {"type": "response.reasoning_summary_part.added", **at, "part": {"type": "summary_text", "text": ""}}
    for piece in _pieces(text, pieces):
        yield {"type": "response.reasoning_summary_text.delta", **at, "delta": piece}
    yield {"type": "response.reasoning_summary_text.done", **at, "text": text}
    yield {"type": "response.reasoning_summary_part.done", **at, "part": {"type": "summary_text", "text": text}}


def _message_item(text: str, pieces: int, item_id: str, position: int) -> Iterator[JsonObject]:
    at: JsonObject = {"item_id": item_id, "output_index": position, "content_index": 0}
    opened = _message(item_id, "in_progress", [])
    yield {"type": "response.output_item.added", "output_index": position, "item": opened}
    yield {"type": "response.content_part.added", **at, "part": _output_text("")}
    for piece in _pieces(text, pieces):
        yield {"type": "response.output_text.delta", **at, "delta": piece}
    yield {"type": "response.output_text.done", **at, "text": text}
    yield {"type": "response.content_part.done", **at, "part": _output_text(text)}


def _message(item_id: str, status: str, content: Sequence[JsonValue]) -> JsonObject:
    return {"id": item_id, "type": "message", "role": "assistant", "status": status, "content": list(content)}


def _output_text(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": []}


# -- Gemini, streamGenerateContent -------------------------------------------------------------------------------------


def _gemini(reply: Completion, number: int, model: str, usage: Usage) -> Iterator[JsonObject]:
    head: JsonObject = {"modelVersion": model, "responseId": f"gemini-{number}"}
    parts: list[JsonObject] = [
        {"text": piece, "thought": True} for piece in _pieces(reply.reasoning or "", reply.pieces)
    ]
    parts += [{"text": piece} for piece in _pieces(_text(reply), reply.pieces)]
    for index, made in enumerate(reply.calls):
        call: dict[str, JsonValue] = {"functionCall": {"name": made.name, "args": _object(made.arguments)}}
        if index == 0 and reply.reasoning is not None:
            call["thoughtSignature"] = SIGNATURE
        parts.append(call)
    prompt: JsonObject = {"promptTokenCount": usage.prompt_tokens, "totalTokenCount": usage.prompt_tokens}
    for part in parts:
        content: JsonObject = {"role": "model", "parts": [part]}
        yield {**head, "candidates": [{"content": content, "index": 0}], "usageMetadata": prompt}
    reason = _REASONS["gemini"].get(_reason(reply), _reason(reply))
    counted: JsonObject = {
        "promptTokenCount": usage.prompt_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
        "candidatesTokenCount": usage.completion_tokens - usage.reasoning_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "totalTokenCount": usage.prompt_tokens + usage.completion_tokens,
    }
    last: JsonObject = {"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": reason, "index": 0}
    yield {**head, "candidates": [last], "usageMetadata": counted}


def _object(text: str) -> JsonValue:
    """Return arguments as the object that this API has instead of a text."""
    try:
        value: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value
