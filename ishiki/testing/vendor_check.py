"""Whether a request to one of the vendors' own APIs is well-formed: what the vendor refuses, found before it does.

Sources: Anthropic API reference, Messages (create; tool use; extended thinking); OpenAI API reference, Responses
(create); Gemini API reference, models.generateContent and function calling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ishiki.jsonvalue import JsonObject, read_array, read_int, read_object, read_str
from ishiki.testing.vendor_wires import Wire

__all__ = ["check_vendor_request"]


def check_vendor_request(wire: Wire, body: JsonObject) -> list[str]:
    """Return what is wrong with a request's body, one sentence each; empty when it is well-formed."""
    match wire:
        case "anthropic":
            return [*_anthropic(body)]
        case "responses":
            return [*_responses(body)]
        case "gemini":
            return [*_gemini(body)]


def _objects(holder: JsonObject, name: str) -> list[JsonObject]:
    return [item for item in read_array(holder, name) if isinstance(item, Mapping)]


def _anthropic(body: JsonObject) -> Iterator[str]:
    limit = read_int(body, "max_tokens")
    if limit <= 0:
        yield "max_tokens: missing"
    thinking = read_object(body, "thinking")
    if read_str(thinking, "type") == "enabled":
        budget = read_int(thinking, "budget_tokens")
        if not 1_024 <= budget < limit:
            yield f"thinking.budget_tokens: {budget} is not from 1024 to below max_tokens ({limit})"
        if body.get("temperature", 1) != 1:
            yield "temperature: only 1 with thinking"
    messages = _objects(body, "messages")
    if not messages or messages[0].get("role") != "user":
        yield "messages: does not begin with a user message"
    waiting: list[str] = []
    for position, message in enumerate([*messages, {"role": "end", "content": []}]):
        blocks = _objects(message, "content")
        answered = [read_str(block, "tool_use_id") for block in blocks if block.get("type") == "tool_result"]
        if sorted(answered) != sorted(waiting):
            yield f"messages[{position}]: results for {answered}, calls were {waiting}"
        uses = [block for block in blocks if block.get("type") == "tool_use"]
        waiting = [read_str(block, "id") for block in uses]
        if uses and thinking and blocks[0].get("type") not in ("thinking", "redacted_thinking"):
            yield f"messages[{position}]: with thinking, calls follow a thinking block"
        for block in blocks:
            if block.get("type") == "thinking" and not read_str(block, "signature"):
                yield f"messages[{position}]: a thinking block without its signature"
            if block.get("type") == "text" and not read_str(block, "text").strip():
                yield f"messages[{position}]: an empty text block"


def _responses(body: JsonObject) -> Iterator[str]:
    items = _objects(body, "input")
    if not any(item.get("role") == "user" for item in items):
        yield "input: no user message"
    calls = [read_str(item, "call_id") for item in items if item.get("type") == "function_call"]
    results = [read_str(item, "call_id") for item in items if item.get("type") == "function_call_output"]
    if sorted(calls) != sorted(results):
        yield f"input: results for {results}, calls were {calls}"
    for tool in _objects(body, "tools"):
        if tool.get("type") != "function" or not read_str(tool, "name"):
            yield "tools: a function has its name beside its type"


def _gemini(body: JsonObject) -> Iterator[str]:
    contents = _objects(body, "contents")
    if not contents or contents[0].get("role") != "user":
        yield "contents: does not begin with a user's"
    waiting = 0
    for position, content in enumerate([*contents, {"role": "end", "parts": []}]):
        parts = _objects(content, "parts")
        if not parts and content.get("role") != "end":
            yield f"contents[{position}]: no parts"
        answered = sum(bool(_either(part, "functionResponse", "function_response")) for part in parts)
        if answered != waiting:
            yield f"contents[{position}]: {answered} results, calls were {waiting}"
        waiting = sum(bool(_either(part, "functionCall", "function_call")) for part in parts)


def _either(part: JsonObject, name: str, other: str) -> JsonObject:
    """Return a field under either of its two spellings, both of which the API takes."""
    return read_object(part, name) or read_object(part, other)
