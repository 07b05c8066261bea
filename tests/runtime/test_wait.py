"""Waits over a running mind: what wakes it, what outlives a restart, and what is written where."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import anyio
import orjson
import pytest

from ishiki import AgentRuntime, ExtensionHost, ExtensionInstance
from ishiki.contracts.events import ChannelRef
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_object, read_str
from ishiki.runtime.agenda import AGENDA_NAME
from ishiki.testing.clock import FakeClock
from ishiki.testing.openai_replies import Reply, call, reply_saying, tool_calls
from ishiki.testing.openai_server import ChatRequest

from .kit import GROUP, PROFILE, SELF, Bot, WatchedClock, profile_text, providing, running
from .providers import extension

OTHER = ChannelRef(f"onebot:{SELF}", "group:501")


def waiting(**arguments: JsonValue) -> Reply:
    """Let the model wait."""
    return tool_calls([call("wait", arguments)])


async def asked_to_wait(bot: Bot, *, channel: ChannelRef = GROUP, **arguments: JsonValue) -> None:
    """Speak to the mind, and let it wait."""
    bot.server.enqueue(waiting(**arguments))
    count = len(bot.server.requests)
    bot.mention("later, please", channel=channel)
    await bot.server.wait_requests(count + 1)
    await bot.quiet(channel)
    assert len(bot.server.requests) == count + 1, "the turn ends with the wait"


async def woken(bot: Bot, count: int, *, channel: ChannelRef = GROUP) -> ChatRequest:
    """Return the request of the turn that is the `count`th to ask the model, when it is over."""
    await bot.server.wait_requests(count)
    await bot.quiet(channel)
    assert len(bot.server.requests) == count
    return bot.server.requests[count - 1]


def wait_states(bot: Bot, channel: ChannelRef = GROUP) -> list[str]:
    """Return what the log tells of waits, in order."""
    data = [read_object(entry, "data") for entry in bot.entries(channel) if entry.get("type") == "ishiki.wait"]
    return [read_str(one, "state") for one in data]


def agenda_file(folder: Path) -> Path:
    """Return where the profile's agenda lies."""
    return folder / "data" / PROFILE / AGENDA_NAME


def agenda(folder: Path) -> JsonObject:
    """Return the content of the profile's agenda."""
    read: JsonValue = orjson.loads(agenda_file(folder).read_bytes())
    assert isinstance(read, dict)
    return read


def waiting_channels(folder: Path) -> list[str]:
    """Return which channels the agenda names."""
    runtimes = read_array(agenda(folder), "runtimes")
    return [read_str(one, "channelId") for one in runtimes if isinstance(one, dict)]


async def settled(bot: Bot, states: list[str], channel: ChannelRef = GROUP) -> None:
    """Wait until the log tells these states of waits."""
    with anyio.fail_after(5):
        while wait_states(bot, channel) != states:
            await bot.agent(channel).written()
            await anyio.lowlevel.checkpoint()


def later_clock(seconds: float) -> WatchedClock:
    """Return a clock that is `seconds` ahead of a new one."""
    clock = WatchedClock()
    clock.advance(seconds)
    return clock


# -- what wakes --------------------------------------------------------------------------------------------------


async def test_a_time_wakes_the_mind_with_its_own_note(tmp_path: Path) -> None:
    """Design, wait: on firing, a turn that opens with `wait: <reason>`."""
    async with running(tmp_path) as bot:
        await asked_to_wait(bot, seconds=90, reason="the tea is ready")
        await bot.clock.began(90)
        bot.clock.advance(89)
        bot.say("still talking")
        await bot.quiet()
        assert len(bot.server.requests) == 1
        bot.clock.advance(1)
        request = await woken(bot, 2)
        assert request.last_user_text == "wait: the tea is ready"
        assert "still talking" in request.all_text
        await settled(bot, ["set", "over"])


@pytest.mark.parametrize("hours", [-1, 1])
async def test_seconds_pass_though_the_clock_of_the_day_is_set(tmp_path: Path, hours: int) -> None:
    """Bug: with our own clock set back an hour, a wait of seconds was an hour late."""
    async with running(tmp_path) as bot:
        await asked_to_wait(bot, seconds=90, reason="the tea is ready")
        await bot.clock.began(90)
        bot.clock.set_wall(hours * 3600)
        bot.clock.advance(90)
        assert (await woken(bot, 2)).last_user_text == "wait: the tea is ready"
        await settled(bot, ["set", "over"])


async def test_a_span_is_not_longer_after_a_restart_with_a_clock_that_was_set_back(tmp_path: Path) -> None:
    """Our choice: only the time of day outlives a process, but never makes a wait longer than it was."""
    async with running(tmp_path) as bot:
        await asked_to_wait(bot, seconds=90, reason="the tea is ready")
    clock = WatchedClock()
    clock.set_wall(-3600)
    async with running(tmp_path, clock=clock) as bot:
        await clock.began(90)
        clock.advance(90)
        assert (await woken(bot, 1)).last_user_text == "wait: the tea is ready"


async def test_a_turn_says_something_and_waits_in_one_step(tmp_path: Path) -> None:
    """Design, wait: it ends the turn when nothing but send_message stands beside it."""
    async with running(tmp_path) as bot:
        say = call("send_message", {"messages": ["one moment"]})
        bot.server.enqueue(tool_calls([say, call("wait", {"seconds": 5})]))
        bot.mention("when is the tea ready?")
        await bot.platform.sent.at_least(1)
        await bot.quiet()
        assert len(bot.server.requests) == 1
        await bot.clock.began(5)
        bot.clock.advance(5)
        assert "wait: what you waited for has come" in (await woken(bot, 2)).all_text


@pytest.mark.parametrize(
    ("condition", "wrong", "right"),
    [
        ({"from": "43"}, ("hello", "42"), ("hello", "43")),
        ({"contains": "done"}, ("not yet", "42"), ("all DONE here", "42")),
        ({"from": "43", "contains": "done"}, ("done", "42"), ("done", "43")),
    ],
)
async def test_the_message_that_was_waited_for_wakes_past_the_engine(
    tmp_path: Path, condition: JsonObject, wrong: tuple[str, str], right: tuple[str, str]
) -> None:
    """Design, wait: message conditions; the engine hears none of these messages as addressed to it."""
    async with running(tmp_path) as bot:
        await asked_to_wait(bot, message=condition, reason="news")
        bot.say(wrong[0], user=wrong[1])
        await bot.quiet()
        assert len(bot.server.requests) == 1
        bot.say(right[0], user=right[1])
        request = await woken(bot, 2)
        assert "wait: news" in request.all_text
        bot.say(right[0], user=right[1])
        await bot.quiet()
        assert len(bot.server.requests) == 2, "a wait fires once"


async def test_the_first_condition_to_come_true_drops_the_others(tmp_path: Path) -> None:
    """Design, wait."""
    async with running(tmp_path) as bot:
        await asked_to_wait(bot, seconds=90, message={"any": True}, reason="either")
        bot.say("here I am")
        await woken(bot, 2)
        bot.clock.advance(90)
        bot.say("and here")
        await bot.quiet()
        assert len(bot.server.requests) == 2
        await asked_to_wait(bot, seconds=45, message={"contains": "tea"}, reason="or")
        await bot.clock.began(45)
        bot.clock.advance(45)
        await woken(bot, 4)
        bot.say("tea")
        await bot.quiet()
        assert len(bot.server.requests) == 4


async def test_neither_old_news_nor_own_words_end_a_wait(tmp_path: Path) -> None:
    """Design, wait: never on what is stale or the mind's own."""
    async with running(tmp_path, profile_text("limits: {stale_after: 1}")) as bot:
        await asked_to_wait(bot, message={"any": True})
        old = bot.message("an old line")
        bot.clock.advance(2)
        bot.supervisor.offer(old)
        bot.say("from the owner's phone", user=SELF)
        await bot.quiet()
        assert len(bot.server.requests) == 1
        bot.say("news")
        await woken(bot, 2)


async def test_what_is_said_while_the_wait_is_being_set_counts(tmp_path: Path) -> None:
    """Our choice: a message that joins the very step is one from now on; a mind must not sleep through it."""
    async with running(tmp_path) as bot:

        async def respond(request: ChatRequest) -> Reply:
            if request.number > 1:
                return reply_saying("I heard")
            bot.say("done already")
            with anyio.fail_after(5):
                await bot.supervisor.drained()
            return waiting(message={"contains": "done"}, reason="it")

        bot.server.responder = respond
        bot.mention("tell me when it is done")
        request = await woken(bot, 2)
        assert "wait: it" in request.all_text


async def test_a_ninth_wait_is_refused_and_the_turn_goes_on(tmp_path: Path) -> None:
    """Design, wait: at most 8 pending per runtime."""
    async with running(tmp_path) as bot:
        calls = [call("wait", {"seconds": 60 + number}) for number in range(9)]
        bot.server.enqueue(tool_calls(calls), reply_saying("that is enough"))
        bot.mention("remind me nine times")
        request = await woken(bot, 2)
        assert "8 waits are pending" in request.all_text
        assert wait_states(bot) == ["set"] * 8


@pytest.mark.parametrize(("jump_s", "passes"), [(-300, 11), (120, 4), (3_600, 2)])
async def test_a_time_of_day_comes_within_a_minute_of_a_clock_that_is_set(
    tmp_path: Path, jump_s: float, passes: int
) -> None:
    """Bug: up to an hour late where the clock was set forward."""
    async with running(tmp_path) as bot:
        until = datetime.fromtimestamp(bot.clock.now_ms() / 1000 + 330, UTC).isoformat()
        await asked_to_wait(bot, until=until, reason="tea")
        bot.clock.set_wall(jump_s)
        minutes = 0
        while len(bot.server.requests) == 1 and minutes < 20:
            bot.clock.advance(60)
            minutes += 1
            for _ in range(3):
                await anyio.wait_all_tasks_blocked()
        await woken(bot, 2)
        assert abs(minutes - passes) <= 1


# -- guards, eviction, edits -------------------------------------------------------------------------------------


async def test_a_guards_hold_keeps_a_wait_that_is_due_also_over_a_restart(tmp_path: Path) -> None:
    """Design, guards: budgets hold waits too, until the budget returns."""
    clock = WatchedClock()
    async with running(tmp_path, profile_text("guards: {turns_per_hour: 1}"), clock=clock) as bot:
        await asked_to_wait(bot, seconds=90, reason="tea")
        await clock.began(90)
        clock.advance(90)
        with anyio.fail_after(5):
            while bot.runtime().is_idle():
                await anyio.lowlevel.checkpoint()
        assert len(bot.server.requests) == 1
    assert wait_states(bot) == ["set"]
    async with running(tmp_path, clock=clock) as bot:
        await bot.logs.saying("is active")
        await clock.began(3_600 - 90)
        assert bot.server.requests == []
        clock.advance(3_600 - 90)
        request = await woken(bot, 1)
        assert request.last_user_text == "wait: tea"
        await settled(bot, ["set", "over"])


async def test_a_wait_that_is_due_builds_its_channel_again(tmp_path: Path) -> None:
    """Design, wait: waits survive eviction; the runtime is rebuilt when one is due."""
    async with running(tmp_path, profile_text("limits: {idle_minutes: 1}")) as bot:
        await asked_to_wait(bot, seconds=600, reason="tea")
        for _ in range(2):
            sweeps = bot.clock.count(60)
            bot.clock.advance(60)
            await bot.clock.began(60, times=sweeps + 1)
        assert bot.supervisor.resident_count == 0
        bot.clock.advance(479)
        await bot.clock.began(60, times=bot.clock.count(60))
        assert bot.supervisor.resident_count == 0
        bot.clock.advance(1)
        request = await woken(bot, 1 + 1)
        assert request.last_user_text == "wait: tea"


async def test_an_edited_profile_takes_its_waits_over_and_each_wakes_once(tmp_path: Path) -> None:
    """Design, hand-over."""
    async with running(tmp_path) as bot:
        await asked_to_wait(bot, seconds=90, reason="tea")
        before = bot.runtime()
        await bot.edited(profile_text("plain_text: true"), until=f"profile {PROFILE} is active")
        with anyio.fail_after(5):
            await before.wait_closed()
            while bot.supervisor.find(PROFILE, GROUP) in (None, before):
                await anyio.lowlevel.checkpoint()
        await bot.clock.began(90, times=2)
        bot.clock.advance(90)
        await woken(bot, 2)
        bot.say("anything else?")
        await bot.quiet()
        assert len(bot.server.requests) == 2


async def test_a_due_wait_whose_turn_has_not_begun_moves_over_once(tmp_path: Path) -> None:
    """Design, hand-over: the pending wake moves over; it is not asked for a second time."""
    async with running(tmp_path, profile_text("guards: {turns_per_hour: 1}")) as bot:
        await asked_to_wait(bot, seconds=90, reason="tea")
        await bot.clock.began(90)
        bot.clock.advance(90)
        with anyio.fail_after(5):
            while bot.runtime().is_idle():
                await anyio.lowlevel.checkpoint()
        await bot.edited(profile_text("guards: {turns_per_hour: 5}"), until=f"profile {PROFILE} is active")
        request = await woken(bot, 2)
        assert request.last_user_text == "wait: tea"
        assert request.all_text.count("wait: tea") == 1
        await settled(bot, ["set", "over"])


# -- restarts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_a_wait_survives_a_restart_and_wakes_where_nobody_speaks(tmp_path: Path, how: str) -> None:
    """Design, wait: waits survive a restart; at start-up runtimes in the agenda are built."""
    folder = tmp_path / "bot"
    async with running(folder) as bot:
        await asked_to_wait(bot, seconds=90, reason="tea")
        if how == "killed":
            copy = tmp_path / "killed"
            shutil.copytree(folder, copy)
            folder = copy
    async with running(folder) as bot:
        await bot.clock.began(90)
        bot.clock.advance(90)
        request = await woken(bot, 1)
        assert request.last_user_text == "wait: tea"


async def test_waits_that_came_due_while_the_bot_was_away_wake_once_at_its_start(tmp_path: Path) -> None:
    """Design, wait: past-due waits fire once, at the start."""
    async with running(tmp_path) as bot:
        await asked_to_wait(bot, seconds=90, reason="tea")
        await asked_to_wait(bot, seconds=7_200, message={"any": True}, reason="cake")
    async with running(tmp_path, clock=later_clock(3_600)) as bot:
        request = await woken(bot, 1)
        assert request.last_user_text == "wait: tea"
        await settled(bot, ["set", "set", "over"])
    async with running(tmp_path, clock=later_clock(3_700)) as bot:
        bot.say("late")
        request = await woken(bot, 1)
        assert request.all_text.count("wait: tea") == 1
        assert "wait: cake" in request.all_text


async def test_a_kill_between_the_turn_and_the_end_of_the_wait_does_not_wake_twice(tmp_path: Path) -> None:
    """Our choice: that the turn began is in the log, so the wait is over."""
    folder = tmp_path / "bot"
    async with running(folder) as bot:
        await asked_to_wait(bot, seconds=90, reason="tea")
        before = agenda_file(folder).read_bytes()
        await bot.clock.began(90)
        bot.clock.advance(90)
        await woken(bot, 2)
        log = bot.home() / "events.jsonl"
        lines = log.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if b'"state":"over"' not in line]
    assert len(kept) == len(lines) - 1 or kept == lines, "the end may still be on its way"
    log.write_bytes(b"".join(kept))
    agenda_file(folder).write_bytes(before)
    async with running(folder, clock=later_clock(100)) as bot:
        bot.mention("are you there?", channel=OTHER)
        await bot.platform.sent.at_least(1)
        await bot.quiet(OTHER)
        assert len(bot.server.requests) == 1, "only the question is answered"


async def test_a_week_without_the_message_ends_a_wait_in_silence(tmp_path: Path) -> None:
    """Design, wait: at most 7 days."""
    async with running(tmp_path) as bot:
        await asked_to_wait(bot, message={"from": "43"})
        assert waiting_channels(tmp_path) == ["group:500"]
    async with running(tmp_path, clock=later_clock(7 * 86_400 + 1)) as bot:
        bot.say("at last", user="43")
        await bot.quiet()
        await settled(bot, ["set", "over"])
        assert bot.server.requests == []


# -- the agenda --------------------------------------------------------------------------------------------------


async def test_the_agenda_names_what_is_pending_and_nothing_else(tmp_path: Path) -> None:
    """Format of agenda.json."""
    async with running(tmp_path) as bot:
        bot.say("no wait here")
        await bot.quiet()
        assert not agenda_file(tmp_path).exists()
        await asked_to_wait(bot, seconds=90, reason="tea")
        await asked_to_wait(bot, channel=OTHER, message={"from": "43"})
        now = FakeClock().now_ms()
        first, second = (one for one in read_array(agenda(tmp_path), "runtimes") if isinstance(one, dict))
        (tea,) = (one for one in read_array(first, "waits") if isinstance(one, dict))
        kept = {"until": now + 90_000, "wakesInTime": True, "reason": "tea", "span": 90.0}
        assert {**tea, "id": ""} == {"id": "", **kept}
        assert (first["sid"], first["channelId"]) == (GROUP.sid, GROUP.channel_id)
        assert second["channelId"] == OTHER.channel_id
        await bot.clock.began(90)
        bot.clock.advance(90)
        await woken(bot, 3)
        await settled(bot, ["set", "over"])
        with anyio.fail_after(5):
            while waiting_channels(tmp_path) != ["group:501"]:
                await bot.clock.sleep(0)
    assert (agenda(tmp_path)["format"], agenda(tmp_path)["version"]) == ("ishiki.agenda", 1)


async def test_an_unreadable_agenda_is_kept_beside_and_told_of_and_the_log_still_has_the_waits(tmp_path: Path) -> None:
    """Our choice: the log is the truth; a broken file costs no more than that somebody has to speak first."""
    async with running(tmp_path) as bot:
        await asked_to_wait(bot, seconds=90, reason="tea")
    agenda_file(tmp_path).write_bytes(b'{"format": "ishiki.ag')
    async with running(tmp_path, clock=later_clock(100)) as bot:
        line = await bot.logs.saying(AGENDA_NAME)
        assert line.startswith("ERROR")
        assert len(list(agenda_file(tmp_path).parent.glob("agenda.json.unreadable-*"))) == 1
        bot.say("good morning")
        assert "wait: tea" in (await woken(bot, 1)).all_text


async def test_an_agenda_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    """Style, file formats: refuse, do not guess."""
    newer = orjson.dumps({"format": "ishiki.agenda", "version": 2, "runtimes": []})
    agenda_file(tmp_path).parent.mkdir(parents=True)
    agenda_file(tmp_path).write_bytes(newer)
    async with running(tmp_path) as bot:
        assert "ERROR" in await bot.logs.saying("is of version 2")
        await asked_to_wait(bot, seconds=90, reason="tea")
        await bot.clock.began(90)
        bot.clock.advance(90)
        await woken(bot, 2)
    assert agenda_file(tmp_path).read_bytes() == newer


async def test_a_wait_that_the_disk_refuses_is_not_promised(tmp_path: Path) -> None:
    """Our choice: a wait that a restart would forget is no wait."""
    (tmp_path / "data" / PROFILE / f"{AGENDA_NAME}.new").mkdir(parents=True)
    async with running(tmp_path) as bot:
        bot.server.enqueue(waiting(seconds=90), reply_saying("I cannot"))
        bot.mention("remind me")
        request = await woken(bot, 2)
        assert "nobody will wake you" in request.all_text
        assert wait_states(bot) == []


# -- runtime.wake ------------------------------------------------------------------------------------------------


class Waker(ExtensionInstance):
    """Keeps the runtime that it is attached to."""

    def __init__(self, host: ExtensionHost) -> None:
        self.runtimes: list[AgentRuntime] = []

    def attach(self, runtime: AgentRuntime) -> None:
        self.runtimes.append(runtime)


@pytest.mark.parametrize(
    ("prompt", "opening"), [(None, "Continue."), (" \n", "Continue."), (" water the plants; now ", None)]
)
async def test_an_extension_wakes_the_mind_past_its_engine(tmp_path: Path, prompt: str | None, opening: str) -> None:
    """Specification, AgentRuntime.wake: a missing or blank prompt becomes `Continue.`, another one passes unchanged."""
    made: list[Waker] = []

    def make(host: ExtensionHost) -> Waker:
        made.append(Waker(host))
        return made[-1]

    async with running(
        tmp_path, profile_text("extends: {waker: {}}"), services=providing(extension("waker", make))
    ) as bot:
        bot.say("nobody is addressed")
        await bot.quiet()
        (runtime,) = made[0].runtimes
        assert runtime.wake(prompt) is not None
        request = await woken(bot, 1)
        assert request.last_user_text == (opening or prompt)


async def test_wakes_of_a_busy_mind_merge_into_one_turn(tmp_path: Path) -> None:
    """Specification, continue: prompts merge with `; ` into the one pending wake."""
    gate = anyio.Event()

    async def respond(request: ChatRequest) -> Reply:
        if request.number == 1:
            await gate.wait()
        return reply_saying(f"reply {request.number}")

    async with running(tmp_path) as bot:
        bot.server.responder = respond
        bot.mention("hello")
        await bot.server.wait_requests(1)
        assert bot.runtime().wake("one") is None
        assert bot.runtime().wake("two") is None
        gate.set()
        request = await woken(bot, 2)
        assert request.last_user_text == "one; two"
