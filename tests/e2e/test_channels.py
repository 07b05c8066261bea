"""Channels do not know each other: neither what is said in one, nor how long another one thinks."""

from __future__ import annotations

import re
import secrets

from ishiki.testing.openai_replies import Hang, Reply, reply_saying
from ishiki.testing.openai_server import ChatRequest

from .stage import LIMIT_S, SharedBot, contents_of, on_stage

_HANGING = range(601, 616)
"""Fifteen groups."""


async def test_no_request_holds_a_token_of_another_group(shared: SharedBot) -> None:
    """Issue, must hold: two groups at once, every line with a random token of its own."""
    tokens = {group_id: [f"g{group_id}-{secrets.token_hex(8)}" for _ in range(12)] for group_id in (501, 502)}

    def respond(request: ChatRequest) -> Reply:
        heard = sorted(set(re.findall(r"g(\d+)-[0-9a-f]{16}", request.all_text)))
        return reply_saying(f"heard {' and '.join(heard)}")

    async with on_stage(shared, respond) as stage:
        for first, second in zip(*tokens.values(), strict=True):
            for group_id, token in ((501, first), (502, second)):
                if token == tokens[group_id][-1] or secrets.randbelow(2):
                    await stage.peer.mention(token, group_id=group_id)
                else:
                    await stage.peer.say(token, group_id=group_id)
        for group_id, said in tokens.items():
            await stage.asked_with(said[-1])
            facts = await stage.kept(12, stage.group(group_id))
            assert [re.findall(r"g\d+-[0-9a-f]{16}", content) for content in contents_of(facts)] == [[t] for t in said]
            await stage.peer.wait_sent_like(lambda sent, group_id=group_id: sent.target_id == group_id, within=LIMIT_S)
        for request in stage.server.requests:
            groups = {group_id for group_id, said in tokens.items() if any(token in request.all_text for token in said)}
            assert len(groups) == 1
        for sent in stage.peer.sent:
            assert sent.text == f"heard {sent.target_id}"


async def test_the_sixteenth_channel_is_answered_while_fifteen_hang_in_the_model(shared: SharedBot) -> None:
    """Issue, must hold."""

    def respond(request: ChatRequest) -> Reply:
        return Hang() if "hang on" in request.all_text else reply_saying("at once")

    async with on_stage(shared, respond) as stage:
        for group_id in _HANGING:
            await stage.peer.mention("hang on", group_id=group_id)
        hanging = await stage.asked(len(_HANGING))
        await stage.peer.mention("and me?", group_id=700)
        (reply,) = await stage.sent()
        assert (reply.target_id, reply.text) == (700, "at once")
        assert not [request.number for request in hanging if request.gone.is_set() or request.answered.is_set()]
