"""The runtime of a bot inside this process, without NoneBot and without a network: for what is measured from inside."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from bench.bots import DEMO_MODELS, PROFILE, profile
from bench.logs import SELF_ID
from ishiki.config import Settings
from ishiki.contracts.events import ChannelRef, MessageCreated, User
from ishiki.contracts.services import ServiceRegistry
from ishiki.core.clock import SystemClock, SystemRandom
from ishiki.engines import BUILTIN_ENGINES
from ishiki.gateway import Gateway
from ishiki.runtime.kit import RuntimeKit
from ishiki.runtime.paths import LOG_NAME, runtime_home
from ishiki.runtime.supervisor import Supervisor
from ishiki.storage import LogFiles
from ishiki.testing.fake_platform import FakePlatform
from ishiki.testing.task_scope import TaskScope

__all__ = ["Minds", "log_path", "running_minds"]


@dataclass(slots=True)
class Minds:
    """A running supervisor, and how to speak in its channels."""

    supervisor: Supervisor
    clock: SystemClock
    said: int = 0

    async def hear(self, channel: ChannelRef, text: str = "nobody in particular") -> None:
        """Let somebody say a line; return when it has been handed to its runtime, which is opened for it."""
        self.said += 1
        now = self.clock.now_ms()
        event = MessageCreated(
            timestamp=now,
            platform="onebot",
            self_id=SELF_ID,
            channel_id=channel.channel_id,
            message_id=f"7{self.said:08d}",
            content=text,
            is_direct=False,
            user=User("42", "成员 42"),
            guild_id=channel.channel_id.removeprefix("group:"),
        )
        self.supervisor.offer(event)
        await self.supervisor.drained()


def log_path(folder: Path, channel: ChannelRef) -> Path:
    """Return where a channel's log is below the folder given to `running_minds`."""
    return runtime_home(folder / "data", PROFILE, channel.sid, channel.channel_id) / LOG_NAME


@asynccontextmanager
async def running_minds(folder: Path, **settings: str) -> AsyncGenerator[Minds]:
    """Run a supervisor over `folder` with the demo model; `settings` are those of `.env`, by name."""
    profiles = folder / "profiles"
    (profiles / PROFILE).mkdir(parents=True, exist_ok=True)
    (profiles / "models.yaml").write_text(DEMO_MODELS, encoding="utf-8")
    (profiles / PROFILE / "profile.yaml").write_text(profile(), encoding="utf-8")
    clock, platform, services = SystemClock(), FakePlatform(), ServiceRegistry()
    for engine in BUILTIN_ENGINES:
        services.provide(engine, module="ishiki.engines")
    kit = RuntimeKit(
        settings=Settings.from_mapping(settings),
        environment={},
        profiles_dir=profiles,
        data_dir=folder / "data",
        gateway=Gateway.load(profiles / "models.yaml", env={}, clock=clock),
        services=services,
        log_files=LogFiles(clock=clock),
        clock=clock,
        random=SystemRandom(),
        platform_for=lambda sid, limits: platform,
        is_own_account=lambda sid: False,
        clock_offset_ms=lambda sid: 0,
        abandon_calls=lambda: None,
    )
    supervisor = Supervisor(kit)
    async with TaskScope() as tasks:
        await tasks.start(supervisor.run)
        try:
            yield Minds(supervisor, clock)
        finally:
            with anyio.CancelScope(shield=True):
                await supervisor.stop()
