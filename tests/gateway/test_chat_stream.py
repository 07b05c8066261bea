"""Chunks of a stream as parts, however badly a server cuts and labels them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.core.messages import Usage
from ishiki.core.model import ModelPart, ToolCallDelta
from ishiki.gateway.chat_stream import ChunkReader
from ishiki.jsonvalue import JsonValue

from .kit import calls_of, finish_of, reasoning_of, text_of


def read(*chunks: object) -> list[ModelPart]:
    """Return all parts of an answer of these chunks."""
    reader = ChunkReader()
    parts = [part for chunk in chunks for part in reader.read(chunk)]
    return [*parts, *reader.end(1)]


def delta(fields: JsonValue, finish_reason: JsonValue = None) -> JsonValue:
    """Return a chunk with one choice."""
    return {"choices": [{"delta": fields, "finish_reason": finish_reason}]}


def call(name: JsonValue = None, arguments: JsonValue = None, **fields: JsonValue) -> JsonValue:
    """Return a chunk with one piece of a tool call."""
    return delta({"tool_calls": [{"function": {"name": name, "arguments": arguments}, **fields}]})


def made(parts: Sequence[ModelPart]) -> list[tuple[str, str]]:
    """Return name and arguments of each call."""
    return [(one.tool_name, one.arguments) for one in calls_of(parts)]


def test_calls_are_joined_by_index() -> None:
    """OpenAI API reference, streaming: the first piece has id and name, the others the index only."""
    parts = read(
        call("f", "", index=0, id="a"),
        call("g", "", index=1, id="b"),
        call(None, '{"x":', index=0),
        call(None, "{}", index=1),
        call(None, "1}", index=0),
        delta({}, "tool_calls"),
    )
    assert [(one.tool_call_id, one.tool_name, one.arguments) for one in calls_of(parts)] == [
        ("a", "f", '{"x":1}'),
        ("b", "g", "{}"),
    ]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([call("f", "{}"), call("g", "{}")], id="neither id nor index"),
        pytest.param([call("f", "{}", index=0), call("g", "{}", index=0)], id="the same index, no ids"),
        pytest.param([call("f", "{}", id="s", index=0), call("g", "{}", id="s", index=1)], id="equal ids"),
        pytest.param([call("f", "{}", id="a", index=0), call("g", "{}", id="b", index=0)], id="other ids at one index"),
        pytest.param([call("f", "{}", id="x" * 900), call("g", "{}", id="x" * 900 + "y")], id="huge ids"),
        pytest.param([call("f", "{}", index=10**30), call("g", "{}", index=-1)], id="absurd indices"),
        pytest.param([call("f", {}, index="0"), call("g", {}, index=[])], id="arguments as objects, index no number"),
    ],
)
def test_two_calls_stay_two_calls(chunks: Sequence[JsonValue]) -> None:
    """Design, what a model returns is untrusted: ids may be missing, equal or huge."""
    parts = read(*chunks)
    assert made(parts) == [("f", "{}"), ("g", "{}")]
    ids = [one.tool_call_id for one in calls_of(parts)]
    assert len(set(ids)) == 2
    assert all(0 < len(one) <= 64 for one in ids)
    assert {part.tool_call_id for part in parts if isinstance(part, ToolCallDelta)} == set(ids)


def test_a_name_that_is_repeated_with_every_piece_is_one_call() -> None:
    """Seen at compatible servers: id and name in every piece."""
    pieces = ['{"a"', ": ", "1}", ""]
    assert made(read(*(call("f", piece, index=0, id="a") for piece in pieces))) == [("f", '{"a": 1}')]


def test_the_reason_stop_beside_calls_means_calls() -> None:
    """Seen at compatible servers: finish_reason stop although tools were called."""
    assert finish_of(read(call("f", "{}"), delta({}, "stop"))).reason == "tool-calls"


def test_reasoning_has_two_names_and_is_not_doubled() -> None:
    """DeepSeek writes reasoning_content, OpenRouter reasoning, some servers both."""
    parts = read(
        delta({"reasoning_content": "a", "reasoning": "a"}), delta({"reasoning": "b"}), delta({"content": "c"})
    )
    assert (reasoning_of(parts), text_of(parts)) == ("ab", "c")


def test_usage_counts_in_any_chunk_and_the_last_one_holds() -> None:
    """OpenAI API reference, streaming: usage in the last chunk; some servers send it with every chunk."""
    first: JsonValue = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}
    last: JsonValue = {"usage": {"prompt_tokens": 5, "completion_tokens": 9, "prompt_cache_hit_tokens": 4}}
    assert finish_of(read(first, last, {"usage": None})).usage == Usage(5, 9, 4)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}, "7", {"prompt_tokens": "x"}])
def test_usage_without_numbers_is_estimated(usage: JsonValue) -> None:
    """Core, Usage.is_estimate."""
    assert finish_of(read({"usage": usage})).usage == Usage(1, 0, is_estimate=True)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["stop", "{}", "f"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["choices", "delta", "content", "tool_calls", "function", "name", "arguments", "index", "id", "usage",
         "finish_reason", "text", "prompt_tokens", "reasoning_content", "model"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.lists(json_values, max_size=4))
def test_nothing_that_a_server_sends_raises(chunks: list[JsonValue]) -> None:
    """Design, what a model returns is untrusted."""
    finish_of(read(*chunks))


@given(st.text(min_size=1), st.dictionaries(st.text(), st.integers(), min_size=1), st.data())
def test_the_answer_is_the_same_however_it_is_cut(text: str, arguments: dict[str, int], data: st.DataObject) -> None:
    """Our choice: any chunking of a stream gives the same result."""
    whole = json.dumps(arguments)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    parts = read(
        *(delta({"content": character}) for character in text),
        call("f", "", index=0, id="a"),
        *(call(None, piece, index=0) for piece in pieces),
        delta({}, "tool_calls"),
    )
    assert made(parts) == [("f", whole)]
    assert text_of(parts) == text


def test_half_a_surrogate_pair_becomes_a_character_that_can_be_stored() -> None:
    """Design, events.jsonl: lone surrogates become U+FFFD."""
    assert text_of(read(delta({"content": "a\ud83d"}))) == "a\ufffd"
