"""Intake: CPU of the bot's process per group line, line on disk included, against a bare NoneBot bot's.

Both bots run side by side; each pair is one batch of the same kind of lines for each, one right after the other, and
the ratio is the median over the pairs. Once at an even pace, as people talk (each line is a write of its own), and once
as fast as the bot reads. CPU time is counted until the process has fallen still, at least long enough for the fsync.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from bench.bots import RunningBot, bare_bot, our_bot
from bench.chatter import Chatter, DiskCount, say
from bench.judging import Budget, Limit, Options, Result, median_ratio
from bench.logs import channel
from ishiki.testing.onebot_peer import OneBotPeer

__all__ = ["INTAKE"]

_GROUPS = (500, 501, 502, 503)
_PACE = 200.0
"""Lines per second: more than any group says, few enough that lines do not wait for each other."""

_SETTLE_S = 1.3
"""The fsync comes within a second."""

_LIMIT = Limit(1.1)


async def measure(options: Options) -> Sequence[Result]:
    """Measure both ways of talking."""
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with bare_bot(root / "bare") as bare, our_bot(root / "ours") as ours:
            async with OneBotPeer(bare.url) as to_bare, OneBotPeer(ours.url) as to_ours:
                bench = _Bench((bare, to_bare), (ours, to_ours))
                await bench.pair(options.sized(400, 200), None)
                for title, pace, size in (
                    ("at 200 lines a second", _PACE, options.sized(600, 400)),
                    ("in a burst", None, options.sized(2_000, 1_000)),
                ):
                    pairs = [await bench.pair(size, pace) for _ in range(options.sized(7, 3))]
                    note = "bare {:.2f} ms, ours {:.2f} ms of CPU a line".format(
                        *(1_000 * statistics.median(side) for side in zip(*pairs, strict=True))
                    )
                    results.append(Result(title, median_ratio(pairs), "x bare", _LIMIT, "ratio", note))
    return results


class _Bench:
    def __init__(self, bare: tuple[RunningBot, OneBotPeer], ours: tuple[RunningBot, OneBotPeer]) -> None:
        self._bare = bare
        self._ours = ours
        self._chatter = Chatter(_GROUPS)
        self._disk = DiskCount([ours[0].log_of(channel(group)) for group in _GROUPS])

    async def pair(self, size: int, pace: float | None) -> tuple[float, float]:
        """Return CPU seconds per line: the bare bot's and ours."""
        bare = await self._batch(self._bare, size, pace)
        on_disk = self._disk.look() + size
        ours = await self._batch(self._ours, size, pace, until=partial(self._disk.reach, on_disk))
        return bare, ours

    async def _batch(
        self,
        end: tuple[RunningBot, OneBotPeer],
        size: int,
        pace: float | None,
        until: Callable[[], Awaitable[None]] | None = None,
    ) -> float:
        bot, peer = end
        frames = self._chatter.frames(size)
        before = bot.cpu_s
        await say(peer, frames, per_second=pace)
        if until is not None:
            await until()
        await bot.quiet(at_least_s=_SETTLE_S)
        return (bot.cpu_s - before) / size


INTAKE = Budget("intake", measure, has_ratio=True)
