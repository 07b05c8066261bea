"""`Agenda`: which runtimes wait for something, so that they are built in time though nobody speaks there.

One small file for each profile, `data/<profile>/agenda.json`; the format is described in docs/formats/agenda.md. What a
runtime waits for is told by its log. The agenda only has to name every runtime that has a wait: a name too many costs
one look.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import orjson

from ishiki.contracts.events import ChannelRef
from ishiki.core.clock import Clock
from ishiki.errors import StorageError
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_str
from ishiki.runtime.deadlines import Deadlines
from ishiki.runtime.paths import folder_name
from ishiki.storage.data_folder import set_aside
from ishiki.storage.replacing import replace_file
from ishiki.tools.wait import Wait

__all__ = ["AGENDA_NAME", "FORMAT", "VERSION", "Agenda", "Due", "agenda_from_json", "agenda_to_json"]

logger = logging.getLogger(__name__)

AGENDA_NAME = "agenda.json"
FORMAT = "ishiki.agenda"
VERSION = 1

_Waits = dict[ChannelRef, Sequence[Wait]]


@dataclass(frozen=True, slots=True, order=True)
class Due:
    """When a runtime has to be there."""

    left_s: float
    """Seconds from now; zero or fewer where it is due."""
    wait_id: str
    """For which of its waits."""
    nap_s: float = field(default=0.0, compare=False)
    """Seconds until then, or until the clock is to be looked at again."""


@dataclass(slots=True, eq=False)
class _ProfileAgenda:
    file: Path
    waits: _Waits = field(default_factory=dict[ChannelRef, Sequence[Wait]])
    """By the address of the runtime; never empty."""
    is_kept_off: bool = False
    """Whether the file is not ours to replace: a newer version wrote it."""
    is_behind: bool = False
    """Whether the disk has refused what `waits` says."""


@dataclass(slots=True, eq=False)
class Agenda:
    """The waits of all profiles of a process. One owner, the supervisor; runtimes tell it of theirs."""

    data_dir: Path
    clock: Clock
    changed: anyio.Event = field(default_factory=anyio.Event)
    """Set at the next change; then another one takes its place."""
    deadlines: Deadlines = field(init=False)
    """When spans end; also of runtimes that are not in memory."""
    _profiles: dict[str, _ProfileAgenda] = field(default_factory=dict[str, _ProfileAgenda])
    _lock: anyio.Lock = field(default_factory=anyio.Lock)
    """One file is read or written at a time."""

    def __post_init__(self) -> None:
        """Measure spans by the same clock."""
        self.deadlines = Deadlines(self.clock)

    async def open(self, profile_id: str) -> Sequence[ChannelRef]:
        """Read a profile's file where that was not done before, and return the addresses that wait for something."""
        async with self._lock:
            return tuple((await self._opened(profile_id)).waits)

    async def put(self, profile_id: str, address: ChannelRef, waits: Sequence[Wait]) -> None:
        """Note what the runtime at `address` waits for from now on. On return the file says so.

        Raises:
            StorageError: it cannot be written; the process knows it all the same.
        """
        async with self._lock:
            profile = await self._opened(profile_id)
            if list(profile.waits.get(address, ())) == list(waits) and not profile.is_behind:
                return
            self.deadlines.forget({wait.id for wait in profile.waits.get(address, ())} - {wait.id for wait in waits})
            if waits:
                profile.waits[address] = tuple(waits)
            else:
                profile.waits.pop(address, None)
            changed, self.changed = self.changed, anyio.Event()
            changed.set()
            if profile.is_kept_off:
                return
            content = orjson.dumps(agenda_to_json(profile.waits))
            profile.is_behind = True
            try:
                await anyio.to_thread.run_sync(replace_file, profile.file, content)
            except OSError as error:
                problem = f"cannot be written: {error}; free space or mend its permissions"
                raise StorageError(problem, path=profile.file, code="storage_unwritable") from error
            profile.is_behind = False

    def due_times(self) -> Mapping[tuple[str, ChannelRef], Due]:
        """Return when each runtime has to be there next, by profile and address.

        One that waits for messages only is left out: they build it.
        """
        due: dict[tuple[str, ChannelRef], Due] = {}
        for profile_id, profile in self._profiles.items():
            for address, waits in profile.waits.items():
                times = [
                    Due(self.deadlines.left_s(wait), wait.id, self.deadlines.nap_s(wait))
                    for wait in waits
                    if wait.wakes_in_time
                ]
                if times:
                    due[profile_id, address] = min(times)
        return due

    async def _opened(self, profile_id: str) -> _ProfileAgenda:
        found = self._profiles.get(profile_id)
        if found is None:
            file = self.data_dir / folder_name(profile_id) / AGENDA_NAME
            read = partial(_read, file, self.clock.now_ms())
            found = self._profiles[profile_id] = await anyio.to_thread.run_sync(read)
        return found


def agenda_to_json(waits: Mapping[ChannelRef, Sequence[Wait]]) -> dict[str, JsonValue]:
    """Return the content of a file."""
    runtimes: list[JsonValue] = [
        {"sid": address.sid, "channelId": address.channel_id, "waits": [wait.to_data() for wait in pending]}
        for address, pending in waits.items()
    ]
    return {"format": FORMAT, "version": VERSION, "runtimes": runtimes}


def agenda_from_json(data: JsonObject) -> dict[ChannelRef, Sequence[Wait]]:
    """Read the content of a file; what is no wait is left out.

    Raises:
        ValueError: it is no agenda; the text says why.
    """
    if data.get("format") != FORMAT:
        raise ValueError(f"is no file of the format {FORMAT!r}")
    found: dict[ChannelRef, Sequence[Wait]] = {}
    for runtime in read_array(data, "runtimes"):
        if isinstance(runtime, Mapping):
            waits = [Wait.from_data(wait) for wait in read_array(runtime, "waits") if isinstance(wait, Mapping)]
            address = ChannelRef(read_str(runtime, "sid"), read_str(runtime, "channelId"))
            if address.channel_id and waits:
                found[address] = tuple(waits)
    return found


def _read(file: Path, now_ms: int) -> _ProfileAgenda:
    """Return what `file` holds. What cannot be read is set aside, with an error; the logs still tell of their waits."""
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        return _ProfileAgenda(file)
    except OSError as error:
        logger.error("%s: cannot be read: %s; mend its permissions and restart the bot", file, error)  # noqa: TRY400
        return _ProfileAgenda(file, is_kept_off=True)
    try:
        data: JsonValue = orjson.loads(raw)
        if not isinstance(data, Mapping):
            raise ValueError("holds no JSON object")
        version = data.get("version")
        if isinstance(version, int) and version > VERSION:
            logger.error(
                "%s: is of version %d, and this Ishiki reads up to %d; it is left alone, and waits are found when "
                "somebody speaks in their channels. Install a newer Ishiki",
                file, version, VERSION,
            )  # fmt: skip
            return _ProfileAgenda(file, is_kept_off=True)
        return _ProfileAgenda(file, agenda_from_json(data))
    except ValueError as error:
        return _ProfileAgenda(file, is_kept_off=not _put_aside(file, error, now_ms))


def _put_aside(file: Path, problem: ValueError, now_ms: int) -> bool:
    """Keep a file that cannot be read beside the new one; return whether its name is free now."""
    try:
        aside = set_aside(file, now_ms)
    except OSError as error:
        logger.error("%s: %s; waits are not kept there, for it cannot be renamed either: %s", file, problem, error)  # noqa: TRY400
        return False
    logger.error(
        "%s: %s; it is kept as %s. A wait that it named wakes when somebody speaks in its channel",
        file, problem, aside.name,
    )  # fmt: skip
    return True
