"""The core's messages as chat-completions messages."""

from __future__ import annotations

import json

import pytest

from ishiki.core.messages import (
    AssistantMessage,
    FilePart,
    ModelMessage,
    OpaquePart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolResultPart,
    UserMessage,
)
from ishiki.core.model import ModelRequest, ToolChoice, ToolSpec
from ishiki.gateway.chat_request import ChatDialect, chat_messages, chat_tool_choice, chat_tools
from ishiki.jsonvalue import JsonObject, JsonValue

SEES = ChatDialect(frozenset({"text", "image", "audio", "pdf"}))


def written(*messages: ModelMessage, dialect: ChatDialect = SEES, instructions: str = "") -> list[JsonObject]:
    """Return these messages as chat messages."""
    return chat_messages(ModelRequest(instructions, messages), dialect)


def result(output: ToolOutput, call_id: str = "c") -> ToolResultPart:
    """Return the result of a call of `look`."""
    return ToolResultPart(call_id, "look", output)


def test_the_system_prompt_comes_first_and_an_empty_one_not_at_all() -> None:
    """OpenAI API reference, chat completions: messages."""
    assert written(UserMessage("hi"), instructions="be") == [
        {"role": "system", "content": "be"},
        {"role": "user", "content": "hi"},
    ]
    assert written(SystemMessage("note"), UserMessage("hi"))[0] == {"role": "system", "content": "note"}


def test_text_parts_alone_are_one_text() -> None:
    """Our choice: one text is what every server takes; unknown parts have no form for a model."""
    message = UserMessage([TextPart("a"), OpaquePart({"type": "later"}), TextPart("b")])
    assert written(message) == [{"role": "user", "content": "a\nb"}]


def test_media_are_data_urls_or_the_url_itself() -> None:
    """OpenAI API reference, chat completions: content parts image_url, input_audio and file."""
    parts = [
        FilePart("image/png", data=b"x"),
        FilePart("image/jpeg", url="https://h/a.jpg"),
        FilePart("audio/wav", data=b"x"),
        FilePart("application/pdf", data=b"x", filename="a.pdf"),
    ]
    assert written(UserMessage(parts))[0]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}},
        {"type": "image_url", "image_url": {"url": "https://h/a.jpg"}},
        {"type": "input_audio", "input_audio": {"data": "eA==", "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,eA=="}},
    ]


def test_media_that_the_model_does_not_read_become_a_note() -> None:
    """Our choice: a member of a group without eyes must not fail at a picture."""
    message = UserMessage([TextPart("see"), FilePart("image/png", data=b"x", filename="cat.png")])
    (line,) = written(message, dialect=ChatDialect())
    assert line["content"] == "see\n[image 'cat.png': this model cannot read it]"


@pytest.mark.parametrize(
    ("value", "arguments"),
    [
        ({"a": "你"}, '{"a":"你"}'),
        ({}, "{}"),
        (None, "{}"),
        ("nonsense", '{"input":"nonsense"}'),
        ([1], '{"input":[1]}'),
    ],
)
def test_arguments_are_the_text_of_a_json_object(value: JsonValue, arguments: str) -> None:
    """Compatible servers: their chat templates read arguments as an object."""
    message = AssistantMessage([ToolCallPart("c", "look", value)])
    assert written(message, ToolMessage([result(ToolOutput("text", "x"))]))[0] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": arguments}}],
    }


def test_reasoning_stays_here_unless_the_model_wants_it_back() -> None:
    """Issue, gateway: reasoning not sent back by default; DeepSeek's thinking models want it between their calls."""
    message = AssistantMessage([ReasoningPart("why"), TextPart("so")])
    assert written(message) == [{"role": "assistant", "content": "so"}]
    asked = written(message, dialect=ChatDialect(sends_reasoning=True))
    assert asked == [{"role": "assistant", "content": "so", "reasoning_content": "why"}]


def test_calls_that_the_provider_ran_itself_are_not_repeated() -> None:
    """Core, ToolCallPart.provider_executed."""
    message = AssistantMessage([TextPart("a"), ToolCallPart("c", "web", {}, provider_executed=True)])
    assert written(message) == [{"role": "assistant", "content": "a"}]


@pytest.mark.parametrize(
    ("output", "content"),
    [
        (ToolOutput("text", "as it is\n"), "as it is\n"),
        (ToolOutput("text", ""), "(no output)"),
        (ToolOutput("json", {"ok": True, "ids": ["1"]}), '{"ok":true,"ids":["1"]}'),
        (ToolOutput("error-text", "no such file"), "no such file"),
        (ToolOutput("error-json", {"error": "x"}), '{"error":"x"}'),
        (ToolOutput("execution-denied", "not now"), "The call was denied: not now"),
        (ToolOutput("execution-denied", None), "The call was denied"),
        (ToolOutput("content", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "a\nb"),
    ],
)
def test_a_result_is_text(output: ToolOutput, content: str) -> None:
    """Reference, messages: the forms of a tool's output."""
    assert written(ToolMessage([result(output)])) == [{"role": "tool", "tool_call_id": "c", "content": content}]


def test_each_result_is_a_message_and_media_follow_them_all() -> None:
    """OpenAI API reference, chat completions: a tool message holds text, and stands directly behind its call."""
    picture = ToolOutput("content", [{"type": "media", "mediaType": "image/png", "data": "eA=="}])
    first, second, media = written(ToolMessage([result(picture, "c1"), result(ToolOutput("text", "x"), "c2")]))
    assert (first["role"], first["tool_call_id"], first["content"]) == ("tool", "c1", "(no output)")
    assert (second["role"], second["tool_call_id"]) == ("tool", "c2")
    assert media == {
        "role": "user",
        "content": [
            {"type": "text", "text": "[media from look, call c1]"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}},
        ],
    }


def test_lone_surrogates_are_replaced_wherever_they_stand() -> None:
    """No request body can carry them; the log may hold what a model wrote."""
    messages = written(
        UserMessage("a\ud800"),
        AssistantMessage([TextPart("b\udfff"), ToolCallPart("c", "look", {"x": "\ud800"})]),
        ToolMessage([result(ToolOutput("json", ["\udc00"]))]),
        instructions="\ud83d",
    )
    json.dumps(messages, ensure_ascii=False).encode()


def test_tools_are_functions_and_auto_is_not_said() -> None:
    """OpenAI API reference, chat completions: tools, tool_choice."""
    tool = ToolSpec("look", "Look.", {})
    (function,) = chat_tools([tool])
    assert function["function"] == {
        "name": "look",
        "description": "Look.",
        "parameters": {"type": "object", "properties": {}},
    }
    choices: list[ToolChoice] = ["auto", "none", "required", tool]
    assert [chat_tool_choice(choice) for choice in choices] == [
        None,
        "none",
        "required",
        {"type": "function", "function": {"name": "look"}},
    ]
