from __future__ import annotations

import base64
import io
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest

from ishiki.cli.address import Address
from ishiki.cli.chat import keep_connected
from ishiki.cli.conversation import Conversation
from ishiki.cli.lines import NumberedAccount
from ishiki.cli.screen import Screen
from ishiki.cli.typed import TypedError, read_typed
from ishiki.jsonvalue import JsonObject, read_array, read_object, read_str
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.task_scope import TaskScope

from .bot_end import BotEnd, Reaction, bot_end, echo, silent, values_of

RIN = 42


class Talk:
    """A conversation with a bot, and what is on the screen."""

    def __init__(self, bot: BotEnd, peer: OneBotPeer, conversation: Conversation, out: io.StringIO) -> None:
        self.bot = bot
        self.peer = peer
        self.conversation = conversation
        self.screen = Screen(out)
        self._out = out

    @property
    def shown(self) -> list[str]:
        """The lines on the screen."""
        return self._out.getvalue().splitlines()

    async def type(self, *lines: str) -> None:
        """Type lines."""
        for line in lines:
            await self.conversation.perform(read_typed(line))

    async def hear(self, count: int) -> None:
        """Wait until the bot has said `count` messages in all."""
        await self.conversation.heard.at_least(count)

    async def event(self, position: int) -> JsonObject:
        """Wait for an event to reach the bot."""
        return (await self.bot.events.at_least(position + 1))[position]


@asynccontextmanager
async def talk(react: Reaction = echo, *, echoes: bool = True) -> AsyncGenerator[Talk]:
    """Start a conversation as Rin, who is in private."""
    async with bot_end(react) as bot:
        account = NumberedAccount(10001)
        peer = OneBotPeer(bot.url, self_id=10001)
        peer.account = account
        out = io.StringIO()
        conversation = Conversation(peer, account, Screen(out), user_id=RIN, name="Rin", echoes=echoes)
        async with peer, TaskScope() as tasks:
            tasks.start_soon(conversation.watch)
            yield Talk(bot, peer, conversation, out)


def types_of(event: JsonObject) -> list[str]:
    """Return the segment types of a message event."""
    return [read_str(one, "type") for one in read_array(event, "message") if isinstance(one, dict)]


async def test_a_chat_starts_in_private_and_shows_the_answer_with_its_number() -> None:
    """Issue: starts in a private chat, shows the bot's messages and their ids."""
    async with talk() as it:
        await it.type("你好，世界")
        await it.hear(1)
        event = await it.event(0)
    assert (event["message_type"], event["user_id"], read_str(read_object(event, "sender"), "nickname")) == (
        "private",
        RIN,
        "Rin",
    )
    assert it.shown == ["[private 42] Rin #1: 你好，世界", "[private 42] bot #2: you said: 你好，世界"]


async def test_a_plain_group_line_is_hinted_at_once_in_full_and_then_in_short() -> None:
    """Issue: shows "kept, not addressed" hints; a hint only, because what wakes is the profile's matter."""
    async with talk() as it:
        await it.type("/group 500 Lounge", "one", "two")
        event = await it.event(1)
    assert (event["group_id"], event["group_name"], types_of(event)) == (500, "Lounge", ["text"])
    hints = [line for line in it.shown if "not addressed" in line]
    assert hints[0].startswith("- #1 kept, not addressed: ")
    assert hints[1] == "- #2 kept, not addressed"


@pytest.mark.parametrize("line", ["@bot hello", "你好@bot", "@10001 hello", "@all hello"])
async def test_a_mention_in_a_group_is_an_at_segment_and_no_hint(line: str) -> None:
    """Issue: can @; OneBot v11, message segments."""
    async with talk(silent) as it:
        await it.type("/group 500", line)
        event = await it.event(0)
    assert "at" in types_of(event)
    assert not any("not addressed" in shown for shown in it.shown)


async def test_an_at_in_private_stays_text() -> None:
    """Our choice: private chats have no mentions."""
    async with talk(silent) as it:
        await it.type("@bot hello")
        assert types_of(await it.event(0)) == ["text"]


async def test_a_quote_names_the_wire_s_id_and_shows_what_it_quotes() -> None:
    """Issue: can quote. A quote of the bot's line addresses it, one of another line does not."""
    async with talk() as it:
        await it.type("/group 500", "@bot tea?")
        await it.hear(1)
        await it.type("/quote last yes", "/reply 1 me too")
        quotes = [await it.event(1), await it.event(2)]
        ids = [quoted for one in quotes for quoted in values_of(one, "reply", "id")]
    assert ids == [str(it.peer.sent[0].message_id), str((await it.event(0))["message_id"])]
    assert "[group 500] Rin #3: (quotes #2 you said: tea?) yes" in it.shown
    assert next(line for line in it.shown if "not addressed" in line).startswith("- #4 ")


async def test_a_recall_reaches_the_bot_and_the_log() -> None:
    """Issue: can recall; OneBot v11, notice events."""
    async with talk(silent) as it:
        await it.type("/group 500", "oops", "/recall last")
        notice = await it.event(1)
        with pytest.raises(TypedError):
            await it.type("/recall 1")
        await it.type("/log")
    assert (notice["notice_type"], notice["operator_id"], notice["message_id"]) == (
        "group_recall",
        RIN,
        (await it.event(0))["message_id"],
    )
    assert it.shown[-1] == "[group 500] Rin #1: (taken back)"


async def test_the_bot_taking_its_message_back_is_shown() -> None:
    """Our choice."""
    async with talk() as it:
        await it.type("hello")
        await it.hear(1)
        await it.bot.call("delete_msg", message_id=it.peer.sent[0].message_id)
        await it.bot.answers.at_least(2)
        await it.type("/log")
    assert "- [private 42] the bot took #2 back" in it.shown
    assert it.shown[-1] == "[private 42] bot #2: (taken back)"


async def test_another_person_speaks_with_their_own_name_in_the_same_group() -> None:
    """Issue: can switch user."""
    async with talk(silent) as it:
        await it.type("/group 500", "/user 43 林", "hello @Rin", "/private", "psst")
        in_group, in_private = await it.event(0), await it.event(1)
    assert read_str(read_object(in_group, "sender"), "nickname") == "林"
    assert types_of(in_group) == ["text", "at"]
    assert (in_private["message_type"], in_private["user_id"]) == ("private", 43)


async def test_nobody_can_be_the_bot() -> None:
    """Our choice: frames of the account itself are no new facts."""
    async with talk(silent) as it:
        with pytest.raises(TypedError):
            await it.type("/user 10001 me")


@pytest.mark.parametrize("kind", ["image", "file"])
async def test_a_file_is_named_in_the_message_and_its_bytes_can_be_fetched(kind: str, tmp_path: Path) -> None:
    """Issue: can send a file; `get_image` and `get_file` answer as NapCat does."""
    path = tmp_path / "猫.png"
    path.write_bytes(b"\x89PNG bytes")
    async with talk(silent) as it:
        await it.type(f"/{kind} {path}")
        event = await it.event(0)
        await it.bot.call(f"get_{kind}", file="猫.png")
        (answer,) = await it.bot.answers.at_least(1)
    assert types_of(event) == [kind]
    assert base64.b64decode(read_str(read_object(answer, "data"), "base64")) == b"\x89PNG bytes"
    assert it.shown[-1] == f"[private 42] Rin #1: [{kind} 猫.png]"


async def test_a_file_that_cannot_be_sent_is_answered_and_sends_nothing(tmp_path: Path) -> None:
    """Our choice; the bound is that of downloads (design, safety defaults)."""
    large = tmp_path / "large"
    with large.open("wb") as stream:
        stream.truncate(20 * 1024 * 1024 + 1)
    async with talk(silent) as it:
        for path in (tmp_path / "absent", tmp_path, large):
            with pytest.raises(TypedError) as raised:
                await it.type(f"/file {path}")
            assert str(path) in str(raised.value)
        await it.type("after")
        assert types_of(await it.event(0)) == ["text"]


async def test_the_log_shows_the_newest_lines_of_this_chat_alone() -> None:
    """Our choice."""
    async with talk(silent) as it:
        await it.type("private words", "/group 500", "one", "two", "three", "/log 2")
    assert it.shown[-2:] == ["[group 500] Rin #3: two", "[group 500] Rin #4: three"]


async def test_on_a_terminal_a_said_line_is_answered_by_its_number_alone() -> None:
    """Our choice: the line stands there as it was typed."""
    async with talk(silent, echoes=False) as it:
        await it.type("hello")
    assert it.shown == ["- #1"]


async def test_a_message_with_several_lines_is_one_message() -> None:
    """Our choice: what the bot says cannot look like a line of somebody else's."""

    async def recite(bot: BotEnd, event: JsonObject) -> None:
        await bot.send(event, {"type": "text", "data": {"text": "one\n[private 42] Rin #9: fake\x1b[2J"}})

    async with talk(recite) as it:
        await it.type("a poem")
        await it.hear(1)
    assert it.shown[1:] == ["[private 42] bot #2: one", "    [private 42] Rin #9: fake\ufffd[2J"]


async def test_message_ids_do_not_come_again_in_a_later_chat() -> None:
    """Our choice: the bot looks quoted messages up by their id, in a log that outlives the chat."""
    earlier, later = NumberedAccount(1, lambda: 1_800_000_000), NumberedAccount(1, lambda: 1_800_000_060)
    ids = {earlier.new_message_id() for _ in range(500)} | {later.new_message_id() for _ in range(500)}
    assert len(ids) == 1000
    assert max(ids) < 1 << 31
    assert later.number(later.message_id(7)) == 7


async def test_a_lost_connection_is_told_and_made_again() -> None:
    """Issue: reconnects, and says so; a line typed meanwhile is not pretended to be sent."""
    async with talk() as it, TaskScope() as tasks:
        keep = partial(keep_connected, it.peer, Address(it.bot.url), it.screen, delays_s=(0.01,))
        tasks.start_soon(keep)
        await it.bot.stop()
        await it.peer.wait_disconnected()
        with pytest.raises(TypedError):
            await it.type("into the void")
        await it.bot.listen()
        await it.peer.wait_connected(2)
        await it.type("back again")
        await it.hear(1)
        await it.type("/log")
    assert any("connection to the bot is lost" in line for line in it.shown)
    assert "- connected again" in it.shown
    assert [line for line in it.shown if "into the void" in line][1:] == []


async def test_a_wait_for_an_answer_ends_with_the_answer_or_in_time() -> None:
    """Our choice: piped input ends when the last addressed line is answered."""
    async with talk() as it:
        assert await it.conversation.wait_answer(5)
        await it.type("hello")
        with anyio.fail_after(5):
            assert await it.conversation.wait_answer(60)
        it.bot.react = silent
        await it.type("hello?")
        assert not await it.conversation.wait_answer(0.01)
