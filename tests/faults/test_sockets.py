"""Sockets that break, linger, come back and come twice: one handler an account, one reply a message, nothing lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from http import HTTPStatus
from pathlib import Path

import anyio
import orjson
import pytest

from ishiki.jsonvalue import read_str
from ishiki.testing.onebot_frames import at, text
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_replies import Reply
from ishiki.testing.openai_server import ChatRequest, OpenAIServer

from .shared_bot import HISTORY, SharedBot, Stage, account, hear, on_stage, say_to, shared_bot
from .stage import GROUP, LIMIT_S, contents_of, ended, wire_bot

_CLAIMED_ALONE = 77_001
"""An account with a profile of its own."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBot]:
    """Run one bot for the cases with reverse connections."""
    claims = f'{{"onebot:{_CLAIMED_ALONE}": ["*"]}}'
    with shared_bot(tmp_path_factory.mktemp("bot"), {"alone": claims}) as shared:
        yield shared


async def test_after_a_connection_dropped_without_a_close_each_message_has_one_reply(shared: SharedBot) -> None:
    """Issue, sockets."""
    async with on_stage(shared) as stage:
        await stage.answered("m1")
        stage.peer.drop()
        await stage.bot.wait_log(f"account {stage.peer.self_id} is disconnected", within=LIMIT_S)
        await stage.peer.reconnect()
        await stage.answered("m2")
        assert stage.replies == ["heard m1", "heard m2"]
        assert await stage.kept(2) == ["m1", "m2"]


async def test_what_the_model_says_after_a_drop_goes_out_once_over_the_next_connection(shared: SharedBot) -> None:
    """Issue, sockets; design, delivery: a send waits a while for the account to be back."""
    released = anyio.Event()

    async def respond(request: ChatRequest) -> Reply:
        await released.wait()
        return hear(request)

    async with on_stage(shared, respond) as stage:
        await stage.peer.mention("m1", group_id=GROUP)
        await stage.server.wait_requests(1, within=LIMIT_S)
        stage.peer.drop()
        await stage.bot.wait_log(f"account {stage.peer.self_id} is disconnected", within=LIMIT_S)
        released.set()
        await stage.peer.reconnect()
        await ended(stage.bot, stage.channel, 1)
        await stage.answered("m2")
        assert stage.replies == ["heard m1", "heard m2"]
        assert await stage.kept(2) == ["m1", "m2"]


async def test_a_new_connection_takes_over_from_a_half_open_one_and_from_the_send_that_hangs_in_it(
    shared: SharedBot,
) -> None:
    """Issue, sockets; design, adapter: the newest connection wins, calls in flight on the old one end as unknown."""
    released = anyio.Event()

    async def respond(request: ChatRequest) -> Reply:
        await released.wait()
        return hear(request)

    async with on_stage(shared, respond) as stage:
        await stage.peer.mention("m1", group_id=GROUP)
        await stage.server.wait_requests(1, within=LIMIT_S)
        stage.peer.half_open()
        released.set()
        await stage.bot.wait_entry(lambda entry: entry.json_data.get("state") == "sending", stage.channel)
        await stage.peer.reconnect()
        await stage.bot.wait_log(f"account {stage.peer.self_id} has connected again", within=LIMIT_S)
        await ended(stage.bot, stage.channel, 1)
        states = [read_str(entry.json_data, "state") for entry in stage.bot.entries(stage.channel)]
        assert [state for state in states if state] == ["sending", "unknown"]
        await stage.answered("m2")
        assert stage.replies == ["heard m2"]
        assert await stage.kept(2) == ["m1", "m2"]


async def test_twenty_reconnects_leave_one_handler_and_one_reply_a_message(shared: SharedBot) -> None:
    """Issue, sockets: every other earlier connection is dropped, the rest are left open for the bot to close."""
    async with on_stage(shared) as stage:
        await stage.answered("m0")
        for number in range(1, 21):
            if number % 2:
                stage.peer.drop()
            await stage.peer.reconnect()
            await stage.answered(f"m{number}")
        await stage.peer.wait_disconnected(20, within=LIMIT_S)
        tokens = [f"m{number}" for number in range(21)]
        assert stage.replies == [f"heard {token}" for token in tokens]
        assert await stage.kept(21) == tokens
        assert stage.history_calls == 21
        connects = [line for line in stage.bot.log if f"account {stage.peer.self_id} is connected" in line]
        assert len(connects) == 21


@pytest.mark.parametrize(("second_id", "profile"), [(None, "mind"), (_CLAIMED_ALONE, "alone")])
async def test_of_two_accounts_in_one_group_each_answers_its_own_and_none_the_other(
    shared: SharedBot, second_id: int | None, profile: str
) -> None:
    """Issue, sockets; design, intake: lines of another account of ours are kept and never wake."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(on_stage(shared))
        other = await stack.enter_async_context(account(shared.bot, self_id=second_id))
        second = Stage(shared.bot, first.server, other)
        stages = (first, second)
        for token, addressed in (("m1", first), ("m2", second)):
            for stage in stages:
                await say_to(stage.peer, addressed.peer.self_id, token)
            await addressed.peer.wait_sent_like(lambda sent, token=token: sent.text == f"heard {token}", within=LIMIT_S)
            (overhearing,) = [stage for stage in stages if stage is not addressed]
            # What one says, the other hears, and be it spoken to.
            await say_to(overhearing.peer, overhearing.peer.self_id, f"heard {token}", user_id=addressed.peer.self_id)
        for stage in stages:
            both = [at(first.peer.self_id), at(second.peer.self_id), text(" m3")]
            await stage.peer.say(both, group_id=GROUP)
        for stage in stages:
            await stage.peer.wait_sent(2, within=LIMIT_S)
        assert first.replies == ["heard m1", "heard m3"]
        assert second.replies == ["heard m2", "heard m3"]
        facts = {
            first: await first.kept(4),
            second: contents_of(await shared.bot.wait_facts(4, second.channel, profile=profile, within=LIMIT_S)),
        }
        assert [_words(line) for line in facts[first]] == ["m1", "m2", "heard m2", "m3"]
        assert [_words(line) for line in facts[second]] == ["m1", "heard m1", "m2", "m3"]


async def test_a_forward_connection_is_tried_until_the_end_takes_it_and_again_when_it_is_lost(tmp_path: Path) -> None:
    """Issue, sockets: refused by HTTP, then at TCP, then accepted; what was said meanwhile is not missing."""
    async with OpenAIServer(hear) as server, OneBotPeer() as peer:
        peer.refuse(HTTPStatus.SERVICE_UNAVAILABLE)
        env = {"ONEBOT_WS_URLS": orjson.dumps([peer.url]).decode()}
        async with wire_bot(tmp_path, server.base_url, env=env) as bot:
            stage = Stage(bot, server, peer)
            await peer.say("to nobody yet", group_id=GROUP, is_reported=False)
            await bot.wait_log("no connection to .*503", within=LIMIT_S)
            since = len(bot.log)
            peer.close_port()
            await bot.wait_log("no connection to ", since=since, within=LIMIT_S)
            await peer.open_port()
            peer.refuse(None)
            await peer.wait_connected(1, within=LIMIT_S)
            await stage.answered("m1")
            peer.drop()
            await peer.say("into the gap", group_id=GROUP, is_reported=False)
            await peer.wait_connected(2, within=LIMIT_S)
            await stage.answered("m2")
            assert stage.replies == ["heard m1", "heard m2"]
            assert await stage.kept(4) == ["to nobody yet", "m1", "into the gap", "m2"]
            assert len([made for made in peer.calls if made.action == HISTORY]) == 2
            connected = [line for line in bot.log if f"account {peer.self_id} is connected" in line]
            assert len(connected) == 2
            assert not [line for line in bot.log if "Traceback" in line]


def _words(line: str) -> str:
    return line.rpartition("> ")[2].strip()
