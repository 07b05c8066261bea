"""No answer of a model, whatever it is, silences a channel for longer than it lasts.

Servers, refusals, forms of history, tools and texts are drawn at random and change in mid-life. While a server is only
strict, every mention is answered; when one that was ill is well again, the next mention is, with every line that was
said since in its request, and after at most one vain request more than the new server's form takes to learn.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ishiki.engines.toolcall._protocol import TextProtocol
from ishiki.testing import openai_replies as replies
from ishiki.testing.openai_dialects import DIALECTS, ServerDialect, refusal
from ishiki.testing.openai_server import ChatRequest
from tests.engines.toolcall.protocols import PROTOCOLS, written
from tests.runtime.kit import GROUP, SELF, Bot, profile_text, running

ENGINES: dict[str, TextProtocol | None] = {
    "native": None,
    **dict(zip(("v3", "hermes", "qwen3coder", "morph-xml", "yaml-xml"), PROTOCOLS, strict=True)),
}
CONTEXTS = {"standard": "", "v3": ", v3: {max_messages: 1000}"}
"""Context engines, with room for all that is said here."""

TO_LEARN = 3
"""How many things the strictest dialect has to say before it is content."""

DAY_S = 25 * 3600.0

ANSWERS: dict[str, replies.Reply] = {
    "nothing": replies.text(None),
    "blank": replies.text("  "),
    "words": replies.text("hello"),
    "thoughts": replies.text(None, reasoning="hm"),
    "cut by length": replies.text("hello, al", finish_reason="length"),
    "cut": replies.cut("hello, all of you"),
    "cut in a call": replies.Completion(calls=(replies.call("finish", {}),), pieces=4, ending="cut", parts_sent=3),
    "no choices": replies.Completion(choices="empty"),
    "garbled": replies.garbled(),
    "a reset": replies.Reset(),
    "no such tool": replies.tool_calls([replies.call("dance", {})]),
    "no JSON": replies.tool_calls([replies.call("send_message", "{messages: [")]),
    "wrong arguments": replies.tool_calls([replies.call("send_message", {"words": 1})]),
    "a filter": replies.text("", finish_reason="content_filter"),
    "two calls": replies.tool_calls([replies.call("dance", {}), replies.call("finish", {})]),
}
"""What a model may answer instead of speaking."""

REFUSALS = [
    (status, words)
    for status in (400, 401, 403, 404, 413, 422, 429, 500, 503)
    for words in (
        "Content Exists Risk", "maximum context length", "Model Not Exist", "API key not valid", "invalid", "",
        "does not support tools", "Bad Gateway", "roles must alternate", "schema", "reasoning_content is required",
        "message content must not be empty",
    )
]  # fmt: skip
"""What a server may refuse everything with."""

POISON = {"filter": (400, "content_filter"), "unknown words": (400, "no"), "a crash": (500, "boom")}
"""With what a server refuses a request that holds a certain line, or any of the model's own past."""


@dataclass(frozen=True)
class Healthy:
    dialect: ServerDialect


@dataclass(frozen=True)
class Answering:
    answer: str


@dataclass(frozen=True)
class Refusing:
    refusal: tuple[int, str]


@dataclass(frozen=True)
class Poisoned:
    by: str
    """A line, or `past`: whatever the model has done before."""
    words: str


State: TypeAlias = Healthy | Answering | Refusing | Poisoned

healthy = st.builds(Healthy, st.sampled_from(DIALECTS))
states: st.SearchStrategy[State] = st.one_of(
    healthy,
    st.builds(Answering, st.sampled_from(sorted(ANSWERS))),
    st.builds(Refusing, st.sampled_from(REFUSALS)),
    st.builds(Poisoned, st.sampled_from(["line", "past"]), st.sampled_from(sorted(POISON))),
)
lives = st.lists(st.tuples(states, st.integers(0, 5)), min_size=1, max_size=4)
"""States, each with how many mentions it lasts."""


@dataclass
class Server:
    """The model behind the server, and how it is at the moment."""

    engine: str
    state: State = Healthy("openai")

    def __call__(self, request: ChatRequest) -> replies.Reply:
        match self.state:
            case Answering(answer):
                return ANSWERS[answer]
            case Refusing((status, words)):
                return replies.error(status, words)
            case Poisoned(by, words) if b"POISON" in request.raw or (by == "past" and b"reply " in request.raw):
                return replies.error(*POISON[words])
            case _:
                return self.speak(request)

    def speak(self, request: ChatRequest) -> replies.Reply:
        last = request.messages[-1]
        if last.get("role") == "tool" or " returned: " in str(last.get("content")).rpartition("\n\n")[2]:
            return replies.tool_calls([replies.call("finish", {})])
        said = f"reply {request.number}"
        protocol = ENGINES[self.engine]
        if protocol is not None:
            return replies.text(written(protocol, "send_message", {"messages": [said]}))
        return replies.tool_calls([replies.call("send_message", {"messages": [said]})], reasoning="hm")


@dataclass
class Talk:
    """A group in which people talk, and what the mind has been told."""

    bot: Bot
    server: Server
    lines: list[str] = field(default_factory=list[str])
    """Said since the last mention that was answered."""

    async def say(self, words: str = "") -> None:
        """Somebody says something, then somebody else says something to the mind; wait for what comes of it."""
        for at in ("", f'<at id="{SELF}"/> '):
            number = self.bot.message("").message_id
            # No two lines alike: whoever writes like a machine is taken for one.
            line = f"line {number} {hashlib.sha256(number.encode()).hexdigest()[:24]} {words}".strip()
            self.lines.append(line)
            self.bot.say(f"{at}{line}", user=str(40 + int(number[1:]) % 7))
            self.bot.clock.advance(20)
        await self.bot.quiet()

    async def must_be_answered(self, *, vain: int) -> None:
        """Somebody says something to the mind, which answers once, having read every line, within `vain` refusals."""
        asked, said = len(self.bot.server.requests), len(self.bot.platform.texts)
        await self.say()
        assert len(self.bot.platform.texts) == said + 1, self.bot.ends()[-1]
        asking = self.bot.server.requests[asked:]
        refused = [request for request in asking if refusal(self.bot.server.dialect, request.body) is not None]
        taken = [request for request in asking if request not in refused]
        assert all(line in taken[0].all_text for line in self.lines), (self.lines, taken[0].all_text)
        assert len(refused) <= vain
        assert len(taken) <= 2, "more than what was said and the end of the turn"
        self.lines.clear()


async def live(folder: Path, engine: str, context: str, life: Sequence[tuple[State, int]], end: ServerDialect) -> None:
    """Let a channel live through `life` and end with a server of the dialect `end`."""
    profile = profile_text(
        f"toolcall: {{engine: {engine}}}\ncontext: {{engine: {context}{CONTEXTS[context]}}}\n"
        "guards: {turns_per_hour: 0}"
    )
    async with running(folder, profile) as bot:
        server = Server(engine)
        bot.server.responder = server
        talk = Talk(bot, server)
        await talk.must_be_answered(vain=0)
        for state, mentions in life:
            server.state = state
            bot.server.dialect = state.dialect if isinstance(state, Healthy) else "openai"
            silent = 0
            for number in range(mentions):
                if isinstance(state, Healthy):
                    await talk.must_be_answered(vain=1 + TO_LEARN)
                    continue
                said = len(bot.platform.texts)
                await talk.say("POISON" if isinstance(state, Poisoned) and number == 0 else "")
                silent = 0 if len(bot.platform.texts) > said else silent + 1
                if silent == 0:
                    talk.lines.clear()
                # What is poisoned stays so: only the mind can get over it, and two turns have to fail before it tries.
                assert silent <= 2 or not isinstance(state, Poisoned)
        server.state, bot.server.dialect = Healthy(end), end
        if bot.logs.holding("stays out of requests for a day"):
            bot.clock.advance(DAY_S)
        await talk.must_be_answered(vain=1 + (0 if end == "openai" else TO_LEARN))
        await talk.must_be_answered(vain=TO_LEARN)
        assert bot.supervisor.find("neko", GROUP) is not None


@pytest.mark.timeout(180)
@given(st.sampled_from(sorted(ENGINES)), st.sampled_from(sorted(CONTEXTS)), lives, st.sampled_from(DIALECTS))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_answer_of_a_model_silences_a_channel_for_longer_than_it_lasts(
    engine: str, context: str, life: list[tuple[State, int]], end: ServerDialect
) -> None:
    """Issue, models: the property above all of them."""
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(live, Path(folder), engine, context, life, end)
