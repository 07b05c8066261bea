"""One bot for the cases of a file that do not stop it: each case has an account and a model server of its own."""

from __future__ import annotations

import itertools
import re
import socket
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ishiki.contracts.events import ChannelRef
from ishiki.jsonvalue import read_str
from ishiki.testing.bot_process import BotProcess
from ishiki.testing.onebot_frames import at, text
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_replies import Reply, call, reply_saying, tool_calls
from ishiki.testing.openai_server import ChatRequest, OpenAIServer, Responder

from .stage import GROUP, LIMIT_S, contents_of, events_of, group, wire_bot

HISTORY = "get_group_msg_history"
"""The call that asks for what was missed."""

_self_ids = itertools.count(30_001)
_TOKEN = re.compile(r"\bm\d+\b")


@dataclass(frozen=True, slots=True)
class SharedBot:
    """A running bot, and the port at which it asks its model."""

    bot: BotProcess
    model_port: int


@dataclass(frozen=True, slots=True)
class Stage:
    """What a case sees: the bot, its model, and one account."""

    bot: BotProcess
    server: OpenAIServer
    peer: OneBotPeer

    @property
    def channel(self) -> ChannelRef:
        """The account's group."""
        return group(self_id=self.peer.self_id)

    async def answered(self, token: str) -> None:
        """Mention the account, each time as somebody else (who answers at once is taken for a bot), and be answered."""
        await self.peer.mention(token, group_id=GROUP, user_id=100 + int(token[1:]))
        await self.peer.wait_sent_like(lambda sent: sent.text == f"heard {token}", within=LIMIT_S)

    async def kept(self, count: int) -> list[str]:
        """Wait until the group's log holds `count` facts, and return what was said in order."""
        return contents_of(await self.bot.wait_facts(count, self.channel, within=LIMIT_S))

    @property
    def replies(self) -> list[str]:
        """What the account has said."""
        return [sent.text for sent in self.peer.sent]

    @property
    def turn_count(self) -> int:
        """How many turns the group has had."""
        return len(events_of(self.bot.entries(self.channel), "turn.start"))

    @property
    def history_calls(self) -> int:
        """How often the account's history was asked for."""
        return len([made for made in self.peer.calls if made.action == HISTORY])


@contextmanager
def shared_bot(folder: Path, profiles: Mapping[str, str] | None = None) -> Generator[SharedBot]:
    """Run a bot whose model is asked at a port that is kept for it.

    Args:
        folder: its folder.
        profiles: further profiles, id -> their claims; they ask the same model.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    bot = wire_bot(folder, f"http://127.0.0.1:{port}/v1")
    mind = (folder / "profiles/mind/profile.yaml").read_text(encoding="utf-8")
    for name, claims in (profiles or {}).items():
        bot.write(f"profiles/{name}/profile.yaml", re.sub("(?m)^channels: .*$", f"channels: {claims}", mind))
    with bot:
        yield SharedBot(bot, port)


@asynccontextmanager
async def on_stage(
    shared: SharedBot, responder: Responder | None = None, *, self_id: int | None = None
) -> AsyncGenerator[Stage]:
    """Open the model server and an account, and check at the end that all of it was well-formed."""
    server = OpenAIServer(responder or hear, port=shared.model_port)
    async with server, account(shared.bot, self_id=self_id) as peer:
        yield Stage(shared.bot, server, peer)
        assert server.violations == []


@asynccontextmanager
async def account(bot: BotProcess, *, self_id: int | None = None) -> AsyncGenerator[OneBotPeer]:
    """Connect an account that no case has used, or the one named."""
    async with OneBotPeer(bot.url, self_id=next(_self_ids) if self_id is None else self_id) as peer:
        yield peer
        assert peer.malformed == []


def hear(request: ChatRequest) -> Reply:
    """Answer `heard <token>` to the newest token among the lines, such as m12; then end the turn."""
    if request.messages[-1].get("role") == "tool":
        return tool_calls([call("finish", {})])
    users = [read_str(message, "content") for message in request.messages if message.get("role") == "user"]
    tokens = _TOKEN.findall("\n".join(users))
    return reply_saying(f"heard {tokens[-1]}")


async def say_to(peer: OneBotPeer, target_id: int, words: str, *, user_id: int = 42) -> int:
    """Let somebody say a line that mentions `target_id`, as `peer` sees it; returns the message's id."""
    return await peer.say([at(target_id), text(f" {words}")], group_id=GROUP, user_id=user_id)
