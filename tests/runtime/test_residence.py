"""Who is in memory and for how long, and what survives leaving it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from ishiki import ExtensionHost, ExtensionInstance
from ishiki.contracts.events import ChannelRef
from ishiki.testing.openai_replies import Reply, reply_saying
from ishiki.testing.openai_server import ChatRequest

from .kit import GROUP, SELF, Bot, profile_text, providing, running
from .providers import Silent, extension, wakeup_engine

BRIEF = "limits: {idle_minutes: 1}"
OTHER = ChannelRef(f"onebot:{SELF}", "group:501")


async def idle(bot: Bot, seconds: float = 60) -> None:
    """Let `seconds` pass by the clock, and the look for idle channels that is then due."""
    sweeps = bot.clock.count(60)
    bot.clock.advance(seconds)
    await bot.clock.began(60, times=sweeps + 1)


async def test_twenty_first_messages_at_once_make_one_runtime_and_twenty_facts_in_order(tmp_path: Path) -> None:
    """Issue: one runtime, 20 facts, in the order sent."""
    made: list[str] = []

    class Slow(ExtensionInstance):
        def __init__(self, host: ExtensionHost) -> None:
            made.append(host.runtime_id)

    async with running(
        tmp_path, profile_text("extends: {slow: {}}"), services=providing(extension("slow", Slow))
    ) as bot:
        said = [f"line {number}" for number in range(20)]
        for line in said:
            bot.say(line)
        await bot.quiet()
        assert bot.facts() == said
        assert made == ["neko/onebot:10001/group:500"]
        assert bot.supervisor.counts.taken == 20


async def test_first_messages_of_two_channels_build_two_runtimes_beside_each_other(tmp_path: Path) -> None:
    """Our choice: a channel that is slow to build holds up no other."""
    waits = anyio.Event()

    class Gated(ExtensionInstance):
        def __init__(self, host: ExtensionHost) -> None:
            self.channel = host.home.name

        async def attach(self, runtime: object) -> None:
            if "500" in self.channel:
                await waits.wait()

    services = providing(extension("gated", Gated))
    async with running(tmp_path, profile_text("extends: {gated: {}}"), services=services) as bot:
        bot.say("held up")
        bot.mention("answered", channel=OTHER)
        await bot.platform.sent.at_least(1)
        assert bot.facts() == []
        waits.set()
        await bot.quiet()
        assert bot.facts() == ["held up"]


async def test_an_idle_channel_leaves_memory_and_comes_back_with_its_history(tmp_path: Path) -> None:
    """Design, configuration: `limits.idle_minutes`; the log is the history."""
    async with running(tmp_path, profile_text(BRIEF)) as bot:
        bot.clock.advance(1)
        bot.mention("remember the tea")
        await bot.quiet()
        await idle(bot, 59)
        assert bot.supervisor.resident_count == 1
        await idle(bot)
        assert bot.supervisor.resident_count == 0
        bot.mention("what did I say?")
        await bot.quiet()
        assert bot.supervisor.resident_count == 1
        request = bot.server.requests[-1]
        assert "remember the tea" in request.all_text
        assert "reply 1" in request.all_text, "it knows what it said itself"


async def test_a_repeated_frame_is_dropped_also_after_eviction_and_after_a_restart(tmp_path: Path) -> None:
    """Design, section 2: the keys of recent messages survive in the checkpoint."""
    async with running(tmp_path, profile_text(BRIEF)) as bot:
        first = bot.say("once")
        bot.supervisor.offer(first)
        await bot.quiet()
        await idle(bot)
        assert bot.supervisor.resident_count == 0
        bot.supervisor.offer(first)
        bot.say("twice")
        await bot.quiet()
        assert bot.facts() == ["once", "twice"]
        assert bot.supervisor.counts.duplicates == 2
    async with running(tmp_path) as bot:
        bot.supervisor.offer(first)
        bot.say("thrice", message_id="m9")
        await bot.quiet()
        assert bot.facts() == ["once", "twice", "thrice"]


async def test_the_same_id_from_somebody_else_is_another_message(tmp_path: Path) -> None:
    """Design, section 2: account, channel, id, sender and time make a duplicate; platforms reuse ids."""
    async with running(tmp_path) as bot:
        bot.say("mine", message_id="7")
        bot.say("hers", message_id="7", user="43")
        bot.clock.advance(1)
        bot.say("later", message_id="7")
        bot.say("no id", message_id="")
        bot.say("no id", message_id="")
        await bot.quiet()
        assert bot.facts() == ["mine", "hers", "later", "no id", "no id"]


async def test_keep_alive_keeps_a_channel_in_memory_for_as_long_as_the_task_runs(tmp_path: Path) -> None:
    """Design, contracts for authors: a runtime with a `keep_alive` task is not stopped for idleness."""
    done = anyio.Event()

    class Working(ExtensionInstance):
        def __init__(self, host: ExtensionHost) -> None:
            host.spawn("work", done.wait, keep_alive=True)

    services = providing(extension("working", Working))
    async with running(tmp_path, profile_text(f"extends: {{working: {{}}}}\n{BRIEF}"), services=services) as bot:
        bot.say("hello")
        await bot.quiet()
        await idle(bot, 120)
        assert bot.supervisor.resident_count == 1
        done.set()
        await bot.quiet()
        await idle(bot)
        assert bot.supervisor.resident_count == 0


async def test_an_engine_that_runs_without_input_keeps_its_channel_in_memory(tmp_path: Path) -> None:
    """Design, contracts for authors: `runs_without_input`."""
    services = providing(wakeup_engine("silent", lambda host: Silent()))
    async with running(tmp_path, profile_text(f"wakeup: {{engine: silent}}\n{BRIEF}"), services=services) as bot:
        bot.say("hello")
        await bot.quiet()
        await idle(bot, 600)
        assert bot.supervisor.resident_count == 1


async def test_a_channel_in_a_turn_does_not_leave_memory(tmp_path: Path) -> None:
    """Our choice: idleness is counted from the last fact, and a turn may take longer than that."""
    held = anyio.Event()

    async def respond(request: ChatRequest) -> Reply:
        await held.wait()
        return reply_saying("done")

    async with running(tmp_path, profile_text(BRIEF)) as bot:
        bot.server.responder = respond
        bot.mention("think")
        await bot.server.wait_requests(1)
        await idle(bot, 120)
        held.set()
        await bot.quiet()
        assert bot.platform.texts == ["done"]


@pytest.mark.parametrize("count", [1, 3])
async def test_beyond_the_bound_the_longest_unused_leave_and_lose_nothing(tmp_path: Path, count: int) -> None:
    """Design, configuration: ISHIKI_MAX_RESIDENT_RUNTIMES; a fact that arrives while its channel leaves is kept."""
    channels = [ChannelRef(f"onebot:{SELF}", f"group:{number}") for number in range(6)]
    async with running(tmp_path, ISHIKI_MAX_RESIDENT_RUNTIMES=count) as bot:
        for round_ in range(4):
            for channel in channels:
                bot.say(f"{channel.channel_id} {round_}", channel=channel)
            with anyio.fail_after(5):
                await bot.supervisor.drained()
        for channel in channels:
            await bot.quiet(channel)
            assert bot.facts(channel) == [f"{channel.channel_id} {round_}" for round_ in range(4)]
        await idle(bot)
        assert bot.supervisor.resident_count <= count
        assert [line for line in bot.logs.lines if not line.startswith("INFO")] == []


async def test_what_nobody_claims_leaves_nothing_on_disk(tmp_path: Path) -> None:
    """Design, section 2: nothing is kept of a channel without an owner."""
    async with running(tmp_path, profile_text().replace('"group:*"', '"group:500"')) as bot:
        bot.say("a stranger's group", channel=OTHER)
        bot.say("another account", channel=ChannelRef("onebot:10002", "group:500"))
        await bot.quiet()
        assert bot.supervisor.counts.unclaimed == 2
        assert not (tmp_path / "data").exists()
        bot.say("ours", channel=GROUP)
        await bot.quiet()
        assert [path.name for path in (tmp_path / "data" / "neko" / "onebot%3A10001").iterdir()] == ["group%3A500"]


async def test_two_runtimes_share_nothing_but_the_profiles_folder(tmp_path: Path) -> None:
    """Specification, extension API: `root` is the profile's, `home` the runtime's; each has its own instance."""
    hosts: list[ExtensionHost] = []

    class Kept(ExtensionInstance):
        def __init__(self, host: ExtensionHost) -> None:
            hosts.append(host)

    services = providing(extension("kept", Kept))
    async with running(tmp_path, profile_text("extends: {kept: {}}"), services=services) as bot:
        bot.say("one")
        bot.say("two", channel=OTHER)
        await bot.quiet()
        await bot.quiet(OTHER)
        one, two = hosts
        assert one.root == two.root == bot.profiles_dir / "neko"
        assert one.home != two.home
        assert one.home.is_dir()
        assert one.resources is not two.resources
