"""The doctor's reading of a whole log, and what mending makes of it."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.core.entries import Entry
from ishiki.errors import StorageError
from ishiki.storage import EventLog, LogFiles
from ishiki.storage.findings import LogReport
from ishiki.storage.format import encode_entries, encode_header
from ishiki.storage.inspection import LogPlace, inspect_log
from ishiki.storage.mending import MENDED_SUFFIX, mend_log
from ishiki.storage.tail import BLOCK_BYTES

OURS = ("onebot:10001", "group:500")
PLACE = LogPlace(lambda sid, channel_id: (sid, channel_id) == OURS, OURS)
HEADER = encode_header(*OURS)
BOM = b"\xef\xbb\xbf"
FORMATS = Path(__file__).parents[1] / "formats"


def line(name: str, *, more: bool = False, text: str = "") -> bytes:
    """Return the line of one entry, with its newline."""
    data = {"id": name, "type": "x", "data": {"text": text}, "timestamp": 1, **({"more": True} if more else {})}
    return orjson.dumps(data) + b"\n"


def event(name: str, kind: str, turn: str) -> bytes:
    """Return the line of an event of a turn."""
    data = {"id": name, "type": "event", "data": {"type": kind, "turnId": turn}, "timestamp": 1, "turnId": turn}
    return orjson.dumps(data) + b"\n"


def delivery(name: str, state: str, turn: str, call: str) -> bytes:
    """Return the line of a delivery."""
    data = {"toolCallId": call, "index": 0, "state": state, "content": "hi"}
    return orjson.dumps({"id": name, "type": "ishiki.delivery", "data": data, "timestamp": 1, "turnId": turn}) + b"\n"


def assistant(name: str, turn: str, call: str) -> bytes:
    """Return the line of an assistant message with one call."""
    part = {"type": "tool-call", "toolCallId": call, "toolName": "send_message", "input": "{}"}
    data = {"id": name, "role": "assistant", "content": [part], "timestamp": 1}
    entry = {"id": name, "type": "message", "data": data, "timestamp": 1, "turnId": turn, "step": 0}
    return orjson.dumps(entry) + b"\n"


def inspect(path: Path, content: bytes | None = None) -> LogReport:
    """Write `content` as the log, and read it."""
    if content is not None:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return inspect_log(path, PLACE)


def told(report: LogReport) -> list[tuple[str, list[int]]]:
    """Return kinds and lines."""
    return [(finding.kind, finding.lines) for finding in report.findings]


ONE, TWO = line("1"), line("2")
NOWHERE: list[int] = []

MENDABLE = [
    pytest.param(HEADER + ONE + b'{"id":"2","ty', HEADER + ONE, [("torn end", [3])], id="a torn last line"),
    pytest.param(HEADER + ONE + b"{}\n", HEADER + ONE, [("torn end", [3])], id="a last line that is no entry"),
    pytest.param(
        HEADER + ONE + line("2", more=True) + line("3", more=True) + b"to",
        HEADER + ONE,
        [("torn end", [5])],
        id="a torn batch",
    ),
    pytest.param(
        HEADER + ONE + line("2", more=True), HEADER + ONE, [("unfinished batch", [3])], id="an unfinished batch"
    ),
    pytest.param(HEADER + ONE + b"\0" * 9, HEADER + ONE, [("NUL bytes", [3])], id="zeros at the end"),
    pytest.param(
        HEADER + ONE + b"\0" * (BLOCK_BYTES * 2), HEADER + ONE, [("NUL bytes", [3])], id="more zeros than a read takes"
    ),
    pytest.param(HEADER + ONE + b"\0\0\n" + TWO, HEADER + ONE + TWO, [("NUL bytes", [3])], id="a line of zeros"),
    pytest.param(
        HEADER + ONE + b"\0\0" + TWO, HEADER + ONE + TWO, [("NUL bytes", [3])], id="zeros in front of an entry"
    ),
    pytest.param(
        HEADER + b"x\n" + ONE + b"y\n" + TWO, HEADER + ONE + TWO, [("broken line", [2, 4])], id="broken lines"
    ),
    pytest.param(
        HEADER + ONE + b"x\nto", HEADER + ONE, [("broken line", [3]), ("torn end", [4])], id="two broken at the end"
    ),
    pytest.param(BOM + HEADER + ONE, HEADER + ONE, [("byte order mark", [1])], id="a byte order mark"),
    pytest.param((HEADER + ONE + TWO).replace(b"\n", b"\r\n"), HEADER + ONE + TWO, [("CRLF", [1, 2, 3])], id="CRLF"),
    pytest.param(
        BOM + (HEADER + ONE).replace(b"\n", b"\r\n") + b"\0\0x",
        HEADER + ONE,
        [("byte order mark", [1]), ("CRLF", [1, 2]), ("torn end", [3])],
        id="everything at once",
    ),
    pytest.param(
        HEADER[:30] + b"\n" + ONE, HEADER + ONE, [("broken line", [1]), ("no header", NOWHERE)], id="no header left"
    ),
    pytest.param(b"x\n" + HEADER + ONE, HEADER + ONE, [("broken line", [1])], id="a broken line before the header"),
    pytest.param(HEADER + ONE + HEADER + TWO, HEADER + ONE + TWO, [("second header", [3])], id="a second header"),
    pytest.param(HEADER + ONE + TWO + ONE, HEADER + ONE + TWO, [("repeated line", [4])], id="a copied line"),
    pytest.param(HEADER[:20], b"", [("torn end", [1])], id="a torn header"),
    pytest.param(b"\0" * 20, b"", [("NUL bytes", [1])], id="nothing but zeros"),
]


@pytest.mark.parametrize(("content", "mended", "found"), MENDABLE)
async def test_a_mended_log_is_sound_and_every_removed_byte_is_kept(
    content: bytes, mended: bytes, found: list[tuple[str, list[int]]], path: Path, files: LogFiles
) -> None:
    """Issue: doctor says what is damaged, and repairs what can be repaired, keeping the removed bytes."""
    report = inspect(path, content)
    assert (told(report), report.is_damaged, report.is_mendable) == (found, True, True)
    assert path.read_bytes() == content  # looking changes nothing
    kept = mend_log(report, PLACE, 1000)
    assert path.read_bytes() == mended
    assert kept == path.with_name("events.jsonl.cut-1000")
    written_anew = HEADER if "no header" in dict(found) else b""
    assert sorted(path.read_bytes() + kept.read_bytes()) == sorted(content + written_anew)
    assert sorted(file.name for file in path.parent.iterdir()) == ["events.jsonl", kept.name]
    assert not inspect(path).is_damaged
    log = await EventLog.open(path, sid=OURS[0], channel_id=OURS[1], files=files)
    assert [entry.id for entry in log.window()] == [name for name in ("1", "2") if f'"id":"{name}"'.encode() in mended]
    await log.aclose()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(HEADER.replace(b"500", b"501") + ONE + b"x\n" + TWO, ("foreign header", [1]), id="channel"),
        pytest.param(HEADER.replace(b"10001", b"10002") + ONE + b"to", ("foreign header", [1]), id="account"),
        pytest.param(HEADER.replace(b"ishiki.events", b"other") + b"to", ("foreign header", [1]), id="format"),
        pytest.param(HEADER + ONE + HEADER.replace(b"500", b"501") + TWO, ("foreign header", [3]), id="in the middle"),
        pytest.param(HEADER.replace(b'"version":1', b'"version":2') + b"x\ny\nto", ("newer version", [1]), id="newer"),
        pytest.param(HEADER.replace(b'"version":1', b'"version":"1"') + b"x", ("broken header", [1]), id="no number"),
    ],
)
def test_what_cannot_be_judged_is_reported_and_never_mendable(
    content: bytes, found: tuple[str, list[int]], path: Path
) -> None:
    """Our choice: a repair of a log that we may not understand could destroy it."""
    report = inspect(path, content)
    assert (told(report), report.is_damaged, report.is_mendable) == ([found], True, False)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(HEADER + ONE + TWO, [], id="a sound log"),
        pytest.param(b"", [("empty file", NOWHERE)], id="an empty file"),
        pytest.param(ONE + TWO, [("no header", NOWHERE)], id="no header"),
        pytest.param(HEADER + ONE + TWO[:-1], [("no newline at the end", [3])], id="no newline"),
        pytest.param(HEADER + b"\n  \n" + ONE, [], id="blank lines"),
        pytest.param(
            HEADER + b'{"id":"\\ud800","type":"x","data":{"n":NaN,"i":1' + b"0" * 40 + b"}}\n", [], id="an old writer"
        ),
        pytest.param(
            HEADER + event("1", "turn.start", "t") + event("2", "turn.start", "u") + event("3", "turn.done", "u"),
            [("turn without an end", [2])],
            id="a turn without an end",
        ),
        pytest.param(
            HEADER
            + delivery("1", "sending", "t", "a")
            + delivery("2", "sent", "t", "a")
            + delivery("3", "sending", "t", "b")
            + delivery("4", "failed", "t", "b")
            + delivery("5", "unknown", "t", "c")
            + assistant("6", "t", "c"),
            [("delivery without its batch", [2])],
            id="a delivery without its batch",
        ),
    ],
)
def test_what_is_no_damage_is_told_and_left_alone(
    content: bytes, found: list[tuple[str, list[int]]], path: Path
) -> None:
    """Specification, events.jsonl: what opening reads over or settles is no damage."""
    report = inspect(path, content)
    assert (told(report), report.is_damaged, report.is_mendable) == (found, False, False)


@pytest.mark.parametrize("version", [0, 1])
def test_the_golden_file_of_every_version_is_sound(version: int) -> None:
    """Specification, file formats."""
    assert not inspect_log(FORMATS / f"events-v{version}.jsonl").is_damaged


def test_entries_that_share_an_id_and_differ_are_left_for_a_person(path: Path) -> None:
    """Our choice: which of them is right cannot be told."""
    report = inspect(path, HEADER + ONE + line("1", text="another") + ONE)
    assert told(report) == [("repeated line", [4]), ("repeated id", [3])]
    mend_log(report, PLACE, 1)
    assert path.read_bytes() == HEADER + ONE + line("1", text="another")
    assert told(inspect(path)) == [("repeated id", [3])]


def test_a_line_that_no_memory_should_hold_is_taken_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our choice: a broken file may be one endless line."""
    monkeypatch.setattr("ishiki.storage.inspection._MAX_LINE_BYTES", 1000)
    endless = b"x" * 2500 + b"\n"
    report = inspect(path, HEADER + ONE + endless + TWO)
    assert told(report) == [("broken line", [3])]
    kept = mend_log(report, PLACE, 1)
    assert (path.read_bytes(), kept.read_bytes()) == (HEADER + ONE + TWO, endless)


def test_many_places_are_counted_and_the_first_ones_named(path: Path) -> None:
    """Our choice: a report that nobody can read helps nobody."""
    report = inspect(path, HEADER + b"".join(b"x\n" + line(str(number)) for number in range(50)))
    (finding,) = report.findings
    assert (finding.count, finding.lines) == (50, list(range(2, 22, 2)))
    assert report.entry_count == 50


def test_progress_is_told_along_a_long_log(path: Path) -> None:
    """Our choice: whoever waits for a log of a million lines wants to see it move."""
    path.parent.mkdir()
    path.write_bytes(HEADER + b"".join(line(str(number)) for number in range(5000)))
    seen: list[int] = []
    inspect_log(path, PLACE, seen.append)
    assert len(seen) == 2
    assert sorted(seen) == seen


def test_a_log_that_cannot_be_read_is_left_for_a_person(path: Path) -> None:
    """Our choice: a folder in its place."""
    path.mkdir(parents=True)
    assert told(inspect(path)) == [("unreadable", NOWHERE)]


@contextmanager
def largest_file(size: int) -> Generator[None]:
    """Let no file grow beyond `size` bytes, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_everything_as_it_was(path: Path) -> None:
    """Specification, full disk: nothing half-written."""
    content = HEADER + b"x\n" + ONE + TWO
    report = inspect(path, content)
    with largest_file(100), pytest.raises(StorageError) as refused:
        mend_log(report, PLACE, 1)
    assert refused.value.code == "storage_unwritable"
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == ["events.jsonl"]


def test_a_log_that_changed_since_it_was_read_is_not_mended(path: Path) -> None:
    """Our choice: its report is about another file."""
    report = inspect(path, HEADER + b"x\n" + ONE)
    path.write_bytes(HEADER + b"x\n" + ONE + TWO)
    with pytest.raises(StorageError) as refused:
        mend_log(report, PLACE, 1)
    assert refused.value.code == "storage_changed"
    assert [file.name for file in path.parent.iterdir()] == ["events.jsonl"]


def test_a_linked_log_stays_linked_and_keeps_its_mode(path: Path, tmp_path: Path) -> None:
    """Our choice: where a deployer has put the log, and who may read it, is not ours to change."""
    elsewhere = tmp_path / "elsewhere.jsonl"
    elsewhere.write_bytes(HEADER + b"x\n" + ONE)
    elsewhere.chmod(0o640)
    path.parent.mkdir()
    path.symlink_to(elsewhere)
    mend_log(inspect(path), PLACE, 1)
    assert path.is_symlink()
    assert (elsewhere.read_bytes(), elsewhere.stat().st_mode & 0o777) == (HEADER + ONE, 0o640)


def test_the_remains_of_a_repair_that_was_killed_are_overwritten(path: Path) -> None:
    """Our choice: the log itself was whole until the last moment."""
    report = inspect(path, HEADER + b"x\n" + ONE)
    path.with_name(path.name + MENDED_SUFFIX).write_bytes(b"half")
    mend_log(report, PLACE, 1)
    assert path.read_bytes() == HEADER + ONE


junk = st.one_of(
    st.sampled_from(
        [b"\0", b"\0\0\n", b"\r\n", b"\n", BOM, b"}\n", b'{"id":\n', HEADER, ONE, b"[]\n", b"\xff\n", b" "]
    ),
    st.binary(max_size=6),
)


@given(data=st.data(), count=st.integers(1, 5))
async def test_whatever_bytes_get_into_a_log_it_opens_once_it_is_mended(data: st.DataObject, count: int) -> None:
    """Our choice: what the doctor calls sound, opening takes as it is, and no byte is lost."""
    entries = [Entry("x", {"n": number}, 1, f"e{number}") for number in range(4)]
    pieces = [HEADER, *(encoded.raw for encoded in encode_entries(entries[:1]) + encode_entries(entries[1:]))]
    for _ in range(count):
        pieces.insert(data.draw(st.integers(0, len(pieces))), data.draw(junk))
    content = b"".join(pieces)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        report = inspect(path, content)
        if report.is_mendable:
            kept = mend_log(report, PLACE, 1)
            whole = path.read_bytes() + kept.read_bytes()
            assert sorted(whole) in (sorted(content), sorted(content + HEADER))
        report = inspect(path)
        assert not report.is_mendable
        files = LogFiles(fsync="never")
        try:
            log = await EventLog.open(path, sid=OURS[0], channel_id=OURS[1], files=files)
        except StorageError:
            assert report.is_damaged
        else:
            size = path.stat().st_size
            assert size == report.size  # opening cut nothing
            assert len(log.window()) == report.entry_count
            await log.aclose()
        await files.aclose()
