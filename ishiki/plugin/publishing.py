"""Publishing: bytes under a temporary address, for ends that take a URL and not the bytes.

An address holds a random token and lives five minutes; whoever does not know it gets 404. The route is on NoneBot's
own web server. Source: specification, OneBot actions; lifetime and limits are our choice.
"""

from __future__ import annotations

import logging
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from nonebot.drivers import URL, ASGIMixin, HTTPServerSetup, Request, Response

from ishiki.contracts.resources import FilePayload
from ishiki.core.clock import Clock

__all__ = ["ROUTE", "Publisher"]

logger = logging.getLogger(__name__)

ROUTE: Final = "/ishiki/files"
"""Addresses are `<base>/ishiki/files/<token>`, a file name behind it for ends that want an extension."""

_LIFE_S: Final = 300.0
_MAX_BYTES: Final = 64 * 1024 * 1024
"""Over all published files; the oldest leave first."""


@dataclass(frozen=True, slots=True)
class _Published:
    payload: FilePayload
    expires_at: float


class Publisher:
    """Files that can be fetched for a while. In memory; single event loop."""

    def __init__(self, base_url: str, clock: Clock) -> None:
        """Publish nothing.

        Args:
            base_url: where the protocol end reaches this process, such as `http://127.0.0.1:8080`.
            clock: what tells when an address has expired.
        """
        self._base_url = base_url.rstrip("/")
        self._clock = clock
        self._files: OrderedDict[str, _Published] = OrderedDict()

    def mount(self, server: ASGIMixin) -> None:
        """Add the route; call it once, before the server starts."""
        for path in (f"{ROUTE}/{{token}}", f"{ROUTE}/{{token}}/{{name}}"):
            server.setup_http_server(HTTPServerSetup(URL(path), "GET", "ishiki files", self.serve))

    def publish(self, payload: FilePayload) -> str:
        """Return an address under which the bytes can be fetched for five minutes."""
        self._expire()
        token = secrets.token_urlsafe(24)
        self._files[token] = _Published(payload, self._clock.monotonic() + _LIFE_S)
        while len(self._files) > 1 and sum(len(file.payload.bytes) for file in self._files.values()) > _MAX_BYTES:
            self._files.popitem(last=False)
            logger.warning("published files exceed %d MiB: the oldest is withdrawn", _MAX_BYTES // (1024 * 1024))
        name = quote(payload.filename.replace("/", "_"), safe="")
        return f"{self._base_url}{ROUTE}/{token}" + (f"/{name}" if name else "")

    async def serve(self, request: Request) -> Response:
        """Answer a fetch."""
        self._expire()
        token = request.url.path.removeprefix(f"{ROUTE}/").partition("/")[0]
        file = self._files.get(token)
        if file is None:
            return Response(404, content="unknown or expired")
        # The bytes come from anywhere: a browser must not run them under this server's name.
        headers = {
            "Content-Type": file.payload.media_type,
            "Content-Disposition": "attachment",
            "X-Content-Type-Options": "nosniff",
        }
        return Response(200, headers=headers, content=file.payload.bytes)

    def _expire(self) -> None:
        now = self._clock.monotonic()
        while self._files and next(iter(self._files.values())).expires_at <= now:
            self._files.popitem(last=False)
