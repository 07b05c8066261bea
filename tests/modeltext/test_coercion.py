"""Arguments as models write them: valid ones are left alone, unmistakable ones get the form of the schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.core.model import ToolCall
from ishiki.core.schema import schema_problem
from ishiki.core.toolrun import parse_arguments
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_object, read_str
from ishiki.modeltext.coercion import coerced
from ishiki.modeltext.json_text import compact_json

SEND: JsonObject = {
    "type": "object",
    "properties": {
        "messages": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "mode": {"type": "string", "enum": ["element", "raw"]},
        "continue": {"type": "boolean"},
        "limit": {"type": "integer"},
        "where": {"type": "object", "properties": {"id": {"type": "string"}}, "additionalProperties": False},
    },
    "required": ["messages"],
    "additionalProperties": False,
}

_NAMES: Sequence[str] = ("alpha", "beta_two", "gammaThree", "delta")
_scalars: Mapping[str, st.SearchStrategy[JsonValue]] = {
    "string": st.text(alphabet=st.characters(codec="utf-8"), max_size=12),
    "integer": st.integers(-(10**12), 10**12),
    "number": st.floats(allow_nan=False, allow_infinity=False, width=32) | st.integers(-1000, 1000),
    "boolean": st.booleans(),
}


def _scalar_schema(kind: str) -> JsonObject:
    return {"type": kind}


schemas: st.SearchStrategy[JsonObject] = st.recursive(
    st.sampled_from(sorted(_scalars)).map(_scalar_schema),
    lambda below: st.one_of(
        below.map(lambda items: {"type": "array", "items": items}),
        below.map(lambda one: {"anyOf": [one, {"type": "null"}]}),
        st.dictionaries(st.sampled_from(_NAMES), below, min_size=1, max_size=3).map(
            lambda properties: {"type": "object", "properties": properties, "additionalProperties": False}
        ),
    ),
    max_leaves=6,
)


def values_of(schema: JsonObject) -> st.SearchStrategy[JsonValue]:
    """Return values that fit a schema of `schemas`."""
    branches = [branch for branch in read_array(schema, "anyOf") if isinstance(branch, Mapping)]
    if branches:
        return st.one_of([values_of(branch) for branch in branches])
    match read_str(schema, "type"):
        case "null":
            return st.none()
        case "array":
            return cast("st.SearchStrategy[JsonValue]", st.lists(values_of(read_object(schema, "items")), max_size=3))
        case "object":
            properties = read_object(schema, "properties")
            shapes = {name: values_of(one) for name, one in properties.items() if isinstance(one, Mapping)}
            return cast("st.SearchStrategy[JsonValue]", st.fixed_dictionaries({}, optional=shapes))
        case kind:
            return _scalars[kind]


@st.composite
def cases(draw: st.DrawFn) -> tuple[JsonObject, JsonValue]:
    """Return the schema of a tool with one parameter and some more, and arguments that fit it."""
    properties = draw(st.dictionaries(st.sampled_from(_NAMES), schemas, min_size=1, max_size=3))
    schema: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema, draw(values_of(schema))


def may_be_text(schema: JsonObject) -> bool:
    """Whether a text is valid at this place by itself."""
    branches = [branch for branch in read_array(schema, "anyOf") if isinstance(branch, Mapping)]
    return read_str(schema, "type") == "string" or any(map(may_be_text, branches))


@given(cases())
def test_what_is_valid_comes_back_the_same_object(case: tuple[JsonObject, JsonValue]) -> None:
    """Our choice: coercion is for what the schema refuses."""
    schema, value = case
    assert coerced(value, schema, schema_problem) is value


@given(cases())
def test_every_value_that_is_written_as_text_is_read_back(case: tuple[JsonObject, JsonValue]) -> None:
    """Our choice; models write lists, switches, numbers and objects as text."""
    schema, value = case
    assert isinstance(value, Mapping)
    places = read_object(schema, "properties")
    written: dict[str, JsonValue] = {}
    for key, item in value.items():
        place = places[key]
        assert isinstance(place, Mapping)
        is_plain = item is None or may_be_text(place)
        written[key] = item if is_plain else compact_json(item)
    assert coerced(written, schema, schema_problem) == value


@given(cases(), st.sampled_from(["text", "arguments", "parameters", "input", "call", "twice", "fence"]))
def test_arguments_that_are_wrapped_or_encoded_once_more_are_those_inside(
    case: tuple[JsonObject, JsonValue], how: str
) -> None:
    """Our choice; models put the arguments into the arguments, or write them as a text of JSON."""
    schema, value = case
    wrapped = {
        "text": compact_json(compact_json(value)),
        "call": compact_json({"name": "tool", "arguments": value}),
        "twice": compact_json({"arguments": compact_json({"input": value})}),
        "fence": f"```json\n{compact_json(value)}\n```",
    }.get(how, compact_json({how: value}))
    assert parse_arguments(ToolCall("c", "tool", wrapped), schema) == (value, "")


@given(cases(), st.sampled_from(["comma", "python", "brace", "end"]))
def test_json_that_is_nearly_right_is_read(case: tuple[JsonObject, JsonValue], how: str) -> None:
    """Our choice: a comma, quotes of Python, a bracket too many or too few."""
    schema, value = case
    if not value:
        return
    text = compact_json(value)
    written = {
        "comma": f"{text[:-1]},}}",
        "python": repr(json.loads(text)),
        "brace": text + "}",
        "end": text[:-1] if text[-2] in ']}"' else text,
    }[how]
    assert parse_arguments(ToolCall("c", "tool", written), schema) == (value, "")


@pytest.mark.parametrize(
    ("given_text", "arguments"),
    [
        ('{"messages": "hi"}', {"messages": ["hi"]}),
        ('{"messages": "[\\"a\\", \\"b\\"]"}', {"messages": ["a", "b"]}),
        ('{"messages": "[not a list] really"}', {"messages": ["[not a list] really"]}),
        ('{"messages": ["a"], "continue": "false", "limit": "7"}', {"messages": ["a"], "continue": False, "limit": 7}),
        ('{"messages": ["a"], "continue": 1, "limit": 7.0}', {"messages": ["a"], "continue": True, "limit": 7}),
        ('{"messages": ["a"], "continue": null, "mode": null, "where": null}', {"messages": ["a"]}),
        ('{"messages": ["a"], "target": null}', {"messages": ["a"]}),
        ('{"messages": [1, true]}', {"messages": ["1", "true"]}),
        ('{"Messages": ["a"], "mode": "RAW"}', {"messages": ["a"], "mode": "raw"}),
        ('{"message": "a"}', {"messages": ["a"]}),
        ('{"messages": ["a"], "where": "{\\"id\\": 7}"}', {"messages": ["a"], "where": {"id": "7"}}),
        ('[{"messages": ["a"]}]', {"messages": ["a"]}),
        ('{"messages": ["a"]}</tool_call>', {"messages": ["a"]}),
        ('{messages: ["a"]}', {"messages": ["a"]}),
    ],
)
def test_what_is_unmistakable_is_taken(given_text: str, arguments: JsonObject) -> None:
    """Reports of servers and small models; each of these ended in an error result, and nothing was said."""
    value, problem = parse_arguments(ToolCall("c", "send_message", given_text), SEND)
    assert (value, problem) == (arguments, "")
    assert schema_problem(value, SEND) == ""


@pytest.mark.parametrize(
    "given_text",
    [
        '{"messages": ["hi',
        '{"messages": ["one", "tw"',
        '{"messages": null}',
        '{"messages": {"0": "a"}}',
        '{"messages": ["a"], "tone": "warm"}',
        '{"messages": ["a"], "limit": "many"}',
        '{"messages": ["a"], "continue": "perhaps"}',
        '{"messages": ["a"], "mode": "shout"}',
        '{"messages": ["a"]} {"messages": ["b"]}',
        "hi",
        '"hi"',
        "7",
        '{"arguments": 7}',
    ],
)
def test_what_could_be_meant_otherwise_stays_refused(given_text: str) -> None:
    """Design, section 2: arguments that do not fit get an error result and the tool does not run."""
    value, problem = parse_arguments(ToolCall("c", "send_message", given_text), SEND, is_cut=True)
    assert problem or schema_problem(value, SEND)


def test_of_an_answer_that_was_stopped_nothing_is_completed() -> None:
    """Our choice: what is missing behind the last word may have been more words."""
    call = ToolCall("c", "send_message", '{"messages": ["one"]')
    assert parse_arguments(call, SEND) == ({"messages": ["one"]}, "")
    assert parse_arguments(call, SEND, is_cut=True)[1]
