"""The guards over a running mind: what starts, what goes out, what the model and the log are told, and a restart."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from ishiki.contracts.events import ChannelRef
from ishiki.core.events import WakeupDecision
from ishiki.jsonvalue import JsonObject, JsonValue, read_object, read_str
from ishiki.testing.openai_replies import Completion, Reply, Usage, call, error, reply_saying, tool_calls
from ishiki.testing.openai_server import ChatRequest

from .kit import GROUP, SELF, Bot, WatchedClock, profile_text, running

PRIVATE = ChannelRef(f"onebot:{SELF}", "private:77")
SECOND = ChannelRef(f"onebot:{SELF}", "group:501")
HOUR_S = 3_600.0
MIDNIGHT_S = 61_200.0 - 400.0
"""From the kit's first moment (07:06:40 UTC) to midnight UTC: 16 hours, 53 minutes, 20 seconds."""


def guarded(guards: str, more: str = "") -> str:
    """Return a profile with these guards, in UTC."""
    return profile_text(f"timezone: UTC\nguards: {guards}\n{more}")


def noted(bot: Bot, channel: ChannelRef = GROUP) -> list[JsonObject]:
    """Return what the guards wrote into a channel's log."""
    return [read_object(entry, "data") for entry in bot.entries(channel) if entry.get("type") == "ishiki.guard"]


def kinds(bot: Bot, channel: ChannelRef = GROUP) -> list[str]:
    """Return which guards wrote into a channel's log, in order."""
    return [read_str(note, "kind") for note in noted(bot, channel)]


async def spoken_to(bot: Bot, times: int, *, channel: ChannelRef = GROUP) -> None:
    """Speak to the mind `times` times, each time when it has answered."""
    for _ in range(times):
        count = len(bot.platform.texts)
        bot.mention("hello", channel=channel)
        await bot.platform.sent.at_least(count + 1)
        await bot.quiet(channel)


def anew(bot: Bot, content: str, *, user: str = "42") -> None:
    """Speak to the mind after a restart, with an id that is not one of those before it."""
    bot.say(f'<at id="{SELF}"/> {content}', user=user, message_id=f"after-{content}")


async def heard(bot: Bot, channel: ChannelRef = GROUP) -> None:
    """Wait until what was said is in the log; the mind may be held."""
    with anyio.fail_after(5):
        await bot.supervisor.drained()
        await bot.agent(channel).written()


def answer_with(usage: Usage) -> Completion:
    """Let the model say nothing, at this price."""
    return tool_calls([call("finish", {})], usage=usage)


def say_the_same(request: ChatRequest) -> Reply:
    """Answer as a model does that has run into a rut."""
    return reply_saying("same old")


def fail(request: ChatRequest) -> Reply:
    """Answer as a server does that refuses everything."""
    return error(400, "down")


def killed(folder: Path) -> Path:
    """Return a folder as it would be if the process were killed now."""
    copy = folder.with_name(f"{folder.name}-killed")
    shutil.copytree(folder, copy)
    return copy


# -- turns per hour ----------------------------------------------------------------------------------------------


async def test_turns_past_the_hours_bound_wait_until_the_oldest_has_left_it(tmp_path: Path) -> None:
    """Design, guards: a line, an entry, silence; wakes are kept and fire when released."""
    async with running(tmp_path, guarded("{turns_per_hour: 2}")) as bot:
        await spoken_to(bot, 1)
        bot.clock.advance(600)
        await spoken_to(bot, 1)
        bot.mention("a third time")
        await heard(bot)
        assert len(bot.server.requests) == 2
        (line,) = bot.logs.holding("guard turns_per_hour")
        assert line.startswith("WARNING")
        (note,) = noted(bot)
        assert note["until"] == bot.clock.now_ms() + (HOUR_S - 600) * 1000
        await bot.clock.began(HOUR_S - 600)
        bot.clock.advance(HOUR_S - 600)
        await bot.platform.sent.at_least(3)
        assert "a third time" in bot.server.requests[2].all_text


async def test_a_channel_that_stays_at_its_bound_is_told_once(tmp_path: Path) -> None:
    """Our choice: one episode, one line."""
    async with running(tmp_path, guarded("{turns_per_hour: 3}")) as bot:
        await spoken_to(bot, 1)
        bot.clock.advance(600)
        await spoken_to(bot, 2)
        await bot.clock.began(HOUR_S - 600)
        bot.clock.advance(HOUR_S - 600)
        await spoken_to(bot, 1)
        await bot.logs.saying("turns start again")
        assert kinds(bot) == ["turns_per_hour"]
        assert "turns_per_hour" in bot.agent().holds


async def test_an_explicit_wake_waits_too(tmp_path: Path) -> None:
    """Design, guards: budgets count every turn and hold waits and wakes too."""
    async with running(tmp_path, guarded("{turns_per_hour: 1}")) as bot:
        await spoken_to(bot, 1)
        bot.runtime().wake("wait: the tea is ready")
        await heard(bot)
        assert len(bot.server.requests) == 1
        await bot.clock.began(HOUR_S)
        bot.clock.advance(HOUR_S)
        await bot.server.wait_requests(2)
        assert "the tea is ready" in bot.server.requests[1].last_user_text


async def test_another_channel_has_its_own_hour(tmp_path: Path) -> None:
    """Specification of the guard: per channel."""
    async with running(tmp_path, guarded("{turns_per_hour: 1}")) as bot:
        await spoken_to(bot, 1)
        await spoken_to(bot, 1, channel=SECOND)
        assert len(bot.platform.texts) == 2


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_the_hour_goes_on_over_a_restart(tmp_path: Path, how: str) -> None:
    """Specification of the guard: a checkpoint and what follows it; a kill loses nothing that matters."""
    folder = tmp_path / "bot"
    async with running(folder, guarded("{turns_per_hour: 2}")) as bot:
        await spoken_to(bot, 2)
        await bot.logs.saying("guard turns_per_hour")
        await heard(bot)
        after = killed(folder) if how == "killed" else folder
    async with running(after) as bot:
        anew(bot, "and now?")
        await heard(bot)
        assert bot.server.requests == []
        assert bot.logs.holding("guard turns_per_hour") == [], "it is the same episode"
        assert kinds(bot) == ["turns_per_hour"]
        await bot.clock.began(HOUR_S)
        bot.clock.advance(HOUR_S)
        await bot.platform.sent.at_least(1)


async def test_a_raised_bound_answers_what_waits_at_once(tmp_path: Path) -> None:
    """Our choice: raising it is what an operator does who reads the line; no wake is lost over the hand-over."""
    async with running(tmp_path, guarded("{turns_per_hour: 1}")) as bot:
        await spoken_to(bot, 1)
        bot.mention("please")
        await heard(bot)
        await bot.edited(guarded("{turns_per_hour: 10}"), until="is active")
        await bot.platform.sent.at_least(2)
        assert "please" in bot.server.requests[1].all_text


async def test_a_turn_that_met_the_bound_may_still_end_at_a_stop(tmp_path: Path) -> None:
    """Design, stop: running turns finish and still send, also the last one of an hour."""
    async with running(tmp_path, guarded("{turns_per_hour: 1}")) as bot:
        bot.platform.hold()
        bot.mention("speak")
        await bot.platform.attempts.at_least(1)
        async with anyio.create_task_group() as group:
            group.start_soon(bot.supervisor.stop)
            await anyio.lowlevel.checkpoint()
            bot.platform.release()
        assert [end["type"] for end in bot.ends()] == ["turn.done"]
        assert bot.platform.texts == ["reply 1"]


# -- a clock that is set ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump_s", [-HOUR_S, HOUR_S, -25 * HOUR_S])
async def test_an_hour_of_turns_is_an_hour_whatever_the_clock_is_set_to(tmp_path: Path, jump_s: float) -> None:
    """Bug: a clock that was set back an hour held the mind for an hour more."""
    async with running(tmp_path, guarded("{turns_per_hour: 1}")) as bot:
        await spoken_to(bot, 1)
        bot.mention("and again")
        await heard(bot)
        await bot.clock.began(HOUR_S)
        bot.clock.set_wall(jump_s)
        bot.clock.advance(HOUR_S - 1)
        bot.say("still talking", channel=SECOND)
        await bot.quiet(SECOND)
        assert len(bot.server.requests) == 1
        bot.clock.advance(1)
        await bot.platform.sent.at_least(2)


async def test_after_a_restart_with_the_clock_set_back_no_hold_is_longer_than_an_hour(tmp_path: Path) -> None:
    """Our choice: the log has the wall's time alone; a wrong one must not mute a mind for days."""
    async with running(tmp_path, guarded("{turns_per_hour: 1}")) as bot:
        await spoken_to(bot, 1)
    clock = WatchedClock()
    clock.set_wall(-24 * HOUR_S)
    async with running(tmp_path, clock=clock) as bot:
        anew(bot, "and now?")
        await heard(bot)
        await clock.began(HOUR_S)
        clock.advance(HOUR_S)
        await bot.platform.sent.at_least(1)


async def test_what_was_said_three_times_may_be_said_again_ten_minutes_later_on_a_clock_that_was_set_back(
    tmp_path: Path,
) -> None:
    """Bug: the ten minutes were an hour longer."""
    async with running(tmp_path) as bot:
        bot.server.responder = say_the_same
        await spoken_to(bot, 3)
        bot.clock.set_wall(-HOUR_S)
        bot.clock.advance(600)
        await spoken_to(bot, 1)


@pytest.mark.parametrize("jump_s", [-HOUR_S, HOUR_S])
async def test_bots_rest_for_ten_minutes_whatever_the_clock_is_set_to(tmp_path: Path, jump_s: float) -> None:
    """Bug: a rest was an hour longer where the clock was set back, and over where it was set forward."""
    async with running(tmp_path, guarded('{bots: ["77"]}')) as bot:
        await answered_by(bot, "77", 6)
        bot.clock.set_wall(jump_s)
        bot.clock.advance(599)
        bot.say(f'<at id="{SELF}"/> beep', user="77")
        await bot.quiet()
        assert len(bot.platform.texts) == 6
        bot.clock.advance(1)
        await answered_by(bot, "77", 1)


# -- tokens per day ----------------------------------------------------------------------------------------------


async def test_a_profile_that_has_spent_its_tokens_is_silent_in_all_its_channels_until_midnight(
    tmp_path: Path,
) -> None:
    """Specification of the guard: over the profile's channels, by the day of its time zone."""
    async with running(tmp_path, guarded("{tokens_per_day: 1000}")) as bot:
        bot.server.enqueue(answer_with(Usage(400, 100)), answer_with(Usage(450, 50, cached_tokens=450)))
        for channel in (SECOND, GROUP):
            bot.mention("hello", channel=channel)
            await bot.quiet(channel)
        for channel in (SECOND, GROUP):
            bot.mention("still there?", channel=channel)
            await heard(bot, channel)
        assert len(bot.server.requests) == 2
        (line,) = bot.logs.holding("guard tokens_per_day")
        assert "2025-11-30 00:00" in line
        midnight = bot.clock.now_ms() + MIDNIGHT_S * 1000
        for channel in (SECOND, GROUP):
            assert [(note["kind"], note["until"]) for note in noted(bot, channel)] == [("tokens_per_day", midnight)]
        bot.clock.set_wall(MIDNIGHT_S)
        await bot.clock.began(60, times=3)  # one sleep is the sweep's
        bot.clock.advance(60)
        await bot.server.wait_requests(4)
        assert all("still there?" in request.all_text for request in bot.server.requests[2:])


async def test_spent_tokens_stay_spent_over_a_restart_and_a_cheap_channel_is_held_as_well(tmp_path: Path) -> None:
    """Specification of the guard: kept over restarts."""
    async with running(tmp_path, guarded("{tokens_per_day: 1000}")) as bot:
        bot.server.enqueue(answer_with(Usage(1000, 1)))
        bot.mention("hello")
        await bot.quiet()
    async with running(tmp_path) as bot:
        bot.mention("hello", channel=SECOND)
        await heard(bot, SECOND)
        assert bot.server.requests == []
        assert kinds(bot, SECOND) == ["tokens_per_day"]


# -- what is said ------------------------------------------------------------------------------------------------


async def test_a_turn_sends_so_many_messages_and_ends(tmp_path: Path) -> None:
    """Specification of the guard: the rest is not sent, the result says so, and the turn ends."""
    async with running(tmp_path, guarded("{messages_per_turn: 3}")) as bot:
        bot.server.enqueue(reply_saying("1", "2", "3", "4", "5"), reply_saying("6"))
        bot.mention("count")
        await bot.quiet()
        assert bot.platform.texts == ["1", "2", "3"]
        assert len(bot.server.requests) == 1
        assert kinds(bot) == ["messages_per_turn"]
        assert len(bot.logs.holding("guard messages_per_turn")) == 1
        (result,) = results(bot)
        assert read_str(read_object(result, "error"), "name") == "MessageLimit"
        assert "not sent" in read_str(read_object(result, "error"), "message")
        assert result["sent"] == ["901", "902", "903"]
        bot.mention("and on")
        await bot.platform.sent.at_least(4)
        assert bot.platform.texts[3:] == ["6"]


async def test_continuing_is_no_way_round_the_bound(tmp_path: Path) -> None:
    """Specification of the guard: it is the turn's bound, over all its calls."""

    def respond(request: ChatRequest) -> Reply:
        text = f"still talking {request.number}"
        return tool_calls([call("send_message", {"messages": [text], "continue": True})])

    async with running(tmp_path, guarded("{messages_per_turn: 3}")) as bot:
        bot.server.responder = respond
        bot.mention("talk")
        await bot.quiet()
        assert len(bot.platform.texts) == 3
        assert len(bot.server.requests) == 4


async def test_the_same_sentence_fifty_times_is_one_message(tmp_path: Path) -> None:
    """Issue, model faults."""
    async with running(tmp_path) as bot:
        bot.server.enqueue(reply_saying(*["I am here."] * 50))
        bot.mention("where are you?")
        await bot.quiet()
        assert bot.platform.texts == ["I am here."]
        (result,) = results(bot)
        assert result["ok"] is True
        (told,) = values(result, "notSent")
        assert told.startswith("message 2, 3, 4,")
        assert "said this already" in told
        assert kinds(bot) == ["repeated_text"]
        assert [end["type"] for end in bot.ends()] == ["turn.done"]


async def test_a_mind_that_only_repeats_itself_is_told_once_and_then_ended(tmp_path: Path) -> None:
    """Design, guards and stop rule: two failed sends in a row end any turn."""
    async with running(tmp_path) as bot:
        bot.server.responder = say_the_same
        await spoken_to(bot, 3)
        bot.mention("again?")
        await bot.quiet()
        assert bot.platform.texts == ["same old"] * 3
        assert len(bot.server.requests) == 5
        assert read_str(read_object(results(bot)[-1], "error"), "name") == "AlreadySaid"
        bot.clock.advance(600)
        await spoken_to(bot, 1)


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_what_was_said_three_times_stays_said_over_a_restart(tmp_path: Path, how: str) -> None:
    """Specification of the guard: deliveries in the log count."""
    folder = tmp_path / "bot"
    async with running(folder) as bot:
        bot.server.responder = say_the_same
        await spoken_to(bot, 3)
        after = killed(folder) if how == "killed" else folder
    async with running(after) as bot:
        bot.server.responder = say_the_same
        anew(bot, "again?")
        await bot.quiet()
        assert bot.platform.texts == []


# -- two bots ----------------------------------------------------------------------------------------------------


async def answered_by(
    bot: Bot, user: str, times: int, *, channel: ChannelRef = GROUP, texts: Sequence[str] = ("beep",)
) -> None:
    """Let `user` speak to the mind at once, each time when it has answered."""
    for text in itertools.islice(itertools.cycle(texts), times):
        count = len(bot.platform.texts)
        bot.say(f'<at id="{SELF}"/> {text}', channel=channel, user=user)
        await bot.platform.sent.at_least(count + 1)
        await bot.quiet(channel)


async def test_two_bots_stop_after_six_turns_and_a_person_is_answered(tmp_path: Path) -> None:
    """Design, guards, two bots."""
    async with running(tmp_path) as bot:
        await answered_by(bot, "77", 6)
        bot.say(f'<at id="{SELF}"/> beep', user="77")
        await bot.quiet()
        assert len(bot.platform.texts) == 6
        (note,) = noted(bot)
        assert (note["kind"], note["account"]) == ("two_bots", "77")
        assert note["until"] == bot.clock.now_ms() + 600_000
        assert len(bot.logs.holding("guard two_bots")) == 1
        await answered_by(bot, "42", 1)
        assert "beep" in bot.server.requests[-1].all_text, "what the other bot says is still read"
        bot.clock.advance(600)
        await answered_by(bot, "77", 1)


CHAT = (
    "morning", "what did you dream of?", "no way", "and then the cat left", "who feeds her now", "poor thing",
    "mine eats twice a day", "fish, mostly", "are you hungry", "ha, fair", "what is for dinner", "same here", "see you",
)  # fmt: skip
"""What somebody says who talks for a while."""


async def test_a_person_who_answers_quickly_in_a_quiet_group_is_answered_each_time(tmp_path: Path) -> None:
    """Our choice: being quick is no sign of a bot where what is said is not."""
    async with running(tmp_path) as bot:
        for text in CHAT:
            await answered_by(bot, "42", 1, texts=[text])
            bot.clock.advance(2.5)
        assert kinds(bot) == []


async def test_the_mind_is_told_that_it_may_talk_to_a_bot_before_that_is_held_and_a_person_goes_on(
    tmp_path: Path,
) -> None:
    """Design, guards: asked rather than shut out."""
    async with running(tmp_path) as bot:
        await answered_by(bot, "77", 6)
        assert ["may be a bot" in request.all_text for request in bot.server.requests] == [False] * 5 + [True]
        bot.clock.advance(4)
        await answered_by(bot, "77", 1, texts=["no, I am only bored"])
        assert len(bot.platform.texts) == 7


async def test_several_bots_that_take_turns_count_as_one(tmp_path: Path) -> None:
    """Design, guards: alternating accounts do not begin the count anew, and a person among them is answered."""
    async with running(tmp_path) as bot:
        for number in range(30):
            bot.say(f'<at id="{SELF}"/> beep', user=f"7{number % 4}")
            await bot.quiet()
        assert 1 <= len(bot.platform.texts) <= 8
        count = len(bot.platform.texts)
        await answered_by(bot, "42", 1, texts=["what is going on here?"])
        assert len(bot.platform.texts) == count + 1


async def test_named_bots_together_wake_six_turns_in_ten_minutes(tmp_path: Path) -> None:
    """Design, guards: whatever they say, and whoever speaks between."""
    async with running(tmp_path, guarded('{bots: ["77", "78"]}')) as bot:
        for text in (*CHAT, *CHAT):
            for user in ("77", "78"):
                bot.say(f'<at id="{SELF}"/> {text}', user=user)
                await bot.quiet()
            bot.clock.advance(8)
        assert len(bot.server.requests) == 6


async def test_a_model_that_was_down_does_not_leave_the_channel_silent_when_it_is_back(tmp_path: Path) -> None:
    """Our choice: a turn in which no model has answered is none of the hour's."""
    async with running(tmp_path, guarded("{turns_per_hour: 2}")) as bot:
        bot.server.responder = fail
        for number in range(4):
            bot.mention(f"try {number}")
            await bot.quiet()
        bot.server.responder = say_the_same
        await spoken_to(bot, 1)
        assert bot.platform.texts == ["same old"]
        assert "turns_per_hour" not in bot.agent().holds


# -- reasons -----------------------------------------------------------------------------------------------------


async def decided(
    bot: Bot, lines: pytest.LogCaptureFixture, content: str, *, user: str = "42", channel: ChannelRef = GROUP
) -> tuple[bool, str]:
    """Say something, and return whether it asked for a turn and why, as the feed and the log alike tell it."""
    made: list[WakeupDecision] = []
    stop = bot.agent(channel).feed.subscribe(
        "agent", lambda event: made.append(event) if isinstance(event, WakeupDecision) else None
    )
    bot.say(f'<at id="{SELF}"/> {content}', channel=channel, user=user)
    await heard(bot, channel)
    stop()
    (decision,) = made
    verdict = "wakes" if decision.woke else "does not wake"
    line = f"message {decision.message_id} {verdict}: {decision.reason}"
    assert any(shown.endswith(line) for shown in lines.messages)
    return decision.woke, decision.reason


async def test_the_log_names_the_guard_that_kept_a_bot_silent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Our choice: an owner looks where the line points; a guard is no matter of limits.stale_after."""
    async with running(tmp_path, guarded('{bots: ["78"]}')) as bot:
        caplog.set_level("DEBUG", "ishiki")
        await answered_by(bot, "77", 6)
        woke, suspected = await decided(bot, caplog, "beep", user="77")
        assert (woke, suspected.split(";")[0]) == (False, "guard two_bots: it is from an account that talks like a bot")
        woke, named = await decided(bot, caplog, "hello", user="78")
        assert (woke, named.split(";")[0]) == (False, "guard two_bots: it is from a bot that guards.bots names")
        assert await decided(bot, caplog, "me again", user=SELF) == (False, "one of our own accounts said it")
        await spoken_to(bot, 1, channel=PRIVATE)
        woke, private = await decided(bot, caplog, "psst", user="78", channel=PRIVATE)
        assert (woke, private) == (False, "guards.bots: a named bot wakes nobody in a private chat")


@pytest.mark.parametrize("kind", ["turns_per_hour", "tokens_per_day"])
async def test_the_log_names_the_bound_that_a_turn_waits_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """Our choice: what woke but is not answered yet says so."""
    async with running(tmp_path, guarded(f"{{{kind}: 1}}")) as bot:
        caplog.set_level("DEBUG", "ishiki")
        await spoken_to(bot, 1)
        assert await decided(bot, caplog, "and?") == (True, f"a mention of the account; the turn waits for {kind}")


async def test_a_known_bot_wakes_nobody_in_private_and_rests_in_groups_however_slow_it_is(tmp_path: Path) -> None:
    """Design, guards, two bots."""
    async with running(tmp_path, guarded('{bots: ["77"]}')) as bot:
        bot.say("psst", channel=PRIVATE, user="77")
        await bot.quiet(PRIVATE)
        assert bot.facts(PRIVATE) == ["psst"]
        assert bot.server.requests == []
        for _ in range(6):
            await answered_by(bot, "77", 1)
            bot.clock.advance(20)
        bot.say(f'<at id="{SELF}"/> beep', user="77")
        await bot.quiet()
        assert len(bot.server.requests) == 6
        assert kinds(bot) == ["two_bots"]


async def test_a_private_chat_is_never_held_for_a_quick_partner(tmp_path: Path) -> None:
    """Design, guards: two unknown bots are told apart in groups only."""
    async with running(tmp_path) as bot:
        await answered_by(bot, "77", 8, channel=PRIVATE)
        assert kinds(bot, PRIVATE) == []


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_a_resting_account_rests_on_after_a_restart(tmp_path: Path, how: str) -> None:
    """Specification of the guard: state survives restarts."""
    folder = tmp_path / "bot"
    async with running(folder) as bot:
        await answered_by(bot, "77", 6)
        await bot.logs.saying("guard two_bots")
        after = killed(folder) if how == "killed" else folder
    async with running(after) as bot:
        anew(bot, "beep", user="77")
        await bot.quiet()
        assert bot.server.requests == []
        assert bot.logs.holding("guard two_bots") == []
        anew(bot, "hello")
        await bot.platform.sent.at_least(1)


def results(bot: Bot) -> list[JsonObject]:
    """Return what send_message has told the model, in order."""
    found: list[JsonObject] = []
    for entry in bot.entries():
        data = read_object(entry, "data")
        if data.get("role") == "tool":
            content = data["content"]
            assert isinstance(content, list)
            found.extend(
                read_object(read_object(part, "output"), "value") for part in content if isinstance(part, dict)
            )
    return found


def values(data: JsonObject, key: str) -> list[str]:
    """Return a list of text."""
    value: JsonValue = data[key]
    assert isinstance(value, list)
    return [item for item in value if isinstance(item, str)]


async def test_a_checkpoint_holds_the_guards(tmp_path: Path) -> None:
    """Design, checkpoint."""
    async with running(tmp_path) as bot:
        await spoken_to(bot, 1)
    async with running(tmp_path) as bot:
        checkpoint = next(read_object(entry, "data") for entry in bot.entries() if entry["type"] == "ishiki.checkpoint")
        guards = read_object(checkpoint, "guards")
        assert guards["turns"] == [bot.clock.now_ms()]
        assert read_object(guards, "partners")["lines"] == [["42", "hello", -1]]
