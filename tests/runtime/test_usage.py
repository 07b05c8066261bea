"""What minds cost: the sums, the file, and what a restart, a kill and a full disk leave of them."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

import anyio
import orjson
import pytest

from ishiki.contracts.events import ChannelRef
from ishiki.core.entries import EVENT, Entry, message_entry
from ishiki.core.messages import AssistantMessage, Usage
from ishiki.core.model import (
    Finish,
    LanguageModel,
    ModelInfo,
    ModelPart,
    ModelRequest,
    RequestOrigin,
    ResponseStart,
    TextDelta,
)
from ishiki.errors import ModelError, StorageError
from ishiki.jsonvalue import JsonObject
from ishiki.runtime.usage.books import ProfileUsage, UsageBooks
from ishiki.runtime.usage.meter import MeteredModel
from ishiki.runtime.usage.tally import MAX_CHANNELS, OTHERS, DayUsage, Mark, Tally, read_day, usage_folder
from ishiki.storage.replacing import replace_file
from ishiki.testing.clock import FakeClock
from ishiki.testing.journal import Journal
from ishiki.testing.openai_replies import Reply, call, cut, error, tool_calls
from ishiki.testing.openai_replies import Usage as Counted
from ishiki.testing.openai_server import ChatRequest
from ishiki.testing.scripted_model import ScriptedModel

from .kit import GROUP, PROFILE, SELF, Bot, profile_text, running

SECOND = ChannelRef(f"onebot:{SELF}", "group:501")
DAY = date(2025, 11, 29)
GOLDEN = Path(__file__).resolve().parents[1] / "formats" / "usage-v1.json"


def day_file(folder: Path, day: date = DAY) -> Path:
    """Return a bot's file of one day."""
    return usage_folder(folder / "data", PROFILE) / f"{day.isoformat()}.json"


def kept(folder: Path, channel: ChannelRef = GROUP, day: date = DAY) -> Tally:
    """Return what a bot's file holds of a channel."""
    found = read_day(day_file(folder, day)).channels.get(str(channel))
    return Tally() if found is None else found.tally


def at_cost(prompt: int, completion: int, cached: int = 0, *, goes_on: bool = False) -> tuple[JsonObject, Counted]:
    """Return arguments of send_message and the price of the step that makes them."""
    return {"messages": [f"for {prompt}"], "continue": goes_on}, Counted(prompt, completion, cached)


async def take_turn(bot: Bot, *steps: tuple[JsonObject, Counted], channel: ChannelRef = GROUP, word: str = "") -> None:
    """Let the mind take a turn of these steps."""
    bot.server.enqueue(*(tool_calls([call("send_message", said)], usage=usage) for said, usage in steps))
    bot.say(f'<at id="{SELF}"/> go on', channel=channel, message_id=f"m-{steps[0][1].prompt_tokens}{word}")
    await bot.quiet(channel)


async def test_every_call_of_every_turn_adds_up_exactly(tmp_path: Path) -> None:
    """Issue: tokens in, out and cached per channel and day."""
    async with running(tmp_path) as bot:
        await take_turn(bot, at_cost(1000, 10, goes_on=True), at_cost(1100, 20, 1000))
        await take_turn(bot, at_cost(1200, 30, 1100))
        await take_turn(bot, at_cost(70, 7), channel=SECOND)
    assert kept(tmp_path) == Tally(2, 3, 0, 3300, 60, 2100)
    assert kept(tmp_path, SECOND) == Tally(1, 1, 0, 70, 7, 0)
    usage = read_day(day_file(tmp_path))
    assert (usage.profile_id, usage.day, usage.total().tokens) == (PROFILE, DAY, 3437)


def refuse(request: ChatRequest) -> Reply:
    """Answer as a provider does that wants no more of this."""
    return error(401)


async def test_a_turn_that_fails_later_has_cost_what_its_steps_took(tmp_path: Path) -> None:
    """Our choice: the provider has been paid for them."""
    async with running(tmp_path) as bot:
        said, usage = at_cost(1000, 10, goes_on=True)
        bot.server.responder = refuse
        bot.server.enqueue(tool_calls([call("send_message", said)], usage=usage))
        bot.mention("hello")
        await bot.quiet()
        assert [end["type"] for end in bot.ends()] == ["turn.failed"]
    assert kept(tmp_path) == Tally(1, 1, 0, 1000, 10, 0)


async def test_an_answer_without_usage_is_estimated_and_marked(tmp_path: Path) -> None:
    """Our choice: an estimate is better than nothing, and never passes for a count."""
    async with running(tmp_path) as bot:
        bot.server.enqueue(tool_calls([call("finish", {})], usage="absent"))
        bot.mention("hello")
        await bot.quiet()
    found = kept(tmp_path)
    assert (found.turns, found.calls, found.estimated_calls) == (1, 1, 1)
    assert found.input_tokens > 100
    assert found.output_tokens > 0


def break_off(request: ChatRequest) -> Reply:
    """Answer as a server does that dies."""
    return cut("a long answer that never ends", ending="reset", parts_sent=3)


async def test_an_answer_that_breaks_off_is_estimated(tmp_path: Path) -> None:
    """Our choice: providers charge for it, and a model that always breaks off must not be free."""
    async with running(tmp_path) as bot:
        bot.server.responder = break_off
        bot.mention("hello")
        await bot.quiet()
        assert [end["type"] for end in bot.ends()] == ["turn.failed"]
    found = kept(tmp_path)
    assert found.calls == found.estimated_calls == 1


async def test_numbers_go_on_over_a_restart(tmp_path: Path) -> None:
    """Issue: kept over restarts."""
    for number in range(3):
        async with running(tmp_path) as bot:
            await take_turn(bot, at_cost(1000, 10), word=f"-{number}")
    assert kept(tmp_path) == Tally(3, 3, 0, 3000, 30, 0)


async def test_what_a_kill_kept_from_the_file_is_found_in_the_log(tmp_path: Path) -> None:
    """Specification of the accounting: a kill loses nothing of what stands in the log, and counts nothing twice."""
    original, copy = tmp_path / "bot", tmp_path / "killed"
    async with running(original) as bot:
        await take_turn(bot, at_cost(1000, 10))
        await bot.clock.began(1.0)
        await take_turn(bot, at_cost(2000, 20, goes_on=True), at_cost(3000, 30))
        # The clock stands still, so the second that lies between two writes has not passed.
        assert kept(original).input_tokens < 6000
        shutil.copytree(original, copy)
    async with running(copy) as bot:
        await take_turn(bot, at_cost(4000, 40))
    assert kept(copy) == Tally(3, 4, 0, 10_000, 100, 0)
    assert kept(original) == Tally(2, 3, 0, 6000, 60, 0)


async def test_a_channel_that_leaves_memory_and_comes_back_counts_nothing_twice(tmp_path: Path) -> None:
    """Specification of the accounting."""
    async with running(tmp_path) as bot:
        for number in range(3):
            await take_turn(bot, at_cost(1000, 10), word=f"-{number}")
            bot.clock.advance(120 * 60 + 60)
            with anyio.fail_after(5):
                while bot.supervisor.resident_count:
                    await anyio.lowlevel.checkpoint()
    assert kept(tmp_path) == Tally(3, 3, 0, 3000, 30, 0)


class WatchedBooks(UsageBooks):
    """Books whose writes can be waited for; each notes how many calls are on disk."""

    def __init__(self, folder: Path, clock: FakeClock) -> None:
        super().__init__(folder / "data", clock)
        self.file = day_file(folder)
        self.writes: Journal[int] = Journal("writes")

    async def flush(self) -> bool:
        is_done = await super().flush()
        self.writes.add(read_day(self.file).total().calls)
        return is_done


async def test_a_first_change_is_written_at_once_and_then_one_write_a_second(tmp_path: Path) -> None:
    """Specification of the accounting: at most one write a second."""
    clock = FakeClock()
    books = WatchedBooks(tmp_path, clock)
    usage = await books.open(PROFILE, ZoneInfo("UTC"))
    async with anyio.create_task_group() as group:
        group.start_soon(books.run)
        usage.note_call("c", Usage(1, 0))
        await books.writes.at_least(1)
        for _ in range(100):
            usage.note_call("c", Usage(1, 0))
        await clock.wait_sleepers()
        assert books.writes.items == [1]
        clock.advance(1.0)
        assert await books.writes.at_least(2) == [1, 101]
        group.cancel_scope.cancel()


async def test_each_day_has_its_file_by_the_zone_of_the_profile(tmp_path: Path) -> None:
    """Specification of the accounting: the day of the profile's time zone."""
    async with running(tmp_path, profile_text("timezone: Asia/Shanghai")) as bot:
        await take_turn(bot, at_cost(1000, 10))
        bot.clock.advance(8 * 3600 + 3200)  # 23:59:60 there, 15:59:60 UTC
        await take_turn(bot, at_cost(2000, 20), word="-later")
        bot.clock.advance(1)
        await take_turn(bot, at_cost(3000, 30), word="-tomorrow")
    assert kept(tmp_path).input_tokens == 1000
    assert kept(tmp_path, day=date(2025, 11, 30)).input_tokens == 5000
    assert read_day(day_file(tmp_path)).timezone == "Asia/Shanghai"


async def opened(folder: Path, clock: FakeClock | None = None) -> tuple[UsageBooks, ProfileUsage]:
    """Open a profile's numbers."""
    books = UsageBooks(folder / "data", clock or FakeClock())
    return books, await books.open(PROFILE, ZoneInfo("UTC"))


async def test_numbers_wait_in_memory_while_the_disk_refuses_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Our choice: nothing is lost by a full disk, and one error an hour says so."""
    books, usage = await opened(tmp_path)
    in_the_way = usage_folder(tmp_path / "data", PROFILE)
    in_the_way.parent.mkdir(parents=True)
    in_the_way.touch()
    for _ in range(3):
        usage.note_call("c", Usage(10, 1))
        assert not await books.flush()
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1
    in_the_way.unlink()
    assert await books.flush()
    assert read_day(day_file(tmp_path)).total() == Tally(calls=3, input_tokens=30, output_tokens=3)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "storage_damaged"),
        (b"[]", "storage_damaged"),
        (b'{"format":"ishiki.usage","version":1}', "storage_damaged"),
        (b'{"format":"ishiki.usage","version":0,"day":"2025-11-29"}', "storage_damaged"),
        (b'{"format":"another","version":1,"day":"2025-11-29"}', "storage_foreign"),
        (b'{"format":"ishiki.usage","version":2,"day":"2025-11-29"}', "storage_newer"),
    ],
)
async def test_a_file_that_cannot_be_read_is_kept_aside_with_an_error(
    tmp_path: Path, content: bytes, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Our choice: counting goes on, and nothing of the old file is written over."""
    file = day_file(tmp_path)
    replace_file(file, content)
    with pytest.raises(StorageError) as refused:
        read_day(file)
    assert refused.value.code == code
    books, usage = await opened(tmp_path)
    usage.note_call("c", Usage(10, 1))
    await books.aclose()
    (aside,) = file.parent.glob("*.unreadable-*")
    assert aside.read_bytes() == content
    assert aside.name in caplog.text
    assert read_day(file).total().calls == 1


async def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """Specification of the accounting: atomic writes."""
    file = tmp_path / "day.json"
    replace_file(file, b"old")
    (tmp_path / "day.json.new").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(file, b"new")
    assert file.read_bytes() == b"old"


def test_channels_beyond_the_bound_are_counted_together() -> None:
    """Specification of the accounting: bounded memory."""
    usage = DayUsage(PROFILE, DAY)
    for number in range(MAX_CHANNELS + 5):
        usage.channel(f"c{number}").tally.add_call(Usage(1, 1))
    assert len(usage.channels) == MAX_CHANNELS + 1
    assert usage.channels[OTHERS].tally.calls == 5
    assert usage.total().calls == MAX_CHANNELS + 5


def test_the_golden_file_of_version_1_reads_back() -> None:
    """docs/formats/usage.md; this file is never changed."""
    usage = read_day(GOLDEN)
    assert (usage.profile_id, usage.day, usage.timezone) == ("neko", DAY, "Asia/Shanghai")
    channel = usage.channels["onebot:10001/group:500"]
    assert channel.tally == Tally(2, 3, 1, 3300, 60, 2100)
    assert channel.mark == Mark("t2", "t2/1", 1_764_400_000_000)
    assert orjson.loads(GOLDEN.read_bytes()) == usage.to_json()


# -- what a log tells that the file does not ----------------------------------------------------------------------


def started(turn_id: str, at: int) -> Entry:
    """Return the entry of a turn's beginning."""
    return Entry(EVENT, {"type": "turn.start", "turnId": turn_id}, at, turn_id=turn_id)


def stepped(turn_id: str, step: int, at: int, tokens: int = 10) -> Entry:
    """Return the entry of a step's answer."""
    message = AssistantMessage([], timestamp=at, usage=Usage(tokens, 1), finish_reason="stop")
    return message_entry(message, timestamp=at, turn_id=turn_id, step=step)


async def test_a_counted_step_that_is_in_no_log_hides_none_that_follows(tmp_path: Path) -> None:
    """Our choice: the call of a step that failed is counted and never written."""
    clock = FakeClock()
    now = clock.now_ms()
    _, usage = await opened(tmp_path, clock)
    usage.note_turn("c", "t1")
    usage.note_call("c", Usage(10, 1), "t1/0")
    log = [started("t0", now - 50), stepped("t0", 0, now - 40), started("t1", now), started("t2", now + 5)]
    usage.catch_up("c", [*log, stepped("t2", 0, now + 9)])
    assert usage.usage_today.channels["c"].tally == Tally(2, 2, 0, 20, 2, 0)


async def test_a_log_of_other_days_counts_for_nothing_today(tmp_path: Path) -> None:
    """Our choice: their own files are closed."""
    clock = FakeClock()
    yesterday = clock.now_ms() - 86_400_000
    _, usage = await opened(tmp_path, clock)
    usage.catch_up("c", [started("t1", yesterday), stepped("t1", 0, yesterday)])
    assert usage.tokens_today == 0


# -- the metered model ----------------------------------------------------------------------------------------------


class Broken(LanguageModel):
    """Fails after its first parts."""

    def __init__(self, *parts: ModelPart) -> None:
        self.parts = parts

    @property
    def ref(self) -> str:
        return "test:broken"

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(self.ref)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        for part in self.parts:
            yield part
        raise ModelError("it broke", kind="cut", retryable=True)


async def measured(model: LanguageModel) -> list[Usage]:
    """Ask once, and return what was noted."""
    notes: list[Usage] = []

    def note(usage: Usage, origin: RequestOrigin) -> None:
        notes.append(usage)

    metered = MeteredModel(model, note)
    request = ModelRequest("Be brief.", [])
    try:
        async for _ in metered.stream(request):
            pass
    except ModelError:
        pass
    return notes


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (ScriptedModel([[TextDelta("hi"), Finish("stop", Usage(7, 3, 5))]]), [Usage(7, 3, 5)]),
        (Broken(), []),
        (Broken(Finish("stop", Usage(7, 3))), [Usage(7, 3)]),
    ],
)
async def test_a_call_is_noted_once_and_only_if_it_was_answered(model: LanguageModel, expected: list[Usage]) -> None:
    """Our choice: a refused call costs nothing."""
    assert await measured(model) == expected


async def test_a_broken_answer_is_noted_as_an_estimate_of_what_came() -> None:
    """Our choice."""
    (begun,) = await measured(Broken(ResponseStart("m")))
    (longer,) = await measured(Broken(ResponseStart("m"), TextDelta("a few words more than nothing")))
    assert begun.is_estimate
    assert begun.output_tokens == 0 < longer.output_tokens
    assert begun.input_tokens == longer.input_tokens > 0
