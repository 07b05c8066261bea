"""Profiles and the services they name: waiting, appearing, going."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .kit import PROFILE, Bot, profile_text, providing, running
from .providers import Silent, extension, wakeup_engine

WAITING = profile_text("wakeup:\n  engine: rhythm")


async def test_a_missing_service_is_named_with_its_place_and_the_profile_waits(tmp_path: Path) -> None:
    """Design, contracts for authors: one line with the profile's file and line, and the profile waits."""
    async with running(tmp_path, WAITING) as bot:
        (line,) = bot.logs.holding("missing required service")
        assert line.splitlines()[0] == (
            f"ERROR {bot.profile_file()}:5:11: wakeup.engine: missing required service ishiki.engine.wakeup.rhythm"
        )
        assert list(bot.supervisor.waiting) == [PROFILE]
        assert bot.supervisor.waiting[PROFILE].missing == ("ishiki.engine.wakeup.rhythm",)


async def test_every_missing_service_is_named(tmp_path: Path) -> None:
    """Our choice: whoever installs one plugin learns of the others too."""
    text = profile_text("extends: {note: {}, clock: {}, off: {enable: false}}\nwakeup: {engine: rhythm}")
    async with running(tmp_path, text) as bot:
        assert bot.supervisor.waiting[PROFILE].missing == (
            "ishiki.ext.note",
            "ishiki.ext.clock",
            "ishiki.engine.wakeup.rhythm",
        )


async def test_facts_of_a_waiting_profile_are_kept_and_known_when_it_starts(tmp_path: Path) -> None:
    """Our choice: what was said meanwhile is not lost."""
    async with running(tmp_path, WAITING) as bot:
        bot.say("before anybody listens")
        await bot.quiet()
        assert bot.facts() == ["before anybody listens"]
        await appear(bot)
        bot.say("now")
        await bot.quiet()
        bot.runtime().wake()
        await bot.quiet()
        assert bot.facts() == ["before anybody listens", "now"]
        assert "before anybody listens" in bot.server.requests[0].all_text


async def test_a_profile_waits_again_when_its_service_goes(tmp_path: Path) -> None:
    """Design, contracts for authors: after the disposer, the profiles that need the service wait again."""
    async with running(tmp_path, WAITING) as bot:
        go = await appear(bot)
        bot.say("one")
        await bot.quiet()
        assert bot.supervisor.resident_count == 1
        since = len(bot.logs.lines)
        go()
        await bot.logs.saying("missing required service ishiki.engine.wakeup.rhythm", since=since)
        bot.say("two")
        await bot.quiet()
        assert bot.supervisor.find(PROFILE, bot.message("").channel) is None
        assert list(bot.supervisor.waiting) == [PROFILE]
        await appear(bot)
        bot.say("three")
        await bot.quiet()
        assert bot.facts() == ["one", "two", "three"]
        assert bot.supervisor.waiting == {}


async def test_a_replaced_provider_serves_the_next_fact(tmp_path: Path) -> None:
    """Our choice: a plugin that withdraws and provides again, as a reload does, is not served by its old self."""
    made: list[str] = []
    services = providing()
    old = services.provide(extension("note", lambda host: made.append("old")))
    async with running(tmp_path, profile_text("extends: {note: {}}"), services=services) as bot:
        bot.say("one")
        await bot.quiet()
        old()
        services.provide(extension("note", lambda host: made.append("new")))
        bot.say("two")
        await bot.quiet()
        assert made == ["old", "new"]
        assert bot.facts() == ["one", "two"]


async def appear(bot: Bot) -> Callable[[], None]:
    """Provide the engine and wait until the profile runs."""
    since = len(bot.logs.lines)
    go = bot.services.provide(wakeup_engine("rhythm", lambda host: Silent()), module="a plugin")
    await bot.logs.saying(f"profile {PROFILE} is active", since=since)
    return go
