"""The adapter over real WebSockets and HTTP: what reaches intake, and what a connection survives."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import anyio
import httpx
import orjson
import pytest
from nonebot.adapters.onebot.v11 import Event, MessageEvent
from nonebot.adapters.onebot.v11.exception import ActionFailed
from nonebot.matcher import Matcher, matchers
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from ishiki.contracts.events import MessageCreated
from ishiki.plugin.connection import NoAnswerError, NotHandedOverError
from ishiki.testing.journal import Journal
from ishiki.testing.onebot_actions import Answer, Fail, NeverAnswer
from ishiki.testing.onebot_frames import at, reply, text
from ishiki.testing.onebot_peer import OneBotPeer

from .bot_kit import SELF, Bot, LogLines, running_bot
from .test_intake import LINE, RECALL

pytestmark = pytest.mark.timeout(20)


class Online:
    """Waits for what `accounts` tells of connections."""

    def __init__(self, bot: Bot) -> None:
        self.changes: Journal[tuple[str, bool]] = Journal("changes of accounts")
        bot.adapter.accounts.watch(lambda self_id, is_online: self.changes.add((self_id, is_online)))


@pytest.fixture
def clean_matchers() -> Iterator[None]:
    """NoneBot keeps matchers for the process: leave none behind."""
    matchers.clear()
    yield
    matchers.clear()


async def test_lines_of_a_group_become_facts_in_wire_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design, one message in: in wire order."""
    async with running_bot(monkeypatch) as bot, OneBotPeer(bot.url) as peer:
        for number in range(50):
            await peer.say(f"line {number}", group_id=500)
        assert await bot.said(50) == [f"line {number}" for number in range(50)]


async def test_recalls_and_both_message_formats_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """OneBot v11, message formats and notice events."""
    async with running_bot(monkeypatch) as bot, OneBotPeer(bot.url) as peer:
        first = await peer.say([at(42), text("[a]")], group_id=500, message_format="string")
        await peer.recall(first, operator_id=43)
        assert await bot.said(2) == ['<at id="42"/>[a]', f"recall {first}"]


@pytest.mark.parametrize("noise", ["no json", "", "[1]", "17", "null", b"\x00\xff", "[" * 5000, '{"echo": 5}', "{}"])
async def test_a_frame_that_is_no_event_does_not_end_the_connection(
    noise: str | bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Design, one message in: the stock adapter closes the socket with a traceback."""
    async with running_bot(monkeypatch) as bot, OneBotPeer(bot.url) as peer:
        await peer.send_frame(noise)
        await peer.send_frame(noise)
        await peer.say("after", group_id=500)
        assert await bot.said(1) == ["after"]
        assert "Traceback" not in caplog.text
        assert caplog.text.count("no JSON object") <= 1


async def test_frames_that_nonebot_misreads_reach_intake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design, one message in: NoneBot never delivers these, or not as messages."""
    odd = [
        {key: value for key, value in LINE.items() if key != "time"},
        {**LINE, "self_id": SELF},
        {**LINE, "notice_type": "x"},
        {**LINE, "font": "Arial", "sender": {"user_id": 42, "level": 3}},
        {**LINE, "message": [None, text("hi")]},
        {key: value for key, value in LINE.items() if key not in ("self_id", "sub_type")},
        {**LINE, "message": [text("\ud800hi")]},
    ]
    async with running_bot(monkeypatch) as bot, OneBotPeer(bot.url) as peer:
        for frame in odd[:-1]:
            await peer.send_frame(frame)
        await peer.send_frame(orjson.dumps(LINE).decode().replace('"text":"hi"', '"text":"\\ud800hi"'))
        assert await bot.said(7) == ["hi"] * 6 + ["\ufffdhi"]
        assert {fact.self_id for fact in bot.facts} == {SELF}


async def test_a_quote_is_not_awaited_before_the_fact_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design, one message in: NoneBot asks `get_msg` first and waits 30 s where nobody answers."""
    async with running_bot(monkeypatch) as bot, OneBotPeer(bot.url) as peer:
        peer.script("get_msg", NeverAnswer(), times=None)
        await peer.say([reply(5), text("yes")], group_id=500)
        (fact,) = await bot.facts.at_least(1)
        assert isinstance(fact, MessageCreated)
        assert fact.quote is not None
        assert fact.quote.id == "5"
        assert peer.calls == []


async def test_without_another_plugin_no_event_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, clean_matchers: None
) -> None:
    """Design, one message in: NoneBot handles nothing that nobody waits for."""
    async with running_bot(monkeypatch) as bot, OneBotPeer(bot.url) as peer:
        assert bot.adapter.json_to_event(LINE) is None
        await peer.say("x", group_id=500)
        await bot.said(2)
        assert (bot.adapter.passage.in_flight, bot.adapter.passage.shed) == (0, 0)


async def test_another_plugins_matcher_gets_events_beside_intake_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch, clean_matchers: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Design, one message in: with a cap on what is in flight; what is shed is counted and logged once."""
    seen: Journal[str] = Journal("events of another plugin")
    gate = anyio.Event()

    async def handler(event: Event) -> None:
        assert isinstance(event, MessageEvent)
        seen.add(event.get_plaintext())
        await gate.wait()

    async with running_bot(monkeypatch) as bot, OneBotPeer(bot.url) as peer:
        await peer.say("before there is a matcher", group_id=500)
        await bot.said(1)
        Matcher.new("message", handlers=[handler])
        for number in range(5):
            await peer.say(f"line {number}", group_id=500)
        assert len(await bot.said(6)) == 6
        assert await seen.at_least(2) == ["line 0", "line 1"]
        assert bot.adapter.passage.shed == 3
        assert caplog.text.count("not passed on") == 1
        gate.set()


async def test_a_second_connection_of_an_account_replaces_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design, one message in: NoneBot refuses it with 403 while a dead socket lingers."""
    async with running_bot(monkeypatch) as bot, OneBotPeer(bot.url) as peer:
        await peer.say("before", group_id=500)
        await bot.said(1)
        peer.half_open()
        await peer.reconnect()
        await peer.say("after", group_id=500)
        assert await bot.said(2) == ["before", "after"]
        link = bot.adapter.accounts.link(SELF)
        assert link is not None
        assert await link.call_api("get_status") == {"online": True, "good": True}


async def test_the_replaced_connection_is_closed_and_its_calls_end_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Design, one message in: calls in flight on the old one end as unknown."""
    errors: Journal[Exception] = Journal("errors")

    async def ask(bot: Bot) -> None:
        link = bot.adapter.accounts.link(SELF)
        assert link is not None
        try:
            await link.call_api("get_status")
        except NoAnswerError as error:
            errors.add(error)

    async with running_bot(monkeypatch) as bot, OneBotPeer(bot.url) as peer, anyio.create_task_group() as tasks:
        peer.script("get_status", NeverAnswer())
        await bot.adapter.accounts.wait_online(SELF)
        tasks.start_soon(ask, bot)
        await peer.wait_call("get_status")
        await peer.reconnect()
        await errors.at_least(1)
        await peer.wait_disconnected(1)
        assert bot.adapter.accounts.online == {SELF}


async def test_who_may_not_connect_does_not_end_the_connection_of_who_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our choice (safety): the token is checked before anything is replaced."""
    async with (
        running_bot(monkeypatch, onebot_access_token="right") as bot,
        OneBotPeer(bot.url, access_token="right") as peer,
    ):
        for token in (None, "wrong"):
            headers = {"X-Self-ID": SELF, **({"Authorization": f"Bearer {token}"} if token else {})}
            with pytest.raises(InvalidStatus) as refused:
                async with connect(bot.url, additional_headers=headers, proxy=None):
                    pass
            assert refused.value.response.status_code == HTTPStatus.FORBIDDEN
        await peer.say("still here", group_id=500)
        assert await bot.said(1) == ["still here"]


@pytest.mark.parametrize("headers", [{}, {"X-Self-ID": " "}, {"X-Self-ID": SELF, "X-Client-Role": "API"}])
async def test_a_connection_that_names_no_account_or_half_a_role_is_refused(
    headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """OneBot v11, reverse WebSocket; our choice: split connections would replace each other for ever."""
    async with running_bot(monkeypatch) as bot:
        with pytest.raises(InvalidStatus):
            async with connect(bot.url, additional_headers=headers, proxy=None):
                pass
        assert bot.adapter.accounts.online == frozenset()


async def test_accounts_follow_connections_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our choice: NoneBot's own hooks are tasks and may overtake each other."""
    async with running_bot(monkeypatch) as bot:
        online = Online(bot)
        async with OneBotPeer(bot.url) as peer:
            await online.changes.at_least(1)
            peer.drop()
            await online.changes.at_least(2)
            await peer.reconnect()
            await online.changes.at_least(3)
            await peer.reconnect()
            assert await online.changes.at_least(5) == [(SELF, state) for state in (True, False, True, False, True)]
            assert bot.adapter.accounts.is_own(SELF)


async def test_a_call_returns_the_answer_or_says_why_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """OneBot v11, communication over WebSocket: `echo`; a failure by `status` or by `retcode` alone."""
    async with running_bot(monkeypatch) as bot, OneBotPeer(bot.url) as peer:
        link = await bot.adapter.accounts.wait_online(SELF)
        peer.script("get_status", Answer({"a": 1}))
        assert await link.call_api("get_status") == {"a": 1}
        peer.script("get_status", Fail(1400, "no"))
        with pytest.raises(ActionFailed):
            await link.call_api("get_status")
        peer.script("get_status", NeverAnswer())
        with pytest.raises(NoAnswerError):
            await link.call_api("get_status", _timeout=0.05)
        assert await link.call_api("send_like_async") is None
        online = Online(bot)
        await peer.disconnect()
        await online.changes.at_least(1)
        with pytest.raises(NotHandedOverError):
            await link.call_api("get_status")


async def test_a_forward_connection_takes_the_account_from_its_first_event_and_comes_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """OneBot v11, forward WebSocket; design, one message in: the same intake for every kind of connection."""
    async with OneBotPeer(access_token="right") as peer:
        settings: dict[str, Any] = {"onebot_ws_urls": [peer.url], "onebot_access_token": "right"}
        with LogLines() as log:
            async with running_bot(monkeypatch, **settings) as bot:
                await peer.wait_connected(1)
                await peer.send_frame("no json")
                await peer.say("one", group_id=500)
                assert await bot.said(1) == ["one"]
                link = await bot.adapter.accounts.wait_online(SELF)
                assert await link.call_api("get_login_info") == {"user_id": 10001, "nickname": "bot"}
                peer.refuse()
                peer.drop()
                await log.lines.first(lambda line: "503" in line)
                peer.refuse(None)
                await peer.wait_connected(2)
                await peer.say("two", group_id=500)
                assert await bot.said(2) == ["one", "two"]
    assert "Traceback" not in caplog.text


async def test_events_by_http_reach_intake(monkeypatch: pytest.MonkeyPatch) -> None:
    """OneBot v11, HTTP POST; a body that is no event is the sender's fault, not a traceback."""
    async with running_bot(monkeypatch) as bot, httpx.AsyncClient(trust_env=False) as client:
        answers = [
            await client.post(bot.http_url, headers={"X-Self-ID": SELF}, content=body)
            for body in (orjson.dumps(LINE), orjson.dumps({**RECALL, "self_id": None}), b"{broken", b"", b"[]")
        ]
        assert [answer.status_code for answer in answers] == [204, 204, 400, 400, 400]
        assert (await client.post(bot.http_url, content=orjson.dumps(LINE))).status_code == 400
        assert await bot.said(2) == ["hi", "recall 7"]
        assert bot.facts.items[1].self_id == SELF


async def test_an_http_event_needs_the_signature_or_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """OneBot v11, HTTP POST, signature; our choice: without a secret the token is demanded."""
    body = orjson.dumps(LINE)
    signature = hmac.new(b"secret", body, hashlib.sha1).hexdigest()
    cases: list[tuple[dict[str, Any], dict[str, str], int]] = [
        ({"onebot_access_token": "t"}, {}, 403),
        ({"onebot_access_token": "t"}, {"Authorization": "Bearer t"}, 204),
        ({"onebot_access_token": "t", "onebot_secret": "secret"}, {"X-Signature": f"sha1={signature}"}, 204),
        ({"onebot_access_token": "t", "onebot_secret": "secret"}, {"Authorization": "Bearer t"}, 401),
    ]
    for settings, headers, status in cases:
        async with running_bot(monkeypatch, **settings) as bot, httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(bot.http_url, headers={"X-Self-ID": SELF, **headers}, content=body)
            assert answer.status_code == status
