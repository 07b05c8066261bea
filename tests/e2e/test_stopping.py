"""SIGTERM and SIGINT, whatever the bot is doing: it ends soon, in order, and the next start finds nothing to repair."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from ishiki.contracts.events import ChannelRef
from ishiki.core.entries import DELIVERY
from ishiki.jsonvalue import read_str
from ishiki.testing.bot_process import BotProcess, models_yaml, profile_yaml
from ishiki.testing.onebot_actions import NeverAnswer
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_replies import Completion, Hang, Reply, call, reply_saying
from ishiki.testing.openai_server import ChatRequest, OpenAIServer

from .stage import ENDS, LIMIT_S, contents_of, events_of

pytestmark = pytest.mark.timeout(120)
"""Each of these starts bots of its own, some more than once."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)
_STOP_S = 8.0
"""Issue: turns have five seconds to finish, and three are for what follows."""

_FIRST_S = 50.0
"""The first answer of a process waits for LiteLLM."""

_CODES = {signal.SIGTERM: (143, 0), signal.SIGINT: (130, 0)}
"""Design, stop: right after a signal."""

GROUP = ChannelRef("onebot:10001", "group:500")
OTHER_GROUP = ChannelRef("onebot:10001", "group:501")
_HEAD = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d \[[A-Z]+\] [\w.]+ \| ")
_CONTINUED = re.compile(r"  \S")
"""The lines of the welcome that follow its first."""


@pytest.fixture(scope="module")
def demo_bot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BotProcess]:
    """Run a bot whose model answers at once; each test stops it and starts it again."""
    with BotProcess(tmp_path_factory.mktemp("demo"), profiles={"mind": profile_yaml(model="demo:offline")}) as bot:
        yield bot


async def stop_in_order(bot: BotProcess, number: signal.Signals) -> None:
    """Stop the bot and check how it ended: in time, by the signal, without a fault, every line of its log whole."""
    before = len(bot.log)
    with anyio.fail_after(_STOP_S):
        code = await bot.stop(number)
    assert code in _CODES[number]
    end = bot.log[before:]
    assert [line for line in bot.log if "Traceback" in line or "[ERROR]" in line or "[CRITICAL]" in line] == []
    assert [line for line in end if not _HEAD.match(line) and not _CONTINUED.match(line)] == []


async def start_clean(bot: BotProcess) -> None:
    """Start it again and check that it has nothing to complain of."""
    before = len(bot.log)
    await bot.start()
    async with OneBotPeer(bot.url) as peer:
        # Another speaker than in the tests: each peer counts its ids anew, and the same one in the same second is a
        # duplicate.
        await peer.say("silent", group_id=500, user_id=99)
        count = len(bot.facts(GROUP))
        await bot.wait_facts(count + 1, GROUP, within=LIMIT_S)
        assert troubles(bot.log[before:]) == []
    assert not list(bot.home(GROUP).glob("events.jsonl.cut-*"))


def troubles(lines: list[str]) -> list[str]:
    """Return the warnings and worse but those that belong to a bot without models.yaml."""
    found = [line for line in lines if re.search(r"\[(WARNING|ERROR|CRITICAL)\]|Traceback", line)]
    return [line for line in found if "models.yaml does not exist" not in line]


@pytest.mark.parametrize("number", SIGNALS)
async def test_an_idle_bot_ends_at_a_signal(demo_bot: BotProcess, number: signal.Signals) -> None:
    """Design, stop."""
    async with OneBotPeer(demo_bot.url) as peer:
        await peer.mention("hello", group_id=500)
        await peer.wait_sent(1, within=LIMIT_S)
        await stop_in_order(demo_bot, number)
        assert demo_bot.entries(GROUP)[-1].type == "ishiki.checkpoint"
    await start_clean(demo_bot)


async def test_a_fact_that_waits_for_what_it_quotes_is_on_disk_after_a_stop(demo_bot: BotProcess) -> None:
    """Bug: facts behind a fetch that the end never answered were lost when the bot stopped meanwhile."""
    channel = ChannelRef("onebot:10001", "group:502")
    async with OneBotPeer(demo_bot.url) as peer:
        for action in ("get_group_msg_history", "get_msg"):
            peer.script(action, NeverAnswer(), times=None)
        await peer.quote(4711, "remember this?", group_id=502)
        await peer.say("and this", group_id=502)
        await peer.wait_call("get_group_msg_history", within=LIMIT_S)
        await peer.flushed()
        await stop_in_order(demo_bot, signal.SIGTERM)
    assert contents_of(demo_bot.facts(channel)) == ["remember this?", "and this"]
    await start_clean(demo_bot)


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_bot_ends_at_a_signal_while_a_model_hangs_and_a_send_is_never_answered(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Design, stop and deliveries: turns are interrupted, and what may have been said is in the log as such."""

    def respond(request: ChatRequest) -> Reply:
        return Hang() if "think" in request.all_text else reply_saying("hello")

    async with OpenAIServer(respond) as server:
        models, profiles = models_yaml(server.base_url), {"mind": profile_yaml()}
        async with BotProcess(tmp_path, models=models, profiles=profiles) as bot:
            async with OneBotPeer(bot.url) as peer:
                peer.script("send_group_msg", NeverAnswer())
                await peer.mention("think about it", group_id=500)
                await peer.mention("say it", group_id=501)
                await peer.wait_call("send_group_msg", within=_FIRST_S)
                hanging = await server.wait_request_like(lambda request: "think" in request.all_text, within=LIMIT_S)
                await stop_in_order(bot, number)
                assert hanging.gone.is_set()
                assert [sent.target_id for sent in peer.sent] == [501]
            assert events_of(bot.entries(GROUP), "turn.start", *ENDS) == ["turn.start", "turn.aborted"]
            said = [entry for entry in bot.entries(OTHER_GROUP) if entry.type == DELIVERY]
            assert [read_str(entry.json_data, "state") for entry in said] == ["sending", "unknown"]
            # The next start only opens the logs, and needs no model library for that.
            bot.write("profiles/mind/profile.yaml", profile_yaml(model="demo:offline"))
            await start_clean(bot)
        assert server.violations == []


async def test_a_bot_that_is_still_loading_its_model_library_ends_at_a_signal(tmp_path: Path) -> None:
    """Design, stop: the import runs in a thread that nobody can interrupt."""
    async with OpenAIServer() as server:
        models, profiles = models_yaml(server.base_url), {"mind": profile_yaml()}
        async with BotProcess(tmp_path, models=models, profiles=profiles) as bot:
            await stop_in_order(bot, signal.SIGTERM)


async def test_a_turn_that_runs_at_the_signal_may_still_answer(tmp_path: Path) -> None:
    """Design, stop: running turns finish and send, for five seconds."""
    go = anyio.Event()
    async with OpenAIServer() as server:
        server.enqueue(Completion(calls=(call("send_message", {"messages": ["good night"]}),), holds={0: go}))
        models, profiles = models_yaml(server.base_url), {"mind": profile_yaml()}
        async with BotProcess(tmp_path, models=models, profiles=profiles) as bot, OneBotPeer(bot.url) as peer:
            await peer.mention("sleep well", group_id=500)
            await server.wait_requests(1, within=_FIRST_S)
            bot.send_signal(signal.SIGTERM)
            await bot.wait_log("stopping")
            await peer.mention("one more thing", group_id=500)
            go.set()
            (sent,) = await peer.wait_sent(1, within=LIMIT_S)
            assert sent.text == "good night"
            assert await bot.wait_end() == 143
        assert events_of(bot.entries(GROUP), *ENDS) == ["turn.done"]
        assert len(bot.facts(GROUP)) == 1
        assert len(server.requests) == 1
