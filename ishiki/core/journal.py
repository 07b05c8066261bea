"""`Journal`: the one way into an agent's store and out to its feed.

Everything is written in the order in which it was submitted, by one task. What is announced is in the log already. A
fact that arrives while a step runs is written at once, and announced behind the step's batch, where its place is.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio

from ishiki.core.clock import Clock
from ishiki.core.entries import Entry, deferred_key
from ishiki.core.events import AgentEvent, MessageAppended
from ishiki.core.feed import AgentFeed
from ishiki.core.inbox import Inbox
from ishiki.core.store import EntryStore
from ishiki.errors import StorageError

__all__ = ["UNWRITABLE", "Journal", "Receipt"]

logger = logging.getLogger(__name__)

UNWRITABLE = "storage_unwritable"
"""The code of a `StorageError` that may go away by itself: a full disk, a folder made read-only."""

_RETRY_S = 5.0
"""How long to wait for a disk that refuses. Short enough that people do not notice, long enough to cost nothing."""

_ERROR_EVERY_S = 3600.0
"""One error an hour: an operator needs to know, and the log may be on the same full disk."""

_MAX_MERGED = 64
"""At most this many waiting facts go into one write."""


@dataclass(slots=True, eq=False)
class Receipt:
    """Tells when a submission is in the log and announced."""

    _done: anyio.Event = field(default_factory=anyio.Event)
    _error: Exception | None = None

    async def wait(self) -> None:
        """Return when it is in the log and its listeners have returned.

        Raises:
            StorageError: it is not in the log and will not be.
        """
        await self._done.wait()
        if self._error is not None:
            raise self._error

    @property
    def is_done(self) -> bool:
        """Whether `wait` would return at once."""
        return self._done.is_set()

    def resolve(self, error: Exception | None = None) -> None:
        """Wake whoever waits."""
        self._error = error
        self._done.set()


@dataclass(slots=True, eq=False)
class _Item:
    entries: Sequence[Entry]
    is_stale: bool
    is_self: bool
    closes: Sequence[str]
    events: Sequence[AgentEvent]
    receipt: Receipt

    @property
    def can_merge(self) -> bool:
        return bool(self.entries) and not self.closes and not self.events


class Journal:
    """Serial appends and announcements of one agent."""

    def __init__(
        self,
        store: EntryStore,
        feed: AgentFeed,
        inbox: Inbox,
        clock: Clock,
        hooks: Sequence[Callable[[Sequence[Entry]], Sequence[Entry] | None]] = (),
    ) -> None:
        """Write to `store`, tell `feed`, count for `inbox`; `hooks` see, and may change, what is submitted."""
        self._hooks = hooks
        self._store = store
        self._feed = feed
        self._inbox = inbox
        self._clock = clock
        self._items: deque[_Item] = deque()
        self._arrival = anyio.Event()
        self._busy = False
        self._quiet = anyio.Event()
        self._quiet.set()
        self._open_keys: set[str] = set()
        self._held: dict[str, list[MessageAppended]] = {}
        self._last_error_at: float | None = None
        self._blocked = False

    @property
    def is_blocked(self) -> bool:
        """Whether the store refuses at the moment; what is submitted waits in order."""
        return self._blocked

    @property
    def backlog(self) -> int:
        """How many submissions are not in the log yet."""
        return len(self._items) + int(self._busy)

    def submit(
        self,
        entries: Sequence[Entry] = (),
        *,
        is_stale: bool = False,
        is_self: bool = False,
        closes: Sequence[str] = (),
        events: Sequence[AgentEvent] = (),
    ) -> Receipt:
        """Queue one batch and return at once.

        Args:
            entries: appended all or nothing.
            is_stale: passed on with the announcement.
            is_self: passed on with the announcement.
            closes: `joins` keys that end with this batch; what joined them is announced behind it.
            events: emitted after that.
        """
        for hook in self._hooks:
            changed = hook(entries)
            entries = entries if changed is None else changed
        item = _Item(entries, is_stale, is_self, closes, events, Receipt())
        self._items.append(item)
        if self._quiet.is_set():
            self._quiet = anyio.Event()
        self._arrival.set()
        return item.receipt

    async def settled(self) -> None:
        """Return when everything submitted so far, and whatever came meanwhile, is written and announced."""
        while not self._quiet.is_set():
            await self._quiet.wait()

    def begin_turn(self, turn_id: str) -> None:
        """From now on, records deferred to the end of this turn are held back."""
        self._open_keys.add(deferred_key(turn_id))

    def begin_step(self, step: int) -> Sequence[Entry]:
        """Return what the step reads: the window without what waits for the end of this turn.

        Facts that arrive from now on join the step.

        Nothing may be unsettled, and there must be no await between that check and this call.
        """
        self._open_keys.add(self._inbox.begin_step(step))
        window = self._store.window()
        deferred = self._inbox.deferred_key
        if deferred not in self._held:
            return window
        return [entry for entry in window if entry.joins != deferred]

    async def run(self) -> None:
        """Write until cancelled. Owned by the agent's task group."""
        while True:
            if not self._items:
                self._arrival = anyio.Event()
                self._quiet.set()
                await self._arrival.wait()
            self._busy = True
            await self._write(self._take())
            self._busy = False

    def _take(self) -> list[_Item]:
        taken = [self._items.popleft()]
        while taken[-1].can_merge and self._items and self._items[0].can_merge and len(taken) < _MAX_MERGED:
            taken.append(self._items.popleft())
        return taken

    async def _write(self, items: Sequence[_Item]) -> None:
        entries = [entry for item in items for entry in item.entries]
        try:
            if entries:
                await self._append(entries)
        except StorageError as error:
            for item in items:
                item.receipt.resolve(error)
            self._release([key for item in items for key in item.closes])
            return
        for item in items:
            await self._announce(item)
            item.receipt.resolve()

    async def _append(self, entries: Sequence[Entry]) -> None:
        while True:
            try:
                await self._store.append(*entries)
            except StorageError as error:
                if error.code != UNWRITABLE:
                    raise
                self._blocked = True
                self._complain(error)
                await self._clock.sleep(_RETRY_S)
            else:
                if self._blocked:
                    self._blocked = False
                    self._last_error_at = None
                    logger.info("the log can be written again")
                return

    def _complain(self, error: StorageError) -> None:
        now = self._clock.monotonic()
        if self._last_error_at is None or now - self._last_error_at >= _ERROR_EVERY_S:
            self._last_error_at = now
            logger.error("%s; nothing is answered there and facts wait in memory, retrying every %g s", error, _RETRY_S)

    async def _announce(self, item: _Item) -> None:
        for entry in item.entries:
            message = entry.message
            if message is None:
                continue
            event = MessageAppended(message, entry, is_stale=item.is_stale, is_self=item.is_self)
            if entry.joins is not None and entry.joins in self._open_keys:
                self._held.setdefault(entry.joins, []).append(event)
            else:
                await self._tell(event)
        for event in self._release(item.closes):
            await self._tell(event)
        for event in item.events:
            await self._feed.emit(event)

    def _release(self, keys: Sequence[str]) -> list[MessageAppended]:
        released: list[MessageAppended] = []
        for key in keys:
            self._open_keys.discard(key)
            released.extend(self._held.pop(key, ()))
        return released

    async def _tell(self, event: MessageAppended) -> None:
        self._inbox.appended()
        await self._feed.emit(event)
