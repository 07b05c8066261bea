"""One call over real HTTP: the request that reaches the server, the parts that come back, and every way to fail."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from pathlib import Path

import anyio
import orjson
import pytest

from ishiki.core.messages import (
    AssistantMessage,
    FilePart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolResultPart,
    Usage,
    UserMessage,
)
from ishiki.core.model import ModelInfo, ModelRequest, ModelSettings, ResponseStart, TextDelta, ToolCallDelta
from ishiki.errors import ModelError, ModelErrorKind
from ishiki.gateway.calls import Target, wire_call
from ishiki.jsonvalue import JsonValue
from ishiki.testing import openai_replies as replies
from ishiki.testing.openai_server import OpenAIServer

from .kit import FINISH, SPEAK, answer, ask, calls_of, finish_of, one_server, reasoning_of, served, text_of

TOO_LONG: tuple[ModelErrorKind, int] = ("context_length", 400)
KEY = "sk-main-key-0123456789"


def sse(*chunks: JsonValue, done: bool = True) -> replies.RawReply:
    """A stream of exactly these chunks."""
    body = b"".join(b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks)
    return replies.RawReply(stream_body=body + (b"data: [DONE]\n\n" if done else b""))


def chunk(delta: JsonValue = None, finish_reason: JsonValue = None, **fields: JsonValue) -> JsonValue:
    """Return a chunk with one choice."""
    choice: JsonValue = {"index": 0, "delta": delta or {}, "finish_reason": finish_reason}
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **fields}


async def test_a_request_reaches_the_server_as_it_was_asked(tmp_path: Path) -> None:
    """Design, gateway: openai-completions through LiteLLM, with tools, history, pictures and settings."""
    async with OpenAIServer(api_key=KEY) as server, served(one_server(tmp_path, server.base_url)) as gateway:
        request = ModelRequest(
            "You are Neko.",
            [
                UserMessage([TextPart("look"), FilePart("image/png", data=b"\x89PNG")]),
                AssistantMessage([TextPart("hm"), ToolCallPart("c1", "send_message", {"messages": ["你好"]})]),
                ToolMessage([ToolResultPart("c1", "send_message", ToolOutput("json", {"ok": True}))]),
                UserMessage("again"),
            ],
            [SPEAK, FINISH],
            tool_choice="required",
            settings=ModelSettings(temperature=0.5, top_p=0.9, max_output_tokens=100, extra={"top_k": 3}),
        )
        parts = await answer(gateway.model("main:m"), request)
        (seen,) = await server.wait_requests(1)
        assert server.violations == []
        body = dict(seen.body)
        assert [message["role"] for message in seen.messages] == ["system", "user", "assistant", "tool", "user"]
        assert seen.messages[1]["content"] == [
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
        ]
        assert seen.tool_names == ["send_message", "finish"]
        assert {name: body[name] for name in ("model", "stream", "stream_options", "tool_choice")} == {
            "model": "m",
            "stream": True,
            "stream_options": {"include_usage": True},
            "tool_choice": "required",
        }
        assert (body["temperature"], body["top_p"], body["max_tokens"], body["top_k"]) == (0.5, 0.9, 100, 3)
        assert [call.tool_name for call in calls_of(parts)] == ["send_message"]


async def test_text_streams_piece_by_piece(tmp_path: Path) -> None:
    """Design, gateway: streamed."""
    async with OpenAIServer() as server, served(one_server(tmp_path, server.base_url)) as gateway:
        server.enqueue(
            replies.text("你好，世界", pieces=3, usage=replies.Usage(15, 7, cached_tokens=10, reasoning_tokens=3))
        )
        parts = await answer(gateway.model("main:m"))
    assert isinstance(parts[0], ResponseStart)
    assert len([part for part in parts if isinstance(part, TextDelta)]) == 3
    assert text_of(parts) == "你好，世界"
    assert finish_of(parts).reason == "stop"
    assert finish_of(parts).usage == Usage(15, 7, 10, 3)


async def test_tool_calls_and_reasoning_stream_and_the_whole_call_comes_before_the_finish(tmp_path: Path) -> None:
    """Design, gateway: with tools and reasoning."""
    async with OpenAIServer() as server, served(one_server(tmp_path, server.base_url)) as gateway:
        made = [replies.call("send_message", {"messages": ["a"]}), replies.call("finish", {})]
        server.enqueue(replies.tool_calls(made, reasoning="let me think", pieces=4))
        parts = await answer(gateway.model("main:m"), ask("hi", tools=[SPEAK, FINISH]))
    assert reasoning_of(parts) == "let me think"
    calls = calls_of(parts)
    assert [(call.tool_name, json.loads(call.arguments)) for call in calls] == [
        ("send_message", {"messages": ["a"]}),
        ("finish", {}),
    ]
    deltas = [part for part in parts if isinstance(part, ToolCallDelta)]
    joined = "".join(delta.delta for delta in deltas if delta.tool_call_id == calls[0].tool_call_id)
    assert joined == calls[0].arguments
    assert finish_of(parts).reason == "tool-calls"


@pytest.mark.parametrize("usage", ["absent", "null"])
async def test_missing_usage_is_estimated_and_says_so(tmp_path: Path, usage: str) -> None:
    """Core, usage: True where the provider sent no usage and we counted characters instead."""
    async with OpenAIServer() as server, served(one_server(tmp_path, server.base_url)) as gateway:
        server.enqueue(replies.text("hello there", usage="absent" if usage == "absent" else "null"))
        usage_seen = finish_of(await answer(gateway.model("main:m"), ask("how are you"))).usage
    assert usage_seen.is_estimate
    assert usage_seen.input_tokens > 0
    assert usage_seen.output_tokens > 0


async def test_content_as_a_list_of_parts_is_text(tmp_path: Path) -> None:
    """Design, what a model returns is untrusted: content as a list of parts is legal."""
    async with OpenAIServer() as server, served(one_server(tmp_path, server.base_url)) as gateway:
        server.enqueue(replies.text([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]))
        assert text_of(await answer(gateway.model("main:m"))) == "ab"


@pytest.mark.parametrize(
    ("wire", "reason"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "content-filter"), ("galaxy", "other")],
)
async def test_a_finish_reason_is_kept(tmp_path: Path, wire: str, reason: str) -> None:
    """Design, what a model returns is untrusted: content_filter and length are legal."""
    async with OpenAIServer() as server, served(one_server(tmp_path, server.base_url)) as gateway:
        server.enqueue(replies.text(None, finish_reason=wire))
        parts = await answer(gateway.model("main:m"))
    assert finish_of(parts).reason == reason
    assert text_of(parts) == ""


@pytest.mark.parametrize(
    ("reply", "kind", "status"),
    [
        (replies.error(401, f"bad key {KEY}"), "auth", 401),
        (replies.error(402, "Insufficient Balance"), "auth", 402),
        (replies.error(403), "auth", 403),
        (replies.error(404), "not_found", 404),
        (replies.error(429), "rate", 429),
        (replies.error(400), "bad_request", 400),
        (replies.error(422), "bad_request", 422),
        (replies.error(400, code="content_filter"), "refused", 400),
        (replies.error(400, "This model's maximum context length is 10", code="context_length_exceeded"), *TOO_LONG),
        (replies.error(413), "context_length", 413),
        (replies.error(500), "unavailable", 500),
        (replies.error(503), "unavailable", 503),
        (replies.bad_gateway(), "unavailable", 502),
        (replies.garbled(), "unavailable", None),
        (replies.Completion(choices="empty"), "unavailable", None),
        (replies.Completion(choices="absent"), "unavailable", None),
        (replies.RawReply(body=b"{}"), "unavailable", None),
        (replies.Reset(), "unavailable", None),
        (replies.cut("half an answer"), "cut", None),
        (replies.cut("half an answer", ending="cut"), "cut", None),
        (replies.cut("half an answer", ending="reset"), "cut", None),
        (sse(chunk({"content": "a"}), {"error": {"message": "overloaded", "code": 529}}), "unavailable", 529),
    ],
)  # fmt: skip
async def test_a_failure_has_its_kind_and_is_asked_once(
    tmp_path: Path, reply: replies.Reply, kind: ModelErrorKind, status: int | None
) -> None:
    """Design, dependencies: every exception mapped to ours, no hidden retry; errors, kinds; secrets in no error."""
    async with OpenAIServer() as server, served(one_server(tmp_path, server.base_url)) as gateway:
        server.enqueue(reply)
        with pytest.raises(ModelError) as raised:
            await answer(gateway.model("main:m"))
        assert len(server.requests) == 1
    assert (raised.value.kind, raised.value.status) == (kind, status)
    assert raised.value.retryable is (kind not in ("refused", "context_length"))
    assert KEY not in "".join(traceback.format_exception(raised.value))
    assert str(raised.value).startswith("main:m: ")


async def test_a_rate_limit_says_how_long_to_wait(tmp_path: Path) -> None:
    """RFC 9110, Retry-After: seconds."""
    async with OpenAIServer() as server, served(one_server(tmp_path, server.base_url)) as gateway:
        server.enqueue(replies.error(429, retry_after_s=7))
        with pytest.raises(ModelError) as raised:
            await answer(gateway.model("main:m"))
    assert raised.value.retry_after_s == 7.0


async def test_a_server_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    """Errors, kinds: connection faults are `unavailable`."""
    async with OpenAIServer() as server:
        base_url = server.base_url
    async with served(one_server(tmp_path, base_url)) as gateway:
        with pytest.raises(ModelError) as raised:
            await answer(gateway.model("main:m"))
    assert (raised.value.kind, raised.value.status) == ("unavailable", None)


async def test_closing_the_iterator_hangs_up(tmp_path: Path) -> None:
    """Core, LanguageModel.stream: closing the iterator ends the call at the provider."""
    hold = anyio.Event()
    async with OpenAIServer() as server, served(one_server(tmp_path, server.base_url)) as gateway:
        server.enqueue(replies.Completion(content="a long answer", pieces=4, holds={3: hold}))
        model = gateway.model("main:m")
        with anyio.fail_after(10):
            stream = model.stream(ask())
            async for part in stream:
                if isinstance(part, TextDelta):
                    break
            closing = getattr(stream, "aclose")  # noqa: B009 - the protocol promises an iterator only
            await closing()
            (request,) = await server.wait_requests(1)
            await request.gone.wait()
        assert gateway.limiter.running == 0


@pytest.mark.parametrize("when", ["before_headers", "after_headers"])
async def test_cancelling_the_task_hangs_up(tmp_path: Path, when: str) -> None:
    """Core, LanguageModel.stream: cancelling its task ends the call at the provider."""
    async with OpenAIServer() as server, served(one_server(tmp_path, server.base_url)) as gateway:
        server.enqueue(replies.Hang("before_headers" if when == "before_headers" else "after_headers"))
        model = gateway.model("main:m")
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(answer, model)
                await server.wait_requests(1)
                tasks.cancel_scope.cancel()
            await server.requests[0].gone.wait()
        assert gateway.limiter.running == 0


async def test_loopback_is_reached_without_the_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our choice: no proxy can reach a server on this machine, so one that is set is not asked."""
    async with OpenAIServer() as dead:
        proxy = dead.base_url.removesuffix("/v1")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "example.org")
    async with OpenAIServer() as server, served(one_server(tmp_path, server.base_url)) as gateway:
        server.enqueue(replies.text("here"))
        assert text_of(await answer(gateway.model("main:m"))) == "here"


async def test_a_keyless_server_never_sees_a_key_of_another_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our choice: LiteLLM would send OPENAI_API_KEY where no key is given."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-somebody-elses-0123")
    async with OpenAIServer() as server:
        file = one_server(tmp_path, server.base_url)
        text = file.read_text(encoding="utf-8").replace('    api_key: "${MAIN_KEY}"\n', "")
        file.write_text(text, encoding="utf-8")
        async with served(file) as gateway:
            await answer(gateway.model("main:m"))
        (request,) = await server.wait_requests(1)
    assert "sk-somebody-elses-0123" not in str(request.headers)


async def test_headers_settings_and_level_reach_the_server(tmp_path: Path) -> None:
    """Reference, models.yaml: headers and settings of a provider, the level of a reference."""
    extra = '    headers: {X-App: "ishiki-${MAIN_KEY}"}\n    settings: {include_usage: false, enable_thinking: true}'
    async with OpenAIServer() as server, served(one_server(tmp_path, server.base_url, extra=extra)) as gateway:
        await answer(gateway.model("main:m:high"))
        (request,) = await server.wait_requests(1)
    assert request.headers["x-app"] == f"ishiki-{KEY}"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    fields = ("enable_thinking", "reasoning_effort", "stream_options")
    assert [request.body.get(name) for name in fields] == [True, "high", None]


@pytest.mark.parametrize("model_id", ["gpt-5", "o3-mini", "claude-3-5-sonnet", "deepseek-reasoner", "qwen3:8b"])
async def test_a_models_name_changes_nothing_of_the_request(tmp_path: Path, model_id: str) -> None:
    """Our choice: a compatible server may serve anything under any name; no field is dropped or refused by name."""
    async with OpenAIServer() as server:
        file = one_server(tmp_path, server.base_url)
        file.write_text(file.read_text(encoding="utf-8").replace("id: m,", f'id: "{model_id}",'), encoding="utf-8")
        async with served(file) as gateway:
            request = ModelRequest(
                "be kind", ask().messages, [SPEAK], settings=ModelSettings(temperature=0.3, max_output_tokens=9)
            )
            await answer(gateway.model(f"main:{model_id}:low"), request)
        (seen,) = await server.wait_requests(1)
        assert server.violations == []
    fields = ("model", "temperature", "max_tokens", "reasoning_effort")
    assert [seen.body.get(name) for name in fields] == [model_id, 0.3, 9, "low"]
    assert seen.messages[0] == {"role": "system", "content": "be kind"}


async def test_text_that_no_request_can_carry_is_replaced(tmp_path: Path) -> None:
    """Design, events.jsonl: lone surrogates become U+FFFD; here on the way to a provider."""
    async with OpenAIServer() as server, served(one_server(tmp_path, server.base_url)) as gateway:
        await answer(gateway.model("main:m"), ask("bro\ud83dken", instructions="\udc00"))
        (request,) = await server.wait_requests(1)
    assert [message["content"] for message in request.messages] == ["\ufffd", "bro\ufffdken"]


async def test_calls_beyond_the_limit_wait_for_a_place(tmp_path: Path) -> None:
    """Design, process settings: ISHIKI_MAX_MODEL_CALLS calls in flight; the issue: 15 hanging ones leave one free."""
    hold = anyio.Event()

    def responder(request: object) -> replies.Reply:
        return replies.Completion(content="ok", holds={0: hold})

    async with OpenAIServer(responder) as server, served(one_server(tmp_path, server.base_url), max_calls=2) as gateway:
        model = gateway.model("main:m")
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                for number in range(3):
                    tasks.start_soon(answer, model, ask(owner=f"channel {number}"))
                await server.wait_requests(2)
                assert (gateway.limiter.running, gateway.limiter.waiting) == (2, 1)
                hold.set()
                await server.wait_requests(3)
        assert (gateway.limiter.running, gateway.limiter.waiting) == (0, 0)


async def test_arguments_that_came_as_an_object_are_json_text(tmp_path: Path) -> None:
    """Seen at compatible servers: arguments as an object instead of its text."""
    piece: Mapping[str, JsonValue] = {
        "index": 0,
        "id": "c",
        "function": {"name": "finish", "arguments": {"reason": "x"}},
    }
    async with OpenAIServer() as server, served(one_server(tmp_path, server.base_url)) as gateway:
        server.enqueue(sse(chunk({"tool_calls": [piece]}), chunk({}, "tool_calls")))
        parts = await answer(gateway.model("main:m"), ask("hi", tools=[FINISH]))
    assert json.loads(calls_of(parts)[0].arguments) == {"reason": "x"}


@pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning")  # LiteLLM's own, in its wrapper
async def test_litellms_own_providers_answer_through_its_wrapper(tmp_path: Path) -> None:
    """Design, models.yaml: api litellm takes any LiteLLM provider; usage it does not get is an estimate of ours."""
    async with OpenAIServer() as server:
        file = one_server(tmp_path, server.base_url)
        text = file.read_text(encoding="utf-8").replace("id: m,", "id: openai/wrapped,")
        file.write_text(text.replace("openai-completions", "litellm"), encoding="utf-8")
        async with served(file) as gateway:
            model = gateway.model("main:openai/wrapped")
            server.enqueue(
                replies.tool_calls([replies.call("finish", {"reason": "x"})], reasoning="why", pieces=3),
                replies.text("hello", usage="absent"),
                replies.cut("half an answer"),
                replies.error(429, retry_after_s=2),
            )
            parts = await answer(model, ask("hi", tools=[FINISH]))
            assert [(call.tool_name, call.arguments) for call in calls_of(parts)] == [("finish", '{"reason":"x"}')]
            assert reasoning_of(parts) == "why"
            assert not finish_of(parts).usage.is_estimate
            parts = await answer(model)
            assert text_of(parts) == "hello"
            assert finish_of(parts).usage.is_estimate
            kinds: list[ModelErrorKind] = []
            for _ in range(2):
                with pytest.raises(ModelError) as raised:
                    await answer(model)
                kinds.append(raised.value.kind)
            assert kinds == ["cut", "rate"]
        assert server.violations == []
        assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("base_url", "name"), [(None, "max_completion_tokens"), ("https://relay.example/v1", "max_tokens")]
)
def test_openai_itself_gets_the_newer_name_of_the_limit(base_url: str | None, name: str) -> None:
    """OpenAI API reference, chat completions: its reasoning models refuse max_tokens; others know nothing else."""
    target = Target("p:m", "openai-completions", "m", ModelInfo("p:m", max_output_tokens=50), base_url=base_url)
    request = ModelRequest("", ask().messages, settings=ModelSettings(max_output_tokens=90))
    arguments = wire_call(target, request).arguments
    assert arguments[name] == 50
    assert arguments["api_base"] == base_url or arguments["api_base"] == "https://api.openai.com/v1"
