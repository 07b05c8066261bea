"""The bot that most of these tests share, and its log beside a failure."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator, Iterator

import anyio
import pytest

from ishiki.testing.bot_process import BotProcess, models_yaml, profile_yaml
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_server import OpenAIServer

from .stage import KEYWORD, SharedBot

_WARM_S = 50.0
"""Seconds until the first answer, which waits for LiteLLM to be imported."""


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBot]:
    """Run one bot for all tests that do not stop or configure it; its models are asked at a fixed port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    bot = BotProcess(
        tmp_path_factory.mktemp("bot"),
        models=models_yaml(f"http://127.0.0.1:{port}/v1"),
        profiles={"mind": profile_yaml(more=f"wakeup: {{engine: standard, standard: {{keywords: [{KEYWORD}]}}}}")},
        env={"ISHIKI_TIMEZONE": "UTC"},
    )
    with bot:
        shared = SharedBot(bot, port)
        # A thread of its own, for the test that asks first has a loop already.
        warming = threading.Thread(target=anyio.run, args=(_warm_up, shared))
        warming.start()
        warming.join()
        yield shared


async def _warm_up(shared: SharedBot) -> None:
    async with OpenAIServer(port=shared.model_port), OneBotPeer(shared.bot.url, self_id=20_000) as peer:
        await peer.say("good morning")
        await peer.wait_sent(1, within=_WARM_S)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the shared bot's log beside a failure."""
    report = yield
    fixtures = item.funcargs if isinstance(item, pytest.Function) else {}
    shared = fixtures.get("shared")
    if report.failed and isinstance(shared, SharedBot):
        report.sections.append(("the bot's log", shared.bot.tail))
    return report
