"""The pool of append handles, and when bytes are forced to the disk."""

from __future__ import annotations

import contextlib
import os
import resource
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from ishiki.core.entries import Entry
from ishiki.errors import StorageError
from ishiki.storage import EventLog, FsyncPolicy, LogFiles
from ishiki.storage.files import AppendFile


class StepClock:
    """A clock whose sleepers wake when the test says so."""

    def __init__(self) -> None:
        self.asleep = anyio.Event()
        self.wake = anyio.Event()
        self.slept: list[float] = []

    def now_ms(self) -> int:
        """Return the epoch."""
        return 0

    def monotonic(self) -> float:
        """Return zero."""
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Wait for `wake`."""
        self.slept.append(seconds)
        self.asleep.set()
        await self.wake.wait()
        self.wake = anyio.Event()
        self.asleep = anyio.Event()


@contextmanager
def largest_file(size: int) -> Generator[None]:
    """Let no file grow beyond `size` bytes: what a full disk does to a write, the rest of the process aside."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_more_logs_than_handles_can_be_written_in_turn(tmp_path: Path) -> None:
    """Our choice: open files are bounded; a handle that was closed opens again at need."""
    files = LogFiles(max_open=2)
    logs = [
        await EventLog.open(tmp_path / str(number) / "e", sid="a:1", channel_id="c", files=files) for number in range(5)
    ]
    assert files.open_count == 0
    for round_number in range(3):
        for log in logs:
            await log.append(Entry("x", {}, 1, str(round_number)))
            assert files.open_count <= 2
    assert [[entry.id for entry in log.window()] for log in logs] == [["0", "1", "2"]] * 5
    for log in logs:
        await log.aclose()
    assert files.open_count == 0
    await files.aclose()


def descriptors_below(folder: Path) -> list[str]:
    """Return the files in `folder` that this process has open; what other tests leave behind does not count."""
    found: list[str] = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed, such as the listing's own
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return sorted(path for path in found if path.startswith(f"{folder}/"))


async def test_closing_leaves_no_descriptor_open(tmp_path: Path) -> None:
    """Our choice: ten thousand channels pass through; none may leave a handle."""
    files = LogFiles()
    for number in range(3):
        log = await EventLog.open(tmp_path / str(number), sid="a:1", channel_id="c", window_entries=1, files=files)
        await log.append(Entry("x", {}, 1), Entry("x", {}, 1))
        assert descriptors_below(tmp_path)
        assert [entry.type async for entry in log.history()] == ["x"]
        await log.aclose()
    await files.aclose()
    assert descriptors_below(tmp_path) == []


async def test_the_pool_keeps_what_was_used_last(tmp_path: Path) -> None:
    """Our choice: least recently used first, and handles that need no fsync before others."""
    files = LogFiles(max_open=2, fsync="interval")
    first, second, third = (AppendFile(tmp_path / name, end=0, prefix=b"", files=files) for name in "abc")
    first.append(b"1")
    second.append(b"2")
    second.sync()
    second.sync()
    third.append(b"3")  # closes the second: the first is older, but has bytes to force
    assert first.is_unforced
    second.append(b"2")  # closes the first, which is forced by that
    assert not first.is_unforced
    assert files.open_count == 2
    await files.aclose()


@pytest.mark.parametrize(("policy", "is_unforced"), [("always", False), ("interval", True), ("never", False)])
async def test_only_the_interval_policy_leaves_bytes_to_force(
    policy: FsyncPolicy, is_unforced: bool, tmp_path: Path
) -> None:
    """Specification, durability."""
    files = LogFiles(fsync=policy)
    file = AppendFile(tmp_path / "log", end=0, prefix=b"head ", files=files)
    assert file.append(b"body") == 5
    assert file.is_unforced is is_unforced
    assert (tmp_path / "log").read_bytes() == b"head body"
    await files.aclose()
    assert not file.is_unforced


async def test_the_syncer_forces_what_was_written_after_the_interval_and_then_waits_for_more(tmp_path: Path) -> None:
    """Specification, durability: interval, 1 s; idle, it does not wake up."""
    clock = StepClock()
    files = LogFiles(clock=clock)
    log = await EventLog.open(tmp_path / "e", sid="a:1", channel_id="c", files=files)
    watched = AppendFile(tmp_path / "other", end=0, prefix=b"", files=files)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(files.run)
            for round_number in range(2):
                await anyio.wait_all_tasks_blocked()
                assert len(clock.slept) == round_number
                watched.append(b"x")
                await log.append(Entry("x", {}, 1))
                await clock.asleep.wait()
                assert watched.is_unforced
                clock.wake.set()
                while watched.is_unforced:
                    await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    assert clock.slept == [1.0, 1.0]
    await log.aclose()
    await files.aclose()


@pytest.mark.parametrize("policy", ["always", "never"])
async def test_the_syncer_has_nothing_to_do_under_other_policies(policy: FsyncPolicy) -> None:
    """Our choice: the supervisor may start it in any case."""
    with anyio.fail_after(5):
        await LogFiles(fsync=policy).run()


def test_a_write_that_fails_and_cannot_be_cut_is_cut_before_the_next_one(tmp_path: Path) -> None:
    """Specification, full disk: nothing half-written. A full device refuses the write, and the cut as well."""
    path = tmp_path / "log"
    path.symlink_to("/dev/full")
    file = AppendFile(path, end=0, prefix=b"", files=LogFiles())
    for _ in range(2):
        with pytest.raises(StorageError) as refused:
            file.append(b"data")
        assert refused.value.code == "storage_unwritable"
    file.close()
    path.unlink()
    assert file.append(b"data") == 0
    assert path.read_bytes() == b"data"
    file.close()


def test_an_fsync_that_fails_is_an_error_in_the_log_and_the_bytes_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Our choice: a person must look at the disk; the facts that were accepted stay accepted."""
    path = tmp_path / "log"
    path.symlink_to("/dev/null")  # takes any write and refuses fsync
    file = AppendFile(path, end=0, prefix=b"", files=LogFiles())
    file.append(b"data")
    file.sync()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    file.close()


def test_under_always_an_append_whose_fsync_fails_is_refused(tmp_path: Path) -> None:
    """Our choice: under `always` an append that returns is on the disk."""
    path = tmp_path / "log"
    path.symlink_to("/dev/null")
    file = AppendFile(path, end=0, prefix=b"", files=LogFiles(fsync="always"))
    with pytest.raises(StorageError) as refused:
        file.append(b"data")
    assert refused.value.code == "storage_unwritable"
    file.close()


def test_a_folder_that_cannot_be_made_is_unwritable_for_now(tmp_path: Path) -> None:
    """Our choice: permissions and full disks are mended from outside, so the call may be tried again."""
    (tmp_path / "blocked").write_bytes(b"")
    file = AppendFile(tmp_path / "blocked" / "channel" / "log", end=0, prefix=b"", files=LogFiles())
    with pytest.raises(StorageError) as refused:
        file.append(b"data")
    assert refused.value.code == "storage_unwritable"
    (tmp_path / "blocked").unlink()
    assert file.append(b"data") == 0
    file.close()


def test_a_short_write_is_cut_back_to_the_former_end(tmp_path: Path) -> None:
    """Specification, full disk: nothing half-written, and the same call may be tried again."""
    path = tmp_path / "log"
    file = AppendFile(path, end=0, prefix=b"head ", files=LogFiles())
    for size, content in ((3, b""), (12, b"head 1234")):
        with largest_file(size), pytest.raises(StorageError) as refused:
            file.append(b"1234567890")
        assert refused.value.code == "storage_unwritable"
        assert path.read_bytes() == content
        file.append(b"1234")
    assert path.read_bytes() == b"head 12341234"
    file.close()


def test_a_file_that_is_gone_before_its_handle_opens_again_is_not_made_anew(tmp_path: Path) -> None:
    """Our choice: a log without its header and its past would look whole."""
    path = tmp_path / "log"
    file = AppendFile(path, end=0, prefix=b"", files=LogFiles())
    file.append(b"data")
    file.close()
    path.unlink()
    with pytest.raises(StorageError) as refused:
        file.append(b"data")
    assert refused.value.code == "storage_removed"
    assert not path.exists()


def test_a_handle_that_is_in_use_is_not_closed_for_another(tmp_path: Path) -> None:
    """Our choice: the bound waits; a write in another thread goes on."""
    files = LogFiles(max_open=1)
    busy = AppendFile(tmp_path / "busy", end=0, prefix=b"", files=files)
    other = AppendFile(tmp_path / "other", end=0, prefix=b"", files=files)
    is_writing, may_end = threading.Event(), threading.Event()

    def hold(_: int) -> None:
        is_writing.set()
        assert may_end.wait(5)

    thread = threading.Thread(target=busy.append, args=(b"data", hold))
    thread.start()
    assert is_writing.wait(5)
    other.append(b"data")
    assert files.open_count == 2
    may_end.set()
    thread.join()
    other.append(b"data")
    assert files.open_count == 1
    other.close()
    assert files.open_count == 0
