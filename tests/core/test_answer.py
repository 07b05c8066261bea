"""One model's stream becomes one answer, within its limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import cast

import anyio
import pytest

from ishiki.core.answer import Answer, read_answer
from ishiki.core.events import StreamEvent
from ishiki.core.feed import AgentFeed
from ishiki.core.messages import ReasoningPart, TextPart, ToolCallPart, Usage
from ishiki.core.model import (
    Finish,
    ModelInfo,
    ModelPart,
    ModelRequest,
    ReasoningDelta,
    RequestOrigin,
    ResponseStart,
    TextDelta,
    ToolCall,
    ToolCallDelta,
)
from ishiki.errors import ModelError

FINISH = Finish("stop", Usage(3, 2))
HANG = "hang"
REQUEST = ModelRequest("", [], origin=RequestOrigin("me", "turn", 2))


class Model:
    """Yields what it is told; `HANG` waits for ever, an error is raised. Remembers whether its stream was closed."""

    ref = "test:model"
    info = ModelInfo("test:model")

    def __init__(self, *parts: ModelPart | str | Exception) -> None:
        self.parts = parts
        self.closed = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        try:
            for part in self.parts:
                match part:
                    case str():
                        await anyio.Event().wait()
                    case Exception():
                        raise part
                    case _:
                        yield part
        finally:
            self.closed = True


async def read(model: Model, limits: tuple[float, float, float] = (5, 5, 5), feed: AgentFeed | None = None) -> Answer:
    """Read the answer of `model`, which is closed behind it."""
    try:
        with anyio.fail_after(5):
            return await read_answer(model, REQUEST, limits, feed or AgentFeed())
    finally:
        assert model.closed


async def test_deltas_are_joined_into_parts_in_the_order_in_which_they_came() -> None:
    """`LanguageModel`: the order of a stream; calls carry our ids."""
    model = Model(
        ResponseStart("m"),
        ReasoningDelta("I "),
        ReasoningDelta("think", {"signature": "s"}),
        TextDelta("hel"),
        TextDelta(""),
        TextDelta("lo"),
        ReasoningDelta("again"),
        ToolCallDelta("x", "read", "{"),
        ToolCall("x", "read", '{"url": "u"}'),
        TextDelta("bye"),
        ToolCall("x", "read", "{"),
        FINISH,
    )
    answer = await read(model)
    first, second = (call for call, _ in answer.calls)
    assert answer.parts == [
        ReasoningPart("I think", {"signature": "s"}),
        TextPart("hello"),
        ReasoningPart("again"),
        first,
        TextPart("bye"),
        second,
    ]
    assert first == ToolCallPart(first.tool_call_id, "read", {"url": "u"})
    assert [bool(problem) for _, problem in answer.calls] == [False, True]
    assert len({first.tool_call_id, second.tool_call_id, "x"}) == 3
    assert (answer.finish_reason, answer.usage) == ("stop", Usage(3, 2))


async def test_a_signature_without_text_is_kept_and_halves_of_a_character_are_put_together() -> None:
    """Our choice: what the provider wants back; a delta may end within a character."""
    answer = await read(Model(ReasoningDelta("", {"id": 1}), TextDelta("\ud83d"), TextDelta("\ude00\ud800"), FINISH))
    assert answer.parts == [ReasoningPart("", {"id": 1}), TextPart("\U0001f600\ufffd")]


@pytest.mark.parametrize("parts", [[FINISH], [TextDelta(""), FINISH], [ResponseStart(), FINISH]])
async def test_an_answer_may_be_empty(parts: Sequence[ModelPart]) -> None:
    """Design, section 2: empty content is legal."""
    answer = await read(Model(*parts))
    assert answer.parts == []


@pytest.mark.parametrize(
    ("parts", "limits", "kind", "text"),
    [
        ([HANG], (0.01, 5, 5), "timeout", "sent nothing for 0.01 s"),
        ([ResponseStart(), HANG], (0.01, 5, 5), "timeout", "sent nothing for 0.01 s"),
        ([TextDelta("a"), HANG], (5, 0.01, 5), "timeout", "sent nothing for 0.01 s"),
        ([TextDelta("a"), HANG], (5, 5, 0.01), "timeout", "did not come to an end in time"),
        ([HANG], (5, 5, 0), "timeout", "did not come to an end in time"),
        ([], (5, 5, 5), "cut", "cut"),
        ([TextDelta("half a sen")], (5, 5, 5), "cut", "cut"),
        ([ModelError("no", kind="auth", retryable=False)], (5, 5, 5), "auth", "no"),
    ],
)
async def test_what_goes_wrong_is_a_model_error_and_the_stream_is_closed(
    parts: Sequence[ModelPart | str | Exception], limits: tuple[float, float, float], kind: str, text: str
) -> None:
    """Design, section 5, limits: first part, between parts, whole call; a preamble is no first part."""
    with pytest.raises(ModelError) as caught:
        await read(Model(*parts), limits)
    assert caught.value.kind == kind
    assert text in str(caught.value)


async def test_a_stream_that_stays_open_behind_its_finish_is_not_waited_for() -> None:
    """Bug: the complete answer of a server that keeps its connection was a timeout."""
    answer = await read(Model(TextDelta("a"), FINISH, HANG), (5, 30, 30))
    assert answer.parts == [TextPart("a")]


async def test_every_part_is_told_to_who_listens_to_the_stream() -> None:
    """Reference: the topic stream carries every model part as it arrives."""
    feed = AgentFeed()
    heard: list[StreamEvent] = []
    feed.subscribe("stream", heard.append)
    await read(Model(ResponseStart(), TextDelta("a"), FINISH), feed=feed)
    assert [event.part for event in heard] == [ResponseStart(), TextDelta("a"), FINISH]
    assert {(event.turn_id, event.step) for event in heard} == {("turn", 2)}


async def test_cancelling_closes_the_stream() -> None:
    """`LanguageModel`: cancelling its task ends the call at the provider."""
    model = Model(TextDelta("a"), HANG)
    feed = AgentFeed()
    began = anyio.Event()
    feed.subscribe("stream", lambda event: began.set())
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(read_answer, model, REQUEST, (5.0, 5.0, 5.0), feed)
            await began.wait()
            group.cancel_scope.cancel()
    assert model.closed


async def test_a_model_need_not_be_a_generator() -> None:
    """`LanguageModel`: any iterator."""

    class Iterator:
        def __init__(self) -> None:
            self.left: list[ModelPart] = [TextDelta("a"), FINISH]

        def __aiter__(self) -> Iterator:
            return self

        async def __anext__(self) -> ModelPart:
            return self.left.pop(0)

    class Plain(Model):
        def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
            self.closed = True
            return cast("AsyncIterator[ModelPart]", Iterator())

    assert (await read(Plain())).parts == [TextPart("a")]
