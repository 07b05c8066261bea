"""One mind for all channels of a profile, over real WebSockets of two accounts and a model over real HTTP."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ishiki.contracts.events import MessageCreated
from ishiki.runtime.address import MAIN
from ishiki.testing.bot_process import BotProcess, models_yaml, profile_yaml
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_replies import Reply, call, reply_saying, tool_calls
from ishiki.testing.openai_server import ChatRequest, OpenAIServer

from .stage import LIMIT_S

pytestmark = pytest.mark.timeout(120)
"""It starts a bot of its own."""

_FIRST_S = 50.0
"""The first answer of a process waits for LiteLLM."""

_TARGET = re.compile(r'\[channel target=\{"sid":"([^"]+)","channelId":"([^"]+)"\}\]')


def answer_where_it_was_asked(request: ChatRequest) -> Reply:
    """Answer below the newest header, by the account that it names; a mind of one channel has no header."""
    places = _TARGET.findall(request.last_user_text)
    if not places:
        return reply_saying("woof")
    sid, channel_id = places[-1]
    arguments = {"messages": [f"heard in {channel_id}"], "target": {"sid": sid, "channelId": channel_id}}
    return tool_calls([call("send_message", arguments)])


async def test_one_mind_answers_two_accounts_and_hears_nothing_of_another_profile(tmp_path: Path) -> None:
    """Issue: cross mode; design: target limited to the profile's own channels."""
    profiles = {
        "mind": profile_yaml(more="mode: cross"),
        "dog": profile_yaml(claims='{"onebot:10001": ["group:600"]}'),
    }
    async with OpenAIServer(answer_where_it_was_asked) as server:
        bot = BotProcess(tmp_path, models=models_yaml(server.base_url), profiles=profiles)
        async with bot, OneBotPeer(bot.url) as one, OneBotPeer(bot.url, self_id=10_002) as two:
            await one.wait_connected()
            await two.wait_connected()
            await one.mention("the dogs' secret", group_id=600)
            await one.wait_sent(1, within=_FIRST_S)
            await one.mention("first", group_id=500)
            await one.wait_sent(2, within=LIMIT_S)
            await two.mention("second", group_id=500)
            await two.wait_sent(1, within=LIMIT_S)
            await one.say("third", user_id=3042)
            await one.wait_sent(3, within=LIMIT_S)
            facts = await bot.wait_facts(3, MAIN, within=LIMIT_S)
        assert [(sent.kind, sent.target_id, sent.text) for sent in one.sent] == [
            ("group", 600, "woof"),
            ("group", 500, "heard in group:500"),
            ("private", 3042, "heard in private:3042"),
        ]
        assert [(sent.target_id, sent.text) for sent in two.sent] == [(500, "heard in group:500")]
        assert [fact.channel.sid for fact in facts] == ["onebot:10001", "onebot:10002", "onebot:10001"]
        assert all(isinstance(fact, MessageCreated) and "secret" not in fact.content for fact in facts)
        assert all("secret" not in request.all_text for request in server.requests[1:])
        assert "first" in server.requests[-1].all_text, "it remembers what it heard elsewhere"
        assert server.violations == []
        assert one.malformed == two.malformed == []
