"""One turn: its requests, its limits, and what plugins may change in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import anyio
import pytest

from ishiki.core.agent import Agent
from ishiki.core.entries import WITHHELD, Entry
from ishiki.core.events import AgentEvent, MessageAppended, TurnDone, TurnFailed
from ishiki.core.messages import CustomMessage, Usage, UserMessage
from ishiki.core.model import Finish, ModelRequest
from ishiki.core.plugin import AgentPlugin, ContextRequest, StepOptions
from ishiki.core.slot import ModelSlot
from ishiki.core.store import MemoryStore
from ishiki.core.tool import Tool, ToolContext
from ishiki.core.turn import TurnLimits
from ishiki.errors import ModelError, ModelErrorKind
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.clock import FakeClock
from ishiki.testing.scripted_model import ScriptedAnswer, ScriptedModel, call, text

from .core_kit import Ear, Tools, echo, served, texts, tool_of, turn_events

STRICT = Tool(
    "Looks.",
    {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    lambda arguments, context: "nothing",
)


async def test_after_a_restart_only_what_is_new_since_the_last_answer_is_withheld() -> None:
    """Design, section 2; bug: with no good request in this process, the whole history was withheld for good."""
    store = MemoryStore()
    async with served(ScriptedModel([text("fine")]), store=store) as agent:
        agent.send(UserMessage("good"))
        await agent.wait()
    refused = ModelError("bad words", kind="refused", retryable=False)
    model = ScriptedModel([refused, text("again")])
    async with served(model, store=store) as agent:
        agent.send(UserMessage("POISON"))
        await agent.wait()
    contents = [message.content for message in model.requests[1].messages if isinstance(message, UserMessage)]
    assert contents == ["good", "[withheld]"]


@pytest.mark.parametrize(("kind", "tries"), [("refused", 2), ("context_length", 4), ("bad_request", 1)])
async def test_a_request_that_is_refused_again_fails_the_turn(kind: ModelErrorKind, tries: int) -> None:
    """Design, section 2: retried once without what is new, and with ever less where it is too long (our choice)."""
    error = ModelError("no", kind=kind, retryable=False)
    model = ScriptedModel([error] * 2 * tries)
    async with served(model) as agent:
        events = [event async for event in agent.run(UserMessage("hi"))]
        assert isinstance(events[-1], TurnFailed)
        assert len(model.requests) == tries
        await agent.wait()
        agent.continue_()
        await agent.wait()
        assert len(model.requests) == 2 * tries
        # What did not help is not marked: the fault is another one, and the history is still whole when it is mended.
        assert not [entry for entry in agent.store.window() if entry.type == WITHHELD]


def _refuses_poison(request: ModelRequest) -> ScriptedAnswer:
    if "POISON" in repr(request.messages):
        return ModelError("bad words", kind="refused", retryable=False)
    return text("fine")


async def test_what_a_tool_returned_is_withheld_where_it_is_refused() -> None:
    """Design, section 2: a refused input must not poison the channel; bug: only what people said was withheld."""
    tools = Tools({"look": tool_of(lambda arguments, context: "POISON")})
    model = ScriptedModel([call("look", {})], responder=_refuses_poison)
    async with served(model, plugins=[tools]) as agent:
        agent.send(UserMessage("look it up"))
        await agent.wait()
        assert turn_events(agent.store.window())[-1] == "turn.done"
        agent.send(UserMessage("and now?"))
        await agent.wait()
        assert turn_events(agent.store.window())[-1] == "turn.done"
    # The second turn asks once whether it is taken now.
    assert len(model.requests) == 5
    assert "look it up" in str(model.requests[-1].messages)


async def test_own_words_that_are_refused_are_withheld_after_what_was_heard_did_not_help() -> None:
    """Our choice: a mind that has said the refused word itself is not muted for good, and forgets it last."""
    model = ScriptedModel([text("POISON")], responder=_refuses_poison)
    async with served(model) as agent:
        for line in ("say it", "and now?", "and then?"):
            agent.send(UserMessage(line))
            await agent.wait()
        assert turn_events(agent.store.window()).count("turn.done") == 3
    # The third turn asks once whether they are taken now.
    assert len(model.requests) == 1 + 3 + 2
    assert str(model.requests[-1].messages).count("[withheld]") == 2


async def test_what_a_content_filter_cut_is_a_refusal_and_nothing_of_it_runs() -> None:
    """Design, section 2: content_filter blames the request; bug: it was taken for a whole answer."""
    ran: list[JsonObject] = []
    tools = Tools({"look": tool_of(lambda arguments, context: ran.append(arguments))})
    filtered = [*call("look", {})[:-1], Finish("content-filter", Usage())]
    model = ScriptedModel([filtered, text("fine")])
    async with served(model, plugins=[tools]) as agent:
        agent.send(UserMessage("bad"))
        await agent.wait()
        assert texts(agent.store.window()) == ["bad", "fine"]
    assert ran == []
    assert [message.content for message in model.requests[1].messages if isinstance(message, UserMessage)] == [
        "[withheld]"
    ]


class Scales(AgentPlugin):
    """Notes the budget's scale of each projection."""

    def __init__(self) -> None:
        self.scales: list[float] = []

    def transform_entries(self, entries: Sequence[Entry], request: ContextRequest) -> None:
        self.scales.append(request.budget_scale)


async def test_a_request_that_is_too_long_is_asked_again_with_half_the_budget() -> None:
    """Design, section 2: context_length_exceeded halves the budget and retries once."""
    scales = Scales()
    model = ScriptedModel([ModelError("long", kind="context_length", retryable=False), text("ok")])
    async with served(model, plugins=[scales]) as agent:
        agent.send(UserMessage("hi"))
        await agent.wait()
        assert texts(agent.store.window()) == ["hi", "ok"]
    assert scales.scales == [1.0, 0.5]


class Choice(AgentPlugin):
    """Demands a tool, or offers only some."""

    def __init__(self, change: Callable[[StepOptions], StepOptions | None]) -> None:
        self.change = change

    def prepare_step(self, options: StepOptions) -> StepOptions | None:
        return self.change(options)


async def test_a_model_that_ignores_a_demanded_tool_fails_the_turn() -> None:
    """Reference: enforced toolChoice that the model ignores."""
    demand = Choice(lambda options: replace(options, tool_choice="required"))
    async with served(ScriptedModel([text("no")]), plugins=[demand, Tools({"echo": tool_of(echo)})]) as agent:
        events = [event async for event in agent.run(UserMessage("hi"))]
        assert isinstance(events[-1], TurnFailed)
        assert events[-1].error.code == "tool_choice_ignored"


async def test_a_tool_that_was_not_offered_cannot_be_called() -> None:
    """Reference: activeTools; our choice: what the model was not shown does not run either."""
    narrow = Choice(lambda options: replace(options, active_tools=frozenset({"echo"}), runtime_context={"n": 1}))
    tools = {"echo": tool_of(echo), "hidden": tool_of(echo)}
    model = ScriptedModel([call("hidden", {"value": "secret"}), text("")])
    async with served(model, plugins=[Tools(tools), narrow]) as agent:
        agent.send(UserMessage("hi"))
        await agent.wait()
    assert [spec.name for spec in model.requests[0].tools] == ["echo"]
    assert "There is no tool 'hidden'. The tools are: echo." in str(model.requests[1].messages)


async def test_a_turn_that_takes_too_long_fails_and_a_plugins_own_timeout_is_told_as_what_it_is() -> None:
    """Design, section 5, limits turn_s; bug: any TimeoutError was told as the turn's."""

    class TimesOut(AgentPlugin):
        async def extend_instructions(self, turn_id: str) -> str:
            raise TimeoutError("a socket of its own")

    model = ScriptedModel([])
    model.hold()
    async with served(model, limits=TurnLimits(turn_s=0.02)) as agent:
        events = [event async for event in agent.run(UserMessage("hi"))]
        assert isinstance(events[-1], TurnFailed)
        assert events[-1].error.code == "turn_timeout"
    async with served(model, plugins=[TimesOut()]) as agent:
        events = [event async for event in agent.run(UserMessage("hi"))]
        assert isinstance(events[-1], TurnFailed)
        assert events[-1].error.name == "TimeoutError"


async def test_instructions_are_paragraphs_and_the_model_can_be_changed_between_steps() -> None:
    """Reference: paragraphs joined with a blank line; setModel takes effect at the next step."""

    class Says(AgentPlugin):
        def __init__(self, line: str | None) -> None:
            self.line = line

        def extend_instructions(self, turn_id: str) -> str | None:
            return self.line

    other = ScriptedModel([text("other")], ref="test:other")

    def change(arguments: JsonObject, context: ToolContext) -> JsonValue:
        agent.set_model(other)
        return None

    first = ScriptedModel([call("change", {})])
    plugins = [Says("one\n"), Says(None), Says(" \n"), Says("two"), Tools({"change": tool_of(change)})]
    async with served(first, plugins=plugins) as agent:
        assert agent.model.ref == "test:scripted"
        agent.send(UserMessage("hi"))
        await agent.wait()
        assert agent.model is other
        assert texts(agent.store.window()) == ["hi", "", "other"]
    assert first.requests[0].instructions == "one\n\ntwo"


async def test_what_is_sent_is_dated_and_told_with_its_marks() -> None:
    """Design, section 2: the notification carries stale and self; a message without a time gets that of now."""
    clock = FakeClock()
    async with served(ScriptedModel([]), clock=clock) as agent:
        ear = Ear(agent)
        pair = [CustomMessage("fact", {}), CustomMessage("attachment", {}, timestamp=5)]
        agent.send(pair, trigger=False, is_stale=True, is_self=True)
        await agent.written()
        events = [event for event in ear.events if isinstance(event, MessageAppended)]
        assert [(event.is_stale, event.is_self) for event in events] == [(True, True)] * 2
        assert [event.message.timestamp for event in events] == [clock.now_ms(), 5]


async def test_the_models_wrapper_is_called_once_and_sees_every_request() -> None:
    """Design, section 4: wrap runs once per runtime."""
    wrapped: list[object] = []
    requests: list[ModelRequest] = []
    model = ScriptedModel([text("a"), text("b")])

    class Wrapper(ScriptedModel):
        def __init__(self) -> None:
            super().__init__([], responder=self._answer)

        def _answer(self, request: ModelRequest) -> ScriptedAnswer:
            requests.append(request)
            return text("wrapped")

    def wrap(inner: object) -> Wrapper:
        wrapped.append(inner)
        return Wrapper()

    agent = Agent("test", model=model, store=MemoryStore(), wrap=wrap)
    async with anyio.create_task_group() as group:
        await group.start(agent.serve)
        for _ in range(2):
            agent.continue_()
            await agent.wait()
        await agent.stop()
    assert len(wrapped) == 1
    assert len(requests) == 2


async def test_a_slot_says_of_itself_what_its_target_says() -> None:
    """Design, section 4: a stable ModelSlot."""
    slot = ModelSlot(ScriptedModel([], ref="test:one"))
    assert (slot.ref, slot.info.ref) == ("test:one", "test:one")
    slot.target = ScriptedModel([], ref="test:two")
    assert (slot.ref, slot.info.ref) == ("test:two", "test:two")


async def test_a_listener_may_await_what_it_sends_up_to_its_limit() -> None:
    """Reference: a listener that blocks, blocks the loop; ours: for hook_s at most."""

    async def record(event: AgentEvent) -> None:
        if isinstance(event, TurnDone):
            waiting: Awaitable[None] = agent.record(Entry("note", {}, 1))
            await waiting

    async with served(ScriptedModel([text("a")]), limits=TurnLimits(hook_s=0.01)) as agent:
        agent.feed.subscribe("agent", record)
        agent.send(UserMessage("hi"))
        with anyio.fail_after(5):
            await agent.wait()
        assert [entry.type for entry in agent.store.window()][-1] == "note"


@pytest.mark.parametrize(
    ("name", "arguments"), [("say", {"text": "hi"}), ("look", {"wrong": 1}), ("look", {}), ("", {})]
)
async def test_three_steps_whose_calls_were_all_refused_end_the_turn(
    name: str, arguments: JsonObject, caplog: pytest.LogCaptureFixture
) -> None:
    """Our choice; bug: a model that called what is not there was asked up to its limit of 20 steps."""
    model = ScriptedModel([], responder=lambda request: call(name, arguments))
    async with served(model, plugins=[Tools({"look": STRICT})]) as agent:
        agent.send(UserMessage("look it up"))
        await agent.wait()
        assert turn_events(agent.store.window())[-1] == "turn.done"
    assert len(model.requests) == 3
    (told,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "in 3 steps in a row every tool call was refused before it ran" in told.getMessage()


async def test_a_call_that_runs_begins_the_count_anew() -> None:
    """Our choice: a model that mends itself, or calls something that is there beside it, goes on."""
    wrong, right = call("say", {}), call("look", {"place": "here"})
    both = [*right[:-1], *wrong]
    model = ScriptedModel([wrong, wrong, right, wrong, both, wrong, wrong, text("done")])
    async with served(model, plugins=[Tools({"look": STRICT})]) as agent:
        agent.send(UserMessage("look it up"))
        await agent.wait()
    assert len(model.requests) == 8
