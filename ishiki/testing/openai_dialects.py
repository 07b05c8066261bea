"""Compatible servers that are stricter than OpenAI's: what each refuses, in its own words. No I/O.

    async with OpenAIServer(dialect="mistral") as server: ...
    server.dialect = "vllm-template"    # from the next request on

Sources, all read in December 2026: Mistral's API (errors 3230 and 422 as quoted in public issue trackers, call ids in
mistral-common); Gemini API, function calling and OpenAI compatibility; DeepSeek API, thinking mode (tool calls), and
the older reasoner's refusal of neighbours; the chat templates of Mistral and Gemma models as vLLM applies them; LM
Studio's bug tracker for the words around a template's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import orjson

from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_object, read_str
from ishiki.testing.openai_replies import RawReply, error

__all__ = ["DIALECTS", "ServerDialect", "refusal"]

ServerDialect: TypeAlias = Literal[
    "openai", "mistral", "gemini-openai", "deepseek-reasoner", "deepseek-r1", "vllm-template", "gemma-template",
    "lmstudio",
]  # fmt: skip
"""A server that can be imitated; `openai` refuses nothing here, see `openai_check`."""

DIALECTS: tuple[ServerDialect, ...] = (
    "openai", "mistral", "gemini-openai", "deepseek-reasoner", "deepseek-r1", "vllm-template", "gemma-template",
    "lmstudio",
)  # fmt: skip
"""All of them, the tolerant one first."""

_NINE = re.compile(r"[a-zA-Z0-9]{9}")

_ALTERNATE = (
    "After the optional system message, conversation roles must alternate user and assistant roles except for tool "
    "calls and results."
)
_ALTERNATE_STRICTLY = "Conversation roles must alternate user/assistant/user/assistant/..."

_GEMINI_KEYWORDS = frozenset(
    {
        "type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties",
        "required", "minimum", "maximum", "minLength", "maxLength", "anyOf", "propertyOrdering", "pattern", "example",
        "minProperties", "maxProperties",
    }
)  # fmt: skip
"""The fields of `Schema`."""


def refusal(dialect: ServerDialect, body: JsonObject) -> RawReply | None:
    """Return what a server of `dialect` answers to a request that it does not take; None where it takes it."""
    return next(_RULES[dialect](_messages(body), body), None)


def _messages(body: JsonObject) -> list[JsonObject]:
    return [message for message in read_array(body, "messages") if isinstance(message, Mapping)]


def _role(message: JsonObject) -> str:
    return read_str(message, "role")


def _calls(message: JsonObject) -> list[JsonObject]:
    return [call for call in read_array(message, "tool_calls") if isinstance(call, Mapping)]


_Refusals: TypeAlias = Iterator[RawReply]


def _openai(messages: Sequence[JsonObject], body: JsonObject) -> _Refusals:
    return iter(())


def _mistral(messages: Sequence[JsonObject], body: JsonObject) -> _Refusals:
    previous = ""
    for position, message in enumerate(messages):
        role = _role(message)
        if previous == "tool" and role in ("user", "system"):
            yield _mistral_order(f"Unexpected role '{role}' after role 'tool'")
        if role == "assistant" and not _calls(message) and not message.get("content"):
            yield _plain(400, "Assistant message must have either content or tool_calls, but not none.", "3240")
        for call_id in (*(read_str(call, "id") for call in _calls(message)), read_str(message, "tool_call_id")):
            if call_id and not _NINE.fullmatch(call_id):
                told = f"Tool call id was {call_id} but must be a-z, A-Z, 0-9, with a length of 9."
                yield _plain(400, told, "3280")
        if "reasoning_content" in message:
            place: JsonValue = ["body", "messages", position, role, "reasoning_content"]
            detail: JsonObject = {"type": "extra_forbidden", "loc": place, "msg": "Extra inputs are not permitted"}
            yield RawReply(status=422, body=orjson.dumps({"object": "error", "message": {"detail": [detail]}}))
        previous = role
    if previous == "assistant":
        told = "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
        yield _mistral_order(told)


def _mistral_order(message: str) -> RawReply:
    return _plain(400, message, "3230", kind="invalid_request_message_order")


def _plain(status: int, message: str, code: JsonValue, *, kind: str = "invalid_request_error") -> RawReply:
    """Answer with an error that stands at the top of the body, as Mistral and vLLM write it."""
    body: JsonObject = {"object": "error", "message": message, "type": kind, "param": None, "code": code}
    return RawReply(status=status, body=orjson.dumps(body))


def _gemini(messages: Sequence[JsonObject], body: JsonObject) -> _Refusals:
    for number, tool in enumerate(tool for tool in read_array(body, "tools") if isinstance(tool, Mapping)):
        place = f"tools[0].function_declarations[{number}].parameters"
        for told in _gemini_schema(read_object(read_object(tool, "function"), "parameters"), place):
            yield _gemini_error(told)
    for position, message in enumerate(messages):
        if _role(message) == "tool" and not _is_object(read_str(message, "content")):
            yield _gemini_error(
                f"Invalid value at 'contents[{position}].parts[0].function_response.response' "
                f'(type.googleapis.com/google.protobuf.Struct), "{read_str(message, "content")[:40]}"'
            )
        calls = _calls(message)
        if calls and not read_object(read_object(calls[0], "extra_content"), "google").get("thought_signature"):
            name = read_str(read_object(calls[0], "function"), "name")
            yield _gemini_error(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools "
                f"to work correctly. Additional data, function call `default_api:{name}`, position {position}."
            )


def _gemini_schema(schema: JsonObject, place: str) -> Iterator[str]:
    for key in schema:
        if key not in _GEMINI_KEYWORDS:
            yield f"Invalid JSON payload received. Unknown name \"{key}\" at '{place}': Cannot find field."
    if isinstance(schema.get("type"), Sequence) and not isinstance(schema["type"], str):
        yield (
            f"Invalid JSON payload received. Unknown name \"type\" at '{place}': "
            "Proto field is not repeating, cannot start list."
        )
    if any(not isinstance(value, str) for value in read_array(schema, "enum")):
        yield f"Invalid value at '{place}.enum[0]' (TYPE_STRING), 1"
    if schema.get("type") == "array" and "items" not in schema:
        yield f"* GenerateContentRequest.{place}.items: missing field."
    for index, inner in enumerate(read_object(schema, "properties").values()):
        if isinstance(inner, Mapping):
            yield from _gemini_schema(inner, f"{place}.properties[{index}].value")
    for index, inner in enumerate(read_array(schema, "anyOf")):
        if isinstance(inner, Mapping):
            yield from _gemini_schema(inner, f"{place}.any_of[{index}]")
    if items := read_object(schema, "items"):
        yield from _gemini_schema(items, f"{place}.items")


def _gemini_error(message: str) -> RawReply:
    told: JsonObject = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
    return RawReply(status=400, body=orjson.dumps([{"error": told}]))


def _is_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False


def _deepseek(messages: Sequence[JsonObject], body: JsonObject) -> _Refusals:
    for position, message in enumerate(messages):
        if _role(message) == "assistant" and not isinstance(message.get("reasoning_content"), str):
            yield error(
                400,
                f"Missing `reasoning_content` field in the assistant message at message index {position}. For more "
                "information, please refer to https://api-docs.deepseek.com/guides/thinking_mode#tool-calls",
                code="invalid_request_error",
            )


def _deepseek_r1(messages: Sequence[JsonObject], body: JsonObject) -> _Refusals:
    for position, (first, second) in enumerate(pairwise(messages)):
        if _role(first) == _role(second) and _role(first) in ("user", "assistant"):
            yield error(
                400,
                f"deepseek-reasoner does not support successive user or assistant messages (messages[{position}] and "
                f"messages[{position + 1}] in your input). You should interleave the user/assistant messages in the "
                "message sequence.",
                code="invalid_request_error",
            )


def _template(messages: Sequence[JsonObject], body: JsonObject) -> _Refusals:
    if _breaks_turns(messages):
        yield _plain(400, _ALTERNATE, 400, kind="BadRequestError")


def _breaks_turns(messages: Sequence[JsonObject]) -> bool:
    """Whether user and assistant do not take turns, calls and results aside."""
    rest = messages[1:] if messages and _role(messages[0]) == "system" else messages
    spoken = [message for message in rest if _role(message) != "tool" and not _calls(message)]
    expected = [("user", "assistant")[position % 2] for position in range(len(spoken))]
    return [_role(message) for message in spoken] != expected


def _gemma(messages: Sequence[JsonObject], body: JsonObject) -> _Refusals:
    rest = messages[1:] if messages and _role(messages[0]) == "system" else messages
    for position, message in enumerate(rest):
        if (_role(message) == "user") != (position % 2 == 0):
            yield _plain(400, _ALTERNATE_STRICTLY, 400, kind="BadRequestError")


def _lmstudio(messages: Sequence[JsonObject], body: JsonObject) -> _Refusals:
    if any(len(_calls(message)) > 1 for message in messages):
        yield _rendering("This model only supports single tool-calls at once!")
    if not any(_is_query(message) for message in messages):
        yield _rendering("No user query found in messages.")
    if _breaks_turns(messages):
        yield _rendering(_ALTERNATE)


def _is_query(message: JsonObject) -> bool:
    return _role(message) == "user" and not read_str(message, "content").startswith("<tool_response>")


def _rendering(told: str) -> RawReply:
    """Answer as LM Studio does: 400, or an error event inside a stream that has begun with 200."""
    words = (
        f'Error rendering prompt with jinja template: "{told}".\n\nThis is usually an issue with the model\'s prompt '
        "template. If you are using a popular model, you can try to search the model under lmstudio-community, which "
        "will have fixed prompt templates."
    )
    body = orjson.dumps({"error": {"message": words}})
    return RawReply(status=200, body=body, stream_body=b"event: error\ndata: " + body + b"\n\n")


_RULES: Mapping[ServerDialect, Callable[[Sequence[JsonObject], JsonObject], _Refusals]] = {
    "openai": _openai,
    "mistral": _mistral,
    "gemini-openai": _gemini,
    "deepseek-reasoner": _deepseek,
    "deepseek-r1": _deepseek_r1,
    "vllm-template": _template,
    "gemma-template": _gemma,
    "lmstudio": _lmstudio,
}
