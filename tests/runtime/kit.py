"""A bot without NoneBot: real supervisor, profiles and logs on disk, a model over HTTP, a platform in memory."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import orjson
import pytest

from ishiki.config import Settings
from ishiki.contracts.events import ChannelRef, MessageCreated, Quote, User
from ishiki.contracts.platform import Platform
from ishiki.contracts.services import Provider, ServiceRegistry
from ishiki.core.agent import Agent
from ishiki.core.clock import SystemClock
from ishiki.core.events import AgentEvent, TurnAborted, TurnDone, TurnFailed
from ishiki.engines import BUILTIN_ENGINES
from ishiki.gateway import Gateway
from ishiki.jsonvalue import JsonObject, JsonValue, read_object, read_str
from ishiki.runtime.agent_runtime import ChannelRuntime
from ishiki.runtime.kit import RuntimeKit
from ishiki.runtime.paths import LOG_NAME, runtime_home
from ishiki.runtime.supervisor import Supervisor
from ishiki.storage import LogFiles
from ishiki.testing.clock import FakeClock, FixedRandom
from ishiki.testing.fake_platform import FakePlatform
from ishiki.testing.journal import Journal
from ishiki.testing.openai_server import OpenAIServer
from ishiki.testing.task_scope import TaskScope

__all__ = [
    "GROUP",
    "PROFILE",
    "SELF",
    "Bot",
    "LogLines",
    "WatchedClock",
    "logged",
    "profile_text",
    "providing",
    "running",
]

EXAMPLES = Path(__file__).resolve().parents[2] / "plugins" / "examples"
SELF = "10001"
GROUP = ChannelRef(f"onebot:{SELF}", "group:500")
PROFILE = "neko"

_MODELS = """\
providers:
  test:
    api: openai-completions
    base_url: {base_url}
    models: [{{id: a}}, {{id: b}}]
"""


def profile_text(more: str = "", *, model: str = "test:a") -> str:
    """Return a profile that claims everything of the account and types at once; `more` are further lines."""
    return (
        f"model: {model}\n"
        f'channels: {{"onebot:{SELF}": ["group:*", "private:*"]}}\n'
        "typing: {base_delay: 0, char_per_second: 0, min_delay: 0, max_delay: 0}\n"
        f"{more}\n"
    )


class LogLines(logging.Handler):
    """What is logged, as a journal of `LEVEL text`."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: Journal[str] = Journal("log lines")

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.add(f"{record.levelname} {record.getMessage()}")

    async def saying(self, text: str, *, since: int = 0) -> str:
        """Wait for the first line that holds `text`, from position `since` on."""
        return await self.lines.first(lambda line: text in line, since=since)

    def holding(self, text: str) -> list[str]:
        """Return the lines so far that hold `text`."""
        return [line for line in self.lines if text in line]


@contextmanager
def logged() -> Generator[LogLines]:
    """Collect what Ishiki logs from INFO on."""
    lines = LogLines()
    root = logging.getLogger("ishiki")
    level = root.level
    root.addHandler(lines)
    root.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        root.removeHandler(lines)
        root.setLevel(level)


class WatchedClock(FakeClock):
    """A clock whose sleeps can be waited for by their length."""

    def __init__(self) -> None:
        super().__init__()
        self._began: Journal[float] = Journal("sleeps")

    async def sleep(self, seconds: float) -> None:
        self._began.add(seconds)
        await super().sleep(seconds)

    def count(self, seconds: float) -> int:
        """Return how many sleeps of exactly `seconds` have begun."""
        return self._began.items.count(seconds)

    async def began(self, seconds: float, *, times: int = 1) -> None:
        """Wait until sleeps of exactly `seconds` have begun `times` times in all."""
        since = 0
        for _ in range(times):
            await self._began.first(lambda slept: slept == seconds, since=since)
            since = self._began.items.index(seconds, since) + 1


def load_example(name: str, monkeypatch: pytest.MonkeyPatch, services: ServiceRegistry) -> None:
    """Run `plugins/examples/<name>.py` as NoneBot would, with `services` as the process's registry."""
    monkeypatch.setattr("ishiki.contracts.services.services", services)
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def providing(*providers: Provider) -> ServiceRegistry:
    """Return a registry with the built-in engines and `providers`."""
    services = ServiceRegistry()
    for provider in (*BUILTIN_ENGINES, *providers):
        services.provide(provider, module="test")
    return services


@dataclass(slots=True)
class Bot:
    """The running bot, as a test sees it."""

    folder: Path
    supervisor: Supervisor
    server: OpenAIServer
    platform: FakePlatform
    clock: WatchedClock
    services: ServiceRegistry
    logs: LogLines
    log_files: LogFiles
    _next_id: int = 0
    _heard: dict[str, Journal[AgentEvent]] = field(default_factory=dict[str, Journal[AgentEvent]])

    @property
    def profiles_dir(self) -> Path:
        return self.folder / "profiles"

    def profile_file(self, profile_id: str = PROFILE) -> Path:
        return self.profiles_dir / profile_id / "profile.yaml"

    def home(self, channel: ChannelRef = GROUP, profile_id: str = PROFILE) -> Path:
        return runtime_home(self.folder / "data", profile_id, channel.sid, channel.channel_id)

    def message(
        self, content: str, *, channel: ChannelRef = GROUP, user: str = "42", quotes: str = "", **changes: str
    ) -> MessageCreated:
        """Make a message with an id of its own that is said now."""
        self._next_id += 1
        platform, _, self_id = channel.sid.partition(":")
        made = MessageCreated(
            timestamp=self.clock.now_ms(),
            platform=platform,
            self_id=self_id,
            channel_id=channel.channel_id,
            message_id=f"m{self._next_id}",
            content=content,
            is_direct=channel.channel_id.startswith("private:"),
            user=User(user, "Rin"),
            quote=Quote(quotes) if quotes else None,
        )
        return replace(made, message_id=changes.get("message_id", made.message_id))

    def say(self, content: str, *, channel: ChannelRef = GROUP, user: str = "42", **changes: str) -> MessageCreated:
        """Somebody says something that is not meant for the mind."""
        message = self.message(content, channel=channel, user=user, **changes)
        self.supervisor.offer(message)
        return message

    def mention(self, content: str, *, channel: ChannelRef = GROUP) -> MessageCreated:
        """Somebody says something to the mind."""
        return self.say(f'<at id="{SELF}"/> {content}', channel=channel)

    async def quiet(self, channel: ChannelRef = GROUP, profile_id: str = PROFILE) -> None:
        """Wait until every fact has been taken in and the channel's mind is idle."""
        with anyio.fail_after(5):
            await self.supervisor.drained()
            if (runtime := self.supervisor.find(profile_id, channel)) is not None:
                await runtime.agent.wait()

    def runtime(self, channel: ChannelRef = GROUP, profile_id: str = PROFILE) -> ChannelRuntime:
        found = self.supervisor.find(profile_id, channel)
        assert found is not None
        return found

    def agent(self, channel: ChannelRef = GROUP) -> Agent:
        return self.runtime(channel).agent

    def entries(self, channel: ChannelRef = GROUP, profile_id: str = PROFILE) -> list[JsonObject]:
        """Return what stands on disk, without the header."""
        return read_log(self.home(channel, profile_id) / LOG_NAME)

    def facts(self, channel: ChannelRef = GROUP) -> list[str]:
        """Return the contents of the kept messages, in the order of the file."""
        return facts_of(self.entries(channel))

    def ends(self, channel: ChannelRef = GROUP) -> list[JsonObject]:
        """Return the turns' ends on disk, in order."""
        kinds = ("turn.done", "turn.failed", "turn.aborted")
        events = [read_object(entry, "data") for entry in self.entries(channel) if entry.get("type") == "event"]
        return [data for data in events if read_str(data, "type") in kinds]

    async def edited(self, text: str, *, profile_id: str = PROFILE, until: str) -> str:
        """Write the profile anew and wait for the log line that holds `until`; return it."""
        since = len(self.logs.lines)
        self.profile_file(profile_id).write_text(text, encoding="utf-8")
        return await self.logs.saying(until, since=since)


def read_log(file: Path) -> list[JsonObject]:
    """Return the entries of a log, without its header."""
    lines = file.read_bytes().splitlines() if file.exists() else []
    entries: list[JsonObject] = [orjson.loads(line) for line in lines]
    return [entry for entry in entries if entry.get("type") != "header"]


def facts_of(entries: Sequence[JsonObject]) -> list[str]:
    """Return the contents of the platform's messages among `entries`."""
    messages = [read_object(entry, "data") for entry in entries if entry.get("type") == "message"]
    return [
        read_str(read_object(message, "data"), "content")
        for message in messages
        if read_str(message, "type") == "ishiki.message.created"
    ]


def failure(end: JsonObject) -> tuple[JsonValue, str]:
    """Return kind and error text of a turn's end."""
    return end["type"], read_str(read_object(end, "error"), "message")


def turn_end(event: AgentEvent) -> bool:
    """Whether `event` ends a turn."""
    return isinstance(event, TurnDone | TurnFailed | TurnAborted)


@asynccontextmanager
async def running(
    folder: Path,
    profiles: Mapping[str, str] | str = "",
    *,
    services: ServiceRegistry | None = None,
    platform: FakePlatform | None = None,
    models: str = _MODELS,
    environment: Mapping[str, str] | None = None,
    clock: WatchedClock | None = None,
    platform_for: Callable[[str], Platform] | None = None,
    **settings: JsonValue,
) -> AsyncGenerator[Bot]:
    """Run a bot over `folder`.

    Args:
        folder: holds `profiles/` and `data/`; run it again with the same one to restart.
        profiles: texts of profile.yaml by id, or of the one profile; "" leaves the files of an earlier run.
        services: with the built-in engines, and what the test adds.
        platform: where the mind speaks.
        models: text of models.yaml; `{base_url}` stands for the server's.
        environment: for `${{NAME}}` in it.
        clock: goes on from an earlier run; a new one by default.
        platform_for: the platform as an account sees it, where it is not `platform`.
        settings: of the process, by their names in `.env`.
    """
    texts = {PROFILE: profiles or profile_text()} if isinstance(profiles, str) else profiles
    for profile_id, text in texts.items():
        file = folder / "profiles" / profile_id / "profile.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        if profiles or not file.exists():
            file.write_text(text, encoding="utf-8")
    async with OpenAIServer() as server:
        models_file = folder / "profiles" / "models.yaml"
        models_file.write_text(models.format(base_url=server.base_url), encoding="utf-8")
        clock = clock or WatchedClock()
        chat = platform or FakePlatform()
        # The gateway's limits are about a real network, so they are in real time.
        gateway = Gateway.load(models_file, env=environment or {}, clock=SystemClock())
        await gateway.warm_up()
        kit = RuntimeKit(
            settings=Settings.from_mapping({name: str(value) for name, value in settings.items()}),
            environment={},
            profiles_dir=folder / "profiles",
            data_dir=folder / "data",
            gateway=gateway,
            services=services or providing(),
            log_files=LogFiles(fsync="never", clock=clock),
            clock=clock,
            random=FixedRandom(),
            platform_for=lambda sid, limits: chat if platform_for is None else platform_for(sid),
            is_own_account=lambda sid: False,
            clock_offset_ms=lambda sid: 0,
            abandon_calls=lambda: None,
        )
        supervisor = Supervisor(kit)
        with logged() as lines:
            async with TaskScope() as tasks:
                await tasks.start(supervisor.run)
                try:
                    yield Bot(folder, supervisor, server, chat, clock, kit.services, lines, kit.log_files)
                finally:
                    with anyio.fail_after(20, shield=True):
                        await supervisor.stop()
                        await gateway.aclose()
        assert server.violations == []
