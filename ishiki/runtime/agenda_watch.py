"""`AgendaWatch`: has every runtime built by the time at which it wants to wake."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio

from ishiki.contracts.events import ChannelRef
from ishiki.core.clock import Clock
from ishiki.runtime.agenda import Agenda, Due

__all__ = ["AgendaWatch"]

_RETRY_S = 60.0
"""Until a runtime that cannot be built is tried again."""

_Key = tuple[str, ChannelRef]


@dataclass(frozen=True, slots=True)
class _Look:
    wait_id: str
    """For which wait."""
    again_at: float | None
    """When it is tried once more, in monotonic seconds; None: it was there, and keeps its time itself."""


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
            self._looks = {
                key: look for key, look in self._looks.items() if key in due and due[key].wait_id == look.wait_id
            }
            left = {key: left_s for key, one in due.items() if (left_s := self._next_look_s(key, one)) is not None}
            ready = [key for key, left_s in left.items() if left_s <= 0]
            if ready:
                async with anyio.create_task_group() as group:
                    for key in ready:
                        group.start_soon(self._look, key, due[key].wait_id)
            else:
                naps = [left_s if key in self._looks else due[key].nap_s for key, left_s in left.items()]
                await self._rest(changed, min(naps, default=None))

    def _next_look_s(self, key: _Key, due: Due) -> float | None:
        look = self._looks.get(key)
        if look is None:
            return due.left_s
        return None if look.again_at is None else look.again_at - self.clock.monotonic()

    async def _look(self, key: _Key, wait_id: str) -> None:
        is_there = await self.build(*key)
        self._looks[key] = _Look(wait_id, None if is_there else self.clock.monotonic() + _RETRY_S)

    async def _rest(self, changed: anyio.Event, seconds: float | None) -> None:
        if seconds is None:
            await changed.wait()
            return
        async with anyio.create_task_group() as group:

            async def nap() -> None:
                await self.clock.sleep(seconds)
                group.cancel_scope.cancel()

            group.start_soon(nap)
            await changed.wait()
            group.cancel_scope.cancel()
