"""A judge over HTTP on loopback, as the `systemone` provider asks it."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import orjson

from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.http_wire import HttpConnection, HttpRequest, HttpServer
from ishiki.testing.journal import Journal
from ishiki.testing.task_scope import TaskScope

__all__ = ["JudgeServer", "judging", "nouls"]


def nouls(addressed: JsonValue, interested: JsonValue, others: JsonValue) -> JsonObject:
    """Return an answer with the three numbers."""
    values = {"addressed": addressed, "interested": interested, "others": others}
    return {"answers": {name: {"noul": value} for name, value in values.items()}}


class JudgeServer:
    """Answers with the scripted replies, then with one half for everything.

    Attributes:
        requests: what came in, in order.
        replies: status and body of the next answers.
    """

    def __init__(self) -> None:
        self.requests: Journal[HttpRequest] = Journal("requests")
        self.replies: deque[tuple[int, bytes]] = deque()
        self._gate = anyio.Event()
        self._gate.set()
        self.server = HttpServer(self._serve)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/v1/systemone"

    def answer(self, body: JsonObject | bytes, *, status: int = 200) -> None:
        """Script the next reply."""
        self.replies.append((status, body if isinstance(body, bytes) else orjson.dumps(body)))

    def hold(self) -> None:
        """Answer nothing until `release`."""
        self._gate = anyio.Event()

    def release(self) -> None:
        self._gate.set()

    def body(self, number: int = -1) -> JsonObject:
        """Return the body of a request."""
        body: JsonValue = orjson.loads(self.requests.items[number].body)
        assert isinstance(body, dict)
        return body

    async def _serve(self, connection: HttpConnection) -> None:
        while (request := await connection.read_request()) is not None:
            self.requests.add(request)
            await self._gate.wait()
            status, body = self.replies.popleft() if self.replies else (200, orjson.dumps(nouls(0.5, 0.5, 0.5)))
            location = [("location", "http://127.0.0.1:9/elsewhere")] if status in (302, 307) else []
            try:
                await connection.start(status, [("content-length", str(len(body))), *location])
                await connection.send(body)
                await connection.end()
            except OSError:
                return


@asynccontextmanager
async def judging() -> AsyncGenerator[JudgeServer]:
    """Run a judge."""
    judge = JudgeServer()
    try:
        async with TaskScope() as group:
            group.start_soon(judge.server.run)
            yield judge
    finally:
        judge.server.close()
