"""A whole bot behind servers that are stricter than OpenAI's: one group for each, all over real sockets."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from ishiki.testing.bot_process import BotProcess, profile_yaml
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_dialects import DIALECTS, ServerDialect, refusal
from ishiki.testing.openai_replies import Reply, call, error, reply_saying, tool_calls
from ishiki.testing.openai_server import ChatRequest, OpenAIServer

from .stage import LIMIT_S

pytestmark = pytest.mark.timeout(120)

_FIRST_S = 50.0
"""The first answer of a process waits for LiteLLM."""

_MENTIONS = 3
_STRICT: list[ServerDialect] = [dialect for dialect in DIALECTS if dialect != "openai"]
_GROUPS: dict[ServerDialect, int] = {dialect: 600 + number for number, dialect in enumerate(_STRICT)}


def _respond(request: ChatRequest) -> Reply:
    """Answer as the server does whose name the model has; one that is down for good stands before it in its group."""
    if request.model == "gone":
        return error(400, "Model Not Exist")
    dialect: ServerDialect = next(known for known in DIALECTS if known == request.model)
    if (refused := refusal(dialect, request.body)) is not None:
        return refused
    if request.messages[-1].get("role") == "tool" or "returned: " in request.last_user_text.rpartition("\n\n")[2]:
        return tool_calls([call("finish", {})])
    return reply_saying(f"by {dialect}")


async def test_every_mention_is_answered_once_by_each_server_behind_a_member_that_is_gone(tmp_path: Path) -> None:
    """Issue, models: a mind that falls silent for good is the worst fault; the first member refuses every request."""
    async with OpenAIServer(_respond) as server:
        names = ["gone", *_STRICT]
        models = (
            f"providers:\n  it:\n    api: openai-completions\n    base_url: {server.base_url}\n"
            f"    models: [{', '.join(f'{{id: {name}}}' for name in names)}]\ngroups:\n"
        ) + "".join(f'  {dialect}: {{models: ["it:gone", "it:{dialect}"]}}\n' for dialect in _STRICT)
        profiles = {
            dialect: profile_yaml(model=dialect, claims=f'{{"onebot:*": ["group:{group}"]}}')
            for dialect, group in _GROUPS.items()
        }
        async with BotProcess(tmp_path, models=models, profiles=profiles) as bot, OneBotPeer(bot.url) as peer:
            for number in range(_MENTIONS):
                async with anyio.create_task_group() as tasks:
                    for group in _GROUPS.values():
                        tasks.start_soon(_be_answered, peer, group, number)
            for dialect, group in _GROUPS.items():
                said = [sent.text for sent in peer.sent if sent.target_id == group]
                assert said == [f"by {dialect}"] * _MENTIONS
                last = [request for request in server.requests if request.model == dialect][-1]
                assert all(f"line {number} of {group}" in last.all_text for number in range(_MENTIONS))
            assert server.violations == []
            assert not [line for line in bot.log if "Traceback" in line]


async def _be_answered(peer: OneBotPeer, group: int, number: int) -> None:
    since = len(peer.sent)
    await peer.mention(f"line {number} of {group}", group_id=group, user_id=40 + number)
    within = _FIRST_S if number == 0 else LIMIT_S
    await peer.wait_sent_like(lambda sent: sent.target_id == group, since=since, within=within)
