"""Intake: a OneBot v11 frame becomes one neutral fact, or nothing. All platform differences end here.

`normalise` is pure. `Intake.offer` is called by the adapter for every frame, in wire order; it never awaits and never
raises. Source: OneBot v11, events; specification, event and message types; design, one message in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Final, TypeAlias

from ishiki.content import clean_name
from ishiki.contracts.events import (
    ChannelRef,
    ChatEvent,
    MessageCreated,
    MessageDeleted,
    User,
)
from ishiki.core.clock import Clock
from ishiki.jsonvalue import JsonObject, JsonValue, read_object
from ishiki.plugin.accounts import PLATFORM, Accounts, sid_of
from ishiki.plugin.clock_offsets import ClockOffsets
from ishiki.plugin.segments import read_message
from ishiki.plugin.sent_registry import SentRegistry
from ishiki.plugin.standing import read_standing
from ishiki.plugin.wire import read_id, read_text, read_time_ms

__all__ = ["Ignored", "Intake", "IntakeCounts", "Normalised", "Sink", "normalise", "read_fetched"]

logger = logging.getLogger(__name__)

Sink: TypeAlias = Callable[[ChatEvent], None]
"""Takes one fact. Must not wait; a raise is logged and the fact is lost."""

_RECALLS: Final = ("group_recall", "friend_recall")

_UPLOADS: Final = ("group_upload", "offline_file")
"""Notices of a file: in a group (standard) and in private (go-cqhttp and Lagrange)."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A frame that is no fact."""

    reason: str


Normalised: TypeAlias = ChatEvent | Ignored


def normalise(raw: JsonValue, *, now_ms: int, account: str = "", offset_ms: int = 0) -> Normalised:
    """Return the fact that a frame tells, or why it tells none. Never raises.

    Args:
        raw: the frame as decoded.
        now_ms: the time of day; stands in for an absent or absurd `time`.
        account: the account of the connection, where the frame names none.
        offset_ms: how far the implementation's clock is ahead of ours. A fact keeps the time that it came with; only
            the end of a mute, which we wait for, is told by our clock.
    """
    if not isinstance(raw, Mapping):
        return Ignored("no object")
    self_id = read_id(raw, "self_id") or account
    if not self_id:
        return Ignored("no self_id")
    match raw.get("post_type"):
        case "message":
            sender_id = _sender_id(raw)
            if sender_id == self_id:
                return Ignored("the account's own message")
            return _created(raw, self_id, sender_id, now_ms, is_self=False)
        case "message_sent":
            return _created(raw, self_id, _sender_id(raw), now_ms, is_self=True)
        case "notice" if raw.get("notice_type") in _RECALLS:
            return _deleted(raw, self_id, now_ms)
        case "notice" if raw.get("notice_type") in _UPLOADS:
            return _uploaded(raw, self_id, now_ms)
        case "notice":
            standing = read_standing(raw, self_id, now_ms, offset_ms=offset_ms)
            return standing or Ignored("a notice that tells nothing of the account")
        case _:
            return Ignored("no message, no recall and no file")


def read_fetched(data: JsonObject, channel: ChannelRef | None, *, self_id: str, now_ms: int) -> MessageCreated | None:
    """Read a message as `get_msg` and the history actions return it; None where it names no message.

    Args:
        data: the message; the standard leaves out where it stands.
        channel: where it stands, where the caller knows; else what the message says.
        self_id: the account that was asked.
        now_ms: see `normalise`.
    """
    sender_id = _sender_id(data)
    is_self = sender_id == self_id
    found = _channel_id(data, self_id, sender_id, is_self=is_self) if channel is None else channel.channel_id
    if not read_id(data, "message_id") or not sender_id:
        return None
    message = _message(data, found, User(sender_id, _sender_name(data)), self_id, now_ms, is_self=is_self)
    return message if _says_something(message) else None


def _created(raw: JsonObject, self_id: str, sender_id: str, now_ms: int, *, is_self: bool) -> Normalised:
    channel_id = _channel_id(raw, self_id, sender_id, is_self=is_self)
    if not channel_id:
        return Ignored("a message without its group or peer")
    if not is_self and not sender_id:
        return Ignored("a message without its sender")
    author = User(intern(self_id if is_self else sender_id), intern(_sender_name(raw)))
    created = _message(raw, channel_id, author, self_id, now_ms, is_self=is_self)
    return created if _says_something(created) else Ignored("an empty message")


def _says_something(message: MessageCreated) -> bool:
    """Whether there is anything in a message; files come with an empty one beside their notice at some ends."""
    return message.quote is not None or bool(message.content.strip())


def _message(
    raw: JsonObject, channel_id: str, author: User, self_id: str, now_ms: int, *, is_self: bool
) -> MessageCreated:
    content = read_message(raw.get("message"), fallback=raw.get("raw_message"))
    if not content.nodes and content.quote is None:
        content = read_message(raw.get("raw_message"))
    timestamp = read_time_ms(raw, "time", now_ms=now_ms)
    # The same few names come with every frame, and what is said stays in memory for thousands of lines.
    return MessageCreated(
        timestamp=now_ms if timestamp is None else timestamp,
        platform=PLATFORM,
        self_id=intern(self_id),
        channel_id=intern(channel_id),
        message_id=read_id(raw, "message_id"),
        content=content.markup,
        is_direct=channel_id.startswith("private:"),
        user=author,
        guild_id=intern(read_id(raw, "group_id") or read_id(read_object(raw, "sender"), "group_id")),
        quote=content.quote,
        is_self=is_self,
    )


def _channel_id(raw: JsonObject, self_id: str, sender_id: str, *, is_self: bool) -> str:
    """Return the channel of a message, or "" where the frame does not tell.

    `message_type` decides: a private message that came through a group carries that group's id too.
    """
    group_id = read_id(raw, "group_id")
    kind = raw.get("message_type")
    if kind == "group" or (kind is None and group_id):
        return f"group:{group_id}" if group_id else ""
    if kind is not None and kind != "private":
        return ""
    peer = read_id(raw, "target_id") or (sender_id if sender_id != self_id else "") if is_self else sender_id
    return f"private:{peer}" if peer else ""


def _sender_id(raw: JsonObject) -> str:
    return read_id(raw, "user_id") or read_id(read_object(raw, "sender"), "user_id")


def _sender_name(raw: JsonObject) -> str:
    """Return the first name of which something is visible: the mask, the card in the group, the nickname."""
    if raw.get("anonymous") is not None and clean_name(mask := read_text(read_object(raw, "anonymous"), "name"), ""):
        return mask
    sender = read_object(raw, "sender")
    for key in ("card", "nickname"):
        name = read_text(sender, key)
        if name and clean_name(name, ""):
            return name
    return ""


def _uploaded(raw: JsonObject, self_id: str, now_ms: int) -> Normalised:
    """Read the notice of a file as a message that is that file. It has no id, so nothing can quote it."""
    sender_id, group_id = _sender_id(raw), read_id(raw, "group_id")
    is_self = sender_id == self_id
    file = read_object(raw, "file")
    if not sender_id or not file:
        return Ignored("a file without its sender or its name")
    if raw.get("notice_type") == "group_upload":
        channel_id = f"group:{group_id}" if group_id else ""
    else:
        peer = read_id(raw, "target_id") if is_self else sender_id
        channel_id = f"private:{peer}" if peer else ""
    if not channel_id:
        return Ignored("a file without its place")
    if is_self:
        # Whether this process sent it cannot be told: there is no id. Its message, where there is one, tells.
        return Ignored("the account's own file")
    message: JsonObject = {**raw, "message_id": None, "message": [{"type": "file", "data": file}], "raw_message": ""}
    return _message(message, channel_id, User(sender_id, _sender_name(raw)), self_id, now_ms, is_self=False)


def _deleted(raw: JsonObject, self_id: str, now_ms: int) -> Normalised:
    message_id, author = read_id(raw, "message_id"), read_id(raw, "user_id")
    if raw.get("notice_type") == "group_recall":
        group_id, operator = read_id(raw, "group_id"), read_id(raw, "operator_id")
        channel_id = f"group:{group_id}" if group_id else ""
    else:
        # In private only the author can recall, and the standard names the friend alone.
        operator = read_id(raw, "operator_id") or author
        peer = author if author != self_id else read_id(raw, "target_id")
        channel_id = f"private:{peer}" if peer else ""
    if not message_id or not channel_id:
        return Ignored("a recall without its message or place")
    timestamp = read_time_ms(raw, "time", now_ms=now_ms)
    return MessageDeleted(
        timestamp=now_ms if timestamp is None else timestamp,
        platform=PLATFORM,
        self_id=self_id,
        channel_id=channel_id,
        message_id=message_id,
        user_id=author,
        operator_id=operator,
    )


@dataclass(slots=True)
class IntakeCounts:
    """What became of the frames so far."""

    offered: int = 0
    facts: int = 0
    own: int = 0
    """Reports of what this process sent, dropped."""
    lost: int = 0
    """Facts that came before `open`, after `close`, or that the sink refused by a raise."""


class Intake:
    """Where every frame goes first, for reverse, forward and HTTP connections alike."""

    def __init__(self, accounts: Accounts, sent: SentRegistry, clock: Clock) -> None:
        """Start closed: facts are counted as lost until `open`."""
        self._accounts = accounts
        self._sent = sent
        self._clock = clock
        self._sink: Sink | None = None
        self.counts = IntakeCounts()
        self.offsets = ClockOffsets()

    def open(self, sink: Sink) -> None:
        """Hand every fact to `sink` from now on."""
        self._sink = sink

    def close(self) -> None:
        """Hand on no fact any more. Idempotent; sends and API calls go on."""
        self._sink = None

    @property
    def is_open(self) -> bool:
        """Whether facts are handed on."""
        return self._sink is not None

    def offer(self, raw: JsonValue, *, account: str = "") -> None:
        """Take one frame. Never awaits, never raises: a fault here must not end the connection.

        Args:
            raw: the frame as decoded.
            account: the account of the connection.
        """
        self.counts.offered += 1
        try:
            now_ms, monotonic = self._clock.now_ms(), self._clock.monotonic()
            self.offsets.note(raw, account=account, now_ms=now_ms, monotonic=monotonic)
            offset_ms = self._offset_ms(raw, account)
            fact = normalise(raw, now_ms=now_ms, account=account, offset_ms=offset_ms)
            if isinstance(fact, Ignored):
                logger.debug("a frame is no fact: %s", fact.reason)
                return
            self._note_temporary_chat(fact, raw)
            if isinstance(fact, MessageCreated) and fact.is_self and self._sent.is_ours(fact, otherwise=self._hand_on):
                self.counts.own += 1
                return
        except Exception:
            # The boundary of intake: whatever a frame does to us, the next one is read.
            logger.exception("a frame could not be read; it is lost")
            self.counts.lost += 1
            return
        self._hand_on(fact)

    def _offset_ms(self, raw: JsonValue, account: str) -> int:
        if not isinstance(raw, Mapping):
            return 0
        self_id = read_id(raw, "self_id") or account
        is_notice = raw.get("post_type") == "notice"
        return self.offsets.notice_offset_ms(self_id) if is_notice else self.offsets.offset_ms(self_id)

    def _hand_on(self, fact: ChatEvent) -> None:
        if self._sink is None:
            self.counts.lost += 1
            logger.debug("intake is closed: a fact of %s is lost", fact.channel)
            return
        try:
            self._sink(fact)
        except Exception:
            logger.exception("a fact of %s could not be handed on; it is lost", fact.channel)
            self.counts.lost += 1
            return
        self.counts.facts += 1

    def _note_temporary_chat(self, fact: ChatEvent, raw: JsonValue) -> None:
        if isinstance(fact, MessageCreated) and fact.is_direct and not fact.is_self and isinstance(raw, Mapping):
            through = "" if raw.get("sub_type") == "friend" else fact.guild_id
            self._accounts.note_temporary_chat(ChannelRef(sid_of(fact.self_id), fact.channel_id), through)
