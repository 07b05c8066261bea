"""`Journal`: written in order, announced after it, and a store that refuses costs nothing but time."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest

from ishiki.core.entries import EVENT, MESSAGE, Entry, deferred_key, message_entry, step_key
from ishiki.core.events import AgentEvent, ErrorInfo, MessageAppended, TurnDone, TurnFailed, TurnStart, event_data
from ishiki.core.feed import AgentFeed
from ishiki.core.inbox import Inbox
from ishiki.core.journal import Journal, Receipt
from ishiki.core.messages import AssistantMessage, FilePart, UserMessage
from ishiki.errors import AgentStoppedError, StorageError
from ishiki.testing.clock import FakeClock

from .core_kit import FakeDisk, fatal, texts


class Desk:
    """A journal over a fake disk, with everything that it tells."""

    def __init__(self) -> None:
        self.disk = FakeDisk()
        self.feed = AgentFeed()
        self.inbox = Inbox()
        self.clock = FakeClock()
        self.hooked: list[Sequence[Entry]] = []
        self.journal = Journal(self.disk, self.feed, self.inbox, self.clock, [self._hook])
        self.told: list[str] = []
        self.unwritten: list[str] = []
        self.feed.subscribe("agent", self._hear)

    def _hook(self, entries: Sequence[Entry]) -> Sequence[Entry] | None:
        self.hooked.append(entries)
        if any(entry.type == "raise" for entry in entries):
            raise RuntimeError("hook")
        if any(entry.type == "double" for entry in entries):
            return [*entries, Entry("added", {}, 1)]
        return None

    def _hear(self, event: AgentEvent) -> None:
        if isinstance(event, MessageAppended):
            self.told.extend(texts([event.entry]) or ["?"])
            if event.entry.id not in {entry.id for entry in self.disk.window()}:
                self.unwritten.append(event.entry.id)
        else:
            self.told.append(event.type)

    def fact(self, text: str, joins: str | None = None) -> Receipt:
        """Submit one fact."""
        return self.journal.submit([Entry(MESSAGE, UserMessage(text), 1, joins=joins)])

    def begin_turn(self) -> str:
        """Let a turn run, up to its first step, and return its id."""
        self.inbox.send([UserMessage("opening")], trigger=True, if_busy="defer")
        turn = self.inbox.next_turn()
        assert turn is not None
        self.journal.begin_turn(turn.turn_id)
        return turn.turn_id


@asynccontextmanager
async def at_work(desk: Desk) -> AsyncGenerator[Desk]:
    """Run the desk's journal, and close it at the end."""
    async with anyio.create_task_group() as group:
        group.start_soon(desk.journal.run)
        with anyio.fail_after(5):
            yield desk
        desk.journal.close()
    assert desk.unwritten == []
    assert desk.journal.backlog == 0


def batch(turn_id: str, text: str = "answer") -> list[Entry]:
    """Return a step's batch."""
    return [message_entry(AssistantMessage([]), timestamp=1, turn_id=turn_id, step=0)]


async def test_what_is_submitted_is_written_and_announced_in_order_and_waiting_facts_share_writes() -> None:
    """Design, section 3; merging is our choice, at most 64 in a write."""
    async with at_work(Desk()) as desk:
        desk.disk.hold()
        receipts = [desk.fact(f"f{number}") for number in range(100)]
        await desk.disk.wait_held()
        assert not any(receipt.is_done for receipt in receipts)
        desk.disk.let_go()
        await receipts[-1].wait()
        assert all(receipt.is_done for receipt in receipts)
        assert desk.told == [f"f{number}" for number in range(100)] == texts(desk.disk.window())
        assert [len(written) for written in desk.disk.batches] == [64, 36]
        assert desk.inbox.position == 100


async def test_a_batch_that_closes_or_emits_is_never_merged_with_its_neighbours() -> None:
    """Design, section 3: a batch is all or nothing, and ends where it ends."""
    async with at_work(Desk()) as desk:
        desk.disk.hold()
        turn_id = desk.begin_turn()
        desk.fact("before")
        desk.journal.submit(batch(turn_id), closes=[step_key(turn_id, 0)])
        desk.fact("between")
        desk.journal.submit([Entry(EVENT, event_data(TurnStart("t")), 1)], events=[TurnStart("t")])
        desk.fact("after")
        desk.fact("after too")
        await desk.disk.wait_held()
        desk.disk.let_go()
        await desk.journal.settled()
        assert [len(written) for written in desk.disk.batches] == [1, 1, 1, 1, 2]
        assert desk.told == ["before", "", "between", "turn.start", "after", "after too"]


async def test_what_joins_a_step_is_written_at_once_and_announced_behind_its_batch() -> None:
    """Design, section 3: joined facts are durable at once."""
    async with at_work(Desk()) as desk:
        turn_id = desk.begin_turn()
        assert desk.journal.begin_step(0) == []
        await desk.fact("joined", step_key(turn_id, 0)).wait()
        await desk.fact("deferred", deferred_key(turn_id)).wait()
        await desk.fact("joins another", "elsewhere/0").wait()
        assert texts(desk.disk.window()) == ["joined", "deferred", "joins another"]
        assert desk.told == ["joins another"]
        await desk.journal.submit(batch(turn_id), closes=[step_key(turn_id, 0)]).wait()
        assert desk.told == ["joins another", "", "joined"]
        assert desk.inbox.position == 3
        assert texts(desk.journal.begin_step(1)) == ["joins another", "", "joined"]
        end = Entry(EVENT, event_data(TurnDone(turn_id)), 1, turn_id=turn_id)
        closes = [step_key(turn_id, 1), deferred_key(turn_id)]
        await desk.journal.submit([end], closes=closes, events=[TurnDone(turn_id)]).wait()
        assert desk.told == ["joins another", "", "joined", "deferred", "turn.done"]
        assert texts(desk.disk.window()) == ["joins another", "", "joined", "deferred"]


async def test_a_step_that_never_came_gives_back_what_joined_it_in_the_order_of_the_history() -> None:
    """Reference: on failure or abort joined then deferred are still flushed; the file's rule gives the order."""
    async with at_work(Desk()) as desk:
        turn_id = desk.begin_turn()
        desk.journal.begin_step(0)
        desk.fact("deferred", deferred_key(turn_id))
        desk.fact("joined", step_key(turn_id, 0))
        failed = TurnFailed(turn_id, ErrorInfo("ModelError", "down"))

        def end() -> Sequence[Entry]:
            assert texts(desk.disk.window()) == ["deferred", "joined"]
            told = message_entry(UserMessage("what was said"), timestamp=1, turn_id=turn_id)
            return [told, Entry(EVENT, event_data(failed), 1, turn_id=turn_id)]

        closes = [step_key(turn_id, 0), deferred_key(turn_id)]
        await desk.journal.submit(end, closes=closes, events=[failed]).wait()
        assert desk.told == ["joined", "what was said", "deferred", "turn.failed"]
        assert texts(desk.disk.window()) == ["joined", "what was said", "deferred"]


async def test_a_full_disk_publishes_nothing_keeps_the_order_and_is_one_error(caplog: pytest.LogCaptureFixture) -> None:
    """Design, section 3, full disk: retry every 5 s, one error per hour, nothing half-written."""
    caplog.set_level(logging.INFO, "ishiki.core.journal")
    async with at_work(Desk()) as desk:
        desk.disk.refuses = True
        receipts = [desk.fact(f"f{number}") for number in range(3)]
        for _ in range(4):
            await desk.clock.wait_sleepers()
            assert desk.journal.is_blocked
            desk.clock.advance(5)
        await desk.clock.wait_sleepers()
        assert desk.told == []
        assert desk.clock.slept == [5.0] * 5
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        desk.clock.advance(3600)
        await desk.clock.wait_sleepers()
        assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
        with anyio.move_on_after(0):
            await desk.journal.settled()
        await desk.journal.caught_up()
        desk.disk.refuses = False
        desk.fact("f3")
        desk.clock.advance(5)
        await desk.journal.writable()
        await desk.journal.settled()
        assert not desk.journal.is_blocked
        assert desk.told == texts(desk.disk.window()) == ["f0", "f1", "f2", "f3"]
        assert [receipt.is_done for receipt in receipts] == [True] * 3
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR", "INFO"]


async def test_a_disk_that_is_full_now_and_then_is_one_error_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    """Design, full disk: one error per hour, however often it refuses; each further time is a warning."""
    caplog.set_level(logging.WARNING, "ishiki.core.journal")
    async with at_work(Desk()) as desk:
        for number in range(3):
            desk.disk.refuses = True
            receipt = desk.fact(f"f{number}")
            await desk.clock.wait_sleepers()
            desk.disk.refuses = False
            desk.clock.advance(5)
            await receipt.wait()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING", "WARNING"]


async def test_whether_a_fact_is_stale_is_asked_when_it_is_in_the_log() -> None:
    """Design, stale: what waited for a full disk may be too old to wake on by then."""
    stale: list[bool] = []
    async with at_work(Desk()) as desk:

        def hear(event: AgentEvent) -> None:
            if isinstance(event, MessageAppended):
                stale.append(event.is_stale)

        desk.feed.subscribe("agent", hear)
        desk.disk.refuses = True
        began = desk.clock.monotonic()
        entry = Entry(MESSAGE, UserMessage("hello"), 1)
        receipt = desk.journal.submit([entry], is_stale=lambda: desk.clock.monotonic() - began >= 5)
        await desk.clock.wait_sleepers()
        desk.disk.refuses = False
        desk.clock.advance(5)
        await receipt.wait()
    assert stale == [True]


async def test_a_fatal_error_reaches_whoever_waits_and_later_appends_go_on(caplog: pytest.LogCaptureFixture) -> None:
    """Reference: a failing append does not poison later ones, but its own awaiter gets the error."""
    async with at_work(Desk()) as desk:
        desk.disk.refusals = [fatal(), fatal(), fatal()]
        receipt = desk.fact("lost")
        with pytest.raises(StorageError):
            await receipt.wait()
        await receipt.finished()
        assert caplog.text == ""
        for _ in range(2):
            await desk.fact("lost, and nobody waits").finished()
        await desk.fact("kept").wait()
        assert desk.told == ["kept"]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "changed by another program" in caplog.text


async def test_one_fact_without_a_json_form_takes_none_of_those_written_with_it_along(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Bug: a file part with bytes ended the journal, and with it the agent."""
    async with at_work(Desk()) as desk:
        desk.disk.hold()
        first = desk.fact("first")
        await desk.disk.wait_held()
        before = desk.fact("before")
        bad = desk.journal.submit([Entry(MESSAGE, UserMessage([FilePart("image/png", b"x")]), 1)])
        after = desk.fact("after")
        desk.disk.let_go()
        for receipt in (first, before, after):
            await receipt.wait()
        await bad.finished()
        with pytest.raises(ValueError, match="resource"):
            await bad.wait()
        assert desk.told == ["first", "before", "after"]
    assert "cannot be written and is lost" in caplog.text


async def test_a_batch_that_is_lost_gives_back_what_joined_it_and_tells_its_events() -> None:
    """Our choice: who follows a turn sees its end, and no stored fact stays unannounced."""
    async with at_work(Desk()) as desk:
        turn_id = desk.begin_turn()
        desk.journal.begin_step(0)
        await desk.fact("joined", step_key(turn_id, 0)).wait()
        desk.disk.refusals = [fatal()]
        receipt = desk.journal.submit(batch(turn_id), closes=[step_key(turn_id, 0)], events=[TurnDone(turn_id)])
        with pytest.raises(StorageError):
            await receipt.wait()
        assert desk.told == ["joined", "turn.done"]


async def test_closing_a_journal_on_a_full_disk_tries_once_more_and_says_what_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Our choice: the end is not held up by a disk."""
    desk = Desk()
    async with at_work(desk):
        desk.disk.refuses = True
        receipts = [desk.fact("a"), desk.fact("b")]
        turn_end = desk.journal.submit(events=[TurnDone("t")])
        await desk.clock.wait_sleepers()
        attempts = desk.disk.attempts
        desk.journal.close()
        for receipt in receipts:
            with pytest.raises(StorageError):
                await receipt.wait()
        await turn_end.wait()
        assert desk.disk.attempts == attempts + 3  # both together, then each alone
    assert desk.told == ["turn.done"]
    assert "2 entries could not be written" in caplog.text
    late = desk.fact("late")
    with pytest.raises(AgentStoppedError):
        await late.wait()


async def test_a_journal_that_is_cancelled_still_writes_what_was_submitted() -> None:
    """Bug: with its agent's task group the journal was cancelled, and the running turn's end was lost."""
    desk = Desk()
    receipts = [desk.fact("a"), desk.fact("b")]
    async with anyio.create_task_group() as group:
        group.start_soon(desk.journal.run)
        group.cancel_scope.cancel()
        desk.journal.close()
    assert [receipt.is_done for receipt in receipts] == [True, True]
    assert texts(desk.disk.window()) == ["a", "b"]


async def test_a_hook_that_raises_is_logged_and_the_entries_are_appended_as_they_were(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Bug: it raised out of whoever submitted, after the inbox had decided."""
    async with at_work(Desk()) as desk:
        await desk.journal.submit([Entry("raise", {}, 1)]).wait()
        await desk.journal.submit(lambda: [Entry("double", {}, 1)]).wait()
        await desk.journal.submit(events=[TurnStart("t")]).wait()
        assert [entry.type for entry in desk.disk.window()] == ["raise", "double", "added"]
        assert len(desk.hooked) == 2
    assert "on_append hook raised" in caplog.text


async def test_a_callback_of_a_receipt_runs_when_the_batch_is_in_the_log_even_if_nobody_waits() -> None:
    """Our choice: what a cancelled caller changed is known."""
    async with at_work(Desk()) as desk:
        seen: list[str] = []
        for text in ("one", "two"):
            desk.fact(text).on_written(lambda text=text: seen.append(text))
        await desk.journal.settled()
        assert seen == ["one", "two"]


async def test_a_store_with_a_bug_ends_the_journal_and_nobody_waits_for_ever() -> None:
    """Our choice: an error that no contract names is not swallowed."""

    class Broken(FakeDisk):
        async def append(self, *entries: Entry) -> None:
            raise KeyError("bug")

    desk = Desk()
    desk.journal = Journal(Broken(), desk.feed, desk.inbox, desk.clock)
    first, second = desk.fact("a"), desk.journal.submit(events=[TurnStart("t")])
    with pytest.raises(KeyError):
        await desk.journal.run()
    for receipt in (first, second):
        with anyio.fail_after(5), pytest.raises(AgentStoppedError):
            await receipt.wait()
    assert desk.journal.backlog == 0
