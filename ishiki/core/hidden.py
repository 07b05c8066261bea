"""What requests leave out although it stands in the log: marks, each an entry, and what a later one takes back. Pure.

`ishiki.withheld {ids}`: a model refused to read these; they are shown as `[withheld]`. `ishiki.omitted {before, ids}`:
no request with these was taken; they are not shown at all. Both hold `model`, who refused, and `refusals`, how often.
`ishiki.restored {of}`: the marks of these entries count no longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ishiki.core.entries import COMPACT, OMITTED, RESTORED, WITHHELD, Entry
from ishiki.core.store import all_of
from ishiki.jsonvalue import JsonValue, read_array, read_int, read_str

__all__ = ["Mark", "MarkReader", "marks_of", "shown_entries", "withheld_ids"]

_KINDS: Final = (WITHHELD, OMITTED)


@dataclass(frozen=True, slots=True)
class Mark:
    """One entry that hides others."""

    entry_id: str
    """Its own id."""
    kind: Literal["ishiki.withheld", "ishiki.omitted"]
    ids: tuple[str, ...]
    """Of the entries that it hides."""
    before: str = ""
    """Every message that stands before this entry is hidden too; "" for none."""
    model: str = ""
    """Who refused; "" where that is not known."""
    refusals: int = 1
    """How often a request with them was refused."""
    timestamp: int = 0
    """Epoch milliseconds of the latest refusal."""
    turn_id: str | None = None
    replaces: str = ""
    """The id of the mark that this one stands for; "" for none."""

    def again(self, *, model: str, now_ms: int, turn_id: str) -> Entry:
        """Return the entry that says that it was refused once more; it stands for this mark from then on."""
        data: dict[str, JsonValue] = {
            "ids": list(self.ids),
            "model": model,
            "refusals": self.refusals + 1,
            "replaces": self.entry_id,
        }
        if self.before:
            data["before"] = self.before
        return Entry(self.kind, data, now_ms, turn_id=turn_id)


class MarkReader:
    """Reads the marks of a history piece by piece, in order."""

    def __init__(self) -> None:
        """Start with none."""
        self._marks: dict[str, Mark] = {}

    def read(self, entries: Sequence[Entry]) -> None:
        """Read the next piece."""
        found = [mark for kind in _KINDS for mark in map(_mark, all_of(entries, kind))]
        self._marks.update((mark.entry_id, mark) for mark in found)
        for mark in found:
            self._marks.pop(mark.replaces, None)
        for entry in all_of(entries, RESTORED):
            for entry_id in _texts(read_array(entry.json_data, "of")):
                self._marks.pop(entry_id, None)

    @property
    def marks(self) -> list[Mark]:
        """The marks that count so far."""
        return list(self._marks.values())


def marks_of(entries: Sequence[Entry]) -> list[Mark]:
    """Return the marks of a whole history that count."""
    reader = MarkReader()
    reader.read(entries)
    return reader.marks


def withheld_ids(marks: Iterable[Mark]) -> frozenset[str]:
    """Return the ids of the entries that are shown as withheld."""
    return frozenset[str]().union(*(mark.ids for mark in marks if mark.kind == WITHHELD))


def shown_entries(entries: Sequence[Entry], marks: Iterable[Mark]) -> Sequence[Entry]:
    """Return `entries` without the messages and summaries that are omitted; the same object where none is."""
    omitted = [mark for mark in marks if mark.kind == OMITTED]
    if not omitted:
        return entries
    ids = frozenset[str]().union(*(mark.ids for mark in omitted))
    starts = {mark.before for mark in omitted if mark.before}
    first = max((index for index, entry in enumerate(entries) if entry.id in starts), default=0)
    return [
        entry
        for index, entry in enumerate(entries)
        if not (entry.id in ids or (index < first and (entry.message is not None or entry.type == COMPACT)))
    ]


def _mark(entry: Entry) -> Mark:
    data = entry.json_data
    return Mark(
        entry_id=entry.id,
        kind=OMITTED if entry.type == OMITTED else WITHHELD,
        ids=tuple(_texts(read_array(data, "ids"))),
        before=read_str(data, "before"),
        model=read_str(data, "model"),
        refusals=read_int(data, "refusals", 1),
        timestamp=entry.timestamp,
        turn_id=entry.turn_id,
        replaces=read_str(data, "replaces"),
    )


def _texts(values: Iterable[JsonValue]) -> list[str]:
    return [value for value in values if isinstance(value, str)]
