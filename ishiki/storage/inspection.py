"""Reading a whole log as a doctor does: every line, with what is wrong and where.

One pass forwards, and a second one only where an id occurs twice. What is held grows by 8 bytes a line, not with what
the lines say. Changes nothing; `mending` does. Blocks.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from ishiki.core.entries import COMPACT, DELIVERY, EVENT, MESSAGE
from ishiki.jsonvalue import JsonObject, read_array, read_object, read_str
from ishiki.storage.findings import FINDING_KINDS, MAX_SHOWN, Finding, FindingKind, LogReport
from ishiki.storage.format import FORMAT, VERSION, checked_entry, is_header, parse_entry, parse_line
from ishiki.storage.recovery import without_zeros

__all__ = ["BOM", "LogPlace", "RawLine", "bare", "inspect_log", "read_lines"]

BOM = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8, as some editors write it."""

_PADDING = b"\0 \t\r\n"

_MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is no entry; it is skipped in pieces."""

_PROGRESS_LINES = 2_000
"""How often progress is told."""

_PARTS = 64
"""Ids are compared part by part, so that the set that does it stays small."""

_TURN_ENDS = frozenset({"turn.done", "turn.failed", "turn.aborted"})

_MAX_OPEN = 10_000
"""Turns and deliveries that are followed at once; beyond it a log has other troubles."""


def _anywhere(_sid: str, _channel_id: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class LogPlace:
    """What the folders above a log say about it."""

    belongs: Callable[[str, str], bool] = _anywhere
    """Whether the log of an account and channel belongs there."""
    identity: tuple[str, str] | None = None
    """The account and channel, where the folders' names tell them: what a lost header is written from."""


@dataclass(frozen=True, slots=True)
class RawLine:
    """One line as it stands in the file."""

    number: int
    offset: int
    size: int
    raw: bytes
    """With its newline, where it has one; empty where it is too long to be an entry."""


def read_lines(file: BinaryIO, end: int) -> Iterator[RawLine]:
    """Yield the lines from the start of `file` to the offset `end`. A file that shrank meanwhile ends earlier."""
    number, offset = 0, 0
    while offset < end:
        raw = file.readline(min(_MAX_LINE_BYTES, end - offset))
        if not raw:
            return
        number += 1
        size = len(raw)
        if size == _MAX_LINE_BYTES and not raw.endswith(b"\n"):
            while offset + size < end and not raw.endswith(b"\n"):
                raw = file.readline(min(_MAX_LINE_BYTES, end - offset - size))
                if not raw:
                    break
                size += len(raw)
            raw = b""
        yield RawLine(number, offset, size, raw)
        offset += size


def bare(raw: bytes) -> bytes:
    """Return a line without byte order mark, padding and line end; what is left of an entry is the entry."""
    text = raw.strip(_PADDING)
    while text.startswith(BOM):
        text = text.removeprefix(BOM).lstrip(_PADDING)
    return text


def inspect_log(
    path: Path, place: LogPlace | None = None, on_progress: Callable[[int], None] | None = None
) -> LogReport:
    """Read the log at `path` and return what is wrong with it.

    Args:
        path: the log.
        place: what its header is compared with; None: nothing.
        on_progress: told now and then how many bytes are read.
    """
    reading = _Reading(path, place or LogPlace(), on_progress or (lambda _: None))
    try:
        with path.open("rb") as file:
            reading.read(file)
    except OSError as error:
        reading.note("unreadable", None, str(error))
    return reading.report()


@dataclass(slots=True)
class _Ids:
    """Which ids occur more than once, by 64-bit hashes."""

    parts: list[array[int]] = field(default_factory=lambda: [array("Q") for _ in range(_PARTS)])

    def add(self, entry_id: str) -> None:
        hashed = hash(entry_id) & 0xFFFF_FFFF_FFFF_FFFF
        self.parts[hashed % _PARTS].append(hashed)

    def repeated(self) -> set[int]:
        """Return the hashes that were added more than once."""
        found: set[int] = set()
        for part in self.parts:
            if len(set(part)) == len(part):
                continue
            seen: set[int] = set()
            for hashed in part:
                if hashed in seen:
                    found.add(hashed)
                seen.add(hashed)
        return found


@dataclass(slots=True)
class _Reading:
    """The state of one reading."""

    path: Path
    place: LogPlace
    on_progress: Callable[[int], None]
    size: int = 0
    line_count: int = 0
    entry_count: int = 0
    end: int = 0
    hands_off: bool = False  # the header says that nothing here is ours to judge
    copies: set[int] = field(default_factory=set[int])
    found: dict[FindingKind, Finding] = field(default_factory=dict[FindingKind, Finding])
    ids: _Ids = field(default_factory=_Ids)
    has_first: bool = False  # a header or an entry was met
    has_header: bool = False
    batch: RawLine | None = None  # the first line of the batch whose last line has not come yet
    broken: tuple[RawLine, str] | None = None  # torn if nothing follows, broken otherwise
    turns: dict[str, int] = field(default_factory=dict[str, int])  # without an end, with their lines
    said: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])  # deliveries by turn and call

    def note(self, kind: FindingKind, line: int | None, detail: str = "", *, count: int = 1) -> None:
        """Count one more place of `kind`."""
        finding = self.found.setdefault(kind, Finding(kind, detail=detail))
        finding.count += count
        if line is not None and len(finding.lines) < MAX_SHOWN:
            finding.lines.append(line)

    def report(self) -> LogReport:
        """Return what was found."""
        findings = [self.found[kind] for kind in FINDING_KINDS if kind in self.found]
        return LogReport(
            self.path, self.size, self.line_count, self.entry_count, findings, self.end,
            frozenset(self.copies), self.has_header,
        )  # fmt: skip

    def read(self, file: BinaryIO) -> None:
        """Read the whole file."""
        self.size = os.fstat(file.fileno()).st_size
        whole = self.end = without_zeros(file.fileno(), 0, self.size)
        needs_newline = False
        for line in read_lines(file, whole):
            self.line_count = line.number
            if line.number % _PROGRESS_LINES == 0:
                self.on_progress(line.offset)
            self._take(line)
            if self.hands_off:
                return
            needs_newline = not line.raw.endswith(b"\n")
        self._finish(whole, needs_newline=needs_newline)
        repeated = self.ids.repeated()
        if repeated:
            file.seek(0)
            self._find_copies(file, repeated)

    def _take(self, line: RawLine) -> None:
        text = bare(line.raw)
        if not text and line.raw:
            self._note_bytes(line)
            return
        if self.broken is not None:
            self.note("broken line", self.broken[0].number, self.broken[1])
            self.broken = None
        try:
            data = parse_line(text)
            if is_header(data):
                self._note_bytes(line)
                self._take_header(line, data)
                return
            data = checked_entry(data)
        except ValueError as error:
            problem = f"longer than {_MAX_LINE_BYTES} bytes" if not line.raw else str(error)
            self.broken = (line, problem)
            return
        self._note_bytes(line)
        if not self.has_first:
            self.note("no header", None)
            self.has_first = True
        self._take_entry(line, data)

    def _note_bytes(self, line: RawLine) -> None:
        """Note what stands around a line that is otherwise good, or blank."""
        text = bare(line.raw)
        if line.raw == text + b"\n":
            return
        before, _, after = line.raw.partition(text or b"\n")
        if BOM in before:
            self.note("byte order mark", line.number)
        if b"\0" in before or b"\0" in after:
            self.note("NUL bytes", line.number)
        if line.raw.endswith(b"\r\n"):
            self.note("CRLF", line.number)

    def _take_header(self, line: RawLine, header: JsonObject) -> None:
        owner = read_str(header, "sid"), read_str(header, "channelId")
        version = header.get("version")
        if header["format"] != FORMAT:
            self._refuse("foreign header", line, f"its format is {header['format']!r} instead of {FORMAT!r}")
        elif not isinstance(version, int) or version < 1:
            self._refuse("broken header", line, f"its version is {version!r}")
        elif version > VERSION:
            self._refuse("newer version", line, f"it is of version {version}, and this Ishiki reads up to {VERSION}")
        elif not self.place.belongs(*owner):
            self._refuse("foreign header", line, f"it belongs to {owner[1]!r} of {owner[0]!r}")
        elif self.has_first:
            self.note("second header", line.number)
        else:
            self.has_first = self.has_header = True

    def _refuse(self, kind: FindingKind, line: RawLine, detail: str) -> None:
        self.note(kind, line.number, detail)
        self.hands_off = True

    def _take_entry(self, line: RawLine, data: JsonObject) -> None:
        self.entry_count += 1
        if entry_id := read_str(data, "id"):
            self.ids.add(entry_id)
        if data.get("more") is not True:
            self.batch = None
        elif self.batch is None:
            self.batch = line
        turn_id = read_str(data, "turnId")
        if turn_id and data["type"] != COMPACT:
            self._follow(line, turn_id, data)

    def _follow(self, line: RawLine, turn_id: str, entry: JsonObject) -> None:
        """Follow turns to their ends, and deliveries to the batch that tells of them."""
        data = read_object(entry, "data")
        kind = entry["type"]
        if kind == EVENT:
            event = read_str(data, "type")
            if event in _TURN_ENDS:
                self.turns.pop(turn_id, None)
            elif event == "turn.start" and len(self.turns) < _MAX_OPEN:
                self.turns[turn_id] = line.number
        elif kind == DELIVERY:
            call = turn_id, read_str(data, "toolCallId")
            if read_str(data, "state") == "failed":
                self.said.pop(call, None)
            elif len(self.said) < _MAX_OPEN:
                self.said.setdefault(call, line.number)
        elif kind == MESSAGE and self.said and read_str(data, "role") == "assistant":
            for part in read_array(data, "content"):
                if isinstance(part, dict) and read_str(part, "type") == "tool-call":
                    self.said.pop((turn_id, read_str(part, "toolCallId")), None)

    def _finish(self, whole: int, *, needs_newline: bool) -> None:
        if self.size == 0:
            self.note("empty file", None)
        if whole < self.size:
            self.note("NUL bytes", self.line_count + (0 if needs_newline else 1), f"{self.size - whole} at the end")
        if self.broken is not None:
            torn, problem = self.broken
            self.end = torn.offset if self.batch is None else self.batch.offset
            self.note("torn end", torn.number, problem)
        elif self.batch is not None:
            self.end = self.batch.offset
            self.note("unfinished batch", self.batch.number)
        elif needs_newline and whole == self.size:
            self.note("no newline at the end", self.line_count)
        for line in sorted(self.turns.values()):
            self.note("turn without an end", line)
        for line in sorted(self.said.values()):
            self.note("delivery without its batch", line)

    def _find_copies(self, file: BinaryIO, repeated: set[int]) -> None:
        """Tell lines that were copied from entries that only share an id."""
        first: dict[int, tuple[int, int]] = {}  # hash of the id -> line, hash of the text
        for line in read_lines(file, self.end):
            text = bare(line.raw)
            try:
                entry_id = read_str(parse_entry(text), "id")
            except ValueError:
                continue
            hashed = hash(entry_id) & 0xFFFF_FFFF_FFFF_FFFF
            if not entry_id or hashed not in repeated:
                continue
            known = first.setdefault(hashed, (line.number, hash(text)))
            if known[0] == line.number:
                continue
            if known[1] == hash(text):
                self.copies.add(line.offset)
                self.note("repeated line", line.number, f"as line {known[0]}")
            else:
                self.note("repeated id", line.number, f"{entry_id!r} is line {known[0]} too")
