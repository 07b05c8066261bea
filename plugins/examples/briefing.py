"""Context engine `briefing`: the usual history, and a file of the profile's folder in the system prompt.

Shows a context engine that decides about the prompt only: the runtime projects the facts. The file is read at each
turn, so an edit counts from the next one on. In a profile:

    context: {engine: briefing, briefing: {filename: briefing.md}}
"""

from __future__ import annotations

import aiofiles
from pydantic import Field

from ishiki import ConfigModel, ContextEngine, ContextEngineInstance, ExtensionHost, provide


class BriefingConfig(ConfigModel):
    """What stands under `context.briefing`."""

    filename: str = Field(default="briefing.md", description="The file, relative to the profile's folder.")


class Briefing(ContextEngineInstance):
    """The engine in one runtime."""

    def __init__(self, host: ExtensionHost, config: BriefingConfig) -> None:
        """Read from the profile's folder, which its runtimes share."""
        self._file = host.root / config.filename
        self._logger = host.logger

    async def instructions(self) -> str | None:
        """Return the file as it is now. One that cannot be read otherwise than by being absent fails the turn."""
        try:
            async with aiofiles.open(self._file, encoding="utf-8") as file:
                return await file.read()
        except FileNotFoundError:
            self._logger.warning("there is no briefing: write %s", self._file)
            return None


class BriefingEngine(ContextEngine[BriefingConfig]):
    """The provider; one per process."""

    name = "briefing"
    Config = BriefingConfig

    def create(self, host: ExtensionHost, config: BriefingConfig) -> Briefing:
        """Make the engine of one runtime."""
        return Briefing(host, config)


provide(BriefingEngine())
