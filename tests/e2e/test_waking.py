"""What wakes the mind, how often, and where the reply goes: over a real WebSocket, with a model over real HTTP."""

from __future__ import annotations

import time

import anyio
import pytest

from ishiki.contracts.events import ChannelRef, MessageCreated
from ishiki.testing.onebot_frames import at, text
from ishiki.testing.onebot_peer import MentionPlace, OneBotPeer, SelfReport
from ishiki.testing.openai_replies import Completion, Reply, ToolCall, call, reply_saying
from ishiki.testing.openai_server import ChatRequest, OpenAIServer

from .stage import GROUP, KEYWORD, LIMIT_S, SharedBot, Stage, bodies_of, contents_of, lines_of, new_account, on_stage


async def prove_quiet(stage: Stage, channel: ChannelRef, *, sent: int, turns: int) -> None:
    """Show that nothing but `sent` messages and `turns` turns came of what was said in a channel so far."""
    kept = len(stage.bot.facts(channel))
    before = len(stage.peer.sent)
    if channel.channel_id.startswith("group:"):
        await stage.peer.mention("marker", group_id=int(channel.channel_id.removeprefix("group:")))
    else:
        await stage.peer.say("marker", user_id=int(channel.channel_id.removeprefix("private:")))
    await stage.kept(kept + 1, channel)
    await stage.peer.wait_sent(before + 1, within=LIMIT_S)
    await stage.ended(turns + 1, channel)
    assert len(stage.peer.sent) == sent + 1
    assert stage.turn_count(channel) == turns + 1
    assert len(stage.server.requests) == turns + 1


async def test_a_group_line_without_a_mention_is_a_fact_and_no_request(shared: SharedBot) -> None:
    """Issue, must hold."""
    async with on_stage(shared) as stage:
        await stage.peer.say("nobody in particular", group_id=GROUP)
        facts = await stage.kept(1, stage.group())
        assert contents_of(facts) == ["nobody in particular"]
        await prove_quiet(stage, stage.group(), sent=0, turns=0)
        assert bodies_of(stage.server.requests[0])[0] == "nobody in particular"


@pytest.mark.parametrize("where", ["front", "middle", "end"])
async def test_a_mention_anywhere_in_a_line_is_one_turn_and_one_reply_in_the_group(
    shared: SharedBot, where: MentionPlace
) -> None:
    """Issue, must hold."""
    async with on_stage(shared) as stage:
        await stage.peer.mention("are you there", group_id=GROUP, where=where)
        (reply,) = await stage.sent()
        assert (reply.kind, reply.target_id, reply.text) == ("group", GROUP, "reply 1")
        await stage.ended(1, stage.group())
        await prove_quiet(stage, stage.group(), sent=1, turns=1)


async def test_a_quote_of_the_bot_is_one_turn_and_one_reply_in_the_group(shared: SharedBot) -> None:
    """Issue, must hold."""
    async with on_stage(shared) as stage:
        await stage.peer.mention("say something", group_id=GROUP)
        (first,) = await stage.sent()
        await stage.ended(1, stage.group())
        await stage.peer.quote(first.message_id, "what do you mean?", group_id=GROUP)
        reply = (await stage.sent(2))[1]
        assert (reply.kind, reply.target_id, reply.text) == ("group", GROUP, "reply 2")
        await stage.ended(2, stage.group())
        await prove_quiet(stage, stage.group(), sent=2, turns=2)
        assert lines_of(stage.server.requests[1])[-1].reply == f"your #{first.message_id}: reply 1"


async def test_a_keyword_is_one_turn_and_one_reply_in_the_group(shared: SharedBot) -> None:
    """Issue, must hold."""
    async with on_stage(shared) as stage:
        await stage.peer.say(f"has anyone seen {KEYWORD}?", group_id=GROUP)
        (reply,) = await stage.sent()
        assert (reply.kind, reply.target_id, reply.text) == ("group", GROUP, "reply 1")
        await stage.ended(1, stage.group())
        await prove_quiet(stage, stage.group(), sent=1, turns=1)


async def test_a_private_message_is_one_turn_and_one_reply_in_private(shared: SharedBot) -> None:
    """Issue, must hold."""
    async with on_stage(shared) as stage:
        await stage.peer.say("hello", user_id=7)
        (reply,) = await stage.sent()
        assert (reply.kind, reply.target_id, reply.text) == ("private", 7, "reply 1")
        await stage.ended(1, stage.private(7))
        await prove_quiet(stage, stage.private(7), sent=1, turns=1)


async def test_a_private_message_that_carries_a_group_id_is_answered_in_private(shared: SharedBot) -> None:
    """Issue, must hold: a temporary session, which a real end opens through the group."""
    async with on_stage(shared) as stage:
        stage.peer.set_group(GROUP)
        await stage.peer.say("psst", user_id=8, fields={"sub_type": "group", "group_id": GROUP})
        (reply,) = await stage.sent()
        assert (reply.kind, reply.target_id, reply.text) == ("private", 8, "reply 1")
        assert len(await stage.kept(1, stage.private(8))) == 1
        assert stage.bot.facts(stage.group()) == []


@pytest.mark.parametrize("minutes", [-10, 10])
async def test_an_implementation_whose_clock_is_wrong_is_answered_and_the_log_says_by_how_much(
    shared: SharedBot, minutes: int
) -> None:
    """Bug: with a clock ten minutes behind every line was stale, and no line of the log said so."""

    def now() -> float:
        return time.time() + minutes * 60

    async with (
        OpenAIServer(port=shared.model_port) as server,
        OneBotPeer(shared.bot.url, self_id=new_account(), now=now) as peer,
    ):
        await peer.mention("are you there", group_id=GROUP)
        await peer.wait_sent(1, within=LIMIT_S)
        (line,) = [line for line in shared.bot.log if f"account {peer.self_id}: the clock" in line]
        assert "[WARNING]" in line
        assert "behind" in line if minutes < 0 else "ahead of" in line
        # A line that was said long before it came is still too old.
        await peer.say([at(peer.self_id), text("old")], group_id=GROUP, user_id=43, time=int(now()) - 900)
        channel = ChannelRef(f"onebot:{peer.self_id}", f"group:{GROUP}")
        await shared.bot.wait_facts(2, channel, within=LIMIT_S)
        await peer.mention("and now?", group_id=GROUP, user_id=44)
        await peer.wait_sent(2, within=LIMIT_S)
        assert "old" not in server.requests[0].all_text
        assert len(peer.sent) == 2
        assert len(server.requests) == 2


async def test_a_clock_that_is_set_in_mid_life_is_followed(shared: SharedBot) -> None:
    """Our choice: the next heartbeat tells it, and what was said long before it came is too old all the while."""
    async with on_stage(shared) as stage:
        await stage.peer.mention("first", group_id=GROUP)
        await stage.sent()
        for number, ahead_s in enumerate((-900, 900, 0), start=2):
            stage.peer.set_clock(ahead_s)
            await stage.peer.heartbeat()
            old = [at(stage.peer.self_id), text("old")]
            await stage.peer.say(old, group_id=GROUP, user_id=43, time=int(stage.peer.account.now()) - 900)
            await stage.peer.mention("new", group_id=GROUP, user_id=44)
            await stage.sent(number)
            await stage.ended(number, stage.group())
        assert stage.turn_count(stage.group()) == len(stage.peer.sent) == 4
        told = [line for line in shared.bot.log if f"account {stage.peer.self_id}: the clock" in line]
        assert ["behind" in told[0], "ahead of" in told[1], "agrees with ours again" in told[2]] == [True] * len(told)


async def test_the_same_frame_twice_is_one_fact_and_one_reply(shared: SharedBot) -> None:
    """Design, channel queue: ends repeat frames after a reconnect."""
    async with on_stage(shared) as stage:
        number = await stage.peer.mention("once", group_id=GROUP)
        await stage.peer.send_frame(stage.peer.account.messages[number].event)
        await stage.sent()
        await stage.ended(1, stage.group())
        await prove_quiet(stage, stage.group(), sent=1, turns=1)
        assert len(stage.bot.facts(stage.group())) == 2


async def test_the_same_id_by_another_speaker_is_another_fact(shared: SharedBot) -> None:
    """Design, channel queue: platforms reuse ids."""
    async with on_stage(shared) as stage:
        await stage.peer.say("one", group_id=GROUP, message_id=1, user_id=41)
        await stage.peer.say("two", group_id=GROUP, message_id=1, user_id=42)
        assert contents_of(await stage.kept(2, stage.group())) == ["one", "two"]


async def test_twenty_first_messages_at_once_are_twenty_facts_in_the_order_sent(shared: SharedBot) -> None:
    """Issue, must hold: one runtime is built, however many messages ask for it."""
    async with on_stage(shared) as stage:
        said = [f"line {number}" for number in range(20)]
        for line in said:
            await stage.peer.say(line, group_id=GROUP)
        facts = await stage.kept(20, stage.group())
        assert contents_of(facts) == said
        await prove_quiet(stage, stage.group(), sent=0, turns=0)
        assert contents_of(stage.bot.facts(stage.group()))[:-1] == said
        raw = (stage.bot.home(stage.group()) / "events.jsonl").read_text(encoding="utf-8")
        assert raw.count('"type":"header"') == 1
        assert not [line for line in stage.bot.log if "storage_in_use" in line]


async def test_eight_mentions_in_a_burst_are_at_most_three_turns_and_the_last_one_is_seen(shared: SharedBot) -> None:
    """Issue, must hold."""
    async with on_stage(shared) as stage:
        for number in range(8):
            await stage.peer.mention(f"burst-{number}", group_id=GROUP)
        await stage.asked_with("burst-7")
        await stage.kept(8, stage.group())
        await stage.peer.mention("marker", group_id=GROUP)
        await stage.asked_with("marker")
        assert stage.turn_count(stage.group()) <= 3 + 1
        assert len(stage.server.requests) <= 3 + 1
        assert [body for body in bodies_of(stage.server.requests[-1]) if "burst" in body] == [
            f'<at id="{stage.peer.self_id}"/> burst-{number}' for number in range(8)
        ]


def held(calls: list[ToolCall], until: anyio.Event) -> Completion:
    """Return an answer that is held back before its first byte."""
    return Completion(calls=tuple(calls), holds={0: until})


async def test_a_message_during_a_turn_is_in_the_next_steps_request(shared: SharedBot) -> None:
    """Issue, must hold."""
    go = anyio.Event()

    def respond(request: ChatRequest) -> Reply:
        if request.number == 1:
            return held([call("send_message", {"messages": ["wait a moment"], "continue": True})], go)
        return reply_saying("here you are")

    async with on_stage(shared, respond) as stage:
        await stage.peer.mention("look something up", group_id=GROUP)
        await stage.asked(1)
        await stage.peer.say("the blue one", group_id=GROUP)
        await stage.kept(2, stage.group())
        go.set()
        second = (await stage.asked(2))[1]
        assert bodies_of(second)[-1] == "the blue one"
        assert second.messages[-1].get("role") == "user"
        assert [sent.text for sent in await stage.sent(2)] == ["wait a moment", "here you are"]
        await stage.ended(1, stage.group())
        assert stage.turn_count(stage.group()) == 1


@pytest.mark.parametrize("wakes", [True, False])
async def test_a_message_that_comes_too_late_for_a_turn_gets_one_more_turn_only_if_it_wakes(
    shared: SharedBot, wakes: bool
) -> None:
    """Issue, must hold: if the turn ends first, exactly one more turn sees it, if it is one that wakes."""
    go = anyio.Event()

    def respond(request: ChatRequest) -> Reply:
        if request.number == 1:
            return held([call("send_message", {"messages": ["first"]})], go)
        return reply_saying(f"reply {request.number}")

    async with on_stage(shared, respond) as stage:
        await stage.peer.mention("one thing", group_id=GROUP)
        await stage.asked(1)
        if wakes:
            await stage.peer.mention("another thing", group_id=GROUP)
        else:
            await stage.peer.say("another thing", group_id=GROUP)
        await stage.kept(2, stage.group())
        go.set()
        turns = 2 if wakes else 1
        await stage.sent(turns)
        await stage.ended(turns, stage.group())
        await prove_quiet(stage, stage.group(), sent=turns, turns=turns)
        assert "another thing" not in stage.server.requests[0].all_text
        assert "another thing" in stage.server.requests[1].all_text


@pytest.mark.parametrize("report", ["before_answer", "after_answer"])
async def test_the_report_of_what_the_bot_said_is_no_fact_and_no_reply(shared: SharedBot, report: SelfReport) -> None:
    """Design, intake: ends report own messages on either side of the API's answer."""
    async with on_stage(shared, report_self_message=report) as stage:
        await stage.peer.mention("hello", group_id=GROUP)
        await stage.sent()
        await stage.ended(1, stage.group())
        await prove_quiet(stage, stage.group(), sent=1, turns=1)
        assert [fact.is_self for fact in stage.bot.facts(stage.group()) if isinstance(fact, MessageCreated)] == [
            False,
            False,
        ]


async def test_what_the_owner_writes_from_the_phone_is_the_minds_own_words_and_wakes_nobody(shared: SharedBot) -> None:
    """Design, intake: a `message_sent` that this process did not send."""
    async with on_stage(shared) as stage:
        words = [at(stage.peer.self_id), text(f" {KEYWORD}, I am on my way")]
        await stage.peer.say_from_phone(words, group_id=GROUP)
        (fact,) = await stage.kept(1, stage.group())
        assert isinstance(fact, MessageCreated)
        assert fact.is_self
        await prove_quiet(stage, stage.group(), sent=0, turns=0)
        line = lines_of(stage.server.requests[0])[0]
        assert (line.is_self, line.content.endswith("I am on my way")) == (True, True)


async def test_a_line_of_another_account_of_ours_is_kept_and_wakes_nobody(shared: SharedBot) -> None:
    """Design, intake: two of our accounts in one group must not talk to each other."""
    async with on_stage(shared) as stage, OneBotPeer(shared.bot.url, self_id=new_account()) as other:
        await other.wait_connected()
        await shared.bot.wait_log(f"account {other.self_id} is connected")
        await stage.peer.say([at(stage.peer.self_id), text(f" {KEYWORD}?")], group_id=GROUP, user_id=other.self_id)
        (fact,) = await stage.kept(1, stage.group())
        assert isinstance(fact, MessageCreated)
        assert not fact.is_self
        await prove_quiet(stage, stage.group(), sent=0, turns=0)
