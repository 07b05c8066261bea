"""`ChannelQueue`: one channel's events between intake and its runtime, in order of arrival. It outlives the runtime."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field

import anyio

from ishiki.contracts.events import ChannelRef, ChatEvent

__all__ = ["ChannelQueue"]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ChannelQueue:
    """Bounded. What does not fit is shed: counted, and logged once until the queue has drained."""

    channel: ChannelRef
    profile_id: str
    bound: int
    shed: int = 0
    """Events that were shed since it last drained."""
    drained: anyio.Event = field(default_factory=anyio.Event)
    """Set when the task that empties it has ended; a later event makes another queue."""
    _events: deque[ChatEvent] = field(default_factory=deque[ChatEvent])

    def offer(self, event: ChatEvent) -> bool:
        """Take `event` in, and return whether it was; the newest ones are shed, so that the order stays whole."""
        if len(self._events) >= self.bound:
            if self.shed == 0:
                logger.warning("%s: %d events wait already; further ones are shed", self.channel, self.bound)
            self.shed += 1
            return False
        self._events.append(event)
        return True

    def head(self) -> ChatEvent | None:
        """Return the oldest event and leave it where it is, or None."""
        return self._events[0] if self._events else None

    def pop(self) -> None:
        """Take the oldest event out: it has been handed on, or is a duplicate."""
        self._events.popleft()
        if not self._events and self.shed:
            logger.warning("%s: the queue has drained; %d events were shed", self.channel, self.shed)
            self.shed = 0

    def __len__(self) -> int:
        """Return how many events wait."""
        return len(self._events)
