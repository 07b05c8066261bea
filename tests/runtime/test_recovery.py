"""What a killed process leaves on disk, and what the mind knows of it afterwards."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest

from ishiki import SendOutcome
from ishiki.jsonvalue import JsonObject, read_array, read_object, read_str
from ishiki.testing.fake_platform import FakePlatform
from ishiki.testing.openai_replies import reply_saying

from .kit import Bot, running


async def killed_between_two_messages(folder: Path, copy: Path) -> None:
    """Let a mind say two messages, and copy what is on disk when the second one is on its way."""
    platform = FakePlatform()
    async with running(folder, platform=platform) as bot:
        bot.server.enqueue(reply_saying("the first", "the second"))
        gate = anyio.Event()

        async def hold_after_first() -> None:
            await platform.sent.at_least(1)
            platform.hold()
            gate.set()

        async with anyio.create_task_group() as group:
            group.start_soon(hold_after_first)
            bot.mention("speak")
            await platform.attempts.at_least(2)
            await gate.wait()
        shutil.copytree(folder / "data", copy / "data")
        shutil.copytree(folder / "profiles", copy / "profiles")
        platform.release()
        await bot.quiet()


@pytest.fixture
async def crashed(tmp_path: Path) -> Path:
    """Return a folder as a kill between two messages leaves it."""
    copy = tmp_path / "copy"
    copy.mkdir()
    await killed_between_two_messages(tmp_path / "original", copy)
    return copy


async def opened(bot: Bot) -> None:
    """Open the channel."""
    bot.say("are you back?", message_id="m90")
    await bot.quiet()


async def test_a_turn_that_was_killed_gets_its_call_its_result_and_its_end(crashed: Path) -> None:
    """Design, deliveries: on open, deliveries without their batch are written as one call with its result."""
    async with running(crashed) as bot:
        await opened(bot)
        entries = bot.entries()
        kinds = [
            read_str(read_object(entry, "data"), "role") or read_str(read_object(entry, "data"), "type")
            for entry in entries
        ]
        start = kinds.index("turn.start")
        behind = [kind for kind in kinds[start:] if kind]
        assert behind == ["turn.start", "assistant", "tool", "turn.aborted", "custom"]
        assistant, tool, aborted = (entry for entry in entries if entry.get("turnId") and is_told(entry))
        assert assistant.get("more") is True
        assert tool.get("more") is True
        (call,) = (part for part in read_array(read_object(assistant, "data"), "content") if isinstance(part, dict))
        assert read_array(read_object(call, "input"), "messages") == ["the first", "the second"]
        assert read_object(aborted, "data")["reason"] == "the process ended"


def is_told(entry: JsonObject) -> bool:
    """Whether an entry is one of the three that recovery writes."""
    data = read_object(entry, "data")
    return data.get("role") in ("assistant", "tool") or data.get("type") == "turn.aborted"


async def test_the_next_request_holds_what_was_said_and_that_the_last_is_probably_delivered(crashed: Path) -> None:
    """Design, deliveries: the mind remembers what it said; what no answer came for is not said again."""
    async with running(crashed) as bot:
        await opened(bot)
        bot.mention("go on")
        await bot.quiet()
        (request,) = bot.server.requests
        assert "the first" in request.all_text
        assert "the second" in request.all_text
        assert "probably delivered" in request.all_text
        assert bot.platform.texts == ["reply 1"]


async def test_recovery_is_written_once(crashed: Path) -> None:
    """Our choice: a second start finds the turn ended."""
    for number in range(2):
        async with running(crashed) as bot:
            bot.say("hello", message_id=f"m9{number}")
            await bot.quiet()
            assert [end["type"] for end in bot.ends()] == ["turn.aborted"]


async def test_a_message_that_was_refused_is_not_remembered_as_said(tmp_path: Path) -> None:
    """Design, deliveries: `failed` means that nobody has read it."""
    platform = FakePlatform([SendOutcome("refused", detail="muted")])
    async with running(tmp_path, platform=platform) as bot:
        bot.server.enqueue(reply_saying("hello"), reply_saying("hello again"))
        bot.mention("speak")
        await bot.quiet()
        assert platform.texts == ["hello again"]
        assert "muted" in bot.server.requests[1].all_text


async def test_a_stop_during_a_turn_lets_it_speak_before_the_log_is_closed(tmp_path: Path) -> None:
    """Design, stop: running turns finish and still send."""
    platform = FakePlatform()
    async with running(tmp_path, platform=platform) as bot:
        platform.hold()
        bot.mention("speak")
        await platform.attempts.at_least(1)
        async with anyio.create_task_group() as group:
            group.start_soon(bot.supervisor.stop)
            await anyio.lowlevel.checkpoint()
            bot.say("too late")
            platform.release()
        assert platform.texts == ["reply 1"]
        assert [end["type"] for end in bot.ends()] == ["turn.done"]
        assert len(bot.facts()) == 1, "intake is closed first"
