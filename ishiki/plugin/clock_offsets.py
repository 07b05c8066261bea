"""How far the clock that dates each account's messages is from ours.

Lines are too old to wake anybody by their own `time` (`limits.stale_after`). Where the clock that dates them is wrong,
or ours is, every line would be: so the difference is measured and counted in. Meta events tell it at once, since they
are sent the moment they are made (OneBot v11, meta events). Better know lines that come over a while and are all off by
the same: implementations such as NapCat pass on the time of the chat's own servers in a message, and date meta events
by their machine, whose clock may be as wrong as ours where both run on one. A backlog after a restart comes in a burst,
and its lines are off by different times.

A frame that was long on its way looks like a clock that is behind. After a stall of the network or of this machine a
whole backlog comes so, heartbeats among it: a clock that seems to have fallen behind is believed only where the frame
cannot have been on its way for so long, or where the next one says the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.plugin.wire import LATEST_AHEAD_MS, read_id, read_time_ms

__all__ = ["ClockOffsets"]

logger = logging.getLogger(__name__)

_LEAST_MS: Final = 30_000
"""Less counts as none: transport, and lines that wait a moment."""

_SPREAD_MS: Final = 3_000
"""Frames that are off by the same differ by no more: times are whole seconds, and each has its way to go."""

_META_APART_S: Final = 1.0
_LINES: Final = 3
_LINES_STRETCH_S: Final = 20.0
"""Two meta events so far apart, or so many lines over so long, that are off by the same are live. Our choice."""


@dataclass(slots=True)
class _Run:
    """Frames in a row that are off by the same."""

    began: float
    """When the first of them came, in monotonic seconds."""
    least_ms: int
    most_ms: int
    count: int = 1

    def takes(self, offset_ms: int) -> bool:
        """Count a frame in; False where it is off by something else."""
        least_ms, most_ms = min(self.least_ms, offset_ms), max(self.most_ms, offset_ms)
        if most_ms - least_ms > _SPREAD_MS:
            return False
        self.least_ms, self.most_ms, self.count = least_ms, most_ms, self.count + 1
        return True


@dataclass(slots=True)
class _Account:
    offset_ms: int = 0
    told_ms: int = 0
    """What the log was told last."""
    meta_ms: int | None = None
    """What meta events say; None: there was none."""
    prompt_at: float = 0.0
    """When the newest came that was not late, in monotonic seconds."""
    prompt_wall_ms: int = 0
    """The same by the clock of the day."""
    delayed: _Run | None = None
    """Meta events that may have been long on their way."""
    lines: _Run | None = None
    """The newest lines, as long as they are off by the same."""
    line_ms: int | None = None
    """What live lines have told since the clock of the meta events was set; None: nothing yet."""

    @property
    def by_lines_ms(self) -> int:
        """What counts for lines."""
        meta_ms = self.meta_ms or 0
        is_apart = self.line_ms is not None and abs(self.line_ms - meta_ms) >= _LEAST_MS
        return self.line_ms if self.line_ms is not None and (is_apart or self.meta_ms is None) else meta_ms


class ClockOffsets:
    """By self id. Sync; single event loop."""

    def __init__(self) -> None:
        """Believe every clock."""
        self._accounts: dict[str, _Account] = {}

    def offset_ms(self, self_id: str) -> int:
        """Return by how much more or less than they say an account's lines are old, in milliseconds.

        That is how far the implementation's clock is ahead of ours, negative where it is behind; 0 where it is ahead
        by more than a line may be, since intake dates those lines by our clock.
        """
        known = self._accounts.get(self_id)
        return 0 if known is None or known.offset_ms > LATEST_AHEAD_MS else known.offset_ms

    def notice_offset_ms(self, self_id: str) -> int:
        """Return how far the clock that dates an account's notices is ahead of ours: that of the meta events."""
        known = self._accounts.get(self_id)
        if known is None or known.meta_ms is None:
            return self.offset_ms(self_id)
        return known.meta_ms if abs(known.meta_ms) >= _LEAST_MS and known.meta_ms <= LATEST_AHEAD_MS else 0

    def note(self, raw: JsonValue, *, account: str, now_ms: int, monotonic: float) -> None:
        """Learn from a frame.

        Args:
            raw: the frame.
            account: the account of the connection, where the frame names none.
            now_ms: the time of day by our clock.
            monotonic: seconds on a clock that nobody sets.
        """
        if not isinstance(raw, Mapping) or raw.get("post_type") not in ("meta_event", "message"):
            return
        self_id, at_ms = read_id(raw, "self_id") or account, read_time_ms(raw, "time")
        if not self_id or at_ms is None:
            return
        known = self._accounts.get(self_id)
        if known is None:
            known = self._accounts[self_id] = _Account()
        if raw.get("post_type") == "meta_event":
            offset_ms = _by_meta(known, raw, at_ms - now_ms, now_ms, monotonic)
        else:
            offset_ms = _by_line(known, at_ms - now_ms, monotonic)
        if offset_ms is not None:
            _settle(self_id, known, offset_ms)


def _by_meta(known: _Account, raw: JsonObject, offset_ms: int, now_ms: int, monotonic: float) -> int | None:
    """Return what counts for lines from a meta event on; None where it may only be late."""
    if known.meta_ms is None or raw.get("meta_event_type") == "lifecycle":
        longest_way_ms = 0  # the first frame of a connection: nothing has held it up
    else:
        # Frames keep their order: it set out behind the one that was not late. The clock that nobody sets stands still
        # while this machine sleeps, so the other one counts too.
        passed_ms = max(round((monotonic - known.prompt_at) * 1000), now_ms - known.prompt_wall_ms)
        longest_way_ms = passed_ms + _SPREAD_MS
    behind_ms = 0 if known.meta_ms is None else known.meta_ms - offset_ms
    if _SPREAD_MS < behind_ms <= longest_way_ms:
        if known.delayed is None or not known.delayed.takes(offset_ms):
            known.delayed = _Run(monotonic, offset_ms, offset_ms)
        if monotonic - known.delayed.began < _META_APART_S:
            return None
    if known.meta_ms is None or abs(known.meta_ms - offset_ms) > _SPREAD_MS:
        known.lines = known.line_ms = None  # it was set; lines may follow it
    known.delayed = None
    known.meta_ms, known.prompt_at, known.prompt_wall_ms = offset_ms, monotonic, now_ms
    return known.by_lines_ms


def _by_line(known: _Account, offset_ms: int, monotonic: float) -> int | None:
    """Return the offset that live lines tell; None as long as these may be none."""
    if known.lines is None or not known.lines.takes(offset_ms):
        known.lines = _Run(monotonic, offset_ms, offset_ms)
    if known.lines.count < _LINES or monotonic - known.lines.began < _LINES_STRETCH_S:
        return None
    known.line_ms = known.lines.most_ms
    return known.by_lines_ms


def _settle(self_id: str, known: _Account, offset_ms: int) -> None:
    known.offset_ms = offset_ms if abs(offset_ms) >= _LEAST_MS else 0
    if abs(known.offset_ms - known.told_ms) < _LEAST_MS:
        return
    known.told_ms = known.offset_ms
    if known.offset_ms == 0:
        logger.info("account %s: the clock that dates its messages agrees with ours again", self_id)
        return
    logger.warning(
        "account %s: the clock that dates its messages is %d s %s ours; how old a line is is judged by that. "
        "Set the clocks of this machine and of its OneBot implementation right",
        self_id, abs(known.offset_ms) // 1000, "ahead of" if known.offset_ms > 0 else "behind",
    )  # fmt: skip
