"""Which uploads a runtime has heard of lately: OneBot implementations tell of one file twice.

NapCat and LLBot send a message with a `file` segment and a `group_upload` notice, in either order, with different ids
for the same file; Lagrange sends the notice, and a message that may be empty. A notice has no message id. So a line
that is one file and nothing else, by the same person with the same name and size, is the same upload where one of the
two has an id and the other has none. Two messages are never one upload: the same file can be sent twice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ishiki.content import Element, parse
from ishiki.contracts.events import MessageCreated
from ishiki.jsonvalue import JsonObject, JsonValue, read_int, read_object, read_str

__all__ = ["Uploads"]

_REMEMBERED: Final = 200
"""Uploads of a runtime that are remembered. Our choice: the two reports of one come within seconds."""

_APART_MS: Final = 60_000
"""How far the times of the two reports may differ. Our choice: both are dated by the same implementation."""


@dataclass(frozen=True, slots=True)
class _Upload:
    key: str
    """Channel, person and file name."""
    size: str
    """Empty where the report has none: Lagrange's segment."""
    has_id: bool
    timestamp: int

    def is_other_report_of(self, other: _Upload) -> bool:
        """Whether both tell of one upload."""
        if self.key != other.key or (self.size and other.size and self.size != other.size):
            return False
        apart_ms = abs(self.timestamp - other.timestamp)
        if not self.has_id and not other.has_id:
            return apart_ms == 0  # the same notice again
        return self.has_id != other.has_id and apart_ms <= _APART_MS


class Uploads:
    """The newest uploads, by channel, person and name."""

    def __init__(self) -> None:
        """Remember none."""
        self._known: OrderedDict[_Upload, None] = OrderedDict()

    def note(self, event: MessageCreated) -> None:
        """Remember `event`, where it is an upload."""
        self._remember(_read(str(event.channel), event.user.id, event.content, event.message_id, event.timestamp))

    def note_data(self, channel: str, data: JsonObject) -> None:
        """Do as `note`, for a message in the log's form.

        Args:
            channel: where it was said, as `str(ChannelRef)` writes it.
            data: the message.
        """
        content = read_str(data, "content")
        if content.startswith("<file "):
            user_id = read_str(read_object(data, "user"), "id")
            timestamp = read_int(data, "timestamp")
            self._remember(_read(channel, user_id, content, read_str(data, "messageId"), timestamp))

    def is_known(self, event: MessageCreated) -> bool:
        """Whether `event` is the other report of an upload that was heard of."""
        upload = _read(str(event.channel), event.user.id, event.content, event.message_id, event.timestamp)
        return upload is not None and any(upload.is_other_report_of(known) for known in self._known)

    def restore(self, saved: Sequence[JsonValue]) -> None:
        """Take over what `saved` tells, in the form of `checkpoint`."""
        for item in saved:
            if isinstance(item, Mapping) and (key := read_str(item, "key")):
                has_id = item.get("hasId") is True
                self._remember(_Upload(key, read_str(item, "size"), has_id, read_int(item, "timestamp")))

    def checkpoint(self) -> list[JsonValue]:
        """Return what restores this."""
        return [
            {"key": known.key, "size": known.size, "hasId": known.has_id, "timestamp": known.timestamp}
            for known in self._known
        ]

    def _remember(self, upload: _Upload | None) -> None:
        if upload is None:
            return
        self._known[upload] = None
        self._known.move_to_end(upload)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)


def _read(channel: str, user_id: str, content: str, message_id: str, timestamp: int) -> _Upload | None:
    """Return the upload that a message is, or None for every other message."""
    if not content.startswith("<file "):
        return None
    nodes = parse(content)
    if len(nodes) != 1 or not isinstance(node := nodes[0], Element):
        return None
    attributes = dict(node.attributes)
    name = attributes.get("name", "")
    if not name:
        return None
    return _Upload(f"{channel}|{user_id}|{name}", attributes.get("size", ""), bool(message_id), timestamp)
