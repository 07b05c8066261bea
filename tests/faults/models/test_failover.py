"""A mind with more than one try: it answers in the same turn, and the group notices nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ishiki.testing import openai_replies as replies
from ishiki.testing.openai_server import ChatRequest, Responder
from tests.runtime.kit import profile_text, running

from .stage import always

GROUP_OF_TWO = """\
providers:
  test:
    api: openai-completions
    base_url: {base_url}
    models: [{{id: a}}, {{id: b}}]
groups:
  main: {{strategy: failover, models: ["test:a", "test:b"]}}
"""


def failing(model: str, reply: replies.Reply) -> Responder:
    """Return a responder that fails for one model and lets the other speak."""

    def respond(request: ChatRequest) -> replies.Reply:
        return reply if request.model == model else replies.reply_saying(f"by {request.model}, {request.number}")

    return respond


@pytest.mark.parametrize(
    "reply",
    [replies.error(429, retry_after_s=60), replies.bad_gateway(), replies.Reset(), replies.Completion(choices="empty")],
    ids=["429", "502", "reset", "no choices"],
)
async def test_another_member_answers_in_the_same_turn(tmp_path: Path, reply: replies.Reply) -> None:
    """Issue, gateway complete: of a group whose first member fails, the second one answers."""
    async with running(tmp_path, profile_text(model="main"), models=GROUP_OF_TWO) as bot:
        bot.server.responder = failing("a", reply)
        bot.mention("hello?")
        await bot.quiet()
        assert bot.platform.texts == ["by b, 2"]
        assert [end["type"] for end in bot.ends()] == ["turn.done"]
        assert len(bot.logs.holding("main: a try failed")) == 1


async def test_a_profile_says_how_often_its_model_is_asked_again(tmp_path: Path) -> None:
    """Reference, profile keys: failover.attempts and backoff_ms."""
    text = profile_text("failover: {attempts: 3, backoff_ms: 1}")
    async with running(tmp_path, text) as bot:
        bot.server.enqueue(replies.error(500), replies.bad_gateway())
        bot.mention("hello?")
        await bot.quiet()
        assert bot.platform.texts == ["reply 3"]
        bot.server.responder = always(replies.error(500))
        bot.mention("and now?")
        await bot.quiet()
        assert len(bot.server.requests) == 6
        assert [end["type"] for end in bot.ends()] == ["turn.done", "turn.failed"]


async def test_a_profile_says_that_a_refusal_goes_on_to_the_next_member(tmp_path: Path) -> None:
    """Reference, profile keys: failover.failover_on; nothing is withheld where another member reads it."""
    text = profile_text("failover: {failover_on: any, backoff_ms: 1}", model="main")
    async with running(tmp_path, text, models=GROUP_OF_TWO) as bot:
        bot.server.responder = failing("a", replies.error(400, "this word is not allowed"))
        bot.mention("POISON")
        await bot.quiet()
        assert bot.platform.texts == ["by b, 2"]
        assert not [entry for entry in bot.entries() if entry.get("type") == "ishiki.withheld"]
