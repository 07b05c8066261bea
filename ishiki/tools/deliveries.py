"""Deliveries: what the log knows of each message that was handed to a platform, and how an unfinished call is told.

Around each message `send_message` appends `ishiki.delivery` entries, `sending` before it and its outcome behind it.
When the step's own batch never came (a kill, a cancellation), these entries are all that the mind has of what it said.
Pure functions; the format is described in docs/formats/events.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from ishiki.contracts.events import ChannelRef
from ishiki.core.entries import DELIVERY, Entry, message_entry
from ishiki.core.messages import (
    AssistantMessage,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolResultPart,
)
from ishiki.jsonvalue import JsonValue, read_int, read_str

__all__ = [
    "PROBABLY_DELIVERED",
    "SEND_MESSAGE",
    "Delivery",
    "DeliveryState",
    "settle_entries",
    "unfinished_deliveries",
]

SEND_MESSAGE = "send_message"
"""The tool that makes deliveries."""

PROBABLY_DELIVERED = "probably delivered"
"""What a result says of a message without a confirmation. It counts as said."""

DeliveryState: TypeAlias = Literal["sending", "sent", "failed", "unknown"]
"""`sending`: about to be handed over. `sent`: confirmed. `failed`: nobody has seen it. `unknown`: no answer came."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One platform message of one call."""

    tool_call_id: str
    index: int
    """Position among the call's platform messages, from 0; a long text may be several."""
    target: ChannelRef
    content: str
    """Element markup, as it was sent."""
    state: DeliveryState = "sending"
    message_id: str = ""
    """The platform's id; empty where it gave none."""
    reason: str = ""
    """Of a failed one: the `SpeechBar`, `unreachable`, or `refused` for any other reason."""
    turn_id: str = ""
    """Whose call it was, where that is known apart from its entry."""
    is_late: bool = False
    """Whether it was settled after the call had its result: the account's own report named the message."""

    def to_entry(self, *, timestamp: int, turn_id: str) -> Entry:
        """Return the entry that records this."""
        data: dict[str, JsonValue] = {
            "toolCallId": self.tool_call_id,
            "index": self.index,
            "state": self.state,
            "sid": self.target.sid,
            "channelId": self.target.channel_id,
            "content": self.content,
        }
        if self.message_id:
            data["id"] = self.message_id
        if self.reason:
            data["reason"] = self.reason
        if self.is_late:
            data["late"] = True
        return Entry(DELIVERY, data, timestamp, turn_id=turn_id)

    @classmethod
    def from_entry(cls, entry: Entry) -> Delivery:
        """Read an `ishiki.delivery` entry; a state that we do not know reads as `unknown`."""
        data = entry.json_data
        state: DeliveryState = next((one for one in get_args(DeliveryState) if one == data.get("state")), "unknown")
        target = ChannelRef(read_str(data, "sid"), read_str(data, "channelId"))
        return cls(
            read_str(data, "toolCallId"),
            read_int(data, "index"),
            target,
            read_str(data, "content"),
            state,
            read_str(data, "id"),
            read_str(data, "reason"),
            entry.turn_id or "",
            data.get("late") is True,
        )


def unfinished_deliveries(entries: Iterable[Entry]) -> Mapping[str, Sequence[Delivery]]:
    """Return what was said by calls whose batch is not in `entries`.

    Args:
        entries: a history, or its newest part.

    Returns:
        By turn, in order of the first one: deliveries in the order in which they began, each in its last state. Failed
        ones are left out; one without an outcome is `unknown`. Turns without any are left out.
    """
    by_turn: dict[str, dict[tuple[str, int], Delivery]] = {}
    recorded: set[str] = set()
    for entry in entries:
        message = entry.message
        if isinstance(message, AssistantMessage):
            recorded.update(call.tool_call_id for call in message.tool_calls)
        elif entry.type == DELIVERY and entry.turn_id is not None:
            delivery = Delivery.from_entry(entry)
            said_in_turn = by_turn.setdefault(entry.turn_id, {})
            place = delivery.tool_call_id, delivery.index
            # The report of a message may overtake the end of its own call; what was confirmed stays so.
            if place not in said_in_turn or said_in_turn[place].state != "sent":
                said_in_turn[place] = delivery
    unfinished: dict[str, Sequence[Delivery]] = {}
    for turn_id, deliveries in by_turn.items():
        said = [
            replace(delivery, state="unknown") if delivery.state == "sending" else delivery
            for delivery in deliveries.values()
            if delivery.state != "failed" and delivery.tool_call_id not in recorded
        ]
        if said:
            unfinished[turn_id] = said
    return unfinished


def settle_entries(turn_id: str, entries: Sequence[Entry], now_ms: int, *, shows_target: bool = False) -> list[Entry]:
    """Return the entries that tell what an unfinished turn has said: one message with its calls, and their results.

    To be appended in one batch with the turn's end.

    Args:
        turn_id: the turn.
        entries: the history, or its newest part.
        now_ms: time of the append.
        shows_target: whether calls name their target (cross mode), as the tool's own schema has it.

    Returns:
        An assistant message and a tool message, or nothing where the turn said nothing that is not told already.
    """
    deliveries = unfinished_deliveries(entry for entry in entries if entry.turn_id == turn_id).get(turn_id, ())
    by_call: dict[str, list[Delivery]] = {}
    for delivery in deliveries:
        by_call.setdefault(delivery.tool_call_id, []).append(delivery)
    if not by_call:
        return []
    calls = [
        ToolCallPart(call_id, SEND_MESSAGE, _told_input(said, shows_target=shows_target))
        for call_id, said in by_call.items()
    ]
    results = [ToolResultPart(call_id, SEND_MESSAGE, _told_output(said)) for call_id, said in by_call.items()]
    messages = (
        AssistantMessage(calls, timestamp=now_ms, finish_reason="tool-calls"),
        ToolMessage(results, timestamp=now_ms),
    )
    return [message_entry(message, timestamp=now_ms, turn_id=turn_id) for message in messages]


def _told_input(said: Sequence[Delivery], *, shows_target: bool) -> JsonValue:
    told: dict[str, JsonValue] = {"messages": [delivery.content for delivery in said]}
    if shows_target:
        told["target"] = {"sid": said[0].target.sid, "channelId": said[0].target.channel_id}
    return told


def _told_output(said: Sequence[Delivery]) -> ToolOutput:
    ids: JsonValue = [delivery.message_id for delivery in said if delivery.message_id]
    unsure = any(delivery.state == "unknown" for delivery in said)
    note = f"{PROBABLY_DELIVERED}; do not repeat it" if unsure else "delivered"
    return ToolOutput("json", {"ok": True, "ids": ids, "note": f"{note}. The turn was cut off behind it."})
