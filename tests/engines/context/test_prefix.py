"""Context `standard`: 200 turns of a busy group, whose requests share their beginning."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from ishiki.core.messages import Usage, UserMessage
from ishiki.core.model import ModelRequest
from ishiki.engines.context._tail import MEMORY_HEAD
from ishiki.engines.context.standard import StandardContextConfig, StandardContextEngine
from ishiki.storage import EventLog, LogFiles
from ishiki.testing.clock import FakeClock
from ishiki.testing.scripted_model import ScriptedAnswer, ScriptedModel, call, text

from .kit import CHANNEL, chatter, is_prefix, minding

TURNS = 200


def start_of(request: ModelRequest) -> Sequence[str]:
    """Return the memory of a request, if it has one, and the first line behind it."""
    contents = [message.content for message in request.messages[:2] if isinstance(message, UserMessage)]
    first = str(contents[0])
    return [first, str(contents[-1]).partition("\n")[0]] if first.startswith(MEMORY_HEAD) else first.splitlines()[:1]


async def test_over_200_turns_only_a_cut_or_a_summary_changes_what_stands_in_front(tmp_path: Path) -> None:
    """Design, budgets, prefix: instructions, tools and every earlier message byte for byte, with pictures and recalls.

    Each turn takes two steps, so that what a step leaves behind is looked at as well.
    """
    said: list[int] = []

    def respond(request: ModelRequest) -> ScriptedAnswer:
        # As a provider would count: the budget learns from it, and what it learns may move no cut by itself.
        usage = Usage(2_000 + sum(len(str(message.content)) for message in request.messages) // 3, 10)
        said.append(1)
        return call("look", {}, usage=usage) if len(said) % 2 else call("finish", {}, usage=usage)

    model = ScriptedModel([], responder=respond)
    summariser = ScriptedModel([], responder=lambda request: text(f"Summary {len(request.messages[0].id)}."))
    config = StandardContextConfig(max_tokens=24_000)
    files = LogFiles(fsync="never", clock=FakeClock())
    log = await EventLog.open(tmp_path / "events.jsonl", sid=CHANNEL.sid, channel_id=CHANNEL.channel_id, files=files)
    async with minding(StandardContextEngine(), config, model, store=log, find_model=lambda ref: summariser) as mind:
        for number in range(TURNS):
            await mind.turn(*chatter(number))
            await mind.settled()
        compactions = len(mind.compactions())
    await log.aclose()
    requests = model.requests
    assert len(requests) == 2 * TURNS
    assert len({(request.instructions, str(request.tools)) for request in requests}) == 1
    breaks = [index for index, (before, after) in enumerate(pairwise(requests)) if not is_prefix(before, after)]
    moved = [index for index, (before, after) in enumerate(pairwise(requests)) if start_of(before) != start_of(after)]
    assert breaks == moved
    assert 1 <= compactions <= len(breaks) <= 2 * compactions
    assert len(breaks) <= 0.1 * len(requests)
    everything = "\n".join(str(message) for message in requests[-1].messages)
    assert "was recalled by" in everything
    assert "asset://" in everything
    assert f"#{TURNS * 10 - 3}" in everything
