"""Appending, opening, closing: what a log promises when nothing is damaged."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import anyio
import anyio.lowlevel
import orjson
import pytest

from ishiki.core.entries import CHECKPOINT, COMPACT, EVENT, STATE, Entry, message_entry, step_key
from ishiki.core.messages import (
    AssistantMessage,
    CustomMessage,
    FilePart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolResultPart,
    Usage,
    UserMessage,
)
from ishiki.errors import StorageError
from ishiki.jsonvalue import JsonValue
from ishiki.storage import EventLog, LogFiles

OpenLog = Callable[..., Awaitable[EventLog]]
FORMATS = Path(__file__).parents[1] / "formats"


def fact(name: str, joins: str | None = None) -> Entry:
    """Return a line that somebody said."""
    data: JsonValue = {"messageId": name, "content": f"你好 {name}"}
    return Entry(
        "message", CustomMessage("ishiki.message.created", {"data": data}, 1, f"m-{name}"), 2, name, joins=joins
    )


def record(name: str, kind: str = STATE, **data: JsonValue) -> Entry:
    """Return an entry that is no message."""
    return Entry(kind, data, 3, name)


def ids(entries: Iterable[Entry]) -> list[str]:
    """Return the ids in order."""
    return [entry.id for entry in entries]


async def test_what_was_appended_is_read_back_equal(open_log: OpenLog) -> None:
    """Specification, events.jsonl: the log is the fact; every kind of message survives."""
    log = await open_log()
    entries = [
        fact("1"),
        Entry(EVENT, {"type": "turn.start", "turnId": "t"}, 5, "2", turn_id="t"),
        message_entry(
            AssistantMessage(
                [ReasoningPart("hm", {"signature": "s"}), TextPart("a"), ToolCallPart("c", "finish", {"x": [1, None]})],
                7,
                Usage(10, 2, 3, 1, is_estimate=True),
                "tool-calls",
                {"p": {"q": 1.5}},
            ),
            timestamp=8,
            turn_id="t",
            step=0,
        ),
        message_entry(
            ToolMessage([ToolResultPart("c", "finish", ToolOutput("execution-denied", "no"))], 9),
            timestamp=9,
            turn_id="t",
            step=0,
        ),
        message_entry(UserMessage([TextPart("look"), FilePart("image/png", url="asset://1")], 10), timestamp=10),
        Entry("someone.else", {"deep": {"list": [{}]}}, 11, "6", parent_id="1"),
    ]
    await log.append(*entries[:1])
    await log.append(*entries[1:])
    assert list(log.window()) == entries
    assert list((await open_log()).window()) == entries


async def test_the_file_holds_a_header_and_one_line_an_entry_with_more_on_all_but_the_last(
    open_log: OpenLog, path: Path
) -> None:
    """Specification, events.jsonl: the header, and `more` inside a batch."""
    log = await open_log()
    await log.append(record("1"))
    await log.append(record("2"), record("3"), record("4"))
    header, *lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    assert header == {
        "type": "header",
        "format": "ishiki.events",
        "version": 1,
        "sid": "onebot:10001",
        "channelId": "group:500",
    }
    assert [(line["id"], line.get("more")) for line in lines] == [("1", None), ("2", True), ("3", True), ("4", None)]


async def test_a_log_without_facts_leaves_no_file(open_log: OpenLog, path: Path) -> None:
    """Our choice: looking at a channel is no fact."""
    log = await open_log()
    await log.append()
    await log.aclose()
    assert not path.parent.exists()


async def test_a_second_owner_of_a_path_is_refused_until_the_first_closes(
    open_log: OpenLog, path: Path, files: LogFiles
) -> None:
    """Our choice: two owners would disagree about the file's end, also by another name of it."""
    log = await open_log()
    await log.append(record("1"))
    link = path.parent.parent / "link"
    link.symlink_to(path.parent)
    other_name = link / path.name
    with pytest.raises(StorageError) as refused:
        await EventLog.open(other_name, sid="onebot:10001", channel_id="group:500", files=files)
    assert refused.value.code == "storage_in_use"
    await log.aclose()
    other = await EventLog.open(other_name, sid="onebot:10001", channel_id="group:500", files=files)
    assert ids(other.window()) == ["1"]
    await other.aclose()


async def test_a_log_can_be_opened_again_after_a_failed_opening(open_log: OpenLog, path: Path) -> None:
    """Our choice: a refused file does not stay claimed."""
    path.parent.mkdir()
    path.write_bytes(b"broken\n" + orjson.dumps({"type": "x", "data": {}}) + b"\n")
    for _ in range(2):
        with pytest.raises(StorageError) as refused:
            await open_log()
        assert (refused.value.code, refused.value.line) == ("storage_damaged", 1)


async def test_a_closed_log_refuses_appends_and_closes_twice(open_log: OpenLog) -> None:
    """Our choice: using a log after its close is told, not ignored."""
    log = await open_log()
    await log.append(record("1"))
    await log.aclose()
    await log.aclose()
    with pytest.raises(StorageError) as refused:
        await log.append(record("2"))
    assert refused.value.code == "storage_closed"


async def test_a_file_that_another_program_changed_is_not_written_to(open_log: OpenLog, path: Path) -> None:
    """Our choice: two bots on one data folder must not garble a log."""
    log = await open_log()
    await log.append(record("1"))
    with path.open("ab") as other:
        other.write(b'{"type":"x","data":{},"id":"other"}\n')
    with pytest.raises(StorageError) as refused:
        await log.append(record("2"))
    assert refused.value.code == "storage_changed"
    assert ids(log.window()) == ["1"]
    assert ids((await open_log()).window()) == ["1", "other"]


def _move(path: Path) -> None:
    path.rename(path.with_suffix(".old"))


def _move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_suffix(".old"))


@pytest.mark.parametrize(
    "leave",
    [
        pytest.param(Path.unlink, id="removed"),
        pytest.param(_move, id="moved"),
        pytest.param(_move_folder, id="with its folder"),
    ],
)
async def test_a_removed_log_begins_anew_and_loses_no_new_fact(
    leave: Callable[[Path], object], open_log: OpenLog, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Our choice: people remove a log, or its whole folder, to make a channel forget; it must not stay deaf."""
    log = await open_log()
    await log.append(record("1"))
    leave(path)
    with caplog.at_level(logging.WARNING, "ishiki.storage"):
        await log.append(record("2"))
        await log.append(record("3"))
    assert [entry.levelname for entry in caplog.records] == ["WARNING"]
    assert ids(log.window()) == ["2", "3"]
    assert ids((await open_log()).window()) == ["2", "3"]


async def test_a_log_that_an_editor_saved_goes_on_as_it_is_now(open_log: OpenLog, path: Path) -> None:
    """Our choice: editors save under another name and rename; what stands there is what somebody wanted."""
    log = await open_log()
    await log.append(record("1"))
    await log.append(record("2"))
    edited = path.with_name("edited")
    edited.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    edited.rename(path)
    await log.append(record("3"))
    assert ids(log.window()) == ["1", "3"]
    assert ids((await open_log()).window()) == ["1", "3"]


async def test_a_log_replaced_by_another_channels_is_not_written_to(open_log: OpenLog, path: Path) -> None:
    """Specification, events.jsonl: the header is checked on open."""
    log = await open_log()
    await log.append(record("1"))
    foreign = path.read_bytes().replace(b"group:500", b"group:501")
    path.unlink()
    path.write_bytes(foreign)
    with pytest.raises(StorageError) as refused:
        await log.append(record("2"))
    assert refused.value.code == "storage_foreign"
    assert path.read_bytes() == foreign


async def test_lone_surrogates_and_huge_numbers_are_mended_not_lost(open_log: OpenLog) -> None:
    """Specification, events.jsonl: the log takes every fact; lone surrogates become U+FFFD."""
    log = await open_log()
    await log.append(Entry("x", {"text": "a\ud800b", "k\udfff": 2**70, "n": 10**5000, "ok": "\U0001f600"}, 1))
    mended = {"text": "a\ufffdb", "k\ufffd": str(2**70), "n": hex(10**5000), "ok": "\U0001f600"}
    assert [entry.json_data for entry in log.window()] == [mended]
    assert [entry.json_data for entry in (await open_log()).window()] == [mended]


async def test_an_entry_without_a_json_form_is_refused_and_names_itself(open_log: OpenLog, path: Path) -> None:
    """Our choice: a programming error leaves the log as it is."""
    log = await open_log()
    picture = message_entry(UserMessage([FilePart("image/png", data=b"x")]), timestamp=1)
    with pytest.raises(ValueError, match="bytes"):
        await log.append(record("1"), picture)
    deep: JsonValue = None
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(ValueError, match="'too-deep'"):
        await log.append(record("1"), record("too-deep", x=deep))
    assert not path.exists()
    await log.append(record("1"))


async def test_a_cancelled_append_is_whole_or_not_begun(open_log: OpenLog) -> None:
    """Specification, EntryStore: a cancelled caller may find the batch written, never torn."""
    log = await open_log()
    written: list[str] = []
    for turns in range(8):
        with anyio.CancelScope() as scope:

            async def cancel_after(scope: anyio.CancelScope = scope, turns: int = turns) -> None:
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()

            async with anyio.create_task_group() as group:
                group.start_soon(cancel_after)
                await log.append(record(f"{turns}a"), record(f"{turns}b"))
        window = ids(log.window())
        assert window in (written, [*written, f"{turns}a", f"{turns}b"])
        written = window
    await log.append(record("last"))
    live = list(log.window())
    assert list((await open_log()).window()) == live


async def test_a_task_cancelled_past_all_shields_leaves_the_window_as_the_file(open_log: OpenLog) -> None:
    """Our choice: asyncio's own cancel reaches through shields; file and window still agree afterwards."""
    log = await open_log()

    async def append(name: str, started: list[asyncio.Task[None]]) -> None:
        task = asyncio.current_task()
        assert task is not None
        started.append(task)
        await log.append(record(f"{name}a"), record(f"{name}b"))

    for turns in range(6):
        started: list[asyncio.Task[None]] = []
        async with anyio.create_task_group() as group:
            group.start_soon(append, str(turns), started)
            for _ in range(turns + 1):
                await anyio.lowlevel.checkpoint()
            for task in started:
                task.cancel()
    await log.append(record("last"))
    live = list(log.window())
    assert live[-1].id == "last"
    assert list((await open_log()).window()) == live


async def test_appends_at_once_keep_the_order_in_which_they_were_called(open_log: OpenLog) -> None:
    """Our choice: the store has one owner, and is safe where it has not."""
    log = await open_log()
    names = [str(number) for number in range(30)]
    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(log.append, record(name))
    assert ids(log.window()) == names
    assert ids((await open_log()).window()) == names


async def test_a_joined_fact_moves_behind_its_batch_at_once_and_after_reopening(open_log: OpenLog) -> None:
    """Specification, joined facts: durable at once, placed behind the step's batch."""
    log = await open_log()
    step = [Entry("message", AssistantMessage([], id=name), 1, name, turn_id="t", step=0) for name in ("s1", "s2")]
    await log.append(fact("before"))
    await log.append(fact("meanwhile", joins=step_key("t", 0)))
    assert ids(log.window()) == ["before", "meanwhile"]
    earlier = log.window()
    await log.append(*step)
    await log.append(fact("after"))
    assert ids(log.window()) == ["before", "s1", "s2", "meanwhile", "after"]
    assert ids(earlier) == ["before", "meanwhile"]
    assert ids((await open_log()).window()) == ["before", "s1", "s2", "meanwhile", "after"]


async def test_opening_finds_the_newest_checkpoint_and_counts_what_follows(open_log: OpenLog) -> None:
    """Specification, checkpoint."""
    log = await open_log()
    assert (log.last_checkpoint, log.entries_since_checkpoint) == (None, 0)
    checkpoints = [record(name, CHECKPOINT, state={"n": name}) for name in ("c1", "c2")]
    await log.append(record("1"), checkpoints[0], record("2"), checkpoints[1])
    await log.append(record("3"), record("4"))
    assert (log.last_checkpoint, log.entries_since_checkpoint) == (checkpoints[1], 2)
    log = await open_log()
    assert (log.last_checkpoint, log.entries_since_checkpoint, log.take_replay()) == (checkpoints[1], 2, [])


async def test_opening_reads_beyond_a_small_window_to_the_checkpoint(open_log: OpenLog) -> None:
    """Specification, checkpoint: what follows it and left the window is handed out once, in order."""
    log = await open_log()
    await log.append(record("c", CHECKPOINT), *[record(str(number)) for number in range(20)])
    log = await open_log(window_entries=5)
    assert ids(log.window()) == ["15", "16", "17", "18", "19"]
    assert log.last_checkpoint == record("c", CHECKPOINT)
    assert ids(log.take_replay()) == [str(number) for number in range(15)]
    assert log.take_replay() == []


async def test_a_checkpoint_further_back_than_window_and_thousand_is_not_looked_for(open_log: OpenLog) -> None:
    """Specification, checkpoint: at most window + 1,000 lines, so that opening costs the same at any size."""
    log = await open_log()
    await log.append(record("c", CHECKPOINT), *[record(str(number)) for number in range(1010)])
    log = await open_log(window_entries=10)
    assert (log.last_checkpoint, log.entries_since_checkpoint) == (None, 1010)
    log = await open_log(window_entries=11)
    assert (log.last_checkpoint, log.entries_since_checkpoint) == (record("c", CHECKPOINT), 1010)


async def test_entries_that_leave_the_window_without_a_summary_are_warned_of_once(
    open_log: OpenLog, caplog: pytest.LogCaptureFixture
) -> None:
    """Specification, live window: one warning a channel."""
    log = await open_log(window_entries=2)
    with caplog.at_level(logging.WARNING, "ishiki.storage"):
        await log.append(record("1"), record("2"))
        assert caplog.records == []
        await log.append(record("3"), record("4"))
        await log.append(record("5"))
    assert len(caplog.records) == 1
    assert ids(log.window()) == ["4", "5"]


@pytest.mark.parametrize(
    "summary", [record("s", COMPACT, summary="…"), record("s", CHECKPOINT, compaction={"summary": "…"})]
)
async def test_a_compaction_in_force_makes_the_warning_needless(
    summary: Entry, open_log: OpenLog, caplog: pytest.LogCaptureFixture
) -> None:
    """Specification, live window: a compaction older than the window stays in force, by the checkpoint."""
    log = await open_log(window_entries=2)
    with caplog.at_level(logging.WARNING, "ishiki.storage"):
        await log.append(record("1"), summary, record("2"))
    assert caplog.records == []
    await log.append(record("3"), record("4"))
    assert len(caplog.records) == (1 if summary.type == COMPACT else 0)


async def test_a_window_of_no_entries_is_refused(open_log: OpenLog) -> None:
    """Our choice."""
    with pytest.raises(ValueError, match="window_entries"):
        await open_log(window_entries=0)


async def test_the_window_can_be_sliced_and_read_from_its_end(open_log: OpenLog) -> None:
    """Specification, EntryStore: a sequence of entries."""
    log = await open_log()
    await log.append(*[record(str(number)) for number in range(5)])
    window = (await open_log()).window()
    assert len(window) == 5
    assert window[-1].id == "4"
    assert ids(window[1:3]) == ["1", "2"]
    assert ids(reversed(window)) == ["4", "3", "2", "1", "0"]
    assert window[0] is window[0]


async def test_the_golden_file_of_version_1_reads_as_written_and_is_written_the_same(
    open_log: OpenLog, path: Path
) -> None:
    """Our choice: a released format does not drift."""
    golden = (FORMATS / "events-v1.jsonl").read_bytes()
    path.parent.mkdir()
    path.write_bytes(golden)
    log = await open_log()
    assert log.version == 1
    window = list(log.window())
    assert ids(window) == ["e01", "e02", "e04", "e05", "e03", "e06", "e07", "e08", "e09", "e10"]
    assert log.last_checkpoint is not None
    in_file_order = sorted(window, key=lambda entry: entry.id)
    await log.aclose()
    path.unlink()
    log = await open_log()
    batches = [1, 1, 1, 2, 3, 1, 1]
    for size in batches:
        batch, in_file_order = in_file_order[:size], in_file_order[size:]
        await log.append(*batch)
    assert path.read_bytes() == golden


async def test_a_log_of_the_original_opens_and_goes_on_without_a_header(open_log: OpenLog, path: Path) -> None:
    """Specification, events.jsonl: a headerless file is version 0 and opens here."""
    golden = (FORMATS / "events-v0.jsonl").read_bytes()
    path.parent.mkdir()
    path.write_bytes(golden)
    log = await open_log()
    assert log.version == 0
    window = list(log.window())
    assert ids(window) == [f"0d7c3a52-{number:02}" for number in range(1, 12)]
    assert window[4].message == AssistantMessage(
        [TextPart("nothing more to say")], 1751001603900, None, "stop", id="m-04"
    )
    assert window[10].json_data == {"mood": "calm", "weights": [1, 2.5, None]}
    await log.append(record("new"), record("newer"))
    written = path.read_bytes()
    assert written.startswith(golden)
    log = await open_log()
    assert log.version == 0
    assert ids(log.window())[-2:] == ["new", "newer"]


def test_a_full_disk_leaves_nothing_half_written_and_the_same_append_succeeds_later(path: Path) -> None:
    """Specification, full disk: all or nothing, and the same call may be tried again."""
    program = """
import anyio, resource, sys
from pathlib import Path
from ishiki.core.entries import Entry
from ishiki.errors import StorageError
from ishiki.storage import EventLog, LogFiles

async def main():
    path = Path(sys.argv[1])
    files = LogFiles()
    log = await EventLog.open(path, sid="a:1", channel_id="group:1", files=files)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, hard))
    first = Entry("x", {"text": "a" * 300}, 1, "first")
    try:
        await log.append(first)
    except StorageError as error:
        print(error.code, path.stat().st_size, len(log.window()))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    await log.append(first)
    size = path.stat().st_size
    batch = [Entry("x", {"text": "b" * 300}, 1, f"b{n}") for n in range(5)]
    for _ in range(2):
        try:
            await log.append(*batch)
        except StorageError as error:
            print(error.code, path.stat().st_size == size, len(log.window()))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await log.append(*batch)
    live = list(log.window())
    await log.aclose()
    log = await EventLog.open(path, sid="a:1", channel_id="group:1", files=files)
    print(list(log.window()) == live, len(live))
    await log.aclose()
    await files.aclose()

anyio.run(main)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
        env=os.environ,
    )
    assert done.stdout.splitlines() == [
        "storage_unwritable 0 0",
        "storage_unwritable True 1",
        "storage_unwritable True 1",
        "True 6",
    ]
