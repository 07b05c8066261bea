"""The offline demo: honest, repeating, never failing."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.core.messages import (
    AssistantMessage,
    FilePart,
    ModelMessage,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolResultPart,
    UserMessage,
)
from ishiki.core.model import ModelPart, ModelRequest, ToolCallDelta, ToolChoice, ToolSpec
from ishiki.gateway import DemoModel

from .kit import FINISH, SPEAK, answer, ask, calls_of, finish_of, text_of

DEMO = DemoModel(variables=["DEEPSEEK_API_KEY"])


def said(parts: Sequence[ModelPart]) -> str:
    """Return what the only call, of send_message, says."""
    (call,) = calls_of(parts)
    assert call.tool_name == "send_message"
    (message,) = json.loads(call.arguments)["messages"]
    return message


async def test_it_speaks_through_the_tool_and_repeats_the_person() -> None:
    """Issue: the reply carries the person's text, so that a human sees that it works, and says it is a demo."""
    parts = await answer(DEMO, ask('[11-30 10:00] Rin(42) #5: <at id="1"/> what is love', tools=[SPEAK, FINISH]))
    text = said(parts)
    for word in ("demo", "Rin", "what is love", "DEEPSEEK_API_KEY", ".env"):
        assert word in text
    deltas = [part.delta for part in parts if isinstance(part, ToolCallDelta)]
    assert len(deltas) > 1
    assert "".join(deltas) == calls_of(parts)[0].arguments
    assert finish_of(parts).reason == "tool-calls"
    assert finish_of(parts).usage.is_estimate


async def test_it_answers_in_the_language_of_the_line() -> None:
    """Issue: in the line's language, Chinese or English."""
    text = said(await answer(DEMO, ask("[11-30 10:00] 凛(42) #5: 你好呀", tools=[SPEAK])))
    assert "离线演示" in text
    assert "你好呀" in text
    assert "DEEPSEEK_API_KEY" in text


async def test_of_several_lines_the_addressing_one_is_answered() -> None:
    """Our choice: the line that woke the mind may have others behind it."""
    lines = '[11-30 10:00] Rin(42) #5: <at id="1"/> tell me\n[11-30 10:01] Bo(43) #6: lunch'
    assert "tell me" in said(await answer(DEMO, ask(lines, tools=[SPEAK])))
    lines = "[11-30 10:00] Rin(42) #5: tea\n[11-30 10:01] (you) #6: ok\n[11-30 10:01] Bo(43) #7: lunch"
    assert "lunch" in said(await answer(DEMO, ask(lines, tools=[SPEAK])))


async def test_what_was_typed_stays_text() -> None:
    """Design, content: what a user typed never becomes markup."""
    line = '[11-30 10:00] Rin(42) #5: &lt;at type="all"/&gt; hey'
    assert '&lt;at type="all"/&gt; hey' in said(await answer(DEMO, ask(line, tools=[SPEAK])))


def spoken(outcome: ToolOutput) -> list[ModelMessage]:
    """Return a history in which the demo has spoken, with this result."""
    return [
        UserMessage("[11-30 10:00] Rin(42) #5: hi"),
        AssistantMessage([ToolCallPart("c", "send_message", {"messages": ["hello"]})]),
        ToolMessage([ToolResultPart("c", "send_message", outcome)]),
    ]


@pytest.mark.parametrize("outcome", [ToolOutput("json", {"ok": True}), ToolOutput("error-text", "muted")])
async def test_after_it_has_spoken_it_ends_the_turn(outcome: ToolOutput) -> None:
    """Issue: then a finish-like end; a failed message is not tried for ever."""
    (call,) = calls_of(await answer(DEMO, ModelRequest("", spoken(outcome), [SPEAK, FINISH])))
    assert call.tool_name == "finish"
    parts = await answer(DEMO, ModelRequest("", spoken(outcome), [SPEAK]))
    assert (calls_of(parts), text_of(parts), finish_of(parts).reason) == ([], "", "stop")


async def test_the_hint_is_given_once_a_conversation() -> None:
    """Design, what a group never sees: the same sentence over and over."""
    messages = [*spoken(ToolOutput("json", {"ok": True})), UserMessage("[11-30 10:02] Rin(42) #7: and now?")]
    text = said(await answer(DEMO, ModelRequest("", messages, [SPEAK])))
    assert "and now?" in text
    assert "demo" in text
    assert "DEEPSEEK_API_KEY" not in text


async def test_without_tools_it_answers_in_plain_text() -> None:
    """Issue: without tools plain text."""
    parts = await answer(DEMO, ask("hello there"))
    assert "hello there" in text_of(parts)
    assert calls_of(parts) == []


async def test_a_channel_header_is_copied_as_the_target() -> None:
    """Reference, send_message: target is copied from the header where the mind has several channels."""
    schema = {"properties": {"messages": {"type": "array"}, "target": {"type": "object"}}}
    lines = '[channel target={"sid":"onebot:1","channelId":"group:7"}]\n[11-30 10:00] Rin(42) #5: hi'
    (call,) = calls_of(await answer(DEMO, ask(lines, tools=[ToolSpec("send_message", "", schema)])))
    assert json.loads(call.arguments)["target"] == {"sid": "onebot:1", "channelId": "group:7"}


async def test_an_enforced_choice_is_obeyed() -> None:
    """Core, ToolChoice: a spec means that tool, required means some."""
    judge = ToolSpec(
        "judge",
        "",
        {
            "properties": {"p": {"type": "number"}, "why": {"type": "string"}, "v": {"enum": ["yes"]}},
            "required": ["p", "why", "v"],
        },
    )
    choices: list[ToolChoice] = [judge, "required"]
    for choice in choices:
        request = ModelRequest("", [UserMessage("hi")], [judge], tool_choice=choice)
        (call,) = calls_of(await answer(DEMO, request))
        assert call.tool_name == "judge"
        assert json.loads(call.arguments) == {"p": 1, "why": "demo", "v": "yes"}
    parts = await answer(DEMO, ModelRequest("", [UserMessage("hi")], [SPEAK], tool_choice="none"))
    assert calls_of(parts) == []


messages = st.one_of(
    st.text().map(UserMessage),
    st.text().map(SystemMessage),
    st.text().map(lambda text: UserMessage([TextPart(text), FilePart("image/png", data=b"x")])),
    st.text().map(lambda text: AssistantMessage([TextPart(text), ToolCallPart("c", text, text)])),
    st.text().map(lambda text: ToolMessage([ToolResultPart("c", text, ToolOutput("json", text))])),
    st.text().map(lambda text: UserMessage(f"[channel target={{{text}}}]\n[11-30 10:00] {text}(1) #1: {text}")),
)


@given(st.lists(messages, max_size=5), st.sampled_from([(), (SPEAK,), (SPEAK, FINISH), (FINISH,)]))
async def test_it_answers_a_request_of_any_shape_the_same_way_each_time(
    history: list[ModelMessage], tools: Sequence[ToolSpec]
) -> None:
    """Issue: deterministic, and robust for requests of any shape."""
    request = ModelRequest("", history, tools)
    first = await answer(DEMO, request)
    finish_of(first)
    assert await answer(DEMO, request) == first
