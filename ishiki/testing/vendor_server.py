"""A server that speaks Anthropic's Messages API, OpenAI's Responses API and Gemini's streamGenerateContent.

    async with VendorServer("anthropic") as server:
        server.enqueue(reply_saying("hi"))
        ...                                  # a client talks to server.base_url
        (request,) = await server.wait_requests(1)
        assert server.violations == []

Replies are those of `openai_replies`; errors in a vendor's own form come from `vendor_wires.vendor_error`. Enter and
leave the server in one task.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import assert_never

import anyio
import orjson

from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.http_wire import HttpConnection, HttpRequest, HttpServer
from ishiki.testing.journal import DEFAULT_WITHIN_S, Journal
from ishiki.testing.openai_replies import Completion, Hang, RawReply, Reply, Reset, text
from ishiki.testing.task_scope import TaskScope
from ishiki.testing.vendor_check import check_vendor_request
from ishiki.testing.vendor_wires import Wire, events_of, vendor_error

__all__ = ["VendorRequest", "VendorServer"]

_PATHS: Mapping[Wire, tuple[str, re.Pattern[str]]] = {
    "anthropic": ("/v1", re.compile(r"/v1/messages")),
    "responses": ("/v1", re.compile(r"/v1/responses")),
    "gemini": ("/v1beta", re.compile(r"/v1beta/models/(?P<model>[^/:]+):streamGenerateContent")),
}
"""What a base URL ends in, and where a request goes."""

_KEY_HEADERS: Mapping[Wire, str] = {"anthropic": "x-api-key", "responses": "authorization", "gemini": "x-goog-api-key"}


@dataclass(frozen=True, slots=True, eq=False)
class VendorRequest:
    """One request for an answer."""

    number: int
    """1-based, in order of arrival."""
    body: JsonObject
    raw: bytes
    headers: Mapping[str, str]
    """Names in lower case."""
    model: str
    gone: anyio.Event
    """Set when the client hung up before the answer was whole."""


class VendorServer:
    """The server of one API: `base_url` is what a client is configured with.

    Args:
        wire: the API.
        api_key: demanded in the API's own header; None takes any.
        models: what its list of models holds; a request may ask for others all the same.
    """

    def __init__(self, wire: Wire, *, api_key: str | None = None, models: Sequence[str] = ("test-model",)) -> None:
        self.wire: Wire = wire
        self.models = tuple(models)
        self.lists = 0
        """How often the list was asked for."""
        self._api_key = api_key
        self._queue: deque[Reply] = deque()
        self._requests: Journal[VendorRequest] = Journal("requests")
        self._violations: list[str] = []
        self._http: HttpServer | None = None
        self._at_exit: AsyncExitStack | None = None

    async def __aenter__(self) -> VendorServer:
        async with AsyncExitStack() as stack:
            self._http = HttpServer(self._serve)
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
        return f"http://127.0.0.1:{self._http.port}{_PATHS[self.wire][0]}"

    @property
    def requests(self) -> list[VendorRequest]:
        """Every request so far, in order of arrival; a copy."""
        return self._requests.items

    @property
    def violations(self) -> list[str]:
        """What was wrong with requests, each with its number; a copy. A test ends by asserting that it is empty."""
        return list(self._violations)

    def enqueue(self, *replies: Reply) -> None:
        """Script the replies to the next requests; further ones are answered by the text `reply <number>`."""
        self._queue.extend(replies)

    async def wait_requests(self, count: int = 1, *, within: float = DEFAULT_WITHIN_S) -> list[VendorRequest]:
        """Wait until `count` requests have come in all, and return all so far.

        Raises:
            TimeoutError: fewer came within `within` seconds.
        """
        return await self._requests.at_least(count, within=within)

    async def _serve(self, connection: HttpConnection) -> None:
        while (request := await connection.read_request()) is not None:
            with suppress(OSError):  # the client has hung up
                await self._answer(connection, request)
            if not connection.can_go_on:
                return

    async def _answer(self, connection: HttpConnection, http: HttpRequest) -> None:
        if (http.method, http.path.partition("?")[0]) == ("GET", f"{_PATHS[self.wire][0]}/models"):
            await _send_raw(connection, self._model_list(http))
            return
        found = _PATHS[self.wire][1].fullmatch(http.path)
        if http.method != "POST" or found is None:
            self._violations.append(f"{http.method} {http.path} is no request of this API")
            await _send_raw(connection, vendor_error(self.wire, 404, "no such path"))
            return
        if not self._is_allowed(http):
            await _send_raw(connection, vendor_error(self.wire, 401, "invalid key", kind="authentication_error"))
            return
        number = len(self._requests) + 1
        body: JsonValue = orjson.loads(http.body)
        if not isinstance(body, Mapping):
            raise TypeError("the body of a request is no JSON object")
        model = found.groupdict().get("model") or str(body.get("model", ""))
        request = VendorRequest(number, body, http.body, http.headers, model, anyio.Event())
        self._violations.extend(f"request {number}: {fault}" for fault in check_vendor_request(self.wire, body))
        reply = self._queue.popleft() if self._queue else text(f"reply {number}")
        self._requests.add(request)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch, connection, request, tasks.cancel_scope)
            try:
                await self._send(connection, request, reply)
            except OSError:
                request.gone.set()
            tasks.cancel_scope.cancel()

    def _model_list(self, http: HttpRequest) -> RawReply:
        """Return the list in the API's own form. Sources: each vendor's API reference, list of models."""
        self.lists += 1
        if not self._is_allowed(http):
            return vendor_error(self.wire, 401, "invalid key", kind="authentication_error")
        if self.wire == "gemini":
            return RawReply(body=orjson.dumps({"models": [{"name": f"models/{name}"} for name in self.models]}))
        kind = "type" if self.wire == "anthropic" else "object"
        return RawReply(body=orjson.dumps({"data": [{"id": name, kind: "model"} for name in self.models]}))

    def _is_allowed(self, request: HttpRequest) -> bool:
        given = request.headers.get(_KEY_HEADERS[self.wire], "").removeprefix("Bearer ")
        return self._api_key is None or given == self._api_key

    async def _send(self, connection: HttpConnection, request: VendorRequest, reply: Reply) -> None:
        match reply:
            case Completion():
                await self._stream(connection, request, reply)
            case RawReply():
                await _send_raw(connection, reply)
            case Reset() | Hang():
                if reply.when == "after_headers":
                    await connection.start(200, [("content-type", "text/event-stream")])
                if isinstance(reply, Hang):
                    await anyio.sleep_forever()
                connection.reset()
            case _:
                assert_never(reply)

    async def _stream(self, connection: HttpConnection, request: VendorRequest, reply: Completion) -> None:
        events = events_of(
            self.wire, reply, number=request.number, model=request.model, prompt_chars=len(request.raw)
        )  # fmt: skip
        for position, event in enumerate(events if reply.ending == "done" else events[: reply.parts_sent]):
            if position in reply.holds:
                await reply.holds[position].wait()
            if position == 0:
                await connection.start(200, [("content-type", "text/event-stream; charset=utf-8")])
            await connection.send(event)
        if reply.ending == "cut":
            connection.close()
        elif reply.ending == "reset":
            connection.reset()
        else:
            await connection.end()


async def _watch(connection: HttpConnection, request: VendorRequest, replying: anyio.CancelScope) -> None:
    await connection.wait_gone()
    request.gone.set()
    replying.cancel()


async def _send_raw(connection: HttpConnection, reply: RawReply) -> None:
    length = str(len(reply.body))
    await connection.start(
        reply.status, [("content-type", reply.content_type), ("content-length", length), *reply.headers]
    )
    await connection.send(reply.body)
    await connection.end()
