"""`AgendaWatch`: has every runtime built by the time at which it wants to wake."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio

from ishiki.contracts.events import ChannelRef
from ishiki.core.clock import Clock
from ishiki.runtime.agenda import Agenda

__all__ = ["AgendaWatch"]

_RETRY_MS = 60_000
"""Until a runtime that cannot be built is tried again."""

_LONGEST_NAP_S = 3_600.0
"""The clock of the day may be set while we wait, so the time left is computed anew at least this often."""

_Key = tuple[str, ChannelRef]


@dataclass(frozen=True, slots=True)
class _Look:
    due_ms: int
    again_ms: int | None
    """When it is tried once more; None: it was there, and keeps its time itself."""


@dataclass(slots=True)
class AgendaWatch:
    """Looks at the agenda when something in it is due."""

    agenda: Agenda
    clock: Clock
    build: Callable[[str, ChannelRef], Awaitable[bool]]
    """Builds the runtime of a profile at an address where it is not there; False: it cannot be now. Raises nothing."""
    _looks: dict[_Key, _Look] = field(default_factory=dict[_Key, _Look])

    async def run(self) -> None:
        """Watch until cancelled. While nobody waits for a time, this does nothing."""
        while True:
            changed = self.agenda.changed
            due = self.agenda.due_times()
            self._looks = {key: look for key, look in self._looks.items() if due.get(key) == look.due_ms}
            times = {key: at_ms for key, due_ms in due.items() if (at_ms := self._next_look(key, due_ms)) is not None}
            now_ms = self.clock.now_ms()
            ready = [key for key, at_ms in times.items() if at_ms <= now_ms]
            if ready:
                async with anyio.create_task_group() as group:
                    for key in ready:
                        group.start_soon(self._look, key, due[key])
            else:
                await self._rest(changed, min(times.values(), default=None), now_ms)

    def _next_look(self, key: _Key, due_ms: int) -> int | None:
        look = self._looks.get(key)
        return due_ms if look is None else look.again_ms

    async def _look(self, key: _Key, due_ms: int) -> None:
        is_there = await self.build(*key)
        self._looks[key] = _Look(due_ms, None if is_there else self.clock.now_ms() + _RETRY_MS)

    async def _rest(self, changed: anyio.Event, until_ms: int | None, now_ms: int) -> None:
        if until_ms is None:
            await changed.wait()
            return
        async with anyio.create_task_group() as group:

            async def nap() -> None:
                await self.clock.sleep(min((until_ms - now_ms) / 1000, _LONGEST_NAP_S))
                group.cancel_scope.cancel()

            group.start_soon(nap)
            await changed.wait()
            group.cancel_scope.cancel()
