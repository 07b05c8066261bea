"""How far the clock of each account's OneBot implementation is from ours.

Lines are too old to wake anybody by their own `time` (`limits.stale_after`), which is the implementation's. Where its
clock is wrong, every line would be: so the difference is measured and counted in. Meta events tell it at once, since
they are sent the moment they are made (OneBot v11, meta events). Where there are none, lines tell it that come over a
while and are all off by the same; a backlog after a restart comes in a burst, and its lines are off by different times.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.plugin.wire import read_id, read_time_ms

__all__ = ["ClockOffsets"]

logger = logging.getLogger(__name__)

_LEAST_MS: Final = 30_000
"""Less counts as none: transport, and lines that wait a moment."""

_LINES: Final = 3
_SPREAD_MS: Final = 3_000
_STRETCH_S: Final = 20.0
"""So many lines, off by the same within this, over at least so long, are live. Our choice."""


@dataclass(slots=True)
class _Offset:
    offset_ms: int = 0
    told_ms: int = 0
    """What the log was told last."""
    by_meta: bool = False
    """Whether a meta event has told it: then lines do not count."""
    lines: deque[tuple[float, int]] = field(default_factory=lambda: deque[tuple[float, int]](maxlen=_LINES))
    """When the newest lines came, in monotonic seconds, and by how much they were off."""


class ClockOffsets:
    """By self id. Sync; single event loop."""

    def __init__(self) -> None:
        """Believe every clock."""
        self._accounts: dict[str, _Offset] = {}

    def offset_ms(self, self_id: str) -> int:
        """Return how far the implementation's clock is ahead of ours, in milliseconds; negative where it is behind."""
        known = self._accounts.get(self_id)
        return 0 if known is None else known.offset_ms

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
        known = self._accounts.setdefault(self_id, _Offset())
        if (offset_ms := self._measured(known, raw, at_ms - now_ms, monotonic)) is not None:
            self._settle(self_id, known, offset_ms)

    def _measured(self, known: _Offset, raw: JsonObject, offset_ms: int, monotonic: float) -> int | None:
        if raw.get("post_type") == "meta_event":
            known.by_meta = True
            return offset_ms
        if known.by_meta:
            return None
        known.lines.append((monotonic, offset_ms))
        offsets = [offset for _, offset in known.lines]
        is_live = len(offsets) == _LINES and known.lines[-1][0] - known.lines[0][0] >= _STRETCH_S
        return max(offsets) if is_live and max(offsets) - min(offsets) <= _SPREAD_MS else None

    def _settle(self, self_id: str, known: _Offset, offset_ms: int) -> None:
        known.offset_ms = offset_ms if abs(offset_ms) >= _LEAST_MS else 0
        if abs(known.offset_ms - known.told_ms) < _LEAST_MS:
            return
        known.told_ms = known.offset_ms
        if known.offset_ms == 0:
            logger.info("account %s: the clock of its OneBot implementation is right again", self_id)
            return
        logger.warning(
            "account %s: the clock of its OneBot implementation is %d s %s ours; how old a line is is judged by that. "
            "Set both clocks right",
            self_id, abs(known.offset_ms) // 1000, "ahead of" if known.offset_ms > 0 else "behind",
        )  # fmt: skip
