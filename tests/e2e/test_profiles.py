"""Profiles side by side in one process: broken ones, none at all, one beside the shipped one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ishiki.contracts.events import ChannelRef
from ishiki.testing.bot_process import BotProcess, models_yaml, profile_yaml
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_replies import reply_saying
from ishiki.testing.openai_server import OpenAIServer

from .stage import LIMIT_S

pytestmark = pytest.mark.timeout(120)
"""Each of these starts bots of its own, some more than once."""

ROOT = Path(__file__).parents[2]
SID = "onebot:10001"
_FIRST_S = 50.0
"""The first answer of a process waits for LiteLLM."""

DEMO = "demo:offline"


async def test_a_broken_profile_beside_a_good_one_hurts_only_itself(tmp_path: Path) -> None:
    """Issue, must hold."""
    profiles = {
        "broken": 'model: demo:offline\nchannels: {"onebot:*": ["group:1"]}\nwakup: {engine: standard}\n',
        "torn": 'channels:\n  "onebot:*": [group:1]\n   model: demo:offline\n',
        "mind": profile_yaml(model=DEMO),
    }
    async with BotProcess(tmp_path, profiles=profiles) as bot, OneBotPeer(bot.url) as peer:
        await peer.mention("hello", group_id=500)
        (sent,) = await peer.wait_sent(1, within=LIMIT_S)
        assert sent.target_id == 500
        log = "\n".join(bot.log)
        assert "profiles/broken/profile.yaml:3" in log
        assert "did you mean 'wakeup'" in log
        assert "profiles/torn/profile.yaml:3" in log
        assert "Traceback" not in log


async def test_without_profiles_the_bot_runs_and_warns(tmp_path: Path) -> None:
    """Issue, must hold."""
    async with BotProcess(tmp_path) as bot, OneBotPeer(bot.url) as peer:
        assert not (tmp_path / "profiles").exists()
        assert [line for line in bot.log if "[WARNING]" in line and "profiles" in line]
        assert not [line for line in bot.log if "[ERROR]" in line or "Traceback" in line]
        await peer.mention("hello", group_id=500)
        await peer.flushed()
        # Profiles that come later are picked up: nothing has died of their absence.
        bot.write("profiles/mind/profile.yaml", profile_yaml(model=DEMO))
        await bot.wait_log("profile mind is active", within=LIMIT_S)
        await peer.mention("and now?", group_id=500)
        (sent,) = await peer.wait_sent(1, within=LIMIT_S)
        assert "and now?" in sent.text


async def test_a_users_own_profile_beside_the_shipped_one_gets_its_channels(tmp_path: Path) -> None:
    """Issue, must hold: with the files that ship."""
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    async with OpenAIServer(lambda request: reply_saying("I am Neko")) as server:
        models = (ROOT / "profiles/models.yaml").read_text(encoding="utf-8")
        ours = models_yaml(server.base_url).removeprefix("providers:\n")
        bot = BotProcess(
            tmp_path,
            models=models.replace("providers:\n", f"providers:\n{ours}", 1),
            profiles={"neko": profile_yaml(claims='{"onebot:*": ["group:500"]}')},
        )
        async with bot, OneBotPeer(bot.url) as peer:
            await peer.mention("who are you?", group_id=500)
            await peer.mention("who are you?", group_id=501)
            await peer.wait_sent(2, within=_FIRST_S)
            said = {sent.target_id: sent.text for sent in peer.sent}
            assert said[500] == "I am Neko"
            assert "demo" in said[501]
            assert len(bot.facts(ChannelRef(SID, "group:500"), profile="neko")) == 1
            assert len(bot.facts(ChannelRef(SID, "group:501"), profile="default")) == 1
            assert bot.facts(ChannelRef(SID, "group:500"), profile="default") == []
        assert len(server.requests) == 1
        assert server.violations == []
