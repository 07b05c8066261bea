"""The WebSocket that we dial: NoneBot's own, but for the size of a frame that it takes.

NoneBot's drivers leave the bound at their library's: 1 MiB, where one picture in base64 or a history of cards is more,
and each such frame ends the connection. The server that takes reverse connections gets our bound from `bot.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from nonebot.drivers import Request, WebSocket
from nonebot.drivers.websockets import WebSocket as DriverWebSocket
from nonebot.exception import WebSocketClosed
from typing_extensions import override
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

__all__ = ["TOO_BIG", "dial"]

TOO_BIG: Final = int(CloseCode.MESSAGE_TOO_BIG)
"""RFC 6455, 7.4.1."""


class _Socket(DriverWebSocket):
    @override
    async def receive(self) -> str | bytes:
        try:
            return await self.websocket.recv()
        except ConnectionClosed as error:
            # What we closed it with says more than what came back: a frame too big is our word.
            said = error.sent or error.rcvd
            code, reason = (int(CloseCode.ABNORMAL_CLOSURE), "") if said is None else (said.code, said.reason)
            raise WebSocketClosed(code, reason) from error


@asynccontextmanager
async def dial(
    url: str, headers: Mapping[str, str], *, connect_s: float, close_s: float, max_frame_bytes: int
) -> AsyncGenerator[WebSocket]:
    """Connect to `url`, and close at the end.

    Args:
        url: `ws://` or `wss://`.
        headers: sent with the handshake.
        connect_s: seconds the handshake may take.
        close_s: seconds the closing handshake may take.
        max_frame_bytes: a larger frame ends the connection with 1009.

    Raises:
        Exception: whatever the library raises where there is no connection.
    """
    dialling = connect(
        url,
        additional_headers=dict(headers),
        open_timeout=connect_s,
        close_timeout=close_s,
        max_size=max_frame_bytes,
    )
    async with dialling as connection:
        yield _Socket(request=Request("GET", url, headers=dict(headers)), websocket=connection)
