"""The numbers of the present day in memory, and on disk at most a second later.

What the last second before a kill counted is found again in the channels' own logs, when they are opened.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import anyio
import anyio.to_thread
import orjson

from ishiki.core.clock import Clock
from ishiki.core.disposer import dispose_once
from ishiki.core.entries import EVENT, Entry, step_key
from ishiki.core.messages import AssistantMessage, Usage
from ishiki.errors import StorageError
from ishiki.jsonvalue import read_str
from ishiki.runtime.usage.tally import DayUsage, Mark, read_day, usage_folder
from ishiki.storage.replacing import replace_file

__all__ = ["ProfileUsage", "UsageBooks"]

logger = logging.getLogger(__name__)

_WRITE_EVERY_S = 1.0
"""At most one write in this time; a first change is written at once."""

_RETRY_S = 30.0
"""How long a disk that refuses is left alone."""

_ERROR_EVERY_S = 3600.0
"""One error an hour: the same disk refuses every time."""

_REACH = 1_000
"""Entries of a log that are looked at for what a kill left uncounted: far more than a second brings."""


@dataclass(slots=True, eq=False)
class _Day:
    """One day's numbers with where they belong."""

    usage: DayUsage
    file: Path
    tokens: int
    """The running sum of `usage.total().tokens`."""
    is_dirty: bool = False
    is_kept_off: bool = False
    """Whether the file may not be written: it holds what we can neither read nor put aside."""


class ProfileUsage:
    """One profile's numbers while the bot runs. Days are those of the profile's time zone."""

    def __init__(
        self, profile_id: str, folder: Path, zone: ZoneInfo, clock: Clock, changed: Callable[[], None]
    ) -> None:
        """Read the present day's file. Blocks; made by `UsageBooks.open`.

        Args:
            profile_id: whose numbers.
            folder: where the files lie.
            zone: whose days they are.
            clock: which day it is.
            changed: called when there is something to write.
        """
        self.profile_id = profile_id
        self.zone = zone
        self._folder = folder
        self._clock = clock
        self._changed = changed
        self._watchers: list[Callable[[], None]] = []
        self._said_on: dict[str, date] = {}
        self._left: list[_Day] = []
        self._day = self._load(self._date(clock.now_ms()))

    @property
    def tokens_today(self) -> int:
        """Tokens of the present day, over all channels, input and output."""
        return self._today().tokens

    @property
    def usage_today(self) -> DayUsage:
        """The present day's numbers; not to be changed."""
        return self._today().usage

    def midnight_ms(self) -> int:
        """Return when the present day ends, in epoch milliseconds."""
        tomorrow = self._today().usage.day + timedelta(days=1)
        return int(datetime.combine(tomorrow, time(), self.zone).timestamp() * 1000)

    def is_first_today(self, what: str) -> bool:
        """Return whether nobody has asked for `what` on this day yet: for things that are said once a day."""
        day = self._today().usage.day
        is_first = self._said_on.get(what) != day
        self._said_on[what] = day
        return is_first

    def watch(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener`, which may not raise, whenever tokens were counted. Returns a disposer."""
        self._watchers.append(listener)
        return dispose_once(lambda: self._watchers.remove(listener))

    def note_call(self, channel: str, usage: Usage, step: str = "") -> None:
        """Count a model call.

        Args:
            channel: `<sid>/<channel>`.
            usage: what it took.
            step: `<turn>/<step>`; "" for a call that belongs to no turn.
        """
        self._count_call(self._today(), channel, usage, step, self._clock.now_ms())

    def note_turn(self, channel: str, turn_id: str) -> None:
        """Count a turn that has begun."""
        self._count_turn(self._today(), channel, turn_id, self._clock.now_ms())

    def note_written(self, channel: str, step: str) -> None:
        """Note that a step is in the log; its calls have been counted, whatever they called themselves."""
        day = self._today()
        mark = day.usage.channel(channel).mark
        if mark.step != step:
            mark.step = step
            self._touch(day)

    def catch_up(self, channel: str, window: Sequence[Entry]) -> None:
        """Count what stands in a channel's log and was not written here before the process was killed.

        Args:
            channel: `<sid>/<channel>`.
            window: the newest entries of its log, oldest first.
        """
        day = self._today()
        found = day.usage.channels.get(channel)
        missed = _missed(window, Mark() if found is None else found.mark)
        for entry in missed:
            if self._date(entry.timestamp) != day.usage.day:
                continue
            message = entry.message
            if isinstance(message, AssistantMessage) and message.usage is not None:
                self._count_call(day, channel, message.usage, _step_of(entry), entry.timestamp)
            elif message is None and entry.turn_id is not None:
                self._count_turn(day, channel, entry.turn_id, entry.timestamp)

    def set_zone(self, zone: ZoneInfo) -> None:
        """Let days be those of `zone` from now on."""
        self.zone = zone
        self._today().usage.timezone = zone.key

    def take_unwritten(self) -> list[_Day]:
        """Return the days that are not on disk as they are, and count them as written."""
        days = [day for day in (*self._left, self._day) if day.is_dirty and not day.is_kept_off]
        self._left.clear()
        for day in days:
            day.is_dirty = False
        return days

    def give_back(self, day: _Day) -> None:
        """Take back a day that could not be written."""
        day.is_dirty = True
        if day is not self._day:
            self._left.append(day)

    def _count_call(self, day: _Day, channel: str, usage: Usage, step: str, at: int) -> None:
        found = day.usage.channel(channel)
        found.tally.add_call(usage)
        found.mark.step = step or found.mark.step
        found.mark.at = max(found.mark.at, at)
        day.tokens += usage.input_tokens + usage.output_tokens
        self._touch(day)
        for watcher in tuple(self._watchers):
            watcher()

    def _count_turn(self, day: _Day, channel: str, turn_id: str, at: int) -> None:
        found = day.usage.channel(channel)
        found.tally.turns += 1
        found.mark.turn = turn_id
        found.mark.at = max(found.mark.at, at)
        self._touch(day)

    def _touch(self, day: _Day) -> None:
        day.is_dirty = True
        self._changed()

    def _date(self, at_ms: int) -> date:
        return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(self.zone).date()

    def _today(self) -> _Day:
        today = self._date(self._clock.now_ms())
        if today != self._day.usage.day:
            if self._day.is_dirty:
                self._left.append(self._day)
                self._changed()
            # At midnight there is no file yet and this only looks; where somebody sets the clock or the time zone,
            # reading one on the spot is what keeps its numbers.
            self._day = self._load(today)
        return self._day

    def _load(self, today: date) -> _Day:
        file = self._folder / f"{today.isoformat()}.json"
        for left in self._left:
            if left.file == file:
                self._left.remove(left)
                return left
        day = _Day(DayUsage(self.profile_id, today, self.zone.key), file, 0)
        try:
            day.usage = read_day(file)
            day.tokens = day.usage.total().tokens
        except FileNotFoundError:
            pass
        except StorageError as error:
            day.is_kept_off = not _put_aside(file, error, self._clock.now_ms())
        return day


def _put_aside(file: Path, problem: StorageError, now_ms: int) -> bool:
    """Keep a file that cannot be read beside the new one; return whether its name is free now."""
    aside = file.with_name(f"{file.name}.unreadable-{now_ms}")
    try:
        file.rename(aside)
    except OSError as error:
        logger.error("%s; today's usage is not kept, for it cannot be renamed either: %s", problem, error)  # noqa: TRY400
        return False
    logger.error("%s; it is kept as %s, and today's usage is counted from 0", problem, aside.name)
    return True


def _missed(window: Sequence[Entry], mark: Mark) -> list[Entry]:
    """Return the entries to be counted that follow `mark`, oldest first: beginnings of turns, and steps."""
    recent: list[Entry] = []
    for position, entry in enumerate(reversed(window)):
        if position >= _REACH or entry.timestamp < mark.at:
            break
        recent.append(entry)
    recent.reverse()
    steps = [(_step_of(entry), entry) for entry in recent]
    turns = [(entry.turn_id or "" if _is_turn_start(entry) else "", entry) for entry in recent]
    return [*_behind(turns, mark.turn, mark.at), *_behind(steps, mark.step, mark.at)]


def _behind(keyed: Sequence[tuple[str, Entry]], counted: str, at: int) -> list[Entry]:
    """Return the entries with a key that follow the one with the key `counted`."""
    found = [(key, entry) for key, entry in keyed if key]
    for position in range(len(found) - 1, -1, -1):
        if found[position][0] == counted:
            return [entry for _, entry in found[position + 1 :]]
    # What was counted last may be in no log, for its step failed. Then the time tells what is newer.
    return [entry for _, entry in found if not counted or entry.timestamp > at]


def _is_turn_start(entry: Entry) -> bool:
    return entry.type == EVENT and read_str(entry.json_data, "type") == "turn.start"


def _step_of(entry: Entry) -> str:
    """Return `<turn>/<step>` of an entry that records a model call; "" for any other."""
    if entry.turn_id is None or entry.step is None or not isinstance(entry.message, AssistantMessage):
        return ""
    return step_key(entry.turn_id, entry.step)


@dataclass(slots=True, eq=False)
class UsageBooks:
    """The numbers of all profiles of a process. One owner: it runs `run`, and calls `aclose` last."""

    data_dir: Path
    clock: Clock
    _profiles: dict[str, ProfileUsage] = field(default_factory=dict[str, ProfileUsage])
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _opening: anyio.Lock = field(default_factory=anyio.Lock)
    _writing: anyio.Lock = field(default_factory=anyio.Lock)
    _complained_at: float | None = None

    async def open(self, profile_id: str, zone: ZoneInfo) -> ProfileUsage:
        """Return a profile's numbers, with days in `zone`; the same object each time."""
        async with self._opening:
            found = self._profiles.get(profile_id)
            if found is None:
                folder = usage_folder(self.data_dir, profile_id)
                make = partial(ProfileUsage, profile_id, folder, zone, self.clock, self._note_change)
                found = self._profiles[profile_id] = await anyio.to_thread.run_sync(make)
            elif found.zone.key != zone.key:
                found.set_zone(zone)
            return found

    async def run(self) -> None:
        """Write what changes, at most once a second. Runs until cancelled; without changes it waits."""
        written_at: float | None = None
        while True:
            await self._changed.wait()
            if written_at is not None:
                await self.clock.sleep(written_at + _WRITE_EVERY_S - self.clock.monotonic())
            written_at = self.clock.monotonic()
            if not await self.flush():
                await self.clock.sleep(_RETRY_S)

    async def flush(self) -> bool:
        """Write what is not on disk, and return whether all of it is there now."""
        async with self._writing:
            self._changed = anyio.Event()
            failed = False
            for profile in tuple(self._profiles.values()):
                for day in profile.take_unwritten():
                    failed = not await self._write(profile, day) or failed
            return not failed

    async def aclose(self) -> None:
        """Write what is not on disk. Not cancellable."""
        with anyio.CancelScope(shield=True):
            await self.flush()

    async def _write(self, profile: ProfileUsage, day: _Day) -> bool:
        content = orjson.dumps(day.usage.to_json())
        try:
            await anyio.to_thread.run_sync(replace_file, day.file, content)
        except OSError as error:
            profile.give_back(day)
            self._note_change()
            self._complain(day.file, error)
            return False
        return True

    def _complain(self, file: Path, error: OSError) -> None:
        now = self.clock.monotonic()
        if self._complained_at is None or now - self._complained_at >= _ERROR_EVERY_S:
            self._complained_at = now
            logger.error("%s: usage cannot be written and is kept in memory meanwhile: %s", file, error)

    def _note_change(self) -> None:
        self._changed.set()
