"""CPU of a bot to which nobody speaks: connected, with a channel in memory, after it has settled."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import anyio

from bench.bots import our_bot
from bench.judging import Budget, Limit, Options, Result
from ishiki.testing.onebot_peer import OneBotPeer

__all__ = ["IDLE"]

_LIMIT_PERCENT = 0.5
_HEARTBEAT_S = 5.0
"""As protocol ends send them."""


async def measure(options: Options) -> Sequence[Result]:
    """Watch a bot that does nothing."""
    seconds = options.sized(60, 15, least=2)
    with tempfile.TemporaryDirectory() as folder, our_bot(Path(folder)) as bot:
        async with OneBotPeer(bot.url, heartbeat_s=_HEARTBEAT_S) as peer:
            await peer.mention("are you there?", group_id=500)
            await peer.wait_sent(1, within=30)
            await bot.quiet(at_least_s=1.5)
            used, began = bot.cpu_s, time.monotonic()
            await anyio.sleep(seconds)
            percent = 100 * (bot.cpu_s - used) / (time.monotonic() - began)
    note = f"over {seconds} s, with a heartbeat of the protocol end every {_HEARTBEAT_S:g} s"
    return [Result("CPU with nobody speaking", percent, "% of a core", Limit(_LIMIT_PERCENT), note=note)]


IDLE = Budget("idle", measure)
