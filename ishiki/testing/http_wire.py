"""HTTP/1.1 on loopback, close enough to the socket to break it: a listener and one connection at a time, over h11.

Own sockets instead of a stream class, because a reset (RST) needs a close without a shutdown before it. It knows
nothing of what the requests ask.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import anyio
import anyio.lowlevel
import h11

__all__ = ["Handler", "HttpConnection", "HttpRequest", "HttpServer"]

_READ_BYTES = 65536
_BACKLOG = 256
"""Connections that may wait for `accept`; a test opens dozens at once."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request, read whole."""

    method: str
    path: str
    """Without the query."""
    headers: dict[str, str]
    """Names in lower case; of repeated ones the last."""
    body: bytes


class HttpConnection:
    """One client's connection: read a request, answer it in as many steps as wanted, go on with the next."""

    def __init__(self, client: socket.socket) -> None:
        """Take a connected, non-blocking socket over."""
        self._socket = client
        self._protocol = h11.Connection(h11.SERVER)
        self._is_closed = False

    async def read_request(self) -> HttpRequest | None:
        """Return the next request, or None when the client has gone or speaks no HTTP."""
        head: h11.Request | None = None
        body = bytearray()
        try:
            if self._protocol.our_state is h11.DONE:
                self._protocol.start_next_cycle()
            while True:
                event = self._protocol.next_event()
                if event is h11.NEED_DATA:
                    self._protocol.receive_data(await self._receive())
                elif isinstance(event, h11.Request):
                    head = event
                    await self._accept_body()
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage) and head is not None:
                    return _request(head, bytes(body))
                else:
                    return None
        except (h11.ProtocolError, OSError):
            return None

    async def _accept_body(self) -> None:
        if self._protocol.they_are_waiting_for_100_continue:
            await self._write(h11.InformationalResponse(status_code=100, headers=[]))

    async def start(self, status: int, headers: Sequence[tuple[str, str]]) -> None:
        """Send the status line and headers; without a content-length the body is chunked."""
        await self._write(h11.Response(status_code=status, headers=list(headers)))

    async def send(self, data: bytes) -> None:
        """Send a part of the body, once other tasks had their chance: a client sees parts one by one."""
        await anyio.lowlevel.checkpoint()
        await self._write(h11.Data(data=data))

    async def end(self) -> None:
        """End the body in order."""
        await self._write(h11.EndOfMessage())

    async def wait_gone(self) -> None:
        """Wait until the client has closed its side. Only between `read_request` and the answer's end."""
        while not self._is_closed:
            try:
                await anyio.wait_readable(self._socket)
                if not self._socket.recv(1, socket.MSG_PEEK):
                    return
            except BlockingIOError:
                continue
            except OSError:
                return
            except anyio.ClosedResourceError:
                pass  # by this side
            # A client that sends its next request early is still there, and the socket stays readable.
            break
        await anyio.sleep_forever()

    @property
    def can_go_on(self) -> bool:
        """Whether another request may follow on this connection."""
        return not self._is_closed and self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE

    def close(self) -> None:
        """Close: the client reads to the end of what was sent."""
        if not self._is_closed:
            self._is_closed = True
            anyio.notify_closing(self._socket)
            self._socket.close()

    def reset(self) -> None:
        """Close with a TCP reset: the client's next read fails."""
        if not self._is_closed:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close()

    async def _receive(self) -> bytes:
        while True:
            await anyio.wait_readable(self._socket)
            try:
                return self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                continue

    async def _write(self, event: h11.Event) -> None:
        rest = self._protocol.send(event) or b""
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)


def _request(head: h11.Request, body: bytes) -> HttpRequest:
    return HttpRequest(
        method=head.method.decode("ascii"),
        path=head.target.decode("ascii").partition("?")[0],
        headers={name.decode("ascii"): value.decode("latin-1") for name, value in head.headers},
        body=body,
    )


Handler: TypeAlias = Callable[[HttpConnection], Awaitable[None]]
"""Serves one connection; it is closed when the handler returns or raises."""


class HttpServer:
    """Listens on a loopback port and serves every connection in a task of its own."""

    def __init__(self, handler: Handler, *, port: int = 0) -> None:
        """Bind and listen, at 0 on a free port; clients can connect from now on and are served by `run`."""
        self._handler = handler
        self._listener = socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]

    async def run(self) -> None:
        """Serve until cancelled."""
        async with anyio.create_task_group() as connections:
            while True:
                await anyio.wait_readable(self._listener)
                try:
                    client, _ = self._listener.accept()
                except BlockingIOError:
                    continue
                client.setblocking(False)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections.start_soon(self._serve, HttpConnection(client))

    def close(self) -> None:
        """Stop listening; after `run` has ended."""
        self._listener.close()

    async def _serve(self, connection: HttpConnection) -> None:
        try:
            await self._handler(connection)
        finally:
            connection.close()
