"""The bot's end of a reverse WebSocket, with no bot behind it: it takes events and calls the API, as a test says."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TypeAlias

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_object, read_str
from ishiki.testing.journal import Journal

__all__ = ["PATH", "BotEnd", "Reaction", "bot_end", "echo", "plain_text", "silent", "values_of"]

PATH = "/onebot/v11/ws"

Reaction: TypeAlias = "Callable[[BotEnd, JsonObject], Awaitable[None]]"
"""What the bot does about a message or notice event."""


class BotEnd:
    """One listening bot."""

    def __init__(self, react: Reaction, token: str | None) -> None:
        self.events: Journal[JsonObject] = Journal("events")
        self.answers: Journal[JsonObject] = Journal("answers to API calls")
        self.connections: Journal[ServerConnection] = Journal("connections")
        self.react = react
        self._token = token
        self._server: Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"ws://127.0.0.1:{self.port}{PATH}"

    @property
    def environ(self) -> dict[str, str]:
        """The variables that lead to it."""
        return {"HOST": "127.0.0.1", "PORT": str(self.port)}

    async def listen(self) -> None:
        """Listen, on the same port as before where there was one."""
        self._server = await serve(self._accept, "127.0.0.1", self.port, process_request=self._check)
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def stop(self) -> None:
        """Close the port and every connection."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def call(self, action: str, **params: JsonValue) -> None:
        """Call an action of the newest connection; its answer comes to `answers`."""
        frame = {"action": action, "params": params, "echo": action}
        await self.connections.items[-1].send(json.dumps(frame))

    async def send(self, event: JsonObject, *segments: JsonObject) -> None:
        """Say something where `event` happened."""
        where = {key: event[key] for key in ("user_id", "group_id") if key in event}
        action = "send_group_msg" if "group_id" in event else "send_private_msg"
        await self.call(action, **where, message=list(segments))

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path != PATH:
            return connection.respond(HTTPStatus.NOT_FOUND, "")
        if self._token is not None and request.headers.get("Authorization") != f"Bearer {self._token}":
            return connection.respond(HTTPStatus.FORBIDDEN, "")
        return None

    async def _accept(self, connection: ServerConnection) -> None:
        self.connections.add(connection)
        try:
            async for raw in connection:
                frame: JsonObject = json.loads(raw)
                if "post_type" not in frame:
                    self.answers.add(frame)
                elif frame["post_type"] != "meta_event":
                    self.events.add(frame)
                    await self.react(self, frame)
        except ConnectionClosed:
            pass  # the chat has left


@asynccontextmanager
async def bot_end(react: Reaction | None = None, *, token: str | None = None) -> AsyncGenerator[BotEnd]:
    """Open a bot that reacts by `react`, or echoes."""
    bot = BotEnd(react or echo, token)
    await bot.listen()
    try:
        yield bot
    finally:
        await bot.stop()


async def silent(_bot: BotEnd, _event: JsonObject) -> None:
    """Say nothing."""


async def echo(bot: BotEnd, event: JsonObject) -> None:
    """Answer what is said in private, or mentions the bot, by its own words, as the demo model does."""
    if event["post_type"] != "message":
        return
    is_addressed = event["message_type"] == "private" or str(event["self_id"]) in values_of(event, "at", "qq")
    if is_addressed:
        await bot.send(event, {"type": "text", "data": {"text": f"you said: {plain_text(event)}"}})


def plain_text(event: JsonObject) -> str:
    """Return the text of a message event."""
    return "".join(values_of(event, "text", "text")).strip()


def values_of(event: JsonObject, kind: str, key: str) -> list[str]:
    """Return what the segments of one type hold under `key`, in order."""
    segments = [one for one in read_array(event, "message") if isinstance(one, dict)]
    return [read_str(read_object(one, "data"), key) for one in segments if one.get("type") == kind]
