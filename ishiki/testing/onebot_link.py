"""The two ways a OneBot end and a bot meet on a WebSocket, and what can go wrong with the wire.

Source: the OneBot v11 standard, communication/ws-reverse (the end connects, with `X-Self-ID` and `X-Client-Role`),
communication/ws (the end listens) and authorization. It knows nothing of what the frames say.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Protocol, TypeAlias

import anyio
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

__all__ = ["Adopt", "ForwardLink", "Link", "ReverseLink", "Socket"]

_CLOSE_S = 1.0
"""Seconds the closing handshake may take at the end of a test before the socket is cut."""


class Socket:
    """One WebSocket to the bot."""

    def __init__(self, connection: Connection) -> None:
        """Wrap an open connection."""
        self._connection = connection
        self._reading = anyio.CancelScope()
        self._is_deaf = False

    @property
    def is_deaf(self) -> bool:
        """Whether `go_deaf` was called: nothing is read or written any more."""
        return self._is_deaf

    async def read(self, on_frame: Callable[[str | bytes], Awaitable[None]]) -> None:
        """Hand every frame to `on_frame`, in order, until the connection is gone or deaf."""
        with self._reading:
            while True:
                try:
                    frame = await self._connection.recv()
                except ConnectionClosed:
                    return
                await on_frame(frame)

    async def send(self, frame: str | bytes) -> None:
        """Send one frame: text, or binary for bytes.

        Raises:
            ConnectionClosed: the connection is gone.
        """
        await self._connection.send(frame)

    async def round_trip(self) -> None:
        """Return when the bot's WebSocket has taken in everything sent before (ping and pong, RFC 6455 5.5.2)."""
        pong = await self._connection.ping()
        await pong

    def abort(self) -> None:
        """Cut the TCP connection, without a close handshake."""
        self._connection.transport.abort()

    def go_deaf(self) -> None:
        """Leave the TCP connection open and never read or write again: no pong, no close, no answer."""
        self._is_deaf = True
        self._reading.cancel()
        self._connection.transport.pause_reading()

    async def close(self) -> None:
        """Close with a handshake; cut the connection where the other side does not take part."""
        if not self._is_deaf:
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await self._connection.close()
        self.abort()

    async def wait_gone(self) -> None:
        """Wait until the TCP connection is gone."""
        await self._connection.wait_closed()


Adopt: TypeAlias = Callable[[Socket], Awaitable[None]]
"""Takes a new connection over; returns when it is being read."""


class Link(Protocol):
    """How connections come about."""

    @property
    def url(self) -> str:
        """Where the listening side is reached."""
        ...

    async def open(self, adopt: Adopt) -> None:
        """Dial, or start to listen."""
        ...

    async def redial(self) -> None:
        """Make another connection, where this side is the one that makes them."""
        ...

    async def close(self) -> None:
        """Stop listening, if it does."""
        ...


class ReverseLink:
    """The end dials the bot."""

    def __init__(self, url: str, *, self_id: int, access_token: str | None) -> None:
        """Take the bot's address, such as `ws://127.0.0.1:8080/onebot/v11/ws`."""
        self.url = url
        self._headers = {"X-Self-ID": str(self_id), "X-Client-Role": "Universal"}
        if access_token is not None:
            self._headers["Authorization"] = f"Bearer {access_token}"
        self._adopt: Adopt | None = None

    async def open(self, adopt: Adopt) -> None:
        """Dial once.

        Raises:
            OSError: nobody listens there.
            InvalidStatus: the bot refused the handshake (`error.response.status_code`).
        """
        self._adopt = adopt
        await self.redial()

    async def redial(self) -> None:
        """Dial again; the earlier connection is left as it is."""
        if self._adopt is None:
            raise RuntimeError("the peer is not open: use it with `async with`")
        connection: ClientConnection = await connect(
            self.url,
            additional_headers=self._headers,
            user_agent_header="OneBot/11 ishiki.testing",
            compression=None,
            proxy=None,  # a proxy from the environment would take loopback traffic away
            ping_interval=None,  # only a test decides when this end pings
            max_size=None,
            close_timeout=_CLOSE_S,
        )
        await self._adopt(Socket(connection))

    async def close(self) -> None:
        """Do nothing: this side does not listen."""


class ForwardLink:
    """The end listens on loopback and the bot dials it; any path is the universal one."""

    def __init__(self, *, port: int, access_token: str | None) -> None:
        """Listen on `port` once opened; 0 picks a free one, which is kept from then on."""
        self._port = port
        self._access_token = access_token
        self._server: Server | None = None
        self._stopped: list[Server] = []
        self._adopt: Adopt | None = None
        self.refusal: HTTPStatus | None = None
        """While set, every handshake is answered with it."""

    @property
    def url(self) -> str:
        """Where the bot connects to."""
        return f"ws://127.0.0.1:{self._port}/"

    async def open(self, adopt: Adopt) -> None:
        """Start to listen."""
        self._adopt = adopt
        await self.listen()

    async def listen(self) -> None:
        """Listen on the port, again after `stop_listening`; does nothing while it listens."""
        if self._server is not None:
            return
        self._server = await serve(
            self._accept,
            "127.0.0.1",
            self._port,
            process_request=self._check,
            compression=None,
            ping_interval=None,
            max_size=None,
            close_timeout=_CLOSE_S,
        )
        self._port = next(iter(self._server.sockets)).getsockname()[1]

    def stop_listening(self) -> None:
        """Close the port: dialling fails at TCP. Open connections stay."""
        if self._server is not None:
            self._server.server.close()  # at once; the next line alone does it one turn of the loop later
            self._server.close(close_connections=False)
            self._stopped.append(self._server)
            self._server = None

    async def redial(self) -> None:
        """Refuse: in this mode the bot makes the connections."""
        raise RuntimeError("in forward mode the bot connects: use wait_connected()")

    async def close(self) -> None:
        """Close the port and wait for its end; connections must be closed, by their owner."""
        self.stop_listening()
        with anyio.move_on_after(_CLOSE_S, shield=True):
            for server in self._stopped:
                await server.wait_closed()

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        if self.refusal is not None:
            return connection.respond(self.refusal, "refused by the test\n")
        if self._access_token is None:
            return None
        given = request.headers.get("Authorization")
        if given is None and f"access_token={self._access_token}" in request.path.partition("?")[2].split("&"):
            return None
        if given is None:
            return connection.respond(HTTPStatus.UNAUTHORIZED, "no access token\n")
        if given.partition(" ")[2] != self._access_token:
            return connection.respond(HTTPStatus.FORBIDDEN, "wrong access token\n")
        return None

    async def _accept(self, connection: ServerConnection) -> None:
        # The handler's return closes the connection, so it stays until the other side or the test has ended it.
        if self._adopt is None:
            return
        socket = Socket(connection)
        await self._adopt(socket)
        await socket.wait_gone()
