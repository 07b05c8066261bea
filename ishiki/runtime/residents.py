"""`Residents`: the runtimes in memory. Builds each once, also under concurrent first messages; evicts idle ones."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import anyio
from anyio.abc import TaskGroup

from ishiki.contracts.events import ChannelRef
from ishiki.contracts.host import ChannelDomain
from ishiki.runtime.active_profile import ActiveProfile
from ishiki.runtime.agent_runtime import ChannelRuntime
from ishiki.runtime.kit import RuntimeKit
from ishiki.runtime.paths import runtime_home

__all__ = ["Residents"]

logger = logging.getLogger(__name__)

_HANDOVER_S = 60.0
"""How long a runtime may finish its turn before an edited profile replaces it. Source: design, hand-over."""


@dataclass(slots=True, eq=False)
class _Place:
    """One channel's place: empty, building, taken, or being left. The lock makes these exclusive."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    runtime: ChannelRuntime | None = None


class Residents:
    """Runtimes by profile and channel."""

    def __init__(self, kit: RuntimeKit, group: TaskGroup) -> None:
        """Build from `kit`, serve in `group`."""
        self._kit = kit
        self._group = group
        self._places: dict[tuple[str, ChannelRef], _Place] = {}

    def __len__(self) -> int:
        """Return how many runtimes are in memory."""
        return sum(place.runtime is not None for place in self._places.values())

    def all(self) -> list[ChannelRuntime]:
        """Return the runtimes in memory."""
        return [place.runtime for place in self._places.values() if place.runtime is not None]

    def find(self, profile_id: str, channel: ChannelRef) -> ChannelRuntime | None:
        """Return the runtime of a channel if it is in memory."""
        place = self._places.get((profile_id, channel))
        return None if place is None else place.runtime

    async def get(self, active: ActiveProfile, channel: ChannelRef) -> ChannelRuntime:
        """Return the runtime of a channel under `active`, built now where it is not in memory.

        A runtime of an earlier form of the profile hands over first: it closes when it is idle, at most after 60 s, and
        what wake was pending moves over.

        Raises:
            StorageError: the log cannot be opened.
            Exception: what an engine or extension raised.
        """
        place = self._places.setdefault((active.id, channel), _Place())
        async with place.lock:
            runtime = place.runtime
            if runtime is not None and runtime.active is active and not runtime.stopped:
                return runtime
            pending: tuple[str | None] | None = None
            if runtime is not None:
                pending = None if runtime.stopped else await self._hand_over(runtime)
                place.runtime = None
            built = await self._build(active, channel)
            place.runtime = built
            if pending is not None:
                built.agent.continue_(pending[0])
            return built

    async def evict(self, runtime: ChannelRuntime, *, grace_s: float = 0.0) -> None:
        """Close `runtime` and forget it."""
        key = next((key for key, place in self._places.items() if place.runtime is runtime), None)
        if key is None:
            return
        place = self._places[key]
        async with place.lock:
            if place.runtime is not runtime:
                return
            runtime.close(grace_s=grace_s)
            await runtime.wait_closed()
            place.runtime = None
        # Nobody waits for the lock of a place that is gone from the table only if nobody did just now.
        if place.runtime is None and not place.lock.statistics().tasks_waiting:
            self._places.pop(key, None)

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
        for runtime in leaving:
            if runtime.can_leave:
                logger.debug("%s leaves memory", runtime.id)
                await self.evict(runtime)

    async def close_all(self, *, grace_s: float) -> None:
        """Close every runtime; all have the same `grace_s` seconds for their turns."""
        runtimes = self.all()
        for runtime in runtimes:
            runtime.close(grace_s=grace_s)
        for runtime in runtimes:
            await runtime.wait_closed()
        self._places.clear()

    async def _hand_over(self, runtime: ChannelRuntime) -> tuple[str | None] | None:
        with anyio.move_on_after(_HANDOVER_S):
            await runtime.agent.wait()
        pending = runtime.agent.take_pending_wake()
        runtime.close(grace_s=0.0)
        await runtime.wait_closed()
        return pending

    async def _build(self, active: ActiveProfile, channel: ChannelRef) -> ChannelRuntime:
        if len(self) >= self._kit.settings.max_resident_runtimes:
            await self.make_room()
        home = runtime_home(self._kit.data_dir, active.id, channel.sid, channel.channel_id)
        runtime = ChannelRuntime(active, ChannelDomain(channel), home, self._kit)
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
