"""Wakeup engine `rhythm`: a turn every so many seconds, whether or not anybody says something.

Shows an engine with a clock of its own: a task of the runtime, `host.clock` instead of `asyncio.sleep`, and the look
at `is_idle` before each wake. In a profile:

    wakeup: {engine: rhythm, rhythm: {every_seconds: 60}}
"""

from __future__ import annotations

from pydantic import Field

from ishiki import Agent, ConfigModel, Disposer, ExtensionHost, WakeupEngine, WakeupEngineInstance, provide


class RhythmConfig(ConfigModel):
    """What stands under `wakeup.rhythm`."""

    every_seconds: float = Field(default=60, ge=1, description="Seconds between two looks.")


class Rhythm(WakeupEngineInstance):
    """The engine in one runtime."""

    def __init__(self, host: ExtensionHost, config: RhythmConfig) -> None:
        """Nothing runs before `attach`."""
        self._host = host
        self._every_seconds = config.every_seconds

    def attach(self, agent: Agent) -> Disposer:
        """Start the clock; the disposer stops it."""

        async def beat() -> None:
            while True:
                await self._host.clock.sleep(self._every_seconds)
                if agent.is_idle():  # busy: this beat is skipped
                    agent.continue_()

        return self._host.spawn("rhythm", beat)


class RhythmEngine(WakeupEngine[RhythmConfig]):
    """The provider. `runs_without_input` stays True, so its runtimes do not leave memory."""

    name = "rhythm"
    Config = RhythmConfig

    def create(self, host: ExtensionHost, config: RhythmConfig) -> Rhythm:
        """Make the engine of one runtime."""
        return Rhythm(host, config)


provide(RhythmEngine())
