"""What a line in a live window costs in memory: channels with a full window, each of which has answered once.

Answering decodes, renders and measures what the engines look at; what nobody looks at stays as its bytes. A few
channels are opened before counting, so that what all share is there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.bots import RunningBot, our_bot
from bench.judging import Budget, Limit, Options, Result
from bench.logs import BLOCK, channel, write_log
from ishiki.testing.onebot_peer import OneBotPeer

__all__ = ["RESIDENT"]

_WINDOW = 5_000
_SHARED = 3
_GROUP = 500
_WITHIN_S = 60.0


async def measure(options: Options) -> Sequence[Result]:
    """Open channels and let them answer, then look at what they added."""
    count = options.sized(20, 6, least=1)
    groups = range(_GROUP, _GROUP + _SHARED + count)
    with tempfile.TemporaryDirectory() as folder, our_bot(Path(folder)) as bot:
        for group in groups:
            write_log(bot.log_of(channel(group)), _WINDOW + BLOCK, group=group)
        async with OneBotPeer(bot.url) as peer:
            before = await _answered(bot, peer, groups[:_SHARED], 0)
            after = await _answered(bot, peer, groups[_SHARED:], _SHARED)
    kib = (after - before) / (count * _WINDOW) / 1024
    note = f"{count} channels with {_WINDOW:,} lines each, {after / 1e6:.0f} MB in all"
    return [Result("memory per line in a window", kib, "KiB", Limit(2), note=note)]


async def _answered(bot: RunningBot, peer: OneBotPeer, groups: Sequence[int], already: int) -> int:
    for number, group in enumerate(groups, already + 1):
        await peer.mention("are you there?", group_id=group)
        await peer.wait_sent(number, within=_WITHIN_S)
    await bot.quiet(at_least_s=1.5)
    return bot.resident_bytes


RESIDENT = Budget("resident", measure)
