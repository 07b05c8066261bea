"""`Residents`: the runtimes in memory. Builds each once, also under concurrent first messages; evicts idle ones."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import anyio
from anyio.abc import TaskGroup

from ishiki.contracts.events import ChannelRef
from ishiki.errors import AgentStoppedError
from ishiki.runtime.active_profile import ActiveProfile
from ishiki.runtime.agent_runtime import ChannelRuntime
from ishiki.runtime.kit import RuntimeKit, SupervisorParts
from ishiki.runtime.paths import runtime_home

__all__ = ["Residents"]

logger = logging.getLogger(__name__)

_HANDOVER_S = 60.0
"""How long a runtime may finish its turn before an edited profile replaces it. Source: design, hand-over."""


@dataclass(slots=True, eq=False)
class _Place:
    """The place of one address: empty, building, taken, or being left. The lock makes these exclusive."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    runtime: ChannelRuntime | None = None


class Residents:
    """Runtimes by profile and address: a channel, or in cross mode `MAIN`."""

    def __init__(self, kit: RuntimeKit, group: TaskGroup, parts: SupervisorParts) -> None:
        """Build from `kit` and `parts`, serve in `group`."""
        self._kit = kit
        self._parts = parts
        self._group = group
        self._places: dict[tuple[str, ChannelRef], _Place] = {}
        self._is_closed = False

    def __len__(self) -> int:
        """Return how many runtimes are in memory."""
        return sum(place.runtime is not None for place in self._places.values())

    def all(self) -> list[ChannelRuntime]:
        """Return the runtimes in memory."""
        return [place.runtime for place in self._places.values() if place.runtime is not None]

    def find(self, profile_id: str, address: ChannelRef) -> ChannelRuntime | None:
        """Return the runtime at an address if it is in memory."""
        place = self._places.get((profile_id, address))
        return None if place is None else place.runtime

    def ready(self, active: ActiveProfile, address: ChannelRef) -> ChannelRuntime | None:
        """Return what `get` would return without waiting, or None where it would have to wait."""
        place = self._places.get((active.id, address))
        if self._is_closed or place is None or place.lock.locked():
            return None
        return _usable(place.runtime, active)

    async def get(self, active: ActiveProfile, address: ChannelRef) -> ChannelRuntime:
        """Return the runtime at an address under `active`, built now where it is not in memory.

        A runtime of an earlier form of the profile is replaced where it is idle; a busy one is returned, so that what
        is said meanwhile joins its turn, and `hand_over` replaces it.

        Raises:
            AgentStoppedError: all runtimes are being closed.
            StorageError: the log cannot be opened.
            Exception: what an engine or extension raised.
        """
        self._refuse_when_closed()
        place = self._places.setdefault((active.id, address), _Place())
        async with place.lock:
            self._refuse_when_closed()
            return _usable(place.runtime, active) or await self._replace(place, active, address)

    async def hand_over(self, runtime: ChannelRuntime, find_active: Callable[[], ActiveProfile | None]) -> None:
        """Replace `runtime`, of an earlier form of its profile, when it is idle, at most after 60 s.

        What wake is pending then moves over.

        Args:
            runtime: the one that leaves.
            find_active: returns the profile as it is by then.

        Raises:
            StorageError: the log cannot be opened.
            Exception: what an engine or extension raised.
        """
        if not runtime.stopped:
            with anyio.move_on_after(_HANDOVER_S):
                await runtime.wait_quiet()
        for (_, address), place in tuple(self._places.items()):
            if place.runtime is not runtime:
                continue
            async with place.lock:
                active = find_active()
                if place.runtime is runtime and active is not None and active is not runtime.active:
                    await self._replace(place, active, address)

    async def evict(self, runtime: ChannelRuntime, *, grace_s: float = 0.0) -> None:
        """Close `runtime` and forget it."""
        for key, place in tuple(self._places.items()):
            if place.runtime is runtime:
                await self._vacate(key, place, runtime, grace_s=grace_s)

    @asynccontextmanager
    async def vacated(self, profile_id: str, address: ChannelRef, *, grace_s: float) -> AsyncGenerator[None]:
        """Close whatever runtime an address has, also one that is being built, and leave its log to the body."""
        key = (profile_id, address)
        place = self._places.setdefault(key, _Place())
        try:
            async with place.lock:
                if (found := place.runtime) is not None:
                    found.close(grace_s=grace_s)
                    await found.wait_closed()
                    place.runtime = None
                yield
        finally:
            self._drop_unused(key, place)

    async def make_room(self, *, idle_s: float | None = None) -> None:
        """Evict what has been idle for its profile's `idle_minutes`, and the longest unused beyond the bound."""
        now = self._kit.clock.monotonic()
        leaving = [
            runtime
            for runtime in self.all()
            if runtime.can_leave and now - runtime.used_at >= _idle_limit_s(runtime, idle_s)
        ]
        excess = len(self) - len(leaving) - self._kit.settings.max_resident_runtimes
        if excess > 0:
            staying = [runtime for runtime in self.all() if runtime.can_leave and runtime not in leaving]
            leaving.extend(sorted(staying, key=lambda runtime: runtime.used_at)[:excess])
        for key, place in tuple(self._places.items()):
            # Whoever holds a place's lock may be waiting for room himself.
            if (place.runtime is None or place.runtime in leaving) and not place.lock.locked():
                await self._vacate(key, place, place.runtime, grace_s=0.0, only_idle=True)

    async def close_all(self, *, grace_s: float) -> None:
        """Close every runtime; all have the same `grace_s` seconds for their turns."""
        self._is_closed = True
        for runtime in self.all():
            runtime.close(grace_s=grace_s)
        for key, place in tuple(self._places.items()):
            await self._vacate(key, place, None, grace_s=grace_s)

    def _refuse_when_closed(self) -> None:
        if self._is_closed:
            raise AgentStoppedError("the runtimes are being closed")

    async def _vacate(
        self,
        key: tuple[str, ChannelRef],
        place: _Place,
        runtime: ChannelRuntime | None,
        *,
        grace_s: float,
        only_idle: bool = False,
    ) -> None:
        """Close the runtime in `place`, or only `runtime` where it is given, and drop the place when nobody needs it.

        With `only_idle`, one that has been given something to do in the meantime stays.
        """
        async with place.lock:
            found = place.runtime
            if found is not None and runtime in (None, found) and (found.can_leave or not only_idle):
                logger.debug("%s leaves memory", found.id)
                found.close(grace_s=grace_s)
                await found.wait_closed()
                place.runtime = None
        self._drop_unused(key, place)

    def _drop_unused(self, key: tuple[str, ChannelRef], place: _Place) -> None:
        # A lock that is passed on has an owner and perhaps nobody waiting; such a place is about to be taken.
        if place.runtime is None and not place.lock.locked() and self._places.get(key) is place:
            del self._places[key]

    async def _replace(self, place: _Place, active: ActiveProfile, address: ChannelRef) -> ChannelRuntime:
        """Build a runtime in `place`, whose lock is held. What it held is closed, and its pending wake moves over."""
        pending: tuple[str | None] | None = None
        if (old := place.runtime) is not None:
            old.close(grace_s=0.0)
            await old.wait_closed()
            pending = old.owed_wake
            place.runtime = None
        built = await self._build(active, address, pending)
        place.runtime = built
        return built

    async def _build(
        self, active: ActiveProfile, address: ChannelRef, owed: tuple[str | None] | None
    ) -> ChannelRuntime:
        if len(self) >= self._kit.settings.max_resident_runtimes:
            await self.make_room()
        home = runtime_home(self._kit.data_dir, active.id, address.sid, address.channel_id)
        runtime = ChannelRuntime(active, address, home, self._kit, self._parts, owed=owed)
        started = anyio.Event()
        failure: list[Exception] = []

        async def serve() -> None:
            # The wall round one runtime: whatever happens inside ends it alone.
            try:
                async with anyio.create_task_group() as own:
                    await own.start(runtime.serve)
                    started.set()
            except Exception as error:
                failure.append(error)
                if started.is_set():
                    logger.exception("%s ended by an unexpected error; the next message builds it anew", runtime.id)
            finally:
                started.set()

        self._group.start_soon(serve, name=runtime.id)
        await started.wait()
        if failure:
            raise _plain(failure[0])
        return runtime


def _usable(runtime: ChannelRuntime | None, active: ActiveProfile) -> ChannelRuntime | None:
    """Return `runtime` where it may take a fact under `active`."""
    if runtime is None or runtime.stopped:
        return None
    return runtime if runtime.active is active or not runtime.is_idle() else None


def _idle_limit_s(runtime: ChannelRuntime, idle_s: float | None) -> float:
    return runtime.active.profile.config.limits.idle_minutes * 60 if idle_s is None else idle_s


def _plain(error: Exception) -> Exception:
    """Unwrap the groups that task groups put round a single error."""
    plain = error
    while isinstance(plain, ExceptionGroup):
        inner: Sequence[Exception] = cast("ExceptionGroup[Exception]", plain).exceptions
        if len(inner) != 1:
            return error
        plain = inner[0]
    return plain
