"""Whatever an implementation answers to a send, a text is read at most once, and a barred channel costs nothing.

One bot in this process for all examples: our adapter under a real web server, real runtimes, a model over HTTP; its
clock is the test's. The model is forgetful: it says whatever its request does not show as said.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
import orjson
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ishiki.contracts.events import ChannelRef
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_object, read_str
from ishiki.plugin.onebot_platform import OneBotPlatform, PlatformLimits
from ishiki.testing.onebot_actions import Behaviour, DropSocket, NeverAnswer, SelfReport
from ishiki.testing.onebot_frames import ok
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_replies import Reply, call, reply_saying, tool_calls
from ishiki.testing.openai_server import ChatRequest
from ishiki.testing.send_answers import SEND_ANSWERS
from ishiki.testing.task_scope import TaskScope
from tests.plugin.bot_kit import Bot as AdapterBot
from tests.plugin.bot_kit import running_bot
from tests.runtime.kit import PROFILE, SELF, Bot, WatchedClock, profile_text, running

pytestmark = pytest.mark.timeout(120)

SEND = "send_group_msg"
LIMITS = PlatformLimits(send_s=0.1, fetch_s=1)
MOST_REQUESTS_A_TURN = 2

_groups = itertools.count(1_001)
_TOKEN = re.compile(r"g\d+m\d+")

Notice: TypeAlias = Literal["muted", "unmuted", "everybody muted", "everybody unmuted", "removed", "joined"]


@dataclass(frozen=True, slots=True)
class Mention:
    """Somebody speaks to the mind, and the next send is answered so."""

    form: str
    """A name of `SEND_ANSWERS`, or `never`, `late`, `drop`."""
    is_read: bool
    report: SelfReport


@dataclass(frozen=True, slots=True)
class Refuse:
    """Every send is answered so from now on."""

    form: str


@dataclass(frozen=True, slots=True)
class Open:
    """Sends work again."""


@dataclass(frozen=True, slots=True)
class Announce:
    """The implementation tells what has become of the account."""

    notice: Notice


@dataclass(frozen=True, slots=True)
class Pass:
    """Time passes."""

    seconds: int


Step: TypeAlias = Mention | Refuse | Open | Announce | Pass

REFUSALS = sorted(name for name, form in SEND_ANSWERS.items() if form.is_read is False)
NOTICES: Sequence[Notice] = ("muted", "unmuted", "everybody muted", "everybody unmuted", "removed", "joined")
REPORTS: Sequence[SelfReport] = ("never", "before_answer", "after_answer")

STEPS: st.SearchStrategy[Step] = st.one_of(
    st.builds(
        Mention,
        st.sampled_from([*sorted(SEND_ANSWERS), "never", "late", "drop"]),
        st.booleans(),
        st.sampled_from(REPORTS),
    ),
    st.builds(Refuse, st.sampled_from(REFUSALS)),
    st.builds(Open),
    st.builds(Announce, st.sampled_from(NOTICES)),
    st.builds(Pass, st.sampled_from([5, 60, 600, 3_600])),
)


def said_in(request: ChatRequest) -> set[str]:
    """Return the texts that the results of a request show as said."""
    texts: dict[str, Sequence[str]] = {}
    said: set[str] = set()
    for message in request.messages:
        for made in read_array(message, "tool_calls"):
            if isinstance(made, Mapping):
                arguments: JsonValue = orjson.loads(read_str(read_object(made, "function"), "arguments") or "{}")
                messages = read_array(arguments, "messages") if isinstance(arguments, Mapping) else ()
                texts[read_str(made, "id")] = [text for text in messages if isinstance(text, str)]
        if message.get("role") == "tool":
            result: JsonObject = orjson.loads(read_str(message, "content"))
            written = texts.get(read_str(message, "tool_call_id"), ())
            failed_at = result.get("failedAt")
            said.update(
                written if result.get("ok") is True else written[: failed_at if isinstance(failed_at, int) else 0]
            )
    return said


def forgetful(request: ChatRequest) -> Reply:
    """Say the news of each token among the lines that the request does not show as said."""
    lines = [read_str(message, "content") for message in request.messages if message.get("role") == "user"]
    said = said_in(request)
    wanted = [f"news of {token}" for token in dict.fromkeys(_TOKEN.findall("\n".join(lines)))]
    missing = [text for text in wanted if text not in said]
    return reply_saying(*missing[:4]) if missing else tool_calls([call("finish", {})])


@dataclass(slots=True)
class Stage:
    """The bot, its adapter, and one account."""

    bot: Bot
    adapter_bot: AdapterBot
    peer: OneBotPeer


@dataclass(slots=True)
class Program:
    """One example, in a group of its own."""

    stage: Stage
    group_id: int
    since: int
    """How many requests there had been before."""
    mentions: int = 0
    closed_by: str = ""
    is_barred: bool = False
    """Whether nothing can be said now, and the bot has been told or has found out."""

    @property
    def channel(self) -> ChannelRef:
        return ChannelRef(f"onebot:{SELF}", f"group:{self.group_id}")

    @property
    def requests(self) -> int:
        """How many requests were about this group."""
        asked = self.stage.bot.server.requests[self.since :]
        return sum(f"g{self.group_id}m" in request.all_text for request in asked)

    @property
    def read(self) -> Counter[str]:
        """How often people have read each text."""
        return Counter(sent.text for sent in self.stage.peer.sent if sent.target_id == self.group_id)

    async def settled(self) -> None:
        """Wait until nothing runs any more."""
        peer, bot = self.stage.peer, self.stage.bot
        with anyio.fail_after(10):
            await peer.flushed()
            await self.stage.adapter_bot.platform.call("get_status", {})  # behind it, what the end has sent is taken in
            await bot.supervisor.drained()
            if (runtime := bot.supervisor.find(PROFILE, self.channel)) is not None:
                agent = runtime.agent
                await agent.written()
                # A turn may end held, with a wake that waits.
                while agent.active_turn_id is not None or not (agent.holds or agent.is_idle()):
                    await anyio.lowlevel.checkpoint()
                await agent.written()

    async def run(self, steps: Sequence[Step]) -> None:
        """Do the steps, and hold what must hold after each."""
        for step in steps:
            was_barred, before, turns = self.is_barred, self.requests, self.turns
            await self.do(step)
            await self.settled()
            assert all(count == 1 for count in self.read.values()), self.read
            assert self.requests - before <= MOST_REQUESTS_A_TURN * (self.turns - turns)
            if was_barred and isinstance(step, Mention | Refuse | Open):
                assert self.requests == before, "a channel in which nothing can be said asks no model"
            if isinstance(step, Pass):
                assert self.turns - turns <= 2, "one try a pause, and one turn for what waited"
            self.learn(step, has_asked=self.requests > before)

    def learn(self, step: Step, *, has_asked: bool) -> None:
        """Take note of whether nothing can be said behind a step."""
        form = self.closed_by or (step.form if isinstance(step, Mention) else "")
        if has_asked and form in SEND_ANSWERS:
            self.is_barred = SEND_ANSWERS[form].bar is not None
        elif isinstance(step, Announce):
            self.is_barred = step.notice in ("muted", "everybody muted", "removed")
        elif isinstance(step, Pass):
            self.is_barred = False

    @property
    def turns(self) -> int:
        entries = self.stage.bot.entries(self.channel)
        events = [read_object(entry, "data") for entry in entries if entry.get("type") == "event"]
        return sum(read_str(data, "type") == "turn.start" for data in events)

    async def do(self, step: Step) -> None:
        match step:
            case Mention():
                await self.mention(step)
            case Refuse(form):
                self.closed_by = form
                self.stage.peer.unscript(SEND)
                self.stage.peer.script(SEND, SEND_ANSWERS[form].behaviour(), times=None)
            case Open():
                self.closed_by = ""
                self.stage.peer.unscript(SEND)
            case Announce(notice):
                await self.announce(notice)
            case Pass(seconds):
                self.stage.bot.clock.advance(seconds)

    async def mention(self, step: Mention) -> None:
        peer = self.stage.peer
        if not self.closed_by:
            peer.unscript(SEND)
            peer.script(SEND, _behaviour(step))
        self.mentions += 1
        words = f"what of g{self.group_id}m{self.mentions}"
        since = len(peer.calls)
        await peer.mention(words, group_id=self.group_id, user_id=100 + self.mentions)
        await self.settled()
        if step.form == "late" and not self.closed_by:
            made = next((one for one in peer.calls[since:] if one.action == SEND), None)
            mine = [sent for sent in peer.sent if sent.target_id == self.group_id]
            if made is not None and mine:
                await peer.send_frame(ok({"message_id": mine[-1].message_id}, made.echo))

    async def announce(self, notice: Notice) -> None:
        peer, own = self.stage.peer, int(SELF)
        everybody = notice.startswith("everybody")
        if notice in ("removed", "joined"):
            kind, sub_type = ("group_decrease", "kick_me") if notice == "removed" else ("group_increase", "approve")
            await peer.notice(kind, sub_type=sub_type, group_id=self.group_id, operator_id=1, user_id=own)
            return
        is_lift = notice.endswith("unmuted")
        await peer.notice(
            "group_ban",
            sub_type="lift_ban" if is_lift else "ban",
            group_id=self.group_id,
            operator_id=1,
            user_id=0 if everybody else own,
            duration=0 if is_lift else -1 if everybody else 600,
        )

    async def end(self) -> None:
        """Let everything work again: what was certainly not read is said, once, and no fact is missing."""
        await self.do(Open())
        await self.announce("joined")
        await self.settled()
        self.stage.bot.clock.advance(3_600)
        await self.settled()
        await self.do(Mention("ok", is_read=True, report="never"))
        await self.settled()
        await self.do(Mention("ok", is_read=True, report="never"))
        await self.settled()
        assert all(count == 1 for count in self.read.values()), self.read
        facts = self.stage.bot.facts(self.channel)
        heard = [token for fact in facts for token in _TOKEN.findall(fact) if "news" not in fact]
        assert heard == [f"g{self.group_id}m{number + 1}" for number in range(self.mentions)]
        lost = {f"news of {token}" for token in heard} - set(self.read)
        assert lost <= self.unsure, "what was certainly refused is said when it can be"

    @property
    def unsure(self) -> set[str]:
        """The texts of which some delivery ended without anybody knowing."""
        entries = self.stage.bot.entries(self.channel)
        deliveries = [read_object(entry, "data") for entry in entries if entry.get("type") == "ishiki.delivery"]
        odd = ("unknown", "sent")
        return {read_str(data, "content") for data in deliveries if read_str(data, "state") in odd}


def _behaviour(step: Mention) -> Behaviour:
    match step.form:
        case "never":
            return NeverAnswer(performs=step.is_read)
        case "late":
            return NeverAnswer()
        case "drop":
            return DropSocket(performs=step.is_read)
        case name:
            return SEND_ANSWERS[name].behaviour(is_read=step.is_read, report=step.report)


@asynccontextmanager
async def open_stage(folder: Path) -> AsyncGenerator[Stage]:
    """Run the bot with one account that connects again whenever it is cut off."""
    clock = WatchedClock()
    profile = profile_text("timezone: UTC\nguards: {turns_per_hour: 0}\nlimits: {send_s: 1, fetch_s: 1}")
    with pytest.MonkeyPatch.context() as patch:
        async with running_bot(patch) as adapter_bot:
            adapter = adapter_bot.adapter

            def platform_for(sid: str) -> OneBotPlatform:
                return OneBotPlatform(
                    sid, accounts=adapter.accounts, sent=adapter.sent, clock=adapter.clock, limits=LIMITS
                )

            async with (
                running(folder, profile, clock=clock, platform_for=platform_for) as bot,
                OneBotPeer(adapter_bot.url, now=lambda: clock.now_ms() / 1000) as peer,
                TaskScope() as tasks,
            ):
                bot.server.responder = forgetful
                adapter.intake.open(bot.supervisor.offer)
                await peer.wait_connected()
                await adapter_bot.platform.wait_online()
                tasks.start_soon(_come_back, peer)
                yield Stage(bot, adapter_bot, peer)
                tasks.cancel_scope.cancel()


async def _come_back(peer: OneBotPeer) -> None:
    for count in itertools.count(1):
        await peer.wait_disconnected(count, within=1_000)
        await peer.reconnect()


@dataclass(frozen=True, slots=True)
class Shared:
    """The stage, and the loop that it lives in."""

    portal: BlockingPortal
    stage: Stage

    def run(self, steps: Sequence[Step]) -> None:
        async def run() -> None:
            program = Program(self.stage, next(_groups), len(self.stage.bot.server.requests))
            self.stage.peer.unscript(SEND)
            await program.run(steps)
            await program.end()

        self.portal.call(run)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """Run one bot for all examples."""
    with start_blocking_portal("asyncio") as portal:
        stage = open_stage(tmp_path_factory.mktemp("bot"))
        with portal.wrap_async_context_manager(stage) as opened:
            yield Shared(portal, opened)


@settings(
    max_examples=120,
    deadline=None,
    # An example is at most eight steps, and a failing one names them: shrinking it takes minutes.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
@given(steps=st.lists(STEPS, min_size=1, max_size=8))
def test_a_text_is_read_at_most_once_and_a_barred_channel_asks_no_model(shared: Shared, steps: list[Step]) -> None:
    """Issue, property 2."""
    shared.run(steps)


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("name", [*sorted(SEND_ANSWERS), "never", "late", "drop"])
def test_each_form_of_an_answer_leaves_a_text_read_once(shared: Shared, name: str, report: SelfReport) -> None:
    """Issue, property 2: every form there is, and not only those that chance draws."""
    form = SEND_ANSWERS.get(name)
    for is_read in (True, False) if form is None or form.is_read is None else (form.is_read,):
        shared.run([Mention(name, is_read, report), Mention("ok", is_read=True, report="never")])
