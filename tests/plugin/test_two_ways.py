"""One account by two ways at once, and frames of any size, over real WebSockets."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest
from websockets.exceptions import InvalidStatus

from ishiki.testing.onebot_actions import NeverAnswer
from ishiki.testing.onebot_frames import at, segment, text
from ishiki.testing.onebot_peer import OneBotPeer

from . import bot_kit
from .bot_kit import SELF, LogLines, running_bot

pytestmark = pytest.mark.timeout(30)

_KEPT = "is connected by reverse WebSocket and also by ONEBOT_WS_URLS"


async def test_of_two_ways_one_is_kept_and_said_once_and_the_other_takes_over_when_it_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bug: with reverse and forward both set up, each connection pushed the other out, for ever."""
    async with AsyncExitStack() as stack:
        forward = await stack.enter_async_context(OneBotPeer())
        forward.refuse()
        bot = await stack.enter_async_context(running_bot(monkeypatch, onebot_ws_urls={forward.url}))
        log = stack.enter_context(LogLines())
        reverse = await stack.enter_async_context(OneBotPeer(bot.url))
        await bot.adapter.accounts.wait_online(SELF)
        forward.refuse(None)
        await forward.wait_connected(1)
        await forward.wait_disconnected(1)
        await reverse.say("one", group_id=500)
        await reverse.reconnect()
        await reverse.wait_disconnected(1)
        await reverse.say("two", group_id=500)
        assert await bot.said(2) == ["one", "two"]
        assert len([line for line in log.lines.items if _KEPT in line]) == 1
        reverse.drop()
        await forward.wait_connected(2)
        with anyio.fail_after(5):
            await bot.adapter.accounts.wait_online(SELF)
        await forward.say("three", group_id=500)
        assert await bot.said(3) == ["one", "two", "three"]
        with pytest.raises(InvalidStatus):
            await reverse.reconnect()
        await forward.say("four", group_id=500)
        assert await bot.said(4) == ["one", "two", "three", "four"]
        assert len([line for line in log.lines.items if "and also" in line]) == 1


async def test_a_dead_connection_is_replaced_by_one_of_the_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our choice: who does not answer within two seconds is not there any more."""
    async with AsyncExitStack() as stack:
        forward = await stack.enter_async_context(OneBotPeer())
        bot = await stack.enter_async_context(running_bot(monkeypatch, onebot_ws_urls={forward.url}))
        await forward.wait_connected(1)
        await forward.say("one", group_id=500)
        assert await bot.said(1) == ["one"]
        forward.refuse()
        forward.half_open()
        reverse = await stack.enter_async_context(OneBotPeer(bot.url))
        await reverse.say("two", group_id=500)
        assert await bot.said(2) == ["one", "two"]


async def test_a_connection_that_answers_no_status_but_speaks_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our choice: any frame proves that somebody is there, such as a heartbeat."""
    async with AsyncExitStack() as stack:
        bot = await stack.enter_async_context(running_bot(monkeypatch))
        reverse = await stack.enter_async_context(OneBotPeer(bot.url, heartbeat_s=0.05))
        reverse.script("get_status", NeverAnswer(), times=None)
        forward = await stack.enter_async_context(OneBotPeer())
        await bot.adapter.accounts.wait_online(SELF)
        connections = bot.adapter.accounts.connection_count(SELF)
        bot.adapter.onebot_config.onebot_ws_urls = {forward.url}  # pyright: ignore[reportAttributeAccessIssue]
        await bot.adapter._start_forward()  # pyright: ignore[reportPrivateUsage]
        await forward.wait_disconnected(1)
        await reverse.say("still here", group_id=500)
        assert await bot.said(1) == ["still here"]
        assert bot.adapter.accounts.connection_count(SELF) == connections


@pytest.mark.parametrize("is_forward", [True, False], ids=["forward", "reverse"])
async def test_a_picture_inside_a_frame_is_taken_in_both_directions(
    is_forward: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug: over 1 MiB (forward) and 16 MiB (reverse) the frame was lost, and the connection with it."""
    picture = segment("image", file="base64://" + "A" * (17 * 2**20))
    async with AsyncExitStack() as stack:
        peer = OneBotPeer() if is_forward else None
        if peer is not None:
            await stack.enter_async_context(peer)
        settings: dict[str, Any] = {"onebot_ws_urls": {peer.url}} if peer is not None else {}
        bot = await stack.enter_async_context(running_bot(monkeypatch, **settings))
        if peer is None:
            peer = await stack.enter_async_context(OneBotPeer(bot.url))
        await peer.wait_connected(1)
        await peer.say([text("look: "), picture], group_id=500)
        await peer.say("behind it", group_id=500)
        assert await bot.said(2) == ["look: <img/>", "behind it"]


@pytest.mark.parametrize("is_forward", [True, False], ids=["forward", "reverse"])
async def test_a_frame_over_the_bound_costs_its_connection_and_one_line_in_the_log(
    is_forward: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our choice: the bound is far above what implementations send, and what exceeds it is said."""
    small = 2**20
    monkeypatch.setattr(bot_kit, "MAX_FRAME_BYTES", small)
    async with AsyncExitStack() as stack:
        log = stack.enter_context(LogLines())
        peer = OneBotPeer() if is_forward else None
        if peer is not None:
            await stack.enter_async_context(peer)
        settings: dict[str, Any] = {"onebot_ws_urls": {peer.url}} if peer is not None else {}
        bot = await stack.enter_async_context(running_bot(monkeypatch, **settings))
        if peer is None:
            peer = await stack.enter_async_context(OneBotPeer(bot.url))
        await peer.wait_connected(1)
        await peer.say("before", group_id=500)
        assert await bot.said(1) == ["before"]
        await peer.say("A" * (small + 1), group_id=500)
        await peer.wait_disconnected(1)
        if is_forward:
            await peer.wait_connected(2)
        else:
            await peer.reconnect()
        await peer.say([at(int(SELF)), text("after")], group_id=500)
        assert (await bot.said(2))[-1].endswith("after")
        assert [line for line in log.lines.items if "a frame of more than 1 MiB" in line] != []


async def test_a_history_full_of_pictures_comes_over_a_forward_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: a history of more than 1 MiB ended the connection, and each backfill behind it ended it again."""
    picture = segment("image", file="base64://" + "A" * 2**18)
    async with OneBotPeer() as peer, running_bot(monkeypatch, onebot_ws_urls={peer.url}) as bot:
        await bot.adapter.accounts.wait_online(SELF)
        for number in range(20):
            await peer.say([text(f"{number} "), picture], group_id=500, is_reported=False)
        found = await bot.platform.recent_history(bot_kit.GROUP, 50)
        assert found is not None
        assert [message.content for message in found] == [f"{number} <img/>" for number in range(20)]
        assert bot.adapter.accounts.connection_count(SELF) == 1
