"""The platform over a real WebSocket: outcomes of sends, our own reports, fetches and published files."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import httpx
import pytest

from ishiki.contracts.events import ChannelRef, MessageCreated
from ishiki.contracts.platform import MediaRef, Platform, SendOutcome
from ishiki.contracts.resources import FilePayload
from ishiki.errors import ToolError
from ishiki.jsonvalue import JsonObject
from ishiki.plugin.onebot_platform import OneBotPlatform, PlatformLimits
from ishiki.testing.journal import Journal
from ishiki.testing.onebot_actions import Answer, AnswerWhen, DropSocket, Fail, NeverAnswer
from ishiki.testing.onebot_frames import image, ok, segment, text
from ishiki.testing.onebot_peer import OneBotPeer, SelfReport

from .bot_kit import GROUP, PRIVATE, SELF, Bot, running_bot

pytestmark = pytest.mark.timeout(20)

SHORT = PlatformLimits(send_s=0.2, fetch_s=0.1)


@asynccontextmanager
async def connected(
    monkeypatch: pytest.MonkeyPatch, *, report: SelfReport = "never", limits: PlatformLimits | None = None
) -> AsyncGenerator[tuple[Bot, OneBotPeer]]:
    """Run a bot with a connected end that is in group 500 and a friend of user 42."""
    async with running_bot(monkeypatch, limits=limits) as bot, OneBotPeer(bot.url, report_self_message=report) as peer:
        peer.set_group(500)
        peer.account.person(42, group_id=None)
        with anyio.fail_after(5):
            await bot.platform.wait_online()
        yield bot, peer


async def test_a_message_goes_to_its_group_and_its_id_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design, delivery: segments in array form, built from parsed markup only."""
    async with connected(monkeypatch) as (bot, peer):
        outcome = await bot.platform.send(GROUP, '<quote id="5"/><at id="42"/> [CQ:at,qq=all] &lt;b&gt;')
        (sent,) = await peer.wait_sent()
        assert outcome == SendOutcome("sent", str(sent.message_id), dropped=[])
        assert sent.message == [
            segment("reply", id="5"),
            segment("at", qq="42"),
            segment("text", text=" [CQ:at,qq=all] <b>"),
        ]
        assert (sent.kind, sent.target_id) == ("group", 500)


async def test_a_private_message_goes_to_the_person_also_through_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue, must hold: one that carries a group is answered in private; OneBot v11, send_private_msg, group_id."""
    async with connected(monkeypatch) as (bot, peer):
        assert (await bot.platform.send(PRIVATE, "hi")).state == "sent"
        stranger = ChannelRef(f"onebot:{SELF}", "private:77")
        assert (await bot.platform.send(stranger, "hi")).state == "refused"
        peer.account.person(77, group_id=500)
        await peer.say("psst", user_id=77, fields={"sub_type": "group", "group_id": 500})
        await bot.said(1)
        assert (await bot.platform.send(stranger, "hello")).state == "sent"
        assert [(sent.kind, sent.target_id) for sent in peer.sent] == [("private", 42), ("private", 77)]


async def test_what_cannot_be_sent_is_reported_and_the_rest_goes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design, safety defaults: no local file ever leaves."""
    async with connected(monkeypatch) as (bot, peer):
        outcome = await bot.platform.send(GROUP, 'look <img src="file:///etc/hostname"/>')
        assert outcome.state == "sent"
        assert len(outcome.dropped) == 1
        nothing = await bot.platform.send(GROUP, '<img src="/etc/hostname"/>')
        assert (nothing.state, len(nothing.dropped)) == ("refused", 1)
        assert (await bot.platform.send(ChannelRef(f"onebot:{SELF}", "guild:1"), "x")).state == "refused"
        assert [sent.message for sent in peer.sent] == [[text("look ")]]


async def test_a_refusal_says_why_in_a_few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design, outcomes: `refused` (muted, not a member, content)."""
    async with connected(monkeypatch) as (bot, peer):
        peer.set_group(500).muted.add(10001)
        muted = await bot.platform.send(GROUP, "x")
        elsewhere = await bot.platform.send(ChannelRef(f"onebot:{SELF}", "group:9"), "x")
        peer.script("send_group_msg", Fail(100, "x" * 500))
        long = await bot.platform.send(GROUP, "x")
        assert [(outcome.state, outcome.detail) for outcome in (muted, elsewhere)] == [
            ("refused", "the account is muted there"),
            ("refused", "the account is not a member of that group"),
        ]
        assert len(long.detail) <= 121


@pytest.mark.parametrize("behaviour", [NeverAnswer(), DropSocket()])
async def test_a_send_without_an_answer_is_unknown(
    behaviour: NeverAnswer | DropSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design, deliveries: no answer in time, or the socket lost: it counts as said."""
    async with connected(monkeypatch, limits=SHORT) as (bot, peer):
        peer.script("send_group_msg", behaviour)
        assert (await bot.platform.send(GROUP, "x")).state == "unknown"


async def test_a_send_to_an_account_that_stays_away_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design, outcomes: it never reached a socket."""
    async with running_bot(monkeypatch, limits=SHORT) as bot:
        assert not bot.platform.is_online()
        assert (await bot.platform.send(GROUP, "x")).state == "unreachable"


async def test_an_account_that_comes_back_is_waited_for_by_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Specification, platform: `wait_online`; each account for itself."""
    online: Journal[str] = Journal("accounts that came online")

    async def wait(platform: Platform) -> None:
        await platform.wait_online()
        online.add(SELF)

    async with running_bot(monkeypatch) as bot, anyio.create_task_group() as tasks:
        tasks.start_soon(wait, bot.platform)
        async with OneBotPeer(bot.url, self_id=2), OneBotPeer(bot.url):
            await online.at_least(1)
            assert bot.platform.is_online(f"onebot:{SELF}")
            assert not bot.platform.is_online("onebot:3")


async def test_a_send_that_is_cancelled_still_learns_its_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design, concurrency: the API call of a send is shielded for its own limit."""
    outcomes: list[SendOutcome] = []
    answer = anyio.Event()

    async def send(platform: Platform) -> None:
        outcomes.append(await platform.send(GROUP, "x"))

    async with connected(monkeypatch) as (bot, peer):
        peer.script("send_group_msg", AnswerWhen(answer))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send, bot.platform)
            await peer.wait_call("send_group_msg")
            tasks.cancel_scope.cancel()
            answer.set()
        assert [outcome.state for outcome in outcomes] == ["sent"]


@pytest.mark.parametrize("report", ["before_answer", "after_answer"])
async def test_the_report_of_what_we_sent_is_no_new_fact(report: SelfReport, monkeypatch: pytest.MonkeyPatch) -> None:
    """Design, intake: only a `message_sent` that this process did not send is one; also before the answer."""
    async with connected(monkeypatch, report=report) as (bot, peer):
        await bot.platform.send(GROUP, "ours")
        await bot.platform.call("send_group_msg", {"group_id": 500, "message": "ours too"})
        await peer.say_from_phone("the owner's", group_id=500)
        await peer.say_from_phone("ours", user_id=42)
        assert await bot.said(2) == ["the owner's", "ours"]
        assert all(isinstance(fact, MessageCreated) and fact.is_self for fact in bot.facts)
        assert bot.adapter.intake.counts.own == 2


async def test_a_report_during_a_send_that_is_not_ours_becomes_a_fact_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our choice: while a send into the channel is unanswered a report is held until it can be told."""
    answer = anyio.Event()
    async with connected(monkeypatch) as (bot, peer), anyio.create_task_group() as tasks:
        peer.script("send_group_msg", AnswerWhen(answer))
        tasks.start_soon(bot.platform.send, GROUP, "ours")
        await peer.wait_call("send_group_msg")
        await peer.say_from_phone("the owner's", group_id=500)
        await peer.say("somebody's", group_id=500)
        assert await bot.said(1) == ["somebody's"]
        answer.set()
        assert await bot.said(2) == ["somebody's", "the owner's"]


async def test_the_late_report_of_an_unanswered_send_is_handed_on_for_its_delivery_to_be_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Our choice: the log knows which delivery it is; a call of an extension has none, so its report is dropped."""
    async with connected(monkeypatch, limits=SHORT) as (bot, peer):
        peer.script("send_group_msg", NeverAnswer(performs=False), times=2)
        with pytest.raises(ToolError):
            await bot.platform.call("send_group_msg", {"group_id": 500, "message": "an extension's"})
        await peer.say_from_phone("an extension's", group_id=500)
        assert (await bot.platform.send(GROUP, "ours &lt;3")).state == "unknown"
        await peer.say_from_phone("ours <3", group_id=500)
        assert await bot.said(1) == ["ours &lt;3"]
        assert bot.adapter.intake.counts.own == 1


async def test_a_report_before_a_failed_answer_proves_the_message_and_gives_its_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Issue, sends: the account's own report settles it, whatever the answer says."""
    answer = anyio.Event()
    outcomes: list[SendOutcome] = []

    async def send(platform: Platform) -> None:
        outcomes.append(await platform.send(GROUP, "ours"))

    async with connected(monkeypatch) as (bot, peer), anyio.create_task_group() as tasks:
        peer.script("send_group_msg", AnswerWhen(answer, Fail(1200, "Timeout: NTEvent")))
        tasks.start_soon(send, bot.platform)
        await peer.wait_call("send_group_msg")
        reported = await peer.say_from_phone("ours", group_id=500)
        await peer.say("somebody's", group_id=500)
        await bot.said(1)
        answer.set()
        with anyio.fail_after(5):
            while not outcomes:
                await anyio.lowlevel.checkpoint()
        assert outcomes == [SendOutcome("sent", str(reported), dropped=[])]
        assert await bot.said(1) == ["somebody's"]


@pytest.mark.parametrize("is_reconnected", [False, True])
async def test_an_answer_behind_the_limit_reports_the_message_also_over_the_next_connection(
    is_reconnected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue, sends: what comes late settles the delivery as the account's own report does."""
    async with connected(monkeypatch, limits=SHORT) as (bot, peer):
        peer.script("send_group_msg", NeverAnswer())
        assert (await bot.platform.send(GROUP, "ours")).state == "unknown"
        (call,) = [call for call in peer.calls if call.action == "send_group_msg"]
        if is_reconnected:
            await peer.reconnect()
        await peer.send_frame(ok({"message_id": 1007}, call.echo))
        await bot.said(1)
        (fact,) = bot.facts
        assert isinstance(fact, MessageCreated)
        assert (fact.content, fact.message_id, fact.channel, fact.is_self) == ("ours", "1007", GROUP, True)


async def test_an_account_known_by_http_alone_is_unreachable_until_it_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our choice: without an API root nothing can be sent to it; a WebSocket takes over."""
    async with running_bot(monkeypatch) as bot, httpx.AsyncClient(trust_env=False) as client:
        posted = await client.post(bot.http_url, headers={"X-Self-ID": SELF}, json={"post_type": "meta_event"})
        assert posted.status_code == 204
        assert (await bot.platform.send(PRIVATE, "x")).state == "unreachable"
        with pytest.raises(ToolError, match="not connected"):
            await bot.platform.call("get_status", {})
        peer = OneBotPeer(bot.url)
        peer.account.person(42, group_id=None)
        async with peer:
            await peer.say("now")
            await bot.said(1)
            assert (await bot.platform.send(PRIVATE, "x")).state == "sent"


async def test_a_message_is_fetched_with_its_words_and_author(monkeypatch: pytest.MonkeyPatch) -> None:
    """OneBot v11, get_msg."""
    async with connected(monkeypatch) as (bot, peer):
        message_id = await peer.say([text("a"), image("p.jpg")], group_id=500, is_reported=False)
        found = await bot.platform.message(str(message_id))
        assert found is not None
        assert (found.content, found.user.id, found.channel) == ('a<img file="p.jpg"/>', "42", GROUP)
        assert await bot.platform.message("999999") is None


async def test_after_two_fetches_without_an_answer_none_is_tried_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design, channel queue: no fetch on that account for 60 s; whoever asks may give up as early as the fetch."""
    async with connected(monkeypatch, limits=SHORT) as (bot, peer):
        peer.script("get_msg", NeverAnswer(), times=None)
        for _ in range(4):
            with anyio.move_on_after(SHORT.fetch_s):
                assert await bot.platform.message("5") is None
        assert len(peer.calls) == 2
        assert not bot.adapter.accounts.may_fetch(SELF, bot.adapter.clock.monotonic())
        assert bot.adapter.accounts.may_fetch(SELF, bot.adapter.clock.monotonic() + 61)


async def test_a_forwarded_bundle_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """OneBot v11, get_forward_msg."""
    async with connected(monkeypatch) as (bot, peer):
        peer.account.forwards["F"] = [segment("node", user_id="1", nickname="Ann", content="one")]
        nodes = await bot.platform.forward("F")
        assert nodes is not None
        assert [(node.user_name, node.content) for node in nodes] == [("Ann", "one")]
        assert await bot.platform.forward("G") is None


async def test_the_recent_history_is_fetched_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design, backfill: where the end offers it."""
    async with connected(monkeypatch) as (bot, peer):
        for number in range(3):
            await peer.say(f"line {number}", group_id=500, is_reported=False)
        found = await bot.platform.recent_history(GROUP, 2)
        assert found is not None
        assert [(message.content, message.channel) for message in found] == [("line 1", GROUP), ("line 2", GROUP)]
        peer.script("get_friend_msg_history", Fail(1404, "unsupported action"))
        assert await bot.platform.recent_history(PRIVATE, 2) == []
        peer.script("get_friend_msg_history", DropSocket())
        assert await bot.platform.recent_history(PRIVATE, 2) is None


async def test_media_get_a_fresh_address_where_the_end_gives_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our choice: addresses of pictures expire; local paths are nothing that we can fetch."""
    async with connected(monkeypatch) as (bot, peer):
        peer.account.files["a.jpg"] = {"file": "/root/a.jpg", "url": "https://new.example.org/a"}
        peer.account.files["b.jpg"] = {"file": "/root/b.jpg", "url": "/root/b.jpg"}
        refs = [MediaRef("image", "https://old.example.org/x", name) for name in ("a.jpg", "b.jpg", "")]
        assert [await bot.platform.media(ref) for ref in refs] == [
            "https://new.example.org/a",
            "https://old.example.org/x",
            "https://old.example.org/x",
        ]
        assert await bot.platform.media(MediaRef("video", "/root/v.mp4", "v.mp4")) is None


async def test_an_action_that_fails_is_a_tool_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Specification, platform: refused, not connected, no answer."""
    async with connected(monkeypatch, limits=SHORT) as (bot, peer):
        peer.script("get_status", Answer({"good": True}))
        assert await bot.platform.call("get_status", {}) == {"good": True}
        peer.script("get_status", Fail(1, "no"))
        peer.script("get_status", NeverAnswer())
        wrong: list[tuple[str, JsonObject, str | None]] = [
            ("get_status", {}, None),
            ("get_status", {}, None),
            ("get_status", {"api": 1}, None),
            ("get_status", {}, "onebot:2"),
        ]
        for action, params, account in wrong:
            with pytest.raises(ToolError):
                await bot.platform.call(action, params, account=account)


async def test_published_bytes_can_be_fetched_by_their_address_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Specification, OneBot actions: a random token; our choice: five minutes."""
    payload = FilePayload("asset://1", b"\x89PNG", "image/png", 4, "a b.png")
    async with running_bot(monkeypatch) as bot, httpx.AsyncClient(trust_env=False) as client:
        url = await bot.platform.publish(payload)
        answer = await client.get(url)
        assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, b"\x89PNG", "image/png")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert url.endswith("/a%20b.png")
        assert (await client.get(url.replace("/files/", "/files/x"))).status_code == 404


async def test_a_mind_of_every_account_asks_one_that_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our choice, cross mode with `onebot:*`: it has no account of its own, so any that is there will do."""
    async with connected(monkeypatch) as (bot, peer):
        ends = bot.adapter
        anybody = OneBotPlatform("onebot:*", accounts=ends.accounts, sent=ends.sent, clock=ends.clock)
        assert anybody.is_online()
        assert anybody.connection_count() == 1
        message_id = await peer.say("hello", group_id=500)
        found = await anybody.message(str(message_id))
        assert found is not None
        assert found.content == "hello"
