"""90,000 lines: memory over the last two thirds, while three windows of 5,000 lines stay full.

Lines come as fast as the bot writes them; their number on disk is checked, and paces the sender.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.bots import our_bot
from bench.chatter import Chatter, DiskCount, say
from bench.judging import Budget, Limit, Options, Result
from bench.logs import channel
from ishiki.testing.onebot_peer import OneBotPeer

__all__ = ["ENDURANCE"]

_MB = 1_000_000
_GROUPS = (500, 501, 502)
_BATCH = 1_500
"""Below what the queues of three channels hold."""


async def measure(options: Options) -> Sequence[Result]:
    """Send batches, and read memory after each."""
    batches = options.sized(60, 40, least=3)
    samples: list[float] = []
    with tempfile.TemporaryDirectory() as folder, our_bot(Path(folder)) as bot:
        chatter, disk = Chatter(_GROUPS), DiskCount([bot.log_of(channel(group)) for group in _GROUPS])
        async with OneBotPeer(bot.url) as peer:
            for number in range(1, batches + 1):
                await say(peer, chatter.frames(_BATCH))
                await disk.reach(number * _BATCH)
                samples.append(bot.resident_bytes / _MB)
        used_s = bot.cpu_s
    late = samples[len(samples) // 3 :]
    note = (
        f"{batches * _BATCH:,} lines, all on disk; {samples[0]:.0f} MB after the first {_BATCH:,}, {late[0]:.0f} MB "
        f"after a third, {samples[-1]:.0f} MB at the end; {1_000 * used_s / (batches * _BATCH):.2f} ms of CPU a line"
    )
    return [Result("memory over the last two thirds", max(late) - min(late), "MB", Limit(10), note=note)]


ENDURANCE = Budget("endurance", measure)
