"""A NoneBot with our adapter on a free port of the loopback: no runtime behind it, its facts go into a journal."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import anyio
import nonebot
import pytest
import uvicorn
from nonebot.config import Config, Env
from nonebot.drivers import Driver, combine_driver
from nonebot.drivers.fastapi import Driver as FastApiDriver
from nonebot.drivers.websockets import Mixin as WebSocketClient

from ishiki.config.settings import MAX_FRAME_BYTES
from ishiki.contracts.events import ChannelRef, ChatEvent, MessageCreated, MessageDeleted, StandingChanged
from ishiki.plugin.accounts import Accounts
from ishiki.plugin.adapter import Adapter
from ishiki.plugin.event_passage import EventPassage
from ishiki.plugin.intake import Intake
from ishiki.plugin.onebot_platform import OneBotPlatform, PlatformLimits
from ishiki.plugin.publishing import Publisher
from ishiki.plugin.sent_registry import SentRegistry
from ishiki.testing.journal import Journal
from ishiki.testing.task_scope import TaskScope

SELF = "10001"
GROUP = ChannelRef(f"onebot:{SELF}", "group:500")
PRIVATE = ChannelRef(f"onebot:{SELF}", "private:42")


@dataclass(frozen=True, slots=True)
class Bot:
    """The running bot."""

    port: int
    adapter: Adapter
    driver: Driver
    facts: Journal[ChatEvent]
    platform: OneBotPlatform

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/onebot/v11/ws"

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/onebot/v11/http"

    async def said(self, count: int) -> list[str]:
        """Wait for `count` facts and return what was said, a recall as `recall <id>`."""
        return [_words(fact) for fact in await self.facts.at_least(count)]


class LogLines(logging.Handler):
    """What our adapter logs, as a journal; attached while it is used with `with`."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Journal[str] = Journal("log lines")

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.add(record.getMessage())

    def __enter__(self) -> LogLines:
        logging.getLogger("ishiki.plugin").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("ishiki.plugin").removeHandler(self)


def _words(fact: ChatEvent) -> str:
    match fact:
        case MessageCreated():
            return fact.content
        case MessageDeleted():
            return f"recall {fact.message_id}"
        case StandingChanged():
            return fact.kind


def fresh_adapter() -> type[Adapter]:
    """Return our adapter with nothing in what its class holds."""

    class FreshAdapter(Adapter):
        accounts: ClassVar[Accounts] = Accounts()
        sent: ClassVar[SentRegistry] = SentRegistry(Adapter.clock)
        intake: ClassVar[Intake] = Intake(accounts, sent, Adapter.clock)
        passage: ClassVar[EventPassage] = EventPassage(2)
        reconnect_s: ClassVar[float] = 0.02
        max_frame_bytes: ClassVar[int] = MAX_FRAME_BYTES

    return FreshAdapter


@asynccontextmanager
async def running_bot(
    monkeypatch: pytest.MonkeyPatch, *, limits: PlatformLimits | None = None, **settings: Any
) -> AsyncGenerator[Bot]:
    """Run a bot; `settings` are NoneBot's, such as `onebot_access_token`."""
    # With the protocol named, asyncio turns Nagle's algorithm off on what it accepts; else each answer takes 40 ms.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port: int = listener.getsockname()[1]
        values: dict[str, Any] = {"driver": "", "port": port, "api_timeout": 5.0, **settings}
        config = Config(_env_file=None, **values)
        driver = combine_driver(FastApiDriver, WebSocketClient)(Env(environment="test"), config)
        assert isinstance(driver, FastApiDriver)
        monkeypatch.setattr(nonebot, "_driver", driver)
        adapter = fresh_adapter()(driver)
        facts: Journal[ChatEvent] = Journal("facts")
        adapter.intake.open(facts.add)
        publisher = Publisher(f"http://127.0.0.1:{port}", adapter.clock)
        publisher.mount(driver)
        platform = OneBotPlatform(
            f"onebot:{SELF}",
            accounts=adapter.accounts,
            sent=adapter.sent,
            clock=adapter.clock,
            publisher=publisher,
            limits=limits or PlatformLimits(send_s=5, fetch_s=2),
        )
        server = uvicorn.Server(
            uvicorn.Config(driver.asgi, log_config=None, lifespan="on", ws_max_size=MAX_FRAME_BYTES)
        )
        stopped = anyio.Event()

        async def serve() -> None:
            await server.serve(sockets=[listener])
            stopped.set()

        async with TaskScope() as tasks:
            tasks.start_soon(serve)
            try:
                yield Bot(port, adapter, driver, facts, platform)
            finally:
                server.should_exit = True
                with anyio.fail_after(5, shield=True):
                    await stopped.wait()
