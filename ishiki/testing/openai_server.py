"""An OpenAI-compatible chat-completions server on loopback, scripted reply by reply, down to the socket.

    async with OpenAIServer() as server:
        server.enqueue(reply_saying("hi"))
        ...                                  # a client talks to server.base_url
        (request,) = await server.wait_requests(1)
        assert server.violations == []

Source: OpenAI API reference, chat completions (create, streaming) and models (list). This module owns what happens to
a request; what replies look like is `openai_replies`, what a request must look like is `openai_check`. Enter and leave
the server in one task: inside a test's body, not in an asynchronous fixture that yields.
"""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeAlias, assert_never

import anyio
import orjson

from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_bool, read_object, read_str
from ishiki.testing.http_wire import HttpConnection, HttpRequest, HttpServer
from ishiki.testing.journal import DEFAULT_WITHIN_S, Journal
from ishiki.testing.openai_check import check_request
from ishiki.testing.openai_dialects import ServerDialect, refusal
from ishiki.testing.openai_replies import (
    Completion,
    Hang,
    RawReply,
    Reply,
    Reset,
    body_of,
    call,
    chunks_of,
    error,
    reply_saying,
    text,
    tool_calls,
)
from ishiki.testing.task_scope import TaskScope

__all__ = ["ChatRequest", "OpenAIServer", "Responder", "answer_by_default"]

_JSON = "application/json"
_EVENT_STREAM = "text/event-stream; charset=utf-8"


@dataclass(frozen=True, slots=True, eq=False)
class ChatRequest:
    """One chat-completions request."""

    number: int
    """1-based, in order of arrival."""
    body: JsonObject
    raw: bytes
    """The body as it came."""
    headers: Mapping[str, str]
    """Names in lower case."""
    at: float
    """Unix seconds."""
    answered: anyio.Event = field(default_factory=anyio.Event)
    """Set when the whole reply has been sent."""
    gone: anyio.Event = field(default_factory=anyio.Event)
    """Set when the client hung up before that."""

    @property
    def model(self) -> str:
        """The model asked for."""
        return read_str(self.body, "model")

    @property
    def messages(self) -> list[JsonObject]:
        """The conversation, oldest first."""
        return [message for message in read_array(self.body, "messages") if isinstance(message, Mapping)]

    @property
    def tool_names(self) -> list[str]:
        """The tools offered, in order."""
        tools = [tool for tool in read_array(self.body, "tools") if isinstance(tool, Mapping)]
        return [read_str(read_object(tool, "function"), "name") for tool in tools]

    @property
    def is_stream(self) -> bool:
        """Whether a stream was asked for."""
        return read_bool(self.body, "stream")

    @property
    def all_text(self) -> str:
        """Every text of every message, in order, one a line: what a token is looked for in."""
        return "\n".join(line for message in self.messages for line in _texts(message))

    @property
    def last_user_text(self) -> str:
        """The texts of the last user message; empty without one."""
        users = [message for message in self.messages if message.get("role") == "user"]
        return "\n".join(_texts(users[-1])) if users else ""


def _texts(message: JsonObject) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    parts = [read_str(part, "text") for part in read_array(message, "content") if isinstance(part, Mapping)]
    calls = [read_object(made, "function") for made in read_array(message, "tool_calls") if isinstance(made, Mapping)]
    return [*parts, *(read_str(function, "arguments") for function in calls)]


Responder: TypeAlias = Callable[[ChatRequest], Reply | Awaitable[Reply]]
"""Decides the reply to a request; may be asynchronous. An error it raises ends the test."""


def answer_by_default(request: ChatRequest) -> Reply:
    """Answer as an untiring model does, deterministically.

    With a tool `send_message`: a call of it that says `reply <number>`, so that each line can be matched to its
    request; after a tool's result a call of `finish` where there is one, else text. Without: the text `reply <number>`.
    """
    is_after_tool = bool(request.messages) and request.messages[-1].get("role") == "tool"
    if is_after_tool:
        return tool_calls([call("finish", {})]) if "finish" in request.tool_names else text("done")
    if "send_message" in request.tool_names:
        return reply_saying(f"reply {request.number}")
    return text(f"reply {request.number}")


class OpenAIServer:
    """The server: `base_url` is what a client is configured with.

    The reply to a request is the next one of `enqueue`, in order of arrival; when there is none, the responder's.

    Args:
        responder: decides where nothing is queued; several channels at once are better served by it than by a queue.
        api_key: demanded as `Authorization: Bearer …`; None takes any.
        models: what GET /v1/models lists; a request may ask for others all the same.
        dialect: what it refuses beyond OpenAI, see `openai_dialects`; may be set while it runs. A refused request takes
            nothing from the queue.
        port: where to listen; 0 picks a free one. A bot that outlives the server finds the next one there.
    """

    def __init__(
        self,
        responder: Responder = answer_by_default,
        *,
        api_key: str | None = None,
        models: Sequence[str] = ("test-model",),
        dialect: ServerDialect = "openai",
        port: int = 0,
    ) -> None:
        self.responder = responder
        self.dialect: ServerDialect = dialect
        self._port = port
        self._api_key = api_key
        self._models = tuple(models)
        self._queue: deque[Reply] = deque()
        self._requests: Journal[ChatRequest] = Journal("requests")
        self._violations: list[str] = []
        self._http: HttpServer | None = None
        self._at_exit: AsyncExitStack | None = None

    async def __aenter__(self) -> OpenAIServer:
        async with AsyncExitStack() as stack:
            self._http = HttpServer(self._serve, port=self._port)
            stack.callback(self._http.close)
            tasks = await stack.enter_async_context(TaskScope())
            tasks.start_soon(self._http.run)
            self._at_exit = stack.pop_all()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        stack, self._at_exit = self._at_exit, None
        return None if stack is None else await stack.__aexit__(exc_type, exc, traceback)

    @property
    def base_url(self) -> str:
        """Such as `http://127.0.0.1:40001/v1`; only between enter and exit."""
        if self._http is None:
            raise RuntimeError("the server is not open: use it with `async with`")
        return f"http://127.0.0.1:{self._http.port}/v1"

    @property
    def requests(self) -> list[ChatRequest]:
        """Every chat-completions request so far, in order of arrival; a copy."""
        return self._requests.items

    @property
    def violations(self) -> list[str]:
        """What `check_request` found, each with its request's number; a copy. A test ends by asserting it is empty."""
        return list(self._violations)

    def enqueue(self, *replies: Reply) -> None:
        """Script the replies to the next requests."""
        self._queue.extend(replies)

    async def wait_requests(self, count: int = 1, *, within: float = DEFAULT_WITHIN_S) -> list[ChatRequest]:
        """Wait until `count` requests have come in all, and return all so far.

        Raises:
            TimeoutError: fewer came within `within` seconds.
        """
        return await self._requests.at_least(count, within=within)

    async def wait_request_like(
        self, matches: Callable[[ChatRequest], bool], *, since: int = 0, within: float = DEFAULT_WITHIN_S
    ) -> ChatRequest:
        """Wait for the first request that `matches` accepts, from position `since` of `requests` on.

        Raises:
            TimeoutError: none came within `within` seconds.
        """
        return await self._requests.first(matches, since=since, within=within)

    async def _serve(self, connection: HttpConnection) -> None:
        while (request := await connection.read_request()) is not None:
            await self._dispatch(connection, request)
            if not connection.can_go_on:
                return

    async def _dispatch(self, connection: HttpConnection, request: HttpRequest) -> None:
        if (request.method, request.path) == ("POST", "/v1/chat/completions") and self._is_allowed(request):
            await self._complete(connection, request)
            return
        with suppress(OSError):  # the client has hung up
            await _send_raw(connection, self._other_reply(request), is_stream=False)

    def _is_allowed(self, request: HttpRequest) -> bool:
        return self._api_key is None or request.headers.get("authorization") == f"Bearer {self._api_key}"

    def _other_reply(self, request: HttpRequest) -> RawReply:
        if not self._is_allowed(request):
            return error(401, "Incorrect API key provided", code="invalid_api_key")
        if (request.method, request.path) == ("GET", "/v1/models"):
            return self._model_list()
        return error(404, f"Unknown request URL: {request.method} {request.path}")

    def _model_list(self) -> RawReply:
        models: list[JsonValue] = [
            {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "ishiki"} for name in self._models
        ]
        return RawReply(body=orjson.dumps({"object": "list", "data": models}))

    async def _complete(self, connection: HttpConnection, http: HttpRequest) -> None:
        number = len(self._requests) + 1
        body = _read_body(http.body)
        if body is None:
            self._violations.append("the body of a request is no JSON object")
            with suppress(OSError):
                await _send_raw(connection, error(400, "the body is no JSON object"), is_stream=False)
            return
        refused = refusal(self.dialect, body)
        scripted = refused if refused is not None else self._queue.popleft() if self._queue else None
        request = ChatRequest(number, body, http.body, http.headers, time.time())
        self._violations.extend(f"request {number}: {problem}" for problem in check_request(body))
        self._requests.add(request)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch, connection, request, tasks.cancel_scope)
            reply = scripted if scripted is not None else self.responder(request)
            if inspect.isawaitable(reply):
                reply = await reply
            await _send(connection, request, reply)
            tasks.cancel_scope.cancel()


def _read_body(raw: bytes) -> JsonObject | None:
    try:
        body: JsonValue = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, Mapping) else None


async def _watch(connection: HttpConnection, request: ChatRequest, replying: anyio.CancelScope) -> None:
    await connection.wait_gone()
    request.gone.set()
    replying.cancel()


async def _send(connection: HttpConnection, request: ChatRequest, reply: Reply) -> None:
    try:
        match reply:
            case Completion():
                await _send_completion(connection, request, reply)
            case RawReply():
                await _send_raw(connection, reply, is_stream=request.is_stream)
            case Reset() | Hang():
                if reply.when == "after_headers":
                    await connection.start(200, _headers(_EVENT_STREAM if request.is_stream else _JSON))
                if isinstance(reply, Hang):
                    await anyio.sleep_forever()
                connection.reset()
            case _:
                assert_never(reply)
    except OSError:
        request.gone.set()
    else:
        request.answered.set()


def _headers(content_type: str, *, length: int | None = None) -> list[tuple[str, str]]:
    head = [("content-type", content_type)]
    return head if length is None else [*head, ("content-length", str(length))]


async def _send_raw(connection: HttpConnection, reply: RawReply, *, is_stream: bool) -> None:
    if reply.hold is not None:
        await reply.hold.wait()
    if is_stream and reply.stream_body is not None:
        body, content_type = reply.stream_body, _EVENT_STREAM
    else:
        body, content_type = reply.body, reply.content_type
    await connection.start(reply.status, [*_headers(content_type, length=len(body)), *reply.headers])
    await connection.send(body)
    await connection.end()


async def _send_completion(connection: HttpConnection, request: ChatRequest, reply: Completion) -> None:
    prompt_chars = len(request.raw)
    if not request.is_stream:
        body = body_of(reply, number=request.number, model=request.model, prompt_chars=prompt_chars)
        await _send_whole(connection, reply, orjson.dumps(body))
        return
    include_usage = read_bool(read_object(request.body, "stream_options"), "include_usage")
    chunks = chunks_of(
        reply, number=request.number, model=request.model, prompt_chars=prompt_chars, include_usage=include_usage
    )
    parts = [b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks]
    if reply.ending != "done":
        parts = parts[: reply.parts_sent]
    for position, part in enumerate([*parts, b"data: [DONE]\n\n"] if reply.ending == "done" else parts):
        if position in reply.holds:
            await reply.holds[position].wait()
        if position == 0:
            await connection.start(200, [*_headers(_EVENT_STREAM), ("cache-control", "no-cache")])
        await connection.send(part)
    await _end(connection, reply)


async def _send_whole(connection: HttpConnection, reply: Completion, body: bytes) -> None:
    if 0 in reply.holds:
        await reply.holds[0].wait()
    await connection.start(200, _headers(_JSON, length=len(body)))
    await connection.send(body if reply.ending == "done" else body[: len(body) // 2])
    if reply.ending == "no_done":
        # An answer in one piece that ends early can only break its content-length.
        connection.close()
        return
    await _end(connection, reply)


async def _end(connection: HttpConnection, reply: Completion) -> None:
    match reply.ending:
        case "done" | "no_done":
            await connection.end()
        case "cut":
            connection.close()
        case "reset":
            connection.reset()
        case _:
            assert_never(reply.ending)
