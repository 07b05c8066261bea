"""How many model calls may be in flight at once, and who is next.

Owners (one per channel) take turns: a channel with ten calls waiting delays another channel by one call, not by ten.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import TracebackType

import anyio

from ishiki.core.clock import Clock

__all__ = ["DEFAULT_MAX_CALLS", "CallLimiter"]

logger = logging.getLogger(__name__)

DEFAULT_MAX_CALLS = 16
"""Design, process settings: ISHIKI_MAX_MODEL_CALLS."""

_NOTABLE_WAIT_S = 5.0
"""Design: a call that waits this long is logged; below it, waiting is ordinary."""


@dataclass(slots=True, eq=False)
class _Ticket:
    owner: str
    granted: anyio.Event = field(default_factory=anyio.Event)
    is_granted: bool = False


class CallLimiter:
    """Lets at most `max_calls` calls run; the rest wait, first come first served, one owner after the other."""

    def __init__(self, max_calls: int, clock: Clock) -> None:
        """Start with every place free.

        Args:
            max_calls: places; at least 1.
            clock: tells when a wait is worth a log line.
        """
        if max_calls < 1:
            raise ValueError(f"max_calls must be at least 1, is {max_calls}")
        self._max_calls = max_calls
        self._clock = clock
        self._running = 0
        # Owners in the order in which they are served; each with its own calls in the order in which they came.
        self._waiting: dict[str, deque[_Ticket]] = {}

    @property
    def running(self) -> int:
        """How many calls have a place."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many calls wait for one."""
        return sum(len(tickets) for tickets in self._waiting.values())

    def place(self, owner: str, what: str) -> AbstractAsyncContextManager[None]:
        """Return a context in which one place is held.

        Args:
            owner: whose call it is.
            what: what is called, for the log.
        """
        return _Place(self, owner, what)

    async def acquire(self, owner: str, what: str) -> None:
        """Take a place as soon as it is this owner's turn. Cancelling it gives up the turn."""
        if self._running < self._max_calls and not self._waiting:
            self._running += 1
            return
        ticket = _Ticket(owner)
        self._waiting.setdefault(owner, deque()).append(ticket)
        has_entered = False
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._report, owner, what)
                await ticket.granted.wait()
                tasks.cancel_scope.cancel()
            # Not before: a cancellation from outside may still come out of the group, and then nobody would release.
            has_entered = True
        finally:
            if not has_entered:
                self._withdraw(ticket)

    def release(self) -> None:
        """Give a place back; it goes to the next call at once."""
        self._running -= 1
        self._grant()

    def _grant(self) -> None:
        while self._running < self._max_calls and self._waiting:
            owner = next(iter(self._waiting))
            tickets = self._waiting.pop(owner)
            ticket = tickets.popleft()
            if tickets:
                self._waiting[owner] = tickets  # behind all others
            self._running += 1
            ticket.is_granted = True
            ticket.granted.set()

    def _withdraw(self, ticket: _Ticket) -> None:
        """Undo a wait that was cancelled, whether or not its place had come."""
        if ticket.is_granted:
            self.release()
            return
        tickets = self._waiting[ticket.owner]
        tickets.remove(ticket)
        if not tickets:
            del self._waiting[ticket.owner]

    async def _report(self, owner: str, what: str) -> None:
        await self._clock.sleep(_NOTABLE_WAIT_S)
        logger.warning(
            "%s: a call of %s has waited %.0f s: all %d model calls are in use (ISHIKI_MAX_MODEL_CALLS)",
            owner or "nobody", what, _NOTABLE_WAIT_S, self._max_calls,
        )  # fmt: skip


class _Place(AbstractAsyncContextManager[None]):
    def __init__(self, limiter: CallLimiter, owner: str, what: str) -> None:
        self._limiter = limiter
        self._owner = owner
        self._what = what

    async def __aenter__(self) -> None:
        await self._limiter.acquire(self._owner, self._what)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._limiter.release()
