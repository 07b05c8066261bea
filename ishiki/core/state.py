"""`AgentState`: a small versioned JSON object that an agent keeps over restarts.

Every change is an entry of type `state` with the whole object: written first, then taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import anyio

from ishiki.core.clock import Clock
from ishiki.core.entries import STATE, Entry
from ishiki.core.journal import Receipt
from ishiki.core.store import newest_of
from ishiki.jsonvalue import JsonObject

__all__ = ["AgentState"]


class AgentState:
    """Read it with `get`; change it with `set` or `update`. Changes are taken one after another."""

    def __init__(self, entries: Sequence[Entry], submit: Callable[[Sequence[Entry]], Receipt], clock: Clock) -> None:
        """Restore the newest state in a store's window `entries`; without one it is `{"version": 1}`.

        Changes are written by `submit`.
        """
        newest = newest_of(entries, STATE)
        self._value: JsonObject = {"version": 1} if newest is None else newest.json_data
        self._submit = submit
        self._clock = clock
        self._lock = anyio.Lock()
        self._last: Receipt | None = None

    def get(self) -> JsonObject:
        """Return the state; not to be changed."""
        return self._value

    async def set(self, value: JsonObject | Callable[[JsonObject], JsonObject]) -> None:
        """Replace the state by `value`, or by what it makes of the present one.

        A caller that is cancelled may find it changed, but never other than the log has it.

        Raises:
            StorageError: the state is unchanged.
            ValueError: as before, because the value is no JSON.
        """
        async with self._lock:
            if self._last is not None:
                await self._last.finished()  # the change of a caller who was cancelled may still be under way
            changed = value(self._value) if callable(value) else value
            self._last = self._submit([Entry(STATE, dict(changed), self._clock.now_ms())])
            self._last.on_written(partial(self.restore, changed))
            await self._last.wait()

    async def update(self, partial: JsonObject) -> None:
        """Merge `partial` into the state's top level."""
        await self.set(lambda present: {**present, **partial})

    def restore(self, value: JsonObject) -> None:
        """Take `value` as it is, without an entry: it comes from a checkpoint."""
        self._value = value
