"""`Journal`: the one way into an agent's store and out to its feed.

Everything is written in the order in which it was submitted, by one task. What is announced is in the log already. A
fact that arrives while a step runs is written at once, and announced behind the step's batch, where its place is.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
import anyio.lowlevel

from ishiki.core.clock import Clock
from ishiki.core.entries import Entry, closing_key, deferred_key
from ishiki.core.events import AgentEvent, MessageAppended
from ishiki.core.feed import AgentFeed
from ishiki.core.inbox import Inbox
from ishiki.core.store import BatchStore, EntryStore
from ishiki.errors import AgentStoppedError, StorageError

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

    is_done: bool = False
    """Whether `wait` would return or raise at once."""
    _done: anyio.Event | None = None
    """Made when somebody waits: of the thousands in a burst, hardly any is waited for."""
    _error: Exception | None = None
    _on_written: Callable[[], None] | None = None
    _waiting: int = 0

    async def wait(self) -> None:
        """Return when it is in the log and its listeners have returned.

        Raises:
            StorageError: it is not in the log and will not be.
            ValueError: as before, because an entry has no JSON form.
            AgentStoppedError: as before, because it came too late.
        """
        self._waiting += 1
        try:
            await self.finished()
        finally:
            self._waiting -= 1
        if self._error is not None:
            raise self._error

    async def finished(self) -> None:
        """Return when it is in the log, or will never be."""
        if self.is_done:
            await anyio.lowlevel.checkpoint()
            return
        if self._done is None:
            self._done = anyio.Event()
        await self._done.wait()

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits and is going to be told what went wrong."""
        return self._waiting > 0

    def on_written(self, callback: Callable[[], None]) -> None:
        """Call `callback` as soon as it is in the log, even if nobody waits any more. To be set at once; one only."""
        self._on_written = callback

    def written(self) -> None:
        """Note that it is in the log."""
        if self._on_written is not None:
            self._on_written()

    def resolve(self, error: Exception | None = None) -> None:
        """Wake whoever waits."""
        self._error = error
        self.is_done = True
        if self._done is not None:
            self._done.set()


@dataclass(slots=True, eq=False)
class _Item:
    entries: Sequence[Entry]
    make: Callable[[], Sequence[Entry]] | None
    is_stale: bool | Callable[[], bool]
    is_self: bool
    no_wake: str
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
        self._batch_store = store if isinstance(store, BatchStore) else None
        self._feed = feed
        self._inbox = inbox
        self._clock = clock
        self._items: deque[_Item] = deque()
        self._arrival = anyio.Event()
        self._writing: Sequence[_Item] = ()
        self._progress = anyio.Event()
        self._open_keys: set[str] = set()
        self._held: dict[str, list[MessageAppended]] = {}
        self._last_error_at: float | None = None
        self._blocked = False
        self._pause = anyio.CancelScope()
        self._gives_up = False
        self._closing = False
        self._closed = False
        self._lost = 0

    @property
    def is_blocked(self) -> bool:
        """Whether the store refuses at the moment; what is submitted waits in order."""
        return self._blocked

    @property
    def backlog(self) -> int:
        """How many submissions are not in the log yet."""
        return len(self._items) + len(self._writing)

    def submit(
        self,
        entries: Sequence[Entry] | Callable[[], Sequence[Entry]] = (),
        *,
        is_stale: bool | Callable[[], bool] = False,
        is_self: bool = False,
        no_wake: str = "",
        closes: Sequence[str] = (),
        events: Sequence[AgentEvent] = (),
    ) -> Receipt:
        """Queue one batch and return at once.

        Args:
            entries: appended all or nothing. A function is called when everything before it is in the log; it may not
                raise.
            is_stale: passed on with the announcement. A function is asked when it is in the log, which on a full disk
                may be long after.
            is_self: passed on with the announcement.
            no_wake: why nothing may wake on it; passed on with the announcement, which is stale then.
            closes: `joins` keys that end with this batch; what joined them is announced behind it.
            events: emitted after that; also where the store takes nothing any more, so that who follows a turn sees
                its end.
        """
        make, known = (entries, ()) if callable(entries) else (None, self._hooked(entries))
        item = _Item(known, make, is_stale, is_self, no_wake, closes, events, Receipt())
        if self._closed:
            item.receipt.resolve(AgentStoppedError("the agent has stopped; nothing is written any more"))
        else:
            self._items.append(item)
            self._arrival.set()
        return item.receipt

    async def settled(self) -> None:
        """Return when everything submitted so far, and whatever came meanwhile, is written and announced."""
        while self.backlog:
            await self._progress.wait()

    async def caught_up(self, receipt: Receipt | None = None) -> None:
        """Return as `settled` does, or when `receipt` is done; but at once where the store refuses at the moment."""
        while self.backlog and not self._blocked and not (receipt is not None and receipt.is_done):
            await self._progress.wait()

    async def writable(self) -> None:
        """Return when the store does not refuse any more, or nobody asks it any more."""
        while self._blocked:
            await self._progress.wait()

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

    def give_up(self) -> None:
        """From now on, what the store refuses is tried once more and then lost, with an error in the log."""
        self._gives_up = True
        self._pause.cancel()

    def close(self) -> None:
        """Write what was submitted, then take nothing any more. `run` returns after that."""
        self.give_up()
        self._closing = True
        self._arrival.set()

    async def run(self) -> None:
        """Write until `close`. Owned by the agent's task group, but what was submitted outlives its cancellation."""
        with anyio.CancelScope(shield=True):
            try:
                while self._items or not self._closing:
                    if not self._items:
                        self._arrival = anyio.Event()
                        await self._arrival.wait()
                        continue
                    self._writing = self._take()
                    await self._write(self._writing)
                    self._writing = ()
                    self._note_progress()
            finally:
                self._shut()

    def _shut(self) -> None:
        self._closed = True
        self._blocked = False
        # Empty, unless a store or a listener broke its contract.
        for item in (*self._writing, *self._items):
            item.receipt.resolve(AgentStoppedError("the agent has stopped; nothing is written any more"))
        self._writing = ()
        self._items.clear()
        if self._lost:
            logger.error("%d entries could not be written before the end and are lost", self._lost)
        self._note_progress()

    def _note_progress(self) -> None:
        progress, self._progress = self._progress, anyio.Event()
        progress.set()

    def _hooked(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        for hook in self._hooks if entries else ():
            try:
                changed = hook(entries)
            except Exception:
                logger.exception("an on_append hook raised; what it saw is appended as it was")
                continue
            entries = entries if changed is None else changed
        return entries

    def _take(self) -> list[_Item]:
        taken = [self._items.popleft()]
        if taken[0].make is not None:
            taken[0].entries = self._hooked(taken[0].make())
        while taken[-1].can_merge and self._items and self._items[0].can_merge and len(taken) < _MAX_MERGED:
            taken.append(self._items.popleft())
        return taken

    async def _write(self, items: Sequence[_Item]) -> None:
        batches = [item.entries for item in items if item.entries]
        try:
            if batches:
                await self._append(batches)
        except (StorageError, ValueError) as error:
            if len(items) == 1:
                await self._fail(items[0], error)
                return
            # One fact that cannot be written takes none of its neighbours along.
            for item in items:
                await self._write([item])
            return
        for item in items:
            item.receipt.written()
        for item in items:
            await self._announce(item)
            item.receipt.resolve()

    async def _append(self, batches: Sequence[Sequence[Entry]]) -> None:
        while True:
            try:
                # Facts that only happen to be written together are no batch: after a kill, each stands for itself.
                if self._batch_store is not None:
                    await self._batch_store.append_batches(batches)
                else:
                    await self._store.append(*(entry for batch in batches for entry in batch))
            except StorageError as error:
                if error.code != UNWRITABLE or self._gives_up:
                    self._blocked = False
                    raise
                is_new, self._blocked = not self._blocked, True
                self._complain(
                    f"{error}; nothing is answered there and facts wait in memory, retrying every few seconds",
                    is_new=is_new,
                )
                self._note_progress()
                with anyio.CancelScope() as self._pause:
                    await self._clock.sleep(_RETRY_S)
            else:
                if self._blocked:
                    self._blocked = False
                    logger.info("the log can be written again")
                return

    def _complain(self, problem: str, *, is_new: bool = False) -> None:
        """Tell an operator, at most once an hour: a disk that is full to the brim refuses now and then."""
        now = self._clock.monotonic()
        if self._last_error_at is None or now - self._last_error_at >= _ERROR_EVERY_S:
            self._last_error_at = now
            logger.error("%s", problem)
        elif is_new:
            logger.warning("%s", problem)

    def _report_loss(self, item: _Item, error: Exception) -> None:
        if isinstance(error, StorageError):
            self._complain(f"{error}; nothing is kept there any more")
        else:
            logger.error("a batch of %d entries cannot be written and is lost: %s", len(item.entries), error)

    async def _fail(self, item: _Item, error: Exception) -> None:
        """Give one batch up. What is in the log already and waited for it is announced all the same."""
        if isinstance(error, StorageError) and error.code == UNWRITABLE:
            self._lost += len(item.entries)
        elif not item.receipt.is_awaited:
            self._report_loss(item, error)
        for event in self._release(item.closes):
            await self._tell(event)
        for event in item.events:
            await self._feed.emit(event)
        item.receipt.resolve(error)

    async def _announce(self, item: _Item) -> None:
        # A key whose batch never came: what joined it stands in its place, which is before this batch.
        own_keys = {closing_key(entry) for entry in item.entries}
        for event in self._release([key for key in item.closes if key not in own_keys]):
            await self._tell(event)
        is_stale = bool(item.no_wake) or (item.is_stale() if callable(item.is_stale) else item.is_stale)
        for entry in item.entries:
            message = entry.message
            if message is None:
                continue
            event = MessageAppended(message, entry, is_stale=is_stale, is_self=item.is_self, no_wake=item.no_wake)
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
        rest = self._feed.tell(event)
        if rest is not None:
            await rest
