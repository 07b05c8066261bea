"""A whole conversation with each well-known OneBot implementation, as its preset behaves, over a real WebSocket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ishiki.contracts.events import MessageCreated
from ishiki.testing.onebot_implementations import IMPLEMENTATIONS, ImplementationName
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_server import OpenAIServer

from .shared_bot import SharedBot, Stage, hear, shared_bot
from .stage import GROUP, LIMIT_S, contents_of, ended, private

_SELF_IDS = {"napcat": 41_001, "llbot": 41_002, "lagrange": 41_003}
_STRANGER = 900


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBot]:
    """Run one bot for the three."""
    with shared_bot(tmp_path_factory.mktemp("bot")) as shared:
        yield shared


@pytest.mark.parametrize("name", list(IMPLEMENTATIONS))
async def test_with_each_implementation_every_line_is_heard_once_and_answered_at_most_once(
    name: ImplementationName, shared: SharedBot
) -> None:
    """Private, a mention, a quote, our own reports, a file, a temporary chat, and a reconnect with what was missed."""
    server = OpenAIServer(hear, port=shared.model_port)
    async with server, OneBotPeer(shared.bot.url, self_id=_SELF_IDS[name], implementation=name) as peer:
        stage = Stage(shared.bot, server, peer)
        since = len(shared.bot.log)
        await peer.say("m1", user_id=7)
        await peer.wait_sent(1, within=LIMIT_S)
        await stage.answered("m2")
        await ended(stage.bot, stage.channel, 1)
        await peer.quote(peer.sent[-1].message_id, "m3", group_id=GROUP, user_id=8)
        await peer.wait_sent(3, within=LIMIT_S)
        await ended(stage.bot, stage.channel, 2)
        await peer.upload("notes.pdf", 1024, group_id=GROUP)
        await peer.say("thanks", group_id=GROUP)
        heard = await stage.kept(4)
        assert heard[:2] + heard[3:] == ["m2", "m3", "thanks"]
        assert heard[2].startswith("<file ")
        assert 'name="notes.pdf"' in heard[2]
        peer.drop()
        await peer.say("missed", group_id=GROUP, is_reported=False)
        await peer.reconnect()
        await stage.answered("m4")
        assert await stage.kept(6) == [*heard, "missed", "m4"]
        replies = ["heard m1", "heard m2", "heard m3", "heard m4"]
        if name != "lagrange":  # which names no group: nobody can answer there
            await peer.say_through_group("m5", group_id=GROUP, user_id=_STRANGER)
            await peer.wait_sent(5, within=LIMIT_S)
            replies.append("heard m5")
        assert stage.replies == replies
        assert contents_of(stage.bot.facts(private(7, self_id=peer.self_id))) == ["m1"]
        facts = stage.bot.facts(stage.channel)
        assert [fact for fact in facts if isinstance(fact, MessageCreated) and fact.is_self] == []
        quoting = facts[1]
        assert isinstance(quoting, MessageCreated)
        assert quoting.quote is not None
        assert quoting.quote.content == "heard m2"
        assert peer.malformed == []
        assert server.violations == []
        assert [line for line in shared.bot.log[since:] if "Traceback" in line] == []


@pytest.mark.parametrize("name", list(IMPLEMENTATIONS))
async def test_a_file_in_private_is_one_line_and_wakes_once(name: ImplementationName, shared: SharedBot) -> None:
    """Bug: an empty message woke a turn in private; Lagrange sends a notice beside the message."""
    server = OpenAIServer(hear, port=shared.model_port)
    async with server, OneBotPeer(shared.bot.url, self_id=_SELF_IDS[name] + 10, implementation=name) as peer:
        channel = private(7, self_id=peer.self_id)
        await peer.say([], user_id=7)
        await peer.upload("m9 notes.pdf", 1024, user_id=7)
        await peer.wait_sent(1, within=LIMIT_S)
        await ended(shared.bot, channel, 1)
        (line,) = contents_of(shared.bot.facts(channel))
        assert 'name="m9 notes.pdf"' in line
        assert len(peer.sent) == 1
