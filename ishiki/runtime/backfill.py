"""Backfill: what was said in a channel while the account was away, asked for once after each connection.

Older lines go in front of the first event that follows a connection, without duplicates, and never wake.
Source: design, backfill.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence

import anyio

from ishiki.contracts.events import ChannelRef, ChatEvent, MessageCreated
from ishiki.contracts.platform import Platform

__all__ = ["Backfill"]

logger = logging.getLogger(__name__)

_COUNT = 50
"""Messages asked for: some minutes of a busy group, a day of a quiet one. Ends give no more than that at once."""


_MAX_CHANNELS = 2_000
"""Channels of one runtime that are remembered; one that is forgotten is asked for once more."""


class Backfill:
    """Remembers for which connection each channel has been filled up."""

    def __init__(self, platform: Platform, is_known: Callable[[MessageCreated], bool], *, limit_s: float) -> None:
        """Ask `platform`, at most `limit_s` seconds; leave out what `is_known` says of."""
        self._platform = platform
        self._is_known = is_known
        self._limit_s = limit_s
        self._filled_for: OrderedDict[ChannelRef, int] = OrderedDict()

    def is_due(self, event: ChatEvent) -> bool:
        """Whether an end has connected since it was last asked for."""
        return self._platform.connection_count(event.channel.sid) != self._filled_for.get(event.channel, 0)

    async def missed_before(self, event: ChatEvent) -> Sequence[MessageCreated]:
        """Return what was said before `event` and was not heard, oldest first; empty once it has been asked for."""
        connection = self._platform.connection_count(event.channel.sid)
        if connection == self._filled_for.get(event.channel, 0):
            return ()
        self._filled_for[event.channel] = connection
        if len(self._filled_for) > _MAX_CHANNELS:
            self._filled_for.popitem(last=False)
        history: Sequence[MessageCreated] = ()
        with anyio.move_on_after(self._limit_s):
            history = await self._platform.recent_history(event.channel, _COUNT)
        missed = [message for message in _before(history, event) if self._is_new(message)]
        if missed:
            logger.info("%s: %d messages from while the account was away", event.channel, len(missed))
        return missed

    def _is_new(self, message: MessageCreated) -> bool:
        return bool(message.message_id) and not self._is_known(message)


def _before(history: Sequence[MessageCreated], event: ChatEvent) -> Sequence[MessageCreated]:
    if isinstance(event, MessageCreated):
        for position, message in enumerate(history):
            if message.message_id == event.message_id:
                return history[:position]
    return [message for message in history if message.timestamp < event.timestamp]
