"""What the `jev` engine remembers of each channel: the last lines, and when the mind last spoke."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from ishiki.content import clean_name, plain_preview, strip_think
from ishiki.contracts.events import ChannelRef, MessageCreated
from ishiki.core.entries import Entry
from ishiki.core.messages import AssistantMessage
from ishiki.engines.wakeup._decisions import created_of, is_own
from ishiki.engines.wakeup._judge import Line
from ishiki.jsonvalue import JsonObject, read_array, read_object, read_str

__all__ = ["MAX_CHANNELS", "SELF", "ChannelWindow", "Windows", "heard_line"]

SELF = "self"
"""The author of the mind's own lines. Nobody else gets it: a person of that name goes by the id."""

_MAX_TEXT = 400
"""Characters of one line. Source: specification."""

MAX_CHANNELS = 512
"""Channels that are remembered; the oldest leave first. Source: specification."""

_SPEAKING_TOOL = "send_message"


class ChannelWindow:
    """One channel.

    Attributes:
        channel: which one.
        last_spoke_ms: when the mind last said something there, or None. Kept apart, so that lines that leave the
            window do not end a cooldown.
    """

    def __init__(self, channel: ChannelRef, capacity: int) -> None:
        """Hold at most `capacity` lines."""
        self.channel = channel
        self.last_spoke_ms: int | None = None
        self._lines: deque[Line] = deque(maxlen=capacity)

    @property
    def lines(self) -> Sequence[Line]:
        """The lines, the oldest first, as they are now."""
        return tuple(self._lines)

    def add(self, line: Line) -> None:
        """Add the newest line."""
        self._lines.append(line)
        if line.author == SELF:
            self.last_spoke_ms = max(self.last_spoke_ms or 0, line.at_ms)


class Windows:
    """The channels of one runtime."""

    def __init__(self, capacity: int, home: ChannelRef | None) -> None:
        """Hold `capacity` lines of each. `home` is the runtime's own channel; None where it has many."""
        self._capacity = capacity
        self._newest = home
        self._by_channel: dict[ChannelRef, ChannelWindow] = {}

    def of(self, channel: ChannelRef) -> ChannelWindow:
        """Return a channel's window; from now on it is the latest one."""
        self._newest = channel
        found = self._by_channel.get(channel)
        if found is None:
            found = self._by_channel[channel] = ChannelWindow(channel, self._capacity)
            if len(self._by_channel) > MAX_CHANNELS:
                del self._by_channel[next(iter(self._by_channel))]
        return found

    def speak(self, message: AssistantMessage, at_ms: int) -> int:
        """Take in what the mind said; return how many lines that were.

        Only what it sent counts, never its plain text. Where a call names no channel, it is the latest one.
        """
        count = 0
        for call in message.tool_calls:
            if call.tool_name != _SPEAKING_TOOL or not isinstance(call.input, Mapping):
                continue
            channel = _target(call.input) or self._newest
            if channel is None:
                continue
            for text in read_array(call.input, "messages"):
                if isinstance(text, str) and (said := _shown(strip_think(text))):
                    self.of(channel).add(Line(at_ms, SELF, said))
                    count += 1
        return count

    def fold_in(self, entries: Iterable[Entry]) -> int:
        """Take in what the log holds, the oldest first; return how many lines that were."""
        count = 0
        for entry in entries:
            created = created_of(entry.message)
            if created is not None:
                self.of(created.channel).add(heard_line(created))
                count += 1
            elif isinstance(entry.message, AssistantMessage):
                count += self.speak(entry.message, entry.timestamp)
        return count


def heard_line(created: MessageCreated) -> Line:
    """Return a message as a line."""
    name = clean_name(created.user.name, created.user.id)
    author = SELF if is_own(created) else created.user.id if name == SELF else name
    return Line(created.timestamp, author, _shown(created.content))


def _shown(content: str) -> str:
    return plain_preview(content, _MAX_TEXT)


def _target(arguments: JsonObject) -> ChannelRef | None:
    target = read_object(arguments, "target")
    sid, channel_id = read_str(target, "sid"), read_str(target, "channelId")
    return ChannelRef(sid, channel_id) if sid and channel_id else None
