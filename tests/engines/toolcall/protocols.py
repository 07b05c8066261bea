"""What the tests of all text protocols share: the tools, the way through the middleware, the properties."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from hypothesis import strategies as st

from ishiki.core.messages import FinishReason, ToolCallPart, Usage, UserMessage
from ishiki.core.model import Finish, ModelInfo, ModelPart, ModelRequest, TextDelta, ToolCall, ToolChoice, ToolSpec
from ishiki.engines.toolcall._protocol import TextProtocol, TextToolcall
from ishiki.engines.toolcall.hermes import HermesProtocol
from ishiki.engines.toolcall.morph_xml import MorphXmlProtocol
from ishiki.engines.toolcall.qwen3coder import Qwen3CoderProtocol
from ishiki.engines.toolcall.v3 import V3Protocol
from ishiki.engines.toolcall.yaml_xml import YamlXmlProtocol
from ishiki.jsonvalue import JsonObject, JsonValue

PROTOCOLS: Sequence[TextProtocol] = (
    V3Protocol(),
    HermesProtocol(),
    Qwen3CoderProtocol(),
    MorphXmlProtocol(),
    YamlXmlProtocol(),
)
INFO = ModelInfo("test:model")
USAGE = Usage(10, 5)

SEND = ToolSpec(
    "send_message",
    "Says something.",
    {
        "type": "object",
        "properties": {
            "messages": {"type": "array", "items": {"type": "string"}, "description": "What to say."},
            "continue": {"type": "boolean"},
        },
        "required": ["messages"],
        "additionalProperties": False,
    },
)
SEARCH = ToolSpec(
    "search",
    "Finds something.",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer"},
            "score": {"type": "number"},
            "deep": {"type": "boolean"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
            "where": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "search": {"$ref": "#/$defs/Near"}},
            },
            "extra": {"type": "object"},
            "any": {},
        },
        "required": ["query"],
        "$defs": {"Near": {"type": "object", "properties": {"item": {"type": "string"}, "km": {"type": "number"}}}},
    },
)
FINISH = ToolSpec("finish", "Ends the turn.", {"type": "object", "properties": {}})
TOOLS: Sequence[ToolSpec] = (SEND, SEARCH, FINISH)

Read: TypeAlias = "str | tuple[str, JsonValue]"
"""Text, or a call's name and arguments."""

NASTY = [
    "</tool_call>", "<tool_call>", "</function>", "<function=x>", "</parameter>", "<parameter=y>", "<![CDATA[", "]]>",
    "&amp;", "&", "<", ">", "/", "</search>", "<search>", "<search/>", "</query>", "<item>", "</item>", "<query>",
    "<at id='42'/>", '"', "'", "\\", "\n", "\r\n", "\t", "  ", "{", "}", "[", "]", "```json", "```", ": ", "- ", "# ",
    "| ", "...", "---", "7", "1e5", "true", "null", "~", "yes", "你好", "，", "🐱", "\u2028", "\x85", "\ufeff",
    "\u3000", "</action>", "<params>", "<input>", "<name>", "<think>", "</think>", "%", "*a", "!b", "@", "é",
]  # fmt: skip
texts = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.lists(st.sampled_from(NASTY), max_size=6).map("".join),
)
numbers = st.floats(allow_nan=False, allow_infinity=False)
json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**12), 10**12), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
near = st.fixed_dictionaries({}, optional={"item": texts, "km": numbers})
search_arguments: st.SearchStrategy[JsonObject] = st.fixed_dictionaries(
    {"query": texts},
    optional={
        "limit": st.integers(-(10**12), 10**12),
        "score": numbers,
        "deep": st.booleans(),
        "note": st.one_of(st.none(), texts),
        "tags": st.lists(texts, max_size=3),
        "grid": st.lists(st.lists(st.integers(-9, 9), max_size=2), max_size=3),
        "where": st.fixed_dictionaries({}, optional={"name": texts, "search": near}),
        "extra": st.dictionaries(texts, json_values, max_size=3),
        "any": json_values,
    },
)
send_arguments: st.SearchStrategy[JsonObject] = st.fixed_dictionaries(
    {"messages": st.lists(texts, min_size=1, max_size=3)}, optional={"continue": st.booleans()}
)
calls = st.one_of(
    st.tuples(st.just("search"), search_arguments),
    st.tuples(st.just("send_message"), send_arguments),
    st.just(("finish", cast("JsonObject", {}))),
)


def written(protocol: TextProtocol, name: str, arguments: JsonValue) -> str:
    """Return a call as the protocol shows it in the history."""
    return protocol.render_call(ToolCallPart("c1", name, arguments), {tool.name: tool for tool in TOOLS})


def said(protocol: TextProtocol, *pairs: tuple[str, JsonValue]) -> str:
    """Return the answer by which a model calls."""
    if protocol.name != "v3":
        return "\n".join(written(protocol, name, arguments) for name, arguments in pairs)
    actions = [{"function": name, "params": arguments} for name, arguments in pairs]
    return f"```json\n{json.dumps({'thoughts': {}, 'actions': actions}, ensure_ascii=False)}\n```"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out of an answer."""

    parts: Sequence[Read]
    reason: FinishReason


async def through(
    protocol: TextProtocol,
    pieces: Sequence[str | ModelPart],
    *,
    reason: FinishReason = "stop",
    tools: Sequence[ToolSpec] = TOOLS,
    tool_choice: ToolChoice = "auto",
) -> tuple[Outcome, list[ModelPart]]:
    """Send an answer in `pieces` through a fresh engine; return it with texts joined, and every part as it came."""

    async def answer(request: ModelRequest) -> AsyncIterator[ModelPart]:
        for piece in pieces:
            yield TextDelta(piece) if isinstance(piece, str) else piece
        yield Finish(reason, USAGE)

    middleware = TextToolcall(protocol).middleware()
    request = ModelRequest("", [UserMessage("hi")], tools, tool_choice)
    changed = middleware.transform_request(request, INFO)
    assert isinstance(changed, ModelRequest)
    parts = [part async for part in middleware.wrap_stream(answer, changed)]
    finish = parts[-1]
    assert isinstance(finish, Finish)
    return Outcome(_joined(parts), finish.reason), parts


async def read(protocol: TextProtocol, text: str, *, reason: FinishReason = "stop") -> Sequence[Read]:
    """Return what a whole answer says."""
    outcome, _ = await through(protocol, [text], reason=reason)
    return outcome.parts


def _joined(parts: Sequence[ModelPart]) -> list[Read]:
    found: list[Read] = []
    for part in parts:
        match part:
            case TextDelta(text):
                if found and isinstance(found[-1], str):
                    text = f"{found.pop()}{text}"
                found.append(text)
            case ToolCall(_, name, arguments):
                try:
                    value = cast("JsonValue", json.loads(arguments))
                except ValueError:
                    value = arguments
                found.append((name, value))
            case _:
                pass
    return found
