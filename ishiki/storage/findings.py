"""What can be wrong with a log, and what is done about it: the vocabulary of `inspection` and `mending`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

__all__ = ["FINDING_KINDS", "MAX_SHOWN", "Finding", "FindingKind", "LogReport", "Remedy"]

Remedy: TypeAlias = Literal["mend", "person", "none"]
"""`mend`: a repair does it. `person`: damage that nobody else can judge. `none`: no damage, only worth knowing."""

FindingKind: TypeAlias = Literal[
    "unreadable",
    "newer version",
    "foreign header",
    "broken header",
    "broken line",
    "second header",
    "repeated line",
    "repeated id",
    "NUL bytes",
    "byte order mark",
    "CRLF",
    "torn end",
    "unfinished batch",
    "empty file",
    "no header",
    "no newline at the end",
    "turn without an end",
    "delivery without its batch",
]

FINDING_KINDS: dict[FindingKind, tuple[Remedy, str]] = {
    "unreadable": ("person", "mend its permissions or the disk"),
    "newer version": ("person", "install a newer Ishiki; nothing is touched"),
    "foreign header": ("person", "put the file back where it was; nothing is touched"),
    "broken header": ("person", "mend the first line by hand; nothing is touched"),
    "broken line": ("mend", "taken out"),
    "second header": ("mend", "taken out"),
    "repeated line": ("mend", "the copy is taken out"),
    "repeated id": ("person", "two entries have one id; look which one is right"),
    "NUL bytes": ("mend", "taken out"),
    "byte order mark": ("mend", "taken out"),
    "CRLF": ("mend", "made line feeds"),
    "torn end": ("mend", "cut off, with the batch it belongs to"),
    "unfinished batch": ("mend", "cut off"),
    "empty file": ("none", "counts as a new log"),
    "no header": ("none", "a log of version 0, as the original writes it; read as it is"),
    "no newline at the end": ("none", "the next append writes it first"),
    "turn without an end": ("none", "the process ended in it; the newest one is ended by the next start"),
    "delivery without its batch": ("none", "a message was sent and its step never recorded; the next start tells it"),
}
"""Each kind with who deals with it, and how."""

MAX_SHOWN = 10
"""Lines that a finding names; the rest is counted."""


@dataclass(slots=True)
class Finding:
    """All places of one kind in one file."""

    kind: FindingKind
    count: int = 0
    lines: list[int] = field(default_factory=list[int])
    """The 1-based numbers of the first ones, at most `MAX_SHOWN`, in order."""
    detail: str = ""
    """What the first one looks like."""

    @property
    def remedy(self) -> Remedy:
        """Who deals with it."""
        return FINDING_KINDS[self.kind][0]

    @property
    def advice(self) -> str:
        """What is done about it, or what to do."""
        return FINDING_KINDS[self.kind][1]


@dataclass(frozen=True, slots=True)
class LogReport:
    """What reading one log found."""

    path: Path
    size: int
    """Bytes."""
    line_count: int
    entry_count: int
    findings: Sequence[Finding]
    """One per kind, in the order of `FINDING_KINDS`."""
    end: int
    """The offset behind the last whole batch; what follows is cut off by a repair."""
    copies: frozenset[int] = frozenset()
    """The offsets of lines that repeat an earlier one byte for byte."""
    has_header: bool = False
    """Whether a header of ours stands before every entry."""

    @property
    def is_damaged(self) -> bool:
        """Whether anything is wrong."""
        return any(finding.remedy != "none" for finding in self.findings)

    @property
    def is_mendable(self) -> bool:
        """Whether a repair would change the file: there is something to mend, and nothing says hands off."""
        hands_off = {"unreadable", "newer version", "foreign header", "broken header"}
        return all(finding.kind not in hands_off for finding in self.findings) and any(
            finding.remedy == "mend" for finding in self.findings
        )
