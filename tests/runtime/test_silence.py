"""A channel in which nothing can be said: it costs nothing, keeps its facts, and speaks again when it can."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from ishiki.contracts.events import ChannelRef, StandingChanged, StandingKind
from ishiki.contracts.platform import SendOutcome, SpeechBar, Standing
from ishiki.jsonvalue import JsonObject, read_object, read_str
from ishiki.runtime.silence import CAN_SPEAK_AGAIN
from ishiki.testing.fake_platform import FakePlatform
from ishiki.testing.openai_replies import Reply, call, reply_saying, tool_calls
from ishiki.testing.openai_server import ChatRequest

from .kit import GROUP, PROFILE, SELF, Bot, profile_text, running

SECOND = ChannelRef(f"onebot:{SELF}", "group:501")
MUTED = SendOutcome("refused", detail="the account is muted there", bar="muted")
MINUTE_S = 60.0
HOUR_S = 3_600.0


def announce(
    bot: Bot, kind: StandingKind, *, minutes: int = 0, everybody: bool = False, channel: ChannelRef = GROUP
) -> None:
    """Let the platform tell what has become of the account."""
    now_ms = bot.clock.now_ms()
    until_ms = now_ms + minutes * 60_000 if minutes else 0
    event = StandingChanged(now_ms, "onebot", SELF, channel.channel_id, kind, until_ms, everybody, "1")
    bot.supervisor.offer(event)


async def kept(bot: Bot, channel: ChannelRef = GROUP) -> None:
    """Wait until what was said is in the log; the mind may be held."""
    with anyio.fail_after(5):
        await bot.supervisor.drained()
        await bot.agent(channel).written()


async def turn_ended(bot: Bot, count: int) -> None:
    """Wait until `count` turns have ended in the group."""
    with anyio.fail_after(5):
        while len(bot.ends()) < count:
            await kept(bot)
            await anyio.lowlevel.checkpoint()


async def time_passes(bot: Bot, seconds: float, *, until: str = "turns start again") -> None:
    """Let time pass, and wait until that has been logged."""
    since = len(bot.logs.lines)
    bot.clock.advance(seconds)
    await bot.logs.saying(until, since=since)


def states_of(bot: Bot) -> list[str]:
    """Return the states of the deliveries in the log, in order."""
    deliveries = [entry for entry in bot.entries() if entry.get("type") == "ishiki.delivery"]
    return [read_str(read_object(entry, "data"), "state") for entry in deliveries]


async def test_a_muted_account_asks_no_model_and_answers_once_when_it_is_lifted(tmp_path: Path) -> None:
    """Issue, muted: no turn starts, facts are kept, and the mind knows why."""
    async with running(tmp_path) as bot:
        announce(bot, "muted", minutes=60)
        for number in range(3):
            bot.mention(f"hello {number}")
        await kept(bot)
        assert (len(bot.server.requests), len(bot.facts())) == (0, 3)
        announce(bot, "unmuted")
        await bot.platform.sent.at_least(1)
        await bot.quiet()
        assert (len(bot.server.requests), bot.platform.texts) == (1, ["reply 1"])
        seen = bot.server.requests[0].all_text
        assert "(notice) you were muted until " in seen
        assert "(notice) you may speak again (by 1)" in seen
        assert seen.count("hello ") == 3


async def test_a_mute_is_over_when_its_time_is(tmp_path: Path) -> None:
    """Issue, muted: until it is lifted or its time is over; nobody says that it is."""
    async with running(tmp_path) as bot:
        announce(bot, "muted", minutes=90)
        bot.mention("hello")
        await kept(bot)
        for number in range(8):
            await bot.clock.began(600, times=number + 1)
            bot.clock.advance(600)
        await bot.clock.began(600, times=9)
        assert bot.server.requests == []
        await time_passes(bot, 600)
        await bot.platform.sent.at_least(1)
        assert len(bot.server.requests) == 1


@pytest.mark.parametrize("jump_s", [-HOUR_S, HOUR_S])
async def test_a_mute_is_as_long_as_it_was_meant_on_a_clock_that_is_set(tmp_path: Path, jump_s: float) -> None:
    """Bug: an hour longer where the clock was set back an hour."""
    async with running(tmp_path) as bot:
        announce(bot, "muted", minutes=5)
        bot.mention("hello")
        await kept(bot)
        await bot.clock.began(300)
        bot.clock.set_wall(jump_s)
        bot.clock.advance(299)
        await kept(bot)
        assert bot.server.requests == []
        await time_passes(bot, 1)
        await bot.platform.sent.at_least(1)


async def test_a_lift_that_nobody_heard_is_found_when_the_account_is_back(tmp_path: Path) -> None:
    """Our choice: what was announced while the account was away is asked for."""
    async with running(tmp_path) as bot:
        announce(bot, "muted", minutes=24 * 60)
        bot.mention("hello")
        await kept(bot)
        await bot.clock.began(600)
        bot.platform.standings[GROUP] = Standing(bot.clock.now_ms() - 1)
        bot.platform.set_online(False)
        bot.platform.set_online(True)
        await time_passes(bot, 600)
        await bot.platform.sent.at_least(1)


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_mute_outlives_a_restart(tmp_path: Path, how: str) -> None:
    """Issue, muted: the hold is in the log."""
    folder = tmp_path / "bot"
    async with running(folder) as bot:
        announce(bot, "muted", minutes=60)
        await kept(bot)
        clock = bot.clock
        if how == "kill":
            shutil.copytree(folder, tmp_path / "killed")
    folder = tmp_path / "killed" if how == "kill" else folder
    async with running(folder, clock=clock) as bot:
        bot.say(f'<at id="{SELF}"/> hello', message_id="after")
        await kept(bot)
        assert "nothing can be said there" in bot.agent().holds
        await time_passes(bot, HOUR_S)
        await bot.platform.sent.at_least(1)
        assert len(bot.server.requests) == 1


async def test_what_could_not_be_said_is_said_after_a_restart_as_well(tmp_path: Path) -> None:
    """Issue, muted: what waited is answered once; the mute ended while the bot was stopped."""
    platform = FakePlatform([MUTED])
    async with running(tmp_path, platform=platform) as bot:
        platform.standings[GROUP] = Standing(bot.clock.now_ms() + 600_000)
        bot.mention("when does it leave")
        await turn_ended(bot, 1)
        await bot.clock.began(600)
        announce(bot, "muted", minutes=10)
        await kept(bot)
        clock = bot.clock
    clock.advance(HOUR_S)
    async with running(tmp_path, clock=clock) as bot:
        bot.say("hm", message_id="after")
        await bot.platform.sent.at_least(1)
        await bot.quiet()
        assert CAN_SPEAK_AGAIN in bot.server.requests[0].all_text
        assert len(bot.server.requests) == 1


@pytest.mark.parametrize("back", ["joined", "a line"])
async def test_a_removed_account_asks_no_model_for_good_until_it_is_back(tmp_path: Path, back: str) -> None:
    """Issue, removed: for good; back by a notice, or by a line that only a member hears."""
    async with running(tmp_path) as bot:
        bot.mention("hello")
        await bot.quiet()
        announce(bot, "removed")
        await kept(bot)
        bot.runtime().wake("a timer of its own")
        for _ in range(5):
            bot.clock.advance(24 * HOUR_S)
            await kept(bot)
        assert len(bot.server.requests) == 1
        if back == "joined":
            announce(bot, "joined")
        else:
            bot.say("welcome back")
        await bot.server.wait_requests(2)
        await bot.quiet()
        assert "(notice) you are no longer a member of this group" in bot.server.requests[1].all_text


async def test_a_removed_channel_leaves_memory(tmp_path: Path) -> None:
    """Issue, removed: a hold survives eviction."""
    async with running(tmp_path) as bot:
        announce(bot, "removed")
        await kept(bot)
        assert bot.runtime().can_leave


@pytest.mark.parametrize("bar", ["muted", "removed", "not_friend", "offline"])
async def test_a_refusal_that_bars_costs_one_request_a_pause_that_doubles(tmp_path: Path, bar: SpeechBar) -> None:
    """Issue, muted: two paid requests for every wake, for ever; the end of it is not known here."""
    refusals = [SendOutcome("refused", bar=bar)] * 4
    async with running(tmp_path, platform=FakePlatform(refusals)) as bot:
        bot.mention("hello")
        await turn_ended(bot, 1)
        for number in range(3):
            pause_s = MINUTE_S * 2**number
            for again in range(3):
                bot.mention(f"hello {number} {again}")
            await kept(bot)
            assert len(bot.server.requests) == number + 1
            await bot.clock.began(pause_s)
            bot.clock.advance(pause_s)
            await turn_ended(bot, number + 2)
        assert (len(bot.server.requests), bot.platform.texts) == (4, [])
        assert "CannotSpeak" in bot.server.requests[1].all_text
        bot.mention("and now?")
        await kept(bot)
        await bot.clock.began(8 * MINUTE_S)
        bot.clock.advance(8 * MINUTE_S)
        await bot.platform.sent.first(lambda sent: sent.outcome.state == "sent")
        await bot.quiet()
        bot.mention("at once again")
        await bot.quiet()
        assert (len(bot.server.requests), bot.platform.texts) == (6, ["reply 5", "reply 6"])


async def test_a_pause_is_never_longer_than_an_hour(tmp_path: Path) -> None:
    """Our choice: so a mind finds out within an hour that it may speak."""
    async with running(tmp_path, platform=FakePlatform([MUTED] * 12)) as bot:
        for number in range(9):
            bot.mention(f"hello {number}")
            await turn_ended(bot, number + 1)
            await bot.clock.began(min(MINUTE_S * 2**number, 10 * MINUTE_S))
            await time_passes(bot, HOUR_S)


async def test_what_could_not_be_said_is_said_once_when_the_platform_knows_the_end(tmp_path: Path) -> None:
    """Issue, muted: ask the platform, which costs nothing, and answer what waited once."""
    platform = FakePlatform([MUTED])
    async with running(tmp_path, platform=platform) as bot:
        platform.standings[GROUP] = Standing(bot.clock.now_ms() + 600_000)
        bot.mention("when does it leave")
        await turn_ended(bot, 1)
        await bot.clock.began(600)
        await time_passes(bot, 600)
        await bot.server.wait_requests(2)
        await bot.quiet()
        assert bot.platform.texts == ["reply 2"]
        assert CAN_SPEAK_AGAIN in bot.server.requests[1].all_text
        bot.mention("thanks")
        await bot.quiet()
        assert len(bot.server.requests) == 3


async def test_an_admin_speaks_while_everybody_is_muted(tmp_path: Path) -> None:
    """QQ: a mute of all members does not hold admins; the platform is asked."""
    async with running(tmp_path) as bot:
        bot.platform.standings[GROUP] = Standing(is_admin=True)
        announce(bot, "muted", everybody=True)
        bot.mention("hello")
        await bot.platform.sent.at_least(1)


async def test_everybodys_mute_holds_until_it_is_lifted(tmp_path: Path) -> None:
    """Issue, muted: whole-group mute, user_id 0. That of the account itself goes on beside it."""
    async with running(tmp_path) as bot:
        announce(bot, "muted", minutes=10)
        announce(bot, "muted", everybody=True)
        bot.mention("hello")
        await kept(bot)
        announce(bot, "unmuted", everybody=True)
        await kept(bot)
        assert bot.server.requests == []
        await bot.clock.began(600)
        await time_passes(bot, 600)
        await bot.platform.sent.at_least(1)


async def test_a_mute_in_the_middle_of_a_turn_ends_it_and_the_words_come_later(tmp_path: Path) -> None:
    """Issue, muted: the platform is not asked for what cannot work."""
    goes_on = anyio.Event()

    async def respond(request: ChatRequest) -> Reply:
        if request.number == 1:
            await goes_on.wait()
        return reply_saying(f"reply {request.number}")

    async with running(tmp_path) as bot:
        bot.server.responder = respond
        bot.mention("hello")
        await bot.server.wait_requests(1)
        announce(bot, "muted", minutes=10)
        await kept(bot)
        goes_on.set()
        await turn_ended(bot, 1)
        assert (len(bot.server.requests), bot.platform.attempts.items) == (1, [])
        announce(bot, "unmuted")
        await bot.platform.sent.at_least(1)
        assert bot.platform.texts == ["reply 2"]


@pytest.mark.parametrize(
    ("outcome", "free_turns", "requests"),
    [
        pytest.param(SendOutcome("refused", detail="not welcome"), 2, 3, id="refused"),
        pytest.param(SendOutcome("unknown"), 3, 3, id="never confirmed"),
    ],
)
async def test_a_channel_that_takes_nothing_is_tried_less_and_less(
    tmp_path: Path, outcome: SendOutcome, free_turns: int, requests: int
) -> None:
    """Issue, property 2: whatever the reason is, a channel in which nothing can be said must not cost for ever."""
    async with running(tmp_path, platform=FakePlatform([outcome] * 20)) as bot:
        for number in range(free_turns):
            bot.mention(f"hello {number}")
            await turn_ended(bot, number + 1)
        assert len(bot.server.requests) == requests
        for number in range(3):
            bot.mention(f"again {number}")
            await kept(bot)
            assert len(bot.server.requests) == requests + number
            pause_s = MINUTE_S * 2**number
            await bot.clock.began(pause_s)
            await time_passes(bot, pause_s)
            await turn_ended(bot, free_turns + number + 1)
        assert len(bot.server.requests) == requests + 3


async def test_a_message_that_turns_up_in_the_history_was_said_and_gets_its_id(tmp_path: Path) -> None:
    """Issue, sends: the message in history settles it; it is quoted by its id from then on."""
    platform = FakePlatform([SendOutcome("unknown")])
    async with running(tmp_path, platform=platform) as bot:
        bot.mention("hello")
        await turn_ended(bot, 1)
        own = bot.message("reply 1", user=SELF, message_id="950")
        platform.remember(replace(own, is_self=True))
        await bot.clock.began(5)
        await time_passes(bot, 5, until="message 950 has arrived after all")
        with anyio.fail_after(5):
            while states_of(bot) != ["sending", "unknown", "sent"]:
                await anyio.lowlevel.checkpoint()
        bot.say("thanks", quotes="950")
        await bot.quiet()
        bot.mention("and now?")
        await bot.quiet()
        assert "(reply to your #950: reply 1) thanks" in bot.server.requests[1].all_text
        assert bot.facts() == [f'<at id="{SELF}"/> hello', "thanks", f'<at id="{SELF}"/> and now?']


async def test_in_cross_mode_a_muted_channel_holds_no_other(tmp_path: Path) -> None:
    """Our choice, cross mode: what is said in that channel wakes nobody meanwhile, and nothing is sent there."""
    async with running(tmp_path, profile_text("mode: cross")) as bot:

        def answer(request: ChatRequest) -> Reply:
            number = "501" if "second" in request.all_text else "500"
            target: JsonObject = {"sid": f"onebot:{SELF}", "channelId": f"group:{number}"}
            return tool_calls([call("send_message", {"messages": [f"reply {request.number}"], "target": target})])

        bot.server.responder = answer
        announce(bot, "muted", minutes=60)
        bot.mention("first")
        await bot.supervisor.drained()
        bot.mention("second", channel=SECOND)
        await bot.platform.sent.at_least(1)
        runtime = bot.supervisor.find(PROFILE, GROUP)
        assert runtime is not None
        await runtime.agent.wait()
        assert len(bot.server.requests) == 1
        assert [sent.target for sent in bot.platform.sent] == [SECOND]
