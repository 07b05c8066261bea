"""The repository's own bot.py, as a deployer starts it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from ishiki.contracts.events import ChannelRef
from ishiki.testing.bot_process import BotProcess
from ishiki.testing.onebot_peer import OneBotPeer

from .stage import LIMIT_S

ROOT = Path(__file__).parents[2]


async def test_bot_py_serves_the_shipped_profile_from_its_own_folder_wherever_it_is_started(tmp_path: Path) -> None:
    """Issue, two commands: with nothing configured, the demo answers and the log says what to do next."""
    home, elsewhere = tmp_path / "bot", tmp_path / "elsewhere"
    home.mkdir()
    shutil.copy(ROOT / "bot.py", home)
    shutil.copytree(ROOT / "profiles", home / "profiles")
    plugins = home / "plugins"
    plugins.mkdir()
    (plugins / "broken.py").write_text("raise RuntimeError('boom')\n", encoding="utf-8")
    (home / ".env").write_text("ONEBOT_ACCESS_TOKEN=from-the-file\n", encoding="utf-8")
    async with BotProcess(elsewhere, command=[sys.executable, str(home / "bot.py")]) as bot:
        log = "\n".join(bot.log)
        assert f"ws://127.0.0.1:{bot.port}/onebot/v11/ws (with ONEBOT_ACCESS_TOKEN)" in log
        assert "onebot:*: * -> default" in log
        assert "for a real model, set one of these in .env: DEEPSEEK_API_KEY" in log
        assert "python -m ishiki chat" in log
        assert 'Failed to import "plugins.broken"' in log
        async with OneBotPeer(bot.url, access_token="from-the-file") as peer:
            await peer.say("hello")
            (sent,) = await peer.wait_sent(1, within=LIMIT_S)
            assert "demo" in sent.text
        channel = ChannelRef("onebot:10001", "private:42")
        assert bot.facts(channel, profile="default") == []
        assert (home / "data/default/onebot%3A10001/private%3A42/events.jsonl").is_file()
        assert await bot.stop() == 143
