"""What a person sees of `doctor`, and what it does to a data folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from ishiki.cli.arguments import DoctorArguments
from ishiki.cli.doctor import run_doctor
from ishiki.runtime.paths import runtime_home
from ishiki.storage.folder_lock import FolderLock
from ishiki.storage.format import encode_header

SID = "onebot:10001"
LONG = "group:" + "9" * 150


def line(name: str, *, more: bool = False) -> bytes:
    """Return the line of one entry."""
    data = {"id": name, "type": "x", "data": {"n": 1}, "timestamp": 1, **({"more": True} if more else {})}
    return orjson.dumps(data) + b"\n"


class DataFolder:
    """A data folder, and what the doctor says of it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        folder.mkdir()

    def put(self, channel: str, content: bytes, *, header: str | None = None) -> Path:
        """Write the log of a channel, with its header or that of another one, and return it."""
        home = runtime_home(self.folder, "mind", SID, channel)
        home.mkdir(parents=True)
        log = home / "events.jsonl"
        log.write_bytes(encode_header(SID, channel if header is None else header) + content)
        return log

    def examine(self, *, repair: bool = False, folder: Path | None = None) -> tuple[int, str]:
        """Return the status and the words of a doctor."""
        arguments = DoctorArguments(folder or self.folder, repair)
        status = run_doctor(arguments, folder=self.folder.parent, environ={})
        said = self._capsys.readouterr()
        return status, said.out + said.err


@pytest.fixture
def data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> DataFolder:
    """Make an empty data folder."""
    return DataFolder(tmp_path / "data", capsys)


def test_a_sound_folder_is_one_line_and_status_0(data: DataFolder) -> None:
    """Our choice: thousands of sound channels are nothing to list."""
    data.put("group:1", line("1"))
    data.put(LONG, line("1"))
    status, said = data.examine()
    assert status == 0
    assert said.splitlines() == [str(data.folder), "", "2 logs, 4 lines, 0 files damaged"]


def test_damage_is_told_with_its_lines_and_status_1_and_nothing_is_touched(data: DataFolder) -> None:
    """Issue: reads a data folder, says what is damaged."""
    data.put("group:1", line("1"))
    broken = data.put("group:2", line("1") + b"x\n" + line("2") + b"to")
    content = broken.read_bytes()
    status, said = data.examine()
    assert status == 1
    assert "mind/onebot%3A10001/group%3A2/events.jsonl: 5 lines, damaged" in said
    assert "  broken line, line 3: " in said
    assert "  torn end, line 5: " in said
    assert "broken line        1          1" in said
    assert "2 logs, 7 lines, 1 file damaged" in said
    assert "--repair" in said
    assert broken.read_bytes() == content
    assert [file.name for file in broken.parent.iterdir()] == ["events.jsonl"]


def test_a_repair_mends_keeps_the_bytes_and_leaves_what_only_a_person_can_judge(data: DataFolder) -> None:
    """Issue: repairs what can be repaired, keeping the removed bytes."""
    broken = data.put("group:2", line("1") + b"x\n" + line("2"))
    foreign = data.put("group:3", line("1") + b"x\n" + line("2"), header="group:4")
    untouched = foreign.read_bytes()
    status, said = data.examine(repair=True)
    assert status == 1
    assert "1 mended, 1 left for a person" in said
    assert "it belongs to 'group:4' of 'onebot:10001'" in said
    assert broken.read_bytes() == encode_header(SID, "group:2") + line("1") + line("2")
    (kept,) = broken.parent.glob("events.jsonl.cut-*")
    assert kept.read_bytes() == b"x\n"
    assert kept.name in said
    assert foreign.read_bytes() == untouched
    foreign.unlink()
    status, said = data.examine()
    assert status == 0
    assert "2 bytes that were removed earlier are kept in 1 file" in said


def test_no_repair_while_a_bot_runs_also_not_of_a_part_of_its_folder(data: DataFolder) -> None:
    """Our choice: two writers would destroy a log."""
    broken = data.put("group:2", line("1") + b"to")
    content = broken.read_bytes()
    with FolderLock(data.folder):
        for folder in (data.folder, broken.parent):
            status, said = data.examine(repair=True, folder=folder)
            assert status == 1
            assert "uses this data folder; stop it first" in said
        status, said = data.examine()
        assert status == 1
        assert "a bot runs on this folder" in said
    assert broken.read_bytes() == content
    status, said = data.examine(repair=True, folder=broken.parent)
    assert status == 0
    assert broken.read_bytes() == content.removesuffix(b"to")


def test_a_lost_header_is_written_from_the_folders_names(data: DataFolder) -> None:
    """Our choice: they tell the channel, unless a long name was hashed."""
    log = data.put("group:2", line("1"))
    log.write_bytes(b"garbage\n" + line("1"))
    assert data.examine(repair=True)[0] == 0
    assert log.read_bytes() == encode_header(SID, "group:2") + line("1")
    hashed = data.put(LONG, b"")
    hashed.write_bytes(b"garbage\n" + line("1"))
    assert data.examine(repair=True)[0] == 0
    assert hashed.read_bytes() == line("1")


def test_an_unreadable_sidecar_is_set_aside(data: DataFolder) -> None:
    """Our choice: a bot would take it for what is known of the asset."""
    assets = data.put("group:2", line("1")).parent / "resources" / "assets"
    assets.mkdir(parents=True)
    sidecar = assets / f"{'0' * 32}.json"
    for content in (b"", b"[]", b'{"format"'):
        sidecar.write_bytes(content)
        assert data.examine()[0] == 1
        assert data.examine(repair=True)[0] == 0
        assert not sidecar.exists()
    assert sorted(file.read_bytes() for file in assets.iterdir()) == [b"", b"[]", b'{"format"']
    sidecar.write_bytes(b"{}")
    assert data.examine()[0] == 0


def test_the_remains_of_a_killed_repair_go_with_the_next_one(data: DataFolder) -> None:
    """Our choice: they are a copy; the log itself was whole until the last moment."""
    leftover = data.put("group:2", line("1")).with_name("events.jsonl.mending")
    leftover.write_bytes(b"half")
    status, said = data.examine()
    assert status == 0
    assert "an unfinished repair" in said
    assert data.examine(repair=True)[0] == 0
    assert not leftover.exists()


def test_a_folder_that_is_none_is_an_error(data: DataFolder) -> None:
    """Our choice: a mistyped name is no healthy folder."""
    status, said = data.examine(folder=data.folder / "nowhere")
    assert status == 1
    assert "is no folder" in said


def test_it_runs_as_a_command_on_the_configured_folder(data: DataFolder) -> None:
    """Issue: `python -m ishiki doctor`."""
    data.put("group:2", line("1") + line("2", more=True))
    (data.folder.parent / ".env").write_text("ISHIKI_DATA_DIR=data\n", encoding="utf-8")
    command = [sys.executable, "-m", "ishiki", "doctor"]
    for more, status in (([], 1), (["--repair"], 0), ([], 0)):
        done = subprocess.run(
            [*command, *more], cwd=data.folder.parent, capture_output=True, text=True, timeout=50, check=False
        )
        assert (done.returncode, done.stderr) == (status, "")


def test_the_log_of_a_mind_of_many_channels_is_at_home_under_main(data: DataFolder) -> None:
    """Format of events.jsonl: in cross mode the log lies at `<profile>/main/`, with an empty account."""
    log = data.folder / "mind" / "main" / "events.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(encode_header("", "main") + line("1"))
    assert data.examine()[0] == 0
    log.write_bytes(encode_header(SID, "group:1") + line("1"))
    assert data.examine()[0] == 1
