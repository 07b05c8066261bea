"""Usage as lines of text: channels against days, then the sums of each day. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Protocol

from ishiki.cli.rendering import plain
from ishiki.runtime.usage.tally import DayUsage, Tally

__all__ = ["UsageReport", "compact", "percent", "usage_lines"]


class UsageReport(Protocol):
    """What is shown of one profile."""

    @property
    def profile_id(self) -> str:
        """Whose usage it is."""
        ...

    @property
    def days(self) -> Sequence[date]:
        """Every day that is shown, oldest first."""
        ...

    @property
    def found(self) -> dict[date, DayUsage]:
        """Those on which something was counted."""
        ...

    @property
    def newest(self) -> date | None:
        """The newest day on which anything was counted."""
        ...

    @property
    def timezone(self) -> str:
        """The zone whose days they are."""
        ...

    def total_of(self, day: date) -> Tally:
        """Return the sum of one day."""
        ...

    def total(self) -> Tally:
        """Return the sum of all days."""
        ...

    def channels(self) -> dict[str, Tally]:
        """Return the sum of each channel, in the order in which they are shown."""
        ...


def compact(number: int) -> str:
    """Return `number` in at most five characters: 999, 12.3k, 456k, 1.23M, 78.9M."""
    for limit, unit, suffix in ((999_500, 1_000, "k"), (999_500_000, 1_000_000, "M")):
        if number < 1_000:
            return str(number)
        if number < limit:
            return _three_digits(number / unit) + suffix
    return _three_digits(number / 1_000_000_000) + "G"


def _three_digits(value: float) -> str:
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(part: int, whole: int) -> str:
    """Return the share of `part`, or "-" where there is no whole."""
    return f"{100 * part / whole:.0f}%" if whole else "-"


def usage_lines(report: UsageReport) -> list[str]:
    """Return a profile's usage as lines of a terminal."""
    first, last = report.days[0].isoformat(), report.days[-1].isoformat()
    name = plain(report.profile_id).replace("\n", " ")
    if not report.found:
        return [f"{name}: nothing was used from {first} to {last}; the newest day is {report.newest}"]
    total = report.total()
    lines = [f"{name}: {first} to {last}, days of {plain(report.timezone)}", ""]
    lines += _aligned([*_channel_rows(report)])
    lines.append("")
    lines += _aligned([*_day_rows(report)])
    if total.estimated_calls:
        lines += ["", f"~ with estimates: {total.estimated_calls} of {total.calls} calls came without usage"]
    return lines


def _channel_rows(report: UsageReport) -> list[list[str]]:
    days = [day.strftime("%m-%d") for day in report.days]
    rows = [["tokens", *days, "total", "cached"]]
    for name, total in report.channels().items():
        cells = [_cell(_tally(report, day, name)) for day in report.days]
        rows.append(
            [
                plain(name).replace("\n", " "),
                *cells,
                _cell(total),
                percent(total.cached_input_tokens, total.input_tokens),
            ]
        )
    total = report.total()
    cells = [_cell(report.total_of(day)) for day in report.days]
    rows.append(["all channels", *cells, _cell(total), percent(total.cached_input_tokens, total.input_tokens)])
    return rows


def _tally(report: UsageReport, day: date, channel: str) -> Tally:
    usage = report.found.get(day)
    found = None if usage is None else usage.channels.get(channel)
    return Tally() if found is None else found.tally


def _cell(tally: Tally) -> str:
    if not tally.tokens:
        return "-"
    return f"{'~' if tally.estimated_calls else ''}{compact(tally.tokens)}"


def _day_rows(report: UsageReport) -> list[list[str]]:
    tallies = [*(report.total_of(day) for day in report.days), report.total()]
    head = ["", *(day.strftime("%m-%d") for day in report.days), "total"]
    rows = [
        ["turns", *(_count(tally.turns) for tally in tallies)],
        ["model calls", *(_count(tally.calls) for tally in tallies)],
        ["input tokens", *(_count(tally.input_tokens) for tally in tallies)],
        ["  of these cached", *(percent(tally.cached_input_tokens, tally.input_tokens) for tally in tallies)],
        ["output tokens", *(_count(tally.output_tokens) for tally in tallies)],
    ]
    return [head, *rows]


def _count(number: int) -> str:
    return compact(number) if number else "-"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
