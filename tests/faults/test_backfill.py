"""What was said while the bot was away, and what a quote refers to: fetched once, in order, never waited for long."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest
from typing_extensions import TypeIs

from ishiki.contracts.events import ChatEvent, MessageCreated
from ishiki.testing.onebot_actions import Answer, AnswerWhen, Behaviour, DropSocket, Fail, NeverAnswer
from ishiki.testing.onebot_frames import at, text
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_replies import Reply
from ishiki.testing.openai_server import ChatRequest

from .shared_bot import HISTORY, SharedBot, Stage, hear, on_stage, shared_bot
from .stage import GROUP, LIMIT_S, contents_of, ended, lines_of, private, troubles

_FETCH_LIMIT_S = 3.0
"""Issue, quotes: six facts within so long. One fetch costs two seconds at most."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBot]:
    """Run one bot for all cases."""
    with shared_bot(tmp_path_factory.mktemp("bot")) as shared:
        yield shared


async def _unheard(peer: OneBotPeer, *lines: str) -> None:
    for line in lines:
        await peer.say(line, group_id=GROUP, is_reported=False)


async def _gone_and_back(stage: Stage, *lines: str) -> None:
    """Lose the connection, let people talk meanwhile, and connect again."""
    stage.peer.drop()
    await _unheard(stage.peer, *lines)
    await stage.peer.reconnect()


async def test_what_was_missed_stands_in_front_of_the_next_line_and_is_asked_for_once(shared: SharedBot) -> None:
    """Issue, backfill: each line once, the bot's own ones not again."""
    async with on_stage(shared) as stage:
        await stage.peer.say("heard before", group_id=GROUP)
        await stage.answered("m1")
        await ended(stage.bot, stage.channel, 1)
        await _gone_and_back(stage, "missed 1", "missed 2")
        for line in ("back 1", "back 2", "back 3"):
            await stage.peer.say(line, group_id=GROUP)
        lines = ["heard before", "m1", "missed 1", "missed 2", "back 1", "back 2", "back 3"]
        assert await stage.kept(7) == lines
        await stage.answered("m2")
        assert await stage.kept(8) == [*lines, "m2"]
        assert stage.history_calls == 2
        shown = [line.content for line in lines_of(stage.server.requests[-1]) if line.kind == "message"]
        assert [line.rpartition("> ")[2].strip() for line in shown] == [*lines, "m2"]


async def test_a_missed_mention_wakes_nobody_in_a_group_or_in_private(shared: SharedBot) -> None:
    """Issue, backfill; design: never waking."""
    async with on_stage(shared) as stage:
        peer = stage.peer
        await stage.answered("m1")
        await peer.say("m2", user_id=7)
        await peer.wait_sent(2, within=LIMIT_S)
        peer.drop()
        await peer.say([at(peer.self_id), text(" m3")], group_id=GROUP, is_reported=False)
        await peer.say("m4", user_id=7, is_reported=False, time=int(peer.account.now()) - 5)
        await peer.reconnect()
        await peer.say("just talk", group_id=GROUP)
        assert await stage.kept(3) == ["m1", "m3", "just talk"]
        chat = private(7, self_id=peer.self_id)
        await peer.recall(await peer.say("never mind", user_id=7, is_reported=False))
        await stage.bot.wait_facts(3, chat, within=LIMIT_S)
        # What had woken would have been answered before these.
        await stage.answered("m5")
        await peer.say("m6", user_id=7)
        await peer.wait_sent(4, within=LIMIT_S)
        assert stage.replies == ["heard m1", "heard m2", "heard m5", "heard m6"]
        assert contents_of(stage.bot.facts(chat)) == ["m2", "m4", "m6"]
        assert len(stage.server.requests) == 4


async def test_a_restart_finds_what_was_said_meanwhile_and_its_own_words_are_not_doubled(shared: SharedBot) -> None:
    """Issue, backfill: the bot was stopped, and once it was killed in a send that had arrived."""
    async with on_stage(shared) as stage:
        await stage.answered("m1")
        await ended(stage.bot, stage.channel, 1)
        await stage.bot.stop()
        await _unheard(stage.peer, "missed 1")
        await stage.bot.start()
        await stage.peer.reconnect()
        await stage.answered("m2")
        await ended(stage.bot, stage.channel, 2)
        assert await stage.kept(3) == ["m1", "missed 1", "m2"]
        stage.peer.script("send_group_msg", NeverAnswer())
        await stage.answered("m3")
        await stage.bot.kill()
        await _unheard(stage.peer, "missed 2")
        await stage.bot.start()
        await stage.peer.reconnect()
        await stage.answered("m4")
        assert await stage.kept(6) == ["m1", "missed 1", "m2", "m3", "missed 2", "m4"]
        assert stage.replies == ["heard m1", "heard m2", "heard m3", "heard m4"]


async def test_a_send_on_its_way_is_not_taken_for_somebody_elses_words(shared: SharedBot) -> None:
    """Bug: the history had the message before the end's answer named its id, and the mind heard itself twice."""
    thinking, answering = anyio.Event(), anyio.Event()

    async def respond(request: ChatRequest) -> Reply:
        await thinking.wait()
        return hear(request)

    async with on_stage(shared, respond) as stage:
        await stage.peer.mention("m1", group_id=GROUP)
        await stage.server.wait_requests(1, within=LIMIT_S)
        await _gone_and_back(stage)
        stage.peer.script("send_group_msg", AnswerWhen(answering))
        thinking.set()
        await stage.peer.wait_sent(1, within=LIMIT_S)
        await stage.peer.say("meanwhile", group_id=GROUP)
        assert await stage.kept(2) == ["m1", "meanwhile"]
        assert stage.history_calls == 2
        answering.set()
        await ended(stage.bot, stage.channel, 1)
        assert contents_of(stage.bot.facts(stage.channel)) == ["m1", "meanwhile"]


async def test_words_from_the_owners_phone_that_were_missed_are_the_minds_own(shared: SharedBot) -> None:
    """Design, intake and backfill: what this process did not send is a fact of the account itself, once."""
    async with on_stage(shared) as stage:
        await stage.answered("m1")
        stage.peer.drop()
        itself = stage.peer.account.person(stage.peer.self_id, group_id=GROUP)
        stage.peer.account.new_message(itself, [text("from my phone")], group_id=GROUP, user_id=0)
        await stage.peer.reconnect()
        await stage.answered("m2")
        facts = await stage.bot.wait_facts(3, stage.channel, within=LIMIT_S)
        told = [(fact.content.rpartition("> ")[2].strip(), fact.is_self) for fact in facts if _is_message(fact)]
        assert told == [("m1", False), ("from my phone", True), ("m2", False)]


@pytest.mark.parametrize(
    "behaviour",
    [
        Fail(1404, "unsupported action"),
        NeverAnswer(),
        Answer(None),
        Answer({"messages": None}),
        Answer({"messages": [None, 7, {}, {"message_id": 9}, {"user_id": 42}, {"message_id": 9, "user_id": []}]}),
    ],
    ids=["not offered", "silent", "no data", "no list", "no messages"],
)
async def test_an_end_without_a_history_costs_its_lines_and_nothing_else(
    shared: SharedBot, behaviour: Behaviour
) -> None:
    """Issue, backfill: at most one fetch's time, once a connection; the lines that come meanwhile keep their order."""
    async with on_stage(shared) as stage:
        since = len(stage.bot.log)
        stage.peer.script(HISTORY, behaviour, times=None)
        await _unheard(stage.peer, "missed")
        lines = [f"line {number}" for number in range(5)]
        for line in lines:
            await stage.peer.say(line, group_id=GROUP)
        assert contents_of(await stage.bot.wait_facts(5, stage.channel, within=_FETCH_LIMIT_S)) == lines
        await stage.answered("m1")
        assert await stage.kept(6) == [*lines, "m1"]
        assert stage.history_calls == 1
        assert troubles(stage.bot.log[since:]) == []


async def test_a_connection_lost_while_the_history_is_asked_for_loses_nothing(shared: SharedBot) -> None:
    """Our choice: the next connection is asked again, and each line is kept once."""
    async with on_stage(shared) as stage:
        await stage.answered("m1")
        stage.peer.drop()
        await _unheard(stage.peer, "missed")
        stage.peer.script(HISTORY, DropSocket())
        await stage.peer.reconnect()
        await stage.peer.say("back", group_id=GROUP)
        await stage.peer.wait_disconnected(2, within=LIMIT_S)
        await stage.peer.reconnect()
        await stage.answered("m2")
        assert sorted(await stage.kept(4)) == ["back", "m1", "m2", "missed"]
        assert stage.history_calls == 3


@pytest.mark.parametrize("is_silent", [False, True], ids=["gone", "silent"])
async def test_a_quote_that_cannot_be_had_keeps_its_place_before_the_five_lines_behind_it(
    shared: SharedBot, *, is_silent: bool
) -> None:
    """Issue, quotes: all six facts within three seconds, in the order sent."""
    async with on_stage(shared) as stage:
        since = len(stage.bot.log)
        await stage.peer.say("before", group_id=GROUP)
        await stage.kept(1)
        if is_silent:
            stage.peer.script("get_msg", NeverAnswer(), times=None)
        lines = [f"line {number}" for number in range(5)]
        await stage.peer.quote(4711, "remember this?", group_id=GROUP)
        for line in lines:
            await stage.peer.say(line, group_id=GROUP)
        facts = await stage.bot.wait_facts(7, stage.channel, within=_FETCH_LIMIT_S)
        assert contents_of(facts) == ["before", "remember this?", *lines]
        quoting = facts[1]
        assert _is_message(quoting)
        assert quoting.quote is not None
        assert (quoting.quote.id, quoting.quote.content) == ("4711", "")
        assert len([made for made in stage.peer.calls if made.action == "get_msg"]) == 1
        assert troubles(stage.bot.log[since:]) == []


def _is_message(fact: ChatEvent) -> TypeIs[MessageCreated]:
    return isinstance(fact, MessageCreated)
