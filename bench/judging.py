"""Values, limits and verdicts, and how they are shown. Measures nothing itself."""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ishiki.jsonvalue import JsonValue

__all__ = ["Budget", "Kind", "Limit", "Options", "Result", "judge", "median_ratio", "percentile", "table", "to_json"]

Kind = Literal["ratio", "absolute"]
"""`ratio`: of two things measured in one run, so that it holds on any machine. `absolute`: of a quiet one."""


@dataclass(frozen=True, slots=True)
class Options:
    """How thoroughly to measure."""

    is_quick: bool = False
    """Smaller inputs and fewer repetitions."""
    scale: float = 1.0
    """Share of the inputs that is used, below what `is_quick` leaves; for tests of the benchmarks themselves."""

    def sized(self, full: int, quick: int, *, least: int = 1) -> int:
        """Return how many to take of something: `full`, or `quick` of them, times the scale, at least `least`."""
        return max(least, round((quick if self.is_quick else full) * self.scale))


@dataclass(frozen=True, slots=True)
class Limit:
    """What a value is held against."""

    value: float
    is_least: bool = False
    """The value must not be below the limit; otherwise it must not be above."""
    is_exact: bool = False
    """No slack is given: the value is counted and does not depend on the machine."""

    def allows(self, value: float, slack: float) -> bool:
        """Return whether `value` keeps the limit, widened by the factor `slack`."""
        factor = 1.0 if self.is_exact else slack
        return value >= self.value / factor if self.is_least else value <= self.value * factor


@dataclass(frozen=True, slots=True)
class Result:
    """One measured value."""

    what: str
    value: float
    unit: str
    limit: Limit | None = None
    """None: printed for understanding, never judged."""
    kind: Kind = "absolute"
    note: str = ""
    """How it came about, in a few words."""


@dataclass(frozen=True, slots=True)
class Budget:
    """One promise, and how it is measured."""

    name: str
    """How the command line calls it."""
    measure: Callable[[Options], Awaitable[Sequence[Result]]]
    has_ratio: bool = False
    """Whether one of its results is a ratio."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one result."""

    budget: str
    result: Result
    is_judged: bool
    is_kept: bool

    @property
    def word(self) -> str:
        """How it is printed."""
        if not self.is_judged:
            return "-"
        return "ok" if self.is_kept else "MISSED"


def judge(budget: str, results: Sequence[Result], *, slack: float = 1.0, only_ratios: bool = False) -> list[Verdict]:
    """Return a verdict for each result.

    Args:
        budget: whose results they are.
        results: what was measured.
        slack: the factor by which limits are widened; 1 or more.
        only_ratios: whether results that depend on the machine are left unjudged.
    """
    verdicts: list[Verdict] = []
    for result in results:
        limit = result.limit
        is_judged = limit is not None and (result.kind == "ratio" or not only_ratios)
        is_kept = limit is None or not is_judged or limit.allows(result.value, slack)
        verdicts.append(Verdict(budget, result, is_judged, is_kept))
    return verdicts


def table(verdicts: Sequence[Verdict]) -> str:
    """Return verdicts as lines of one table."""
    rows = [("budget", "what", "value", "limit", "verdict", "note")]
    rows += [
        (one.budget, one.result.what, _shown(one.result), _shown_limit(one.result), one.word, one.result.note)
        for one in verdicts
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths[:-1]), *lines[1:]])


def to_json(verdicts: Sequence[Verdict], *, machine: str, slack: float) -> dict[str, JsonValue]:
    """Return verdicts with the machine as a JSON object."""
    rows: list[JsonValue] = [
        {
            "budget": one.budget,
            "what": one.result.what,
            "value": one.result.value,
            "unit": one.result.unit,
            "kind": one.result.kind,
            "limit": None if one.result.limit is None else one.result.limit.value,
            "isLeast": one.result.limit is not None and one.result.limit.is_least,
            "verdict": one.word,
            "note": one.result.note,
        }
        for one in verdicts
    ]
    return {"format": "ishiki.bench", "version": 1, "machine": machine, "slack": slack, "results": rows}


def median_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the median of ours / theirs over pairs that were measured one right after the other."""
    return statistics.median(ours / theirs for theirs, ours in pairs)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0 to 1) of `values`, at least one, lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _shown(result: Result) -> str:
    return f"{result.value:.3g} {result.unit}".rstrip() if result.value < 1000 else f"{result.value:,.0f} {result.unit}"


def _shown_limit(result: Result) -> str:
    if result.limit is None:
        return ""
    return f"{'>=' if result.limit.is_least else '<='} {result.limit.value:g} {result.unit}".rstrip()
