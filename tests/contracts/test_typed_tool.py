"""`@tool`: what annotations, defaults and docstrings become, and what is refused when the function is decorated."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import pytest
from jsonschema import Draft202012Validator
from pydantic import AfterValidator, BaseModel, Field

from ishiki.contracts.typed_tool import tool
from ishiki.core.clock import SystemClock
from ishiki.core.disposer import resolved
from ishiki.core.schema import schema_problem
from ishiki.core.signal import CancelSignal
from ishiki.core.tool import Tool, ToolContext
from ishiki.errors import ToolError
from ishiki.jsonvalue import JsonObject, JsonValue, normalise

if TYPE_CHECKING:
    from pathlib import Path


async def _record(*entries: object) -> None:
    raise AssertionError("no tool here records")


CONTEXT = ToolContext("c1", "t1", 0, [], CancelSignal(), SystemClock(), _record)


async def run(made: Tool, arguments: JsonObject) -> JsonValue:
    """Run a tool as the agent loop does: the schemas hold on both sides."""
    assert schema_problem(arguments, made.input_schema) == ""
    assert made.execute is not None
    value = await resolved(made.execute(arguments, CONTEXT))
    if made.output_schema is not None:
        assert schema_problem(value, made.output_schema) == ""
    return value


def unannotated(function: Callable[..., object]) -> Callable[..., object]:
    """Return `function` as if it had been written without annotations."""
    function.__annotations__ = {}
    return function


class Place(BaseModel):
    title: str
    """A property that is called like what is dropped from schemas."""
    day: date | None = None


async def test_annotations_become_the_schemas_and_the_docstring_the_description() -> None:
    """Design, section 4."""

    @tool
    async def visit(
        place: Place,
        mood: Literal["calm", "wild"] = "calm",
        count: Annotated[int, Field(description="visits", ge=1)] = 1,
    ) -> Place:
        """Visit a place.

        And come back.
        """
        assert isinstance(place, Place)
        return Place(title=f"{place.title} {mood} {count}", day=place.day)

    assert (visit.name, visit.description, visit.sequential) == ("visit", "Visit a place.\n\nAnd come back.", False)
    assert visit.input_schema == {
        "type": "object",
        "additionalProperties": False,
        "required": ["place"],
        "properties": {
            "place": {"$ref": "#/$defs/Place"},
            "mood": {"type": "string", "enum": ["calm", "wild"], "default": "calm"},
            "count": {"type": "integer", "minimum": 1, "description": "visits", "default": 1},
        },
        "$defs": {
            "Place": {
                "type": "object",
                "required": ["title"],
                "properties": {
                    "title": {"type": "string"},
                    "day": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
                },
            }
        },
    }
    assert await run(visit, {"place": {"title": "sea", "day": "2025-11-29"}, "count": 2}) == {
        "title": "sea calm 2",
        "day": "2025-11-29",
    }


def test_every_schema_is_itself_valid() -> None:
    """JSON Schema 2020-12: what is sent to providers."""

    @tool
    def everything(a: Place, b: list[Place] | None = None, *, c: dict[str, int], d: JsonValue = None) -> list[Place]:
        """Take everything."""
        return [a]

    for schema in (everything.input_schema, everything.output_schema):
        assert schema is not None
        Draft202012Validator.check_schema(cast("dict[str, Any]", schema))
        assert "'title': '" not in str(schema)


async def test_the_context_is_handed_over_and_is_no_argument_of_the_model() -> None:
    """Design, section 4: a parameter annotated ToolContext."""

    @tool(name="who_am_i", description="says it", sequential=True)
    def hidden(suffix: str, context: ToolContext) -> str:
        return context.tool_call_id + suffix

    assert (hidden.name, hidden.description, hidden.sequential) == ("who_am_i", "says it", True)
    assert list(cast("JsonObject", hidden.input_schema["properties"])) == ["suffix"]
    assert await run(hidden, {"suffix": "!"}) == "c1!"


async def test_a_function_without_a_return_annotation_may_return_any_json() -> None:
    """Design, section 4: the return annotation becomes the output schema; none, no schema."""

    @tool
    def free(value: JsonValue) -> None:
        """Return nothing."""

    def bare():
        """Return a number."""
        return 7

    assert free.output_schema is None
    assert await run(free, {"value": [1]}) is None
    assert tool(bare).output_schema is None
    assert await run(tool(bare), {}) == 7


@tool
async def forward(given: JsonObject) -> JsonValue:
    """Return what it got."""
    return given["inner"]


async def test_our_json_aliases_may_be_used_in_annotations() -> None:
    """Bug: they are written in quotes, and the names in them are unknown in the tool's module."""
    assert await run(forward, {"given": {"inner": [None, {"a": 1.5}]}}) == [None, {"a": 1.5}]


def even(value: int) -> int:
    """Return `value`, or raise."""
    if value % 2:
        raise ValueError("not even")
    return value


async def test_what_only_pydantic_can_check_is_told_to_the_model_in_a_sentence() -> None:
    """Bug: it was a warning with a traceback, and a text about pydantic."""

    @tool
    def halve(value: Annotated[int, AfterValidator(even)], when: date) -> int:
        """Halve an even number."""
        return value // 2

    assert await run(halve, {"value": 4, "when": "2025-11-29"}) == 2
    with pytest.raises(ToolError) as caught:
        await run(halve, {"value": 3, "when": "someday"})
    assert "value: Value error, not even" in str(caught.value)
    assert "; when: " in str(caught.value)
    assert "pydantic" not in str(caught.value)


async def test_fields_may_be_written_as_defaults_have_aliases_and_be_called_like_methods() -> None:
    """Our choice: what pydantic's users write; bug: Field as a default became the default's value."""

    @tool
    def odd(
        json: str, copy: int = Field(ge=1), model_name: str = "m", from_: Annotated[str, Field(alias="from")] = "here"
    ) -> str:
        """Say it."""
        return f"{json} {copy} {model_name} {from_}"

    assert odd.input_schema["required"] == ["json", "copy"]
    assert await run(odd, {"json": "j", "copy": 2, "from": "there"}) == "j 2 m there"


async def test_a_default_keeps_its_own_title() -> None:
    """Bug: a default was searched for titles as if it were a schema."""

    @tool
    def show(page: dict[str, str] = {"title": "Home"}) -> str:  # noqa: B006 - a value that is never changed
        """Show a page."""
        return page["title"]

    assert cast("JsonObject", show.input_schema["properties"])["page"] == {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "default": {"title": "Home"},
    }
    assert await run(show, {}) == "Home"


async def test_a_result_that_does_not_fit_its_annotation_is_found_by_the_output_schema() -> None:
    """Design, section 4: an output that does not fit is the tool's own error."""

    @tool
    def lies() -> int:
        """Say a number."""
        return cast("int", "seven")

    @tool
    def infinite() -> float:
        """Say a number."""
        return math.inf

    for made in (lies, infinite):
        assert made.execute is not None
        assert made.output_schema is not None
        value = normalise(await resolved(made.execute({}, CONTEXT)))
        assert schema_problem(value, made.output_schema)


def _no_docstring(a: int) -> int:
    return a


@unannotated
def no_annotation(a: int) -> int:
    """Say it."""
    return a


def unreadable(path: Path) -> int:
    """Say it."""
    return 1


def underscore(_a: int) -> int:
    """Say it."""
    return 1


def positional(a: int, /) -> int:
    """Say it."""
    return 1


def many(*a: int, **b: int) -> int:
    """Say it."""
    return 1


def 天气(a: int) -> int:
    """Say it."""
    return 1


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (_no_docstring, "write a docstring"),
        (no_annotation, "'a' needs an annotation"),
        (unreadable, "outside TYPE_CHECKING"),
        (underscore, "'_a' may not begin with an underscore"),
        (positional, "'a' cannot be passed by name"),
        (many, "'a' cannot be passed by name"),
        (天气, "pass name="),
    ],
)
def test_what_cannot_be_a_tool_is_refused_when_it_is_decorated(function: Callable[..., object], told: str) -> None:
    """Design, section 4: an author learns of it at once, and what to do."""
    with pytest.raises(TypeError, match=f"tool {function.__name__}: .*{told}"):
        tool(function)


async def test_a_method_may_be_a_tool() -> None:
    """Our choice: extensions keep their state in an instance."""

    class Counter:
        def __init__(self) -> None:
            self.count = 0

        async def add(self, amount: int) -> int:
            """Add to the count."""
            self.count += amount
            return self.count

    counter = Counter()
    made = tool(counter.add)
    assert await run(made, {"amount": 2}) == 2
    assert await run(made, {"amount": 3}) == 5
