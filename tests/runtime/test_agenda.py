"""The agenda's file, and who is built when."""

from __future__ import annotations

from pathlib import Path

import anyio
import orjson
import pytest

from ishiki.contracts.events import ChannelRef
from ishiki.errors import StorageError
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.runtime.agenda import Agenda, agenda_from_json, agenda_to_json
from ishiki.runtime.agenda_watch import AgendaWatch
from ishiki.testing.clock import FakeClock
from ishiki.testing.journal import Journal
from ishiki.testing.task_scope import TaskScope
from ishiki.tools.wait import MessageCondition, Wait

GROUP = ChannelRef("onebot:10001", "group:500")
OTHER = ChannelRef("onebot:10001", "group:501")
GOLDEN = Path(__file__).resolve().parents[1] / "formats" / "agenda-v1.json"


def at(clock: FakeClock, seconds: float, wait_id: str = "w1") -> Wait:
    """Return a wait for a time that many seconds ahead."""
    return Wait(wait_id, clock.now_ms() + round(seconds * 1000), wakes_in_time=True)


def test_a_file_of_version_1_reads_and_writes_back_the_same() -> None:
    """Style, file formats: a golden file per released version."""
    data: JsonObject = orjson.loads(GOLDEN.read_bytes())
    waits = agenda_from_json(data)
    assert list(waits) == [GROUP, ChannelRef("", "main")]
    assert waits[GROUP][0].message == MessageCondition("42", "done")
    assert waits[GROUP][1].message == MessageCondition()
    assert agenda_to_json(waits) == data


def test_what_is_no_wait_is_passed_over() -> None:
    """Our choice: one odd part costs no other."""
    runtimes: JsonValue = [
        1,
        {"sid": "a"},
        {"sid": "a", "channelId": "b", "waits": []},
        {"channelId": "c", "waits": ["x", {}]},
    ]
    found = agenda_from_json({"format": "ishiki.agenda", "version": 1, "runtimes": runtimes})
    assert list(found) == [ChannelRef("", "c")]


async def test_what_is_put_is_read_by_the_next_process(tmp_path: Path) -> None:
    """Design, wait: the supervisor keeps the agenda."""
    clock = FakeClock()
    agenda = Agenda(tmp_path, clock)
    await agenda.put("neko", GROUP, [at(clock, 60)])
    await agenda.put("neko", OTHER, [at(clock, 30)])
    await agenda.put("neko", GROUP, ())
    later = Agenda(tmp_path, clock)
    assert await later.open("neko") == (OTHER,)
    assert {key: due.left_s for key, due in later.due_times().items()} == {("neko", OTHER): 30.0}


async def test_what_the_disk_has_refused_is_written_as_soon_as_it_takes_it(tmp_path: Path) -> None:
    """Our choice: a full disk passes."""
    clock = FakeClock()
    obstacle = tmp_path / "neko" / "agenda.json.new"
    obstacle.mkdir(parents=True)
    agenda = Agenda(tmp_path, clock)
    with pytest.raises(StorageError) as caught:
        await agenda.put("neko", GROUP, [at(clock, 60)])
    assert caught.value.code == "storage_unwritable"
    obstacle.rmdir()
    await agenda.put("neko", GROUP, [at(clock, 60)])
    assert await Agenda(tmp_path, clock).open("neko") == (GROUP,)


class Builder:
    """Builds what it is asked to, or fails."""

    def __init__(self) -> None:
        self.asked: Journal[ChannelRef] = Journal("builds")
        self.fails = False

    async def build(self, profile_id: str, address: ChannelRef) -> bool:
        """Note the address."""
        self.asked.add(address)
        return not self.fails


async def test_a_runtime_is_built_when_it_is_due_and_once(tmp_path: Path) -> None:
    """Design, wait."""
    clock, builder = FakeClock(), Builder()
    agenda = Agenda(tmp_path, clock)
    await agenda.put("neko", GROUP, [at(clock, 60)])
    async with TaskScope() as tasks:
        tasks.start_soon(AgendaWatch(agenda, clock, builder.build).run)
        await clock.wait_sleepers()
        await agenda.put("neko", OTHER, [at(clock, 30)])
        await clock.wait_sleepers()
        clock.advance(30)
        await builder.asked.at_least(1)
        await clock.wait_sleepers()
        clock.advance(30)
        await builder.asked.at_least(2)
        await agenda.put("neko", OTHER, [at(clock, 5, "w2")])
        await clock.wait_sleepers()
        clock.advance(5)
        await builder.asked.at_least(3)
    assert builder.asked.items == [OTHER, GROUP, OTHER]


async def test_a_runtime_that_cannot_be_built_is_tried_again_a_minute_later(tmp_path: Path) -> None:
    """Our choice: a full disk passes."""
    clock, builder = FakeClock(), Builder()
    builder.fails = True
    agenda = Agenda(tmp_path, clock)
    await agenda.put("neko", GROUP, [at(clock, -60)])
    async with TaskScope() as tasks:
        tasks.start_soon(AgendaWatch(agenda, clock, builder.build).run)
        await builder.asked.at_least(1)
        await clock.wait_sleepers()
        clock.advance(59)
        builder.fails = False
        assert len(builder.asked) == 1
        clock.advance(1)
        await builder.asked.at_least(2)
        with anyio.move_on_after(0):
            await anyio.lowlevel.checkpoint()
        assert clock.sleepers == 0, "it keeps its time itself from now on"


@pytest.mark.parametrize("content", [b"[]", b'{"format": "other"}', b"{"])
async def test_what_is_no_agenda_is_kept_beside(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Style, errors: no fallback that hides a fault."""
    file = tmp_path / "neko" / "agenda.json"
    file.parent.mkdir()
    file.write_bytes(content)
    agenda = Agenda(tmp_path, FakeClock())
    assert await agenda.open("neko") == ()
    (aside,) = file.parent.glob("agenda.json.unreadable-*")
    assert aside.read_bytes() == content
    assert aside.name in caplog.text
