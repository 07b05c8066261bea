"""What a channel has heard and said lately: which facts are duplicates, and what a quoted message was.

Bounded; restored from the newest checkpoint and from what follows it in the log.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from ishiki.content import visible_text
from ishiki.contracts.events import (
    MESSAGE_CREATED,
    ChannelRef,
    ChatEvent,
    MessageCreated,
    Quote,
    StandingChanged,
    User,
)
from ishiki.core.entries import DELIVERY, Entry
from ishiki.core.messages import CustomMessage
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_int, read_object, read_str
from ishiki.runtime.uploads import Uploads
from ishiki.tools.deliveries import Delivery

__all__ = ["FactMemory"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_REMEMBERED = 2_000
"""Keys of a runtime that count for duplicates. Source: design, channel queue; in cross mode its channels share them."""

_SAID_STATES = frozenset({"sent", "unknown"})

_Place: TypeAlias = tuple[str, str, int]
"""Turn, tool call and position of a message that was handed over."""
_WORDLESS_MS: Final = 120_000
"""How far the report of a message without words, such as a picture, may be dated from its sending. Our choice."""


@dataclass(frozen=True, slots=True)
class _Said:
    """A message of this mind's own, whose id is known."""

    words: str
    timestamp: int
    """Epoch milliseconds by our clock; 0 where a checkpoint of an earlier version tells neither this nor the words."""

    def is_reported_by(self, event: MessageCreated) -> bool:
        """Whether `event`, which has its id, tells of it: ids may begin anew when the implementation does."""
        if not self.timestamp:
            return True
        words = _bare(_words(event.content))
        if self.words or words:
            return self.words == words
        return abs(event.timestamp - self.timestamp) <= _WORDLESS_MS


class FactMemory:
    """The recent facts of one runtime.

    A duplicate has the same account, channel, message id, sender and time; the same id from somebody else or at another
    time is another message, since platforms reuse ids.
    """

    def __init__(self) -> None:
        """Remember nothing."""
        self._heard: OrderedDict[str, None] = OrderedDict()
        self._said: OrderedDict[tuple[str, str], _Said] = OrderedDict()
        """By account and message id; of one id, what was said last."""
        self._uploads = Uploads()
        self._unconfirmed: OrderedDict[tuple[ChannelRef, str], _Place] = OrderedDict()
        """By channel and words: messages that may have been read, and whose id nobody has told."""
        self._in_flight: OrderedDict[_Place, tuple[ChannelRef, str]] = OrderedDict()
        """Channel and words of messages that are being handed over."""
        self._settled: OrderedDict[_Place, None] = OrderedDict()
        """Messages whose own report came before the end of their call, or later."""

    def restore(self, checkpoint: JsonObject, entries: Sequence[Entry]) -> None:
        """Take over what a checkpoint holds, and then what the entries behind it tell."""
        for key in read_array(checkpoint, "recentIds"):
            if isinstance(key, str) and key:
                _remember(self._heard, key, None)
        for sent in read_array(checkpoint, "sentIds"):
            if isinstance(sent, Mapping) and (message_id := read_str(sent, "id")):
                said = _Said(read_str(sent, "words"), read_int(sent, "timestamp"))
                _remember(self._said, (read_str(sent, "sid"), message_id), said)
        self._uploads.restore(read_array(checkpoint, "uploads"))
        for unsure in read_array(checkpoint, "unconfirmed"):
            if isinstance(unsure, Mapping) and (words := read_str(unsure, "words")):
                place = read_str(unsure, "turnId"), read_str(unsure, "toolCallId"), read_int(unsure, "index")
                _remember(self._unconfirmed, (_channel_of(unsure), words), place)
        for entry in entries:
            self.note_entry(entry)
        for place, unsure in self._in_flight.items():  # the process ended in the middle: no outcome will come
            _remember(self._unconfirmed, unsure, place)
        self._in_flight.clear()

    def note_entry(self, entry: Entry) -> None:
        """Learn from an entry of the log."""
        if entry.type == DELIVERY:
            self._note_delivery(entry)
            return
        message = entry.message
        if not isinstance(message, CustomMessage) or message.type != MESSAGE_CREATED:
            return
        # Opening a channel reads a thousand of these: only what makes the key is looked at.
        channel = _channel_of_data(message.data)
        if key := _key_of_data(channel, message.data):
            _remember(self._heard, key, None)
        self._uploads.note_data(channel, message.data)

    def _note_delivery(self, entry: Entry) -> None:
        data = entry.json_data
        channel, state = _channel_of(data), read_str(data, "state")
        place = entry.turn_id or "", read_str(data, "toolCallId"), read_int(data, "index")
        words, message_id = _words(read_str(data, "content")), read_str(data, "id")
        self._in_flight.pop(place, None)
        if data.get("late") is True:
            _remember(self._settled, place, None)
        if state == "sending":
            self._in_flight[place] = channel, words
            if len(self._in_flight) > _REMEMBERED:
                self._in_flight.popitem(last=False)
        elif state in _SAID_STATES and not message_id and words and place not in self._settled:
            _remember(self._unconfirmed, (channel, words), place)
        elif message_id and self._unconfirmed.get((channel, words)) == place:
            del self._unconfirmed[channel, words]
        if state in _SAID_STATES and message_id:
            _remember(self._said, (channel.sid, message_id), _Said(_bare(words), entry.timestamp))

    def note(self, event: ChatEvent) -> None:
        """Remember a fact."""
        key = _key(event)
        if key:
            _remember(self._heard, key, None)
        if isinstance(event, MessageCreated):
            self._uploads.note(event)

    def is_known(self, event: ChatEvent) -> bool:
        """Whether the same fact was heard before, or is the report of what this mind said itself.

        An id alone never makes a duplicate, for it may begin anew; without a usable id nothing is one, but the notice
        of a file that a message has brought already.
        """
        if isinstance(event, MessageCreated):
            said = self._said.get((event.channel.sid, event.message_id)) if event.is_self else None
            if said is not None and said.is_reported_by(event):
                return True
            if self._uploads.is_known(event):
                return True
        key = _key(event)
        return bool(key) and key in self._heard

    def settle(self, event: ChatEvent) -> Delivery | None:
        """Return the delivery that `event` reports, now with its id, or None where it reports none.

        Only a message of this mind's own whose id nobody has told yet is one; the next report of it is a duplicate.
        """
        if not isinstance(event, MessageCreated) or not event.is_self or not event.message_id:
            return None
        said = event.channel, _words(event.content)
        if not said[1]:
            return None
        place = self._unconfirmed.pop(said, None)
        if place is None:
            place = next((flying for flying, words in self._in_flight.items() if words == said), None)
            if place is None:
                return None
            del self._in_flight[place]
        _remember(self._settled, place, None)
        _remember(self._said, (event.channel.sid, event.message_id), _Said(_bare(said[1]), event.timestamp))
        turn_id, call_id, index = place
        return Delivery(
            call_id, index, event.channel, event.content, "sent", event.message_id, turn_id=turn_id, is_late=True
        )

    def find_quote(self, quote: Quote, event: MessageCreated, window: Sequence[Entry]) -> Quote | None:
        """Return the quoted message as the log has it, or None where the log has not.

        Args:
            quote: what is known of it: its id.
            event: what quotes it. Ids are those of its account, whose own words count as that one's.
            window: the log's newest entries, in history order.
        """
        for entry in reversed(window):
            message = entry.message
            if isinstance(message, CustomMessage):
                if message.type == MESSAGE_CREATED and read_str(message.data, "messageId") == quote.id:
                    found = MessageCreated.from_data(message.data)
                    if found.channel == event.channel:
                        return Quote(quote.id, found.content, found.user)
            elif (
                entry.type == DELIVERY
                and read_str(entry.json_data, "id") == quote.id
                and _channel_of(entry.json_data) == event.channel
            ):
                return Quote(quote.id, read_str(entry.json_data, "content"), User(event.self_id))
        if (event.channel.sid, quote.id) in self._said:
            return Quote(quote.id, "", User(event.self_id))
        return None

    def checkpoint(self) -> dict[str, JsonValue]:
        """Return the part of a checkpoint that restores this."""
        return {
            "recentIds": list(self._heard),
            "sentIds": [
                {"id": message_id, "sid": sid, "words": said.words, "timestamp": said.timestamp}
                for (sid, message_id), said in self._said.items()
            ],
            "uploads": self._uploads.checkpoint(),
            "unconfirmed": [
                {
                    "sid": channel.sid,
                    "channelId": channel.channel_id,
                    "words": words,
                    "turnId": turn_id,
                    "toolCallId": call_id,
                    "index": index,
                }
                for (channel, words), (turn_id, call_id, index) in self._unconfirmed.items()
            ],
        }


def _channel_of(data: JsonObject) -> ChannelRef:
    return ChannelRef(read_str(data, "sid"), read_str(data, "channelId"))


def _words(content: str) -> str:
    return visible_text(content).strip()


def _bare(words: str) -> str:
    """Return words without the blanks, which implementations set and drop around what is no text."""
    return "".join(words.split())


def _key(event: ChatEvent) -> str:
    if isinstance(event, StandingChanged) or not event.message_id:
        return ""
    # The channel is part of it: in cross mode one runtime hears many.
    if isinstance(event, MessageCreated):
        return f"{event.channel}|{event.message_id}|{event.user.id}|{event.timestamp}"
    return f"{event.channel}|{event.message_id}|{event.user_id}|{event.timestamp}|recalled"


def _channel_of_data(data: JsonObject) -> str:
    """Return the channel of a message in the log's form, as `str(ChannelRef)` writes it."""
    return f"{read_str(data, 'platform')}:{read_str(data, 'selfId')}/{read_str(data, 'channelId')}"


def _key_of_data(channel: str, data: JsonObject) -> str:
    """Return the key of the message that `data` holds in the log's form."""
    message_id = read_str(data, "messageId")
    if not message_id:
        return ""
    return f"{channel}|{message_id}|{read_str(read_object(data, 'user'), 'id')}|{read_int(data, 'timestamp')}"


def _remember(memory: OrderedDict[K, V], key: K, value: V) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > _REMEMBERED:
        memory.popitem(last=False)
