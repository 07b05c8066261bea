"""Damaged files: what is cut, what is read over, what is refused."""

from __future__ import annotations

import logging
import resource
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.core.entries import Entry
from ishiki.errors import StorageError
from ishiki.storage import EventLog, LogFiles
from ishiki.storage.format import encode_entries, encode_header
from ishiki.storage.tail import BLOCK_BYTES

OpenLog = Callable[..., Awaitable[EventLog]]
HEADER = encode_header("onebot:10001", "group:500")
BOM = b"\xef\xbb\xbf"


def line(name: str, *, more: bool = False, text: str = "") -> bytes:
    """Return the line of one entry, with its newline."""
    data = {"id": name, "type": "x", "data": {"text": text}, "timestamp": 1, **({"more": True} if more else {})}
    return orjson.dumps(data) + b"\n"


def put(path: Path, content: bytes) -> None:
    """Write `content` as the log."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


def cuts(path: Path) -> list[bytes]:
    """Return what was cut off and kept."""
    return [kept.read_bytes() for kept in path.parent.glob("events.jsonl.cut-*")]


def ids(log: EventLog) -> list[str]:
    """Return the ids in the window."""
    return [entry.id for entry in log.window()]


WHOLE = HEADER + line("1") + line("2", more=True) + line("3")


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b'{"id":"4","ty', id="a torn line"),
        pytest.param(b'{"id":"4","type":"x","data":{"text":"\xe4\xbd', id="a line torn inside a character"),
        pytest.param(b"{}\n", id="a last line that is no entry"),
        pytest.param(b'["a"]\n', id="a last line that is no object"),
        pytest.param(b"\xff\xff\n", id="a last line that is no text"),
        pytest.param(b"[" * 100_000 + b"\n", id="a last line that is nested without end"),
        pytest.param(line("4", more=True), id="a batch without its last line"),
        pytest.param(line("4", more=True) + line("5", more=True) + b'{"id":"6"', id="a torn batch"),
        pytest.param(line("4", more=True)[:-1], id="an unfinished batch torn before its newline"),
        pytest.param(b"\0" * 3, id="zeros"),
        pytest.param(b"\0" * (BLOCK_BYTES + 7), id="more zeros than one read takes"),
        pytest.param(b'{"id":"4","ty' + b"\0" * 50, id="a torn line and zeros"),
        pytest.param(line("4", more=True) + b"\n\n" + b'{"id":"5"', id="blank lines inside an unfinished batch"),
        pytest.param(line("4", more=True, text="x" * 3 * BLOCK_BYTES), id="an unfinished batch longer than a read"),
    ],
)
async def test_what_a_crash_leaves_at_the_end_is_cut_and_kept(
    tail: bytes, open_log: OpenLog, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Specification, batches: back to the end of the last whole batch, the cut bytes beside the file, one warning."""
    put(path, WHOLE + tail)
    with caplog.at_level(logging.WARNING, "ishiki.storage"):
        log = await open_log()
    assert ids(log) == ["1", "2", "3"]
    assert path.read_bytes() == WHOLE
    assert cuts(path) == [tail]
    assert [entry.levelname for entry in caplog.records] == ["WARNING"]
    await log.append(Entry("x", {}, 1, "new"))
    assert ids(await open_log()) == ["1", "2", "3", "new"]
    assert len(cuts(path)) == 1


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        pytest.param(HEADER + line("1") + line("2")[:-1], ["1", "2"], id="no newline at the end"),
        pytest.param(BOM + HEADER + line("1"), ["1"], id="a byte order mark"),
        pytest.param((HEADER + line("1") + line("2")).replace(b"\n", b"\r\n"), ["1", "2"], id="CRLF"),
        pytest.param(HEADER + b"\n" + line("1") + b"\n  \n" + line("2") + b"\n\r\n", ["1", "2"], id="blank lines"),
        pytest.param(b"\n\n" + HEADER + line("1"), ["1"], id="blank lines before the header"),
        pytest.param(b"", [], id="an empty file"),
        pytest.param(BOM, [], id="nothing but a byte order mark"),
        pytest.param(b"\n \r\n", [], id="nothing but blank lines"),
        pytest.param(HEADER, [], id="nothing but the header"),
        pytest.param(line("1") + line("2"), ["1", "2"], id="no header"),
        pytest.param(BOM + line("1"), ["1"], id="a byte order mark and no header"),
        pytest.param(line("1", text="x" * 20_000), ["1"], id="a first line longer than a header"),
        pytest.param(HEADER + line("1", text="界" * BLOCK_BYTES) + line("2"), ["1", "2"], id="a line of many reads"),
    ],
)
async def test_harmless_oddities_are_read_over_and_appended_to(
    content: bytes, kept: list[str], open_log: OpenLog, path: Path
) -> None:
    """Our choice: nothing is cut from a file whose lines are whole."""
    put(path, content)
    log = await open_log()
    assert ids(log) == kept
    assert path.read_bytes() == content
    await log.append(Entry("x", {}, 1, "new"), Entry("x", {}, 1, "newer"))
    assert path.read_bytes().startswith(content)
    assert ids(await open_log()) == [*kept, "new", "newer"]
    assert cuts(path) == []


@pytest.mark.parametrize(
    "content", [HEADER[:20], HEADER[:-1], HEADER[:-1] + b"\0\0", b"\0\0\0", BOM + b"{", line("1")[:9]]
)
async def test_a_file_torn_in_its_first_line_starts_anew(content: bytes, open_log: OpenLog, path: Path) -> None:
    """Specification, batches: nothing whole is left, so the log begins with a header again."""
    put(path, content)
    log = await open_log()
    assert (ids(log), log.version) == ([], 1)
    assert cuts(path) == [content.removeprefix(BOM)]
    await log.append(Entry("x", {}, 1, "new"))
    assert path.read_bytes().removeprefix(BOM).startswith(HEADER)
    assert ids(await open_log()) == ["new"]


@pytest.mark.parametrize(
    ("content", "number"),
    [
        pytest.param(HEADER + line("1") + b'{"id":\n' + line("2"), 3, id="a broken line in the middle"),
        pytest.param(HEADER + line("1") + b"\0\0\0\n" + line("2"), 3, id="zeros in the middle"),
        pytest.param(HEADER + line("1") + b"x\ny\n", 3, id="two broken lines at the end"),
        pytest.param(HEADER + b"\n\nx\n" + line("1") + line("2"), 4, id="blank lines count"),
        pytest.param(HEADER[:30] + b"\n" + line("1"), 1, id="a broken header"),
        pytest.param(HEADER + HEADER + line("1"), 2, id="a header in the middle"),
        pytest.param(HEADER.replace(b"1,", b'"1",', 1) + line("1"), 1, id="a version that is no number"),
        pytest.param(HEADER.replace(b"1,", b"0,", 1) + line("1"), 1, id="a header of version 0"),
    ],
)
async def test_a_broken_line_elsewhere_stops_the_channel_with_its_number(
    content: bytes, number: int, open_log: OpenLog, path: Path
) -> None:
    """Specification, events.jsonl: a broken line elsewhere than at the end; nothing is changed or cut."""
    put(path, content)
    with pytest.raises(StorageError) as refused:
        await open_log()
    assert (refused.value.code, refused.value.line) == ("storage_damaged", number)
    assert path.read_bytes() == content
    assert cuts(path) == []


async def test_a_broken_line_further_back_than_opening_reads_stops_the_history_only(
    open_log: OpenLog, path: Path
) -> None:
    """Our choice: opening costs the same at any size, so it cannot check every line."""
    lines = [line(str(number)) for number in range(1010)]
    put(path, HEADER + b"broken\n" + b"".join(lines))
    log = await open_log(window_entries=10)
    seen: list[str] = []
    with pytest.raises(StorageError) as refused:
        seen.extend([entry.id async for entry in log.history()])
    assert (refused.value.code, refused.value.line) == ("storage_damaged", 2)
    await log.append(Entry("x", {}, 1, "new"))


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (HEADER.replace(b"group:500", b"group:501"), "storage_foreign"),
        (HEADER.replace(b"10001", b"10002"), "storage_foreign"),
        (HEADER.replace(b"ishiki.events", b"ishiki.other"), "storage_foreign"),
        (HEADER.replace(b'"version":1', b'"version":2'), "storage_newer"),
    ],
)
async def test_a_foreign_or_newer_log_is_refused_and_left_alone(
    header: bytes, code: str, open_log: OpenLog, path: Path
) -> None:
    """Specification, events.jsonl: the header is checked on open, also where the end is torn."""
    content = header + line("1") + b"torn"
    put(path, content)
    with pytest.raises(StorageError) as refused:
        await open_log()
    assert (refused.value.code, refused.value.line) == (code, 1)
    assert path.read_bytes() == content


async def test_a_path_that_cannot_be_read_is_refused(open_log: OpenLog, path: Path) -> None:
    """Our choice: a folder in the log's place is a fault of the deployment."""
    path.mkdir(parents=True)
    with pytest.raises(StorageError) as refused:
        await open_log()
    assert refused.value.code == "storage_unreadable"


async def test_a_path_under_a_file_is_refused(open_log: OpenLog, path: Path) -> None:
    """Our choice: the same, one level up."""
    path.parent.write_bytes(b"")
    with pytest.raises(StorageError) as refused:
        await open_log()
    assert refused.value.code == "storage_unreadable"


async def test_lines_that_only_a_lenient_parser_reads_are_facts(open_log: OpenLog, path: Path) -> None:
    """Specification, events.jsonl: a line that orjson refuses is tried with the standard parser first."""
    odd = (
        b'{"id":"odd","type":"x","data":{"a":"\\ud800z","b":NaN,"c":[1e999],"d":"\xed\xa0\x80","e":1'
        + b"0" * 30
        + b"}}\n"
    )
    put(path, HEADER + odd + line("2"))
    log = await open_log()
    assert ids(log) == ["odd", "2"]
    data = log.window()[0].json_data
    assert (data["a"], data["b"], data["d"], data["e"]) == ("\ufffdz", None, "\ufffd", "1" + "0" * 30)
    assert path.read_bytes() == HEADER + odd + line("2")


async def test_an_entry_without_an_id_keeps_its_name_over_reopening(open_log: OpenLog, path: Path) -> None:
    """Our choice: named after its place, which never changes."""
    put(path, HEADER + b'{"type":"x","data":{}}\n')
    first = ids(await open_log())
    assert first == [f"at-{len(HEADER)}"]
    assert ids(await open_log()) == first


async def test_cut_files_of_the_same_moment_do_not_overwrite_each_other(path: Path) -> None:
    """Our choice: every removed byte is kept."""
    log_files = LogFiles(clock=StandingClock())
    for tail in (b"first", b"second"):
        put(path, WHOLE + tail)
        log = await EventLog.open(path, sid="onebot:10001", channel_id="group:500", files=log_files)
        await log.aclose()
    await log_files.aclose()
    assert {kept.name: kept.read_bytes() for kept in path.parent.glob("*.cut-*")} == {
        "events.jsonl.cut-1000": b"first",
        "events.jsonl.cut-1001": b"second",
    }


class StandingClock:
    """A clock that stands still at one second after the epoch."""

    def now_ms(self) -> int:
        """Return 1,000."""
        return 1000

    def monotonic(self) -> float:
        """Return 1."""
        return 1.0

    async def sleep(self, seconds: float) -> None:
        """Return at once."""


async def test_a_tail_that_cannot_be_kept_is_not_cut(open_log: OpenLog, path: Path) -> None:
    """Our choice: on a full disk the channel waits; no byte is given up for it."""
    damaged = WHOLE + b"x" * 500
    put(path, damaged)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(StorageError) as refused:
            await open_log()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert refused.value.code == "storage_unwritable"
    assert path.read_bytes() == damaged
    assert cuts(path) == []
    assert ids(await open_log()) == ["1", "2", "3"]


async def test_a_history_whose_file_is_gone_says_so(open_log: OpenLog, path: Path) -> None:
    """Our choice: no silent end."""
    put(path, HEADER + line("1") + line("2"))
    log = await open_log(window_entries=1)
    path.unlink()
    with pytest.raises(StorageError) as refused:
        assert [entry async for entry in log.history()] == []
    assert refused.value.code == "storage_unreadable"


async def test_a_history_whose_file_shrank_says_so(open_log: OpenLog, path: Path) -> None:
    """Our choice: no silent end."""
    put(path, HEADER + line("1") + line("2"))
    log = await open_log(window_entries=1)
    path.write_bytes(HEADER)
    with pytest.raises(StorageError) as refused:
        assert [entry async for entry in log.history()] == []
    assert refused.value.code == "storage_unreadable"


async def test_blank_lines_are_no_part_of_the_history(open_log: OpenLog, path: Path) -> None:
    """Our choice: as everywhere else."""
    put(path, HEADER + line("1") + b"\n \n" + line("2") + b"\n" + line("3"))
    log = await open_log(window_entries=1)
    assert [entry.id async for entry in log.history()] == ["2", "1"]


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
batches_of_names = st.lists(st.lists(names, min_size=1, max_size=4), min_size=1, max_size=6)


@given(batches=batches_of_names, data=st.data())
async def test_a_log_cut_at_any_byte_opens_as_a_prefix_of_whole_batches(
    batches: list[list[str]], data: st.DataObject
) -> None:
    """Specification, batches: any cut reads back as whole batches, and no byte is lost."""
    written = [
        [Entry("x", {"text": text}, 1, f"{b}.{n}") for n, text in enumerate(batch)] for b, batch in enumerate(batches)
    ]
    ends = [len(HEADER)]
    content = HEADER
    for batch in written:
        content += b"".join(encoded.raw for encoded in encode_entries(batch))
        ends.append(len(content))
    size = data.draw(st.integers(0, len(content)))
    zeros = data.draw(st.sampled_from([0, 0, 1, 20]))
    # A batch is whole with or without its last newline.
    whole = sum(1 for end in ends[1:] if size >= end - 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        damaged = content[:size] + b"\0" * zeros
        path.write_bytes(damaged)
        files = LogFiles(fsync="never")
        log = await EventLog.open(path, sid="onebot:10001", channel_id="group:500", files=files)
        expected = [entry for batch in written[:whole] for entry in batch]
        assert list(log.window()) == expected
        assert path.read_bytes() + b"".join(cuts(path)) == damaged
        new = [Entry("x", {}, 1, "new"), Entry("x", {}, 1, "newer")]
        await log.append(*new)
        await log.aclose()
        log = await EventLog.open(path, sid="onebot:10001", channel_id="group:500", files=files)
        assert list(log.window()) == [*expected, *new]
        await log.aclose()
        await files.aclose()
