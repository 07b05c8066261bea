"""kill -9 at random times while fifty channels talk: nothing that anybody has seen is lost, and nothing comes twice.

The people and the model outlive the bot, so what they have seen is compared over all of its lives.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
import re
import secrets
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

import anyio
import anyio.to_thread
import orjson
import pytest
from websockets.exceptions import ConnectionClosed

from ishiki.core.entries import DELIVERY, entry_from_json
from ishiki.storage.inspection import inspect_log
from ishiki.testing.bot_process import BotProcess
from ishiki.testing.onebot_account import Sent
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_replies import Reply, call, reply_saying, tool_calls
from ishiki.testing.openai_server import ChatRequest, OpenAIServer
from ishiki.tools.deliveries import Delivery

from .stage import LIMIT_S, group, log_path, wire_bot

logger = logging.getLogger(__name__)

_SEED_VARIABLE = "KILL_SEED"
"""Set to a seed that a failed run has printed, it draws the same times; the machine's own timing is not repeated."""

_LEAST_KILLS = 31
"""The issue's thirty, and the last one, which no life follows that could tell what it has cost."""

_MOST_KILLS = 60
"""Our choice: by then the wanted hits have come, of which an unlucky seed has too few among the first thirty."""

_HITS = 5
_GROUPS = range(700, 750)
_LONGEST_TALK_S = 0.4
"""How long people go on at most once every channel has asked its model."""

_LINE = re.compile(r"line-(\d+)-\d{6}")
_WORD = re.compile(r"word-\d+-\d{6}")

_CUT_BY_A_KILL = {"torn end", "unfinished batch"}
"""What a kill may leave behind the last whole batch; the next start cuts it off."""

_SETTINGS = {
    # One channel says more in a minute here than in a day, and all of it is looked for.
    "guards": "{turns_per_hour: 0}",
    "context": "{engine: standard, standard: {max_tokens: 1000000}}",
}

_Logs: TypeAlias = Mapping[int, bytes]
"""By group, what a log holds."""

pytestmark = pytest.mark.timeout(400)


@dataclass(slots=True)
class _Minds:
    """The model of every channel: it answers with two sentences of its own, and says none of them twice."""

    _numbers: Iterator[int] = field(default_factory=itertools.count)
    first: dict[int, ChatRequest] = field(default_factory=dict[int, ChatRequest])
    """The first request of each group in this life of the bot."""
    have_asked: anyio.Event = field(default_factory=anyio.Event)
    """Set when every group has asked in this life."""

    def begin_life(self) -> None:
        """Forget who has asked."""
        self.first, self.have_asked = {}, anyio.Event()

    def answer(self, request: ChatRequest) -> Reply:
        """Answer a request, by the group that its lines name."""
        group_id = int(_LINE.findall(request.all_text)[-1])
        self.first.setdefault(group_id, request)
        if len(self.first) == len(_GROUPS):
            self.have_asked.set()
        if request.messages[-1].get("role") == "tool":
            return tool_calls([call("finish", {})])
        return reply_saying(*(f"word-{group_id}-{next(self._numbers):06}" for _ in range(2)))


@dataclass(slots=True)
class _People:
    """Those who talk in the groups, and what they have said and read."""

    peer: OneBotPeer
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    said: dict[int, list[str]] = field(default_factory=lambda: {group_id: [] for group_id in _GROUPS})

    def read(self) -> dict[int, list[str]]:
        """Return what the bot has said in each group, in order."""
        read: dict[int, list[str]] = {group_id: [] for group_id in _GROUPS}
        for sent in self.peer.sent:
            read[sent.target_id].append(sent.text)
        return read

    async def mention(self, group_id: int) -> None:
        """Say a line that has to be answered."""
        await self.peer.mention(self._line(group_id), group_id=group_id, user_id=self._speaker(group_id))

    async def talk(self, group_id: int) -> None:
        """Say a line to nobody and one to the bot as often as it speaks, until the bot is gone."""
        try:
            while True:
                since = len(self.peer.sent)
                await self.peer.wait_sent_like(partial(_is_in, group_id), since=since, within=LIMIT_S)
                await self.peer.say(self._line(group_id), group_id=group_id, user_id=self._speaker(group_id))
                await self.mention(group_id)
        except (ConnectionClosed, RuntimeError) as error:
            # It was said all the same: the bot has to find it in the group's history.
            logger.debug("nobody is there to hear it: %s", error)

    def _speaker(self, group_id: int) -> int:
        """Return who speaks next: whoever wakes the bot time after time within a second is taken for a bot."""
        return 1_000 + len(self.said[group_id])

    def _line(self, group_id: int) -> str:
        line = f"line-{group_id}-{next(self._numbers):06}"
        self.said[group_id].append(line)
        return line


def _is_in(group_id: int, sent: Sent) -> bool:
    return sent.target_id == group_id


@dataclass(frozen=True, slots=True)
class _Kill:
    """The logs around one kill."""

    before: _Logs
    """The whole batches, as read right before."""
    after: _Logs
    """Everything that the kill left."""
    kept: _Logs
    """The whole batches at the end of the life before."""

    def hits(self) -> Counter[str]:
        """Return what it hit, each kind counted once.

        `append`: a log got something, or a part of it, between the reading and the end. `torn`: a log ends in the
        middle of a batch. `send`: a message of this life was being handed over, for its record has no outcome.
        """
        kept = {group_id: _whole(raw) for group_id, raw in self.after.items()}
        found = {
            "append": any(raw != self.before[group_id] for group_id, raw in self.after.items()),
            "torn": any(raw != kept[group_id] for group_id, raw in self.after.items()),
            "send": any(_is_handing_over(raw[len(self.kept[group_id]) :]) for group_id, raw in kept.items()),
        }
        return Counter(kind for kind, is_hit in found.items() if is_hit)


def _whole(raw: bytes) -> bytes:
    """Return a log up to the end of its last whole batch."""
    end = raw.rfind(b"\n") + 1
    while end:
        begin = raw.rfind(b"\n", 0, end - 1) + 1
        if orjson.loads(raw[begin:end]).get("more") is not True:
            return raw[:end]
        end = begin
    return b""


def _is_handing_over(lines: bytes) -> bool:
    """Whether lines of a log hold a delivery that has no outcome."""
    states: dict[tuple[str | None, str, int], str] = {}
    for line in lines.splitlines():
        if DELIVERY.encode() in line:
            entry = entry_from_json(orjson.loads(line))
            delivery = Delivery.from_entry(entry)
            states[entry.turn_id, delivery.tool_call_id, delivery.index] = delivery.state
    return "sending" in states.values()


def _read_logs(bot: BotProcess) -> dict[int, bytes]:
    return {group_id: log_path(bot, group(group_id)).read_bytes() for group_id in _GROUPS}


def _read_and_kill(bot: BotProcess) -> dict[int, bytes]:
    """Read every log and kill, with nothing in between; in a thread, so that no turn of our loop sets the moment."""
    logs = _read_logs(bot)
    bot.send_signal(signal.SIGKILL)
    return logs


async def _talk_until_killed(bot: BotProcess, people: _People, minds: _Minds, kept: _Logs, talk_s: float) -> _Kill:
    """Let everybody talk to a bot that has just been connected, check what each channel asks first, and kill it.

    Args:
        bot: the bot.
        people: those who talk.
        minds: the model.
        kept: what the logs held at the end of the life before.
        talk_s: how long they go on when every channel has asked.
    """
    read = people.read()
    said: dict[int, list[str]] = {}
    before: _Logs = {}
    async with anyio.create_task_group() as talking:
        for group_id in _GROUPS:
            talking.start_soon(people.talk, group_id)
        for group_id in _GROUPS:
            await people.mention(group_id)
            said[group_id] = list(people.said[group_id])
        with anyio.fail_after(LIMIT_S):
            await minds.have_asked.wait()
        with anyio.move_on_after(talk_s):  # the random time of the kill; nothing is awaited
            await anyio.sleep_forever()
        before = await anyio.to_thread.run_sync(_read_and_kill, bot)
        assert await bot.wait_end() == 128 + signal.SIGKILL
        talking.cancel_scope.cancel()
    for group_id, request in minds.first.items():
        _check_first_request(request, said[group_id], read[group_id])
    after = _read_logs(bot)
    kill = _Kill({group_id: _whole(raw) for group_id, raw in before.items()}, after, kept)
    _check_logs(bot, kill)
    return kill


def _check_first_request(request: ChatRequest, said: Sequence[str], read: Sequence[str]) -> None:
    """Every line of the group up to the mention, and every sentence that it has read, each once."""
    shown = request.all_text
    lines = Counter(found[0] for found in _LINE.finditer(shown))
    words = Counter(_WORD.findall(shown))
    assert {line: lines[line] for line in said if lines[line] != 1} == {}
    assert {word: words[word] for word in read if words[word] != 1} == {}
    assert max(words.values(), default=1) == 1


def _check_logs(bot: BotProcess, kill: _Kill) -> None:
    """Nothing that was read from outside has changed or gone, and what is there is whole batches."""
    for group_id, raw in kill.after.items():
        assert raw.startswith(kill.kept[group_id]), f"group {group_id}: the start has changed what was in the log"
        assert raw.startswith(kill.before[group_id]), f"group {group_id}: what was read right before the kill is gone"
        report = inspect_log(log_path(bot, group(group_id)))
        assert report.end == len(_whole(raw))
        damage = {finding.kind for finding in report.findings if finding.remedy != "none"}
        assert damage <= _CUT_BY_A_KILL, f"group {group_id}: {report.findings}"


async def test_what_anybody_has_seen_survives_thirty_kills_in_the_middle_of_talk(tmp_path: Path) -> None:
    """Issue, kill -9: acknowledged facts stay, logs are whole batches, the next request holds all, nothing twice."""
    seed = int(os.environ.get(_SEED_VARIABLE) or secrets.randbits(32))
    sys.stdout.write(f"{_SEED_VARIABLE}={seed}\n")  # pytest shows it beside a failure
    times = random.Random(seed)
    minds = _Minds()
    kills, hits = 0, Counter[str]()
    kept: _Logs = dict.fromkeys(_GROUPS, b"")
    async with (
        OpenAIServer(minds.answer) as server,
        wire_bot(tmp_path, server.base_url, settings=_SETTINGS) as bot,
        OneBotPeer(bot.url) as peer,
    ):
        people = _People(peer)
        while kills < _LEAST_KILLS or (min(hits["append"], hits["send"]) < _HITS and kills < _MOST_KILLS):
            if kills:
                await bot.start()
                minds.begin_life()
                await peer.reconnect()
            kill = await _talk_until_killed(bot, people, minds, kept, times.uniform(0, _LONGEST_TALK_S))
            kills += 1
            await peer.wait_disconnected(kills, within=LIMIT_S)  # what was on its way to the peer has arrived
            for group_id, words in people.read().items():
                assert [word for word in words if word.encode() not in kill.after[group_id]] == []
            hits += kill.hits()
            kept = {group_id: _whole(raw) for group_id, raw in kill.after.items()}
        log = bot.log
    logger.info("%d kills, which hit %s", kills, dict(hits))
    assert min(hits["append"], hits["send"]) >= _HITS
    assert max(Counter(sent.text for sent in peer.sent).values()) == 1
    assert [line for line in log if "Traceback" in line or "[ERROR]" in line] == []
    assert (server.violations, peer.malformed) == ([], [])
