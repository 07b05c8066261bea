"""Plugins in plugins/: an extension that a profile enables, and a broken file beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ishiki.contracts.events import ChannelRef
from ishiki.testing.bot_process import BotProcess, models_yaml, profile_yaml
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_replies import Reply, call, reply_saying, tool_calls
from ishiki.testing.openai_server import ChatRequest, OpenAIServer

pytestmark = pytest.mark.timeout(120)
"""Each of these starts bots of its own, some more than once."""

NOTE = Path(__file__).parents[2] / "plugins/examples/note.py"
_FIRST_S = 50.0
"""The first answer of a process waits for LiteLLM."""


async def test_a_plugin_that_is_dropped_in_and_enabled_runs_and_a_broken_one_beside_it_hurts_nobody(
    tmp_path: Path,
) -> None:
    """Design, contracts for authors and configuration: a bad plugin hurts only itself."""

    def respond(request: ChatRequest) -> Reply:
        if request.messages[-1].get("role") == "tool":
            return reply_saying("noted")
        return tool_calls([call("note_write", {"text": "Rin likes tea"})])

    async with OpenAIServer(respond) as server:
        bot = BotProcess(
            tmp_path,
            models=models_yaml(server.base_url),
            profiles={"mind": profile_yaml(more="extends: {note: {config: {prefix: remember}}}")},
            plugins={
                "a_broken.py": "raise RuntimeError('boom')\n",
                "b_torn.py": "def (:\n",
                "note.py": NOTE.read_text(encoding="utf-8"),
            },
        )
        async with bot, OneBotPeer(bot.url) as peer:
            await peer.mention("I like tea", group_id=500)
            (sent,) = await peer.wait_sent(1, within=_FIRST_S)
            assert sent.text == "noted"
            assert "note_write" in server.requests[0].tool_names
            assert "note_write" in str(server.requests[0].messages[0])
            notes = bot.home(ChannelRef("onebot:10001", "group:500")) / "notes.txt"
            assert notes.read_text(encoding="utf-8") == "remember: Rin likes tea\n"
            assert [line for line in bot.log if "a_broken" in line]
        assert server.violations == []
