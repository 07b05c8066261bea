"""An append-only record that can be waited on: what a test's peer or server has seen so far.

Waiting is by event, never by polling. Single event loop; not thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import anyio

__all__ = ["DEFAULT_WITHIN_S", "Journal"]

T = TypeVar("T")
R = TypeVar("R")

DEFAULT_WITHIN_S = 5.0
"""Seconds a wait may take before it is a failure. Our choice: far above a loopback round trip, below a test's limit."""

_SHOWN = 5
"""How many of the newest items a failed wait prints."""


class Journal(Generic[T]):
    """Items in the order they came, and waits for the ones still to come."""

    def __init__(self, noun: str) -> None:
        """Start empty; `noun` (plural) names the items in a failed wait's text."""
        self._noun = noun
        self._items: list[T] = []
        self._grown = anyio.Event()

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._items))

    @property
    def items(self) -> list[T]:
        """A copy of everything so far, oldest first."""
        return list(self._items)

    def add(self, item: T) -> None:
        """Append `item` and wake everyone who waits."""
        self._items.append(item)
        grown, self._grown = self._grown, anyio.Event()
        grown.set()

    async def at_least(self, count: int, *, within: float = DEFAULT_WITHIN_S) -> list[T]:
        """Wait until there are `count` items, earlier ones included.

        Args:
            count: how many.
            within: seconds.

        Returns:
            Everything so far, oldest first; it may be more than `count`.

        Raises:
            TimeoutError: fewer came in time; the text shows the newest.
        """
        return await self._wait(
            lambda: self.items if len(self._items) >= count else None, within, f"{count} {self._noun}"
        )

    async def first(self, matches: Callable[[T], bool], *, since: int = 0, within: float = DEFAULT_WITHIN_S) -> T:
        """Wait for the first item, from position `since` on, that `matches` accepts.

        Raises:
            TimeoutError: none came in time; the text shows the newest.
        """
        position = await self._position(matches, since, within)
        return self._items[position]

    async def before(
        self, matches: Callable[[T], bool], *, since: int = 0, within: float = DEFAULT_WITHIN_S
    ) -> list[T]:
        """Wait for the first item from `since` on that `matches` accepts; return those from `since` on that precede it.

        Raises:
            TimeoutError: none came in time; the text shows the newest.
        """
        position = await self._position(matches, since, within)
        return self._items[since:position]

    async def _position(self, matches: Callable[[T], bool], since: int, within: float) -> int:
        looked_at = since

        def find() -> int | None:
            nonlocal looked_at
            while looked_at < len(self._items):
                looked_at += 1
                if matches(self._items[looked_at - 1]):
                    return looked_at - 1
            return None

        return await self._wait(find, within, f"a match among the {self._noun} from position {since} on")

    async def _wait(self, find: Callable[[], R | None], within: float, wanted: str) -> R:
        with anyio.move_on_after(within):
            while (found := find()) is None:
                await self._grown.wait()
            return found
        newest = "".join(f"\n  {item!r}" for item in self._items[-_SHOWN:]) or " none"
        raise TimeoutError(f"waited {within} s for {wanted}; {len(self._items)} came, the newest:{newest}")
