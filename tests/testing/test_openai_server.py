"""The OpenAI-compatible server over real HTTP, with httpx as the client."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx
import orjson
import pytest

from ishiki.jsonvalue import JsonObject, JsonValue, read_object, read_str
from ishiki.testing.openai_replies import (
    Completion,
    Ending,
    Hang,
    Reply,
    Reset,
    Usage,
    bad_gateway,
    call,
    cut,
    error,
    garbled,
    reply_saying,
    text,
    tool_calls,
)
from ishiki.testing.openai_server import ChatRequest, OpenAIServer

pytestmark = pytest.mark.timeout(20)

SEND_MESSAGE: JsonObject = {"type": "function", "function": {"name": "send_message", "parameters": {"type": "object"}}}
FINISH: JsonObject = {"type": "function", "function": {"name": "finish", "parameters": {"type": "object"}}}


def request(content: str, **fields: JsonValue) -> JsonObject:
    """A request of one line; `fields` add to it or replace."""
    return {"model": "test-model", "messages": [{"role": "user", "content": content}], **fields}


class Client:
    """A chat client: one request, decoded."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def post(self, content: str = "hi", **fields: JsonValue) -> httpx.Response:
        return await self.http.post("/chat/completions", content=orjson.dumps(request(content, **fields)))

    async def ask(self, content: str = "hi", **fields: JsonValue) -> JsonObject:
        """Return the choice's message."""
        response = await self.http.post("/chat/completions", content=orjson.dumps(request(content, **fields)))
        return read_object(first(response.json()["choices"]), "message")

    async def events(self, *, include_usage: bool = True, **fields: JsonValue) -> list[str]:
        """Return what stands behind each `data:` of a stream."""
        options: JsonObject = {"stream_options": {"include_usage": True}} if include_usage else {}
        body = request("hi", stream=True, **options, **fields)
        response = await self.http.post("/chat/completions", content=orjson.dumps(body))
        assert response.headers["content-type"].startswith("text/event-stream")
        return [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]

    async def chunks(self, *, include_usage: bool = True) -> list[JsonObject]:
        *events, last = await self.events(include_usage=include_usage)
        assert last == "[DONE]"
        return [orjson.loads(event) for event in events]


def first(values: JsonValue) -> JsonObject:
    """Return the first object of a list."""
    assert isinstance(values, list)
    assert isinstance(values[0], dict)
    return values[0]


@asynccontextmanager
async def serving(*replies: Reply) -> AsyncGenerator[tuple[OpenAIServer, Client]]:
    """A server with these replies queued, and a client of it."""
    async with OpenAIServer() as server:
        server.enqueue(*replies)
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(base_url=server.base_url, timeout=5, limits=limits, trust_env=False) as http:
            yield server, Client(http)


async def test_a_text_comes_as_a_chat_completion_object() -> None:
    """OpenAI API reference, the chat completion object."""
    async with serving(text("hello", usage=Usage(100, 7, cached_tokens=64, reasoning_tokens=3))) as (server, client):
        body = (await client.post()).json()
        assert body["object"] == "chat.completion"
        assert body["model"] == "test-model"
        choice = first(body["choices"])
        assert choice["finish_reason"] == "stop"
        assert read_object(choice, "message")["content"] == "hello"
        assert (body["usage"]["prompt_tokens"], body["usage"]["total_tokens"]) == (100, 107)
        assert body["usage"]["prompt_tokens_details"]["cached_tokens"] == 64
        assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == 3
        assert server.violations == []


async def test_tool_calls_come_with_ids_and_arguments_as_text() -> None:
    """OpenAI API reference, the chat completion object, tool_calls."""
    calls = [call("read", {"url": "local://a"}), call("read", "{not json", call_id="mine")]
    async with serving(tool_calls(calls, reasoning="hm"), reply_saying("a", "b")) as (_, client):
        message = await client.ask()
        assert message["content"] is None
        assert message["reasoning_content"] == "hm"
        assert message["tool_calls"] == [
            {"id": "call_1_0", "type": "function", "function": {"name": "read", "arguments": '{"url":"local://a"}'}},
            {"id": "mine", "type": "function", "function": {"name": "read", "arguments": "{not json"}},
        ]
        said = first((await client.ask())["tool_calls"])
        assert said["function"] == {"name": "send_message", "arguments": '{"messages":["a","b"]}'}


async def test_a_stream_joins_to_the_same_answer() -> None:
    """OpenAI API reference, the chat completion chunk object."""
    reply = tool_calls([call("read", {"url": "local://x"})], content="let me see", reasoning="I should look", pieces=3)
    async with serving(reply) as (server, client):
        chunks = await client.chunks()
        deltas = [read_object(first(chunk["choices"]), "delta") for chunk in chunks[:-1]]
        assert "".join(read_str(delta, "content") for delta in deltas) == "let me see"
        assert "".join(read_str(delta, "reasoning_content") for delta in deltas) == "I should look"
        parts = [first(delta["tool_calls"]) for delta in deltas if "tool_calls" in delta]
        assert len(parts) == 4
        assert parts[0]["id"] == "call_1_0"
        assert "".join(read_str(read_object(part, "function"), "arguments") for part in parts) == '{"url":"local://x"}'
        assert first(chunks[-2]["choices"])["finish_reason"] == "tool_calls"
        assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
        assert server.requests[0].is_stream


async def test_usage_comes_last_in_a_stream_and_only_when_asked_for() -> None:
    """OpenAI API reference, stream_options.include_usage."""
    async with serving(text("a"), text("a")) as (_, client):
        *earlier, last = await client.chunks()
        assert last["choices"] == []
        assert read_object(last, "usage")["total_tokens"]
        assert all(chunk["usage"] is None for chunk in earlier)
        assert all("usage" not in chunk for chunk in await client.chunks(include_usage=False))


async def test_the_stream_of_a_reply_arrives_part_by_part() -> None:
    """Our choice: holds let a test decide what the client has seen."""
    release = anyio.Event()
    reply = Completion(content="abcd", pieces=2, holds={2: release})
    async with serving(reply) as (server, client):
        body = orjson.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]})
        async with client.http.stream("POST", "/chat/completions", content=body) as response:
            seen = ""
            async for part in response.aiter_text():
                seen += part
                if '"ab"' in seen and not release.is_set():
                    assert '"cd"' not in seen
                    release.set()
        assert seen.endswith("data: [DONE]\n\n")
        await server.requests[0].answered.wait()


async def test_a_hold_before_the_first_byte_holds_the_status_too() -> None:
    """Our choice: part 0 stands before the status line."""
    release = anyio.Event()
    async with serving(Completion(content="late", holds={0: release})) as (server, client):
        answers: list[JsonObject] = []

        async def ask() -> None:
            answers.append(await client.ask())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await server.wait_requests(1)
            await anyio.wait_all_tasks_blocked()
            assert answers == []
            release.set()
        assert answers[0]["content"] == "late"


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_an_error_status_has_openais_error_object(status: int) -> None:
    """OpenAI API reference, error codes."""
    async with serving(error(status, "no", code="some_code", retry_after_s=7)) as (_, client):
        response = await client.post()
        assert response.status_code == status
        assert response.headers["retry-after"] == "7"
        assert response.json()["error"] == {
            "message": "no",
            "type": "invalid_request_error",
            "param": None,
            "code": "some_code",
        }


async def test_a_bad_gateway_answers_in_html() -> None:
    """Our choice: what a proxy says when the model server is down."""
    async with serving(bad_gateway()) as (_, client):
        response = await client.post()
        assert (response.status_code, response.headers["content-type"]) == (502, "text/html")
        assert "<h1>" in response.text


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Completion(content="x", choices="empty"), []),
        (Completion(content="x", choices="absent"), None),
    ],
)
async def test_a_completion_may_lack_its_choice(reply: Completion, expected: JsonValue) -> None:
    """Our choice: seen with compatible servers."""
    async with serving(reply, reply) as (_, client):
        assert (await client.post()).json().get("choices") == expected
        assert all(chunk.get("choices") == expected for chunk in (await client.chunks())[:-1])


@pytest.mark.parametrize("content", [None, "", [{"type": "text", "text": "x"}]])
async def test_content_may_be_null_empty_or_a_list_of_parts(content: JsonValue) -> None:
    """Our choice: all are legal answers of some server."""
    async with serving(text(content, finish_reason="content_filter"), text(content)) as (_, client):
        choice = first((await client.post()).json()["choices"])
        assert read_object(choice, "message")["content"] == content
        assert choice["finish_reason"] == "content_filter"
        deltas = [read_object(first(chunk["choices"]), "delta") for chunk in (await client.chunks())[:-1]]
        assert [delta["content"] for delta in deltas if delta.get("content")] == ([content] if content else [])


async def test_usage_may_be_null_or_absent() -> None:
    """Our choice: seen with compatible servers."""
    async with serving(text("x", usage="null"), text("x", usage="absent")) as (_, client):
        assert (await client.post()).json()["usage"] is None
        assert "usage" not in (await client.post()).json()


async def test_counted_usage_is_the_same_for_the_same_request() -> None:
    """Our choice: deterministic, and it grows with the prompt."""
    async with serving(text("x" * 40), text("x" * 40), text("x" * 40)) as (_, client):
        usages = [(await client.post(content)).json()["usage"] for content in ("hi", "hi", "hi" * 100)]
        assert usages[0] == usages[1]
        assert usages[0]["completion_tokens"] == 10
        assert usages[2]["prompt_tokens"] > usages[0]["prompt_tokens"]


async def test_garbled_json_is_no_json_in_both_modes() -> None:
    """Our choice: a broken server."""
    async with serving(garbled(), garbled()) as (_, client):
        response = await client.post()
        assert response.status_code == 200
        with pytest.raises(ValueError, match=r"Expecting|EOF"):
            response.json()
        broken, done = await client.events()
        assert done == "[DONE]"
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(broken)


async def test_a_stream_may_end_without_done() -> None:
    """Our choice: the HTTP response is whole, the model's answer is not."""
    async with serving(cut("abcdefgh", parts_sent=3)) as (_, client):
        events = await client.events()
        assert len(events) == 3
        assert 'finish_reason":null' in events[-1]


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize(
    ("ending", "fault"), [("cut", httpx.RemoteProtocolError), ("reset", (httpx.ReadError, httpx.RemoteProtocolError))]
)
async def test_a_connection_may_break_inside_the_answer(
    ending: Ending, fault: type[Exception] | tuple[type[Exception], ...], is_stream: bool
) -> None:
    """RFC 9112, section 8: an incomplete message."""
    async with serving(cut("abcdefgh" * 9, ending=ending)) as (_, client):
        with pytest.raises(fault):
            await client.post(stream=is_stream)


async def test_a_reset_before_the_headers_is_a_reset_on_the_socket() -> None:
    """RFC 9293, section 3.5.2: the client's read fails with ECONNRESET."""
    async with serving(Reset()) as (server, _):
        host, port = server.base_url.removeprefix("http://").removesuffix("/v1").split(":")
        body = b'{"model":"m","messages":[{"role":"user","content":"x"}]}'
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
        async with await anyio.connect_tcp(host, int(port)) as stream:
            await stream.send(head + body)
            with pytest.raises(anyio.BrokenResourceError) as broken:
                await stream.receive()
            assert isinstance(broken.value.__cause__, ConnectionResetError)


async def test_a_reset_after_the_headers_leaves_a_body_that_never_comes() -> None:
    """RFC 9112, section 8: an incomplete message."""
    async with serving(Reset("after_headers")) as (_, client):
        with pytest.raises(httpx.TransportError):
            await client.post()


@pytest.mark.parametrize("reply", [Hang(), Hang("after_headers")])
async def test_a_hanging_request_ends_when_the_client_gives_up(reply: Hang) -> None:
    """Our choice: a test sees that a cancelled call was hung up."""
    async with serving(reply) as (server, client):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.post)
            await server.wait_requests(1)
            await anyio.wait_all_tasks_blocked()
            assert not server.requests[0].gone.is_set()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(5):
            await server.requests[0].gone.wait()
        assert not server.requests[0].answered.is_set()


async def test_sixty_requests_hang_while_the_next_is_answered() -> None:
    """Our choice: many channels wait for their models at once."""

    def respond(request: ChatRequest) -> Reply:
        return Hang() if request.last_user_text == "hang" else text("quick")

    async with serving() as (server, client):
        server.responder = respond
        async with anyio.create_task_group() as tasks:
            for _ in range(60):
                tasks.start_soon(client.post, "hang")
            await server.wait_requests(60)
            assert (await client.ask("go"))["content"] == "quick"
            tasks.cancel_scope.cancel()
        assert [request.number for request in server.requests] == list(range(1, 62))


async def test_a_responder_may_wait_and_look_at_the_request() -> None:
    """Our choice: replies to several channels are decided by what they say."""

    async def respond(request: ChatRequest) -> Reply:
        await anyio.lowlevel.checkpoint()
        return text(f"{request.model}:{request.last_user_text}:{','.join(request.tool_names)}")

    async with serving(text("queued")) as (server, client):
        server.responder = respond
        assert (await client.ask())["content"] == "queued"
        assert (await client.ask("token-7", tools=[SEND_MESSAGE, FINISH]))["content"] == (
            "test-model:token-7:send_message,finish"
        )
        assert (await server.wait_request_like(lambda request: "token-7" in request.all_text)).number == 2


async def test_an_error_in_the_responder_ends_the_test() -> None:
    """Our choice: a fault in a test's own script must not look like a fault of the model."""

    def respond(_: ChatRequest) -> Reply:
        raise LookupError("the script's own")

    async def body() -> None:
        async with OpenAIServer(respond) as server, httpx.AsyncClient(trust_env=False, timeout=5) as http:
            await http.post(f"{server.base_url}/chat/completions", json={"model": "m"})

    with pytest.raises(ExceptionGroup) as caught:
        await body()
    assert caught.group_contains(LookupError)


async def test_the_default_speaks_by_send_message_and_then_finishes() -> None:
    """Our choice: each line can be matched to its request."""
    async with serving() as (_, client):
        assert (await client.ask())["content"] == "reply 1"
        calls = first((await client.ask(tools=[SEND_MESSAGE, FINISH]))["tool_calls"])
        assert calls["function"] == {"name": "send_message", "arguments": '{"messages":["reply 2"]}'}
        after: list[JsonValue] = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": None, "tool_calls": [{**calls, "type": "function"}]},
            {"role": "tool", "tool_call_id": calls["id"], "content": "ok"},
        ]
        assert read_object(first((await client.ask(messages=after, tools=[FINISH]))["tool_calls"]), "function") == {
            "name": "finish",
            "arguments": "{}",
        }
        assert (await client.ask(messages=after))["content"] == "done"


async def test_a_malformed_request_is_answered_and_noted() -> None:
    """Our choice: what a strict provider would refuse is seen at the test's end."""
    async with serving() as (server, client):
        assert (await client.post(messages=[{"role": "system", "content": "x"}])).status_code == 200
        assert server.violations == ["request 1: messages: no user message"]
        assert (await client.http.post("/chat/completions", content=b"[]")).status_code == 400
        assert (await client.http.post("/chat/completions", content=b"{")).status_code == 400
        assert len(server.violations) == 3
        assert len(server.requests) == 1


async def test_requests_are_kept_with_headers_and_bytes() -> None:
    """Our choice: prefixes are compared byte for byte."""
    async with serving() as (server, client):
        client.http.headers["Authorization"] = "Bearer k"
        await client.post("ä")
        (request,) = server.requests
        assert request.headers["authorization"] == "Bearer k"
        assert orjson.loads(request.raw) == request.body
        assert request.messages == [{"role": "user", "content": "ä"}]


async def test_the_key_is_checked_where_one_is_set() -> None:
    """OpenAI API reference, authentication and error codes."""
    async with OpenAIServer(api_key="right") as server, httpx.AsyncClient(trust_env=False, timeout=5) as http:
        assert (await http.get(f"{server.base_url}/models")).status_code == 401
        refused = await http.post(f"{server.base_url}/chat/completions", json={})
        assert refused.json()["error"]["code"] == "invalid_api_key"
        answer = await http.get(f"{server.base_url}/models", headers={"Authorization": "Bearer right"})
        assert answer.json()["data"][0]["id"] == "test-model"
        assert server.requests == []


async def test_other_paths_are_not_found() -> None:
    """OpenAI API reference, error codes."""
    async with serving() as (_, client):
        assert (await client.http.get("/chat/completions")).status_code == 404
        assert (await client.http.post("/embeddings", content=b"{}")).status_code == 404


async def test_one_connection_serves_many_requests() -> None:
    """RFC 9112, section 9.3: persistent connections."""
    async with OpenAIServer() as server:
        limits = httpx.Limits(max_connections=1)
        async with httpx.AsyncClient(base_url=server.base_url, timeout=5, limits=limits, trust_env=False) as http:
            client = Client(http)
            answers = [(await client.ask())["content"] for _ in range(3)]
            await client.events()
            assert answers == ["reply 1", "reply 2", "reply 3"]
        assert len(server.requests) == 4


async def test_an_answer_larger_than_the_sockets_buffer_arrives_whole() -> None:
    """Our choice: long answers exist, and so do long prompts."""
    long = "x" * 8_000_000
    async with serving(text(long)) as (server, client):
        assert (await client.ask(long))["content"] == long
        assert server.requests[0].last_user_text == long


async def test_a_client_that_waits_before_its_body_is_told_to_go_on() -> None:
    """RFC 9110, section 10.1.1: Expect: 100-continue."""
    async with serving(text("ok")) as (server, _):
        port = int(server.base_url.removesuffix("/v1").rpartition(":")[2])
        body = orjson.dumps(request("hi"))
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(head % len(body))
            assert (await stream.receive()).startswith(b"HTTP/1.1 100")
            await stream.send(body)
            assert (await stream.receive()).startswith(b"HTTP/1.1 200")


async def test_what_is_no_http_closes_that_connection_only() -> None:
    """Our choice: a stray client disturbs nobody."""
    async with serving() as (server, client):
        port = int(server.base_url.removesuffix("/v1").rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", port) as stray:
            await stray.send(b"\x16\x03\x01 not http\r\n\r\n")
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await stray.receive()
        assert (await client.ask())["content"] == "reply 1"


async def test_the_next_server_can_listen_where_the_last_one_did() -> None:
    """Our choice: a bot that outlives a test finds the next test's server."""
    async with OpenAIServer() as first:
        url = first.base_url
    port = int(url.removesuffix("/v1").rpartition(":")[2])
    async with OpenAIServer(port=port) as second, httpx.AsyncClient() as client:
        assert second.base_url == url
        assert (await client.get(f"{url}/models")).status_code == 200
