"""The live window and the history against the pure rule that places joined facts."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.core.entries import (
    CHECKPOINT,
    COMPACT,
    DELIVERY,
    EVENT,
    Entry,
    closing_key,
    deferred_key,
    entry_to_json,
    place_joined,
    step_key,
)
from ishiki.core.messages import AssistantMessage, CustomMessage
from ishiki.core.store import all_of, newest_of
from ishiki.jsonvalue import JsonValue
from ishiki.storage import EventLog, LogFiles
from ishiki.storage.format import StoredEntry, batch_key, encode_entries
from ishiki.storage.history import read_block
from ishiki.storage.window import LiveWindow

TURNS = ("t0", "t1")
KEYS = [step_key(turn, step) for turn in TURNS for step in (0, 1)] + [deferred_key(turn) for turn in TURNS]


def fact(name: str, joins: str | None = None) -> Entry:
    """Return a line that somebody said."""
    return Entry("message", CustomMessage("ishiki.message.created", {"content": name}, 1, name), 1, name, joins=joins)


def event(name: str, kind: str, turn: str) -> Entry:
    """Return a turn's lifecycle entry."""
    return Entry(EVENT, {"type": kind, "turnId": turn}, 1, name, turn_id=turn)


def output(name: str, turn: str, step: int) -> Entry:
    """Return an entry of a step's batch."""
    return Entry("message", AssistantMessage([], 1, id=name), 1, name, turn_id=turn, step=step)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    """Draw one entry without an id; few turns and steps, so that keys meet often and in any order."""
    turn, step = draw(st.sampled_from(TURNS)), draw(st.integers(0, 1))
    match draw(st.sampled_from(["fact", "joined", "joined", "output", "delivery", "event", "other"])):
        case "fact":
            return fact("")
        case "joined":
            return fact("", draw(st.sampled_from(KEYS)))
        case "output":
            return output("", turn, step)
        case "delivery":
            return Entry(DELIVERY, {"state": "sending"}, 1, "", turn_id=turn, step=step)
        case "event":
            return event("", draw(st.sampled_from(["turn.start", "turn.done", "turn.aborted"])), turn)
        case _:
            return Entry(draw(st.sampled_from([CHECKPOINT, COMPACT, "someone.else"])), {}, 1, "", turn_id=None)


def named(batches: list[list[Entry]]) -> list[list[Entry]]:
    """Give the entries ids in the order of the file."""
    out: list[list[Entry]] = []
    number = 0
    for batch in batches:
        out.append([])
        for entry in batch:
            number += 1
            data = entry.data if entry.message is None else CustomMessage("x", {}, 1, f"m{number}")
            out[-1].append(Entry(entry.type, data, 1, f"e{number}", None, entry.turn_id, entry.step, entry.joins))
    return out


sequences = st.lists(st.lists(entries(), min_size=1, max_size=4), max_size=15).map(named)


@given(batches=sequences, limit=st.integers(1, 12))
async def test_the_live_window_is_always_the_placed_order_of_the_newest_lines_also_after_reopening(
    batches: list[list[Entry]], limit: int
) -> None:
    """Specification, joined facts: the pure function is the rule; the live window and a reopened one follow it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        files = LogFiles(fsync="never")
        log = await EventLog.open(path, sid="a:1", channel_id="group:1", window_entries=limit, files=files)
        in_file: list[Entry] = []
        for batch in batches:
            await log.append(*batch)
            in_file += batch
            assert list(log.window()) == place_joined(in_file[-limit:])
        newest = max((index for index, entry in enumerate(in_file) if entry.type == CHECKPOINT), default=-1)
        await log.aclose()
        reopened = await EventLog.open(path, sid="a:1", channel_id="group:1", window_entries=limit, files=files)
        for kind in {entry.type for entry in in_file}:
            found = [entry for entry in place_joined(in_file[-limit:]) if entry.type == kind]
            for window in (log.window(), reopened.window()):
                assert list(all_of(window, kind)) == found
                assert newest_of(window, kind) == (found[-1] if found else None)
        assert list(reopened.window()) == place_joined(in_file[-limit:])
        assert reopened.entries_since_checkpoint == log.entries_since_checkpoint == len(in_file) - newest - 1
        assert reopened.last_checkpoint == log.last_checkpoint == (in_file[newest] if newest >= 0 else None)
        older = [entry async for entry in reopened.history()]
        assert older[::-1] == place_joined(in_file[:-limit])
        if in_file:
            oldest, *rest = reopened.window()
            assert [entry async for entry in reopened.history(before=oldest.id)] == older
            if rest:
                assert [entry async for entry in reopened.history(before=rest[0].id)] == [oldest, *older]
        if older:
            assert [entry async for entry in reopened.history(before=older[0].id)] == older[1:]
        await reopened.aclose()
        await files.aclose()


@given(batches=sequences)
def test_a_line_closes_the_batch_that_its_entry_closes(batches: list[list[Entry]]) -> None:
    """Our choice: opening decides by a line's fields what the core decides by the entry."""
    for batch in batches:
        for entry in batch:
            assert batch_key(entry_to_json(entry)) == (None if entry.joins else closing_key(entry))


@pytest.mark.parametrize(
    "data",
    [{}, {"turnId": 1, "type": "x"}, {"turnId": "", "step": 1}, {"turnId": "t", "type": EVENT, "data": {"type": []}}],
)
def test_lines_with_odd_fields_close_nothing(data: dict[str, JsonValue]) -> None:
    """Our choice: what others wrote into a log never breaks its order."""
    assert batch_key(data) is None


def test_a_joined_entry_closes_no_batch() -> None:
    """Our choice: it moved behind a batch itself, so nothing can stand behind it."""
    window = LiveWindow(10)
    for offset, entry in enumerate([fact("1", "t/1"), fact("2", "t/0"), output("3", "t", 0)]):
        window.add(StoredEntry(offset, entry.type, entry.joins, entry), closing_key(entry))
    assert [entry.id for entry in window.view()] == ["1", "3", "2"]
    assert batch_key({"type": "message", "turnId": "t", "step": 1, "joins": "t/0"}) is None


async def test_a_history_of_an_unknown_id_is_empty() -> None:
    """Our choice: as in the store in memory."""
    with tempfile.TemporaryDirectory() as folder:
        files = LogFiles(fsync="never")
        log = await EventLog.open(Path(folder) / "e", sid="a:1", channel_id="c", window_entries=2, files=files)
        assert [entry async for entry in log.history()] == []
        await log.append(*[fact(str(number)) for number in range(5)])
        assert [entry async for entry in log.history(before="nobody")] == []
        await log.aclose()
        await files.aclose()


async def test_a_history_that_is_being_read_is_not_disturbed_by_appends() -> None:
    """Our choice: it shows what was older than the window when it began."""
    with tempfile.TemporaryDirectory() as folder:
        files = LogFiles(fsync="never")
        log = await EventLog.open(Path(folder) / "e", sid="a:1", channel_id="c", window_entries=2, files=files)
        await log.append(*[fact(str(number)) for number in range(5)])
        seen: list[str] = []
        async for entry in log.history():
            seen.append(entry.id)
            await log.append(fact(f"new{len(seen)}"))
        assert seen == ["2", "1", "0"]
        await log.aclose()
        await files.aclose()


def turn(number: int, facts: int) -> list[Entry]:
    """Return a turn of one step, in the order of the file, with facts that joined it."""
    name = f"t{number}"
    return [
        event(f"{name}.start", "turn.start", name),
        *[fact(f"{name}.joined{index}", step_key(name, 0)) for index in range(facts)],
        Entry(CHECKPOINT, {}, 1, f"{name}.checkpoint"),
        output(f"{name}.said", name, 0),
        event(f"{name}.done", "turn.done", name),
        fact(f"{name}.after"),
    ]


def blocks(path: Path, block_lines: int) -> list[list[str]]:
    """Return the ids of each block, the newest first."""
    end, out = path.stat().st_size, list[list[str]]()
    while end > 0:
        read, end = read_block(path, 0, end, 1, block_lines)
        out.append([entry.id for entry in read])
    return out


@pytest.mark.parametrize("block_lines", range(4, 12))
def test_blocks_of_history_never_part_a_fact_from_the_batch_it_joined(block_lines: int, tmp_path: Path) -> None:
    """Our choice, block boundaries: a block ends where no turn is open, so blocks join to the placed whole."""
    written = [entry for number in range(6) for entry in turn(number, 2)]
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(encode_entries([entry])[0].raw for entry in written))
    read = blocks(path, block_lines)
    assert len(read) > 1
    assert [name for block in read for name in block] == [entry.id for entry in reversed(place_joined(written))]


def test_a_turn_longer_than_two_blocks_is_parted_and_every_entry_comes_once(tmp_path: Path) -> None:
    """Our choice, block boundaries: a bound on what is held, at the price of the place of some facts."""
    written = turn(0, 20)
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(encode_entries([entry])[0].raw for entry in written))
    read = blocks(path, 4)
    assert max(len(block) for block in read) == 8
    assert sorted(name for block in read for name in block) == sorted(entry.id for entry in written)
