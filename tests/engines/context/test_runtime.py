"""Context engines in a whole bot: over HTTP, with logs on disk, restarts and accounts."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from ishiki.engines.context._tail import MEMORY_HEAD
from ishiki.jsonvalue import read_object
from ishiki.runtime.usage.tally import read_day, usage_folder
from ishiki.testing.openai_replies import Reply, Usage, call, text, tool_calls
from ishiki.testing.openai_server import ChatRequest
from tests.runtime.kit import GROUP, PROFILE, SELF, Bot, profile_text, running

TURNS = 10
SMALL = "context: {standard: {max_tokens: 1500, model: test:b}}"


def answer(request: ChatRequest) -> Reply:
    """Finish each turn, and write the same summary whenever one is asked for."""
    if "You keep the memory of a mind" in request.all_text:
        return text("They spoke of tea.", usage=Usage(500, 50))
    return tool_calls([call("finish", {})], usage=Usage(100, 10))


async def talk(bot: Bot, turns: int) -> None:
    """Let somebody speak to the mind, and wait until it has dealt with it, also in the background."""
    for _ in range(turns):
        bot.mention("tea " * 60)
        await bot.quiet()
        with anyio.fail_after(5):
            while bot.runtime().host.tasks.kept_alive_by:
                await anyio.lowlevel.checkpoint()
        await bot.quiet()


def summaries(bot: Bot) -> list[ChatRequest]:
    """Return the requests for summaries."""
    return [request for request in bot.server.requests if "You keep the memory of a mind" in request.all_text]


async def test_summaries_are_made_by_the_named_model_counted_and_kept_over_a_restart(tmp_path: Path) -> None:
    """Issue: config `model`; what the summariser takes is in the usage files; the log keeps the memory."""
    async with running(tmp_path, profile_text(SMALL)) as bot:
        bot.server.responder = answer
        await talk(bot, TURNS)
        asked = summaries(bot)
        assert asked
        assert {request.model for request in asked} == {"b"}
        kept = [read_object(entry, "data")["summary"] for entry in bot.entries() if entry["type"] == "ishiki.compact"]
        assert kept == ["They spoke of tea."] * len(asked)
        calls = len(bot.server.requests)
    (file,) = usage_folder(tmp_path / "data", PROFILE).glob("*.json")
    tally = read_day(file).channels[str(GROUP)].tally
    assert (tally.turns, tally.calls) == (TURNS, calls)
    assert tally.input_tokens == TURNS * 100 + len(asked) * 500
    async with running(tmp_path) as bot:
        bot.server.responder = answer
        bot.say(f'<at id="{SELF}"/> and now?', message_id="after the restart")
        await bot.quiet()
        assert f"{MEMORY_HEAD}\nThey spoke of tea." in bot.server.requests[0].all_text


async def test_a_profile_may_choose_v3(tmp_path: Path) -> None:
    """Issue: registered under the name that profiles write."""
    async with running(tmp_path, profile_text("context: {engine: v3}")) as bot:
        bot.server.responder = answer
        memory = bot.profile_file().parent / "memory"
        memory.mkdir()
        (memory / "self.md").write_text("---\nlabel: self\n---\nLikes tea.\n", encoding="utf-8")
        bot.mention("hello")
        await bot.quiet()
        (request,) = bot.server.requests
    assert "<world_state>" in request.last_user_text
    assert "Likes tea." in request.all_text


@pytest.mark.parametrize("block", ["{engine: v3, v3: {max_messages: 0}}", "{standard: {refill_ratio: 2}}"])
async def test_a_wrong_setting_of_an_engine_is_told_with_its_line(tmp_path: Path, block: str) -> None:
    """Design, configuration: also for engines that are not chosen."""
    async with running(tmp_path, profile_text(f"context: {block}")) as bot:
        line = await bot.logs.saying("profile.yaml:4:")
        assert "context." in line
