"""A replay as a picture: what was said over time, and below it when each mind would have spoken. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ishiki.cli.replay_report import HOUR_MS, ReplayReport
from ishiki.cli.svg import FAINT, GRID, INK, escaped, round_scale, text_at

__all__ = ["draw_replay"]

_WIDTH = 960
_LEFT, _RIGHT = 64, 940
_TOP, _BOTTOM = 44, 164
_PANEL_HEIGHT = 190
_AXIS_HEIGHT = 40
_MAX_BINS = 120
_BIN_HOURS = (1, 2, 3, 6, 12, 24, 48, 168, 336, 672, 2016, 8760)
_MAX_LABELS = 8
_MESSAGES_COLOUR = "#9aa5b1"
_WAKES_COLOUR = "#0072b2"


@dataclass(frozen=True, slots=True)
class _Axis:
    """The time axis that all panels share."""

    first_hour: int
    """Of the first bin, counted from the epoch."""
    bin_hours: int
    bins: int

    def binned(self, by_hour: Counter[int]) -> list[int]:
        """Return the counts of each bin."""
        counts = [0] * self.bins
        for hour, count in by_hour.items():
            counts[min(self.bins - 1, max(0, (hour - self.first_hour) // self.bin_hours))] += count
        return counts


def draw_replay(report: ReplayReport) -> str:
    """Return an SVG document: one panel for the messages, one for each mind, over the same time."""
    panels = 1 + len(report.minds)
    height = panels * _PANEL_HEIGHT + _AXIS_HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}">',
        "<title>When minds would have spoken</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    if not report.messages:
        return "\n".join([*lines, text_at(_WIDTH / 2, 90, "nobody says anything", anchor="middle"), "</svg>", ""])
    axis = _axis(report)
    each = f"each bar {axis.bin_hours} h" if axis.bin_hours < 48 else f"each bar {axis.bin_hours // 24} days"
    named = [(f"{report.messages:,} messages", each, report.by_hour, _MESSAGES_COLOUR)]
    for counts in report.minds:
        wakes = f"{counts.wakes:,} turns, {counts.wakes / report.days:.1f} a day"
        named.append((f"{counts.profile_id} ({counts.engine})", wakes, counts.by_hour, _WAKES_COLOUR))
    for number, (title, note, by_hour, colour) in enumerate(named):
        lines.append(f'<g transform="translate(0 {number * _PANEL_HEIGHT})">')
        lines.append(text_at(_LEFT, 26, title, size=15, weight="600"))
        lines.append(text_at(_RIGHT, 26, note, anchor="end", fill=FAINT))
        lines += _bars(axis.binned(by_hour), report, axis, colour)
        lines.append("</g>")
    lines += _labels(report, axis, panels * _PANEL_HEIGHT)
    return "\n".join([*lines, "</svg>", ""])


def _axis(report: ReplayReport) -> _Axis:
    first, last = min(report.by_hour), max(report.by_hour)
    hours = last - first + 1
    bin_hours = next((one for one in _BIN_HOURS if hours <= one * _MAX_BINS), -(-hours // _MAX_BINS))
    # Bars begin at whole bins of the local day.
    local = report.local(first * HOUR_MS)
    begin = first - (local.hour % bin_hours if bin_hours < 24 else local.hour)
    return _Axis(begin, bin_hours, max(1, -(-(last - begin + 1) // bin_hours)))


def _bars(counts: list[int], report: ReplayReport, axis: _Axis, colour: str) -> Iterator[str]:
    top, step = round_scale(max(1, *counts))
    for value in range(0, top + 1, step):
        y = _BOTTOM - (_BOTTOM - _TOP) * value / top
        line_colour = FAINT if value == 0 else GRID
        yield f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{line_colour}"/>'
        yield text_at(_LEFT - 8, y + 4, f"{value:,}", anchor="end", fill=FAINT)
    slot = (_RIGHT - _LEFT) / len(counts)
    for number, count in enumerate(counts):
        if count:
            size = (_BOTTOM - _TOP) * count / top
            when = report.local((axis.first_hour + number * axis.bin_hours) * HOUR_MS)
            tip = escaped(f"{when:%Y-%m-%d %H:%M}: {count:,}")
            yield (
                f'<rect x="{_LEFT + slot * (number + 0.1):.1f}" y="{_BOTTOM - size:.1f}" width="{slot * 0.8:.1f}" '
                f'height="{size:.1f}" fill="{colour}"><title>{tip}</title></rect>'
            )


def _labels(report: ReplayReport, axis: _Axis, y: float) -> Iterator[str]:
    every = -(-axis.bins // _MAX_LABELS)
    slot = (_RIGHT - _LEFT) / axis.bins
    form = "%m-%d %H:%M" if axis.bin_hours * every < 24 else "%Y-%m-%d"
    for number in range(0, axis.bins, every):
        when = report.local((axis.first_hour + number * axis.bin_hours) * HOUR_MS)
        yield text_at(_LEFT + slot * number, y, when.strftime(form), fill=FAINT)
    yield text_at((_LEFT + _RIGHT) / 2, y + 24, f"time in {report.zone or 'UTC'}", anchor="middle", fill=FAINT)
