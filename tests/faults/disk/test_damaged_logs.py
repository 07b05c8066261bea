"""Logs as crashes, editors and other programs leave them, met by a bot; and the doctor between two starts."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from ishiki.testing.bot_process import BotProcess
from ishiki.testing.onebot_peer import OneBotPeer

from .stage import LIMIT_S, contents_of, demo_bot, errors_of, group, header, log_file, put_log, said_line

FORMATS = Path(__file__).parents[2] / "formats"
BOM = b"\xef\xbb\xbf"

_Content: TypeAlias = Callable[[int], bytes]
"""The content of a group's log."""

_HEALTHY: dict[str, _Content] = {
    "a torn last line": lambda g: header(g) + said_line(g, 1, "old") + said_line(g, 2, "torn")[:40],
    "an unfinished batch": lambda g: header(g) + said_line(g, 1, "old") + said_line(g, 2, "half", more=True),
    "NUL padding": lambda g: header(g) + said_line(g, 1, "old") + b"\0" * 4096,
    "a byte order mark": lambda g: BOM + header(g) + said_line(g, 1, "old"),
    "CRLF": lambda g: (header(g) + said_line(g, 1, "old")).replace(b"\n", b"\r\n"),
    "no header": lambda g: said_line(g, 1, "old"),
    "nothing but a header": header,
    "0 bytes": lambda g: b"",
}
"""What a bot opens by itself."""

_CUT = ("a torn last line", "an unfinished batch", "NUL padding")

_REFUSED: dict[str, tuple[_Content, str]] = {
    "a broken line": (
        lambda g: header(g) + said_line(g, 1, "old") + b'{"id":"x",\n' + said_line(g, 2, "newer"),
        r"events\.jsonl:3: this line is broken",
    ),
    "another channel's header": (
        lambda g: header(g + 1000) + said_line(g, 1, "old"),
        r"events\.jsonl:1: it belongs to 'group:\d+'",
    ),
    "a newer version": (
        lambda g: header(g).replace(b'"version":1', b'"version":2') + said_line(g, 1, "old"),
        r"events\.jsonl:1: it is of version 2",
    ),
}
"""What stops its channel, with what the log says of it."""

_DAMAGED = {name: make for name, (make, _) in _REFUSED.items()}
_GROUPS = {name: 600 + number for number, name in enumerate([*_HEALTHY, *_DAMAGED])}


async def test_each_damaged_log_costs_at_most_its_own_channel(tmp_path: Path) -> None:
    """Issue, disk: the whole list in one bot. What was whole is known, and a refused log is not touched."""
    bot = demo_bot(tmp_path)
    written = {
        name: put_log(bot, _GROUPS[name], make(_GROUPS[name])).read_bytes()
        for name, make in {**_HEALTHY, **_DAMAGED}.items()
    }
    async with bot, OneBotPeer(bot.url) as peer:
        for group_id in _GROUPS.values():
            await peer.mention(f"hello from {group_id}", group_id=group_id)
        replies = await peer.wait_sent(len(_HEALTHY), within=LIMIT_S)
        assert sorted(sent.target_id for sent in replies) == [_GROUPS[name] for name in _HEALTHY]
        for name, (_, said) in _REFUSED.items():
            await bot.wait_log(rf"\[ERROR\].*group%3A{_GROUPS[name]}/{said}", within=LIMIT_S)
            await peer.mention("and again", group_id=_GROUPS[name])
        await peer.flushed()
        await bot.stop()
        assert len(peer.sent) == len(_HEALTHY)
    for name, group_id in _GROUPS.items():
        log = log_file(bot, group_id)
        cuts = [kept.read_bytes() for kept in log.parent.glob("events.jsonl.cut-*")]
        if name in _DAMAGED:
            assert (log.read_bytes(), cuts) == (written[name], [])
        elif name in _CUT:
            (cut,) = cuts
            assert cut
            assert log.read_bytes().startswith(written[name].removesuffix(cut))
        else:
            assert cuts == []
            assert log.read_bytes().startswith(written[name])
        if name in _HEALTHY and name != "no header":
            old = ["old"] if b'"content":"old"' in written[name] else []
            assert contents_of(bot.facts(group(group_id))) == [*old, f"hello from {group_id}"]
    assert not [line for line in bot.log if "Traceback" in line]
    # One error an hour and channel, though each was spoken in twice; the others are what is lost by the stop.
    told = [line for line in errors_of(bot) if " are lost" not in line]
    assert len(told) == len(_REFUSED)


async def test_a_log_as_the_original_writes_it_is_carried_on(tmp_path: Path) -> None:
    """Issue, disk: a headerless log; the golden file of version 0."""
    bot = demo_bot(tmp_path)
    original = (FORMATS / "events-v0.jsonl").read_bytes()
    put_log(bot, 500, original)
    async with bot, OneBotPeer(bot.url) as peer:
        await peer.mention("still there?", group_id=500)
        await peer.wait_sent(1, within=LIMIT_S)
    assert log_file(bot, 500).read_bytes().startswith(original)
    assert errors_of(bot) == []


def doctor(bot: BotProcess, *more: str) -> tuple[int, str]:
    """Run the doctor on the bot's data folder, and return its status and what it said."""
    command = [sys.executable, "-m", "ishiki", "doctor", str(bot.folder / "data"), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    return done.returncode, done.stdout + done.stderr


async def test_a_repair_brings_a_stopped_channel_back_but_never_under_a_running_bot(tmp_path: Path) -> None:
    """Issue, doctor: repairs what can be repaired, keeping the removed bytes."""
    bot = demo_bot(tmp_path)
    broken = b'{"id":"x",\n'
    log = put_log(bot, 500, header(500) + said_line(500, 1, "old") + broken + said_line(500, 2, "newer"))
    async with bot, OneBotPeer(bot.url) as peer:
        await peer.mention("hello", group_id=500)
        await bot.wait_log(r"\[ERROR\].*events\.jsonl:3: ", within=LIMIT_S)
        before = log.read_bytes()
        status, said = doctor(bot, "--repair")
        assert (status, log.read_bytes()) == (1, before)
        assert re.search(r"another process \(\d+\) uses this data folder", said)
        status, said = doctor(bot)
        assert status == 1
        assert "broken line, line 3: " in said
        await bot.stop()
        status, said = doctor(bot, "--repair")
        assert status == 0
        (kept,) = log.parent.glob("events.jsonl.cut-*")
        assert kept.read_bytes() == broken
        since = len(bot.log)
        await bot.start()
        async with OneBotPeer(bot.url) as peer_again:
            await peer_again.mention("and now?", group_id=500)
            (sent,) = await peer_again.wait_sent(1, within=LIMIT_S)
            assert "and now?" in sent.text
        assert errors_of(bot, since) == []
        assert contents_of(bot.facts(group(500))) == ["old", "newer", "and now?"]


async def test_a_second_bot_on_the_same_folder_ends_and_says_why_and_the_first_goes_on(tmp_path: Path) -> None:
    """Our choice: two bots would write into each other's logs."""
    async with demo_bot(tmp_path) as first, OneBotPeer(first.url) as peer:
        second = demo_bot(tmp_path)
        with pytest.raises(RuntimeError, match=rf"another process \({first.pid}\) uses this data folder"):
            await second.start()
        assert not [line for line in second.log if "Traceback" in line]
        await peer.mention("still there?", group_id=500)
        await peer.wait_sent(1, within=LIMIT_S)
        await first.stop()
        await second.start()
        await second.stop()
        await first.start()
