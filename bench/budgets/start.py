"""From the start of the process to the first connection it takes, against a bare NoneBot bot.

Pairs, one right after the other; byte code is compiled by a pair that is not counted. The wall clock counts, as for
whoever waits; beside it the CPU time, which other work on the machine disturbs less, and which alone is judged where
only ratios are.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.bots import bare_bot, our_bot
from bench.judging import Budget, Limit, Options, Result, median_ratio

__all__ = ["START"]

_LIMIT = Limit(1.3)


async def measure(options: Options) -> Sequence[Result]:
    """Start pairs of bots."""
    wall: list[tuple[float, float]] = []
    cpu: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.sized(11, 5) + 1):
            with bare_bot(Path(folder) / f"bare-{number}") as bare:
                bare_s, bare_cpu_s = bare.ready_s, bare.ready_cpu_s
            with our_bot(Path(folder) / f"ours-{number}") as ours:
                wall.append((bare_s, ours.ready_s))
                cpu.append((bare_cpu_s, ours.ready_cpu_s))
    wall, cpu = wall[1:], cpu[1:]
    return [
        Result("time to the first connection", median_ratio(wall), "x bare", _LIMIT, note=_note(wall)),
        Result("CPU until then", median_ratio(cpu), "x bare", _LIMIT, "ratio", _note(cpu)),
    ]


def _note(pairs: Sequence[tuple[float, float]]) -> str:
    bare, ours = (statistics.median(side) for side in zip(*pairs, strict=True))
    return f"bare {bare:.2f} s, ours {ours:.2f} s (medians of {len(pairs)})"


START = Budget("start", measure, has_ratio=True)
