"""Whether a chat-completions request is well-formed: what strict providers refuse, found before one does.

Source: OpenAI API reference, chat completions (create), and what compatible servers demand beyond it where noted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import orjson

from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_object, read_str

__all__ = ["check_request"]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_CALL_ID_CHARS = 64

_PART_FIELDS: dict[str, type[str] | type[Mapping[str, JsonValue]]] = {
    "text": str,
    "refusal": str,
    "image_url": Mapping,
    "input_audio": Mapping,
    "file": Mapping,
}
"""Content part types, and what stands under the key of the same name."""

_PARTS_OF_ROLE = {
    "system": {"text"},
    "developer": {"text"},
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "tool": {"text"},
}

_Problems: TypeAlias = Iterator[str]


def check_request(body: JsonValue) -> list[str]:
    """Return what is wrong with a request's body, one sentence each with its place; empty when it is well-formed.

    Checked: the model; roles; content by role; every assistant tool call has exactly one result directly behind it,
    and every result its call; call ids are unique and at most 64 characters; there is a user message; tools and tool
    choice. Stricter than OpenAI in one point: a call's arguments must be a JSON object, because the chat templates of
    compatible servers parse them.
    """
    if not isinstance(body, Mapping):
        return ["the body is no JSON object"]
    return [*_check_head(body), *_check_messages(body), *_check_tools(body)]


def _check_head(body: JsonObject) -> _Problems:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model: no name"
    if not isinstance(body.get("stream", False), bool | None):
        yield "stream: neither true nor false"
    if body.get("stream_options") is not None and body.get("stream") is not True:
        yield "stream_options: only allowed when stream is true"


def _check_messages(body: JsonObject) -> _Problems:
    value = body.get("messages")
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        yield "messages: no list, or an empty one"
        return
    messages: list[JsonObject] = []
    for position, message in enumerate(value):
        if not isinstance(message, Mapping):
            yield f"messages[{position}]: no object"
            return
        messages.append(message)
        yield from _check_message(f"messages[{position}]", message)
    if not any(message.get("role") == "user" for message in messages):
        yield "messages: no user message"
    yield from _check_pairs(messages)


def _check_message(place: str, message: JsonObject) -> _Problems:
    role = message.get("role")
    if not isinstance(role, str) or role not in _PARTS_OF_ROLE:
        yield f"{place}: illegal role {role!r}"
        return
    has_calls = role == "assistant" and message.get("tool_calls") is not None
    if message.get("content") is not None:
        yield from _check_content(f"{place}.content", message["content"], _PARTS_OF_ROLE[role])
    elif not has_calls:
        yield f"{place}.content: missing"
    if has_calls:
        yield from _check_calls(f"{place}.tool_calls", message["tool_calls"])
    elif role != "assistant" and "tool_calls" in message:
        yield f"{place}.tool_calls: not allowed for role {role}"
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield f"{place}.tool_call_id: missing"


def _check_content(place: str, content: JsonValue, allowed: set[str]) -> _Problems:
    if isinstance(content, str):
        return
    if not isinstance(content, Sequence) or not content:
        yield f"{place}: neither text nor a list of parts"
        return
    for position, part in enumerate(content):
        kind = part.get("type") if isinstance(part, Mapping) else None
        if not isinstance(part, Mapping) or not isinstance(kind, str) or kind not in allowed:
            yield f"{place}[{position}]: illegal part type {kind!r}"
        elif not isinstance(part.get(kind), _PART_FIELDS[kind]):
            yield f"{place}[{position}]: no {kind}"


def _check_calls(place: str, calls: JsonValue) -> _Problems:
    if not isinstance(calls, Sequence) or isinstance(calls, str) or not calls:
        yield f"{place}: no list, or an empty one"
        return
    for position, call in enumerate(calls):
        if not isinstance(call, Mapping):
            yield f"{place}[{position}]: no object"
            continue
        yield from _check_call(f"{place}[{position}]", call)


def _check_call(place: str, call: JsonObject) -> _Problems:
    call_id = call.get("id")
    if not isinstance(call_id, str) or not call_id:
        yield f"{place}.id: missing"
    elif len(call_id) > _MAX_CALL_ID_CHARS:
        yield f"{place}.id: {len(call_id)} characters, more than {_MAX_CALL_ID_CHARS}"
    if call.get("type") != "function":
        yield f"{place}.type: not 'function'"
    function = read_object(call, "function")
    yield from _check_name(f"{place}.function.name", function.get("name"))
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        yield f"{place}.function.arguments: no text"
    elif not _is_json_object(arguments):
        yield f"{place}.function.arguments: no JSON object: {arguments[:60]!r}"


def _check_name(place: str, name: JsonValue) -> _Problems:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield f"{place}: {name!r} does not match {_NAME.pattern}"


def _is_json_object(value: str) -> bool:
    try:
        return isinstance(orjson.loads(value), dict)
    except orjson.JSONDecodeError:
        return False


def _check_pairs(messages: Sequence[JsonObject]) -> _Problems:
    """Check that results stand directly behind their calls, one each, and that no call id comes twice."""
    seen: Counter[str] = Counter()
    open_ids: list[str] = []
    answered: set[str] = set()
    for position, message in enumerate([*messages, {"role": "the end"}]):
        place = f"messages[{position}]"
        if message.get("role") == "tool":
            call_id = read_str(message, "tool_call_id")
            if call_id in open_ids:
                open_ids.remove(call_id)
                answered.add(call_id)
            elif call_id in answered:
                yield f"{place}: a second result for call {call_id!r}"
            else:
                yield f"{place}: a result for {call_id!r}, but no such call stands before it"
            continue
        for call_id in open_ids:
            yield f"{place}: call {call_id!r} has no result before this {message.get('role')}"
        open_ids, answered = _call_ids(message), set()
        seen.update(open_ids)
    for call_id, count in seen.items():
        if count > 1:
            yield f"messages: call id {call_id!r} is used {count} times"


def _call_ids(message: JsonObject) -> list[str]:
    if message.get("role") != "assistant":
        return []
    return [read_str(call, "id") for call in read_array(message, "tool_calls") if isinstance(call, Mapping)]


def _check_tools(body: JsonObject) -> _Problems:
    tools = body.get("tools")
    names: Counter[str] = Counter()
    if tools is not None:
        if not isinstance(tools, Sequence) or isinstance(tools, str) or not tools:
            yield "tools: no list, or an empty one"
            return
        for position, tool in enumerate(tools):
            function: JsonObject = read_object(tool, "function") if isinstance(tool, Mapping) else {}
            names[read_str(function, "name")] += 1
            yield from _check_tool(f"tools[{position}]", tool, function)
    for name, count in names.items():
        if count > 1:
            yield f"tools: {name!r} is defined {count} times"
    yield from _check_choice(body.get("tool_choice"), set(names))


def _check_tool(place: str, tool: JsonValue, function: JsonObject) -> _Problems:
    if not isinstance(tool, Mapping) or tool.get("type") != "function":
        yield f"{place}.type: not 'function'"
    yield from _check_name(f"{place}.function.name", function.get("name"))
    description = function.get("description", "")
    if not isinstance(description, str):
        yield f"{place}.function.description: no text"
    parameters = function.get("parameters", {"type": "object"})
    if not isinstance(parameters, Mapping) or parameters.get("type") != "object":
        yield f"{place}.function.parameters: no JSON Schema of an object"


def _check_choice(choice: JsonValue, names: set[str]) -> _Problems:
    if choice is None:
        return
    if not names:
        yield "tool_choice: only allowed with tools"
    elif isinstance(choice, Mapping):
        name = read_str(read_object(choice, "function"), "name")
        if name not in names:
            yield f"tool_choice: no tool {name!r}"
    elif choice not in ("none", "auto", "required"):
        yield f"tool_choice: illegal value {choice!r}"
