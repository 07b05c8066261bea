"""A wait outlives the process: set over a real WebSocket, killed, and woken after the next start."""

from __future__ import annotations

from pathlib import Path

import pytest

from ishiki.contracts.events import ChannelRef
from ishiki.core.entries import Entry
from ishiki.jsonvalue import read_str
from ishiki.testing.bot_process import BotProcess, models_yaml, profile_yaml
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_replies import Reply, call, reply_saying, tool_calls
from ishiki.testing.openai_server import ChatRequest, OpenAIServer

from .stage import LIMIT_S

pytestmark = pytest.mark.timeout(180)
"""It starts a bot twice."""

_FIRST_S = 50.0
"""The first answer of a process waits for LiteLLM."""

GROUP = ChannelRef("onebot:10001", "group:500")


def wait_then_tell(request: ChatRequest) -> Reply:
    """Wait when somebody asks for it; tell when woken."""
    if "wait: the tea is ready" in request.last_user_text:
        return reply_saying("your tea is ready")
    return tool_calls([call("wait", {"seconds": 3, "reason": "the tea is ready"})])


async def test_a_wait_wakes_the_mind_after_a_kill_though_nobody_speaks(tmp_path: Path) -> None:
    """Design, wait: waits survive a restart; the runtime is built at the start for it."""

    def is_set(entry: Entry) -> bool:
        return entry.type == "ishiki.wait" and read_str(entry.json_data, "state") == "set"

    def is_over(entry: Entry) -> bool:
        return entry.type == "ishiki.wait" and read_str(entry.json_data, "state") == "over"

    async with OpenAIServer(wait_then_tell) as server:
        bot = BotProcess(tmp_path, models=models_yaml(server.base_url), profiles={"mind": profile_yaml()})
        async with bot, OneBotPeer(bot.url) as peer:
            await peer.wait_connected()
            await peer.mention("tell me when the tea is ready", group_id=500)
            await bot.wait_entry(is_set, GROUP, within=_FIRST_S)
            await bot.kill()
            assert peer.sent == []
        after = OneBotPeer(bot.url)
        after.account.group(500)
        async with bot, after as peer:
            (sent,) = await peer.wait_sent(1, within=_FIRST_S)
            assert (sent.target_id, sent.text) == (500, "your tea is ready")
            await bot.wait_entry(is_over, GROUP, within=LIMIT_S)
        assert len(server.requests) == 2
        assert len(bot.facts(GROUP)) == 1
        assert server.violations == []
