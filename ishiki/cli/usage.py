"""`python -m ishiki usage`: what the minds have cost, as a table, a plot or JSON.

Reads the files that the bot writes, also while it runs; they are at most a second behind.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from ishiki.cli.arguments import UsageArguments
from ishiki.cli.environment import project_environment, project_folder
from ishiki.cli.usage_chart import draw_charts
from ishiki.cli.usage_table import usage_lines
from ishiki.config import Settings
from ishiki.core.clock import Clock, SystemClock
from ishiki.errors import ConfigError, StorageError
from ishiki.jsonvalue import JsonValue
from ishiki.runtime.usage.tally import DayUsage, Tally, read_day, usage_folder
from ishiki.runtime.zone import find_zone

__all__ = ["ProfileReport", "run_usage"]

_DAY_FILE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\.json")


@dataclass(slots=True)
class ProfileReport:
    """One profile's days."""

    profile_id: str
    days: Sequence[date]
    """Every day that was asked for, oldest first."""
    found: dict[date, DayUsage] = field(default_factory=dict[date, DayUsage])
    """Those on which something was counted."""
    newest: date | None = None
    """The newest day that has a file at all."""

    @property
    def timezone(self) -> str:
        """The zone whose days they are, as the newest file has it."""
        return self.found[max(self.found)].timezone if self.found else "UTC"

    def total_of(self, day: date) -> Tally:
        """Return the sum of one day."""
        return self.found[day].total() if day in self.found else Tally()

    def total(self) -> Tally:
        """Return the sum of all days."""
        total = Tally()
        for usage in self.found.values():
            total.add(usage.total())
        return total

    def channels(self) -> dict[str, Tally]:
        """Return the sum of each channel, the dearest first."""
        totals: dict[str, Tally] = {}
        for usage in self.found.values():
            for name, channel in usage.channels.items():
                totals.setdefault(name, Tally()).add(channel.tally)
        return dict(sorted(totals.items(), key=lambda item: (-item[1].tokens, item[0])))


def run_usage(
    arguments: UsageArguments, *, folder: Path, environ: Mapping[str, str], clock: Clock | None = None
) -> int:
    """Print what was used.

    Args:
        arguments: the flags.
        folder: the present folder, for `.env` and the file to draw into.
        environ: the process's variables.
        clock: which day it is; the system's by default.

    Returns:
        The exit status: 0, or 1 where a file cannot be read or written, or there is no such profile.
    """
    problems: list[str] = []
    try:
        settings = Settings.from_mapping(project_environment(folder, environ))
        data = project_folder(folder) / settings.data_dir
        now = datetime.fromtimestamp((clock or SystemClock()).now_ms() / 1000, UTC)
        today = now.astimezone(find_zone(settings.timezone)).date()
        reports = _read_reports(data, arguments, today, problems)
    except (ConfigError, OSError) as fault:
        return _fail([str(fault)])
    if arguments.profile is not None and not reports:
        return _fail([f"no usage of a profile {arguments.profile!r} is kept in {data}", *problems])
    if arguments.is_json:
        print(json.dumps(_as_json(reports), ensure_ascii=False, indent=2))
    else:
        _print_table(reports, data)
    if arguments.svg is not None:
        target = folder / arguments.svg
        try:
            target.write_text(draw_charts(reports), encoding="utf-8")
        except OSError as fault:
            problems.append(f"{target} cannot be written: {fault.strerror or fault}")
    return _fail(problems)


def _fail(problems: Sequence[str]) -> int:
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _print_table(reports: Sequence[ProfileReport], data: Path) -> None:
    for number, report in enumerate(reports):
        if number:
            print()
        for line in usage_lines(report):
            print(line)
    if not reports:
        print(f"no usage is kept in {data} yet; it is counted from the first answer of a model on")


def _read_reports(data: Path, arguments: UsageArguments, today: date, problems: list[str]) -> list[ProfileReport]:
    wanted = arguments.profile
    folders = sorted(data.glob("*/usage")) if wanted is None else [usage_folder(data, wanted)]
    reports: list[ProfileReport] = []
    for folder in folders:
        files = {
            date.fromisoformat(file.stem): file
            for file in (sorted(folder.iterdir()) if folder.is_dir() else ())
            if _DAY_FILE.fullmatch(file.name) and _is_date(file.stem)
        }
        if files:
            reports.append(_read_report(folder.parent.name, files, arguments.days, today, problems))
    return reports


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _read_report(
    name: str, files: Mapping[date, Path], day_count: int, today: date, problems: list[str]
) -> ProfileReport:
    newest = max(files)
    # A profile whose zone lies east of ours may have begun the next day.
    last = max(today, min(newest, today + timedelta(days=1)))
    days = [last - timedelta(days=back) for back in range(day_count - 1, -1, -1)]
    report = ProfileReport(name, days, newest=newest)
    for day in days:
        if day not in files:
            continue
        try:
            report.found[day] = read_day(files[day])
        except (StorageError, FileNotFoundError) as fault:
            problems.append(str(fault))
        else:
            report.profile_id = report.found[day].profile_id or name
    return report


def _as_json(reports: Sequence[ProfileReport]) -> JsonValue:
    profiles: list[JsonValue] = []
    for report in reports:
        days: dict[str, JsonValue] = {}
        for day, usage in sorted(report.found.items()):
            channels: dict[str, JsonValue] = {name: channel.tally.to_json() for name, channel in usage.channels.items()}
            days[day.isoformat()] = {"total": usage.total().to_json(), "channels": channels}
        profiles.append(
            {
                "profile": report.profile_id,
                "from": report.days[0].isoformat(),
                "to": report.days[-1].isoformat(),
                "timezone": report.timezone,
                "total": report.total().to_json(),
                "days": days,
            }
        )
    return {"profiles": profiles}
