"""A disk that refuses to be written, under a running bot: nothing lost, nothing answered, nothing half-written."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import anyio

from ishiki.core.entries import DELIVERY, EVENT
from ishiki.core.messages import CustomMessage
from ishiki.jsonvalue import read_str
from ishiki.testing.bot_process import BotProcess, models_yaml, profile_yaml
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_replies import Reply, reply_saying
from ishiki.testing.openai_server import ChatRequest, OpenAIServer

from .stage import LIMIT_S, contents_of, demo_bot, errors_of, full_disk, group, log_file, turns_of

ROOT = Path(__file__).parents[3]
_STOP_S = 8.0
_FIRST_S = 50.0
"""The first answer of a process waits for LiteLLM."""


async def test_what_is_said_while_the_disk_is_full_is_kept_in_order_and_answered_when_it_is_free(
    tmp_path: Path,
) -> None:
    """Issue, disk: in a channel that runs, whose write is cut short, and in one that nobody has spoken in before."""
    async with demo_bot(tmp_path) as bot, OneBotPeer(bot.url) as peer:
        await peer.say("before", group_id=500)
        await bot.wait_facts(1, group(500), within=LIMIT_S)
        before = log_file(bot, 500).read_bytes()
        since = len(bot.log)
        with full_disk(bot, len(before) + 10):
            await peer.say("one", group_id=500)
            await bot.wait_log(r"\[ERROR\].*group%3A500/events.jsonl: cannot be written", since=since, within=LIMIT_S)
            await peer.mention("two", group_id=500)
            for word in ("three", "four"):
                await peer.say(word, group_id=500)
            assert log_file(bot, 500).read_bytes() == before
        with full_disk(bot):
            # This channel's folder and file can be made; nothing can be written into the file.
            await peer.say("first", group_id=501)
            await bot.wait_log(r"\[ERROR\].*group%3A501", since=since, within=LIMIT_S)
            await peer.mention("second", group_id=501)
            await peer.say("third", group_id=501)
            await peer.flushed()
            assert peer.sent == []
        facts = await bot.wait_facts(5, group(500), within=LIMIT_S)
        assert contents_of(facts) == ["before", "one", "two", "three", "four"]
        assert contents_of(await bot.wait_facts(3, group(501), within=LIMIT_S)) == ["first", "second", "third"]
        replies = await peer.wait_sent(2, within=LIMIT_S)
        assert sorted(sent.target_id for sent in replies) == [500, 501]
        for group_id in (500, 501):
            entries = bot.entries(group(group_id))
            assert turns_of(entries).count("turn.start") == 1
            assert len([line for line in errors_of(bot, since) if f"group%3A{group_id}" in line]) == 1
        assert len(errors_of(bot, since)) == 2
        assert not [line for line in bot.log if "Traceback" in line]
    assert not list(tmp_path.rglob("*.cut-*"))


async def test_a_mention_that_waited_too_long_for_the_disk_is_kept_and_not_answered(tmp_path: Path) -> None:
    """Design, stale: an hour after the question nobody wants the answer. The disk is tried again after five seconds."""
    async with demo_bot(tmp_path, more="limits: {stale_after: 3}") as bot, OneBotPeer(bot.url) as peer:
        await peer.say("before", group_id=500)
        await bot.wait_facts(1, group(500), within=LIMIT_S)
        since = len(bot.log)
        with full_disk(bot):
            await peer.mention("in vain", group_id=500)
            await bot.wait_log(r"\[ERROR\].*cannot be written", since=since, within=LIMIT_S)
        assert contents_of(await bot.wait_facts(2, group(500), within=LIMIT_S)) == ["before", "in vain"]
        await peer.mention("in time", group_id=500)
        await peer.wait_sent(1, within=LIMIT_S)
        entries = bot.entries(group(500))
        start = next(place for place, entry in enumerate(entries) if entry.type == EVENT)
        assert len([entry for entry in entries[:start] if isinstance(entry.message, CustomMessage)]) == 3
        assert turns_of(entries).count("turn.start") == 1


async def test_a_turn_that_runs_into_a_full_disk_says_nothing_until_it_is_free(tmp_path: Path) -> None:
    """Design, deliveries: `sending` is on the disk before a message goes out, or it does not go out."""
    disk_is_full = anyio.Event()

    async def respond(_request: ChatRequest) -> Reply:
        await disk_is_full.wait()
        return reply_saying("here I am")

    async with OpenAIServer(respond) as server:
        bot = BotProcess(tmp_path, models=models_yaml(server.base_url), profiles={"mind": profile_yaml()})
        async with bot, OneBotPeer(bot.url) as peer:
            await peer.mention("are you there?", group_id=500)
            await server.wait_requests(1, within=_FIRST_S)
            since = len(bot.log)
            with full_disk(bot):
                disk_is_full.set()
                await bot.wait_log(r"\[ERROR\].*events.jsonl: cannot be written", since=since, within=LIMIT_S)
                assert peer.sent == []
            (sent,) = await peer.wait_sent(1, within=LIMIT_S)
            assert sent.text == "here I am"
            await bot.wait_entry(lambda entry: entry.json_data.get("type") == "turn.done", group(500), within=LIMIT_S)
            states = [read_str(e.json_data, "state") for e in bot.entries(group(500)) if e.type == DELIVERY]
            assert states == ["sending", "sent"]


async def test_a_bot_stops_in_time_on_a_full_disk_and_says_what_is_lost(tmp_path: Path) -> None:
    """Issue, stop: within 8 s; what cannot be written then is lost, which must be seen."""
    async with demo_bot(tmp_path) as bot, OneBotPeer(bot.url) as peer:
        await peer.say("before", group_id=500)
        await bot.wait_facts(1, group(500), within=LIMIT_S)
        since = len(bot.log)
        with full_disk(bot):
            for group_id in (500, 501):
                await peer.mention("lost", group_id=group_id)
                await bot.wait_log(rf"\[ERROR\].*group%3A{group_id}", since=since, within=LIMIT_S)
            with anyio.fail_after(_STOP_S):
                await bot.stop()
        end = "\n".join(errors_of(bot, since))
        assert len(re.findall(r"lost", end)) == 2
        assert "Traceback" not in end
        await bot.start()
        assert contents_of(bot.facts(group(500))) == ["before"]
        assert not list(tmp_path.rglob("*.cut-*"))


_WITHOUT_ROOTS_RIGHTS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if os.geteuid() == 0:
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        if libc.prctl(24, capability, 0, 0, 0) != 0:  # PR_CAPBSET_DROP
            sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Runs a script for which permission bits count, also where the tests run as root."""


async def test_a_folder_that_may_not_be_written_holds_its_facts_until_it_may(tmp_path: Path) -> None:
    """Issue, disk: a read-only folder, for a channel that is new and for one whose log is there."""
    (tmp_path / "bot").mkdir()
    script = shutil.copy(ROOT / "bot.py", tmp_path / "bot")
    bot = demo_bot(tmp_path / "bot", command=[sys.executable, "-c", _WITHOUT_ROOTS_RIGHTS, str(script)])
    async with bot, OneBotPeer(bot.url) as peer:
        await peer.say("before", group_id=500)
        await bot.wait_facts(1, group(500), within=LIMIT_S)
        await bot.stop()
        old, folder = log_file(bot, 500), bot.folder / "data" / "mind" / "onebot%3A10001"
        before = old.read_bytes()
        old.chmod(0o444)
        folder.chmod(0o555)
        try:
            since = len(bot.log)
            await bot.start()
            async with OneBotPeer(bot.url) as peer_again:
                for group_id in (500, 501):
                    # Somebody else: a new implementation counts ids from the start, maybe within the same second.
                    await peer_again.say("one", group_id=group_id, user_id=43)
                    await bot.wait_log(rf"\[ERROR\].*group%3A{group_id}", since=since, within=LIMIT_S)
                    await peer_again.mention("two", group_id=group_id)
                await peer_again.flushed()
                assert peer_again.sent == []
                assert (old.read_bytes(), os.listdir(folder)) == (before, ["group%3A500"])
                folder.chmod(0o755)
                old.chmod(0o644)
                assert contents_of(await bot.wait_facts(3, group(500), within=LIMIT_S)) == ["before", "one", "two"]
                assert contents_of(await bot.wait_facts(2, group(501), within=LIMIT_S)) == ["one", "two"]
                replies = await peer_again.wait_sent(2, within=LIMIT_S)
                assert sorted(sent.target_id for sent in replies) == [500, 501]
                assert len(errors_of(bot, since)) == 2
        finally:
            folder.chmod(0o755)
