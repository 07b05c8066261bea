"""A person's side of the conversation: where they are, who they are, and what is said there and by the bot.

Everything on the wire is `OneBotPeer`'s.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
from websockets.exceptions import ConnectionClosed

from ishiki.cli.lines import BOT_NAME, Line, NumberedAccount, Place
from ishiki.cli.rendering import mention_segments, plain, render
from ishiki.cli.screen import Screen
from ishiki.cli.typed import (
    HELP,
    Attach,
    Group,
    Help,
    Log,
    Private,
    Quit,
    Quote,
    Recall,
    Say,
    Typed,
    TypedError,
    User,
)
from ishiki.jsonvalue import JsonValue, read_object, read_str, without_surrogates
from ishiki.testing.journal import Journal
from ishiki.testing.onebot_account import Member, Sent
from ishiki.testing.onebot_frames import Segment, reply, segment, text
from ishiki.testing.onebot_peer import OneBotPeer

__all__ = ["Conversation"]

MAX_FILE_BYTES = 20 * 1024 * 1024
"""What the bot would download at most (design, safety defaults)."""

_HINT = (
    "kept, not addressed: a group line that does not mention the bot is kept as a fact, and the shipped profile does "
    "not wake on it. @bot in the line, or /quote of a line of the bot's, addresses it."
)
_SHORT_HINT = "kept, not addressed"

_QUOTED_CHARS = 20
"""Characters of a quoted message that are shown."""


@dataclass(slots=True)
class _State:
    """Where the person is, and as whom."""

    place: Place
    user_id: int
    hinted: set[Place] = field(default_factory=set[Place])
    """Groups in which the long hint was shown."""


class Conversation:
    """What a person does through one OneBot end, and what they see of the bot."""

    def __init__(
        self, peer: OneBotPeer, account: NumberedAccount, screen: Screen, *, user_id: int, name: str, echoes: bool
    ) -> None:
        """Start in the private chat of `user_id`.

        Args:
            peer: the end, whose account is `account`.
            account: the end's memory.
            screen: where everything is shown.
            user_id: who speaks at first.
            name: that person's name.
            echoes: whether said lines are printed in full; on a terminal they stand there as typed.
        """
        self._peer = peer
        self._account = account
        self._screen = screen
        self._echoes = echoes
        self._names: dict[int, str] = {account.self_id: BOT_NAME, user_id: name}
        self._state = _State(Place("private", user_id), user_id)
        self._lines: list[Line] = []
        self._heard: Journal[Line] = Journal("messages of the bot")
        self._unanswered: int | None = None
        self._become(user_id, name)

    @property
    def place(self) -> Place:
        """The present chat."""
        return self._state.place

    @property
    def heard(self) -> Journal[Line]:
        """The bot's messages, in order."""
        return self._heard

    @property
    def prompt(self) -> str:
        """What to ask for the next line with."""
        return f"{self.place} {self._name(self._state.user_id)}> "

    async def watch(self) -> None:
        """Show what the bot says and takes back, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_sent)
            tasks.start_soon(self._watch_recalls)

    async def wait_answer(self, within_s: float) -> bool:
        """Return whether the bot has said something since it was last addressed, or does within `within_s` seconds."""
        if self._unanswered is None:
            return True
        try:
            await self._heard.at_least(self._unanswered + 1, within=within_s)
        except TimeoutError:
            return False
        return True

    async def perform(self, typed: Typed) -> bool:
        """Do what was typed.

        Returns:
            False where the chat is to end.

        Raises:
            TypedError: it cannot be done; nothing has happened.
        """
        match typed:
            case Say(words):
                await self._say(self._segments(words))
            case Quote(number, words):
                quoted = self._find(number, of_bot=True)
                quote = reply(self._account.message_id(quoted.number))
                await self._say([quote, *self._segments(words)], addresses=quoted.author_id == self._account.self_id)
            case Recall(number):
                await self._recall(self._find(number, of_bot=False))
            case Attach(kind, path):
                await self._say([await self._attached(kind, path)])
            case Group(group_id, name):
                self._enter(group_id, name)
            case Private():
                self._go(Place("private", self._state.user_id))
            case User(user_id, name):
                self._become(user_id, name)
                self._screen.note(f"you are {self._name(user_id)} ({user_id}), in {self.place}")
            case Log(count):
                self._show_log(count)
            case Help():
                self._screen.text(HELP)
            case Quit():
                return False
        return True

    # Where and who

    def _enter(self, group_id: int, name: str | None) -> None:
        self._account.group(group_id, name=name)
        self._join(group_id, self._state.user_id)
        self._go(Place("group", group_id))

    def _go(self, place: Place) -> None:
        self._state.place = place
        self._screen.note(f"you are in {place}")

    def _become(self, user_id: int, name: str | None) -> None:
        if user_id == self._account.self_id:
            raise TypedError(f"{user_id} is the bot's own account; be somebody else")
        if name:
            self._names[user_id] = without_surrogates(name)
        self._names.setdefault(user_id, f"user {user_id}")
        self._state.user_id = user_id
        self._peer.set_friend(Member(user_id, self._names[user_id]))
        for group_id, group in self._account.groups.items():
            if user_id in group.members:
                self._join(group_id, user_id)
        if self.place.group_id is None:
            self._state.place = Place("private", user_id)
        else:
            self._join(self.place.group_id, user_id)

    def _join(self, group_id: int, user_id: int) -> None:
        member = self._account.group(group_id).members.get(user_id, Member(user_id, ""))
        self._peer.set_member(group_id, replace(member, nickname=self._names[user_id]))

    def _name(self, user_id: int | str) -> str:
        known = self._names.get(int(user_id)) if str(user_id).isdigit() else None
        return known or str(user_id)

    # Saying

    def _segments(self, words: str) -> list[Segment]:
        words = without_surrogates(words)
        if self.place.group_id is None:
            return [text(words)]
        # Of two people with one name it is the later one; @ with an id tells them apart.
        people = {name: user_id for user_id, name in self._names.items()}
        return mention_segments(words, people | {BOT_NAME: self._account.self_id})

    async def _say(self, segments: Sequence[Segment], *, addresses: bool = False) -> None:
        place, user_id = self.place, self._state.user_id
        addresses = addresses or place.kind == "private" or self._mentions_bot(segments)
        message_id = self._account.new_message_id()
        line = self._note(message_id, place, user_id, segments)
        if self._echoes:
            self._screen.message(line.head, line.text)
        if addresses:
            self._unanswered = len(self._heard)
        try:
            await self._peer.say(segments, group_id=place.group_id, user_id=user_id, message_id=message_id)
        except (RuntimeError, ConnectionClosed):
            self._forget(line)
            raise TypedError("there is no connection to the bot; the line was not sent") from None
        if not addresses:
            hint = _SHORT_HINT if place in self._state.hinted else _HINT
            self._state.hinted.add(place)
            self._screen.note(f"#{line.number} {hint}")
        elif not self._echoes:
            self._screen.note(f"#{line.number}")

    def _mentions_bot(self, segments: Sequence[Segment]) -> bool:
        mentioned = {read_str(read_object(one, "data"), "qq") for one in segments if one.get("type") == "at"}
        return bool(mentioned & {str(self._account.self_id), "all"})

    async def _attached(self, kind: str, path: Path) -> Segment:
        """Make the segment of a local file, and keep its bytes for the bot's `get_image` or `get_file`."""
        try:
            size_bytes = (await anyio.Path(path).stat()).st_size
            if size_bytes > MAX_FILE_BYTES:
                raise TypedError(f"{path} is larger than {MAX_FILE_BYTES // (1024 * 1024)} MiB; send a smaller file")
            content = await anyio.Path(path).read_bytes()
        except OSError as fault:
            raise TypedError(f"cannot read {path}: {fault.strerror or type(fault).__name__}") from None
        name, size = without_surrogates(path.name), str(size_bytes)
        known: dict[str, JsonValue] = {"file_name": name, "file_size": size, "url": ""}
        file = {**known, "file": name, "base64": base64.b64encode(content).decode()}
        self._account.files[name] = file
        if kind == "image":
            return segment("image", file=name, url="", file_size=size)
        return segment("file", file=name, file_id=name, file_size=size)

    async def _recall(self, line: Line) -> None:
        is_bots = line.author_id == self._account.self_id
        if is_bots and line.place.kind == "private":
            raise TypedError("in private only the bot can take its own messages back")
        try:
            await self._peer.recall(self._account.message_id(line.number), operator_id=self._state.user_id)
        except (RuntimeError, ConnectionClosed):
            raise TypedError("there is no connection to the bot; it does not hear of the recall") from None
        line.is_recalled = True
        self._screen.note(f"{self._name(self._state.user_id)} took #{line.number} back")

    # Hearing

    async def _watch_sent(self) -> None:
        shown = 0
        while True:
            sent = await self._peer.wait_sent(shown + 1, within=math.inf)
            for one in sent[shown:]:
                self._hear(one)
            shown = len(sent)

    def _hear(self, sent: Sent) -> None:
        place = Place(sent.kind, sent.target_id)
        line = self._note(sent.message_id, place, self._account.self_id, self._unfolded(sent.segments))
        line.position = len(self._heard)
        self._screen.message(line.head, line.text)
        self._heard.add(line)

    def _unfolded(self, segments: Sequence[Segment]) -> list[Segment]:
        """Return the segments with the messages of a forwarded bundle behind it."""
        unfolded: list[Segment] = []
        for one in segments:
            unfolded.append(one)
            if one.get("type") == "forward":
                unfolded.extend(self._account.forwards.get(read_str(read_object(one, "data"), "id"), ()))
        return unfolded

    async def _watch_recalls(self) -> None:
        position = 0
        while True:
            await self._peer.wait_call("delete_msg", since=position, within=math.inf)
            calls = self._peer.calls
            for call in calls[position:]:
                if call.action == "delete_msg":
                    self._take_back(call.params)
            position = len(calls)

    def _take_back(self, params: Mapping[str, JsonValue]) -> None:
        message_id = read_str(params, "message_id")
        number = self._account.number(int(message_id)) if message_id.lstrip("-").isdigit() else 0
        line = next((one for one in self._lines if one.number == number and not one.is_recalled), None)
        if line is not None:
            line.is_recalled = True
            self._screen.note(f"[{line.place}] the bot took #{number} back")

    # Remembering

    def _note(self, message_id: int, place: Place, author_id: int, segments: Sequence[Segment]) -> Line:
        rendered = render(segments, self._name)
        words = rendered.text
        if rendered.quoted_id:
            words = f"{self._quoted(rendered.quoted_id)} {words}"
        line = Line(self._account.number(message_id), place, plain(self._name(author_id)), words, author_id)
        self._lines.append(line)
        return line

    def _quoted(self, message_id: str) -> str:
        number = self._account.number(int(message_id)) if message_id.lstrip("-").isdigit() else 0
        line = next((one for one in self._lines if one.number == number), None)
        if line is None:
            return f"(quotes {plain(message_id)})"
        words = line.text.replace("\n", " ")
        return f"(quotes #{number} {words if len(words) <= _QUOTED_CHARS else f'{words[:_QUOTED_CHARS]}…'})"

    def _forget(self, line: Line) -> None:
        self._lines.remove(line)
        self._account.messages.pop(self._account.message_id(line.number), None)

    def _find(self, number: int | None, *, of_bot: bool) -> Line:
        """Return a message of the present chat; without a number the last one of the bot, or of the speaker."""
        author_id = self._account.self_id if of_bot else self._state.user_id
        for line in reversed(self._lines):
            if line.place != self.place or line.is_recalled:
                continue
            if line.number == number or (number is None and line.author_id == author_id):
                return line
        if number is None:
            raise TypedError(f"{self._name(author_id)} has said nothing in {self.place} yet")
        raise TypedError(f"there is no message #{number} in {self.place}; /log shows those there are")

    def _show_log(self, count: int) -> None:
        here = [line for line in self._lines if line.place == self.place]
        if not here:
            self._screen.note(f"nothing was said in {self.place} yet")
        for line in here[-count:]:
            self._screen.message(line.head, "(taken back)" if line.is_recalled else line.text)
