"""A stop in the middle of it all: in time, with what was taken in on disk, and nothing left to repair."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import anyio
import pytest

from ishiki.core.entries import DELIVERY
from ishiki.jsonvalue import read_str
from ishiki.testing.bot_process import BotProcess
from ishiki.testing.onebot_actions import AnswerWhen
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_server import OpenAIServer

from .stage import GROUP, LIMIT_S, contents_of, events_of, group, is_whole, log_path, troubles, wire_bot

_STOP_S = 8.0
"""Issue, stop."""

_CODES = {signal.SIGTERM: (143, 0), signal.SIGINT: (130, 0)}
"""Design, stop: right after a signal."""

_SIGNALS = list(_CODES)


def take_port(bot: BotProcess) -> None:
    """Listen where the bot did, or fail."""
    with socket.create_server(("127.0.0.1", bot.port)):
        pass


async def start_again(bot: BotProcess, group_ids: range) -> None:
    """Start the bot, let it open the logs, and check that there was nothing to repair."""
    since = len(bot.log)
    counts = {group_id: len(bot.facts(group(group_id))) for group_id in group_ids}
    await bot.start()
    async with OneBotPeer(bot.url) as peer:
        for group_id in group_ids:
            await peer.say("good morning", group_id=group_id, user_id=99)
        for group_id, count in counts.items():
            await bot.wait_facts(count + 1, group(group_id), within=LIMIT_S)
    assert [line for line in troubles(bot.log[since:]) if "is disconnected" not in line] == []
    assert list(bot.folder.rglob("*.cut-*")) == []


@pytest.mark.parametrize("number", _SIGNALS)
async def test_a_send_that_is_confirmed_while_the_bot_stops_is_recorded_with_its_id(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Design, stop: turns and their sends have five seconds."""
    confirm = anyio.Event()
    async with OpenAIServer() as server, wire_bot(tmp_path, server.base_url) as bot:
        async with OneBotPeer(bot.url) as peer:
            peer.script("send_group_msg", AnswerWhen(confirm))
            await peer.mention("good night", group_id=GROUP)
            (sent,) = await peer.wait_sent(1, within=LIMIT_S)
            bot.send_signal(number)
            await bot.wait_log("stopping", within=LIMIT_S)
            confirm.set()
            assert await bot.wait_end(within=_STOP_S) in _CODES[number]
        take_port(bot)
        deliveries = [entry.json_data for entry in bot.entries(group()) if entry.type == DELIVERY]
        assert [read_str(data, "state") for data in deliveries] == ["sending", "sent"]
        assert read_str(deliveries[1], "id") == str(sent.message_id)
        assert events_of(bot.entries(group()), "turn.start", "turn.done") == ["turn.start", "turn.done"]
        assert is_whole(log_path(bot, group()).read_bytes())
        await start_again(bot, range(GROUP, GROUP + 1))


@pytest.mark.parametrize("number", _SIGNALS)
async def test_what_was_taken_in_of_a_burst_is_on_disk_after_a_stop_in_its_middle(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Bug: facts that waited for the disk had one second of the eight, and were lost after that."""
    groups = range(700, 750)
    async with OpenAIServer() as server, wire_bot(tmp_path, server.base_url) as bot:
        async with OneBotPeer(bot.url) as peer:
            for line in range(120):
                for group_id in groups:
                    await peer.say(f"line {line}", group_id=group_id)
            await peer.flushed()
            bot.send_signal(number)
            assert await bot.wait_end(within=_STOP_S) in _CODES[number]
        take_port(bot)
        assert [line for line in troubles(bot.log) if "is disconnected" not in line] == []
        for group_id in groups:
            said = contents_of(bot.facts(group(group_id)))
            assert said == [f"line {line}" for line in range(len(said))]
            assert is_whole(log_path(bot, group(group_id)).read_bytes())
        await start_again(bot, groups)
