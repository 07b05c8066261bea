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
        self._counts: dict[ChannelRef, int] = {}
        """How many messages to ask for in channels whose last answer did not come; 0: none any more."""

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
            forgotten, _ = self._filled_for.popitem(last=False)
            self._counts.pop(forgotten, None)
        history = await self._ask(event.channel)
        missed = [message for message in _before(history, event) if self._is_new(message)]
        if missed:
            logger.info("%s: %d messages from while the account was away", event.channel, len(missed))
        return missed

    async def _ask(self, channel: ChannelRef) -> Sequence[MessageCreated]:
        """Return the channel's newest messages; empty where no answer comes, and then fewer are asked for next time.

        A history can be more than the implementation, the wire or we ourselves can take at once: pictures and cards
        come inside it. Asked for the same again, the connection would end again, for ever.
        """
        count = self._counts.get(channel, _COUNT)
        if count == 0:
            return ()
        history: Sequence[MessageCreated] | None = None
        with anyio.move_on_after(self._limit_s):
            history = await self._platform.recent_history(channel, count)
        if history is not None:
            # Back up by steps: what was too much at once may have scrolled away.
            if 2 * count >= _COUNT:
                self._counts.pop(channel, None)
            else:
                self._counts[channel] = 2 * count
            return history
        self._counts[channel] = fewer = count // 2
        if fewer:
            logger.info("%s: no answer with its %d newest messages; next time %d", channel, count, fewer)
        else:
            logger.warning("%s: no answer even with its newest message; its history is not asked for any more", channel)
        return ()

    def _is_new(self, message: MessageCreated) -> bool:
        return bool(message.message_id) and not self._is_known(message)


def _before(history: Sequence[MessageCreated], event: ChatEvent) -> Sequence[MessageCreated]:
    if isinstance(event, MessageCreated):
        for position in range(len(history) - 1, -1, -1):  # the newest: an id may have begun anew
            if event.message_id and history[position].message_id == event.message_id:
                return history[:position]
    return [message for message in history if message.timestamp < event.timestamp]
