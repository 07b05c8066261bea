"""Taking the repetition out of a text in which a model went round in circles.

A model that loses itself writes one sentence until its limit cuts it. People repeat themselves too, so little is
touched: six times the same sentence in a row, or ten times the same few words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["collapse_repetition"]

_SHINGLE = 12
"""Characters that are looked for again; two different places of one sentence seldom share as many."""

_FEW = 6
"""Units below this many characters are words rather than sentences, and have to come more often."""

_LEAST_COPIES, _LEAST_COPIES_OF_FEW = 6, 10

_LEAST_UNIT = 3
"""Below this it is laughter, or a rule."""


@dataclass(frozen=True, slots=True)
class _Run:
    """A stretch in which a text repeats itself."""

    start: int
    period: int
    end: int


def collapse_repetition(text: str) -> str:
    """Return `text` with each run of copies as its first one; `text` itself where there is none. Linear in its length.

    What remains of a copy that was cut at the text's end goes too. Laughter (`哈哈哈`, `hahaha`), rules (`-----`) and
    rows of numbers are no repetition: a unit has three characters and a letter at least.
    """
    kept: list[str] = []
    position = 0
    for run in _runs(text):
        unit = text[run.start : run.start + run.period]
        if run.start < position or not any(character.isalpha() for character in unit):
            continue
        kept.append(text[position : run.start + run.period])
        is_last = run.end == len(text)
        position = run.end if is_last else run.end - (run.end - run.start) % run.period
    if not kept:
        return text
    return "".join([*kept, text[position:]])


def _runs(text: str) -> Iterator[_Run]:
    """Yield the runs that are long enough, in order."""
    last_seen: dict[str, int] = {}
    began = period = 0
    stop = len(text) - _SHINGLE + 1
    for index in range(stop + 1):
        distance = 0
        if index < stop:
            shingle = text[index : index + _SHINGLE]
            distance = index - last_seen.get(shingle, index)
            last_seen[shingle] = index
        if distance == period:
            continue
        # Positions `began` to `index` each repeat what stood `period` before them.
        if period:
            run = _Run(began - period, period, index - 1 + _SHINGLE)
            if _is_long(run):
                yield run
        began, period = index, distance


def _is_long(run: _Run) -> bool:
    if run.period < _LEAST_UNIT:
        return False
    least = _LEAST_COPIES_OF_FEW if run.period < _FEW else _LEAST_COPIES
    return run.end - run.start >= least * run.period
