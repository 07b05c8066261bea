"""The vendors' own APIs over real HTTP: what reaches them, what comes back, and every way to fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import pytest

from ishiki.core.messages import (
    AssistantMessage,
    AssistantPart,
    FilePart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolResultPart,
    Usage,
    UserMessage,
)
from ishiki.core.model import ModelPart, ModelRequest, ModelSettings, ReasoningDelta, TextDelta
from ishiki.errors import ModelError, ModelErrorKind
from ishiki.gateway.schema import Api
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_object, read_str
from ishiki.testing import openai_replies as replies
from ishiki.testing.vendor_server import VendorRequest, VendorServer
from ishiki.testing.vendor_wires import SIGNATURE, Wire, vendor_error

from .kit import FINISH, SPEAK, answer, ask, calls_of, finish_of, reasoning_of, served, text_of, write_models

pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning"),  # LiteLLM's own, in its wrapper
    pytest.mark.filterwarnings("ignore::UserWarning:pydantic"),  # its models, when it writes them as JSON
]

KEY = "sk-main-key-0123456789"
APIS: Mapping[Wire, Api] = {
    "anthropic": "anthropic-messages",
    "responses": "openai-responses",
    "gemini": "google-generative-ai",
}
WIRES = pytest.mark.parametrize("wire", APIS)


def one_vendor(folder: Path, server: VendorServer, *, model: str = "", extra: str = "", model_id: str = "m") -> Path:
    """Write a models.yaml with one provider `main` of the server's API, with a model of that id."""
    return write_models(
        folder,
        f"""
providers:
  main:
    api: {APIS[server.wire]}
    base_url: {server.base_url}
    api_key: "${{MAIN_KEY}}"
{extra}
    models:
      - {{id: "{model_id}", input: [text, image]{model}}}
""",
    )


def again(parts: Sequence[ModelPart]) -> list[AssistantPart]:
    """Return an answer as the history has it: reasoning with what goes back, text, calls under ids of ours."""
    options: dict[str, JsonValue] = {}
    for part in parts:
        if isinstance(part, ReasoningDelta):
            options.update(part.provider_options)
    calls = [
        ToolCallPart(f"ours_{number}", call.tool_name, {"messages": ["hi"]} if call.tool_name == SPEAK.name else {})
        for number, call in enumerate(calls_of(parts))
    ]
    text = [TextPart(text_of(parts))] if text_of(parts) else []
    return [ReasoningPart(reasoning_of(parts), options), *text, *calls]


def with_results(parts: Sequence[AssistantPart]) -> list[AssistantMessage | ToolMessage]:
    """Return an answer and the results of its calls."""
    results = [
        ToolResultPart(part.tool_call_id, part.tool_name, ToolOutput("json", {"ok": True}))
        for part in parts
        if isinstance(part, ToolCallPart)
    ]
    return [AssistantMessage(parts), ToolMessage(results)]


def conversation() -> ModelRequest:
    """Return a request with everything that a mind sends."""
    return ModelRequest(
        "You are Neko.",
        [
            UserMessage([TextPart("look"), FilePart("image/png", data=b"\x89PNG")]),
            *with_results([TextPart("hm"), ToolCallPart("c1", "send_message", {"messages": ["你好"]})]),
            UserMessage("again"),
        ],
        [SPEAK, FINISH],
        settings=ModelSettings(max_output_tokens=100),
    )


def outline(wire: Wire, request: VendorRequest) -> list[str]:
    """Return the order of roles and parts, in words that all three share."""
    body = request.body
    match wire:
        case "anthropic":
            system = ["system"] if body.get("system") else []
            return system + [kind for message in objects(body, "messages") for kind in _kinds(message, "content")]
        case "gemini":
            system = ["system"] if body.get("system_instruction") else []
            return system + [kind for message in objects(body, "contents") for kind in _kinds(message, "parts")]
        case "responses":
            found: list[str] = []
            for item in objects(body, "input"):
                kind = read_str(item, "type")
                found += _kinds(item, "content") if kind == "message" else [kind]
            return found


def objects(holder: JsonObject, name: str) -> list[JsonObject]:
    """Return the objects of a list."""
    return [item for item in read_array(holder, name) if isinstance(item, Mapping)]


def _kinds(message: JsonObject, name: str) -> list[str]:
    role = read_str(message, "role")
    return [f"{role} {_kind(part)}" if role != "system" else "system" for part in objects(message, name)]


def _kind(part: JsonObject) -> str:
    kind = read_str(part, "type") or next(iter(part))
    return {"input_text": "text", "output_text": "text", "input_image": "image", "inline_data": "image"}.get(kind, kind)


OUTLINES: Mapping[Wire, list[str]] = {
    "anthropic": ["system", "user text", "user image", "assistant text", "assistant tool_use", "user tool_result",
                  "user text"],
    "responses": ["system", "user text", "user image", "assistant text", "function_call", "function_call_output",
                  "user text"],
    "gemini": ["system", "user text", "user image", "model text", "model function_call", "user function_response",
               "user text"],
}  # fmt: skip


@WIRES
async def test_a_whole_conversation_reaches_the_vendor_in_its_own_form(tmp_path: Path, wire: Wire) -> None:
    """Issue, gateway complete: system prompt, pictures, calls and their results, tools, key and headers."""
    async with VendorServer(wire, api_key=KEY) as server:
        file = one_vendor(tmp_path, server, extra='    headers: {X-App: "ishiki"}')
        async with served(file) as gateway:
            parts = await answer(gateway.model("main:m"), conversation())
            (request,) = await server.wait_requests(1)
        assert server.violations == []
    assert text_of(parts) == "reply 1"
    assert outline(wire, request) == OUTLINES[wire]
    assert "你好" in str(request.body)
    assert request.model == "m"
    assert request.headers["x-app"] == "ishiki"
    assert b"send_message" in request.raw
    assert b"iVBORw==" in request.raw


@WIRES
@pytest.mark.parametrize("pieces", [1, 5])
async def test_text_calls_reasoning_and_usage_come_back(tmp_path: Path, wire: Wire, pieces: int) -> None:
    """Issue, gateway complete: text, tool calls, reasoning, usage with its cached part; streamed in any pieces."""
    calls = [replies.call("send_message", {"messages": ["hi"]}), replies.call("finish", {})]
    usage = replies.Usage(prompt_tokens=100, completion_tokens=20, cached_tokens=60, reasoning_tokens=5)
    reply = replies.tool_calls(calls, content="hello", reasoning="because", usage=usage, pieces=pieces)
    async with VendorServer(wire) as server, served(one_vendor(tmp_path, server)) as gateway:
        server.enqueue(reply)
        parts = await answer(gateway.model("main:m"), ask("hi", tools=[SPEAK, FINISH]))
    assert (reasoning_of(parts), text_of(parts)) == ("because", "hello")
    made = [(call.tool_name, call.arguments.replace(" ", "")) for call in calls_of(parts)]
    assert made == [("send_message", '{"messages":["hi"]}'), ("finish", "{}")]
    assert len({call.tool_call_id for call in calls_of(parts)}) == 2
    assert all(len(call.tool_call_id) <= 64 for call in calls_of(parts))
    finish = finish_of(parts)
    assert finish.reason == "tool-calls"
    # Anthropic counts no reasoning apart from the rest.
    assert finish.usage == Usage(100, 20, 60, 0 if wire == "anthropic" else 5)


@WIRES
async def test_an_answer_with_calls_can_be_sent_back_with_its_results(tmp_path: Path, wire: Wire) -> None:
    """Issue, gateway complete: the round trip of a tool call, under our own ids."""
    calls = [replies.call("send_message", {"messages": ["hi"]}), replies.call("finish", {})]
    async with VendorServer(wire) as server, served(one_vendor(tmp_path, server)) as gateway:
        server.enqueue(replies.tool_calls(calls, reasoning="because"))
        model = gateway.model("main:m")
        parts = await answer(model, ask("hi", tools=[SPEAK, FINISH]))
        request = ModelRequest("", [UserMessage("hi"), *with_results(again(parts))], [SPEAK, FINISH])
        assert text_of(await answer(model, request)) == "reply 2"
        assert server.violations == []


@pytest.mark.parametrize(
    ("wire", "found"),
    [
        ("anthropic", {"type": "thinking", "thinking": "because", "signature": SIGNATURE}),
        ("gemini", SIGNATURE),
    ],
)
async def test_signed_reasoning_goes_back_to_who_signed_it_and_to_nobody_else(
    tmp_path: Path, wire: Wire, found: JsonValue
) -> None:
    """Anthropic, extended thinking; Gemini, thought signatures: sent back unchanged. Another's would be refused."""
    async with VendorServer(wire) as server:
        file = one_vendor(tmp_path, server, model=", max_tokens: 20000}\n      - {id: other, max_tokens: 20000")
        async with served(file) as gateway:
            server.enqueue(replies.tool_calls([replies.call("finish", {})], reasoning="because", pieces=3))
            parts = await answer(gateway.model("main:m:high"), ask("hi", tools=[FINISH]))
            request = ModelRequest("", [UserMessage("hi"), *with_results(again(parts)), UserMessage("so?")], [FINISH])
            for ref in ("main:m:high", "main:other:high"):
                await answer(gateway.model(ref), request)
        assert server.violations == []
        _, own, others = server.requests
    assert signed(wire, own) == [found]
    assert signed(wire, others) == []


def signed(wire: Wire, request: VendorRequest) -> list[JsonValue]:
    """Return the signed reasoning of a request: blocks, or signatures."""
    if wire == "anthropic":
        blocks = [block for message in objects(request.body, "messages") for block in objects(message, "content")]
        return [dict(block) for block in blocks if block.get("type") == "thinking"]
    parts = [part for content in objects(request.body, "contents") for part in objects(content, "parts")]
    # LiteLLM writes a placeholder of its own for models that demand one.
    return [part["thoughtSignature"] for part in parts if part.get("thoughtSignature") == SIGNATURE]


@pytest.mark.parametrize(
    ("level", "declared", "budget", "total"),
    [
        ("minimal", "", 1_024, 5_120),
        ("high", "", 8_192, 12_288),
        ("high", ", max_tokens: 8192", 7_680, 8_192),
        ("max", ", max_tokens: 64000", 32_000, 64_000),
        ("low", ", max_tokens: 1000", None, 1_000),
        ("none", "", None, 4_096),
    ],
)
async def test_a_level_is_a_budget_for_anthropic_and_leaves_room_for_words(
    tmp_path: Path, level: str, declared: str, budget: int | None, total: int
) -> None:
    """Anthropic, extended thinking: from 1,024 tokens to below max_tokens, and no other temperature than 1."""
    async with VendorServer("anthropic") as server, served(one_vendor(tmp_path, server, model=declared)) as gateway:
        request = ModelRequest("", ask().messages, settings=ModelSettings(temperature=0.3))
        await answer(gateway.model(f"main:m:{level}"), request)
        (seen,) = server.requests
        assert server.violations == []
    thinking = read_object(seen.body, "thinking")
    assert thinking.get("budget_tokens") == budget
    assert seen.body["max_tokens"] == total
    assert seen.body.get("temperature") == (0.3 if budget is None else None)


async def test_after_calls_without_signed_reasoning_anthropic_is_asked_without_thinking(tmp_path: Path) -> None:
    """Anthropic, extended thinking: calls without a thinking block before them are refused while it is on."""
    async with VendorServer("anthropic") as server, served(one_vendor(tmp_path, server)) as gateway:
        await answer(gateway.model("main:m:high"), conversation())
        (seen,) = server.requests
        assert server.violations == []
    assert "thinking" not in seen.body


NAMES: Mapping[Wire, Sequence[str]] = {
    "responses": ("m", "gemini-2.5-flash", "gpt-5", "qwen3:8b"),
    "gemini": ("m", "gemini-2.5-flash", "gemini-3-pro-preview", "gpt-5"),  # a colon ends a name in its path
}
"""Names that LiteLLM knows and names that it does not."""


@pytest.mark.parametrize("level", ["none", "minimal", "low", "medium", "high", "xhigh", "max"])
@pytest.mark.parametrize(("wire", "model_id"), [(wire, name) for wire in NAMES for name in NAMES[wire]])
async def test_every_level_can_be_asked_of_any_name(tmp_path: Path, wire: Wire, model_id: str, level: str) -> None:
    """Reference, think levels; our choice: a relay may serve anything under any name."""
    async with VendorServer(wire) as server:
        async with served(one_vendor(tmp_path, server, model_id=model_id)) as gateway:
            request = ModelRequest("", ask().messages, settings=ModelSettings(temperature=0.3))
            await answer(gateway.model(f"main:{model_id}:{level}"), request)
        (seen,) = server.requests
        assert server.violations == []
    assert seen.model == model_id
    sent = "reasoning" if wire == "responses" else "generationConfig"
    if wire == "responses":
        # What the vendor itself does not take of a model that LiteLLM knows is left out.
        is_known = (model_id, level) in (("gpt-5", "none"), ("gpt-5", "xhigh"), ("gpt-5", "max"))
        assert is_known or read_object(seen.body, sent)["effort"] == level
    else:
        assert read_object(seen.body, sent)["thinkingConfig"]


@pytest.mark.parametrize(
    ("wire", "setting", "name"),
    [("anthropic", "top_k: 3", "top_k"), ("responses", "service_tier: flex", "service_tier"),
     ("gemini", "cachedContent: abc", "cachedContent")],
)  # fmt: skip
async def test_settings_are_further_fields_of_the_request(tmp_path: Path, wire: Wire, setting: str, name: str) -> None:
    """Reference, models.yaml: settings of a provider."""
    async with VendorServer(wire) as server:
        async with served(one_vendor(tmp_path, server, extra=f"    settings: {{{setting}}}")) as gateway:
            await answer(gateway.model("main:m"))
        (seen,) = server.requests
    assert name in seen.body


@WIRES
@pytest.mark.parametrize(
    ("reason", "expected"), [("length", "length"), ("content_filter", "content-filter"), ("stop", "stop")]
)
async def test_a_finish_reason_is_kept(tmp_path: Path, wire: Wire, reason: str, expected: str) -> None:
    """Design, what a model returns is untrusted: content_filter and length are legal, and so is nothing at all."""
    async with VendorServer(wire) as server, served(one_vendor(tmp_path, server)) as gateway:
        server.enqueue(replies.text(None, finish_reason=reason))
        parts = await answer(gateway.model("main:m"))
    assert (finish_of(parts).reason, text_of(parts)) == (expected, "")


Failure = tuple[replies.Reply, ModelErrorKind, int | None]


def failures(wire: Wire) -> dict[str, Failure]:
    """Return what can go wrong at a vendor, and what it is to us."""
    too_long = {
        "anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
        "responses": "Your input exceeds the context window of this model.",
        "gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    }
    code = "context_length_exceeded" if wire == "responses" else ""
    return {
        "400": (vendor_error(wire, 400, "bad field"), "bad_request", 400),
        "401": (vendor_error(wire, 401, f"invalid key {KEY}"), "auth", 401),
        "403": (vendor_error(wire, 403, "not for you"), "auth", 403),
        "404": (vendor_error(wire, 404, "no such model"), "not_found", 404),
        "429": (vendor_error(wire, 429, "slow down"), "rate", 429),
        "500": (vendor_error(wire, 500, "oops"), "unavailable", 500),
        "503": (vendor_error(wire, 503, "overloaded"), "unavailable", 503),
        "529": (vendor_error(wire, 529, "overloaded", kind="overloaded_error"), "unavailable", 529),
        "502 page": (replies.bad_gateway(), "unavailable", 502),
        "too long": (vendor_error(wire, 400, too_long[wire], kind=code), "context_length", 400),
        "reset": (replies.Reset(), "unavailable", None),
        "reset in the headers": (replies.Reset("after_headers"), "unavailable", None),
        "cut": (replies.cut("half an answer", ending="cut", parts_sent=4), "cut", None),
        "reset stream": (replies.cut("half an answer", ending="reset", parts_sent=4), "cut", None),
        "no end": (replies.cut("half an answer", parts_sent=4), "cut", None),
        "nothing": (replies.RawReply(body=b"", content_type="text/event-stream"), "unavailable", None),
        "no answer": (replies.RawReply(body=b"{}"), "unavailable", None),
    }


# LiteLLM takes each part of a Gemini stream for its last one, so an end in order without a finish cannot be told there.
CASES = [(wire, name) for wire in APIS for name in failures(wire) if (wire, name) != ("gemini", "no end")]


@pytest.mark.parametrize(("wire", "name"), CASES)
async def test_a_failure_has_its_kind_and_is_asked_once(tmp_path: Path, wire: Wire, name: str) -> None:
    """Design, dependencies: every exception mapped to ours, no hidden retry; secrets in no error."""
    reply, kind, status = failures(wire)[name]
    async with VendorServer(wire) as server, served(one_vendor(tmp_path, server)) as gateway:
        server.enqueue(reply)
        with pytest.raises(ModelError) as raised:
            await answer(gateway.model("main:m"))
        assert len(server.requests) == 1
    assert raised.value.kind == kind
    # Where there was no answer, or a server's own fault, LiteLLM may write another status.
    assert raised.value.status == status or (status or 500) >= 500
    assert KEY not in str(raised.value)
    assert str(raised.value).startswith("main:m: ")


@WIRES
async def test_a_rate_limit_says_how_long_to_wait(tmp_path: Path, wire: Wire) -> None:
    """RFC 9110, Retry-After."""
    error = vendor_error(wire, 429)
    limited = replies.RawReply(status=429, body=error.body, headers=(("Retry-After", "7"),))
    async with VendorServer(wire) as server, served(one_vendor(tmp_path, server)) as gateway:
        server.enqueue(limited)
        with pytest.raises(ModelError) as raised:
            await answer(gateway.model("main:m"))
    assert raised.value.retry_after_s == 7.0


@WIRES
async def test_text_streams_and_closing_the_iterator_hangs_up(tmp_path: Path, wire: Wire) -> None:
    """Core, LanguageModel.stream: parts as they come; closing ends the call at the provider."""
    hold = replies.Completion(content="a long answer", pieces=6, holds={4 if wire == "gemini" else 7: anyio.Event()})
    async with VendorServer(wire) as server, served(one_vendor(tmp_path, server)) as gateway:
        server.enqueue(hold)
        stream = gateway.model("main:m").stream(ask())
        with anyio.fail_after(10):
            async for part in stream:
                if isinstance(part, TextDelta):
                    break
            closing = getattr(stream, "aclose")  # noqa: B009 - the protocol promises an iterator only
            await closing()
            (request,) = await server.wait_requests(1)
            await request.gone.wait()
        assert gateway.limiter.running == 0
