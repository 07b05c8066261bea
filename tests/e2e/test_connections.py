"""How a protocol end reaches the bot: by forward WebSocket, and with an access token."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from websockets.exceptions import InvalidStatus

from ishiki.testing.bot_process import BotProcess, profile_yaml
from ishiki.testing.onebot_peer import OneBotPeer

from .stage import LIMIT_S

_MIND = {"mind": profile_yaml(model="demo:offline")}
TOKEN = "correct-horse-4711"


async def test_the_bot_connects_to_an_end_that_listens(tmp_path: Path) -> None:
    """Issue, two commands: forward WebSocket, with the token that the end demands."""
    async with OneBotPeer(access_token=TOKEN) as peer:
        env = {"ONEBOT_WS_URLS": orjson.dumps([peer.url]).decode(), "ONEBOT_ACCESS_TOKEN": TOKEN}
        async with BotProcess(tmp_path, profiles=_MIND, env=env) as bot:
            await peer.wait_connected(within=LIMIT_S)
            await peer.mention("hello", group_id=500)
            (sent,) = await peer.wait_sent(1, within=LIMIT_S)
            assert (sent.kind, sent.target_id) == ("group", 500)
            assert TOKEN not in "\n".join(bot.log)


async def test_a_token_from_the_environment_alone_is_demanded(tmp_path: Path) -> None:
    """Design, safety defaults; `.env` is one way to set it, not the only one."""
    async with BotProcess(tmp_path, profiles=_MIND, env={"ONEBOT_ACCESS_TOKEN": TOKEN}) as bot:
        assert not (tmp_path / ".env").exists()
        for wrong in (None, "wrong-horse"):
            with pytest.raises(InvalidStatus) as refusal:
                async with OneBotPeer(bot.url, access_token=wrong):
                    pass
            assert refusal.value.response.status_code == 403
        async with OneBotPeer(bot.url, access_token=TOKEN) as peer:
            await peer.mention("hello", group_id=500)
            await peer.wait_sent(1, within=LIMIT_S)
        assert TOKEN not in "\n".join(bot.log)


async def test_without_a_token_the_bot_listens_on_this_machine_only(tmp_path: Path) -> None:
    """Design, safety defaults."""
    async with BotProcess(tmp_path, profiles=_MIND, env={"HOST": "0.0.0.0"}) as bot:
        assert [line for line in bot.log if "[WARNING]" in line and "ONEBOT_ACCESS_TOKEN" in line]
        assert [line for line in bot.log if f"Uvicorn running on http://127.0.0.1:{bot.port}" in line]
