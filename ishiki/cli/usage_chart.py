"""Usage as a picture: one plot per profile, stacked bars by day, as SVG written by hand. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from ishiki.cli.svg import FAINT, GRID, INK, escaped, round_scale, text_at
from ishiki.cli.usage_table import UsageReport, compact, percent
from ishiki.runtime.usage.tally import Tally

__all__ = ["draw_charts"]

_WIDTH = 860
_PLOT_LEFT, _PLOT_RIGHT = 64, 840
_PLOT_TOP, _PLOT_BOTTOM = 76, 296
_PANEL_HEIGHT = 340
_MAX_BAR = 56.0
_MAX_DAY_LABELS = 14
_NAME_CHARS = 48


@dataclass(frozen=True, slots=True)
class _Band:
    """One colour of a bar; told apart by people who see few colours as well."""

    label: str
    colour: str

    def tokens_of(self, tally: Tally) -> int:
        match self.label:
            case "input":
                return tally.input_tokens - tally.cached_input_tokens
            case "input, cached":
                return tally.cached_input_tokens
            case _:
                return tally.output_tokens


_BANDS = (_Band("input", "#0072b2"), _Band("input, cached", "#7cc4ea"), _Band("output", "#e69f00"))
"""From the bottom to the top."""


def draw_charts(reports: Sequence[UsageReport]) -> str:
    """Return an SVG document with a plot for each profile, below each other."""
    height = max(1, len(reports)) * _PANEL_HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}">',
        "<title>Tokens by day</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for number, report in enumerate(reports):
        lines.append(f'<g transform="translate(0 {number * _PANEL_HEIGHT})">')
        lines += _panel(report)
        lines.append("</g>")
    if not reports:
        lines.append(text_at(_WIDTH / 2, _PANEL_HEIGHT / 2, "no usage yet", anchor="middle", fill=FAINT))
    return "\n".join([*lines, "</svg>", ""])


def _panel(report: UsageReport) -> Iterator[str]:
    total = report.total()
    name = report.profile_id if len(report.profile_id) <= _NAME_CHARS else f"{report.profile_id[: _NAME_CHARS - 1]}…"
    sums = f"{compact(total.tokens)} tokens in {compact(total.calls)} calls, {compact(total.turns)} turns"
    cached = (
        f"{percent(total.cached_input_tokens, total.input_tokens)} of the input cached" if total.input_tokens else ""
    )
    yield text_at(_PLOT_LEFT, 26, name, size=16, weight="600")
    yield text_at(_PLOT_RIGHT, 26, ", ".join(part for part in (sums, cached) if part), anchor="end", fill=FAINT)
    yield from _legend()
    tallies = [(day, report.total_of(day)) for day in report.days]
    top, step = round_scale(max(tally.tokens for _, tally in tallies))
    yield from _grid(top, step)
    yield from _bars(tallies, top)
    zone = f"tokens by day ({report.timezone})"
    yield text_at((_PLOT_LEFT + _PLOT_RIGHT) / 2, _PLOT_BOTTOM + 36, zone, anchor="middle", fill=FAINT)


def _legend() -> Iterator[str]:
    x = float(_PLOT_LEFT)
    for band in _BANDS:
        yield f'<rect x="{x:g}" y="42" width="12" height="12" fill="{band.colour}"/>'
        yield text_at(x + 18, 52, band.label)
        x += 44 + 7 * len(band.label)


def _grid(top: int, step: int) -> Iterator[str]:
    for value in range(0, top + 1, step):
        y = _y(value, top)
        colour = FAINT if value == 0 else GRID
        yield f'<line x1="{_PLOT_LEFT}" x2="{_PLOT_RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}"/>'
        yield text_at(_PLOT_LEFT - 8, y + 4, compact(value), anchor="end", fill=FAINT)


def _bars(tallies: Sequence[tuple[date, Tally]], top: int) -> Iterator[str]:
    slot = (_PLOT_RIGHT - _PLOT_LEFT) / len(tallies)
    width = min(_MAX_BAR, slot * 0.7)
    every = math.ceil(len(tallies) / _MAX_DAY_LABELS)
    for number, (day, tally) in enumerate(tallies):
        middle = _PLOT_LEFT + slot * (number + 0.5)
        yield f"<g><title>{escaped(_described(day, tally))}</title>"
        stacked = 0
        for band in _BANDS:
            tokens = band.tokens_of(tally)
            if tokens > 0:
                upper, lower = _y(stacked + tokens, top), _y(stacked, top)
                yield (
                    f'<rect x="{middle - width / 2:.1f}" y="{upper:.1f}" width="{width:.1f}" '
                    f'height="{lower - upper:.1f}" fill="{band.colour}"/>'
                )
                stacked += tokens
        if stacked and every == 1:
            yield text_at(middle, _y(stacked, top) - 5, compact(stacked), anchor="middle", size=11, fill=FAINT)
        yield "</g>"
        # Counted from the newest day, which is the one that people look for.
        if (len(tallies) - 1 - number) % every == 0:
            yield text_at(middle, _PLOT_BOTTOM + 16, day.strftime("%m-%d"), anchor="middle")


def _described(day: date, tally: Tally) -> str:
    parts = ", ".join(f"{band.label} {band.tokens_of(tally):,}" for band in _BANDS)
    estimated = f", {tally.estimated_calls} of {tally.calls} calls estimated" if tally.estimated_calls else ""
    return f"{day.isoformat()}: {parts}{estimated}"


def _y(tokens: int, top: int) -> float:
    return _PLOT_BOTTOM - (_PLOT_BOTTOM - _PLOT_TOP) * tokens / top
