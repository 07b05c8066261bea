"""`Platform` for OneBot v11: sends, fetches and calls on behalf of one runtime.

Whatever the end does ends in an outcome here, never in an exception, but for `call`. Source: OneBot v11, public API;
the forward and history actions are those of go-cqhttp, NapCat and Lagrange.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import anyio
from nonebot.adapters.onebot.v11.exception import ActionFailed, ApiNotAvailable, OneBotV11AdapterException

from ishiki.contracts.events import ChannelRef, MessageCreated
from ishiki.contracts.platform import ForwardNode, MediaRef, SendOutcome, Standing
from ishiki.contracts.resources import FilePayload
from ishiki.core.clock import Clock
from ishiki.errors import ToolError
from ishiki.jsonvalue import JsonObject, JsonValue, read_array
from ishiki.plugin.accounts import Accounts, ApiLink, self_id_of
from ishiki.plugin.cards import web_url
from ishiki.plugin.connection import NotHandedOverError
from ishiki.plugin.delivery import OutgoingMessage, to_segments
from ishiki.plugin.intake import read_fetched
from ishiki.plugin.publishing import Publisher
from ishiki.plugin.segments import read_forward, read_message
from ishiki.plugin.send_answers import read_failure, words_of_failure
from ishiki.plugin.sent_registry import PendingSend, SentRegistry
from ishiki.plugin.wire import read_id, read_text, read_time_ms

__all__ = ["OneBotPlatform", "PlatformLimits"]

logger = logging.getLogger(__name__)

_NO_MESSAGE_ID: Final = "-1"
"""What go-cqhttp's library gives for a message without a receipt, and its relatives pass on as a success."""

_ADMINS: Final = frozenset({"owner", "admin"})
_NUMBER = re.compile(r"-?[0-9]{1,18}")

_TAKEN_PARAMETERS: Final = frozenset({"self", "bot", "api", "_timeout"})
"""Names that NoneBot's own call uses."""


@dataclass(frozen=True, slots=True)
class PlatformLimits:
    """Seconds that waits on the end may take; a profile's `limits`."""

    send_s: float = 20.0
    """From handing a message over to its answer."""

    fetch_s: float = 2.0
    """For a quoted message or a forwarded bundle."""


@dataclass(frozen=True, slots=True)
class _Fetched:
    """What an action that only reads has brought: nothing where it was refused, or not asked at all."""

    data: JsonValue = None


class OneBotPlatform:
    """OneBot v11, seen by one runtime. Single event loop."""

    def __init__(
        self,
        account: str,
        *,
        accounts: Accounts,
        sent: SentRegistry,
        clock: Clock,
        publisher: Publisher | None = None,
        limits: PlatformLimits | None = None,
    ) -> None:
        """Bind to a default account.

        Args:
            account: the sid that None stands for.
            accounts: all accounts.
            sent: where sends are registered.
            clock: tells the time of messages without one.
            publisher: serves files; None: `publish` fails.
            limits: time limits; the defaults by default.
        """
        self._account = account
        self._accounts = accounts
        self._sent = sent
        self._clock = clock
        self._publisher = publisher
        self._limits = limits or PlatformLimits()

    def is_online(self, account: str | None = None) -> bool:
        """Whether a protocol end is connected for the account."""
        return self._accounts.link(self._self_id(account)) is not None

    async def wait_online(self, account: str | None = None) -> None:
        """Return as soon as a protocol end is connected for the account."""
        await self._accounts.wait_online(self._self_id(account))

    async def send(self, target: ChannelRef, content: str) -> SendOutcome:
        """Send one message of element markup.

        An account that is offline is `unreachable` at once: who can wait for it uses `wait_online`. Once handed over,
        the call is shielded from cancellation for its own limit, so that its outcome is known.
        """
        message = to_segments(content)
        if not message.segments:
            return SendOutcome("refused", detail="there is nothing in it that can be sent", dropped=message.dropped)
        action, params = _send_action(target, self._accounts.temporary_chat(target))
        if not action:
            return SendOutcome("refused", detail=f"{target.channel_id!r} is no channel that can be written to")
        link = self._accounts.link(self_id_of(target.sid))
        if link is None:
            return SendOutcome("unreachable", detail="the account is not connected", dropped=message.dropped)
        sent_content = read_message(list(message.segments)).markup
        pending = self._sent.begin(target, sent_content)
        return await self._hand_over(link, action, {**params, "message": message.segments}, pending, message)

    async def _hand_over(
        self,
        link: ApiLink,
        action: str,
        params: dict[str, object],
        pending: PendingSend,
        message: OutgoingMessage,
    ) -> SendOutcome:
        limit = self._limits.send_s
        outcome = SendOutcome("unknown", detail="no answer in time")
        try:
            with anyio.move_on_after(limit, shield=True):
                outcome = _read_success(cast("JsonValue", await link.call_api(action, _timeout=limit, **params)))
        except ActionFailed as failure:
            outcome = read_failure(_frame_of(failure))
        except (NotHandedOverError, ApiNotAvailable):
            outcome = SendOutcome("unreachable", detail="the account is not connected")
        except OneBotV11AdapterException:
            outcome = SendOutcome("unknown", detail="the connection was lost before the answer")
        finally:
            reported_id = _end(pending, outcome)
        if reported_id:
            # Whatever the answer says: the account's own client shows the message.
            outcome = SendOutcome("sent", reported_id)
        if outcome.state != "sent":
            logger.warning("a message to %s: %s (%s)", pending.channel, outcome.state, outcome.detail)
        elif not outcome.message_id:
            logger.warning("a message to %s was sent, and the end gave no id for it", pending.channel)
        return replace(outcome, dropped=message.dropped)

    async def message(self, message_id: str, *, account: str | None = None) -> MessageCreated | None:
        """Fetch a message; None where the end does not have it, does not answer in time, or did not twice of late."""
        data = await self._fetch("get_msg", {"message_id": _number(message_id)}, account)
        if not isinstance(data, Mapping):
            return None
        named = data if read_id(data, "message_id") else {**data, "message_id": message_id}
        return read_fetched(named, None, self_id=self._self_id(account), now_ms=self._clock.now_ms())

    async def forward(self, forward_id: str, *, account: str | None = None) -> Sequence[ForwardNode] | None:
        """Fetch a forwarded bundle; None where the end does not have it or does not answer in time."""
        # The standard says `id`; NapCat and go-cqhttp also read `message_id`.
        data = await self._fetch("get_forward_msg", {"id": forward_id, "message_id": forward_id}, account)
        if not isinstance(data, Mapping):
            return None
        return read_forward(read_array(data, "message") or read_array(data, "messages"))

    def connection_count(self, account: str | None = None) -> int:
        """Return how often an end has connected for the account."""
        return self._accounts.connection_count(self._self_id(account))

    async def recent_history(self, channel: ChannelRef, count: int) -> Sequence[MessageCreated] | None:
        """Fetch the newest messages of a channel, oldest first; empty where the end does not offer it.

        Not part of OneBot v11: go-cqhttp, NapCat and Lagrange have it. None where it was asked and did not answer, as
        when the connection was lost under the answer.
        """
        kind, _, number = channel.channel_id.partition(":")
        action = "get_group_msg_history" if kind == "group" else "get_friend_msg_history"
        key = "group_id" if kind == "group" else "user_id"
        fetched = await self._ask(action, {key: _number(number), "count": count}, channel.sid)
        if fetched is None:
            return None
        data = fetched.data
        self_id, now_ms = self_id_of(channel.sid), self._clock.now_ms()
        messages = read_array(data, "messages") if isinstance(data, Mapping) else ()
        found = (
            read_fetched(message, channel, self_id=self_id, now_ms=now_ms)
            for message in messages
            if isinstance(message, Mapping)
        )
        read = [message for message in found if message is not None]
        if kind == "private" and not self._accounts.temporary_chat(channel):
            # Where nothing was heard since the start, only the history knows through which group a stranger writes.
            through = next((message.guild_id for message in reversed(read) if not message.is_self), "")
            self._accounts.note_temporary_chat(channel, through)
        return read

    async def standing(self, channel: ChannelRef) -> Standing | None:
        """Return what the end knows of the account's right to speak in a channel; None where it does not tell.

        `shut_up_timestamp` is not part of OneBot v11: go-cqhttp, NapCat, LLBot and Lagrange have it.
        """
        kind, _, number = channel.channel_id.partition(":")
        self_id = self_id_of(channel.sid)
        if kind != "group":
            return None
        params: dict[str, JsonValue] = {"group_id": _number(number), "user_id": _number(self_id), "no_cache": True}
        data = await self._fetch("get_group_member_info", params, channel.sid)
        if not isinstance(data, Mapping) or "shut_up_timestamp" not in data:
            return None
        until_ms = read_time_ms(data, "shut_up_timestamp") or 0
        return Standing(until_ms, is_admin=read_text(data, "role") in _ADMINS)

    async def media(self, ref: MediaRef, *, account: str | None = None) -> str | None:
        """Return an http(s) address of the media: a fresh one where the end gives one, else the one it came with."""
        data = await self._fetch(*_media_action(ref), account) if ref.file else None
        fresh = web_url(read_text(data, "url")) if isinstance(data, Mapping) else ""
        return fresh or web_url(ref.url) or None

    async def call(self, action: str, params: JsonObject, *, account: str | None = None) -> JsonValue:
        """Call an action of OneBot's API, or one of the end's own, and return its data.

        Raises:
            ToolError: the end refused, is not connected or did not answer in time.
        """
        if taken := _TAKEN_PARAMETERS.intersection(params):
            raise ToolError(f"{action}: no action has a parameter {min(taken)!r}; leave it out")
        link = self._accounts.link(self._self_id(account))
        if link is None:
            raise ToolError(f"{action}: the account is not connected")
        target = self._target(params, account) if action.startswith("send_") else None
        content = read_message(params.get("message")).markup
        pending = self._sent.begin(target, content, is_delivery=False) if target is not None else None
        outcome = SendOutcome("unknown")
        try:
            with anyio.fail_after(self._limits.send_s):
                data = await link.call_api(action, _timeout=self._limits.send_s, **params)
            value = cast("JsonValue", data)
            outcome = SendOutcome("sent", read_id(value, "message_id") if isinstance(value, Mapping) else "")
            return value
        except ActionFailed as failure:
            outcome = read_failure(_frame_of(failure))
            raise ToolError(f"{action}: the end refused: {words_of_failure(_frame_of(failure))}") from failure
        except (NotHandedOverError, ApiNotAvailable) as error:
            outcome = SendOutcome("unreachable")
            raise ToolError(f"{action}: the account is not connected") from error
        except (OneBotV11AdapterException, TimeoutError) as error:
            raise ToolError(f"{action}: no answer; it may have had its effect all the same") from error
        finally:
            if pending is not None:
                _end(pending, outcome)

    async def publish(self, payload: FilePayload) -> str:
        """Return a temporary URL under which the protocol end can fetch the bytes.

        Raises:
            ToolError: this process serves no files.
        """
        if self._publisher is None:
            raise ToolError("files cannot be published: the driver has no web server")
        return self._publisher.publish(payload)

    async def _fetch(self, action: str, params: Mapping[str, JsonValue], account: str | None) -> JsonValue:
        """Call an action that only reads; None for whatever goes wrong."""
        fetched = await self._ask(action, params, account)
        return None if fetched is None else fetched.data

    async def _ask(self, action: str, params: Mapping[str, JsonValue], account: str | None) -> _Fetched | None:
        """Call an action that only reads; None where it was asked and no answer came."""
        self_id = self._self_id(account)
        link = self._accounts.link(self_id)
        if link is None or not self._accounts.may_fetch(self_id, self._clock.monotonic()):
            return _Fetched()
        limit, began = self._limits.fetch_s, self._clock.monotonic()
        fetched: _Fetched | None = None
        try:
            with anyio.move_on_after(limit):
                fetched = _Fetched(cast("JsonValue", await link.call_api(action, _timeout=limit, **params)))
        except ActionFailed as failure:
            fetched = _Fetched()
            logger.debug("%s: the end refused: %s", action, words_of_failure(_frame_of(failure)))
        except (NotHandedOverError, ApiNotAvailable) as error:
            logger.debug("%s: %s", action, error)
            return _Fetched()
        except OneBotV11AdapterException as error:
            logger.debug("%s: %s", action, error)
        finally:
            now = self._clock.monotonic()
            # Who asked may have the same limit and give up just before: that is no answer in time either. A connection
            # that is lost at once, or a turn that is cancelled, says nothing about the end.
            if fetched is not None or now - began > limit / 2:
                self._accounts.note_fetch(self_id, now, is_answered=fetched is not None)
        return fetched

    def _self_id(self, account: str | None) -> str:
        self_id = self_id_of(account or self._account)
        # In cross mode a mind may have no account of its own but every account; then one that is there will do.
        return min(self._accounts.online, default=self_id) if self_id == "*" else self_id

    def _target(self, params: JsonObject, account: str | None) -> ChannelRef | None:
        group_id, user_id = read_id(params, "group_id"), read_id(params, "user_id")
        is_group = group_id and params.get("message_type") != "private"
        channel_id = f"group:{group_id}" if is_group else f"private:{user_id}" if user_id else ""
        return ChannelRef(account or self._account, channel_id) if channel_id else None


def _end(pending: PendingSend, outcome: SendOutcome) -> str:
    """End a send and return the id of a report that came before its answer; "" where none did."""
    match outcome.state:
        case "sent":
            return pending.answered(outcome.message_id)
        case "unknown":
            return pending.unanswered()
        case "refused":
            return pending.refused()
        case "unreachable":
            pending.never_sent()
            return ""


def _read_success(data: JsonValue) -> SendOutcome:
    """Read the data of an answer that is no failure.

    An answer without an id (null, 0, an action that was put off) is taken at its word; the account's own report names
    the message, if one comes.
    """
    message_id = read_id(data, "message_id") if isinstance(data, Mapping) else ""
    if message_id == _NO_MESSAGE_ID:
        return SendOutcome("unknown", detail="it was answered without a receipt")
    return SendOutcome("sent", message_id)


def _send_action(target: ChannelRef, through_group: str) -> tuple[str, dict[str, object]]:
    kind, _, number = target.channel_id.partition(":")
    if kind == "group" and number:
        return "send_group_msg", {"group_id": _number(number)}
    if kind == "private" and number:
        through: dict[str, object] = {"group_id": _number(through_group)} if through_group else {}
        return "send_private_msg", {"user_id": _number(number), **through}
    return "", {}


def _media_action(ref: MediaRef) -> tuple[str, dict[str, JsonValue]]:
    match ref.kind:
        case "image":
            return "get_image", {"file": ref.file}
        case "audio":
            return "get_record", {"file": ref.file, "out_format": "mp3"}
        case "video" | "file":
            return "get_file", {"file": ref.file, "file_id": ref.file}


def _number(value: str) -> int | str:
    """Return an id as the number that the standard wants, where it is one."""
    return int(value) if _NUMBER.fullmatch(value) else value


def _frame_of(failure: ActionFailed) -> JsonObject:
    return cast("JsonObject", vars(failure)["info"])  # untyped at its source
