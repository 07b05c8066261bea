"""Memory of the whole process once it has settled: with the demo model only, and with LiteLLM loaded."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import anyio

from bench.bots import RunningBot, our_bot, profile
from bench.judging import Budget, Limit, Options, Result
from ishiki.testing.bot_process import models_yaml
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_server import OpenAIServer

__all__ = ["MEMORY"]

_MB = 1_000_000
_WITHIN_S = 90.0
_GROUP = 500


async def measure(options: Options) -> Sequence[Result]:
    """Let each bot answer, so that everything it needs for that is loaded, and read its memory."""
    with tempfile.TemporaryDirectory() as folder:
        with our_bot(Path(folder) / "demo") as bot:
            await _converse(bot, options)
            demo = bot.resident_bytes
        async with OpenAIServer() as server:
            models, text = models_yaml(server.base_url), profile(model="test:test-model")
            with our_bot(Path(folder) / "litellm", models=models, profile_text=text) as bot:
                await _converse(bot, options)
                litellm = bot.resident_bytes
    return [
        Result("with the demo model", demo / _MB, "MB", Limit(100)),
        Result("with LiteLLM loaded", litellm / _MB, "MB", Limit(250)),
    ]


async def _converse(bot: RunningBot, options: Options) -> None:
    began = time.monotonic()
    async with OneBotPeer(bot.url) as peer:
        for number in range(1, options.sized(10, 3) + 1):
            await peer.mention(f"are you there? {number}", group_id=_GROUP + number)
            await peer.wait_sent(number, within=_WITHIN_S)
    if time.monotonic() - began > _WITHIN_S:
        raise RuntimeError("the bot answers too slowly for its memory to mean anything")
    await anyio.sleep(1.5)
    await bot.quiet()


MEMORY = Budget("memory", measure)
