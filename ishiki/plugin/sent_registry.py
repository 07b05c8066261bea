"""Which messages this process sent: so that the end's report of them (`message_sent`) is no new fact.

The report may come before the answer to the call, when its id is not known yet. So while a send into a channel is
unanswered, a report from there is held until it can be told. A held report also proves what its answer denies: the
message is there. What comes later of a delivery without a known id is handed on, for the log's to settle.

An id tells alone only until the account connects again: a OneBot implementation that has been started anew may count
from the beginning, and then what the owner writes has the id of what the bot once said. From then on the words have to
be the same too. Sync state only; single event loop.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ishiki.content import visible_text
from ishiki.contracts.events import ChannelRef, MessageCreated
from ishiki.core.clock import Clock

__all__ = ["PendingSend", "SentRegistry"]

_MAX_IDS: Final = 4_096
"""Over all channels; an end reports a message within seconds of its answer."""

_UNANSWERED_S: Final = 120.0
"""How long a send without an answer, or without an id in it, may still be recognised by its words. Our choice."""


@dataclass(frozen=True, slots=True, eq=False)
class PendingSend:
    """A message handed to a socket. End it exactly once."""

    _registry: SentRegistry
    channel: ChannelRef
    words: str
    is_delivery: bool
    """Whether the log knows of it and recognises a later report."""

    def answered(self, message_id: str) -> str:
        """The end took it; without an id, return that of its report where there is one already, else ""."""
        return self._registry.end(self, message_id=message_id, is_said=not message_id)

    def refused(self) -> str:
        """The end said no; return the id of its report where there is one all the same, else ""."""
        return self._registry.end(self, message_id="", is_said=False)

    def unanswered(self) -> str:
        """It may have been said; return the id of its report where there is one already, else ""."""
        return self._registry.end(self, message_id="", is_said=True)

    def never_sent(self) -> None:
        """It never reached a socket: no report is its own."""
        self._registry.end(self, message_id="", is_said=False, is_reported=False)


@dataclass(slots=True)
class _Channel:
    pending: list[PendingSend] = field(default_factory=list[PendingSend])
    held: list[tuple[MessageCreated, Callable[[MessageCreated], None]]] = field(
        default_factory=list[tuple[MessageCreated, Callable[[MessageCreated], None]]]
    )


class SentRegistry:
    """Recognises reports of our own sends."""

    def __init__(self, clock: Clock) -> None:
        """Remember nothing."""
        self._clock = clock
        self._ids: OrderedDict[tuple[ChannelRef, str], tuple[int, str]] = OrderedDict()
        """Of each channel and message id: during which connection it was sent, and its words."""
        self._connections: dict[str, int] = {}
        """How often each account, by its sid, has connected."""
        self._channels: dict[ChannelRef, _Channel] = {}
        self._said: deque[tuple[float, ChannelRef, str]] = deque()

    def begin(self, channel: ChannelRef, content: str, *, is_delivery: bool = True) -> PendingSend:
        """Take note, before the call, that `content` (markup) goes out to `channel`.

        Args:
            channel: where.
            content: what.
            is_delivery: whether the log has a delivery of it; else its late report is recognised and dropped here.
        """
        pending = PendingSend(self, channel, _words(content), is_delivery)
        self._channels.setdefault(channel, _Channel()).pending.append(pending)
        return pending

    def connected(self, sid: str) -> None:
        """Take note that a OneBot implementation has connected, or started, for the account: ids may begin anew."""
        self._connections[sid] = self._connections.get(sid, 0) + 1

    def is_ours(self, event: MessageCreated, *, otherwise: Callable[[MessageCreated], None]) -> bool:
        """Tell whether this process sent what `event` reports.

        Args:
            event: the report of a message of the account's own.
            otherwise: called with `event`, later, where it was held back and turns out not to be ours.

        Returns:
            True where it is ours or held back; False where it is a fact.
        """
        channel = self._channels.get(event.channel)
        if self._is_known(event):
            return True
        if channel is None:
            return False
        channel.held.append((event, otherwise))
        return True

    def end(self, pending: PendingSend, *, message_id: str, is_said: bool, is_reported: bool = True) -> str:
        """End a send, decide what was held for it, and return the id of its own report; see `PendingSend`."""
        channel = self._channels[pending.channel]
        channel.pending.remove(pending)
        self._remember(pending.channel, message_id, pending.words)
        reported_id = self._claim(channel, pending) if is_reported and not message_id else ""
        if is_said and not reported_id and not pending.is_delivery:
            self._said.append((self._clock.monotonic() + _UNANSWERED_S, pending.channel, pending.words))
        channel.held = [(event, otherwise) for event, otherwise in channel.held if not self._is_known(event)]
        if not channel.pending:
            del self._channels[pending.channel]
            for event, otherwise in channel.held:
                otherwise(event)
        return reported_id

    def _claim(self, channel: _Channel, pending: PendingSend) -> str:
        """Take the first held report that has the words of `pending`, and no id that is known, out of what is held."""
        for held in channel.held:
            event, _ = held
            known = self._ids.get((event.channel, event.message_id))
            is_new = known is None or known[0] != self._connections.get(event.channel.sid, 0)
            if event.message_id and is_new and _words(event.content) == pending.words:
                channel.held.remove(held)
                self._remember(event.channel, event.message_id, pending.words)
                return event.message_id
        return ""

    def _is_known(self, event: MessageCreated) -> bool:
        words = _words(event.content)
        if (sent := self._ids.get((event.channel, event.message_id))) is not None:
            connection, said_words = sent
            if connection == self._connections.get(event.channel.sid, 0) or said_words == words:
                return True
        now = self._clock.monotonic()
        while self._said and self._said[0][0] < now:
            self._said.popleft()
        for said in self._said:
            if said[1:] == (event.channel, words):
                self._said.remove(said)
                self._remember(event.channel, event.message_id, words)
                return True
        return False

    def _remember(self, channel: ChannelRef, message_id: str, words: str) -> None:
        if not message_id:
            return
        self._ids[channel, message_id] = self._connections.get(channel.sid, 0), words
        self._ids.move_to_end((channel, message_id))
        if len(self._ids) > _MAX_IDS:
            self._ids.popitem(last=False)


def _words(content: str) -> str:
    """Return what ends leave as it is: pictures get new names on the way, and spaces at the ends go."""
    return visible_text(content).strip()
