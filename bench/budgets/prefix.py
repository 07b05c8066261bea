"""How much of a request the next one of its channel repeats byte for byte: instructions, tools, and earlier messages.

A real bot with the context engine `standard` and a model's server that keeps what it is asked. People talk, quote, show
pictures and recall lines between turns. A provider caches what consecutive requests share from their beginning, so the
worst pair counts, until the budget cuts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import orjson

from bench.bots import our_bot, profile
from bench.chatter import DiskCount
from bench.judging import Budget, Limit, Options, Result
from bench.logs import channel
from ishiki.jsonvalue import JsonObject, read_array
from ishiki.testing.bot_process import models_yaml
from ishiki.testing.onebot_frames import image, text
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_replies import Reply, reply_saying
from ishiki.testing.openai_server import ChatRequest, OpenAIServer

__all__ = ["PREFIX", "shared_share"]

_GROUP = 500
_WITHIN_S = 60.0


async def measure(options: Options) -> Sequence[Result]:
    """Hold a conversation, and compare each request with the one before it."""
    turns = options.sized(30, 8, least=2)
    async with OpenAIServer(_reply) as server:
        models, profile_text = models_yaml(server.base_url), profile(model="test:test-model")
        with (
            tempfile.TemporaryDirectory() as folder,
            our_bot(Path(folder), models=models, profile_text=profile_text) as bot,
        ):
            disk = DiskCount([bot.log_of(channel(_GROUP))])
            async with OneBotPeer(bot.url) as peer:
                for number in range(1, turns + 1):
                    first = await peer.say(f"I was thinking of something, number {number}", group_id=_GROUP)
                    await peer.say([image(f"{number:032X}.jpg"), text("look")], group_id=_GROUP, user_id=43)
                    await peer.quote(first, "of what?", group_id=_GROUP, user_id=44)
                    await peer.recall(first)
                    await disk.reach(number * 4 - 1)
                    await peer.mention("and you?", group_id=_GROUP, user_id=1_000 + number)
                    await peer.wait_sent(number, within=_WITHIN_S)
        bodies = [request.body for request in server.requests]
    shares = [shared_share(before, after) for before, after in pairwise(bodies)]
    note = f"worst of {len(shares)} pairs, mean {sum(shares) / len(shares):.4f}; with pictures, quotes and recalls"
    return [
        Result(
            "of a request repeated by the next", min(shares), "", Limit(1, is_least=True, is_exact=True), "ratio", note
        )
    ]


def _reply(request: ChatRequest) -> Reply:
    return reply_saying(f"nothing much, {request.number}")


def shared_share(before: JsonObject, after: JsonObject) -> float:
    """Return the share of the bytes of `before`, tools and messages, with which `after` begins."""
    if orjson.dumps(before.get("tools")) != orjson.dumps(after.get("tools")):
        return 0.0
    earlier, later = (orjson.dumps(read_array(body, "messages"))[:-1] for body in (before, after))
    if not earlier:
        return 1.0
    same = next((at for at, (one, other) in enumerate(zip(earlier, later, strict=False)) if one != other), None)
    return (min(len(earlier), len(later)) if same is None else same) / len(earlier)


PREFIX = Budget("prefix", measure, has_ratio=True)
