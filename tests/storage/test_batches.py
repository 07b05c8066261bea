"""Several batches in one write: together for whoever waits, each for itself after a kill."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.core.entries import Entry
from ishiki.core.store import BatchStore
from ishiki.errors import StorageError
from ishiki.storage import EventLog, LogFiles

OpenLog = Callable[..., Awaitable[EventLog]]


def entry(name: str) -> Entry:
    """Return an entry of a type that nobody reads."""
    return Entry("x", {"text": "…" * 20}, 1, id=name)


def names(batches: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of all batches, in order."""
    return [name for batch in batches for name in batch]


async def reopened(path: Path) -> list[str]:
    """Return the ids that a log holds when it is opened anew."""
    log = await EventLog.open(path, sid="onebot:10001", channel_id="group:500", files=LogFiles(fsync="never"))
    try:
        return [found.id for found in log.window()]
    finally:
        await log.aclose()


@given(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4), data=st.data())
async def test_a_write_of_several_batches_cut_at_any_byte_leaves_the_whole_ones_in_front(
    sizes: list[int], data: st.DataObject
) -> None:
    """Bug: facts that were merely written together went together, though somebody had read the first in the log."""
    batches = [[f"{number}.{part}" for part in range(size)] for number, size in enumerate(sizes)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        files = LogFiles(fsync="never")
        log = await EventLog.open(path, sid="onebot:10001", channel_id="group:500", files=files)
        await log.append(entry("first"))
        before = path.stat().st_size
        await log.append_batches([[entry(name) for name in batch] for batch in batches])
        assert [found.id for found in log.window()] == ["first", *names(batches)]
        await log.aclose()
        raw = path.read_bytes()
        cut = data.draw(st.integers(before, len(raw)))
        path.write_bytes(raw[:cut])
        lines = raw[before:cut].count(b"\n") + (raw[cut : cut + 1] == b"\n")
        whole: list[list[str]] = []
        for batch in batches:
            if len(names(whole)) + len(batch) > lines:
                break
            whole.append(batch)
        assert await reopened(path) == ["first", *names(whole)]


async def test_a_write_of_several_batches_that_the_disk_refuses_leaves_none(open_log: OpenLog, path: Path) -> None:
    """Specification, batches: who tries again must not write the first of them twice."""
    log = await open_log()
    assert isinstance(log, BatchStore)
    await log.append(entry("first"))
    before = path.read_bytes()
    batches = [[entry("a")], [entry("b"), entry("c")], [entry("d")]]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 200, hard))
    try:
        with pytest.raises(StorageError) as refused:
            await log.append_batches(batches)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (refused.value.code, path.read_bytes()) == ("storage_unwritable", before)
    await log.append_batches(batches)
    assert [found.id for found in log.window()] == ["first", "a", "b", "c", "d"]
    assert path.read_bytes().count(b'"more":true') == 1
