"""`ChannelQueue`: one channel's events between intake and its runtime, in order of arrival. It outlives the runtime."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field

import anyio

from ishiki.content import is_at_self
from ishiki.contracts.events import ChannelRef, ChatEvent, MessageCreated

__all__ = ["ChannelQueue"]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ChannelQueue:
    """Bounded. What does not fit is shed, the oldest first: counted, and logged once until the queue has drained."""

    channel: ChannelRef
    profile_id: str
    bound: int
    shed: int = 0
    """Events that were shed since it last drained."""
    is_urgent: bool = False
    """Whether somebody waits for an answer: a message among its events speaks to the account."""
    drained: anyio.Event = field(default_factory=anyio.Event)
    """Set when the task that empties it has ended; a later event makes another queue."""
    _events: deque[ChatEvent] = field(default_factory=deque[ChatEvent])

    def offer(self, event: ChatEvent) -> bool:
        """Take `event` in, and return whether there was room for all.

        Where there was not, the oldest one leaves: what was said last is what people wait to have answered. The very
        first one stays, for it may be on its way to the log already.
        """
        if isinstance(event, MessageCreated) and not event.is_self:
            self.is_urgent = self.is_urgent or event.is_direct or is_at_self(event.content, event.self_id)
        self._events.append(event)
        if len(self._events) <= self.bound:
            return True
        if self.shed == 0:
            logger.warning("%s: %d events wait already; the oldest ones are shed", self.channel, self.bound)
        self.shed += 1
        del self._events[min(1, len(self._events) - 1)]
        return False

    def head(self) -> ChatEvent | None:
        """Return the oldest event and leave it where it is, or None."""
        return self._events[0] if self._events else None

    def pop(self) -> None:
        """Take the oldest event out: it has been handed on, or is a duplicate."""
        self._events.popleft()
        if self._events:
            return
        self.is_urgent = False
        if self.shed:
            logger.warning("%s: the queue has drained; %d events were shed", self.channel, self.shed)
            self.shed = 0

    def __len__(self) -> int:
        """Return how many events wait."""
        return len(self._events)
