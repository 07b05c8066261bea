"""A request in the form that a server takes: whatever the history, it is taken, and nothing that was said is lost."""

from __future__ import annotations

import json
from collections.abc import Sequence

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.core.messages import (
    AssistantMessage,
    AssistantPart,
    ModelMessage,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolResultPart,
    UserMessage,
)
from ishiki.core.model import ModelInfo, ModelRequest, ToolSpec
from ishiki.core.repair import well_formed
from ishiki.gateway.calls import Target, wire_call
from ishiki.gateway.dialects import DIALECTS as KNOWN
from ishiki.gateway.dialects import dialect_form
from ishiki.gateway.tool_schema import lean_schema, subset_schema
from ishiki.gateway.wire_form import OPENAI_FORM, WireForm
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.openai_check import check_request
from ishiki.testing.openai_dialects import DIALECTS, ServerDialect, refusal

FORMS: dict[ServerDialect, WireForm] = {
    **KNOWN,
    "deepseek-r1": WireForm(roles="alternating"),
    "gemma-template": WireForm(roles="flat"),
}
WORDS = [f"word{number}" for number in range(40)]
words = st.sampled_from(WORDS)
text_parts: st.SearchStrategy[JsonObject] = st.fixed_dictionaries({"type": st.just("text"), "text": words})
outputs = st.one_of(
    st.builds(ToolOutput, st.sampled_from(["text", "error-text"]), words),
    st.builds(ToolOutput, st.just("json"), st.dictionaries(words, words, max_size=2)),
    st.builds(ToolOutput, st.just("json"), st.lists(words, max_size=2)),
    st.builds(ToolOutput, st.just("content"), st.lists(text_parts, max_size=2)),
    st.just(ToolOutput("execution-denied", None)),
)  # fmt: skip
parts: st.SearchStrategy[AssistantPart] = st.one_of(
    st.builds(TextPart, words),
    st.builds(ReasoningPart, words),
    st.builds(ToolCallPart, words, st.sampled_from(["send_message", "finish"]), st.just({"reason": "done"})),
)  # fmt: skip
messages: st.SearchStrategy[ModelMessage] = st.one_of(
    st.builds(UserMessage, words),
    st.builds(SystemMessage, words),
    st.builds(AssistantMessage, st.lists(parts, max_size=3)),
    st.builds(ToolMessage, st.lists(st.builds(ToolResultPart, words, words, outputs), max_size=3)),
)
TOOLS = (
    ToolSpec(
        "send_message",
        "Says something.",
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "SendMessage",
            "type": "object",
            "properties": {
                "messages": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                "continue": {"type": "boolean", "default": False},
                "to": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                "level": {"type": ["integer", "null"], "enum": [1, 2, None]},
                "mode": {"const": "fast"},
                "near": {"$ref": "#/$defs/Near"},
                "extra": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
            "required": ["messages"],
            "additionalProperties": False,
            "$defs": {"Near": {"properties": {"near": {"$ref": "#/$defs/Near"}, "km": {"type": "number"}}}},
        },
    ),
)  # fmt: skip


def body(history: Sequence[ModelMessage], form: WireForm) -> JsonObject:
    """Return the body of the request that the history becomes."""
    request = ModelRequest("You are Neko.", well_formed(history), TOOLS)
    target = Target("test:m", "openai-completions", "m", ModelInfo("test:m"), form=form)
    arguments = wire_call(target, request).arguments
    return json.loads(orjson.dumps({key: arguments[key] for key in ("model", "messages", "tools")}))


@pytest.mark.parametrize("dialect", DIALECTS)
@given(st.lists(messages, max_size=8))
def test_whatever_the_history_a_strict_server_takes_it_and_everything_that_people_said_is_in_it(
    dialect: ServerDialect, history: list[ModelMessage]
) -> None:
    """Issue, models: roles, schemas, results, reasoning and ids as each server wants them."""
    asked = body(history, FORMS[dialect])
    assert check_request(asked) == []
    assert refusal(dialect, asked) is None
    told = json.dumps(asked["messages"])
    for message in history:
        if isinstance(message, UserMessage | SystemMessage):
            assert f"{message.content}" in told


@given(st.lists(messages, max_size=8))
def test_a_server_like_openais_gets_what_it_always_got(history: list[ModelMessage]) -> None:
    """Our choice: no form is put upon a server that did not ask for it."""
    plain = body(history, OPENAI_FORM)
    assert plain == body(history, dialect_form(None, "https://api.openai.com/v1"))


@given(
    st.lists(messages, min_size=2, max_size=8),
    # The history of the other one is a single message, which grows.
    st.sampled_from([dialect for dialect in DIALECTS if dialect != "gemma-template"]),
)
def test_a_longer_history_begins_as_the_shorter_one_did(history: list[ModelMessage], dialect: ServerDialect) -> None:
    """Design, budgets, prefix: what was sent stays byte for byte, but for the last message, which may be joined."""
    cut = well_formed([*history, UserMessage("middle")])
    shorter, longer = (body(one, FORMS[dialect])["messages"] for one in (cut, [*cut, UserMessage("end")]))
    assert isinstance(shorter, list)
    assert isinstance(longer, list)
    assert longer[: len(shorter) - 1] == shorter[:-1]


def test_a_form_says_what_differs() -> None:
    """Issue, models: said once, so that an owner understands it."""
    form = KNOWN["mistral"].joined(WireForm(filled=True, dropped=frozenset({"top_p"})))
    assert form.described() == "roles: bridged, reasoning: drop, call_ids: nine, filled, without top_p"
    assert form.joined(WireForm(roles="alternating")).joined(WireForm(roles="bridged")).roles == "alternating"


@pytest.mark.parametrize(
    ("base_url", "form"),
    [
        ("https://api.mistral.ai/v1", KNOWN["mistral"]),
        ("https://generativelanguage.googleapis.com/v1beta/openai", KNOWN["gemini-openai"]),
        ("https://mistral.ai.example.com/v1", OPENAI_FORM),
        (None, OPENAI_FORM),
    ],
)
def test_a_vendors_address_tells_its_form(base_url: str | None, form: WireForm) -> None:
    """Issue, models: a table of what each provider takes."""
    assert dialect_form(None, base_url) == form


def keys_of(value: JsonValue) -> set[str]:
    """Return every key at any depth."""
    if isinstance(value, dict):
        return {*value, *(key for inner in value.values() for key in keys_of(inner))}
    if isinstance(value, list):
        return {key for inner in value for key in keys_of(inner)}
    return set()


def test_a_schema_holds_nothing_that_is_of_no_help_to_a_model() -> None:
    """Issue, models: Gemini's OpenAI door refused all three built-in tools for two keywords."""
    lean = json.loads(orjson.dumps(lean_schema(TOOLS[0].input_schema)))
    assert not keys_of(lean) & {"$schema", "title", "default"}
    assert lean["properties"]["extra"]["additionalProperties"] == {"type": "integer"}
    assert lean["properties"]["continue"] == {"type": "boolean", "description": "Default: false."}
    assert "description" not in lean["properties"]["to"]
    assert lean["required"] == ["messages"]


def test_a_schema_in_geminis_subset_says_the_same() -> None:
    """Gemini API, Schema: no references, no lists of types, enums of text."""
    subset = json.loads(orjson.dumps(subset_schema(TOOLS[0].input_schema)))
    properties = subset["properties"]
    assert properties["to"] == {"type": "string", "nullable": True}
    assert properties["level"] == {"type": "integer", "nullable": True, "description": "One of 1, 2."}
    assert properties["mode"] == {"type": "string", "enum": ["fast"]}
    assert properties["near"]["properties"]["km"] == {"type": "number"}
    assert properties["messages"] == {"type": "array", "items": {"type": "string"}, "minItems": 1}


def test_a_property_may_have_any_name_also_that_of_a_keyword() -> None:
    """Bug class: names are not keywords."""
    schema: JsonObject = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in ("title", "default", "properties", "$schema", "enum")},
        "required": ["title"],
    }
    for written in (lean_schema(schema), subset_schema(schema)):
        assert written == schema
