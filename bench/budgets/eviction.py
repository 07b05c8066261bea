"""What a channel leaves in memory after it was evicted: many channels of 300 lines, each spoken to once.

A real bot that keeps 50 runtimes. One line is said in each channel; each opens its log, takes the line and leaves for
those after it. The value is the growth of the process's memory from the time when as many channels as it keeps had
been opened several times over, divided by the channels since.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.bots import our_bot
from bench.chatter import Chatter, DiskCount, say
from bench.judging import Budget, Limit, Options, Result
from bench.logs import channel, write_log
from ishiki.testing.onebot_peer import OneBotPeer

__all__ = ["EVICTION"]

_LINES = 300
_KEPT = 50
_BATCH = 100
_FIRST_GROUP = 100_000


async def measure(options: Options) -> Sequence[Result]:
    """Speak once in each channel, in batches."""
    count = options.sized(10_000, 1_500, least=2 * _BATCH)
    warm_up = min(500, count // 2)
    groups = range(_FIRST_GROUP, _FIRST_GROUP + count)
    with (
        tempfile.TemporaryDirectory() as folder,
        our_bot(Path(folder), ISHIKI_MAX_RESIDENT_RUNTIMES=str(_KEPT)) as bot,
    ):
        began = time.monotonic()
        for group in groups:
            write_log(bot.log_of(channel(group)), _LINES, group=group)
        wrote_s = time.monotonic() - began
        before = 0
        async with OneBotPeer(bot.url) as peer:
            for start in range(0, count, _BATCH):
                if start >= warm_up and not before:
                    await bot.quiet()
                    warm_up, before = start, bot.resident_bytes
                batch = groups[start : start + _BATCH]
                disk = DiskCount([bot.log_of(channel(group)) for group in batch])
                await say(peer, Chatter(batch).frames(len(batch)))
                await disk.reach(len(batch))
            await bot.quiet(at_least_s=1.5)
        kib = (bot.resident_bytes - before) / (count - warm_up) / 1024
        note = (
            f"{count:,} channels of {_LINES} lines, {bot.resident_bytes / 1e6:.0f} MB at the end; "
            f"the logs took {wrote_s:.0f} s to write"
        )
    return [Result("memory per evicted channel", kib, "KiB", Limit(4), note=note)]


EVICTION = Budget("eviction", measure)
