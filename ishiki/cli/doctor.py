"""`python -m ishiki doctor`: reads a data folder whole, says what is damaged and where, and mends it when asked.

A bot may run while it only looks; for a repair it must have been stopped.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote_to_bytes

from ishiki.cli.arguments import DoctorArguments
from ishiki.cli.environment import project_environment, project_folder
from ishiki.config import Settings
from ishiki.core.clock import SystemClock
from ishiki.errors import ConfigError, StorageError
from ishiki.runtime.address import MAIN
from ishiki.runtime.paths import folder_name
from ishiki.storage.data_folder import DataFiles, find_data_files, json_problem, lock_folder, set_aside
from ishiki.storage.findings import FINDING_KINDS, Finding, LogReport
from ishiki.storage.folder_lock import FolderLock
from ishiki.storage.inspection import LogPlace, inspect_log
from ishiki.storage.mending import mend_log

__all__ = ["run_doctor"]

_DEPTH = 3
"""Folders between the data folder and a log: profile, account, channel."""

_PROGRESS_S = 0.2
"""Between two looks at a progress that a person watches."""

_ERASE_LINE = "\r\x1b[K"


def run_doctor(arguments: DoctorArguments, *, folder: Path, environ: Mapping[str, str]) -> int:
    """Look through the data folder, mend it where that was asked for, and print what was found.

    Args:
        arguments: the flags.
        folder: the present folder, for `.env` and the path that was given.
        environ: the process's variables.

    Returns:
        The exit status: 0 where nothing is damaged (any more), 1 otherwise.
    """
    try:
        data = _data_folder(arguments, folder, environ).resolve()
    except ConfigError as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 1
    if not data.is_dir():
        print(f"error: {data} is no folder; name the data folder of a bot", file=sys.stderr)
        return 1
    root = lock_folder(data)
    lock = FolderLock(root)
    storage_log = logging.getLogger("ishiki.storage")
    storage_log.addHandler(logging.NullHandler())  # what it warns of is printed here in its place
    try:
        if arguments.repair:
            lock.acquire()
        elif lock.is_held:
            print("note: a bot runs on this folder; what it writes at this moment may look torn")
        return _Doctor(data, root, is_repairing=arguments.repair).run()
    except StorageError as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 1
    except OSError as fault:
        print(f"error: {data} cannot be read: {fault}", file=sys.stderr)
        return 1
    finally:
        lock.release()


def _data_folder(arguments: DoctorArguments, folder: Path, environ: Mapping[str, str]) -> Path:
    if arguments.data is not None:
        return folder / arguments.data
    return project_folder(folder) / Settings.from_mapping(project_environment(folder, environ)).data_dir


@dataclass(slots=True)
class _Doctor:
    """One round through a data folder."""

    data: Path
    """What is looked through."""
    root: Path
    """The bot's data folder, of which that may be a part."""
    is_repairing: bool
    log_count: int = 0
    line_count: int = 0
    damaged: int = 0
    mended: int = 0
    unmended: int = 0
    kinds: Counter[str] = field(default_factory=Counter[str])
    files_by_kind: Counter[str] = field(default_factory=Counter[str])
    cut_count: int = 0
    cut_bytes: int = 0

    def run(self) -> int:
        print(f"{self.data}")
        for files in find_data_files(self.data):
            self._look_at(files)
        self._summarise()
        return 1 if self.unmended else 0

    def _look_at(self, files: DataFiles) -> None:
        for log in files.logs:
            self._look_at_log(log)
        for cut in files.cuts:
            self.cut_count += 1
            self.cut_bytes += cut.stat().st_size
        for leftover in files.leftovers:
            self._look_at_leftover(leftover)
        for sidecar in files.sidecars:
            self._look_at_sidecar(sidecar)

    def _look_at_log(self, log: Path) -> None:
        place = _place_of(log, self.root)
        name = self._name(log)
        with _progress(name, log) as on_progress:
            report = inspect_log(log, place, on_progress)
        self.log_count += 1
        self.line_count += report.line_count
        if not report.findings:
            return
        print(f"\n{name}: {report.line_count:,} lines, {'damaged' if report.is_damaged else 'sound'}")
        for line in _rows(report, is_repairing=self.is_repairing):
            print(f"  {line}")
        for finding in report.findings:
            self.kinds[finding.kind] += finding.count
            self.files_by_kind[finding.kind] += 1
        if report.is_damaged:
            self.damaged += 1
            if not (self.is_repairing and report.is_mendable and self._mend(report, place)):
                self.unmended += 1

    def _mend(self, report: LogReport, place: LogPlace) -> bool:
        """Mend a log; return whether it is sound now."""
        try:
            kept = mend_log(report, place, SystemClock().now_ms())
        except StorageError as fault:
            print(f"  NOT MENDED: {fault}")
            return False
        again = inspect_log(report.path, place)
        print(
            f"  mended: {again.line_count:,} lines; the removed {kept.stat().st_size:,} bytes are kept in {kept.name}"
        )
        if again.is_damaged:
            for row in _rows(again, is_repairing=False):
                print(f"  still there: {row}")
            return False
        self.mended += 1
        return True

    def _look_at_leftover(self, leftover: Path) -> None:
        print(f"\n{self._name(leftover)}: an unfinished repair; the log itself is as it was before")
        if self.is_repairing:
            leftover.unlink()
            print("  removed: it is a copy")

    def _look_at_sidecar(self, sidecar: Path) -> None:
        problem = json_problem(sidecar)
        if problem is None:
            return
        self.damaged += 1
        self.kinds["unreadable sidecar"] += 1
        self.files_by_kind["unreadable sidecar"] += 1
        print(f"\n{self._name(sidecar)}: damaged, {problem}")
        if not self.is_repairing:
            print("  --repair sets it aside; the bot makes a new one")
            self.unmended += 1
            return
        try:
            target = set_aside(sidecar, SystemClock().now_ms())
        except OSError as fault:
            print(f"  NOT MENDED: {fault}")
            self.unmended += 1
        else:
            print(f"  mended: it is {target.name} now; the bot makes a new one")
            self.mended += 1

    def _summarise(self) -> None:
        print()
        if self.kinds:
            width = max(len(kind) for kind in self.kinds)
            print(f"{'what':<{width}}  {'files':>7}  {'places':>9}")
            for kind in [*FINDING_KINDS, "unreadable sidecar"]:
                if self.kinds[kind]:
                    print(f"{kind:<{width}}  {self.files_by_kind[kind]:>7,}  {self.kinds[kind]:>9,}")
            print()
        if self.cut_count:
            print(f"{self.cut_bytes:,} bytes that were removed earlier are kept in {_many(self.cut_count, 'file')}")
        print(
            f"{_many(self.log_count, 'log')}, {_many(self.line_count, 'line')}, {_many(self.damaged, 'file')} damaged"
        )
        if self.is_repairing and self.damaged:
            print(f"{self.mended:,} mended, {self.unmended:,} left for a person")
        elif self.unmended:
            print("stop the bot and run this with --repair to mend what can be mended; removed bytes are kept")

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.data))


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _rows(report: LogReport, *, is_repairing: bool) -> Iterator[str]:
    """Yield what a person reads of each finding."""
    for finding in report.findings:
        detail = f": {finding.detail}" if finding.detail else ""
        yield f"{finding.kind}{_places(finding)}{detail}"
        if finding.remedy == "none":
            yield f"    no damage: {finding.advice}"
        elif finding.remedy == "person":
            yield f"    for a person: {finding.advice}"
        elif not is_repairing:
            how = finding.advice if report.is_mendable else "not touched, for what stands above"
            yield f"    --repair: {how}"


def _places(finding: Finding) -> str:
    if not finding.lines:
        return ""
    more = finding.count - len(finding.lines)
    numbers = ", ".join(f"{line:,}" for line in finding.lines)
    return f", line{'' if finding.count == 1 else 's'} {numbers}{f' and {more:,} more' if more > 0 else ''}"


def _place_of(log: Path, data: Path) -> LogPlace:
    """Return what the folders' names say about a log in the usual place; nothing about one elsewhere."""
    above = log.parent.relative_to(data).parts
    if above[1:] == (MAIN.channel_id,):
        main = MAIN.sid, MAIN.channel_id
        return LogPlace(lambda sid, channel_id: (sid, channel_id) == main, main)
    if len(above) != _DEPTH:
        return LogPlace()
    account, channel = above[-2:]
    identity = _unquoted(account), _unquoted(channel)

    def belongs(sid: str, channel_id: str) -> bool:
        return (folder_name(sid), folder_name(channel_id)) == (account, channel)

    return LogPlace(belongs, identity if belongs(*identity) else None)


def _unquoted(name: str) -> str:
    return unquote_to_bytes(name).decode("utf-8", "replace")


@contextmanager
def _progress(name: str, log: Path) -> Generator[Callable[[int], None]]:
    """Give what shows, on a terminal, how far the reading of one file is; and wipe it away at the end."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    size = log.stat().st_size
    shown_at = time.monotonic()

    def show(position: int) -> None:
        nonlocal shown_at
        if time.monotonic() - shown_at >= _PROGRESS_S:
            shown_at = time.monotonic()
            print(f"{_ERASE_LINE}{name}: {position / size:.0%}", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        print(_ERASE_LINE, end="", file=sys.stderr, flush=True)
