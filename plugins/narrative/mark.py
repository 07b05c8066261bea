"""The mark: the message that says where the input of a turn begins. All that the two halves have to agree on.

A mark is known by its message's id, which nothing that is said in a chat can imitate.
"""

from __future__ import annotations

from collections.abc import Sequence

from ishiki import AssistantMessage, Entry, ModelMessage, ToolMessage, UserMessage

__all__ = ["MARK_TEXT", "evidence", "with_marks"]

MARK_TEXT = "[mark: what stands from here to the next mark was new when a turn of yours began]"
"""What a model reads. Byte-stable, for prefix caches, and true of every mark, however old."""

_ID_PREFIX = "ishiki.narrative.mark:"


def with_marks(entries: Sequence[Entry], turn_id: str) -> list[Entry]:
    """Return `entries` with a mark in front of each turn's input; the last one is the running turn's.

    The input of a turn begins behind what the turn before it did: what was said during its last model call was not
    read by it. Earlier marks stay where they were, so that a request begins like the one before it, byte for byte.

    Args:
        entries: in history order; events among them are passed over.
        turn_id: the running turn, inside which no mark stands.
    """
    places = [0, *(index + 1 for index in _last_deeds(entries, turn_id))]
    marked: list[Entry] = []
    for place, end in zip(places, [*places[1:], len(entries)], strict=True):
        marked.append(_mark(entries[place - 1].id if place else "first"))
        marked.extend(entries[place:end])
    return marked


def evidence(messages: Sequence[ModelMessage]) -> Sequence[ModelMessage] | None:
    """Return what stands behind the last mark, possibly nothing; None where there is no mark."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, UserMessage) and message.id.startswith(_ID_PREFIX):
            return messages[index + 1 :]
    return None


def _last_deeds(entries: Sequence[Entry], turn_id: str) -> list[int]:
    """Return where the last answer or tool result of each turn but the running one stands, in order."""
    last: list[int] = []
    owner: str | None = None
    for index, entry in enumerate(entries):
        if not isinstance(entry.message, AssistantMessage | ToolMessage) or entry.turn_id == turn_id:
            continue
        if last and entry.turn_id == owner:
            last[-1] = index
        else:
            last.append(index)
        owner = entry.turn_id
    return last


def _mark(behind_id: str) -> Entry:
    """Return a mark; the same one each time, for the same entry before it."""
    mark_id = f"{_ID_PREFIX}{behind_id}"
    return Entry("message", UserMessage(MARK_TEXT, id=mark_id), timestamp=0, id=mark_id)
