"""Quotes that nobody can complete, at an end that answers nothing: the facts are on disk in time and in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ishiki.contracts.events import MessageCreated
from ishiki.testing.onebot_actions import Answer, Behaviour, Fail, NeverAnswer

from .load import Stopwatch
from .shared_bot import HISTORY, SharedBot, on_stage, shared_bot
from .stage import GROUP, LIMIT_S, contents_of

_WITHIN_S = 3.0
"""Issue, quotes: all six facts."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBot]:
    """Run one bot for all cases."""
    with shared_bot(tmp_path_factory.mktemp("bot")) as shared:
        yield shared


@pytest.mark.parametrize(
    "history", [Fail(1404, "unsupported action"), NeverAnswer()], ids=["no history", "silent history"]
)
@pytest.mark.parametrize(
    "message",
    [Fail(1200, "no such message"), Answer(None), Answer({"sender": 7}), NeverAnswer()],
    ids=["gone", "null", "garbled", "silent"],
)
async def test_a_quote_in_the_first_line_of_a_channel_holds_nothing_up(
    shared: SharedBot, message: Behaviour, history: Behaviour
) -> None:
    """Bug: an end that answers nothing was waited for twice, for what was missed and for what is quoted."""
    async with on_stage(shared) as stage:
        stage.peer.script("get_msg", message, times=None)
        stage.peer.script(HISTORY, history, times=None)
        watch = Stopwatch(stage.bot.pid)
        await stage.peer.quote(4711, "remember this?", group_id=GROUP)
        lines = [f"line {number}" for number in range(5)]
        for line in lines:
            await stage.peer.say(line, group_id=GROUP)
        facts = await stage.bot.wait_facts(6, stage.channel, within=LIMIT_S)
        assert watch.seconds < _WITHIN_S
        assert contents_of(facts) == ["remember this?", *lines]
        quoting = facts[0]
        assert isinstance(quoting, MessageCreated)
        assert quoting.quote is not None
        assert (quoting.quote.id, quoting.quote.content) == ("4711", "")
        await stage.answered("m1")
