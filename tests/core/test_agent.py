"""The agent loop through its public door: what is sent, what the model was asked, what the log and the feed hold."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import anyio
import pytest

from ishiki.core.agent import Agent
from ishiki.core.entries import Entry
from ishiki.core.events import AgentEvent, MessageAppended, TurnAborted, TurnDone, TurnFailed
from ishiki.core.messages import AssistantMessage, TextPart, ToolMessage, UserMessage
from ishiki.core.model import LanguageModel, ModelRequest
from ishiki.core.plugin import AgentPlugin, StepResult
from ishiki.core.store import MemoryStore
from ishiki.core.tool import Tool, ToolContext, ToolSet
from ishiki.core.turn import TurnLimits
from ishiki.errors import AgentBusyError, AgentStoppedError, ModelError, ModelErrorKind, ToolError
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.scripted_model import ScriptedAnswer, ScriptedModel, call, saying, text


class Tools(AgentPlugin):
    """Contributes tools and, for `finish`, the end of the turn."""

    name = "test tools"

    def __init__(self, tools: ToolSet, ends_on: str = "") -> None:
        self.tools = tools
        self.ends_on = ends_on

    def extend_tools(self, turn_id: str) -> ToolSet:
        return self.tools

    def on_step_finish(self, result: StepResult) -> bool | None:
        called = [part.tool_name for part in result.assistant.tool_calls]
        return False if self.ends_on and self.ends_on in called else None


@asynccontextmanager
async def running(
    model: LanguageModel, *, plugins: Sequence[AgentPlugin] = (), limits: TurnLimits | None = None
) -> AsyncGenerator[Agent]:
    """Serve an agent over a store in memory."""
    agent = Agent("test", model=model, store=MemoryStore(), plugins=plugins, limits=limits)
    async with anyio.create_task_group() as group:
        await group.start(agent.serve)
        yield agent
        await agent.stop()


def roles(entries: Sequence[Entry]) -> list[str]:
    """Return the roles of the messages among `entries`, in order."""
    return [entry.message.role for entry in entries if entry.message is not None]


def texts(entries: Sequence[Entry]) -> list[str]:
    """Return the texts of user and assistant messages, in order."""
    found: list[str] = []
    for entry in entries:
        match entry.message:
            case UserMessage(content=str() as content):
                found.append(content)
            case AssistantMessage() as message:
                found.append(message.text)
            case _:
                pass
    return found


def echo_tool() -> Tool:
    """Return a tool that returns its argument."""

    def execute(arguments: JsonObject, context: ToolContext) -> JsonValue:
        return arguments.get("value")

    return Tool("Returns its value.", {"type": "object", "properties": {"value": {}}, "required": ["value"]}, execute)


async def test_a_sent_message_gets_one_turn_with_its_answer_in_the_log() -> None:
    """Reference, turn and step life cycle."""
    model = ScriptedModel([text("hello")])
    async with running(model) as agent:
        events = [event async for event in agent.run(UserMessage("hi"))]
        assert texts(agent.store.window()) == ["hi", "hello"]
        assert [entry.json_data.get("type") for entry in agent.store.window() if entry.type == "event"] == [
            "turn.start",
            "turn.done",
        ]
    assert [event.type for event in events if not isinstance(event, MessageAppended)] == [
        "turn.queued",
        "turn.start",
        "turn.step",
        "turn.done",
    ]


async def test_tool_calls_go_on_until_the_model_stops_calling() -> None:
    """Reference, default continue rule; results are stored with their calls in one batch."""
    model = ScriptedModel([call("echo", {"value": 7}), text("done")])
    async with running(model, plugins=[Tools({"echo": echo_tool()})]) as agent:
        agent.send(UserMessage("go"))
        await agent.wait()
        assert roles(agent.store.window()) == ["user", "assistant", "tool", "assistant"]
        result = next(entry.message for entry in agent.store.window() if isinstance(entry.message, ToolMessage))
        assert result.content[0].output.value == 7
    assert len(model.requests) == 2


async def test_results_stand_in_call_order_and_sequential_tools_run_in_call_order() -> None:
    """Design, section 2: calls run concurrently, sequential ones in call order, results are stored in call order."""
    order: list[str] = []
    fast_done = anyio.Event()

    async def slow(arguments: JsonObject, context: ToolContext) -> JsonValue:
        await fast_done.wait()
        order.append("slow")
        return "slow"

    async def fast(arguments: JsonObject, context: ToolContext) -> JsonValue:
        order.append("fast")
        fast_done.set()
        return "fast"

    def say(arguments: JsonObject, context: ToolContext) -> JsonValue:
        order.append(f"say {arguments['n']}")
        return arguments["n"]

    schema: JsonObject = {"type": "object"}
    tools = {
        "slow": Tool("slow", schema, slow),
        "fast": Tool("fast", schema, fast),
        "say": Tool("say", schema, say, sequential=True),
    }
    step = call("slow", {}) + call("say", {"n": 1}) + call("fast", {}) + call("say", {"n": 2})
    model = ScriptedModel([step, text("")])
    async with running(model, plugins=[Tools(tools)]) as agent:
        agent.send(UserMessage("go"))
        with anyio.fail_after(5):
            await agent.wait()
        result = next(entry.message for entry in agent.store.window() if isinstance(entry.message, ToolMessage))
    assert [part.output.value for part in result.content] == ["slow", 1, "fast", 2]
    assert [name for name in order if name.startswith("say")] == ["say 1", "say 2"]


@pytest.mark.parametrize(
    ("arguments", "part_of_text"),
    [
        ('{"value": 1', "not valid JSON"),
        ("[1]", "JSON object"),
        ('{"other": 1}', "value"),
        ("null", "value"),
    ],
)
async def test_arguments_that_do_not_fit_never_reach_the_tool(arguments: str, part_of_text: str) -> None:
    """Design, section 2: what a model returns is untrusted."""
    ran: list[JsonObject] = []

    def execute(given: JsonObject, context: ToolContext) -> JsonValue:
        ran.append(given)
        return None

    schema: JsonObject = {"type": "object", "properties": {"value": {}}, "required": ["value"]}
    model = ScriptedModel([call("strict", arguments), text("sorry")])
    async with running(model, plugins=[Tools({"strict": Tool("strict", schema, execute)})]) as agent:
        agent.send(UserMessage("go"))
        await agent.wait()
        result = next(entry.message for entry in agent.store.window() if isinstance(entry.message, ToolMessage))
        assert result.content[0].output.type == "error-text"
        assert part_of_text in cast("str", result.content[0].output.value)
        assert texts(agent.store.window())[-1] == "sorry"
    assert ran == []


async def test_a_tool_that_raises_or_hangs_is_told_to_the_model_and_the_turn_goes_on() -> None:
    """Reference, tool execution; the limit is design section 5's tool_s."""

    def broken(arguments: JsonObject, context: ToolContext) -> JsonValue:
        raise ToolError("the shelf is empty")

    async def hangs(arguments: JsonObject, context: ToolContext) -> JsonValue:
        await anyio.Event().wait()
        return None

    schema: JsonObject = {"type": "object"}
    tools = {"broken": Tool("broken", schema, broken), "hangs": Tool("hangs", schema, hangs, limit_s=0.01)}
    model = ScriptedModel([call("broken", {}) + call("hangs", {}) + call("nowhere", {}), text("ok")])
    async with running(model, plugins=[Tools(tools)]) as agent:
        agent.send(UserMessage("go"))
        await agent.wait()
        result = next(entry.message for entry in agent.store.window() if isinstance(entry.message, ToolMessage))
    values = [cast("str", part.output.value) for part in result.content]
    assert values[0] == "the shelf is empty"
    assert "did not return" in values[1]
    assert "There is no tool 'nowhere'" in values[2]


async def test_call_ids_of_the_model_are_replaced_by_unique_ones_of_ours() -> None:
    """Design, section 2: equal, reused and over-long call ids are legal from a model."""
    model = ScriptedModel([call("echo", {"value": 1}, "x" * 90) + call("echo", {"value": 2}, "x" * 90), text("")])
    async with running(model, plugins=[Tools({"echo": echo_tool()})]) as agent:
        agent.send(UserMessage("go"))
        await agent.wait()
        message = next(entry.message for entry in agent.store.window() if isinstance(entry.message, AssistantMessage))
    ids = [part.tool_call_id for part in message.tool_calls]
    assert len(set(ids)) == 2
    assert all(0 < len(call_id) <= 64 for call_id in ids)


async def test_a_message_during_a_step_joins_and_is_read_by_the_next_step() -> None:
    """Reference, joined messages: order user, assistant, tool, user(joined), assistant, user(deferred)."""
    model = ScriptedModel([call("echo", {"value": 1}), text("seen")])
    model.hold()
    async with running(model, plugins=[Tools({"echo": echo_tool()})]) as agent:
        agent.send(UserMessage("first"))
        await model.wait_requests(1)
        agent.send(UserMessage("deferred"), trigger=False)
        agent.send(UserMessage("joined"), trigger=False, if_busy="join")
        model.release()
        await agent.wait()
        assert roles(agent.store.window()) == ["user", "assistant", "tool", "user", "assistant", "user"]
        assert texts(agent.store.window()) == ["first", "", "joined", "seen", "deferred"]
    last = [message for message in model.requests[1].messages if isinstance(message, UserMessage)]
    assert [message.content for message in last] == ["first", "joined"]


async def test_a_joined_fact_is_written_at_arrival_and_announced_behind_the_batch() -> None:
    """Design, section 3: joined facts are durable at once."""
    model = ScriptedModel([text("done")])
    model.hold()
    seen: list[str] = []
    async with running(model) as agent:
        agent.feed.subscribe("agent", lambda event: seen.append(describe(event)))
        agent.send(UserMessage("first"))
        await model.wait_requests(1)
        _, receipt = agent.submit(UserMessage("joined"))
        assert receipt is not None
        await receipt.wait()
        assert "joined" in texts(agent.store.window())
        assert "message.appended joined" not in seen
        model.release()
        await agent.wait()
    assert seen.index("message.appended done") < seen.index("message.appended joined") < seen.index("turn.step")


def describe(event: AgentEvent) -> str:
    """Return an event's type, with the text of an appended message."""
    if not isinstance(event, MessageAppended):
        return event.type
    match event.message:
        case UserMessage(content=str() as content):
            return f"{event.type} {content}"
        case AssistantMessage(content=[TextPart(content)]):
            return f"{event.type} {content}"
        case _:
            return event.type


async def test_a_wake_whose_message_a_later_step_has_read_starts_no_second_turn() -> None:
    """Design, section 3, pending wake."""
    model = ScriptedModel([call("echo", {"value": 1}), text("one"), text("two")])
    model.hold()
    async with running(model, plugins=[Tools({"echo": echo_tool()})]) as agent:
        agent.feed.subscribe("agent", lambda event: wake_on_user(agent, event))
        agent.send(UserMessage("first"), trigger=False)
        await model.wait_requests(1)
        agent.send(UserMessage("second"), trigger=False, if_busy="join")
        model.release()
        await agent.wait()
    assert len(model.requests) == 2


async def test_a_wake_that_no_step_has_read_starts_exactly_one_more_turn() -> None:
    """Design, section 3, pending wake: the message joined the last step."""
    model = ScriptedModel([text("one"), text("two")])
    model.hold()
    async with running(model) as agent:
        agent.feed.subscribe("agent", lambda event: wake_on_user(agent, event))
        agent.send(UserMessage("first"), trigger=False)
        await model.wait_requests(1)
        for number in range(5):
            agent.send(UserMessage(f"later {number}"), trigger=False, if_busy="join")
        model.release()
        await agent.wait()
        assert texts(agent.store.window())[-1] == "two"
    assert len(model.requests) == 2


def wake_on_user(agent: Agent, event: AgentEvent) -> None:
    """Wake on every user message, as a wakeup engine would."""
    if isinstance(event, MessageAppended) and isinstance(event.message, UserMessage):
        agent.continue_()


async def test_prompts_of_merged_wakes_become_one_opening_message() -> None:
    """Specification, agent.continue: prompts merge with '; '."""
    model = ScriptedModel([text("a"), text("b")])
    model.hold()
    async with running(model) as agent:
        first = agent.continue_("start")
        await model.wait_requests(1)
        assert [agent.continue_("kettle"), agent.continue_(), agent.continue_("door")] == [None, None, None]
        assert not agent.is_idle()
        model.release()
        await agent.wait()
        assert texts(agent.store.window()) == ["start", "a", "kettle; door", "b"]
    assert first is not None


async def test_a_failing_model_ends_the_turn_and_the_next_one_works() -> None:
    """Design, section 2: a failed turn is a log line, an entry, and silence."""
    model = ScriptedModel([ModelError("down", kind="unavailable", retryable=True), text("back")])
    async with running(model) as agent:
        events = [event async for event in agent.run(UserMessage("one"))]
        assert isinstance(events[-1], TurnFailed)
        assert events[-1].error.code == "model_unavailable"
        events = [event async for event in agent.run(UserMessage("two"))]
        assert isinstance(events[-1], TurnDone)
        assert texts(agent.store.window()) == ["one", "two", "back"]


async def test_a_model_that_says_nothing_in_time_fails_the_turn() -> None:
    """Design, section 5, limits first_part_s."""
    model = ScriptedModel([text("never")])
    model.hold()
    async with running(model, limits=TurnLimits(first_part_s=0.01)) as agent:
        events = [event async for event in agent.run(UserMessage("one"))]
        assert isinstance(events[-1], TurnFailed)
        assert events[-1].error.code == "model_timeout"


async def test_an_answer_without_its_finish_is_a_failed_turn() -> None:
    """Design, section 2: a cut stream is no answer."""
    model = ScriptedModel([saying("half a sen", finish=False)])
    async with running(model) as agent:
        events = [event async for event in agent.run(UserMessage("one"))]
        assert isinstance(events[-1], TurnFailed)
        assert events[-1].error.code == "model_cut"


async def test_a_refused_line_is_withheld_and_the_turn_is_answered_without_it() -> None:
    """Design, section 2: a refused input must not poison the channel."""
    refusal = ModelError("bad words", kind="refused", retryable=False, status=400)
    said = ["good", "POISON", "good too", "good still"]
    model = ScriptedModel([text("fine"), refusal, text("again"), refusal, text("and again"), text("once more")])
    async with running(model) as agent:
        for line in said:
            agent.send(UserMessage(line))
            await agent.wait()
        assert [line for line in texts(agent.store.window()) if line in said] == said
    heard = [
        [message.content for message in one.messages if isinstance(message, UserMessage)] for one in model.requests
    ]
    assert heard == [
        ["good"],
        ["good", "POISON"],
        ["good", "[withheld]"],
        # Once more, for a refusal may have been an error; then for a day no more.
        ["good", "POISON", "good too"],
        ["good", "[withheld]", "good too"],
        ["good", "[withheld]", "good too", "good still"],
    ]


async def test_a_line_that_was_refused_in_error_is_read_in_the_next_turn_and_in_every_further_one() -> None:
    """Issue, models: what is withheld in error comes back when the same request passes."""
    refusal = ModelError("bad words", kind="refused", retryable=False, status=400)
    model = ScriptedModel([text("fine"), refusal, *(text("again") for _ in range(4))])
    async with running(model) as agent:
        for line in ("good", "innocent", "good too", "good still"):
            agent.send(UserMessage(line))
            await agent.wait()
    contents = [str(request.messages) for request in model.requests]
    assert ["innocent" in one for one in contents] == [False, True, False, True, True]
    assert not any("[withheld]" in one for one in contents[3:])


async def test_a_line_that_was_refused_in_error_is_not_kept_out_for_a_day_by_a_server_that_refuses_everything() -> None:
    """Bug: the turn that asked for it again met an outage, which counted as a second refusal of that line."""
    refusal = ModelError("bad words", kind="refused", retryable=False, status=400)
    outage = ModelError("down", kind="unavailable", retryable=True, status=503)
    model = ScriptedModel([text("fine"), refusal, text("again"), outage, outage, text("back"), text("and on")])
    async with running(model) as agent:
        for line in ("good", "innocent", "while it is down", "afterwards", "at last"):
            agent.send(UserMessage(line))
            await agent.wait()
    contents = [str(request.messages) for request in model.requests]
    assert ["innocent" in one for one in contents] == [False, True, False, True, False, True, True]


@pytest.mark.parametrize("kind", ["bad_request", "refused", "context_length"])
async def test_after_two_turns_that_were_refused_the_past_is_left_out_and_comes_back_when_it_is_taken(
    kind: ModelErrorKind,
) -> None:
    """Issue, models: never a channel that stays silent, and nothing that was said meanwhile is lost."""
    is_ill = True

    def respond(request: ModelRequest) -> ScriptedAnswer:
        if is_ill and "poisoned past" in str(request.messages):
            return ModelError("no", kind=kind, retryable=False, status=400)
        return text("fine")

    model = ScriptedModel([text("poisoned past")], responder=respond)
    async with running(model) as agent:
        for line in ("hello", "first", "second", "third", "fourth"):
            agent.send(UserMessage(line))
            await agent.wait()
        ends = [entry.json_data["type"] for entry in agent.store.window() if entry.type == "event"]
        if kind != "refused":  # what is new is left out at once there
            assert ends.count("turn.failed") == 2
            assert "poisoned past" not in str(model.requests[-1].messages)
            assert all(line in str(model.requests[-1].messages) for line in ("first", "second", "third", "fourth"))
        assert ends[-1] == "turn.done"
        is_ill = False
        agent.set_model(other := ScriptedModel([text("fine")] * 2, ref="another"))
        agent.send(UserMessage("fifth"))
        await agent.wait()
        (request,) = other.requests
        assert all(line in str(request.messages) for line in ("poisoned past", "hello", "first", "fourth", "fifth"))


async def test_an_interrupted_turn_is_recorded_as_aborted_and_waiting_ones_are_dropped() -> None:
    """Reference, interrupt."""
    model = ScriptedModel([text("never"), text("after")])
    model.hold()
    async with running(model) as agent:
        ended: list[AgentEvent] = []
        agent.feed.subscribe("agent", lambda event: ended.append(event) if isinstance(event, TurnAborted) else None)
        first, second = agent.send(UserMessage("one")), agent.send(UserMessage("two"))
        await model.wait_requests(1)
        agent.continue_("pending")
        await agent.interrupt("enough")
        assert agent.is_idle()
        assert [(cast("TurnAborted", event).turn_id, cast("TurnAborted", event).reason) for event in ended] == [
            (second, "enough"),
            (first, "enough"),
        ]
        assert "one" in texts(agent.store.window())
    assert len(model.requests) == 1


async def test_a_stopped_agent_takes_nothing() -> None:
    """Reference, send: stopping raises."""
    async with running(ScriptedModel([])) as agent:
        await agent.stop()
        with pytest.raises(AgentStoppedError):
            agent.send(UserMessage("late"))
        with pytest.raises(AgentStoppedError):
            agent.continue_()


async def test_reject_raises_only_while_a_turn_runs() -> None:
    """Reference, send table."""
    model = ScriptedModel([text("a"), text("b")])
    model.hold()
    async with running(model) as agent:
        agent.send(UserMessage("one"), if_busy="reject")
        await model.wait_requests(1)
        with pytest.raises(AgentBusyError):
            agent.send(UserMessage("two"), if_busy="reject")
        model.release()
        await agent.wait()


async def test_two_plugins_with_one_tool_name_fail_the_turn_naming_both() -> None:
    """Specification: ToolConflictError enters turn.failed."""
    other = Tools({"echo": echo_tool()})
    other.name = "another"
    async with running(ScriptedModel([]), plugins=[Tools({"echo": echo_tool()}), other]) as agent:
        events = [event async for event in agent.run(UserMessage("go"))]
        assert isinstance(events[-1], TurnFailed)
        assert events[-1].error.code == "tool_conflict"
        assert "test tools" in events[-1].error.message
        assert "another" in events[-1].error.message


async def test_the_step_limit_ends_a_turn_normally() -> None:
    """Reference: hitting the cap ends as turn.done."""
    model = ScriptedModel([call("echo", {"value": n}) for n in range(5)])
    async with running(model, plugins=[Tools({"echo": echo_tool()})], limits=TurnLimits(max_steps=3)) as agent:
        events = [event async for event in agent.run(UserMessage("go"))]
        assert isinstance(events[-1], TurnDone)
    assert len(model.requests) == 3


async def test_a_listener_that_hangs_or_raises_holds_up_nobody_for_long() -> None:
    """Design, section 4: listeners that raise or hang are a warning and detached."""

    async def hang(event: AgentEvent) -> None:
        await anyio.Event().wait()

    def broken(event: AgentEvent) -> None:
        raise RuntimeError("listener")

    async with running(ScriptedModel([text("ok")]), limits=TurnLimits(hook_s=0.01)) as agent:
        agent.feed.subscribe("agent", hang)
        agent.feed.subscribe("agent", broken)
        agent.send(UserMessage("go"))
        with anyio.fail_after(5):
            await agent.wait()
        assert texts(agent.store.window()) == ["go", "ok"]


async def test_the_agents_state_survives_into_an_agent_over_the_same_entries() -> None:
    """Reference, state: the newest state entry is restored."""
    async with running(ScriptedModel([])) as agent:
        await agent.state.update({"mood": "calm"})
        window = agent.store.window()
    again = Agent("test", model=ScriptedModel([]), store=MemoryStore(window))
    assert again.state.get() == {"version": 1, "mood": "calm"}
