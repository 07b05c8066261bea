"""The numbers of one day, and the file that keeps them. Knows no clock and no running bot.

The format is described in docs/formats/usage.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import orjson

from ishiki.core.messages import Usage
from ishiki.errors import StorageError
from ishiki.jsonvalue import JsonObject, JsonValue, read_int, read_object, read_str
from ishiki.runtime.paths import folder_name

__all__ = [
    "FORMAT",
    "OTHERS",
    "VERSION",
    "ChannelDay",
    "DayUsage",
    "Mark",
    "Tally",
    "read_day",
    "usage_folder",
]

FORMAT = "ishiki.usage"
VERSION = 1

OTHERS = "others"
"""The name under which channels beyond `MAX_CHANNELS` are counted together."""

MAX_CHANNELS = 10_000
"""Channels of one profile and day that are counted apart: 2 MB of memory and of file."""

_FOLDER = "usage"


@dataclass(slots=True)
class Tally:
    """Numbers that add up."""

    turns: int = 0
    """Turns that began, however they ended."""
    calls: int = 0
    """Model calls that were answered, wholly or in part, also those of engines and extensions."""
    estimated_calls: int = 0
    """Those among them whose tokens we estimated, because no usage came."""
    input_tokens: int = 0
    """Cached ones included."""
    output_tokens: int = 0
    """Reasoning included."""
    cached_input_tokens: int = 0
    """The part of `input_tokens` that the provider had cached."""

    @property
    def tokens(self) -> int:
        """Input and output together: what `guards.tokens_per_day` bounds."""
        return self.input_tokens + self.output_tokens

    def add_call(self, usage: Usage) -> None:
        """Count one call."""
        self.calls += 1
        self.estimated_calls += int(usage.is_estimate)
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.cached_input_tokens += usage.cached_input_tokens

    def add(self, other: Tally) -> None:
        """Add `other` to this."""
        self.turns += other.turns
        self.calls += other.calls
        self.estimated_calls += other.estimated_calls
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.cached_input_tokens += other.cached_input_tokens

    def to_json(self) -> dict[str, JsonValue]:
        """Return the file's form."""
        return {
            "turns": self.turns,
            "calls": self.calls,
            "estimatedCalls": self.estimated_calls,
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "cachedInputTokens": self.cached_input_tokens,
        }

    @classmethod
    def from_json(cls, data: JsonObject) -> Tally:
        """Read the file's form; a number that is missing is 0."""
        return cls(
            turns=read_int(data, "turns"),
            calls=read_int(data, "calls"),
            estimated_calls=read_int(data, "estimatedCalls"),
            input_tokens=read_int(data, "inputTokens"),
            output_tokens=read_int(data, "outputTokens"),
            cached_input_tokens=read_int(data, "cachedInputTokens"),
        )


@dataclass(slots=True)
class Mark:
    """What of a channel's log has been counted: where counting goes on after a crash."""

    turn: str = ""
    """The last turn."""
    step: str = ""
    """The last model call of a turn, as `<turn>/<step>`."""
    at: int = 0
    """When the last of both was counted, in epoch milliseconds."""


@dataclass(slots=True)
class ChannelDay:
    """One channel's numbers of one day."""

    tally: Tally = field(default_factory=Tally)
    mark: Mark = field(default_factory=Mark)


@dataclass(slots=True)
class DayUsage:
    """One profile's numbers of one day."""

    profile_id: str
    day: date
    timezone: str = "UTC"
    """The name of the zone whose day it is."""
    channels: dict[str, ChannelDay] = field(default_factory=dict[str, ChannelDay])
    """By `<sid>/<channel>`; channels beyond the bound are counted together as `others`."""

    def channel(self, name: str) -> ChannelDay:
        """Return a channel's numbers, to be added to."""
        found = self.channels.get(name)
        if found is None:
            if len(self.channels) >= MAX_CHANNELS:
                name = OTHERS
            found = self.channels.setdefault(name, ChannelDay())
        return found

    def total(self) -> Tally:
        """Return the sum over the channels."""
        total = Tally()
        for channel in self.channels.values():
            total.add(channel.tally)
        return total

    def to_json(self) -> dict[str, JsonValue]:
        """Return the file's content."""
        channels: dict[str, JsonValue] = {}
        for name, channel in self.channels.items():
            mark = channel.mark
            counted: JsonValue = {"turn": mark.turn, "step": mark.step, "at": mark.at}
            channels[name] = {**channel.tally.to_json(), "counted": counted}
        return {
            "format": FORMAT,
            "version": VERSION,
            "profile": self.profile_id,
            "day": self.day.isoformat(),
            "timezone": self.timezone,
            "channels": channels,
        }


def usage_folder(data: Path, profile_id: str) -> Path:
    """Return where a profile's files lie, one for each day. No account's folder has this name."""
    return data / folder_name(profile_id) / _FOLDER


def read_day(file: Path) -> DayUsage:
    """Return what `file` holds.

    Raises:
        FileNotFoundError: there is none.
        StorageError: `storage_unreadable`, `storage_damaged`, `storage_foreign` (another kind of file) or
            `storage_newer` (of a newer version).
    """
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"cannot be read: {error}", path=file, code="storage_unreadable") from error
    try:
        data: JsonValue = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _damaged(file, f"is no JSON: {error}") from error
    if not isinstance(data, Mapping):
        raise _damaged(file, "holds no JSON object")
    if data.get("format") != FORMAT:
        raise StorageError(f"is no file of the format {FORMAT!r}", path=file, code="storage_foreign")
    version = data.get("version")
    if not isinstance(version, int) or version < 1:
        raise _damaged(file, f"has the version {version!r}, not a whole number from 1 on")
    if version > VERSION:
        problem = f"is of version {version}, and this Ishiki reads up to {VERSION}; install a newer one"
        raise StorageError(problem, path=file, code="storage_newer")
    return _day_of(file, data)


def _day_of(file: Path, data: JsonObject) -> DayUsage:
    try:
        day = date.fromisoformat(read_str(data, "day"))
    except ValueError as error:
        raise _damaged(file, f"has no date under 'day': {error}") from error
    usage = DayUsage(read_str(data, "profile"), day, read_str(data, "timezone", "UTC"))
    for name, numbers in read_object(data, "channels").items():
        if isinstance(numbers, Mapping):
            counted = read_object(numbers, "counted")
            mark = Mark(read_str(counted, "turn"), read_str(counted, "step"), read_int(counted, "at"))
            usage.channels[name] = ChannelDay(Tally.from_json(numbers), mark)
    return usage


def _damaged(file: Path, problem: str) -> StorageError:
    return StorageError(problem, path=file, code="storage_damaged")
