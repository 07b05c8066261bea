"""A OneBot v11 end, like NapCat, on a real WebSocket: people speak through it, and it keeps what the bot sends.

    async with OneBotPeer("ws://127.0.0.1:8080/onebot/v11/ws") as peer:
        await peer.mention("are you there?", group_id=500)
        (answer,) = await peer.wait_sent(1)

This module owns the conversation; frames, memory, API answers and the wire are its neighbours' (`onebot_*`). It is
long because the peer is one object to a test: nearly every method is a few lines of what people or the wire do. Enter
and leave it in one task: inside a test's body, not in an asynchronous fixture that yields.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from types import TracebackType
from typing import Literal, TypeAlias

import anyio
import orjson
from anyio.abc import TaskGroup
from websockets.exceptions import ConnectionClosed

from ishiki.jsonvalue import JsonObject, JsonValue, read_object
from ishiki.testing.journal import DEFAULT_WITHIN_S, Journal
from ishiki.testing.onebot_account import Account, Group, Member, Sent
from ishiki.testing.onebot_actions import (
    BAD_REQUEST,
    NO_SUCH_ACTION,
    Answer,
    AnswerWhen,
    AnswerWith,
    Behaviour,
    Call,
    Done,
    DropSocket,
    Fail,
    NeverAnswer,
    Outcome,
    SelfReport,
    perform,
)
from ishiki.testing.onebot_frames import Frame, MessageFormat, Segment, at, failed, meta, notice, ok, reply, text
from ishiki.testing.onebot_implementations import IMPLEMENTATIONS, Implementation, ImplementationName
from ishiki.testing.onebot_link import ForwardLink, Link, ReverseLink, Socket
from ishiki.testing.task_scope import TaskScope

__all__ = ["DEFAULT_SPEAKER_ID", "MentionPlace", "OneBotPeer", "SelfReport"]

DEFAULT_SPEAKER_ID = 42
"""Who speaks when a test does not care."""

MentionPlace: TypeAlias = Literal["front", "middle", "end"]
"""Where in a line the bot is mentioned."""

_ASYNC_SUFFIXES = ("_async", "_rate_limited")


class OneBotPeer:
    """One account's OneBot v11 end.

    Reverse mode (`url` given): connects to the bot. Forward mode (no `url`): listens, and the bot connects to `url`.

    Args:
        url: the bot's address in reverse mode.
        self_id: the account.
        nickname: the account's name.
        access_token: sent as `Authorization: Bearer …` in reverse mode, demanded in forward mode; None: no token.
        port: where to listen in forward mode; 0 picks a free one.
        message_format: how messages are written in events.
        report_self_message: see `SelfReport`; None: as the implementation does, the textbook's never.
        implementation: a well-known implementation, whose ids, events and answers this end has; None: the textbook's.
        heartbeat_s: seconds between heartbeat events; None: only by `heartbeat()`.
        now: gives Unix seconds for frames.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        self_id: int = 10001,
        nickname: str = "bot",
        access_token: str | None = None,
        port: int = 0,
        message_format: MessageFormat = "array",
        report_self_message: SelfReport | None = None,
        implementation: ImplementationName | None = None,
        heartbeat_s: float | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        known = None if implementation is None else IMPLEMENTATIONS[implementation]
        self._implementation = known
        self._now = now
        self._ahead_s = 0.0
        self.account = Account(self_id, nickname, message_format, self._clock, known)
        self._forward = ForwardLink(port=port, access_token=access_token) if url is None else None
        self._link: Link = self._forward or ReverseLink(url or "", self_id=self_id, access_token=access_token)
        self._report_self_message: SelfReport = report_self_message or (known.self_report if known else "never")
        self._heartbeat_s = heartbeat_s
        self._sent: Journal[Sent] = Journal("messages sent by the bot")
        self._calls: Journal[Call] = Journal("API calls of the bot")
        self._malformed: list[str | bytes] = []
        self._opened: Journal[int] = Journal("connections")
        self._ended: Journal[int] = Journal("ended connections")
        self._scripts: dict[str, deque[tuple[Behaviour, int | None]]] = {}
        self._socket: Socket | None = None
        self._sockets: list[Socket] = []
        self._tasks: TaskGroup | None = None
        self._at_exit: AsyncExitStack | None = None

    async def __aenter__(self) -> OneBotPeer:
        async with AsyncExitStack() as stack:
            self._tasks = await stack.enter_async_context(TaskScope())
            stack.push_async_callback(self._close)
            await self._link.open(self._adopt)
            if self._heartbeat_s is not None:
                self._tasks.start_soon(self._beat, self._heartbeat_s)
            self._at_exit = stack.pop_all()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        stack, self._at_exit = self._at_exit, None
        return None if stack is None else await stack.__aexit__(exc_type, exc, traceback)

    # What the bot did

    @property
    def url(self) -> str:
        """The bot's address in reverse mode, this end's own in forward mode (after entering)."""
        return self._link.url

    @property
    def sent(self) -> list[Sent]:
        """Everything the bot sent so far, oldest first; a copy."""
        return self._sent.items

    @property
    def calls(self) -> list[Call]:
        """Every API call so far, oldest first; a copy."""
        return self._calls.items

    @property
    def malformed(self) -> list[str | bytes]:
        """Frames of the bot that were no API call, as they came; a copy."""
        return list(self._malformed)

    async def wait_sent(self, count: int = 1, *, within: float = DEFAULT_WITHIN_S) -> list[Sent]:
        """Wait until the bot has sent `count` messages in all, and return everything sent so far.

        Raises:
            TimeoutError: fewer came within `within` seconds; the text shows the newest.
        """
        return await self._sent.at_least(count, within=within)

    async def wait_sent_like(
        self, matches: Callable[[Sent], bool], *, since: int = 0, within: float = DEFAULT_WITHIN_S
    ) -> Sent:
        """Wait for the first message that `matches` accepts, from position `since` of `sent` on.

        Raises:
            TimeoutError: none came within `within` seconds.
        """
        return await self._sent.first(matches, since=since, within=within)

    async def sent_before(
        self, marker: Callable[[Sent], bool], *, since: int = 0, within: float = DEFAULT_WITHIN_S
    ) -> list[Sent]:
        """Wait for the first message that `marker` accepts, and return what was sent before it, from `since` on.

        This is how a test proves that a line got no answer. Sleeping proves nothing; instead say the line, then one
        that must be answered, *in the same chat*, where the bot keeps the order: nothing stands before its answer.
        A wake may cover both lines in one answer, so wait first until the line is kept (on disk), and look at the
        model server's requests too.

        Raises:
            TimeoutError: the marker did not come within `within` seconds.
        """
        return await self._sent.before(marker, since=since, within=within)

    async def wait_call(self, action: str, *, since: int = 0, within: float = DEFAULT_WITHIN_S) -> Call:
        """Wait for the first call of `action`, from position `since` of `calls` on.

        Raises:
            TimeoutError: none came within `within` seconds.
        """
        return await self._calls.first(lambda call: call.action == action, since=since, within=within)

    def script(self, action: str, behaviour: Behaviour, *, times: int | None = 1) -> None:
        """Bend the answer to the next calls of `action`, after what was scripted for it before.

        Args:
            action: its name, without `_async`; it need not exist.
            behaviour: what happens instead.
            times: for how many calls; None: for all from then on.
        """
        self._scripts.setdefault(action, deque()).append((behaviour, times))

    def unscript(self, action: str) -> None:
        """Forget what was scripted for `action`."""
        self._scripts.pop(action, None)

    # Who is there

    def set_member(self, group_id: int, member: Member) -> None:
        """Put a person into a group, or change how the group shows them."""
        self.account.group(group_id).members[member.user_id] = member

    def set_friend(self, friend: Member) -> None:
        """Put a person on the friend list, or change them."""
        self.account.friends[friend.user_id] = friend

    def set_group(self, group_id: int, *, name: str | None = None) -> Group:
        """Return a group that the account is in, made where it is new; a group is also made by a line in it."""
        return self.account.group(group_id, name=name)

    # What people do

    async def say(
        self,
        message: str | Sequence[Segment],
        *,
        group_id: int | None = None,
        user_id: int = DEFAULT_SPEAKER_ID,
        message_id: int | None = None,
        time: int | None = None,
        message_format: MessageFormat | None = None,
        fields: JsonObject | None = None,
        is_reported: bool = True,
    ) -> int:
        """Let a person say something.

        Args:
            message: text as typed (brackets and all), or segments; `parse_cq` makes segments of a CQ string.
            group_id: the group, or None for a private chat.
            user_id: who speaks; made a member or friend where unknown.
            message_id: an id of the caller's choice; the next one by default.
            time: Unix seconds; now by default.
            message_format: of this event; the peer's by default.
            fields: laid over the event, such as `{"sub_type": "group", "group_id": 500}` for a temporary session.
            is_reported: False for a line that the bot never hears of, and can only find in the history.

        Returns:
            The message's id.
        """
        speaker = self.account.person(user_id, group_id=group_id)
        kept = self.account.new_message(
            speaker,
            [text(message)] if isinstance(message, str) else message,
            group_id=group_id,
            user_id=user_id,
            message_id=message_id,
            time=time,
            message_format=message_format,
            fields=fields,
        )
        if is_reported:
            await self.send_frame(kept.event)
        return kept.message_id

    async def mention(
        self, message: str, *, group_id: int, user_id: int = DEFAULT_SPEAKER_ID, where: MentionPlace = "front"
    ) -> int:
        """Say a line with an @ of the bot at its front, in its middle or at its end; returns the message's id."""
        cut = {"front": 0, "middle": len(message) // 2, "end": len(message)}[where]
        before, after = message[:cut], message[cut:]
        parts = [*([text(f"{before} ")] if before else []), at(self.account.self_id)]
        if after:
            parts.append(text(f" {after}"))
        return await self.say(parts, group_id=group_id, user_id=user_id)

    async def quote(
        self, quoted_id: int, message: str, *, group_id: int | None = None, user_id: int = DEFAULT_SPEAKER_ID
    ) -> int:
        """Answer an earlier message by quoting it; returns the new message's id."""
        return await self.say([reply(quoted_id), text(message)], group_id=group_id, user_id=user_id)

    async def say_through_group(self, message: str, *, group_id: int, user_id: int = DEFAULT_SPEAKER_ID) -> int:
        """Let a member of a group, who is no friend, write in private; returns the message's id."""
        member = self.account.person(user_id, group_id=group_id)
        fields = self._preset.temporary(group_id)
        fields["sender"] = {**member.sender("private"), **read_object(fields, "sender")}
        kept = self.account.new_message(member, [text(message)], group_id=None, user_id=user_id, fields=fields)
        await self.send_frame(kept.event)
        return kept.message_id

    async def upload(
        self, name: str, size_bytes: int, *, group_id: int | None = None, user_id: int = DEFAULT_SPEAKER_ID
    ) -> None:
        """Let a person upload a file, as the implementation tells of it: by a message, a notice, or both."""
        upload = self._preset.upload(name, size_bytes, group_id is not None)
        place: Frame = {} if group_id is None else {"group_id": group_id}

        async def tell() -> None:
            if upload.notice_type:
                await self.notice(upload.notice_type, user_id=user_id, file=upload.file, **place)

        if upload.is_notice_first:
            await tell()
        await self.say(upload.segments, group_id=group_id, user_id=user_id)
        if not upload.is_notice_first:
            await tell()

    @property
    def _preset(self) -> Implementation:
        if self._implementation is None:
            raise RuntimeError("the standard does not say how this is told: name an implementation")
        return self._implementation

    async def say_from_phone(
        self, message: str | Sequence[Segment], *, group_id: int | None = None, user_id: int | None = None
    ) -> int:
        """Let the account's owner speak from another device: a `message_sent` that the bot did not cause.

        Args:
            message: text or segments.
            group_id: the group; or
            user_id: the person written to.

        Returns:
            The message's id.
        """
        if (group_id is None) == (user_id is None):
            raise ValueError("say_from_phone needs exactly one of group_id and user_id")
        speaker = self.account.itself if group_id is None else self.account.person(self.self_id, group_id=group_id)
        segments = [text(message)] if isinstance(message, str) else message
        kept = self.account.new_message(speaker, segments, group_id=group_id, user_id=user_id or 0)
        await self.send_frame(kept.event)
        return kept.message_id

    @property
    def self_id(self) -> int:
        """The account."""
        return self.account.self_id

    async def recall(self, message_id: int, *, operator_id: int | None = None) -> None:
        """Take a message back; the end forgets it.

        Args:
            message_id: a message of `say` or of the bot; use `notice` for one that this end does not know.
            operator_id: who does it in a group; the author by default.

        Raises:
            KeyError: the end does not know the message.
        """
        kept = self.account.messages.pop(message_id)
        author = kept.event["user_id"]
        if kept.kind == "private":
            await self.notice("friend_recall", user_id=author, message_id=message_id)
            return
        operator = author if operator_id is None else operator_id
        await self.notice(
            "group_recall", group_id=kept.target_id, user_id=author, operator_id=operator, message_id=message_id
        )

    async def mute(self, *, group_id: int, user_id: int, duration_s: int = 600, operator_id: int = 1) -> None:
        """Mute a member, also the bot; 0 seconds lifts it."""
        group = self.account.group(group_id)
        (group.muted.add if duration_s else group.muted.discard)(user_id)
        group.muted_until[user_id] = int(self.account.now()) + duration_s if duration_s else 0
        await self.notice(
            "group_ban",
            sub_type="ban" if duration_s else "lift_ban",
            group_id=group_id,
            operator_id=operator_id,
            user_id=user_id,
            duration=duration_s,
        )

    async def join(self, member: Member, *, group_id: int, operator_id: int = 0) -> None:
        """Let a person join a group."""
        self.set_member(group_id, member)
        await self.notice(
            "group_increase", sub_type="approve", group_id=group_id, operator_id=operator_id, user_id=member.user_id
        )

    async def leave(self, *, group_id: int, user_id: int) -> None:
        """Let a member leave a group."""
        self.account.group(group_id).members.pop(user_id, None)
        await self.notice("group_decrease", sub_type="leave", group_id=group_id, operator_id=user_id, user_id=user_id)

    async def poke(
        self, *, group_id: int | None = None, user_id: int = DEFAULT_SPEAKER_ID, target_id: int | None = None
    ) -> None:
        """Let a person poke someone, the bot by default."""
        place: Frame = {} if group_id is None else {"group_id": group_id}
        target = self.self_id if target_id is None else target_id
        await self.notice("notify", sub_type="poke", user_id=user_id, target_id=target, **place)

    async def notice(self, notice_type: str, **fields: JsonValue) -> None:
        """Send any notice event (standard, event/notice)."""
        await self.emit(notice(notice_type, **fields))

    async def heartbeat(self) -> None:
        """Send a heartbeat event (standard, event/meta)."""
        interval_ms = int((self._heartbeat_s or 30) * 1000)
        await self.emit(meta("heartbeat", status={"online": True, "good": True}, interval=interval_ms))

    async def emit(self, event: JsonObject) -> None:
        """Send an event; `time` and `self_id` are added where it has none."""
        await self.send_frame({"time": int(self.account.now()), "self_id": self.self_id, **event})

    async def send_frame(self, frame: JsonObject | str | bytes) -> None:
        """Send a frame as it is: an object as JSON, a string as a text frame, bytes as a binary frame.

        Raises:
            RuntimeError: no bot is connected.
            ConnectionClosed: the bot has closed the connection meanwhile.
        """
        if self._socket is None:
            raise RuntimeError("no bot is connected to this peer: reconnect(), or wait_connected() in forward mode")
        await self._socket.send(frame if isinstance(frame, str | bytes) else orjson.dumps(frame).decode())

    def set_clock(self, ahead_s: float) -> None:
        """Set the clock of this end `ahead_s` seconds ahead of the right time; negative: behind it."""
        self._ahead_s = ahead_s

    def _clock(self) -> float:
        return self._now() + self._ahead_s

    # The wire

    async def flushed(self) -> None:
        """Return when the bot's WebSocket has taken in everything said so far.

        It says nothing about whether the bot has *looked* at it; use it before `drop()`, which may lose what is still
        on its way.

        Raises:
            RuntimeError: no bot is connected.
        """
        if self._socket is None:
            raise RuntimeError("no bot is connected to this peer")
        await self._socket.round_trip()

    def drop(self) -> None:
        """Cut the connection without a close handshake, as a power cut does."""
        if self._socket is not None:
            self._socket.abort()
            self._socket = None

    def half_open(self) -> None:
        """Go silent on the connection and leave it open: nothing is read, answered, pinged or closed any more."""
        if self._socket is not None:
            self._socket.go_deaf()
            self._socket = None

    async def disconnect(self) -> None:
        """Close the connection with a handshake, as an end does that is stopped in order."""
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()

    async def reconnect(self) -> None:
        """Connect once more (reverse mode) and speak there from now on; an earlier connection is left as it is.

        Raises:
            OSError: nobody listens.
            InvalidStatus: the bot refused the handshake.
            RuntimeError: this is forward mode.
        """
        await self._link.redial()

    async def wait_connected(self, count: int = 1, *, within: float = DEFAULT_WITHIN_S) -> None:
        """Wait until there have been `count` connections in all.

        Raises:
            TimeoutError: there were fewer within `within` seconds.
        """
        await self._opened.at_least(count, within=within)

    async def wait_disconnected(self, count: int = 1, *, within: float = DEFAULT_WITHIN_S) -> None:
        """Wait until `count` connections in all have ended, by whichever side.

        Raises:
            TimeoutError: fewer ended within `within` seconds.
        """
        await self._ended.at_least(count, within=within)

    def refuse(self, status: HTTPStatus | None = HTTPStatus.SERVICE_UNAVAILABLE) -> None:
        """Answer handshakes with `status` from now on (forward mode); None accepts them again."""
        self._listening().refusal = status

    def close_port(self) -> None:
        """Stop listening (forward mode): dialling fails at TCP until `open_port`."""
        self._listening().stop_listening()

    async def open_port(self) -> None:
        """Listen again on the same port (forward mode)."""
        await self._listening().listen()

    def _listening(self) -> ForwardLink:
        if self._forward is None:
            raise RuntimeError("in reverse mode this peer does not listen")
        return self._forward

    @property
    def _running(self) -> TaskGroup:
        if self._tasks is None:
            raise RuntimeError("the peer is not open: use it with `async with`")
        return self._tasks

    async def _adopt(self, socket: Socket) -> None:
        self._sockets.append(socket)
        self._socket = socket
        self._running.start_soon(self._serve, socket)
        with suppress(ConnectionClosed):  # a bot that leaves at once
            await self.emit(meta("lifecycle", sub_type="connect"))
        self._opened.add(len(self._sockets))

    async def _serve(self, socket: Socket) -> None:
        await socket.read(partial(self._on_frame, socket))
        await socket.wait_gone()
        if self._socket is socket:
            self._socket = None
        self._ended.add(self._sockets.index(socket) + 1)

    async def _beat(self, interval_s: float) -> None:
        while True:
            await anyio.sleep(interval_s)
            if self._socket is not None:
                with suppress(ConnectionClosed):
                    await self.heartbeat()

    async def _close(self) -> None:
        for socket in self._sockets:
            await socket.close()
        await self._link.close()

    # API calls

    async def _on_frame(self, socket: Socket, raw: str | bytes) -> None:
        call = self._read_call(raw)
        if call is None:
            self._malformed.append(raw)
            await self._answer(socket, failed(BAD_REQUEST, "the frame is no API call", None))
            return
        self._calls.add(call)
        match self._next_behaviour(call.action):
            case None:
                await self._finish(socket, call, self._perform(call))
            case Answer(data):
                await self._answer(socket, ok(data, call.echo))
            case Fail() as refusal:
                await self._finish(socket, call, refusal)
            case NeverAnswer(performs):
                if performs:
                    self._perform(call)
            case AnswerWith() as form:
                await self._answer_with(socket, call, form)
            case AnswerWhen(event, refusal):
                outcome = refusal or self._perform(call)
                self._running.start_soon(self._finish_when, event, socket, call, outcome)
            case DropSocket(performs):
                if performs:
                    self._perform(call)
                socket.abort()

    def _read_call(self, raw: str | bytes) -> Call | None:
        try:
            frame: JsonValue = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(frame, Mapping):
            return None
        action = frame.get("action")
        if not isinstance(action, str):
            return None
        return Call(action, read_object(frame, "params"), frame.get("echo"), self.account.now())

    def _next_behaviour(self, action: str) -> Behaviour | None:
        queue = self._scripts.get(_plain(action))
        if not queue:
            return None
        behaviour, times = queue.popleft()
        if times is None or times > 1:
            queue.appendleft((behaviour, None if times is None else times - 1))
        return behaviour

    def _perform(self, call: Call) -> Outcome:
        outcome = self._as_implemented(call, perform(self.account, _plain(call.action), call.params))
        if isinstance(outcome, Done) and outcome.sent is not None:
            self._sent.add(outcome.sent)
        return outcome

    def _as_implemented(self, call: Call, outcome: Outcome) -> Outcome:
        preset, action = self._implementation, _plain(call.action)
        if preset is None:
            return outcome
        if isinstance(outcome, Fail):
            if outcome.retcode == NO_SUCH_ACTION:
                return Fail(preset.unknown_action[0], preset.unknown_action[1].format(action))
            return Fail(*preset.missing) if action == "get_msg" else outcome
        if preset.refuses_history(action, outcome.data):
            return Fail(*preset.missing)
        return replace(outcome, data=preset.answer(action, outcome.data))

    async def _finish_when(self, event: anyio.Event, socket: Socket, call: Call, outcome: Outcome) -> None:
        await event.wait()
        await self._finish(socket, call, outcome)

    async def _finish(self, socket: Socket, call: Call, outcome: Outcome) -> None:
        if isinstance(outcome, Fail):
            await self._answer(socket, failed(outcome.retcode, outcome.wording, call.echo))
            return
        own = [outcome.own_message.event] if outcome.own_message is not None else []
        if self._report_self_message == "before_answer":
            await self._report(socket, own)
        is_async = _plain(call.action) != call.action
        await self._answer(socket, ok(None if is_async else outcome.data, call.echo, is_async=is_async))
        if self._report_self_message == "after_answer":
            await self._report(socket, own)
        await self._report(socket, outcome.events)

    async def _answer_with(self, socket: Socket, call: Call, form: AnswerWith) -> None:
        outcome = self._perform(call) if form.performs else None
        own = outcome.own_message if isinstance(outcome, Done) else None
        data = form.frame.get("data")
        frame = {**form.frame, "echo": call.echo}
        if isinstance(data, Mapping) and data.get("message_id", 0) is None and own is not None:
            frame["data"] = {**data, "message_id": own.message_id}
        report = form.report or self._report_self_message
        events = [own.event] if own is not None else []
        if report == "before_answer":
            await self._report(socket, events)
        await self._answer(socket, frame)
        if report == "after_answer":
            await self._report(socket, events)

    async def _report(self, socket: Socket, events: Sequence[Frame]) -> None:
        for event in events:
            await self._answer(socket, {"time": int(self.account.now()), "self_id": self.self_id, **event})

    async def _answer(self, socket: Socket, frame: Frame) -> None:
        if socket.is_deaf:
            return
        if self._implementation is not None and "retcode" in frame:
            frame = self._implementation.frame(frame)
        with suppress(ConnectionClosed):  # nobody is left to read it
            await socket.send(orjson.dumps(frame).decode())


def _plain(action: str) -> str:
    """Return the action without the suffix that asks for no answer's data (standard, api)."""
    for suffix in _ASYNC_SUFFIXES:
        action = action.removesuffix(suffix)
    return action
