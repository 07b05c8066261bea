"""Our share of a turn with a full live window: from the wake to the model's server, from its answer to the send call.

A real bot, a OneBot end and a model's server over loopback. The clock starts when the end hands the line that wakes the
mind to its socket, stops when the server has the whole request, starts again when the server hands its whole answer to
its socket, and stops when the send call arrives at the end: both wires and both ends are counted as ours. In between
lies LiteLLM: the same request is made by a bare LiteLLM call in another process against the same server, timed at the
same two points, and its median is subtracted. On a machine with other work the wall clock counts that too; the CPU time
of the process, read at the same points, does not. The typing pause is set to nothing; what it would be is printed
apart.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import orjson

from bench.bots import RunningBot, our_bot, profile
from bench.judging import Budget, Limit, Options, Result, percentile
from bench.kernel import cpu_s
from bench.logs import BLOCK, channel, write_log
from ishiki.content import TypingConfig, typing_delay_ms
from ishiki.testing.bot_process import models_yaml
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_replies import RawReply, Reply, chunks_of, reply_saying
from ishiki.testing.openai_replies import text as completion_text
from ishiki.testing.openai_server import ChatRequest, OpenAIServer

__all__ = ["TURN"]

_WINDOW = 5_000
_GROUP = 500
_ANSWER = "I was there yesterday, and it rained all day."
_WARM_UPS = 3
_LIMIT_MS = 10.0
_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class _Moment:
    at: float
    """Unix seconds."""
    cpu_s: float
    """CPU seconds that the asking process had used."""


@dataclass(slots=True)
class _Server:
    """Answers in one write, and remembers when."""

    pid: int = 0
    """Who asks."""
    asked: list[_Moment] = field(default_factory=list["_Moment"])
    """When each request of a turn had come."""
    answered: list[_Moment] = field(default_factory=list["_Moment"])
    """When its answer was handed to the socket."""
    newest: ChatRequest | None = None

    def reply(self, request: ChatRequest) -> Reply:
        if not request.tool_names:  # a summary of what no longer fits; it belongs to no turn's answer
            return completion_text("They talked about the weather, a broken build and a walk in the hills.")
        self.asked.append(_Moment(request.at, cpu_s(self.pid)))
        self.newest = request
        answer = reply_saying(f"{_ANSWER} {request.number}")  # nobody may say the same over and over
        chunks = chunks_of(
            answer, number=request.number, model=request.model, prompt_chars=len(request.raw), include_usage=True
        )
        body = b"".join(b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
        self.answered.append(_Moment(time.time(), cpu_s(self.pid)))
        return RawReply(stream_body=body)


@dataclass(frozen=True, slots=True)
class _Share:
    """Milliseconds of one turn or call outside the model's server, by the wall clock and of CPU."""

    before: float
    after: float
    cpu: float

    @classmethod
    def of(cls, woke: _Moment, asked: _Moment, answered: _Moment, ended: _Moment) -> _Share:
        used = asked.cpu_s - woke.cpu_s + ended.cpu_s - answered.cpu_s
        return cls(1_000 * (asked.at - woke.at), 1_000 * (ended.at - answered.at), 1_000 * used)

    @property
    def wall(self) -> float:
        return self.before + self.after


async def measure(options: Options) -> Sequence[Result]:
    """Measure turns, then the same number of LiteLLM calls."""
    count = options.sized(100, 20, least=2)
    stamps = _Server()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        async with OpenAIServer(stamps.reply) as server:
            text = profile(model="test:test-model")
            with our_bot(root, models=models_yaml(server.base_url), profile_text=text) as bot:
                write_log(bot.log_of(channel(_GROUP)), _WINDOW + BLOCK)
                turns = await _turns(bot, stamps, count)
            request = stamps.newest
            assert request is not None
            calls = await _calls(root, server, stamps, request, count)
    return _results(turns, calls, f"over {count} turns with a request of {len(request.raw) / 1024:.0f} KiB")


def _results(turns: Sequence[_Share], calls: Sequence[_Share], over: str) -> list[Result]:
    litellm_wall = statistics.median(one.wall for one in calls)
    litellm_cpu = statistics.median(one.cpu for one in calls)
    wall = [one.wall - litellm_wall for one in turns]
    cpu = [one.cpu - litellm_cpu for one in turns]
    before, after = (statistics.median(side) for side in zip(*((one.before, one.after) for one in turns), strict=True))
    return [
        Result(
            "our share, p95",
            percentile(wall, 0.95),
            "ms",
            Limit(_LIMIT_MS),
            note=f"median {statistics.median(wall):.1f} ms {over}; with LiteLLM {before:.1f} ms before the model and "
            f"{after:.1f} ms after it",
        ),
        Result(
            "our share in CPU time, p95", percentile(cpu, 0.95), "ms", note=f"median {statistics.median(cpu):.1f} ms"
        ),
        Result(
            "LiteLLM's share, median",
            litellm_wall,
            "ms",
            note=f"p95 {percentile([one.wall for one in calls], 0.95):.1f} ms; {litellm_cpu:.1f} ms of CPU",
        ),
        Result("typing pause", _typing_ms(), "ms", note=f"for {len(_ANSWER)} letters by the default profile"),
    ]


async def _turns(bot: RunningBot, stamps: _Server, count: int) -> Sequence[_Share]:
    stamps.pid = bot.pid
    shares: list[_Share] = []
    async with OneBotPeer(bot.url) as peer:
        for number in range(1, count + _WARM_UPS + 1):
            woke = _Moment(time.time(), bot.cpu_s)
            await peer.mention(f"where were you yesterday? {number}", group_id=_GROUP, user_id=1_000 + number)
            (*_, sent) = await peer.wait_sent(number, within=_WITHIN_S)
            ended = _Moment(sent.at, bot.cpu_s)
            await bot.quiet()
            if len(stamps.asked) != number:
                raise RuntimeError(f"{number} turns made {len(stamps.asked)} requests: they cannot be told apart")
            shares.append(_Share.of(woke, stamps.asked[-1], stamps.answered[-1], ended))
    return shares[_WARM_UPS:]


async def _calls(
    root: Path, server: OpenAIServer, stamps: _Server, request: ChatRequest, count: int
) -> Sequence[_Share]:
    already = len(stamps.asked)
    asked: Mapping[str, object] = {key: value for key, value in request.body.items() if key != "stream"}
    arguments: dict[str, object] = {
        **asked,
        "model": f"custom_openai/{request.model}",
        "api_base": server.base_url,
        "api_key": "sk-test-key",
    }
    file = root / "call.json"
    file.write_bytes(orjson.dumps({"arguments": arguments, "calls": count + _WARM_UPS}))
    async with await anyio.open_process([sys.executable, "-m", "bench.litellm_call", str(file)], stderr=None) as child:
        stamps.pid = child.pid
        assert child.stdout is not None
        output = b"".join([chunk async for chunk in child.stdout])
    times = orjson.loads(output)
    seen = zip(stamps.asked[already:], stamps.answered[already:], times, strict=True)
    shares = [_Share.of(_Moment(*one[:2]), asked, answered, _Moment(*one[2:])) for asked, answered, one in seen]
    return shares[_WARM_UPS:]


def _typing_ms() -> float:
    return typing_delay_ms(_ANSWER, TypingConfig(), 0.5)


TURN = Budget("turn", measure)
