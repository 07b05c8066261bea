"""Cross mode: one mind for all channels of a profile, and nothing of anybody else's."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest

from ishiki import ExtensionHost, ExtensionInstance
from ishiki.contracts.events import ChannelRef
from ishiki.contracts.platform import SendOutcome
from ishiki.jsonvalue import JsonObject, read_object, read_str
from ishiki.runtime.address import MAIN
from ishiki.testing.fake_platform import FakePlatform
from ishiki.testing.openai_replies import Reply, call, reply_saying, tool_calls

from .kit import GROUP, PROFILE, SELF, Bot, facts_of, profile_text, providing, read_log, running
from .providers import Silent, extension, wakeup_engine

SECOND = ChannelRef(f"onebot:{SELF}", "group:501")
PRIVATE = ChannelRef(f"onebot:{SELF}", "private:42")
AWAY = ChannelRef("onebot:10002", "group:500")
"""The same group, of another account."""

DOGS = ChannelRef(f"onebot:{SELF}", "group:600")
"""Another profile's."""

DOG = f'model: test:b\nchannels: {{"onebot:{SELF}": ["group:600"]}}\n'
HOUR_S = 3_600.0


def cross(more: str = "") -> str:
    """Return a profile with one mind for all channels of two accounts."""
    accounts = '"onebot:10002": ["group:*"]'
    return profile_text(f"mode: cross\n{more}").replace('"private:*"]}', f'"private:*"], {accounts}}}')


def saying(text: str, channel: ChannelRef) -> Reply:
    """Let the model say `text` in a channel."""
    target: JsonObject = {"sid": channel.sid, "channelId": channel.channel_id}
    return tool_calls([call("send_message", {"messages": [text], "target": target})])


def header(channel: ChannelRef) -> str:
    """Return the line that stands above what was said in a channel."""
    return f'[channel target={{"sid":"{channel.sid}","channelId":"{channel.channel_id}"}}]'


async def answered(bot: Bot, text: str, channel: ChannelRef, content: str = "hello", *, user: str = "42") -> None:
    """Speak to the mind in a channel, and let it answer there."""
    bot.server.enqueue(saying(text, channel))
    count = len(bot.platform.sent)
    bot.say(f'<at id="{channel.sid.removeprefix("onebot:")}"/> {content}', channel=channel, user=user)
    await bot.platform.sent.at_least(count + 1)
    await bot.quiet(MAIN)


def where(bot: Bot) -> list[tuple[str, str]]:
    """Return what was said, each with its channel."""
    return [(str(sent.target), sent.content) for sent in bot.platform.sent]


def notes(bot: Bot) -> list[JsonObject]:
    """Return what the guards wrote into the log."""
    return [read_object(entry, "data") for entry in bot.entries(MAIN) if entry.get("type") == "ishiki.guard"]


# -- one mind ----------------------------------------------------------------------------------------------------


async def test_all_channels_of_a_profile_share_one_mind_and_one_log(tmp_path: Path) -> None:
    """Specification, cross mode; design: `data/<profile>/main/`."""
    async with running(tmp_path, cross()) as bot:
        bot.say("one")
        await bot.quiet(MAIN)
        bot.say("two", channel=SECOND)
        await bot.quiet(MAIN)
        await answered(bot, "I heard all", PRIVATE, "three")
        assert bot.supervisor.resident_count == 1
        runtime = bot.runtime(SECOND)
        assert runtime is bot.runtime(GROUP)
        assert runtime.id == "neko/main"
        assert runtime.domain.mode == "cross"
        assert bot.facts(MAIN) == ["one", "two", f'<at id="{SELF}"/> three']
        assert {path.name for path in (tmp_path / "data" / PROFILE).iterdir() if path.is_dir()} == {"main", "usage"}
        (request,) = bot.server.requests
        lines = request.all_text.splitlines()
        shown = [lines.index(header(channel)) for channel in (GROUP, SECOND, PRIVATE)]
        assert [lines[position + 1].rpartition(": ")[2] for position in shown[:2]] == ["one", "two"]
        assert shown == sorted(shown)


async def test_each_answer_goes_to_its_target_by_the_account_of_that_channel(tmp_path: Path) -> None:
    """Design, cross mode: the target says which account speaks."""
    async with running(tmp_path, cross()) as bot:
        await answered(bot, "to the first", GROUP)
        await answered(bot, "to the other account", AWAY)
        await answered(bot, "to one", PRIVATE)
        assert where(bot) == [
            (str(GROUP), "to the first"),
            (str(AWAY), "to the other account"),
            (str(PRIVATE), "to one"),
        ]


async def test_a_channel_of_another_profile_is_no_target_and_the_model_is_told(tmp_path: Path) -> None:
    """Specification, cross mode: channels outside the domain; the more specific claim owns group 600."""
    async with running(tmp_path, {PROFILE: cross(), "dog": DOG}) as bot:
        bot.server.enqueue(saying("woof?", DOGS), saying("sorry", GROUP))
        bot.mention("go and tease the dogs")
        await bot.platform.sent.at_least(1)
        await bot.quiet(MAIN)
        assert where(bot) == [(str(GROUP), "sorry")]
        assert "InvalidTarget" in bot.server.requests[1].all_text


async def test_nothing_of_another_profiles_channels_is_ever_heard(tmp_path: Path) -> None:
    """Issue: cross mode is limited to the profile's own channels."""
    async with running(tmp_path, {PROFILE: cross(), "dog": DOG}) as bot:
        bot.say("a secret of dogs", channel=DOGS)
        await bot.quiet(DOGS, "dog")
        bot.server.enqueue(saying("nothing", GROUP))
        bot.mention("what do the dogs say?")
        await bot.platform.sent.at_least(1)
        await bot.quiet(MAIN)
        (request,) = bot.server.requests
        assert "secret" not in request.all_text
        assert "group:600" not in request.all_text
        assert bot.facts(MAIN) == [f'<at id="{SELF}"/> what do the dogs say?']
        assert facts_of(bot.entries(DOGS, "dog")) == ["a secret of dogs"]
        assert bot.supervisor.resident_count == 2


async def test_the_order_of_each_channel_is_kept_while_many_speak_at_once(tmp_path: Path) -> None:
    """Design, section 2: one queue per channel keeps the order of arrival."""
    channels = (GROUP, SECOND, AWAY)
    async with running(tmp_path, cross()) as bot:
        for number in range(20):
            for channel in channels:
                bot.say(f"{channel} {number}", channel=channel)
        await bot.quiet(MAIN)
        facts = bot.facts(MAIN)
        assert len(facts) == 60
        for channel in channels:
            heard = [fact for fact in facts if fact.startswith(f"{channel} ")]
            assert heard == [f"{channel} {number}" for number in range(20)]


async def test_facts_of_many_channels_are_kept_where_the_mind_cannot_be_built(tmp_path: Path) -> None:
    """Design, section 2: the fact is appended all the same; one log has one writer."""

    def refuse(host: ExtensionHost) -> ExtensionInstance:
        raise RuntimeError("no")

    services = providing(extension("broken", refuse))
    async with running(tmp_path, cross("extends: {broken: {}}"), services=services) as bot:
        for number in range(3):
            for channel in (GROUP, SECOND, PRIVATE):
                bot.say(f"{channel.channel_id} {number}", channel=channel)
        with anyio.fail_after(5):
            await bot.supervisor.drained()
        assert sorted(bot.facts(MAIN)) == sorted(
            f"{channel.channel_id} {number}" for channel in (GROUP, SECOND, PRIVATE) for number in range(3)
        )
        assert bot.logs.holding("its log can be used again") == []


async def test_the_same_id_in_two_channels_is_two_messages_and_quotes_find_their_own(tmp_path: Path) -> None:
    """Design, section 2: the channel is part of what makes a duplicate; ids are an account's own."""
    async with running(tmp_path, cross()) as bot:
        bot.say("tea", message_id="7")
        bot.say("cake", channel=AWAY, message_id="7")
        await bot.quiet(MAIN)
        bot.say("I agree", quotes="7")
        await bot.quiet(MAIN)
        bot.say("I do not", channel=AWAY, quotes="7")
        await bot.quiet(MAIN)
        messages = [read_object(entry, "data") for entry in bot.entries(MAIN)]
        quotes = [read_object(read_object(message, "data"), "quote") for message in messages]
        assert [read_str(quote, "content") for quote in quotes if quote] == ["tea", "cake"]


async def test_each_channel_is_filled_up_once_after_a_connection(tmp_path: Path) -> None:
    """Design, backfill."""
    platform = FakePlatform(is_online=False)
    async with running(tmp_path, cross(), platform=platform) as bot:
        platform.remember(bot.message("missed 1"), bot.message("missed 2", channel=SECOND))
        bot.clock.advance(1)
        platform.set_online(True)
        for channel in (GROUP, SECOND, GROUP):
            bot.say(f"now in {channel.channel_id}", channel=channel)
            await bot.quiet(MAIN)
        assert bot.facts(MAIN) == [
            "missed 1",
            "now in group:500",
            "missed 2",
            "now in group:501",
            "now in group:500",
        ]


async def test_an_engine_that_waits_for_nobody_has_its_one_mind_from_the_start(tmp_path: Path) -> None:
    """Design, at start-up."""
    services = providing(wakeup_engine("silent", lambda host: Silent()))
    async with running(tmp_path, cross("wakeup: {engine: silent}"), services=services) as bot:
        await bot.logs.saying("keeps time in 1 channels")
        assert bot.runtime(MAIN).id == "neko/main"


async def test_a_wait_of_a_mind_of_many_channels_hears_all_of_them(tmp_path: Path) -> None:
    """Design, wait, in cross mode."""
    async with running(tmp_path, cross()) as bot:
        bot.server.enqueue(tool_calls([call("wait", {"message": {"contains": "done"}, "reason": "tell the first"})]))
        bot.mention("tell me when they are done")
        await bot.server.wait_requests(1)
        await bot.quiet(MAIN)
        bot.server.enqueue(saying("they are done", GROUP))
        bot.say("all done", channel=SECOND)
        await bot.platform.sent.at_least(1)
        assert where(bot) == [(str(GROUP), "they are done")]
        assert "wait: tell the first" in bot.server.requests[1].all_text


# -- guards ------------------------------------------------------------------------------------------------------


async def test_a_channel_that_has_had_its_turns_mutes_no_other(tmp_path: Path) -> None:
    """Issue: guards per channel."""
    clock = None
    async with running(tmp_path, cross("guards: {turns_per_hour: 1}")) as bot:
        clock = bot.clock
        await answered(bot, "one", GROUP)
        bot.mention("once more")
        await bot.quiet(MAIN)
        assert len(bot.server.requests) == 1
        await answered(bot, "two", SECOND)
        (note, _) = notes(bot)
        assert (note["kind"], note["channelId"], note["sid"]) == ("turns_per_hour", GROUP.channel_id, GROUP.sid)
    async with running(tmp_path, clock=clock) as bot:
        bot.say(f'<at id="{SELF}"/> and after a restart?', message_id="r1")
        await bot.quiet(MAIN)
        assert bot.server.requests == []
        clock.advance(HOUR_S)
        bot.server.enqueue(saying("three", GROUP))
        bot.say(f'<at id="{SELF}"/> an hour later', message_id="r2")
        await bot.platform.sent.at_least(1)
        assert "once more" in bot.server.requests[0].all_text


async def test_turns_that_say_nothing_count_where_somebody_spoke(tmp_path: Path) -> None:
    """Design, guards: budgets count every turn."""
    async with running(tmp_path, cross("guards: {turns_per_hour: 2}")) as bot:
        bot.server.enqueue(*[tool_calls([call("finish", {})])] * 2)
        for _ in range(3):
            bot.mention("say nothing")
            await bot.quiet(MAIN)
        assert len(bot.server.requests) == 2
        await answered(bot, "here", SECOND)


async def test_an_account_that_rests_in_one_channel_wakes_in_another(tmp_path: Path) -> None:
    """Design, guards, two bots: of one group."""
    async with running(tmp_path, cross()) as bot:
        for count in range(6):
            await answered(bot, f"pong {count}", GROUP, f"ping {count}", user="77")
        bot.say(f'<at id="{SELF}"/> ping again', user="77")
        await bot.quiet(MAIN)
        assert len(bot.server.requests) == 6
        (note,) = notes(bot)
        assert (note["kind"], note["account"], note["channelId"]) == ("two_bots", "77", GROUP.channel_id)
        await answered(bot, "hello there", SECOND, user="77")
        await answered(bot, "hello you", GROUP, user="43")


# -- life --------------------------------------------------------------------------------------------------------


async def test_an_idle_mind_leaves_memory_and_comes_back_with_its_history(tmp_path: Path) -> None:
    """Design, configuration: `limits.idle_minutes`."""
    async with running(tmp_path, cross("limits: {idle_minutes: 1}")) as bot:
        bot.say("remember the tea")
        await bot.quiet(MAIN)
        sweeps = bot.clock.count(60)
        bot.clock.advance(60)
        await bot.clock.began(60, times=sweeps + 1)
        assert bot.supervisor.resident_count == 0
        await answered(bot, "tea", SECOND, "what was it?")
        assert "remember the tea" in bot.server.requests[0].all_text


async def test_a_profile_that_changes_its_mode_goes_on_in_the_other_log(tmp_path: Path) -> None:
    """Our choice: each mode has its own log, and nothing of either is lost."""
    async with running(tmp_path) as bot:
        bot.say("alone")
        await bot.quiet()
        await bot.edited(cross(), until=f"profile {PROFILE} is active")
        bot.say("together")
        bot.say("all of us", channel=SECOND)
        await bot.quiet(MAIN)
        assert sorted(bot.facts(MAIN)) == ["all of us", "together"]
        assert bot.facts(GROUP) == ["alone"]
        await bot.edited(profile_text(), until=f"profile {PROFILE} is active")
        bot.say("alone again")
        await bot.quiet()
        assert bot.facts(GROUP) == ["alone", "alone again"]


async def test_a_channel_that_a_profile_no_longer_claims_is_no_target_any_more(tmp_path: Path) -> None:
    """Design, configuration: edits are picked up while the bot runs."""
    async with running(tmp_path, cross()) as bot:
        await answered(bot, "yes", SECOND)
        await bot.edited(cross().replace('["group:*"', '["group:*", "!group:501"', 1), until=f"profile {PROFILE} is")
        bot.say("are you gone?", channel=SECOND)
        bot.server.enqueue(saying("I miss you", SECOND), saying("only here", GROUP))
        bot.mention("say something there")
        await bot.platform.sent.at_least(2)
        assert where(bot)[1:] == [(str(GROUP), "only here")]
        assert "are you gone?" not in " ".join(bot.facts(MAIN))
        assert bot.supervisor.counts.unclaimed == 1


async def test_after_a_kill_the_mind_remembers_what_it_said_and_where(tmp_path: Path) -> None:
    """Design, deliveries: told as the tool's own schema has it, with the target."""
    folder, copy = tmp_path / "bot", tmp_path / "killed"
    async with running(folder, cross()) as bot:
        bot.platform.hold()
        bot.server.enqueue(saying("on my way", SECOND))
        bot.mention("go over there")
        await bot.platform.attempts.at_least(1)
        shutil.copytree(folder, copy)
        bot.platform.release()
    async with running(copy) as bot:
        bot.say(f'<at id="{SELF}"/> and?', message_id="r1")
        await bot.server.wait_requests(1)
        await bot.quiet(MAIN)
        request = bot.server.requests[0].all_text
        assert "on my way" in request
        assert "group:501" in request
        assert "probably delivered" in request


class HalfAway(FakePlatform):
    """One of two accounts is away."""

    def is_online(self, account: str | None = None) -> bool:
        """Whether that account is connected."""
        return account != AWAY.sid


async def test_an_account_that_is_away_holds_the_others_up_in_nothing(tmp_path: Path) -> None:
    """Our choice: in cross mode turns are held only while no account is there."""
    platform = HalfAway([SendOutcome("unreachable")])
    async with running(tmp_path, cross(), platform=platform) as bot:
        bot.server.enqueue(saying("anybody?", GROUP))
        bot.mention("hello")
        await bot.platform.sent.at_least(1)
        await bot.quiet(MAIN)
        await answered(bot, "here I am", GROUP)
        assert bot.agent(MAIN).holds == frozenset()


async def test_its_tokens_are_counted_under_one_name(tmp_path: Path) -> None:
    """Format of the usage files: `main` for a mind of many channels."""
    async with running(tmp_path, cross()) as bot:
        await answered(bot, "one", GROUP)
        await answered(bot, "two", SECOND)
    (day,) = (tmp_path / "data" / PROFILE / "usage").iterdir()
    assert '"main":{"turns":2' in day.read_text(encoding="utf-8").replace(" ", "")


async def test_its_log_says_whose_it_is(tmp_path: Path) -> None:
    """Format of events.jsonl: the header of a log of many channels."""
    async with running(tmp_path, cross()) as bot:
        bot.say("hello")
        await bot.quiet(MAIN)
    log = tmp_path / "data" / PROFILE / "main" / "events.jsonl"
    assert b'"sid":"","channelId":"main"' in log.read_bytes().splitlines()[0]
    assert facts_of(read_log(log)) == ["hello"]


@pytest.mark.parametrize("mode", ["channel", "cross"])
async def test_only_a_mind_of_many_channels_is_asked_for_a_target(tmp_path: Path, mode: str) -> None:
    """Specification, `send_message`: `target` in cross mode only."""
    async with running(tmp_path, profile_text(f"mode: {mode}")) as bot:
        bot.server.enqueue(saying("hello", GROUP) if mode == "cross" else reply_saying("hello"))
        bot.mention("hello")
        await bot.platform.sent.at_least(1)
        (request,) = bot.server.requests
        assert ('"target"' in request.raw.decode()) is (mode == "cross")
        assert ("several channels at once" in request.all_text) is (mode == "cross")
