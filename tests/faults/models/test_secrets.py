"""A whole bot with everything switched on that shows requests: its key is in none of its files and lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from ishiki.testing import openai_replies as replies
from ishiki.testing.bot_process import BotProcess, profile_yaml
from ishiki.testing.onebot_frames import at, text
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_server import OpenAIServer

KEY = "plainwords-and-9-digits-0123456789"
"""Shaped like no vendor's key, so that only who knows its value can mask it."""

GROUP = 500
LIMIT_S = 50.0
"""Seconds until an answer; the first one waits for LiteLLM."""

_MODELS = """\
providers:
  test:
    api: openai-completions
    base_url: {base_url}
    api_key: "${{SECRET_MODEL_KEY}}"
    headers: {{X-Relay: "token ${{SECRET_MODEL_KEY}}"}}
    models: [{{id: a}}]
"""


@pytest.mark.timeout(120)
async def test_a_key_that_a_server_echoes_is_in_no_file_and_no_line(tmp_path: Path) -> None:
    """Issue, model faults: 401 with the key echoed; gateway: ISHIKI_DUMP_REQUESTS without secrets."""
    async with OpenAIServer(api_key=None) as server:
        bot = BotProcess(
            tmp_path,
            models=_MODELS.format(base_url=server.base_url),
            profiles={"mind": profile_yaml(model="test:a")},
            env={
                "SECRET_MODEL_KEY": KEY,
                "ISHIKI_DUMP_REQUESTS": "true",
                "ISHIKI_DEBUG_STREAM": "true",
                "LOG_LEVEL": "DEBUG",
            },
        )
        async with bot, OneBotPeer(bot.url, self_id=10_001) as peer:
            server.enqueue(
                replies.error(401, f"Incorrect API key provided: {KEY}. Header: token {KEY}"),
                replies.reply_saying("healthy"),
            )
            await peer.wait_connected()
            await peer.say([at(10_001), text(" hello")], group_id=GROUP)
            await bot.wait_log("turn .* failed", within=LIMIT_S)
            await peer.say([at(10_001), text(" still there?")], group_id=GROUP)
            (sent,) = await peer.wait_sent(1, within=LIMIT_S)
            assert sent.text == "healthy"
            await bot.wait_log("turn ended", within=LIMIT_S)
            assert [request.headers["authorization"] for request in server.requests] == [f"Bearer {KEY}"] * 2
            assert any("Finish" in line for line in bot.log)
            assert not [line for line in bot.log if KEY in line]
    files = [file for file in (tmp_path / "data").rglob("*") if file.is_file()]
    assert len([file for file in files if file.parent.name == "requests"]) == 2
    assert not [file for file in files if KEY.encode() in file.read_bytes()]
