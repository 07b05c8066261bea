"""Which chat-completions requests count as well-formed."""

from __future__ import annotations

import pytest

from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.openai_check import check_request

USER: JsonObject = {"role": "user", "content": "hi"}


def assistant(*call_ids: str, arguments: str = "{}") -> JsonObject:
    """An assistant message with calls and no text."""
    calls: list[JsonValue] = [
        {"id": call_id, "type": "function", "function": {"name": "read", "arguments": arguments}}
        for call_id in call_ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str) -> JsonObject:
    """A tool's result."""
    return {"role": "tool", "tool_call_id": call_id, "content": "done"}


def tool(name: str) -> JsonObject:
    """A tool without parameters."""
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}


def talk(*messages: JsonObject, **fields: JsonValue) -> JsonObject:
    """A request."""
    return {"model": "m", "messages": list(messages), **fields}


WELL_FORMED: dict[str, JsonObject] = {
    "one line": talk(USER),
    "every role": talk({"role": "system", "content": "s"}, {"role": "developer", "content": "d"}, USER),
    "parts": talk(
        {
            "role": "user",
            "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:,"}}],
        }
    ),
    "parallel calls in any order": talk(USER, assistant("a", "b"), result("b"), result("a"), USER),
    "two steps": talk(USER, assistant("a"), result("a"), assistant("b"), result("b")),
    "a call with text": talk(USER, {**assistant("a"), "content": "let me see"}, result("a")),
    "an id of 64 characters": talk(USER, assistant("a" * 64), result("a" * 64)),
    "tools": talk(USER, tools=[tool("read"), tool("a-b_C9")], tool_choice="required"),
    "a chosen tool": talk(USER, tools=[tool("read")], tool_choice={"type": "function", "function": {"name": "read"}}),
    "a stream": talk(USER, stream=True, stream_options={"include_usage": True}),
}

MALFORMED: dict[str, tuple[JsonValue, str]] = {
    "no object": ([], "no JSON object"),
    "no model": ({"messages": [USER]}, "model"),
    "no messages": (talk(), "messages: no list"),
    "a message of text": ({"model": "m", "messages": ["hi"]}, "messages[0]: no object"),
    "stream": (talk(USER, stream="yes"), "stream: neither"),
    "calls as text": (talk(USER, {"role": "assistant", "content": "x", "tool_calls": "a"}), "tool_calls: no list"),
    "a call as text": (talk(USER, {"role": "assistant", "content": "x", "tool_calls": ["a"]}), "[0]: no object"),
    "a tool's type": (talk(USER, tools=[{**tool("a"), "type": "x"}]), "not 'function'"),
    "no user": (talk({"role": "system", "content": "s"}), "no user message"),
    "role": (talk(USER, {"role": "function", "content": "x"}), "illegal role 'function'"),
    "no content": (talk({"role": "user"}), "messages[0].content: missing"),
    "null content without calls": (talk(USER, {"role": "assistant", "content": None}), "[1].content: missing"),
    "content of a number": (talk({"role": "user", "content": 7}), "neither text nor a list"),
    "no parts": (talk({"role": "user", "content": []}), "neither text nor a list"),
    "part type": (talk({"role": "user", "content": [{"type": "video", "video": {}}]}), "illegal part type 'video'"),
    "an image in a result": (
        talk(USER, assistant("a"), {**result("a"), "content": [{"type": "image_url", "image_url": {"url": ""}}]}),
        "illegal part type 'image_url'",
    ),
    "a part without its field": (talk({"role": "user", "content": [{"type": "text"}]}), "no text"),
    "call without result": (talk(USER, assistant("a")), "'a' has no result before this the end"),
    "a line between call and result": (talk(USER, assistant("a"), USER, result("a")), "'a' has no result before"),
    "one of two results": (talk(USER, assistant("a", "b"), result("a"), USER), "'b' has no result"),
    "two results": (talk(USER, assistant("a"), result("a"), result("a")), "a second result"),
    "a result without call": (talk(USER, result("a")), "no such call"),
    "a result far behind": (talk(USER, assistant("a"), result("a"), USER, result("a")), "no such call"),
    "an id twice": (talk(USER, assistant("a"), result("a"), assistant("a"), result("a")), "is used 2 times"),
    "a long id": (talk(USER, assistant("a" * 65), result("a" * 65)), "65 characters"),
    "an empty id": (talk(USER, assistant(""), result("")), "id: missing"),
    "no calls": (talk(USER, {**assistant(), "content": "x"}), "tool_calls: no list"),
    "calls of a user": (talk({**USER, "tool_calls": []}), "not allowed for role user"),
    "no result id": (talk(USER, {"role": "tool", "content": "x"}), "tool_call_id: missing"),
    "arguments": (talk(USER, assistant("a", arguments="{'x': 1"), result("a")), "no JSON object"),
    "arguments of a list": (talk(USER, assistant("a", arguments="[]"), result("a")), "no JSON object"),
    "no tools": (talk(USER, tools=[]), "tools: no list"),
    "a tool's name": (talk(USER, tools=[tool("read file")]), "does not match"),
    "a tool's long name": (talk(USER, tools=[tool("a" * 65)]), "does not match"),
    "a tool twice": (talk(USER, tools=[tool("read"), tool("read")]), "defined 2 times"),
    "a tool's schema": (
        talk(USER, tools=[{"type": "function", "function": {"name": "x", "parameters": {"type": "string"}}}]),
        "no JSON Schema of an object",
    ),
    "choice without tools": (talk(USER, tool_choice="auto"), "only allowed with tools"),
    "choice of nothing": (talk(USER, tools=[tool("a")], tool_choice={"function": {"name": "b"}}), "no tool 'b'"),
    "choice": (talk(USER, tools=[tool("a")], tool_choice="any"), "illegal value 'any'"),
    "stream options": (talk(USER, stream_options={"include_usage": True}), "only allowed when stream"),
}


@pytest.mark.parametrize("name", WELL_FORMED)
def test_a_well_formed_request_has_no_problem(name: str) -> None:
    """OpenAI API reference, chat completions, create."""
    assert check_request(WELL_FORMED[name]) == []


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_request_is_told_what_and_where(name: str) -> None:
    """OpenAI API reference, chat completions, create; arguments are our choice."""
    body, problem = MALFORMED[name]
    found = check_request(body)
    assert any(problem in one for one in found), found


def test_one_fault_is_told_once() -> None:
    """Our choice: a list that repeats itself is not read."""
    doubled = {name for name, (body, _) in MALFORMED.items() if len(check_request(body)) > 1}
    assert doubled <= {"a line between call and result", "an empty id", "no result id"}
