"""Entries: the appended facts of one log, and the rule that places joined ones.

Source: reference field names of the original's log; `joins`, `step` and `more` are ours (docs/formats/events.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ishiki.core.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
    message_from_json,
    message_to_json,
    new_id,
)
from ishiki.jsonvalue import JsonObject, JsonValue, read_int, read_str

__all__ = [
    "CHECKPOINT",
    "COMPACT",
    "DELIVERY",
    "EVENT",
    "MESSAGE",
    "OMITTED",
    "RESTORED",
    "STATE",
    "WITHHELD",
    "Entry",
    "closing_key",
    "deferred_key",
    "entry_from_json",
    "entry_to_json",
    "message_entry",
    "place_joined",
    "step_key",
]

MESSAGE = "message"
EVENT = "event"
STATE = "state"
COMPACT = "ishiki.compact"
CHECKPOINT = "ishiki.checkpoint"
DELIVERY = "ishiki.delivery"
WITHHELD: Final = "ishiki.withheld"
OMITTED: Final = "ishiki.omitted"
RESTORED: Final = "ishiki.restored"

_TERMINAL_EVENTS = frozenset({"turn.done", "turn.failed", "turn.aborted"})
_MESSAGE_TYPES = (UserMessage, SystemMessage, AssistantMessage, ToolMessage, CustomMessage)

EntryData: TypeAlias = "Message | JsonObject"


@dataclass(frozen=True, slots=True)
class Entry:
    """One appended fact. Never changed, never deleted; a correction is another entry."""

    type: str
    """`message`, `event`, `state`, or any other name; only messages can reach a model."""
    data: EntryData
    """A `Message` where `type` is `message` and its shape is known; a JSON object otherwise."""
    timestamp: int
    """Epoch milliseconds of the append."""
    id: str = field(default_factory=new_id)
    parent_id: str | None = None
    turn_id: str | None = None
    """The turn that wrote it; None for what came from outside."""
    step: int | None = None
    """The step whose batch this belongs to (0-based); None outside a batch."""
    joins: str | None = None
    """`<turn>/<step>`: it arrived while that step ran, so its place in the history is behind that step's batch."""

    @property
    def message(self) -> Message | None:
        """The message, or None for any other entry."""
        return self.data if isinstance(self.data, _MESSAGE_TYPES) else None

    @property
    def json_data(self) -> JsonObject:
        """The data of a non-message entry; empty for a message."""
        return {} if isinstance(self.data, _MESSAGE_TYPES) else self.data


def message_entry(message: Message, *, timestamp: int, turn_id: str | None = None, step: int | None = None) -> Entry:
    """Return the entry that stores `message`."""
    return Entry(MESSAGE, message, timestamp, turn_id=turn_id, step=step)


def step_key(turn_id: str, step: int) -> str:
    """Return the value of `joins` for a fact that arrives while that step runs."""
    return f"{turn_id}/{step}"


def deferred_key(turn_id: str) -> str:
    """Return the value of `joins` for a record that waits for the end of the turn."""
    return f"{turn_id}/end"


def closing_key(entry: Entry) -> str | None:
    """Return the `joins` key behind which this entry is the last of its batch, if it can be one.

    A step's batch consists of the entries that carry that step; a turn's end is its terminal event. What joins another
    batch closes none.
    """
    if entry.turn_id is None or entry.joins is not None:
        return None
    if entry.step is not None:
        return step_key(entry.turn_id, entry.step)
    if entry.type == EVENT and read_str(entry.json_data, "type") in _TERMINAL_EVENTS:
        return deferred_key(entry.turn_id)
    return None


def place_joined(entries: Iterable[Entry]) -> list[Entry]:
    """Return `entries`, given in the order of the file, in the order of the history.

    An entry with `joins` moves to behind the last entry of the batch it names, in order of arrival. Where that batch
    is not in `entries` (the turn never finished, or the batch came before it) it stays where it is. Everything else
    keeps its order. Pure; the result has the same length.
    """
    ordered: list[Entry] = []
    waiting: dict[str, list[int]] = {}
    moved: set[int] = set()
    source = list(entries)
    last_of_batch = {key: index for index, entry in enumerate(source) if (key := closing_key(entry)) is not None}
    for index, entry in enumerate(source):
        if entry.joins is not None and last_of_batch.get(entry.joins, -1) > index:
            waiting.setdefault(entry.joins, []).append(index)
            moved.add(index)
    for index, entry in enumerate(source):
        if index in moved:
            continue
        ordered.append(entry)
        key = closing_key(entry)
        if key is not None and last_of_batch[key] == index:
            ordered.extend(source[joined] for joined in waiting.get(key, ()))
    return ordered


def entry_to_json(entry: Entry) -> dict[str, JsonValue]:
    """Return `entry` as a JSON object in the log's field names; absent fields are left out."""
    message = entry.message
    out: dict[str, JsonValue] = {
        "id": entry.id,
        "type": entry.type,
        "data": entry.json_data if message is None else message_to_json(message),
        "timestamp": entry.timestamp,
    }
    if entry.parent_id is not None:
        out["parentId"] = entry.parent_id
    if entry.turn_id is not None:
        out["turnId"] = entry.turn_id
    if entry.step is not None:
        out["step"] = entry.step
    if entry.joins is not None:
        out["joins"] = entry.joins
    return out


def entry_from_json(data: JsonObject) -> Entry:
    """Return the entry that the JSON object `data` holds.

    Raises:
        ValueError: `type` or `data` is missing or of the wrong kind; the text says which.
    """
    kind = data.get("type")
    body = data.get("data")
    if not isinstance(kind, str) or not kind:
        raise ValueError("an entry needs a text field 'type'")
    if not isinstance(body, Mapping):
        raise ValueError("an entry needs an object field 'data'")
    content: EntryData = body
    if kind == MESSAGE:
        message = message_from_json(body)
        content = body if message is None else message
    step = data.get("step")
    return Entry(
        type=kind,
        data=content,
        timestamp=read_int(data, "timestamp"),
        id=read_str(data, "id") or new_id(),
        parent_id=read_str(data, "parentId") or None,
        turn_id=read_str(data, "turnId") or None,
        step=step if isinstance(step, int) and not isinstance(step, bool) else None,
        joins=read_str(data, "joins") or None,
    )
