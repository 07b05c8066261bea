"""The tool calls of one step: what runs, in which order, and what the model is told."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from functools import partial
from pathlib import PurePosixPath
from typing import NoReturn, cast
from uuid import UUID

import anyio
import pytest

from ishiki.core.clock import SystemClock
from ishiki.core.events import AgentEvent, ToolDone, ToolFailed
from ishiki.core.feed import AgentFeed
from ishiki.core.messages import ToolCallPart, ToolOutput, UserMessage
from ishiki.core.model import ToolCall
from ishiki.core.plugin import AgentPlugin, Block, Replace, ToolCallInfo, ToolDecision, ToolOutcome
from ishiki.core.signal import CancelSignal
from ishiki.core.tool import Tool, ToolContext, ToolInvocation, ToolSet
from ishiki.core.toolrun import ToolRunner, parse_arguments
from ishiki.errors import ToolError
from ishiki.jsonvalue import JsonObject, JsonValue, normalise

from .core_kit import ANY, echo, tool_of


async def _record(*entries: object) -> None:
    raise AssertionError("no tool here records")


@dataclass
class Bench:
    """A runner with the events of its calls."""

    tools: ToolSet
    plugins: Sequence[AgentPlugin] = ()
    limit_s: float = 5.0
    events: list[AgentEvent] = field(default_factory=list[AgentEvent])

    async def run(self, *calls: tuple[str, JsonValue], problem: str = "") -> list[ToolOutput]:
        """Run `calls`, a name and an input each, and return their outputs."""
        feed = AgentFeed()
        feed.subscribe("agent", self.events.append)
        runner = ToolRunner(
            "turn", self.tools, self.plugins, feed, SystemClock(), CancelSignal(), _record, self.limit_s, {"extra": 1}
        )
        parts = [(ToolCallPart(f"c{i}", name, given), problem) for i, (name, given) in enumerate(calls)]
        with anyio.fail_after(5):
            results = await runner.run(parts, step=3, messages=[UserMessage("go")])
        assert [part.tool_call_id for part in results] == [part.tool_call_id for part, _ in parts]
        return [part.output for part in results]

    def types(self) -> list[str]:
        """Return the types of the events."""
        return [event.type for event in self.events]


async def test_a_call_is_told_where_it_runs_and_its_result_is_text_or_json() -> None:
    """Reference, tool execution."""
    seen: list[ToolContext] = []

    def look(arguments: JsonObject, context: ToolContext) -> JsonValue:
        seen.append(context)
        return arguments.get("value")

    bench = Bench({"look": tool_of(look)})
    assert await bench.run(("look", {"value": "text"}), ("look", {"value": [1]})) == [
        ToolOutput("text", "text"),
        ToolOutput("json", [1]),
    ]
    assert bench.types() == ["tool.start", "tool.done", "tool.start", "tool.done"]
    assert (seen[0].tool_call_id, seen[0].turn_id, seen[0].step, seen[0].extra) == ("c0", "turn", 3, {"extra": 1})


async def test_sequential_calls_wait_for_each_other_and_others_run_beside_them() -> None:
    """Design, section 2."""
    order: list[str] = []
    first_may_end = anyio.Event()

    async def first(arguments: JsonObject, context: ToolContext) -> JsonValue:
        await first_may_end.wait()
        order.append("first")
        return None

    def second(arguments: JsonObject, context: ToolContext) -> JsonValue:
        order.append("second")
        return None

    def beside(arguments: JsonObject, context: ToolContext) -> JsonValue:
        order.append("beside")
        first_may_end.set()
        return None

    tools = {
        "first": tool_of(first, sequential=True),
        "second": tool_of(second, sequential=True),
        "beside": tool_of(beside),
    }
    await Bench(tools).run(("first", {}), ("second", {}), ("beside", {}))
    assert order == ["beside", "first", "second"]


STRICT = Tool("strict", {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, echo)


@pytest.mark.parametrize(
    ("name", "given", "problem", "told"),
    [
        ("nothing", {}, "", "There is no tool 'nothing'. The tools are: strict, elsewhere, broken."),
        ("elsewhere", {}, "", "cannot be run here"),
        ("strict", {}, "arguments are broken", "arguments are broken"),
        ("strict", {"n": "one"}, "", "n: 'one' is not of type 'integer'"),
        ("strict", {}, "", "arguments: 'n' is a required property"),
        ("broken", {}, "", "there is no type 'objekt'"),
    ],
)
async def test_what_cannot_run_is_answered_with_the_reason(
    name: str, given: JsonValue, problem: str, told: str
) -> None:
    """Design, section 2: what a model returns is untrusted."""
    tools = {"strict": STRICT, "elsewhere": Tool("x", ANY), "broken": Tool("x", {"type": "objekt"}, echo)}
    bench = Bench(tools)
    (output,) = await bench.run((name, given), problem=problem)
    assert output.type == "error-text"
    assert told in cast("str", output.value)
    assert bench.types() == ["tool.failed"]


async def test_with_no_tools_at_all_the_model_is_told_so() -> None:
    """Our choice."""
    (output,) = await Bench({}).run(("x", {}))
    assert output.value == "There is no tool 'x'. The tools are: none."


class Class:
    """Has no JSON form."""


async def test_what_a_tool_raises_or_returns_wrongly_is_told_to_the_model(caplog: pytest.LogCaptureFixture) -> None:
    """Reference: throw becomes error-text; ours: a result without a JSON form, and one that breaks its schema."""

    def told(arguments: JsonObject, context: ToolContext) -> JsonValue:
        raise ToolError("the shelf is empty")

    def raises(arguments: JsonObject, context: ToolContext) -> JsonValue:
        raise KeyError("bug")

    async def times_out(arguments: JsonObject, context: ToolContext) -> JsonValue:
        raise TimeoutError("its own socket")

    async def hangs(arguments: JsonObject, context: ToolContext) -> JsonValue:
        await anyio.Event().wait()
        return None

    def odd(arguments: JsonObject, context: ToolContext) -> JsonValue:
        return cast("JsonValue", Class())

    tools = {
        "told": tool_of(told),
        "raises": tool_of(raises),
        "times_out": tool_of(times_out),
        "hangs": Tool("x", ANY, hangs, limit_s=0.01),
        "odd": tool_of(odd),
        "wrong": Tool("x", ANY, echo, output_schema={"type": "integer"}),
    }
    bench = Bench(tools)
    outputs = await bench.run(*((name, {"value": "text"}) for name in tools))
    assert {output.type for output in outputs} == {"error-text"}
    texts = [cast("str", output.value) for output in outputs]
    assert texts[:4] == [
        "the shelf is empty",
        "KeyError: 'bug'",
        "TimeoutError: its own socket",
        "The call did not return within 0.01 seconds.",
    ]
    assert "a value of type Class has no JSON form" in texts[4]
    assert "output schema" in texts[5]
    codes = {event.tool_name: event.error.code for event in bench.events if isinstance(event, ToolFailed)}
    assert codes["hangs"] == "tool_timeout"
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3


async def test_a_tools_own_output_is_taken_and_what_it_raises_is_the_tools_error() -> None:
    """Bug: an error in to_model_output failed the whole turn."""

    async def mine(invocation: ToolInvocation) -> ToolOutput:
        return ToolOutput("text", f"{invocation.tool_call_id} {invocation.output} {float('nan')}")

    def odd(invocation: ToolInvocation) -> ToolOutput:
        return ToolOutput("json", cast("JsonValue", Class()))

    tools = {"mine": Tool("x", ANY, echo, to_model_output=mine), "odd": Tool("x", ANY, echo, to_model_output=odd)}
    bench = Bench(tools)
    outputs = await bench.run(("mine", {"value": 5}), ("odd", {"value": 5}))
    assert outputs[0] == ToolOutput("text", "c0 5 nan")
    assert outputs[1].type == "error-text"
    assert bench.types() == ["tool.start", "tool.done", "tool.start", "tool.failed"]


class Guard(AgentPlugin):
    """Decides by the tool's name."""

    name = "guard"

    def __init__(self) -> None:
        self.decisions: list[ToolDecision] = []

    def before_tool_call(self, decision: ToolDecision, call: ToolCallInfo) -> ToolDecision | None:
        self.decisions.append(decision)
        match call.args.get("do"):
            case "block":
                return Block("not now")
            case "replace":
                return Replace({"n": 7, "value": "other"})
            case "spoil":
                return Replace({"n": "seven"})
            case "raise":
                raise RuntimeError("guard is broken")
            case _:
                return None


class Marker(AgentPlugin):
    """Rewrites outcomes; raises when it is told to."""

    name = "marker"

    async def after_tool_call(self, outcome: ToolOutcome) -> ToolOutcome | None:
        if outcome.call.args.get("do") == "raise":
            raise RuntimeError("marker is broken")
        if outcome.is_error:
            return ToolOutcome(outcome.call, {"was": outcome.result}, is_error=True)
        return ToolOutcome(outcome.call, f"<{outcome.result}>", is_error=False)


async def test_plugins_block_replace_and_rewrite_calls_in_their_order() -> None:
    """Reference, hooks: before is a pipe over allow, block, replace; after may rewrite."""
    guard = Guard()
    tools = {"strict": Tool("x", STRICT.input_schema, echo)}
    bench = Bench(tools, [guard, AgentPlugin(), guard, Marker()])
    outputs = await bench.run(
        ("strict", {"n": 1, "do": "block"}),
        ("strict", {"n": 1, "do": "replace"}),
        ("strict", {"n": 1, "do": "spoil"}),
        ("strict", {"n": 1, "value": "same"}),
    )
    assert outputs[0] == ToolOutput("json", {"blocked": True, "reason": "not now"})
    assert outputs[1] == ToolOutput("text", "<other>")
    assert outputs[2].type == "error-text"
    assert outputs[3] == ToolOutput("text", "<same>")
    assert isinstance(guard.decisions[1], Block)
    done = [event for event in bench.events if isinstance(event, ToolDone)]
    assert [event.result for event in done] == ["<other>", "<same>"]


async def test_a_hook_that_raises_fails_its_call_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Bug: it failed the turn with an error of a task group. A guard that is broken lets nothing through."""
    ran: list[JsonValue] = []

    def run(arguments: JsonObject, context: ToolContext) -> JsonValue:
        ran.append(arguments.get("value"))
        return arguments.get("value")

    bench = Bench({"run": tool_of(run)}, [Guard(), Marker()])
    outputs = await bench.run(("run", {"do": "raise", "value": 1}), ("run", {"value": 2}))
    assert outputs == [ToolOutput("error-text", "RuntimeError: guard is broken"), ToolOutput("text", "<2>")]
    assert ran == [2]
    assert "after_tool_call of marker raised" in caplog.text


async def test_an_error_may_be_rewritten_as_json() -> None:
    """Reference: error-json."""

    def fails(arguments: JsonObject, context: ToolContext) -> JsonValue:
        raise ToolError("no \ud800")

    assert await Bench({"fails": tool_of(fails)}, [Marker()]).run(("fails", {})) == [
        ToolOutput("error-json", {"was": "no \ufffd"})
    ]


async def test_cancellation_is_passed_on_and_is_no_error_of_the_tool(caplog: pytest.LogCaptureFixture) -> None:
    """Reference: abort propagates as abort."""
    began = anyio.Event()

    def hang(arguments: JsonObject, context: ToolContext) -> Awaitable[JsonValue]:
        async def waiting() -> JsonValue:
            began.set()
            await anyio.Event().wait()
            return None

        return waiting()

    bench = Bench({"hang": tool_of(hang)})
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(partial(bench.run, ("hang", {})))
            await began.wait()
            group.cancel_scope.cancel()
    assert bench.types() == ["tool.start"]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("text", ["", " ", "null", '""', "[]", "{}"])
def test_no_arguments_at_all_are_an_empty_object(text: str) -> None:
    """Our choice: the ways in which models write that."""
    assert parse_arguments(ToolCall("c", "t", text)) == ({}, "")


@pytest.mark.parametrize(
    "text", ["{", '{"a": NaN}', "[" * 5000, '{"a": ' + "9" * 5000 + "}", '{"a":' * 200 + "1" + "}" * 200]
)
def test_what_is_no_json_is_kept_as_text_with_the_reason(text: str) -> None:
    """Design, section 2; bug: brackets without end, and constants that JSON does not have, were not expected."""
    value, problem = parse_arguments(ToolCall("c", "t", text))
    assert value == text
    assert "not valid JSON" in problem


def test_arguments_are_an_object_without_half_characters() -> None:
    """Bug: half of an emoji in an argument could not be sent back to the provider."""
    assert parse_arguments(ToolCall("c", "t", '{"a\\ud800": "\\ud83d", "b": 1e999}')) == (
        {"a\ufffd": "\ufffd", "b": None},
        "",
    )
    assert parse_arguments(ToolCall("c", "t", "[1]"))[1].startswith("The arguments have to be a JSON object")


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@dataclass
class Found:
    name: str
    colours: set[Colour]


def test_what_a_tool_returns_becomes_plain_json() -> None:
    """Our choice; the bug was that an IntEnum stayed one."""
    value = normalise({1: Found("x", {Colour.RED}), "level": Level.HIGH, "pair": (1.5, float("inf"))})
    assert value == {"1": {"name": "x", "colours": ["red"]}, "level": 3, "pair": [1.5, None]}
    assert type(cast("JsonObject", value)["level"]) is int
    deep: JsonValue = 1
    for _ in range(101):
        deep = [deep]
    with pytest.raises(TypeError, match="levels"):
        normalise(deep)


class Mute(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Odd:
    """A key, and an object, whose own text fails."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Closed(dict[str, object]):
    """A mapping that cannot be read."""

    def items(self) -> NoReturn:
        raise OSError("closed")


class Words(str):
    """A text that writes itself as something else."""

    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("no words")


def circle() -> object:
    """Return a list that holds itself."""
    items: list[object] = []
    items.append(items)
    return items


def tangle() -> object:
    """Return a small value that is exponentially large when it is written."""
    value: object = 1
    for _ in range(60):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (10**5000, hex(10**5000)),
        (-(10**5000), hex(-(10**5000))),
        ({"n": 10**5000, "ok": 1}, {"n": hex(10**5000), "ok": 1}),
        (10**4200, 10**4200),
        ([float("nan"), float("inf")], [None, None]),
        ({1}, [1]),
        (b"caf\xc3\xa9", "caf\u00e9"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (PurePosixPath("/a/b"), "/a/b"),
        ("\ud83d", "\ufffd"),
        (Words("hi"), "hi"),
        ({Words("k"): True, None: 1, 2: 3}, {"k": True, "None": 1, "2": 3}),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_what_has_a_nearest_json_form_gets_it(value: object, plain: JsonValue) -> None:
    """Our choice; the bug was a whole number of more than 4,300 digits, which failed the turn."""
    bench = Bench({"odd": tool_of(lambda arguments, context: cast("JsonValue", value))})
    (output,) = await bench.run(("odd", {}))
    assert (output.type, output.value) == ("text" if isinstance(plain, str) else "json", plain)
    assert json.loads(json.dumps(output.value)) == plain


@pytest.mark.parametrize(
    "value",
    [object(), {"a": Odd()}, {Odd(): 1}, b"\xff", circle(), tangle(), Closed(a=1), (n for n in (1, 2)), [lambda: 1]],
    ids=["object", "odd", "odd key", "bytes", "circle", "tangle", "closed", "generator", "function"],
)
async def test_what_has_no_json_form_is_an_error_that_names_the_tool(value: object) -> None:
    """Our choice: one bad value is the result of its call, and the turn and the other calls go on."""

    def told(invocation: ToolInvocation) -> ToolOutput:
        return ToolOutput("json", cast("JsonValue", value))

    tools = {
        "odd": tool_of(lambda arguments, context: cast("JsonValue", value)),
        "shown": Tool("x", ANY, lambda arguments, context: None, to_model_output=told),
        "fine": tool_of(lambda arguments, context: "fine"),
    }
    odd, shown, fine = await Bench(tools).run(("odd", {}), ("shown", {}), ("fine", {}))
    assert (odd.type, shown.type, fine) == ("error-text", "error-text", ToolOutput("text", "fine"))
    assert "'odd' returned what cannot be passed on" in str(odd.value)
    assert "'shown' wrote for the model what cannot be passed on" in str(shown.value)


async def test_an_error_that_cannot_say_what_it_is_is_an_error_like_others() -> None:
    """Bug: the text of a tool's error was asked for outside of any wall, and its failure ended the turn."""

    def raises(arguments: JsonObject, context: ToolContext) -> JsonValue:
        raise Mute

    (output,) = await Bench({"mute": tool_of(raises)}).run(("mute", {}))
    assert output == ToolOutput("error-text", "Mute: its text cannot be read")


async def test_what_a_plugin_makes_of_a_call_is_json_as_well() -> None:
    """Our choice: hooks are other people's code too."""

    class Hook(AgentPlugin):
        name = "hook"

        def before_tool_call(self, decision: ToolDecision, call: ToolCallInfo) -> ToolDecision:
            return Replace(cast("JsonObject", {"value": date(2026, 1, 2)}))

        def after_tool_call(self, outcome: ToolOutcome) -> ToolOutcome:
            return replace(outcome, result=cast("JsonValue", {"was": outcome.result, "set": {1}}))

    (output,) = await Bench({"echo": tool_of(echo)}, [Hook()]).run(("echo", {}))
    assert output == ToolOutput("json", {"was": "2026-01-02", "set": [1]})
