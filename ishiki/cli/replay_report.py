"""What a replay counts, and the table of it. Keeps counts by the hour and no message. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo

from ishiki.core.events import WakeupDecision

__all__ = ["HOUR_MS", "MindCounts", "ReplayReport", "report_lines"]

HOUR_MS = 3_600_000
_DAY_MS = 24 * HOUR_MS
_NAME_CHARS = 16


@dataclass(slots=True)
class MindCounts:
    """When one mind would have spoken."""

    profile_id: str
    engine: str
    by_hour: Counter[int] = field(default_factory=Counter[int])
    """Wakes by the hour, counted from the epoch."""
    from_messages: int = 0
    """Wakes by a message; the others came from a clock."""
    judged: int = 0
    """Messages that a judge would have been asked about."""

    @property
    def wakes(self) -> int:
        """All of them."""
        return self.by_hour.total()

    def note(self, decision: WakeupDecision, at_ms: int, *, is_message: bool) -> None:
        """Count a decision."""
        self.judged += "chance" in decision.fields
        if decision.woke:
            self.by_hour[at_ms // HOUR_MS] += 1
            self.from_messages += is_message


@dataclass(slots=True)
class ReplayReport:
    """What one replay came to."""

    minds: list[MindCounts] = field(default_factory=list[MindCounts])
    zone: tzinfo | None = None
    """Whose hours the table has: that of the first profile."""
    lines: int = 0
    """Lines of the log."""
    by_hour: Counter[int] = field(default_factory=Counter[int])
    """Messages by the hour, counted from the epoch."""
    first_ms: int = 0
    last_ms: int = 0
    """Times of the first and the last message; 0 where there is none."""

    @property
    def messages(self) -> int:
        """All of them."""
        return self.by_hour.total()

    @property
    def days(self) -> float:
        """How many days lie between the first message and the last; a part of one counts as one."""
        return max(1.0, (self.last_ms - self.first_ms) / _DAY_MS)

    def hear(self, at_ms: int) -> None:
        """Count a message."""
        self.first_ms = self.first_ms or at_ms
        self.last_ms = max(self.last_ms, at_ms)
        self.by_hour[at_ms // HOUR_MS] += 1

    def local(self, at_ms: int) -> datetime:
        """Return a time in the table's zone."""
        return datetime.fromtimestamp(at_ms / 1000, self.zone or UTC)


def report_lines(report: ReplayReport) -> Iterator[str]:
    """Yield the table: messages and wakes by the hour of the day, then what they come to."""
    if not report.messages:
        yield f"{report.lines:,} lines, and nobody says anything in them"
        return
    first, last = report.local(report.first_ms), report.local(report.last_ms)
    yield f"{report.lines:,} lines, {report.messages:,} messages, {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"
    yield ""
    names = [_column(counts.profile_id) for counts in report.minds]
    yield "  ".join(["hour", f"{'messages':>10}", *(f"{name:>{_width(name)}}" for name in names)])
    heard = _by_hour_of_day(report, report.by_hour)
    spoken = [_by_hour_of_day(report, counts.by_hour) for counts in report.minds]
    for hour in range(24):
        cells = [f"{by_hour[hour]:>{_width(name)},}" for name, by_hour in zip(names, spoken, strict=True)]
        yield "  ".join([f"{hour:02}  ", f"{heard[hour]:>10,}", *cells])
    sums = [f"{counts.wakes:>{_width(name)},}" for name, counts in zip(names, report.minds, strict=True)]
    yield "  ".join(["all ", f"{report.messages:>10,}", *sums])
    yield ""
    for counts in report.minds:
        yield _summary(counts, report)


def _summary(counts: MindCounts, report: ReplayReport) -> str:
    share = counts.from_messages / report.messages
    parts = [f"{counts.from_messages:,} of {report.messages:,} messages woke it ({share:.1%})"]
    if clock := counts.wakes - counts.from_messages:
        parts.append(f"its clock {clock:,} times")
    parts.append(f"{counts.wakes / report.days:.1f} turns a day")
    if counts.judged:
        parts.append(f"the judge asked {counts.judged:,} times")
    return f"{counts.profile_id} ({counts.engine}): {', '.join(parts)}"


def _by_hour_of_day(report: ReplayReport, by_hour: Counter[int]) -> Counter[int]:
    found: Counter[int] = Counter()
    for hour, count in by_hour.items():
        found[report.local(hour * HOUR_MS).hour] += count
    return found


def _column(name: str) -> str:
    return name if len(name) <= _NAME_CHARS else f"{name[: _NAME_CHARS - 1]}…"


def _width(name: str) -> int:
    return max(8, len(name))
