"""One process at a time on a data folder."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from ishiki.errors import StorageError
from ishiki.storage.folder_lock import FolderLock

_HOLD = """
import sys
from pathlib import Path
from ishiki.storage.folder_lock import FolderLock
FolderLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_and_told_who_holds_the_folder(tmp_path: Path) -> None:
    """Our choice: two bots on one folder would write into each other's logs."""
    folder = tmp_path / "data"
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        lock = FolderLock(folder)
        assert lock.is_held
        with pytest.raises(StorageError) as refused:
            lock.acquire()
        assert refused.value.code == "storage_in_use"
        assert (str(folder), f"({holder.pid})") == (str(refused.value.path), str(refused.value).split()[3])
        # However it ends, its lock ends with it.
        holder.kill()
    assert not lock.is_held
    with lock:
        assert lock.is_held
    assert not lock.is_held


def test_a_lock_is_taken_once_and_let_go_once(tmp_path: Path) -> None:
    """Our choice: acquire and release are idempotent."""
    lock = FolderLock(tmp_path)
    for _ in range(2):
        lock.acquire()
    with pytest.raises(StorageError):
        FolderLock(tmp_path).acquire()
    for _ in range(2):
        lock.release()
    FolderLock(tmp_path).acquire()


def test_asking_whether_it_is_held_makes_no_file(tmp_path: Path) -> None:
    """Our choice: looking changes nothing."""
    assert not FolderLock(tmp_path).is_held
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_locked_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Our choice: a disk that takes no file takes no facts of a second bot either."""
    (tmp_path / "data").write_bytes(b"")
    lock = FolderLock(tmp_path / "data")
    with caplog.at_level(logging.WARNING, "ishiki.storage"):
        lock.acquire()
    lock.release()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
