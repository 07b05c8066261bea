"""Extension `clock`: the URL `clock://now`, and a small tool with which the model reads URLs.

Shows a `SchemeHandler`, registered for as long as the runtime lives. Enabled in a profile by `extends: {clock: {}}`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import ishiki


@dataclass
class ClockHandler(ishiki.SchemeHandler):
    """Reads `clock://now`."""

    clock: ishiki.Clock
    scheme = "clock"

    def resolve(self, url: str) -> ishiki.TextPayload:
        """Return the time in UTC."""
        if url != "clock://now":
            raise ishiki.ResourceError("resource_not_found", f"there is no {url!r}; read clock://now")
        text = datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC).isoformat()
        return ishiki.TextPayload(url, text, size=len(text.encode()))


@dataclass
class ClockInstance(ishiki.ExtensionInstance):
    """The extension in one runtime."""

    host: ishiki.ExtensionHost

    def attach(self, runtime: ishiki.AgentRuntime) -> ishiki.Disposer:
        """Register the scheme; what is returned takes it back when the runtime stops."""
        return runtime.resources.attach(ClockHandler(self.host.clock))

    def extend_tools(self) -> list[ishiki.Tool]:
        """Return the one tool."""
        return [ishiki.tool(self.look_up)]

    async def look_up(self, url: str) -> str:
        """Read a URL. `clock://now` tells the time."""
        try:
            payload = await self.host.resources.resolve(url)
        except ishiki.ResourceError as error:
            raise ishiki.ToolError(str(error)) from error  # what the model is told
        return payload.text if payload.type == "text" else f"{payload.size} bytes of {payload.media_type}"


class ClockExtension(ishiki.Extension[ishiki.JsonObject]):
    """The provider. Without a `Config`, `create` gets the raw mapping of the profile."""

    name = "clock"

    def create(self, host: ishiki.ExtensionHost, config: ishiki.JsonObject) -> ClockInstance:
        """Make the extension of one runtime."""
        return ClockInstance(host)


ishiki.provide(ClockExtension())
