"""The OneBot end over a real WebSocket; the bot's side is played here with the plain `websockets` library."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus

import anyio
import orjson
import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, ConnectionClosedOK, InvalidStatus

from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_object
from ishiki.testing.onebot_account import Member
from ishiki.testing.onebot_actions import Answer, AnswerWhen, DropSocket, Fail, NeverAnswer
from ishiki.testing.onebot_frames import at, image, reply, text
from ishiki.testing.onebot_peer import MentionPlace, OneBotPeer, SelfReport

pytestmark = pytest.mark.timeout(20)


class Bot:
    """The bot's side of one connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._events: list[JsonObject] = []
        self._calls = 0

    async def frame(self) -> JsonObject:
        with anyio.fail_after(5):
            return orjson.loads(await self.connection.recv())

    async def event(self) -> JsonObject:
        return self._events.pop(0) if self._events else await self.frame()

    async def start(self, action: str, **params: JsonValue) -> int:
        self._calls += 1
        await self.connection.send(orjson.dumps({"action": action, "params": params, "echo": self._calls}).decode())
        return self._calls

    async def call(self, action: str, **params: JsonValue) -> JsonObject:
        echo = await self.start(action, **params)
        while (frame := await self.frame()).get("echo") != echo:
            self._events.append(frame)
        return frame

    async def data(self, action: str, **params: JsonValue) -> JsonObject:
        answer = await self.call(action, **params)
        assert (answer["status"], answer["retcode"]) == ("ok", 0), answer
        return read_object(answer, "data")


class ListeningBot:
    """A bot that waits for ends to connect, as NoneBot does in reverse mode."""

    def __init__(self) -> None:
        self.url = ""
        self.handshakes: list[ServerConnection] = []
        self._send, self._receive = anyio.create_memory_object_stream[Bot](8)

    async def accept(self) -> Bot:
        with anyio.fail_after(5):
            bot = await self._receive.receive()
        assert (await bot.event())["meta_event_type"] == "lifecycle"
        return bot

    async def handle(self, connection: ServerConnection) -> None:
        self.handshakes.append(connection)
        self._send.send_nowait(Bot(connection))
        await connection.wait_closed()

    def close(self) -> None:
        self._send.close()
        self._receive.close()


@asynccontextmanager
async def listening_bot() -> AsyncGenerator[ListeningBot]:
    """A bot on a free port."""
    bot = ListeningBot()
    async with serve(bot.handle, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        bot.url = f"ws://127.0.0.1:{port}/onebot/v11/ws"
        yield bot
    bot.close()


@asynccontextmanager
async def joined() -> AsyncGenerator[tuple[OneBotPeer, Bot]]:
    """A connected pair; the account is in group 500 with a member Rin, and has a friend Aki."""
    async with listening_bot() as listening, OneBotPeer(listening.url) as peer:
        peer.set_member(500, Member(42, "rin_", card="Rin", role="admin"))
        peer.set_friend(Member(43, "Aki"))
        yield peer, await listening.accept()


async def test_reverse_mode_introduces_the_account_in_the_handshake() -> None:
    """OneBot v11, communication/ws-reverse and authorization."""
    async with listening_bot() as listening, OneBotPeer(listening.url, self_id=77, access_token="s3cret"):
        bot = await listening.accept()
        request = listening.handshakes[0].request
        assert request is not None
        assert request.path == "/onebot/v11/ws"
        assert request.headers["X-Self-ID"] == "77"
        assert request.headers["X-Client-Role"] == "Universal"
        assert request.headers["Authorization"] == "Bearer s3cret"
        assert bot.connection.state.name == "OPEN"


async def test_the_first_frame_is_the_lifecycle_event() -> None:
    """OneBot v11, event/meta: lifecycle, sub_type connect."""
    async with OneBotPeer(self_id=77, now=lambda: 1000.5) as peer, connect(peer.url, proxy=None) as socket:
        assert await Bot(socket).event() == {
            "time": 1000,
            "self_id": 77,
            "post_type": "meta_event",
            "meta_event_type": "lifecycle",
            "sub_type": "connect",
        }


async def test_a_group_line_has_every_field_of_the_standard() -> None:
    """OneBot v11, event/message, group; message_format and message_seq as NapCat."""
    async with joined() as (peer, bot):
        message_id = await peer.say("a [b]", group_id=500, time=1234)
        assert await bot.event() == {
            "time": 1234,
            "self_id": 10001,
            "post_type": "message",
            "message_type": "group",
            "sub_type": "normal",
            "message_id": message_id,
            "message_seq": message_id,
            "group_id": 500,
            "group_name": "group 500",
            "user_id": 42,
            "anonymous": None,
            "message": [{"type": "text", "data": {"text": "a [b]"}}],
            "raw_message": "a &#91;b&#93;",
            "message_format": "array",
            "font": 14,
            "sender": {
                "user_id": 42,
                "nickname": "rin_",
                "card": "Rin",
                "sex": "unknown",
                "age": 0,
                "area": "",
                "level": "1",
                "role": "admin",
                "title": "",
            },
        }


async def test_a_private_line_has_no_group_unless_a_test_adds_one() -> None:
    """OneBot v11, event/message, private; `group_id` in temporary sessions as NapCat."""
    async with joined() as (peer, bot):
        await peer.say("hello", user_id=43)
        event = await bot.event()
        assert (event["message_type"], event["sub_type"], event["user_id"]) == ("private", "friend", 43)
        assert "group_id" not in event
        await peer.say("hello", user_id=44, fields={"sub_type": "group", "group_id": 500})
        event = await bot.event()
        assert (event["message_type"], event["sub_type"], event["group_id"]) == ("private", "group", 500)


async def test_the_string_format_writes_cq_codes() -> None:
    """OneBot v11, message/string."""
    async with joined() as (peer, bot):
        await peer.say([at(10001), text(" hi, [you]")], group_id=500, message_format="string")
        event = await bot.event()
        assert event["message"] == event["raw_message"] == "[CQ:at,qq=10001] hi, &#91;you&#93;"
        assert event["message_format"] == "string"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("front", [at(10001), text(" abcd")]),
        ("middle", [text("ab "), at(10001), text(" cd")]),
        ("end", [text("abcd "), at(10001)]),
    ],
)
async def test_a_mention_stands_where_the_test_puts_it(where: MentionPlace, expected: JsonValue) -> None:
    """OneBot v11, message segments, at."""
    async with joined() as (peer, bot):
        await peer.mention("abcd", group_id=500, where=where)
        assert (await bot.event())["message"] == expected


async def test_message_ids_increase_over_people_and_bot() -> None:
    """OneBot v11, api/send_group_msg: an id that get_msg takes."""
    async with joined() as (peer, bot):
        first = await peer.say("one", group_id=500)
        sent = await bot.data("send_group_msg", group_id=500, message="two")
        third = await peer.quote(first, "three", group_id=500)
        assert [first, sent["message_id"], third] == [first, first + 1, first + 2]
        assert (await bot.event())["message_id"] == first
        assert read_array(await bot.event(), "message")[0] == reply(first)


async def test_what_the_bot_sends_is_kept_with_place_and_text() -> None:
    """OneBot v11, api/send_group_msg, send_private_msg, send_msg."""
    async with joined() as (peer, bot):
        await bot.data("send_group_msg", group_id=500, message="[CQ:reply,id=9]hi [CQ:at,qq=42]")
        await bot.data("send_private_msg", user_id="43", message=[text("psst"), image("a.png")])
        await bot.data("send_msg", group_id=500, message="[CQ:at,qq=42]", auto_escape=True)
        await bot.data("send_msg", message_type="private", user_id=43, group_id=500, message=text("one"))
        sent = await peer.wait_sent(4)
        assert [(one.kind, one.target_id, one.text) for one in sent] == [
            ("group", 500, "hi @42"),
            ("private", 43, "psst[image]"),
            ("group", 500, "[CQ:at,qq=42]"),
            ("private", 43, "one"),
        ]
        assert sent[0].quoted_ids == ["9"]
        assert sent[0].mentioned_ids == ["42"]
        assert sent[0].message == "[CQ:reply,id=9]hi [CQ:at,qq=42]"


_REFUSED: list[tuple[str, JsonObject, int]] = [
    ("send_group_msg", {"group_id": 501, "message": "to a group it is not in"}, 1200),
    ("send_private_msg", {"user_id": 4, "message": "to a stranger"}, 1200),
    ("send_group_msg", {"group_id": 500, "message": ""}, 1200),
    ("send_group_msg", {"group_id": 500}, 1400),
    ("send_group_msg", {"message": "nowhere"}, 1400),
    ("get_msg", {"message_id": 5}, 1200),
    ("get_group_member_info", {"group_id": 500, "user_id": 5}, 1200),
    ("get_group_member_info", {"group_id": 501, "user_id": 42}, 1200),
    ("get_group_member_list", {"group_id": 501}, 1200),
    ("get_group_info", {}, 1400),
    ("get_stranger_info", {"user_id": 5}, 1200),
    ("get_stranger_info", {}, 1400),
    ("get_friend_msg_history", {}, 1400),
    ("get_group_msg_history", {"group_id": 501}, 1200),
    ("get_forward_msg", {"id": "x"}, 1200),
    ("get_image", {"file": "x"}, 1200),
    ("delete_msg", {}, 1400),
    ("delete_msg", {"message_id": 5}, 1200),
    ("send_private_msg", {"message": "to nobody"}, 1400),
    ("send_private_msg", {"user_id": 43, "message": []}, 1200),
    ("send_private_msg", {"user_id": 43, "message": 7}, 1400),
    ("send_group_forward_msg", {"group_id": 500, "messages": []}, 1400),
    ("send_private_forward_msg", {"user_id": 4, "messages": [{"type": "node", "data": {}}]}, 1200),
    ("set_group_ban", {"group_id": 500}, 1400),
    ("set_group_ban", {"group_id": 501, "user_id": 42}, 1200),
    ("set_group_card", {"group_id": 500, "user_id": 5}, 1200),
    ("set_group_card", {"group_id": 501, "user_id": 42}, 1200),
    ("set_group_kick", {"group_id": 500, "user_id": 5}, 1200),
    ("set_group_kick", {"group_id": 501, "user_id": 42}, 1200),
    ("set_group_name", {"group_id": 501, "group_name": "x"}, 1200),
    ("set_group_whole_ban", {"group_id": 501}, 1200),
    ("set_group_leave", {"group_id": 501}, 1200),
    ("no_such_action", {}, 1404),
]


@pytest.mark.parametrize(("action", "params", "retcode"), _REFUSED)
async def test_what_cannot_be_done_is_refused_with_a_wording(action: str, params: JsonObject, retcode: int) -> None:
    """OneBot v11, api: failed answers; retcodes 1400 and 1404 from communication/ws, 1200 as NapCat."""
    async with joined() as (peer, bot):
        answer = await bot.call(action, **params)
        assert (answer["status"], answer["retcode"], answer["data"]) == ("failed", retcode, None)
        assert answer["wording"]
        assert peer.sent == []
        assert peer.calls[-1].action == action


async def test_a_muted_bot_cannot_send_until_the_mute_is_lifted() -> None:
    """OneBot v11, event/notice, group_ban."""
    async with joined() as (peer, bot):
        await peer.mute(group_id=500, user_id=10001)
        event = await bot.event()
        assert (event["notice_type"], event["sub_type"], event["user_id"]) == ("group_ban", "ban", 10001)
        assert (await bot.call("send_group_msg", group_id=500, message="hm"))["status"] == "failed"
        await peer.mute(group_id=500, user_id=10001, duration_s=0)
        await bot.data("send_group_msg", group_id=500, message="free")
        assert [one.text for one in peer.sent] == ["free"]


async def test_get_msg_returns_what_was_said_until_it_is_recalled() -> None:
    """OneBot v11, api/get_msg and event/notice, group_recall."""
    async with joined() as (peer, bot):
        message_id = await peer.say("oops", group_id=500)
        kept = await bot.data("get_msg", message_id=message_id)
        assert kept["message"] == [text("oops")]
        assert read_object(kept, "sender")["card"] == "Rin"
        await bot.event()
        await peer.recall(message_id, operator_id=1)
        event = await bot.event()
        assert {key: event[key] for key in ("notice_type", "group_id", "user_id", "operator_id", "message_id")} == {
            "notice_type": "group_recall",
            "group_id": 500,
            "user_id": 42,
            "operator_id": 1,
            "message_id": message_id,
        }
        assert (await bot.call("get_msg", message_id=message_id))["status"] == "failed"


async def test_the_bot_recalls_its_own_message_and_hears_of_it() -> None:
    """OneBot v11, api/delete_msg."""
    async with joined() as (_, bot):
        message_id = (await bot.data("send_group_msg", group_id=500, message="wrong"))["message_id"]
        await bot.data("delete_msg", message_id=message_id)
        event = await bot.event()
        assert (event["notice_type"], event["message_id"], event["operator_id"]) == ("group_recall", message_id, 10001)


async def test_the_history_holds_lines_that_the_bot_never_heard() -> None:
    """go-cqhttp and NapCat, get_group_msg_history: newest ones, oldest first."""
    async with joined() as (peer, bot):
        ids = [await peer.say(f"line {i}", group_id=500, is_reported=False) for i in range(25)]
        await peer.say("elsewhere", group_id=501, is_reported=False)
        history = read_array(await bot.data("get_group_msg_history", group_id=500), "messages")
        assert [_message_id(one) for one in history] == ids[-20:]
        older = await bot.data("get_group_msg_history", group_id=500, message_seq=ids[2], count=2)
        assert [_message_id(one) for one in read_array(older, "messages")] == ids[1:3]
        await peer.say("heard", user_id=43)
        friends = await bot.data("get_friend_msg_history", user_id=43)
        assert len(read_array(friends, "messages")) == 1


def _message_id(event: JsonValue) -> JsonValue:
    assert isinstance(event, dict)
    return event["message_id"]


async def test_a_forward_message_can_be_sent_and_read() -> None:
    """OneBot v11, api/get_forward_msg; sending as go-cqhttp and NapCat."""
    async with joined() as (peer, bot):
        node: JsonObject = {"type": "node", "data": {"user_id": "1", "nickname": "x", "content": [text("inside")]}}
        made = await bot.data("send_group_forward_msg", group_id=500, messages=[node])
        assert peer.sent[0].segments[0]["type"] == "forward"
        assert await bot.data("get_forward_msg", id=made["forward_id"]) == {"message": [node]}


async def test_people_and_groups_can_be_asked_about() -> None:
    """OneBot v11, api: get_login_info, get_group_info, get_group_member_info, get_stranger_info, lists."""
    async with joined() as (peer, bot):
        peer.set_group(500, name="Tea")
        assert await bot.data("get_login_info") == {"user_id": 10001, "nickname": "bot"}
        assert (await bot.data("get_group_info", group_id=500))["group_name"] == "Tea"
        member = await bot.data("get_group_member_info", group_id=500, user_id=42)
        assert (member["group_id"], member["card"], member["role"]) == (500, "Rin", "admin")
        assert (await bot.data("get_stranger_info", user_id=43))["nickname"] == "Aki"
        members = (await bot.call("get_group_member_list", group_id=500))["data"]
        assert isinstance(members, list)
        assert len(members) == 2
        assert (await bot.call("get_friend_list"))["data"] == [{"user_id": 43, "nickname": "Aki", "remark": ""}]
        peer.account.files["a.png"] = {"file": "a.png", "url": "http://127.0.0.1/a.png"}
        assert (await bot.data("get_image", file="a.png"))["url"] == "http://127.0.0.1/a.png"


async def test_moderation_changes_the_group_and_is_reported() -> None:
    """OneBot v11, api: set_group_ban, set_group_card, set_group_kick, set_group_whole_ban, set_group_leave."""
    async with joined() as (peer, bot):
        await bot.data("set_group_ban", group_id=500, user_id=42, duration=60)
        await bot.data("set_group_card", group_id=500, user_id=42, card="R")
        group = peer.account.groups[500]
        assert group.muted == {42}
        assert group.members[42].card == "R"
        await bot.data("set_group_kick", group_id=500, user_id=42)
        assert 42 not in group.members
        await bot.data("set_group_whole_ban", group_id=500)
        assert (await bot.call("send_group_msg", group_id=500, message="hm"))["status"] == "failed"
        await bot.data("set_group_leave", group_id=500)
        assert 500 not in peer.account.groups
        assert [(await bot.event())["notice_type"] for _ in range(2)] == ["group_ban", "group_decrease"]


async def test_a_temporary_session_reaches_a_member_who_is_no_friend() -> None:
    """go-cqhttp and NapCat, send_private_msg with group_id."""
    async with joined() as (peer, bot):
        assert (await bot.call("send_private_msg", user_id=42, message="hi"))["status"] == "failed"
        await bot.data("send_private_msg", user_id=42, group_id=500, message="hi")
        assert [(one.kind, one.target_id) for one in peer.sent] == [("private", 42)]


async def test_a_private_message_of_the_bot_can_be_recalled() -> None:
    """OneBot v11, api/delete_msg and event/notice, friend_recall."""
    async with joined() as (_, bot):
        message_id = (await bot.data("send_private_msg", user_id=43, message="wrong"))["message_id"]
        await bot.data("delete_msg", message_id=message_id)
        assert (await bot.event())["notice_type"] == "friend_recall"


async def test_the_end_tells_about_itself() -> None:
    """OneBot v11, api: get_status, get_version_info, can_send_image; and actions without a visible effect."""
    async with joined() as (peer, bot):
        assert await bot.data("get_status") == {"online": True, "good": True}
        assert (await bot.data("get_version_info"))["protocol_version"] == "v11"
        assert await bot.data("can_send_image") == {"yes": True}
        assert (await bot.call("send_like", user_id=42))["status"] == "ok"
        await bot.data("set_group_name", group_id=500, group_name="Tea")
        groups = (await bot.call("get_group_list"))["data"]
        assert groups == [{"group_id": 500, "group_name": "Tea", "member_count": 2, "max_member_count": 500}]
        assert peer.sent == []


async def test_a_call_that_wants_no_data_gets_the_async_status() -> None:
    """OneBot v11, api: the suffix _async, status async, retcode 1."""
    async with joined() as (peer, bot):
        answer = await bot.call("send_group_msg_async", group_id=500, message="soon")
        assert (answer["status"], answer["retcode"], answer["data"]) == ("async", 1, None)
        assert [one.text for one in peer.sent] == ["soon"]


async def test_people_come_go_and_poke() -> None:
    """OneBot v11, event/notice: group_increase, group_decrease, notify poke."""
    async with joined() as (peer, bot):
        await peer.join(Member(50, "New"), group_id=500)
        await peer.leave(group_id=500, user_id=50)
        await peer.poke(group_id=500)
        await peer.poke(user_id=43)
        events = [await bot.event() for _ in range(4)]
        assert [event["notice_type"] for event in events] == ["group_increase", "group_decrease", "notify", "notify"]
        assert (events[2]["group_id"], events[2]["user_id"], events[2]["target_id"]) == (500, 42, 10001)
        assert "group_id" not in events[3]


async def test_a_private_recall_names_the_friend() -> None:
    """OneBot v11, event/notice, friend_recall."""
    async with joined() as (peer, bot):
        message_id = await peer.say("oops", user_id=43)
        await peer.recall(message_id)
        await bot.event()
        event = await bot.event()
        assert (event["notice_type"], event["user_id"], event["message_id"]) == ("friend_recall", 43, message_id)


async def test_heartbeats_come_by_themselves_when_asked_for() -> None:
    """OneBot v11, event/meta, heartbeat: interval in milliseconds."""
    async with listening_bot() as listening, OneBotPeer(listening.url, heartbeat_s=0.01):
        event = await (await listening.accept()).event()
        assert (event["meta_event_type"], event["interval"]) == ("heartbeat", 10)
        assert event["status"] == {"online": True, "good": True}


@pytest.mark.parametrize(("report", "is_event_first"), [("before_answer", True), ("after_answer", False)])
async def test_own_messages_are_reported_on_either_side_of_the_answer(report: SelfReport, is_event_first: bool) -> None:
    """NapCat, reportSelfMessage: post_type message_sent."""
    async with listening_bot() as listening, OneBotPeer(listening.url, report_self_message=report) as peer:
        bot = await listening.accept()
        peer.set_group(500)
        await bot.start("send_group_msg", group_id=500, message="hi")
        frames = [await bot.frame(), await bot.frame()]
        assert [frame.get("post_type") for frame in frames] == (
            ["message_sent", None] if is_event_first else [None, "message_sent"]
        )
        event = frames[0] if is_event_first else frames[1]
        assert (event["user_id"], event["self_id"], event["group_id"]) == (10001, 10001, 500)


async def test_the_owner_speaks_from_a_phone_as_message_sent() -> None:
    """NapCat, reportSelfMessage: what another device of the account sent."""
    async with joined() as (peer, bot):
        await peer.say_from_phone("me", group_id=500)
        await peer.say_from_phone("me", user_id=43)
        group, private = await bot.event(), await bot.event()
        assert (group["post_type"], group["user_id"], group["group_id"]) == ("message_sent", 10001, 500)
        assert (private["post_type"], private["user_id"], private["target_id"]) == ("message_sent", 10001, 43)
        with pytest.raises(ValueError, match="exactly one"):
            await peer.say_from_phone("where?")


async def test_odd_frames_go_out_as_they_are() -> None:
    """Our choice: broken ends exist."""
    async with joined() as (peer, bot):
        await peer.send_frame("not json")
        await peer.send_frame(b"\x00\xff")
        await peer.send_frame({"post_type": "message", "self_id": "10001"})
        await peer.emit({"post_type": "message", "self_id": None})
        with anyio.fail_after(5):
            assert await bot.connection.recv() == "not json"
            assert await bot.connection.recv() == b"\x00\xff"
        assert await bot.event() == {"post_type": "message", "self_id": "10001"}
        assert (await bot.event())["self_id"] is None


@pytest.mark.parametrize("frame", ["not json", "[]", '{"params": {}}', b"\xff"])
async def test_a_frame_that_is_no_call_is_kept_and_answered_1400(frame: str | bytes) -> None:
    """OneBot v11, communication/ws: retcode 1400."""
    async with joined() as (peer, bot):
        await bot.connection.send(frame)
        assert (await bot.frame())["retcode"] == 1400
        assert peer.malformed == [frame]
        assert peer.calls == []


async def test_an_unanswered_call_holds_up_no_other() -> None:
    """Our choice: behaviours are scripted per action; the message still arrives."""
    async with joined() as (peer, bot):
        peer.script("send_group_msg", NeverAnswer())
        await bot.start("send_group_msg", group_id=500, message="lost?")
        assert (await bot.data("get_login_info"))["user_id"] == 10001
        assert [one.text for one in await peer.wait_sent(1)] == ["lost?"]
        assert (await bot.data("send_group_msg", group_id=500, message="next"))["message_id"]


async def test_an_unanswered_call_may_also_have_no_effect() -> None:
    """Our choice: an end that hangs before it sends."""
    async with joined() as (peer, bot):
        peer.script("send_group_msg", NeverAnswer(performs=False))
        await bot.start("send_group_msg", group_id=500, message="lost")
        await bot.data("send_group_msg", group_id=500, message="next")
        assert [one.text for one in peer.sent] == ["next"]


async def test_a_delayed_answer_comes_when_the_event_is_set() -> None:
    """Our choice: tests decide on order, not clocks."""
    async with joined() as (peer, bot):
        release = anyio.Event()
        peer.script("send_group_msg", AnswerWhen(release))
        echo = await bot.start("send_group_msg", group_id=500, message="slow")
        await peer.wait_sent(1)
        assert (await bot.data("get_status"))["online"] is True
        release.set()
        answer = await bot.frame()
        assert (answer["echo"], answer["retcode"]) == (echo, 0)


async def test_scripts_are_used_up_in_order_or_kept() -> None:
    """Our choice: `times` says for how many calls."""
    async with joined() as (peer, bot):
        peer.script("get_login_info", Fail(100, "busy"), times=2)
        peer.script("get_login_info", Answer({"user_id": 5}), times=None)
        codes = [(await bot.call("get_login_info"))["retcode"] for _ in range(4)]
        assert codes == [100, 100, 0, 0]
        peer.unscript("get_login_info")
        assert (await bot.data("get_login_info"))["user_id"] == 10001


@pytest.mark.parametrize("performs", [True, False])
async def test_the_socket_may_drop_instead_of_an_answer(performs: bool) -> None:
    """Our choice: with or without the message having arrived."""
    async with joined() as (peer, bot):
        peer.script("send_group_msg", DropSocket(performs=performs))
        with pytest.raises(ConnectionClosedError):
            await bot.call("send_group_msg", group_id=500, message="gone")
        await peer.wait_disconnected()
        assert len(peer.sent) == performs


async def test_a_drop_is_no_close_handshake_and_the_peer_can_come_back() -> None:
    """RFC 6455, 7.1.5: code 1006 for a connection that ends without a close frame."""
    async with listening_bot() as listening, OneBotPeer(listening.url) as peer:
        bot = await listening.accept()
        await peer.say("before", group_id=500)
        await peer.flushed()
        peer.drop()
        await bot.event()
        with pytest.raises(ConnectionClosedError):
            await bot.event()
        assert bot.connection.close_code == 1006
        with pytest.raises(RuntimeError, match="no bot is connected"):
            await peer.say("into the void", group_id=500)
        await peer.reconnect()
        again = await listening.accept()
        await peer.say("after", group_id=500)
        assert (await again.event())["raw_message"] == "after"


async def test_an_orderly_disconnect_is_a_close_handshake() -> None:
    """RFC 6455, 7.1.2."""
    async with joined() as (peer, bot):
        await peer.disconnect()
        with pytest.raises(ConnectionClosedOK):
            await bot.event()


async def test_a_half_open_connection_answers_nothing_while_a_new_one_works() -> None:
    """Our choice: what a lost NAT entry looks like; the old socket lingers at the bot."""
    async with listening_bot() as listening, OneBotPeer(listening.url) as peer:
        old = await listening.accept()
        peer.half_open()
        await old.start("get_login_info")
        await peer.reconnect()
        new = await listening.accept()
        assert (await new.data("get_login_info"))["user_id"] == 10001
        await (await new.connection.ping())
        assert old.connection.state.name == "OPEN"
        assert len(peer.calls) == 1


async def test_reverse_mode_reports_a_refused_handshake() -> None:
    """NoneBot answers 403 to a wrong token and to a second connection of an account."""
    async with serve(
        lambda connection: connection.wait_closed(),
        "127.0.0.1",
        0,
        process_request=lambda connection, _: connection.respond(HTTPStatus.FORBIDDEN, "no"),
    ) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        with pytest.raises(InvalidStatus) as refused:
            async with OneBotPeer(f"ws://127.0.0.1:{port}/"):
                pass
        assert refused.value.response.status_code == 403


@pytest.mark.parametrize(
    ("headers", "query", "status"),
    [
        ({}, "", 401),
        ({"Authorization": "Bearer wrong"}, "", 403),
        ({"Authorization": "Bearer right"}, "", None),
        ({}, "?access_token=right", None),
    ],
)
async def test_forward_mode_demands_its_token(headers: dict[str, str], query: str, status: int | None) -> None:
    """OneBot v11, authorization: header or query; 401 without, 403 with a wrong one."""
    async with OneBotPeer(access_token="right") as peer:
        if status is None:
            async with connect(peer.url + query, additional_headers=headers, proxy=None) as socket:
                assert (await Bot(socket).event())["self_id"] == 10001
            return
        with pytest.raises(InvalidStatus) as refused:
            await connect(peer.url + query, additional_headers=headers, proxy=None)
        assert refused.value.response.status_code == status


async def test_forward_mode_can_refuse_for_a_while_and_close_its_port() -> None:
    """Our choice: the bot is to come back by itself."""
    async with OneBotPeer() as peer:
        peer.refuse()
        with pytest.raises(InvalidStatus) as refused:
            await connect(peer.url, proxy=None, process_exception=lambda error: error)
        assert refused.value.response.status_code == 503
        peer.refuse(None)
        peer.close_port()
        with pytest.raises(ConnectionRefusedError):
            await connect(peer.url, proxy=None)
        await peer.open_port()
        async with connect(peer.url, proxy=None) as socket:
            await peer.wait_connected()
            await peer.say("back", group_id=500)
            bot = Bot(socket)
            assert (await bot.event())["post_type"] == "meta_event"
            assert (await bot.event())["raw_message"] == "back"
        await peer.wait_disconnected()


async def test_forward_mode_speaks_to_the_newest_connection_and_answers_both() -> None:
    """Our choice: calls are answered where they came from."""
    async with OneBotPeer() as peer, connect(peer.url, proxy=None) as first, connect(peer.url, proxy=None) as second:
        await peer.wait_connected(2)
        await peer.say("hello", group_id=500)
        old, new = Bot(first), Bot(second)
        assert (await new.event())["post_type"] == "meta_event"
        assert (await new.event())["raw_message"] == "hello"
        assert (await old.data("get_login_info"))["user_id"] == 10001


async def test_forward_mode_has_no_way_to_dial() -> None:
    """Our choice: a misuse is named."""
    async with OneBotPeer() as peer:
        with pytest.raises(RuntimeError, match="forward mode"):
            await peer.reconnect()
    async with joined() as (reverse, _):
        with pytest.raises(RuntimeError, match="reverse mode"):
            reverse.close_port()


async def test_no_reply_is_proved_by_a_later_line_whose_reply_comes_first() -> None:
    """Our choice: sleeping proves nothing; a bot that answers mentions only is played here."""
    async with joined() as (peer, bot):

        async def answer_mentions() -> None:
            while True:
                event = await bot.event()
                if at(10001) in read_array(event, "message"):
                    await bot.data("send_group_msg", group_id=500, message="for you: " + str(event["raw_message"]))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer_mentions)
            await peer.say("to nobody", group_id=500)
            await peer.mention("marker", group_id=500)
            assert await peer.sent_before(lambda sent: "marker" in sent.text) == []
            await peer.mention("one", group_id=500)
            await peer.mention("two", group_id=500)
            before = await peer.sent_before(lambda sent: "two" in sent.text, since=1)
            assert ["one" in sent.text for sent in before] == [True]
            assert (await peer.wait_sent_like(lambda sent: "one" in sent.text)).kind == "group"
            assert (await peer.wait_call("send_group_msg", since=2)).params["group_id"] == 500
            tasks.cancel_scope.cancel()


async def test_the_peer_ends_in_order_when_the_test_fails() -> None:
    """Our choice: the test's own error comes out, and the bot's socket is closed."""
    async with listening_bot() as listening:
        bots: list[Bot] = []

        async def failing_test() -> None:
            async with OneBotPeer(listening.url) as peer:
                bots.append(await listening.accept())
                peer.script("get_status", NeverAnswer())
                await bots[0].start("get_status")
                await peer.wait_call("get_status")
                raise AssertionError("the test's own")

        with pytest.raises(AssertionError, match="the test's own"):
            await failing_test()
        with pytest.raises(ConnectionClosed):
            await bots[0].event()
