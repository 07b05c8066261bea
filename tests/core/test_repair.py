"""History repair: whatever the history looks like, strict providers take the request."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

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
    ToolOutputType,
    ToolResultPart,
    UserMessage,
)
from ishiki.core.model import ModelRequest
from ishiki.core.repair import NO_INPUT, NO_RESULT, well_formed
from ishiki.gateway.chat_request import ChatDialect, chat_messages
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.openai_check import check_request

CALL_ID = st.sampled_from(["a", "b", "", "x" * 64, "x" * 65, "x" * 90, "a_2"])
NAME = st.sampled_from(["read", "", "no such tool!", "天气", "n" * 70, "send_message"])
INPUT: st.SearchStrategy[JsonValue] = st.one_of(st.none(), st.just("text"), st.just([1]), st.just({"k": "\ud800"}))
OUTPUTS = st.builds(
    ToolOutput,
    st.sampled_from(ToolOutputType.__args__),
    st.one_of(INPUT, st.just([{"type": "text", "text": "t"}]), st.just([{"type": "image", "url": "data:,x"}])),
)
CALLS = st.builds(ToolCallPart, CALL_ID, NAME, INPUT, st.booleans())
RESULTS = st.builds(ToolResultPart, CALL_ID, NAME, OUTPUTS)
TEXTS = st.builds(TextPart, st.sampled_from(["", " \n", "hello", "\udfff"]))
ASSISTANTS = st.builds(
    AssistantMessage,
    st.lists(
        st.one_of(TEXTS, CALLS, RESULTS, st.builds(ReasoningPart, st.just("hm")), st.just(OpaquePart({"type": "new"}))),
        max_size=4,
    ),
)
USERS = st.builds(
    UserMessage,
    st.sampled_from(["", "hi"]) | st.lists(st.one_of(TEXTS, st.just(FilePart("image/png", url="data:,x"))), max_size=2),
)
HISTORIES: st.SearchStrategy[list[ModelMessage]] = st.lists(
    st.one_of(
        ASSISTANTS,
        USERS,
        st.builds(ToolMessage, st.lists(RESULTS, max_size=4)),
        st.builds(SystemMessage, st.sampled_from(["", "rule"])),
    ),
    max_size=8,
)


def problems(messages: Sequence[ModelMessage]) -> list[str]:
    """Return what a strict provider would refuse."""
    request = ModelRequest("be kind", messages)
    sent = [*chat_messages(request, ChatDialect(frozenset({"text", "image"})))]
    body: JsonObject = {"model": "m", "messages": sent}
    return check_request(body)


@given(HISTORIES)
@settings(max_examples=150)
def test_any_history_becomes_a_request_that_a_strict_provider_takes(history: list[ModelMessage]) -> None:
    """Design, section 3, history repair; OpenAI API reference, chat completions."""
    assert problems(well_formed(history)) == []


@given(HISTORIES)
@settings(max_examples=150)
def test_a_repaired_history_comes_back_as_the_same_objects(history: list[ModelMessage]) -> None:
    """Bug: tool messages were made anew each time, with a new id."""
    once = well_formed(history)
    twice = well_formed(once)
    assert [id(message) for message in twice] == [id(message) for message in once]


@given(HISTORIES)
def test_what_users_and_the_system_said_is_neither_lost_nor_reordered(history: list[ModelMessage]) -> None:
    """Our choice: repair moves results, never what was said."""
    said = [message for message in history if isinstance(message, UserMessage | SystemMessage)]
    kept = [message for message in well_formed(history) if isinstance(message, UserMessage | SystemMessage)]
    if not any(isinstance(message, UserMessage) for message in said):
        added = kept.pop()
        assert added.content == NO_INPUT
    assert [id(message) for message in kept] == [id(message) for message in said]


def call(call_id: str, name: str = "read") -> ToolCallPart:
    """Return a call."""
    return ToolCallPart(call_id, name, {})


def result(call_id: str, value: str, name: str = "read") -> ToolResultPart:
    """Return a result."""
    return ToolResultPart(call_id, name, ToolOutput("text", value))


def test_a_well_formed_history_is_not_touched() -> None:
    """Design, section 9: the prefix of a request stays the same bytes."""
    history: list[ModelMessage] = [
        UserMessage("hi"),
        AssistantMessage([TextPart("a"), call("1"), call("2")]),
        ToolMessage([result("1", "x"), result("2", "y")]),
        AssistantMessage([TextPart("done")]),
    ]
    assert all(one is other for one, other in zip(well_formed(history), history, strict=True))


def test_a_call_without_a_result_gets_one_that_says_so_and_a_result_without_a_call_is_dropped() -> None:
    """Reference, history repair: constant text."""
    history: list[ModelMessage] = [UserMessage("hi"), ToolMessage([result("0", "lost")]), AssistantMessage([call("1")])]
    fixed = well_formed(history)
    assert isinstance(fixed[2], ToolMessage)
    assert fixed[2].content == [ToolResultPart("1", "read", ToolOutput("error-text", NO_RESULT))]
    assert len(fixed) == 3


def test_results_that_stand_apart_are_put_directly_behind_their_calls_in_call_order() -> None:
    """Design, section 3: well-formed pairs."""
    history: list[ModelMessage] = [
        AssistantMessage([call("1"), call("2")]),
        UserMessage("between"),
        ToolMessage([result("2", "two"), result("9", "of nobody")]),
        ToolMessage([result("1", "one")]),
    ]
    fixed = well_formed(history)
    assert [message.role for message in fixed] == ["assistant", "tool", "user"]
    assert isinstance(fixed[1], ToolMessage)
    assert [part.output.value for part in fixed[1].content] == ["one", "two"]


def test_equal_ids_become_unique_and_each_call_keeps_its_own_result() -> None:
    """Design, section 2: reused ids are legal from a model; an older log holds them as they were."""
    history: list[ModelMessage] = [
        UserMessage("hi"),
        AssistantMessage([call("x" * 70), call("x" * 70)]),
        ToolMessage([result("x" * 70, "one"), result("x" * 70, "two")]),
        AssistantMessage([call("x" * 70)]),
        ToolMessage([result("x" * 70, "three")]),
    ]
    tools = [message for message in well_formed(history) if isinstance(message, ToolMessage)]
    parts = [part for message in tools for part in message.content]
    assert [part.output.value for part in parts] == ["one", "two", "three"]
    assert len({part.tool_call_id for part in parts}) == 3


def test_a_name_that_no_tool_can_have_is_made_one_that_providers_take() -> None:
    """Bug: a model that called "no such tool!" made every later request of the channel one that is refused."""
    fixed = well_formed([UserMessage("hi"), AssistantMessage([call("1", "no such tool!"), call("2", "")])])
    assert isinstance(fixed[1], AssistantMessage)
    assert [part.tool_name for part in fixed[1].tool_calls] == ["no_such_tool_", "unknown"]


def test_what_the_provider_ran_itself_gets_no_result_from_us() -> None:
    """Bug: it got one, behind an assistant message whose call is not sent."""
    own = ToolCallPart("1", "web_search", {}, provider_executed=True)
    message = AssistantMessage([own, TextPart("found it")])
    assert well_formed([UserMessage("hi"), message])[1:] == [message]
    mixed = AssistantMessage([own, call("2")])
    assert [item.role for item in well_formed([UserMessage("hi"), mixed])] == ["user", "assistant", "tool"]
