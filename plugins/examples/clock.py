"""Extension `clock`: the URL `clock://now`, and a small tool with which the model reads URLs.

Shows a `SchemeHandler`, its registration for as long as the runtime lives, and an error that the model is told. In a
profile:

    extends: {clock: {}}
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

import ishiki
from ishiki import AgentRuntime, Clock, Disposer, ExtensionHost, JsonObject, ResourceError, TextPayload, Tool


@dataclass
class ClockHandler(ishiki.SchemeHandler):
    """Reads `clock://now`."""

    clock: Clock
    scheme = "clock"

    def resolve(self, url: str) -> TextPayload:
        """Return the time in UTC."""
        if urlsplit(url).netloc != "now":
            raise ResourceError("resource_not_found", f"there is no {url!r}; read clock://now")
        text = datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC).isoformat()
        return TextPayload(url, text, len(text.encode()))


@dataclass
class ClockInstance(ishiki.ExtensionInstance):
    """The extension in one runtime."""

    host: ExtensionHost

    def attach(self, runtime: AgentRuntime) -> Disposer:
        """Register the scheme; what is returned takes it back when the runtime stops."""
        return runtime.resources.attach(ClockHandler(runtime.host.clock))

    def extend_tools(self) -> list[Tool]:
        """Return the one tool."""
        return [ishiki.tool(self.look_up)]

    async def look_up(self, url: str) -> str:
        """Read a URL. `clock://now` tells the time."""
        try:
            payload = await self.host.resources.resolve(url)
        except ResourceError as error:
            raise ishiki.ToolError(str(error)) from error  # what the model reads; anything else is logged as a fault
        return payload.text if isinstance(payload, TextPayload) else f"{payload.size} bytes of {payload.media_type}"


class ClockExtension(ishiki.Extension[JsonObject]):
    """The provider. Without a `Config`, `create` gets the raw mapping of the profile."""

    name = "clock"

    def create(self, host: ExtensionHost, config: JsonObject) -> ClockInstance:
        """Make the extension of one runtime."""
        return ClockInstance(host)


ishiki.provide(ClockExtension())
