"""A stage for one test: an account of its own at a shared bot, and the model server that this bot asks."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ishiki.content import ReadLine, split_lines
from ishiki.contracts.events import ChannelRef, ChatEvent, MessageCreated
from ishiki.core.entries import EVENT, Entry
from ishiki.jsonvalue import read_str
from ishiki.testing.bot_process import BotProcess
from ishiki.testing.onebot_account import Sent
from ishiki.testing.onebot_frames import MessageFormat
from ishiki.testing.onebot_peer import OneBotPeer, SelfReport
from ishiki.testing.openai_server import ChatRequest, OpenAIServer, Responder, answer_by_default

GROUP = 500
KEYWORD = "nekomimi"
"""What wakes the shared bot without an address."""

LIMIT_S = 15.0
"""Seconds that a step of a test may take: two cores may be busy with other tests."""

ENDS = ("turn.done", "turn.failed", "turn.aborted")
"""How a turn can end."""
_self_ids = itertools.count(20_001)


def new_account() -> int:
    """Return an account that no test has used."""
    return next(_self_ids)


@dataclass(frozen=True, slots=True)
class SharedBot:
    """A bot that many tests use, each with an account of its own."""

    bot: BotProcess
    model_port: int


@dataclass(frozen=True, slots=True)
class Stage:
    """What a test sees and asserts on."""

    bot: BotProcess
    server: OpenAIServer
    peer: OneBotPeer

    def group(self, group_id: int = GROUP) -> ChannelRef:
        return ChannelRef(f"onebot:{self.peer.self_id}", f"group:{group_id}")

    def private(self, user_id: int) -> ChannelRef:
        return ChannelRef(f"onebot:{self.peer.self_id}", f"private:{user_id}")

    def turn_count(self, channel: ChannelRef) -> int:
        return len(events_of(self.bot.entries(channel), "turn.start"))

    async def kept(self, count: int, channel: ChannelRef) -> list[ChatEvent]:
        """Wait until `count` facts of a channel are on disk."""
        return await self.bot.wait_facts(count, channel, within=LIMIT_S)

    async def ended(self, count: int, channel: ChannelRef) -> list[str]:
        """Wait until `count` turns of a channel have ended, and return how each did."""

        def are_over(_entry: Entry) -> bool:
            return len(events_of(self.bot.entries(channel), *ENDS)) >= count

        await self.bot.wait_entry(are_over, channel, within=LIMIT_S)
        return events_of(self.bot.entries(channel), *ENDS)

    async def sent(self, count: int = 1) -> list[Sent]:
        """Wait until the account has sent `count` messages in all."""
        return await self.peer.wait_sent(count, within=LIMIT_S)

    async def asked(self, count: int = 1) -> list[ChatRequest]:
        """Wait until the model has been asked `count` times in all."""
        return await self.server.wait_requests(count, within=LIMIT_S)

    async def asked_with(self, token: str) -> ChatRequest:
        """Wait for the first request that holds `token`."""
        return await self.server.wait_request_like(lambda request: token in request.all_text, within=LIMIT_S)


@asynccontextmanager
async def on_stage(
    shared: SharedBot,
    responder: Responder = answer_by_default,
    *,
    message_format: MessageFormat = "array",
    report_self_message: SelfReport = "never",
) -> AsyncGenerator[Stage]:
    """Open the model server and a new account, and check at the end that all of it was well-formed."""
    async with (
        OpenAIServer(responder, port=shared.model_port) as server,
        OneBotPeer(
            shared.bot.url,
            self_id=new_account(),
            message_format=message_format,
            report_self_message=report_self_message,
        ) as peer,
    ):
        await peer.wait_connected()
        yield Stage(shared.bot, server, peer)
        assert server.violations == []
        assert peer.malformed == []


def events_of(entries: list[Entry], *types: str) -> list[str]:
    """Return the types of the agent's events among `entries`, those of `types` only."""
    found = [read_str(entry.json_data, "type") for entry in entries if entry.type == EVENT]
    return [kind for kind in found if kind in types]


def lines_of(request: ChatRequest) -> list[ReadLine]:
    """Return the lines that a request shows its model, in order."""
    texts = [read_str(message, "content") for message in request.messages if message.get("role") == "user"]
    return [line for text in texts for line in split_lines(text)]


def bodies_of(request: ChatRequest) -> list[str]:
    """Return what people say in a request, in order."""
    return [line.content for line in lines_of(request) if line.kind == "message"]


def contents_of(facts: list[ChatEvent]) -> list[str]:
    """Return the markup of the messages among facts, in order."""
    return [fact.content for fact in facts if isinstance(fact, MessageCreated)]
