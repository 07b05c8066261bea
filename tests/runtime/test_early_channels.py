"""Channels whose mind keeps time: their runtimes are there before anybody speaks."""

from __future__ import annotations

from pathlib import Path

import anyio

from ishiki.contracts.events import ChannelRef
from ishiki.profile import parse_claims
from ishiki.runtime.early_channels import early_channels
from ishiki.runtime.paths import LOG_NAME, runtime_home
from ishiki.testing.openai_replies import reply_saying

from .kit import GROUP, PROFILE, SELF, profile_text, running

TIMERS = "wakeup: {engine: timers, timers: {interval_minutes: 30}}"
OTHER = ChannelRef(f"onebot:{SELF}", "group:501")
FAR = ChannelRef(f"onebot:{SELF}", "private:42")


def exact(*channels: ChannelRef, more: str = TIMERS) -> str:
    """Return a profile that claims these channels by name."""
    patterns = ", ".join(f'"{channel.channel_id}"' for channel in channels)
    head, _, rest = profile_text(more).partition("\n")
    _, _, rest = rest.partition("\n")
    return f'{head}\nchannels: {{"onebot:{SELF}": [{patterns}]}}\n{rest}'


async def test_a_mind_that_keeps_time_speaks_first_where_nobody_has_ever_spoken(tmp_path: Path) -> None:
    """Design, at start-up: runtimes are built for exactly claimed channels of engines that run without input."""
    async with running(tmp_path, exact(GROUP)) as bot:
        await bot.logs.saying("keeps time in 1 channels")
        bot.server.enqueue(reply_saying("is anybody there?"))
        await bot.clock.began(1800)
        bot.clock.advance(1800)
        await bot.platform.sent.at_least(1)
        await bot.quiet()
        assert bot.platform.texts == ["is anybody there?"]


async def test_channels_with_a_log_are_built_where_they_still_belong_to_the_profile(tmp_path: Path) -> None:
    """Design, at start-up: and for existing ones."""
    async with running(tmp_path) as bot:
        for channel in (GROUP, OTHER, FAR):
            bot.say("hello", channel=channel)
        for channel in (GROUP, OTHER, FAR):
            await bot.quiet(channel)
        assert bot.supervisor.resident_count == 3
    texts = {PROFILE: profile_text(TIMERS), "other": exact(OTHER, more="")}
    async with running(tmp_path, texts) as bot:
        await bot.logs.saying("keeps time in 2 channels")
        found = {channel: bot.supervisor.find(PROFILE, channel) is not None for channel in (GROUP, OTHER, FAR)}
        assert found == {GROUP: True, OTHER: False, FAR: True}


async def test_other_minds_stay_out_of_memory_until_somebody_speaks(tmp_path: Path) -> None:
    """Design, at start-up: all others stay lazy."""
    async with running(tmp_path, exact(GROUP, more="")) as bot:
        bot.say("hello", channel=GROUP)
        await bot.quiet()
    async with running(tmp_path) as bot:
        await anyio.wait_all_tasks_blocked()
        assert bot.supervisor.resident_count == 0
        assert bot.logs.holding("keeps time") == []


async def test_an_edit_that_sets_timers_builds_the_channels_while_the_bot_runs(tmp_path: Path) -> None:
    """Our choice: an edit is as good as a restart."""
    async with running(tmp_path, exact(GROUP, more="")) as bot:
        await bot.edited(exact(GROUP, OTHER), until="keeps time in 2 channels")
        assert bot.supervisor.find(PROFILE, OTHER) is not None


async def test_a_channel_that_cannot_be_built_keeps_no_other_one_waiting(tmp_path: Path) -> None:
    """Design, concurrency: each runtime has its own wall."""
    log = runtime_home(tmp_path / "data", PROFILE, GROUP.sid, GROUP.channel_id) / LOG_NAME
    log.parent.mkdir(parents=True)
    log.write_bytes(b'{"type":"header","format":"ishiki.events","version":99}\n{"type":"x","data":{}}\n')
    async with running(tmp_path, exact(GROUP, OTHER)) as bot:
        await bot.logs.saying("keeps time in 1 channels")
        assert bot.logs.holding(f"{GROUP} cannot be built")
        assert bot.supervisor.find(PROFILE, OTHER) is not None


def test_channels_are_read_from_headers_and_else_from_folders(tmp_path: Path) -> None:
    """Our choice: a hashed folder is known by its header alone; what fits no folder is left out."""
    long = ChannelRef("onebot:1", "group:" + "9" * 200)
    old = ChannelRef("onebot:1", "private:7")
    for channel, first in (
        (long, f'{{"type":"header","format":"ishiki.events","sid":"onebot:1","channelId":"{long.channel_id}"}}\n'),
        (old, '{"type":"message","data":{}}\n'),
        (ChannelRef("onebot:1", "group:1"), '{"type":"header","format":"x","sid":"onebot:1","channelId":"group:2"}\n'),
        (ChannelRef("onebot:1", "group:" + "8" * 200), "\n"),
    ):
        home = runtime_home(tmp_path, "neko", channel.sid, channel.channel_id)
        home.mkdir(parents=True)
        (home / LOG_NAME).write_text(first, encoding="utf-8")
    (tmp_path / "neko" / "onebot%3A1" / "empty").mkdir()
    claims = parse_claims({"onebot:1": ["private:7", "group:3", "group:*"], "onebot:*": ["private:*"]})
    assert set(early_channels(tmp_path, "neko", claims)) == {long, old, ChannelRef("onebot:1", "group:3")}
    assert early_channels(tmp_path, "nobody", parse_claims({"onebot:*": ["*"]})) == []
