"""What was shown is said once, whatever is cut behind it: a kill, a late answer, a refusal, an account that leaves.

The model of these tests is forgetful: it says whatever its request does not show as said. A text that arrives twice
means that the bot has repeated it, or has not told the mind what it said.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from ishiki.contracts.events import ChannelRef
from ishiki.core.entries import DELIVERY
from ishiki.jsonvalue import read_str
from ishiki.testing.bot_process import BotProcess
from ishiki.testing.onebot_actions import AnswerWhen, Behaviour, DropSocket, Fail, NeverAnswer
from ishiki.testing.onebot_peer import OneBotPeer, SelfReport
from ishiki.testing.openai_replies import Reply, reply_saying
from ishiki.testing.openai_server import ChatRequest, OpenAIServer, Responder
from ishiki.testing.send_answers import SEND_ANSWERS

from .stage import GROUP, LIMIT_S, ended, group, wire_bot

SEND = "send_group_msg"
UNSURE = "probably delivered"
NEWS = "the ferry leaves at nine"
VERSES = ("a first verse", "a second verse", "a third verse")

_self_ids = itertools.count(30_001)

pytestmark = pytest.mark.timeout(120)


@dataclass(frozen=True, slots=True)
class SharedBot:
    """The bot that these tests share, and the port at which it asks its model."""

    bot: BotProcess
    model_port: int


@dataclass(frozen=True, slots=True)
class Stage:
    """An account of one test, in one group."""

    bot: BotProcess
    server: OpenAIServer
    peer: OneBotPeer

    @property
    def channel(self) -> ChannelRef:
        """The group, as the bot knows it."""
        return group(self_id=self.peer.self_id)

    @property
    def shown(self) -> list[str]:
        """What people have seen of the bot."""
        return [sent.text for sent in self.peer.sent]

    @property
    def send_count(self) -> int:
        """How many messages were handed over to the account, shown or not."""
        return sum(call.action == SEND for call in self.peer.calls)

    async def mention(self, words: str) -> None:
        """Let a person speak to the bot."""
        await self.peer.mention(words, group_id=GROUP)

    async def seen(self, words: str) -> None:
        """Wait until people have seen `words`."""
        await self.peer.wait_sent_like(lambda sent: sent.text == words, within=LIMIT_S)

    async def handed_over(self, count: int) -> None:
        """Wait until `count` messages in all were handed over."""
        since = 0
        for _ in range(count):
            call = await self.peer.wait_call(SEND, since=since, within=LIMIT_S)
            since = self.peer.calls.index(call) + 1

    async def leave(self) -> None:
        """Cut the account's connection, and wait until the bot has noticed."""
        since = len(self.bot.log)
        self.peer.drop()
        await self.bot.wait_log(f"account {self.peer.self_id} is disconnected", since=since, within=LIMIT_S)

    async def power_cut(self) -> None:
        """Kill the bot, start it again and connect."""
        await self.bot.kill()
        await self.peer.wait_disconnected(within=LIMIT_S)
        await self.bot.start()
        await self.peer.reconnect()

    async def delivered(self, *states: str) -> None:
        """Wait until the log holds exactly these states of deliveries, in order."""
        await self.bot.wait_entry(lambda _entry: self.deliveries() == [*states], self.channel, within=LIMIT_S)

    def deliveries(self) -> list[str]:
        """Return the states of the deliveries in the log, in order."""
        entries = self.bot.entries(self.channel)
        return [read_str(entry.json_data, "state") for entry in entries if entry.type == DELIVERY]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBot]:
    """Run one bot for the tests that change none of its settings; those that kill it start it again."""
    yield from _running(tmp_path_factory.mktemp("bot"))


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBot]:
    """Run one bot that gives a message one second to be confirmed."""
    yield from _running(tmp_path_factory.mktemp("hasty"), settings={"limits": "{send_s: 1}"})


def _running(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[SharedBot]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    with wire_bot(folder, f"http://127.0.0.1:{port}/v1", settings=settings) as bot:
        yield SharedBot(bot, port)


@asynccontextmanager
async def on_stage(
    shared: SharedBot, responder: Responder, *, report_self_message: SelfReport = "never"
) -> AsyncGenerator[Stage]:
    """Open the model server and a new account, and check at the end that all of it was well-formed."""
    try:
        async with (
            OpenAIServer(responder, port=shared.model_port) as server,
            OneBotPeer(shared.bot.url, self_id=next(_self_ids), report_self_message=report_self_message) as peer,
        ):
            await peer.wait_connected(within=LIMIT_S)
            yield Stage(shared.bot, server, peer)
            assert server.violations == []
            assert peer.malformed == []
    except BaseException as error:
        error.add_note(shared.bot.tail)
        raise


def forgetful(*texts: str) -> Responder:
    """Return a model that says those of `texts` which its request does not show, and a number when it shows all."""

    def respond(request: ChatRequest) -> Reply:
        missing = [words for words in texts if words not in request.all_text]
        return reply_saying(*(missing or [f"reply {request.number}"]))

    return respond


def results_of(request: ChatRequest) -> str:
    """Return the results of tools that a request shows."""
    return "\n".join(read_str(message, "content") for message in request.messages if message.get("role") == "tool")


def at_once() -> Behaviour:
    """Return what an end does that nobody bends: behaviours are scripted for the next calls, in order."""
    event = anyio.Event()
    event.set()
    return AnswerWhen(event)


async def test_a_message_that_was_shown_and_never_confirmed_is_not_said_again_after_a_kill(shared: SharedBot) -> None:
    """Issue, said once; design, deliveries: `sending` without an outcome counts as said."""
    async with on_stage(shared, forgetful(NEWS)) as stage:
        stage.peer.script(SEND, NeverAnswer())
        await stage.mention("when does it leave")
        await stage.seen(NEWS)
        await stage.power_cut()
        assert stage.deliveries() == ["sending"]
        for number in (2, 3, 4):
            await stage.mention(f"go on, {number}")
            await stage.seen(f"reply {number}")
            await ended(stage.bot, stage.channel, number)
        assert stage.shown == [NEWS, "reply 2", "reply 3", "reply 4"]
        assert (stage.send_count, len(stage.server.requests)) == (4, 4)
        assert UNSURE in results_of(stage.server.requests[1])
        assert [request.all_text.count(NEWS) for request in stage.server.requests] == [0, 1, 1, 1]
        assert await ended(stage.bot, stage.channel, 4) == ["turn.aborted", *["turn.done"] * 3]


@pytest.mark.parametrize(
    ("is_first_confirmed", "is_last_shown", "told"),
    [
        pytest.param(False, True, 1, id="the first is shown"),
        pytest.param(True, False, 2, id="the first is confirmed and the second on its way"),
        pytest.param(True, True, 2, id="the first is confirmed and the second shown"),
    ],
)
async def test_of_three_messages_that_a_kill_cuts_none_arrives_twice_and_the_mind_reads_which_it_has_said(
    shared: SharedBot, is_first_confirmed: bool, is_last_shown: bool, told: int
) -> None:
    """Issue, said once; design, deliveries: what may have arrived counts as said, what was not begun does not."""
    async with on_stage(shared, forgetful(*VERSES)) as stage:
        if is_first_confirmed:
            stage.peer.script(SEND, at_once())
        stage.peer.script(SEND, NeverAnswer(performs=is_last_shown))
        await stage.mention("sing")
        await stage.handed_over(told)
        await stage.power_cut()
        await stage.mention("go on")
        await stage.seen(VERSES[-1])
        await ended(stage.bot, stage.channel, 2)
        await stage.mention("thanks")
        await stage.seen("reply 3")
        lost = () if is_last_shown else (VERSES[told - 1],)
        assert stage.shown == [*(verse for verse in VERSES if verse not in lost), "reply 3"]
        request = stage.server.requests[1]
        assert [verse for verse in VERSES if verse in request.all_text] == [*VERSES[:told]]
        assert UNSURE in results_of(request)
        once = ["sing", "go on", *VERSES[:told]]
        assert [request.all_text.count(words) for words in once] == [1] * len(once)


@pytest.mark.parametrize("report", ["never", "before_answer", "after_answer"])
async def test_a_message_that_is_confirmed_later_than_its_limit_is_probably_delivered_and_not_repeated(
    hasty: SharedBot, report: SelfReport
) -> None:
    """Issue, said once: the answer comes behind `limits.send_s`, and nobody was killed."""
    late = anyio.Event()
    async with on_stage(hasty, forgetful(*VERSES[:2]), report_self_message=report) as stage:
        stage.peer.script(SEND, AnswerWhen(late))
        await stage.mention("sing")
        await stage.delivered("sending", "unknown", "sending", "sent")
        assert await ended(stage.bot, stage.channel, 1) == ["turn.done"]
        late.set()
        for number in (2, 3, 4):
            await stage.mention(f"go on, {number}")
            await stage.seen(f"reply {number}")
            await ended(stage.bot, stage.channel, number)
        assert stage.shown == [*VERSES[:2], "reply 2", "reply 3", "reply 4"]
        assert (stage.send_count, len(stage.server.requests)) == (5, 4)
        assert UNSURE in results_of(stage.server.requests[1])
        assert [stage.server.requests[-1].all_text.count(verse) for verse in VERSES[:2]] == [1, 1]


@pytest.mark.parametrize("report", ["before_answer", "after_answer"])
@pytest.mark.parametrize("name", ["napcat timeout", "llbot timeout", "lagrange without a receipt"])
async def test_a_message_that_an_end_calls_timed_out_is_not_said_again_and_its_report_settles_it(
    shared: SharedBot, name: str, report: SelfReport
) -> None:
    """Issue, sends: it was said twice, also where the end then reported it."""
    async with on_stage(shared, forgetful(NEWS)) as stage:
        stage.peer.script(SEND, SEND_ANSWERS[name].behaviour(is_read=True, report=report))
        await stage.mention("when does it leave")
        # The report that comes behind the answer may be read before anybody has acted on the answer.
        settled = [["sending", "sent"], *([["sending", "unknown", "sent"]] if report == "after_answer" else [])]
        await stage.bot.wait_entry(lambda _entry: stage.deliveries() in settled, stage.channel, within=LIMIT_S)
        ids = [read_str(entry.json_data, "id") for entry in stage.bot.entries(stage.channel) if entry.type == DELIVERY]
        assert ids[-1] == str(stage.peer.sent[0].message_id)
        await stage.mention("go on")
        await stage.seen("reply 2")
        assert (stage.shown, len(stage.server.requests)) == ([NEWS, "reply 2"], 2)


@pytest.mark.parametrize("name", ["napcat muted", "llbot muted", "lagrange removed"])
async def test_a_refusal_that_bars_ends_the_turn_and_no_other_one_asks(shared: SharedBot, name: str) -> None:
    """Issue, muted: it cost two requests for every wake."""
    async with on_stage(shared, lambda request: reply_saying(f"reply {request.number}")) as stage:
        since = len(stage.bot.log)
        stage.peer.script(SEND, SEND_ANSWERS[name].behaviour(), times=None)
        await stage.mention("hello")
        await stage.bot.wait_log(
            f"{stage.channel}: .*no turn starts until it may speak again", since=since, within=LIMIT_S
        )
        for number in range(3):
            await stage.mention(f"hello, {number}")
        await stage.bot.wait_facts(4, stage.channel, within=LIMIT_S)
        assert (await ended(stage.bot, stage.channel, 1), stage.send_count) == (["turn.done"], 1)
        stage.peer.unscript(SEND)
        await stage.peer.mute(group_id=GROUP, user_id=stage.peer.self_id, duration_s=0)
        await stage.seen("reply 2")
        await ended(stage.bot, stage.channel, 2)
        assert (stage.shown, len(stage.server.requests)) == (["reply 2"], 2)


async def test_a_muted_account_asks_no_model_until_it_is_lifted(shared: SharedBot) -> None:
    """Issue, muted: OneBot v11, notice `group_ban`."""
    async with on_stage(shared, lambda request: reply_saying(f"reply {request.number}")) as stage:
        since = len(stage.bot.log)
        await stage.peer.mute(group_id=GROUP, user_id=stage.peer.self_id)
        await stage.bot.wait_log(
            f"{stage.channel}: .*no turn starts until it may speak again", since=since, within=LIMIT_S
        )
        for number in range(3):
            await stage.mention(f"hello, {number}")
        await stage.bot.wait_facts(3, stage.channel, within=LIMIT_S)
        await stage.peer.mute(group_id=GROUP, user_id=stage.peer.self_id, duration_s=0)
        await stage.seen("reply 1")
        await ended(stage.bot, stage.channel, 1)
        assert (stage.send_count, len(stage.server.requests)) == (1, 1)
        assert "(notice) you were muted until" in stage.server.requests[0].all_text


async def test_a_refusal_is_told_to_the_mind_which_may_answer_once_more(shared: SharedBot) -> None:
    """Issue, said once; design, outcome `refused`."""

    def respond(request: ChatRequest) -> Reply:
        return reply_saying("in other words" if "the words are not welcome" in results_of(request) else NEWS)

    async with on_stage(shared, respond) as stage:
        stage.peer.script(SEND, Fail(wording="the words are not welcome"))
        await stage.mention("when does it leave")
        await stage.seen("in other words")
        assert await ended(stage.bot, stage.channel, 1) == ["turn.done"]
        assert (stage.shown, len(stage.server.requests)) == (["in other words"], 2)
        assert "SendRefused" in results_of(stage.server.requests[1])
        assert stage.deliveries() == ["sending", "failed", "sending", "sent"]


async def test_two_refusals_in_a_row_end_the_turn_and_the_next_mention_is_answered(shared: SharedBot) -> None:
    """Issue, said once; design: two failed sends in a row end any turn."""
    async with on_stage(shared, lambda request: reply_saying(f"reply {request.number}")) as stage:
        stage.peer.script(SEND, Fail(), times=None)
        await stage.mention("when does it leave")
        assert await ended(stage.bot, stage.channel, 1) == ["turn.done"]
        assert (stage.send_count, len(stage.server.requests)) == (2, 2)
        stage.peer.unscript(SEND)
        await stage.mention("hello?")
        await stage.seen("reply 3")
        assert (stage.shown, stage.send_count, len(stage.server.requests)) == (["reply 3"], 3, 3)


async def test_an_account_that_leaves_in_a_turn_ends_it_and_no_other_turn_asks_until_it_is_back(
    shared: SharedBot,
) -> None:
    """Issue, said once; design, outcome `unreachable`: what waits is answered when the account is back."""
    goes_on = anyio.Event()

    async def respond(request: ChatRequest) -> Reply:
        if request.number == 1:
            await goes_on.wait()
        return reply_saying(f"reply {request.number}")

    async with on_stage(shared, respond) as stage, OneBotPeer(shared.bot.url, self_id=next(_self_ids)) as other:
        since = len(stage.bot.log)
        await stage.mention("when does it leave")
        await stage.server.wait_requests(1, within=LIMIT_S)
        await stage.mention("and when is it back")
        await stage.bot.wait_facts(2, stage.channel, within=LIMIT_S)
        await stage.leave()
        goes_on.set()
        assert await ended(stage.bot, stage.channel, 1) == ["turn.done"]
        await stage.bot.wait_log("no turn starts until it is back", since=since, within=LIMIT_S)
        # The bot is at work: another account is answered, by the second request of all.
        await other.mention("are you there", group_id=GROUP)
        assert [sent.text for sent in await other.wait_sent(1, within=LIMIT_S)] == ["reply 2"]
        await stage.peer.reconnect()
        await stage.seen("reply 3")
        await ended(stage.bot, stage.channel, 2)
        await stage.mention("thanks")
        await stage.seen("reply 4")
        assert (stage.shown, stage.send_count) == (["reply 3", "reply 4"], 2)
        assert ["when does it leave" in request.all_text for request in stage.server.requests] == [
            True,
            False,
            True,
            True,
        ]


async def test_an_account_that_leaves_between_two_messages_is_told_with_the_one_that_was_shown(
    shared: SharedBot,
) -> None:
    """Issue, said once; design: a lost connection behind a message that was handed over counts it as said."""
    async with on_stage(shared, forgetful(*VERSES)) as stage:
        stage.peer.script(SEND, DropSocket(performs=True))
        await stage.mention("sing")
        assert await ended(stage.bot, stage.channel, 1) == ["turn.done"]
        assert (stage.shown, len(stage.server.requests)) == ([VERSES[0]], 1)
        await stage.peer.reconnect()
        await stage.mention("go on")
        await stage.seen("reply 2")
        assert stage.shown == [VERSES[0], "reply 2"]
        told = results_of(stage.server.requests[1])
        assert f"message 1 was {UNSURE}" in told
        assert ("SendUnreachable" in told, '"failedAt":1' in told) == (True, True)
