"""Two bots in one group, over a real WebSocket with a model over real HTTP; and what it all cost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ishiki.contracts.events import ChannelRef
from ishiki.core.entries import Entry
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_int, read_object, read_str
from ishiki.testing.bot_process import BotProcess, models_yaml, profile_yaml
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_server import OpenAIServer

from .stage import GROUP, LIMIT_S, SharedBot, events_of, on_stage

BOT, PERSON = 3077, 3042
WARM_S = 50.0
"""Seconds until the first answer of a bot, which waits for LiteLLM to be imported."""


async def test_two_bots_that_answer_each_other_stop_after_six_turns_and_a_person_is_still_answered(
    shared: SharedBot,
) -> None:
    """Design, guards, two bots."""
    async with on_stage(shared) as stage:
        for count in range(1, 7):
            await stage.peer.mention(f"ping {count}", group_id=GROUP, user_id=BOT)
            await stage.sent(count)
        await stage.ended(6, stage.group())
        await stage.peer.mention("ping 7", group_id=GROUP, user_id=BOT)
        await stage.kept(7, stage.group())
        await stage.peer.mention("is anybody here?", group_id=GROUP, user_id=PERSON)
        await stage.sent(7)
        await stage.ended(7, stage.group())
        assert len(stage.peer.sent) == len(stage.server.requests) == 7
        assert "ping 7" in stage.server.requests[-1].all_text

        def is_noted(entry: Entry) -> bool:
            return entry.type == "ishiki.guard"

        noted = await stage.bot.wait_entry(is_noted, stage.group(), within=LIMIT_S)
        assert read_str(noted.json_data, "kind") == "two_bots"
        assert read_str(noted.json_data, "account") == str(BOT)


async def test_usage_of_a_bot_that_was_killed_is_whole_after_its_next_start(tmp_path: Path) -> None:
    """Issue: usage is kept over restarts, and shown by a command."""
    async with OpenAIServer() as server:
        bot = BotProcess(
            tmp_path,
            models=models_yaml(server.base_url),
            profiles={"mind": profile_yaml()},
            env={"ISHIKI_TIMEZONE": "UTC"},
        )
        async with bot, OneBotPeer(bot.url) as peer:
            await take_turns(bot, peer, done=0)
            await bot.kill()
        async with bot, OneBotPeer(bot.url) as peer:
            await take_turns(bot, peer, done=3)
        counted = len(server.requests)
        assert counted == 6
        shown = usage_of(tmp_path)
    assert read_int(shown, "turns") == read_int(shown, "calls") == counted
    # The server counts a quarter of the characters of each request.
    assert read_int(shown, "inputTokens") == sum(len(request.raw) // 4 for request in server.requests)


async def take_turns(bot: BotProcess, peer: OneBotPeer, *, done: int) -> None:
    """Speak to the bot three times, and return when its turns have ended."""
    channel = ChannelRef(f"onebot:{peer.self_id}", f"group:{GROUP}")
    await peer.wait_connected()
    for number in range(1, 4):
        await peer.mention(f"hello {done + number}", group_id=GROUP)
        await peer.wait_sent(number, within=WARM_S)

    def are_over(_entry: Entry) -> bool:
        return len(events_of(bot.entries(channel), "turn.done")) == done + 3

    await bot.wait_entry(are_over, channel, within=LIMIT_S)


def usage_of(folder: Path) -> JsonObject:
    """Return the total that the command shows for a bot's folder."""
    (folder / "bot.py").touch()
    command = [sys.executable, "-m", "ishiki", "usage", "--json", "--days", "2", "--svg", "usage.svg"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=50, check=True)
    assert (folder / "usage.svg").read_text(encoding="utf-8").startswith("<svg ")
    read: JsonValue = json.loads(done.stdout)
    assert isinstance(read, dict)
    (profile,) = read_array(read, "profiles")
    assert isinstance(profile, dict)
    return read_object(profile, "total")
