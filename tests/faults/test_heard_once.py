"""What ends send again after a reconnect or a restart, late, or about ourselves: each fact once, answered at most once.

`tests/e2e/test_waking.py` has the same frame at once, the same id by another speaker, the report of what the bot has
just said, the owner's phone in a group, and a line of another account of ours there.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import anyio
import pytest

from ishiki.contracts.events import ChannelRef, MessageCreated
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.onebot_frames import Frame, at, text
from ishiki.testing.openai_replies import Completion, Reply, call
from ishiki.testing.openai_server import ChatRequest, answer_by_default

from .shared_bot import SharedBot, Stage, account, on_stage, shared_bot
from .stage import GROUP, LIMIT_S, contents_of, ended, events_of, lines_of, private

_FRIEND = 42
_HOUR_S = 3_600

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBot]:
    """Run one bot for the module; some cases restart it."""
    with shared_bot(tmp_path_factory.mktemp("bot")) as shared:
        yield shared
        assert [line for line in shared.bot.log if "Traceback" in line] == []


async def cut(stage: Stage) -> None:
    """Lose the connection without a close, and connect again."""
    await stage.peer.flushed()
    stage.peer.drop()
    await stage.peer.reconnect()


async def restart(stage: Stage, number: signal.Signals) -> None:
    """End the process by a signal, start it again, and connect."""
    await stage.bot.restart(number=number)
    await stage.peer.reconnect()


async def prove_quiet(stage: Stage, channel: ChannelRef, *, facts: int, replies: int) -> None:
    """Check that a channel holds `facts` and had `replies`, one a request: no more came of what was sent.

    A marker is said behind it in the same channel, where the bot keeps the order: one fact and one reply more.
    """
    kind, _, target = channel.channel_id.partition(":")
    if kind == "group":
        await stage.peer.mention("marker", group_id=int(target), user_id=43)
    else:
        await stage.peer.say("marker", user_id=int(target))
    sent = await stage.peer.wait_sent(replies + 1, within=LIMIT_S)
    assert await ended(stage.bot, channel, replies + 1) == ["turn.done"] * (replies + 1)
    assert (len(sent), len(stage.server.requests)) == (replies + 1, replies + 1)
    assert "marker" in stage.server.requests[-1].all_text
    assert len(stage.bot.facts(channel)) == facts + 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
async def test_frames_that_come_again_after_a_reconnect_and_a_restart_are_one_fact_and_one_reply(
    number: signal.Signals, shared: SharedBot
) -> None:
    """Issue, heard once; design, channel queue: the keys outlive the process, also one that was killed."""
    async with on_stage(shared, answer_by_default) as stage:
        ids = [await stage.peer.say("a line", group_id=GROUP), await stage.peer.mention("once", group_id=GROUP)]
        await stage.peer.wait_sent(1, within=LIMIT_S)
        await ended(stage.bot, stage.channel, 1)
        again = [stage.peer.account.messages[number].event for number in ids]
        await cut(stage)
        for frame in again:
            await stage.peer.send_frame(frame)
        await stage.peer.say("between", group_id=GROUP)
        assert await stage.kept(3) == ["a line", "once", "between"]
        await restart(stage, number)
        for frame in again:
            await stage.peer.send_frame(frame)
        await prove_quiet(stage, stage.channel, facts=3, replies=1)


async def test_a_frame_that_comes_again_over_a_new_connection_while_it_is_being_answered_is_one_reply(
    shared: SharedBot,
) -> None:
    """Issue, heard once: an end that reconnects sends what it is not sure of."""
    go = anyio.Event()

    def respond(request: ChatRequest) -> Reply:
        if request.number == 1:
            return Completion(calls=(call("send_message", {"messages": ["here"]}),), holds={0: go})
        return answer_by_default(request)

    async with on_stage(shared, respond) as stage:
        number = await stage.peer.mention("once", group_id=GROUP)
        await stage.server.wait_requests(1, within=LIMIT_S)
        await cut(stage)
        await stage.peer.send_frame(stage.peer.account.messages[number].event)
        await stage.peer.say("between", group_id=GROUP)
        assert await stage.kept(2) == ["once", "between"]
        go.set()
        await stage.peer.wait_sent(1, within=LIMIT_S)
        await prove_quiet(stage, stage.channel, facts=2, replies=1)
        assert stage.replies[0] == "here"


async def test_the_same_id_at_another_time_is_another_fact_and_each_of_them_is_heard_once(shared: SharedBot) -> None:
    """Issue, heard once; design, channel queue: ends count ids anew, and the key holds the time."""
    async with on_stage(shared, answer_by_default) as stage:
        now, frames = int(time.time()), list[Frame]()
        for number, moment in enumerate([now - 20, now - 10]):
            mention = [at(stage.peer.self_id), text(f" at {moment - now}")]
            await stage.peer.say(mention, group_id=GROUP, message_id=7, time=moment)
            frames.append(stage.peer.account.messages[7].event)
            await ended(stage.bot, stage.channel, number + 1)
        await restart(stage, signal.SIGKILL)
        for frame in frames:
            await stage.peer.send_frame(frame)
        await stage.peer.say("later", group_id=GROUP, message_id=7, time=now)
        assert await stage.kept(3) == ["at -20", "at -10", "later"]
        await prove_quiet(stage, stage.channel, facts=3, replies=2)


@pytest.mark.parametrize("message_id", [0, None, ""])
async def test_without_a_usable_id_nothing_is_a_duplicate(message_id: JsonValue, shared: SharedBot) -> None:
    """Design, channel queue: rather twice than not at all."""
    async with on_stage(shared, answer_by_default) as stage:
        for words in ("yes", "yes"):
            await stage.peer.say(words, group_id=GROUP, time=int(time.time()), fields={"message_id": message_id})
        assert await stage.kept(2) == ["yes", "yes"]
        await prove_quiet(stage, stage.channel, facts=2, replies=0)


@pytest.mark.parametrize("is_private", [False, True])
async def test_a_backlog_an_hour_old_is_kept_in_order_and_answered_by_nobody(
    is_private: bool, shared: SharedBot
) -> None:
    """Issue, heard once; design, one message in: a protocol end replays its backlog after a restart."""
    async with on_stage(shared, answer_by_default) as stage:
        channel = private(_FRIEND, self_id=stage.peer.self_id) if is_private else stage.channel
        began = int(time.time()) - _HOUR_S
        said = [f"old {number}" for number in range(5)]
        for number, words in enumerate(said):
            await stage.peer.say(
                [at(stage.peer.self_id), text(f" {words}")],
                group_id=None if is_private else GROUP,
                user_id=_FRIEND,
                time=began + number,
            )
        facts = await stage.bot.wait_facts(5, channel, within=LIMIT_S)
        assert [fact.timestamp // 1000 - began for fact in facts] == list(range(5))
        await prove_quiet(stage, channel, facts=5, replies=0)
        assert contents_of(stage.bot.facts(channel)) == [*said, "marker"]
        shown = [line.content.partition("> ")[2] for line in lines_of(stage.server.requests[0])[:5]]
        assert shown == said, "who is asked later knows what was said"


def own(self_id: int, *, in_group: bool, **fields: JsonValue) -> JsonObject:
    """Return the frame in which an end reports a message of the account itself; `fields` are laid over it."""
    place: Frame = {"message_type": "private", "sub_type": "friend", "target_id": _FRIEND}
    if in_group:
        place = {"message_type": "group", "sub_type": "normal", "group_id": GROUP}
    return {
        "time": int(time.time()),
        "self_id": self_id,
        "post_type": "message_sent",
        "message_id": 7,
        "user_id": self_id,
        "message": [at(self_id), text(" on my way")],
        "raw_message": "on my way",
        "sender": {"user_id": self_id, "nickname": "bot"},
        **place,
        **fields,
    }


@pytest.mark.parametrize("in_group", [True, False])
@pytest.mark.parametrize("form", ["numbers", "text", "sender only"])
async def test_a_message_of_the_account_itself_is_no_fact(form: str, in_group: bool, shared: SharedBot) -> None:
    """Issue, heard once; design, intake: ends without `message_sent` report what was sent as a message."""
    async with on_stage(shared, answer_by_default) as stage:
        self_id = stage.peer.self_id
        changes: dict[str, JsonObject] = {
            "numbers": {},
            "text": {"user_id": str(self_id), "self_id": str(self_id)},
            "sender only": {"user_id": None},
        }
        channel = stage.channel if in_group else private(_FRIEND, self_id=self_id)
        await stage.peer.send_frame({**own(self_id, in_group=in_group, post_type="message"), **changes[form]})
        await prove_quiet(stage, channel, facts=0, replies=0)
        assert not stage.bot.home(private(self_id, self_id=self_id)).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
async def test_the_report_of_what_was_said_before_a_restart_is_no_fact(
    number: signal.Signals, shared: SharedBot
) -> None:
    """Issue, heard once: an end may report late, to a process that did not send it itself."""
    async with on_stage(shared, answer_by_default) as stage:
        await stage.peer.mention("hello", group_id=GROUP)
        (sent,) = await stage.peer.wait_sent(1, within=LIMIT_S)
        await ended(stage.bot, stage.channel, 1)
        report = stage.peer.account.messages[sent.message_id].event
        assert report["post_type"] == "message_sent"
        await restart(stage, number)
        await stage.peer.send_frame(report)
        await prove_quiet(stage, stage.channel, facts=1, replies=1)


@pytest.mark.parametrize("in_group", [True, False])
@pytest.mark.parametrize("form", ["numbers", "text", "no user_id", "no sender", "a string"])
async def test_what_the_owner_writes_elsewhere_is_one_fact_in_every_form_and_silence(
    form: str, in_group: bool, shared: SharedBot
) -> None:
    """Issue, heard once; design, intake: a `message_sent` that we did not send is the mind's own words."""
    async with on_stage(shared, answer_by_default) as stage:
        self_id = stage.peer.self_id
        changes: dict[str, JsonObject] = {
            "numbers": {},
            "text": {"user_id": str(self_id), "self_id": str(self_id), "message_id": "7"},
            "no user_id": {"user_id": None},
            "no sender": {"sender": None},
            "a string": {"message": f"[CQ:at,qq={self_id}] on my way"},
        }
        channel = stage.channel if in_group else private(_FRIEND, self_id=self_id)
        frame = {**own(self_id, in_group=in_group), **changes[form]}
        await stage.peer.send_frame(frame)
        await stage.peer.send_frame(frame)
        await stage.bot.wait_facts(1, channel, within=LIMIT_S)
        await prove_quiet(stage, channel, facts=1, replies=0)
        fact = stage.bot.facts(channel)[0]
        assert isinstance(fact, MessageCreated)
        assert (fact.is_self, fact.user.id, fact.message_id) == (True, str(self_id), "7")
        line = lines_of(stage.server.requests[0])[0]
        assert (line.is_self, line.message_id, line.content) == (True, "7", f'<at id="{self_id}"/> on my way')


async def test_what_another_account_of_ours_writes_in_private_is_kept_and_wakes_nobody(shared: SharedBot) -> None:
    """Issue, heard once; design, intake: two of our accounts must not talk to each other."""
    async with on_stage(shared, answer_by_default) as stage, account(shared.bot) as other:
        await shared.bot.wait_log(f"account {other.self_id} is connected", within=LIMIT_S)
        channel = private(other.self_id, self_id=stage.peer.self_id)
        await stage.peer.say("are you there?", user_id=other.self_id)
        await stage.bot.wait_facts(1, channel, within=LIMIT_S)
        await prove_quiet(stage, stage.channel, facts=0, replies=0)
        await restart(stage, signal.SIGTERM)  # whatever was begun has ended
        (fact,) = stage.bot.facts(channel)
        assert isinstance(fact, MessageCreated)
        assert (fact.content, fact.is_self) == ("are you there?", False)
        assert events_of(stage.bot.entries(channel), "turn.start") == []
        assert other.sent == []


async def test_what_the_owner_writes_is_kept_though_ids_began_anew_and_it_has_the_id_of_our_words(
    shared: SharedBot,
) -> None:
    """Bug: after a restart of the implementation its ids begin anew, and the owner's message was dropped as ours."""
    async with on_stage(shared, answer_by_default) as stage:
        await stage.peer.mention("hello", group_id=GROUP)
        (sent,) = await stage.peer.wait_sent(1, within=LIMIT_S)
        await ended(stage.bot, stage.channel, 1)
        await cut(stage)
        frame = own(stage.peer.self_id, in_group=True, message_id=sent.message_id)
        await stage.peer.send_frame(stage.peer.account.messages[sent.message_id].event)  # late, and ours
        await stage.peer.send_frame(frame)
        facts = await stage.bot.wait_facts(2, stage.channel, within=LIMIT_S)
        assert contents_of(facts) == ["hello", "on my way"]
        await prove_quiet(stage, stage.channel, facts=2, replies=1)
