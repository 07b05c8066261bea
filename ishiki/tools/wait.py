"""`wait`: the model says what is to wake it next, past the wakeup engine, and its turn ends.

Owns the call, its limits and the form of a wait in the log; `ishiki.runtime.waits` keeps the time and listens.
Source: specification, built-in tools; conditions and limits are our design.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Literal, Protocol, TypeAlias

from ishiki.content import visible_text
from ishiki.contracts.events import MessageCreated
from ishiki.core.entries import Entry
from ishiki.core.messages import new_id
from ishiki.core.tool import Tool, ToolContext
from ishiki.errors import StorageError, ToolError
from ishiki.jsonvalue import JsonObject, JsonValue, read_bool, read_int, read_object, read_str

__all__ = ["MAX_WAITS", "WAIT", "WAIT_ENTRY", "MessageCondition", "Wait", "WaitKeeper", "WaitState", "wait_tool"]

logger = logging.getLogger(__name__)

WAIT = "wait"

WAIT_ENTRY = "ishiki.wait"
"""The entry that says that a wait was set, or is over; never shown to a model. Described in docs/formats/events.md."""

MAX_WAITS = 8
"""Waits of one runtime that may be pending. Source, with the bounds of time: design, wait."""

_LEAST_S = 1
_MOST_S = 7 * 24 * 3600

_MAX_REASON_CHARS = 300
"""A reason is a note to oneself; a longer one is cut."""

WaitState: TypeAlias = Literal["set", "over"]
"""`set`: it is pending. `over`: the turn that it woke has begun, or nothing is to come of it any more."""


@dataclass(frozen=True, slots=True)
class MessageCondition:
    """A message that ends a wait: all that is given has to fit."""

    user_id: str = ""
    """Who has to say it; empty: anybody."""
    text: str = ""
    """What has to stand in what people read of it, whatever the letter case; empty: anything."""

    def holds(self, message: MessageCreated) -> bool:
        """Whether `message` is such a one. Who may wake at all is not asked here."""
        if self.user_id and message.user.id != self.user_id:
            return False
        return not self.text or self.text.casefold() in visible_text(message.content).casefold()

    def to_data(self) -> dict[str, JsonValue]:
        """Return the log's form."""
        found = {"from": self.user_id, "contains": self.text}
        return {key: value for key, value in found.items() if value}

    @classmethod
    def from_data(cls, data: JsonObject) -> MessageCondition:
        """Read the log's form."""
        return cls(read_str(data, "from"), read_str(data, "contains"))


@dataclass(frozen=True, slots=True)
class Wait:
    """One pending wait. The first of its conditions that comes true ends it."""

    id: str
    until_ms: int
    """When it wakes; where `wakes_in_time` is false, when it is given up. Epoch milliseconds."""
    wakes_in_time: bool
    """Whether the time is one of its conditions."""
    message: MessageCondition | None = None
    reason: str = ""
    span_s: float | None = None
    """How long it lasts, where its time is a span of seconds; None where it is a time of day."""

    @property
    def prompt(self) -> str:
        """What the mind reads when it wakes."""
        return f"wait: {self.reason or 'what you waited for has come'}"

    def to_data(self) -> dict[str, JsonValue]:
        """Return the form in which checkpoint and agenda hold it."""
        out: dict[str, JsonValue] = {"id": self.id, "until": self.until_ms, "wakesInTime": self.wakes_in_time}
        if self.message is not None:
            out["message"] = self.message.to_data()
        if self.reason:
            out["reason"] = self.reason
        if self.span_s is not None:
            out["span"] = self.span_s
        return out

    @classmethod
    def from_data(cls, data: JsonObject) -> Wait:
        """Read that form. Never raises; what is missing is empty."""
        message = MessageCondition.from_data(read_object(data, "message")) if "message" in data else None
        wakes_in_time = read_bool(data, "wakesInTime", default=message is None)
        span = data.get("span")
        span_s = float(span) if isinstance(span, int | float) and not isinstance(span, bool) else None
        until_ms, reason = read_int(data, "until"), read_str(data, "reason")
        return cls(read_str(data, "id"), until_ms, wakes_in_time, message, reason, span_s)

    def to_entry(self, state: WaitState, *, timestamp: int) -> Entry:
        """Return the entry that tells of it."""
        data: dict[str, JsonValue] = {"state": state, "id": self.id}
        return Entry(WAIT_ENTRY, data | self.to_data() if state == "set" else data, timestamp)


class WaitKeeper(Protocol):
    """Who keeps the waits of one runtime."""

    @property
    def pending_count(self) -> int:
        """How many are pending."""
        ...

    async def keep(self, wait: Wait, context: ToolContext) -> None:
        """Keep `wait` until one of its conditions comes true. On return it survives the process's death.

        Raises:
            StorageError: it cannot be written down, and is not kept.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Waiter:
    keeper: WaitKeeper
    zone: tzinfo

    async def execute(self, arguments: JsonObject, context: ToolContext) -> JsonValue:
        now_ms = context.clock.now_ms()
        due_ms, span_s = self._due(arguments, now_ms)
        message = _message_condition(arguments)
        if due_ms is None and message is None:
            raise ToolError("Say what you wait for: at least one of seconds, until and message.")
        if self.keeper.pending_count >= MAX_WAITS:
            raise ToolError(f"{MAX_WAITS} waits are pending, and there may be no more. Wait for one of them first.")
        reason = " ".join(read_str(arguments, "reason").split())[:_MAX_REASON_CHARS]
        until_ms = now_ms + _MOST_S * 1000 if due_ms is None else due_ms
        wait = Wait(new_id(), until_ms, due_ms is not None, message, reason, _MOST_S if due_ms is None else span_s)
        try:
            await self.keeper.keep(wait, context)
        except StorageError:
            # The text holds a path of the host; the model has no use for it.
            logger.exception("a wait is not kept, for it cannot be recorded")
            raise ToolError("It could not be written down, so nobody will wake you. Go on without waiting.") from None
        result: dict[str, JsonValue] = {"ok": True, "id": wait.id}
        if due_ms is not None:
            result["expires_at"] = self._shown(due_ms)
        return result

    def _due(self, arguments: JsonObject, now_ms: int) -> tuple[int | None, float | None]:
        """Return the earlier of the times that are given, in epoch milliseconds, and its length where it is a span."""
        found: list[tuple[int, float | None]] = []
        seconds = arguments.get("seconds")
        if isinstance(seconds, int | float):
            found.append((now_ms + round(seconds * 1000), float(seconds)))
        if until := read_str(arguments, "until").strip():
            found.append((self._read_time(until, now_ms), None))
        return min(found, key=lambda time: time[0], default=(None, None))

    def _read_time(self, text: str, now_ms: int) -> int:
        try:
            time = datetime.fromisoformat(text)
            at_ms = round((time if time.tzinfo else time.replace(tzinfo=self.zone)).timestamp() * 1000)
        except (ValueError, OverflowError, OSError):
            raise ToolError(f"until: {text!r} is no time. Write it as {self._shown(now_ms)!r}, which is now.") from None
        left_s = (at_ms - now_ms) / 1000
        if not _LEAST_S <= left_s <= _MOST_S:
            where = "too soon, or over" if left_s < _LEAST_S else "more than 7 days away"
            raise ToolError(f"until: {text!r} is {where}. It is {self._shown(now_ms)} now.")
        return at_ms

    def _shown(self, at_ms: int) -> str:
        return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(self.zone).isoformat(timespec="seconds")


def _message_condition(arguments: JsonObject) -> MessageCondition | None:
    message = arguments.get("message")
    if not isinstance(message, Mapping):
        return None
    user_id, text = read_str(message, "from").strip(), read_str(message, "contains").strip()
    if not user_id and not text and not read_bool(message, "any"):
        raise ToolError("message: say which one: from (a user id), contains (a text), or any: true.")
    return MessageCondition(user_id, text)


def wait_tool(keeper: WaitKeeper, zone: tzinfo) -> Tool:
    """Make the tool of one runtime. Ending the turn is the stop rule's doing.

    Args:
        keeper: keeps its waits.
        zone: the profile's time zone, for times that name none.
    """
    return Tool(
        name=WAIT,
        description=_DESCRIPTION,
        input_schema=_INPUT_SCHEMA,
        execute=_Waiter(keeper, zone).execute,
        sequential=True,
    )


_DESCRIPTION = (
    "Wait for a time or a message, and be woken then even if nobody speaks to you. Give at least one of seconds, until "
    "and message; the first that comes true wakes you, once, and drops the others. Your turn ends with this call, "
    "unless you call other tools than send_message beside it. Waits survive a restart; at most "
    f"{MAX_WAITS} may be pending. Use it to come back to something later, not to watch the chat: you read what is said "
    "meanwhile anyway. It sends nothing: to tell the others that you wait, call send_message too."
)

_INPUT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "seconds": {
            "type": "number",
            "minimum": _LEAST_S,
            "maximum": _MOST_S,
            "description": "How long, from 1 to 604800 (7 days).",
        },
        "until": {
            "type": "string",
            "description": "A time within 7 days, such as 2026-01-31T08:00; your own time zone where it names none.",
        },
        "message": {
            "type": "object",
            "properties": {
                "from": {"type": "string", "description": "The user id of who has to say it."},
                "contains": {"type": "string", "description": "A text that has to stand in it, in any letter case."},
                "any": {"type": "boolean", "description": "true: any message of somebody else."},
            },
            "additionalProperties": False,
            "description": "A message from now on for which all that you give holds. Waited for at most 7 days.",
        },
        "reason": {"type": "string", "description": "A note to yourself: you read it when you are woken."},
    },
    "additionalProperties": False,
}
