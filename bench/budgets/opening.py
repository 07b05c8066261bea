"""Opening a channel: from the first line that somebody says there to its runtime having taken it, by length of the log.

The supervisor runs in this process, and the log is opened, read back, restored from and taken over as in a bot. Long
and short log take turns, their files in the page cache; each time the supervisor starts anew and the log is cut to what
it was. The runtime's parts are loaded by a first channel that is not counted. Also the log alone (`EventLog.open`).
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.judging import Budget, Limit, Options, Result, median_ratio
from bench.logs import channel, write_log
from bench.minds import log_path, running_minds
from ishiki.storage import EventLog, LogFiles

__all__ = ["OPENING"]

_SHORT, _LONG, _QUICK_LONG = 10_000, 1_000_000, 200_000
_SHORT_GROUP, _LONG_GROUP, _OTHER_GROUP = 500, 501, 502
_BEHIND_CHECKPOINT = 700
"""Entries behind the newest checkpoint: an opening after a crash has to look at these again."""

_LIMIT_MS = 60.0
_RATIO = Limit(1.2)


async def measure(options: Options) -> Sequence[Result]:
    """Measure pairs of openings."""
    sizes = {
        _SHORT_GROUP: options.sized(_SHORT, _SHORT) + _BEHIND_CHECKPOINT,
        _LONG_GROUP: options.sized(_LONG, _QUICK_LONG) + _BEHIND_CHECKPOINT,
    }
    rounds = options.sized(15, 7, least=2)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for group, size in sizes.items():
            write_log(log_path(root, channel(group)), size, group=group)
        logs = [(await _open_log(root, _SHORT_GROUP), await _open_log(root, _LONG_GROUP)) for _ in range(rounds)]
        channels = [
            (await _open_channel(root, _SHORT_GROUP), await _open_channel(root, _LONG_GROUP)) for _ in range(rounds)
        ]
    note = "{:.1f} ms, short {:.1f} ms (medians)"
    return [
        Result(
            f"a channel of {sizes[_LONG_GROUP]:,} entries",
            1_000 * _median(channels, 1),
            "ms",
            Limit(_LIMIT_MS),
            note=f"one of {sizes[_SHORT_GROUP]:,}: {1_000 * _median(channels, 0):.1f} ms; medians of {rounds}",
        ),
        Result("long against short, the channel", median_ratio(channels), "x", _RATIO, "ratio"),
        Result(
            "long against short, the log alone",
            median_ratio(logs),
            "x",
            _RATIO,
            "ratio",
            note=note.format(1_000 * _median(logs, 1), 1_000 * _median(logs, 0)),
        ),
    ]


async def _open_log(root: Path, group: int) -> float:
    place = channel(group)
    files = LogFiles(fsync="never")
    began = time.perf_counter()
    log = await EventLog.open(log_path(root, place), sid=place.sid, channel_id=place.channel_id, files=files)
    took = time.perf_counter() - began
    await log.aclose()
    await files.aclose()
    return took


async def _open_channel(root: Path, group: int) -> float:
    path = log_path(root, channel(group))
    size = path.stat().st_size
    async with running_minds(root) as minds:
        await minds.hear(channel(_OTHER_GROUP))
        began = time.perf_counter()
        await minds.hear(channel(group))
        took = time.perf_counter() - began
    with path.open("r+b") as file:
        file.truncate(size)
    return took


def _median(pairs: Sequence[tuple[float, float]], side: int) -> float:
    return statistics.median(pair[side] for pair in pairs)


OPENING = Budget("opening", measure, has_ratio=True)
