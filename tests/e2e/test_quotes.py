"""Quotes of messages that the log does not have: asked for at the protocol end, and never waited for long."""

from __future__ import annotations

from ishiki.contracts.events import MessageCreated
from ishiki.testing.onebot_account import Member
from ishiki.testing.onebot_actions import NeverAnswer

from .stage import GROUP, SharedBot, contents_of, lines_of, on_stage

_FETCH_LIMIT_S = 3.0
"""Issue: a fact waits for the text of what it quotes at most two seconds; one more for the way to the disk."""


async def test_a_quoted_message_that_the_log_has_not_shows_author_and_text(shared: SharedBot) -> None:
    """Design, channel queue: a miss is fetched from the end."""
    async with on_stage(shared) as stage:
        stage.peer.set_member(GROUP, Member(77, "Mio"))
        unheard = await stage.peer.say("from long ago", group_id=GROUP, user_id=77, is_reported=False)
        stage.peer.script("get_group_msg_history", NeverAnswer())
        await stage.peer.quote(unheard, "remember this?", group_id=GROUP)
        (fact,) = await stage.kept(1, stage.group())
        assert isinstance(fact, MessageCreated)
        assert fact.quote is not None
        assert fact.quote.user is not None
        assert (fact.quote.user.id, fact.quote.content) == ("77", "from long ago")
        await stage.peer.mention("marker", group_id=GROUP)
        assert lines_of(await stage.asked_with("marker"))[0].reply == f"#{unheard} Mio: from long ago"
        await stage.sent()


async def test_an_end_that_never_answers_costs_a_quote_its_text_and_the_channel_no_order(shared: SharedBot) -> None:
    """Design, channel queue: the queue waits at most two seconds."""
    async with on_stage(shared) as stage:
        await stage.peer.say("before", group_id=GROUP)
        await stage.kept(1, stage.group())
        stage.peer.script("get_msg", NeverAnswer(), times=None)
        await stage.peer.quote(4711, "remember this?", group_id=GROUP)
        for number in range(5):
            await stage.peer.say(f"line {number}", group_id=GROUP)
        facts = await stage.bot.wait_facts(2, stage.group(), within=_FETCH_LIMIT_S)
        quoting = facts[1]
        assert isinstance(quoting, MessageCreated)
        assert quoting.quote is not None
        assert (quoting.quote.id, quoting.quote.content) == ("4711", "")
        said = ["before", "remember this?", *(f"line {number}" for number in range(5))]
        assert contents_of(await stage.kept(7, stage.group())) == said
