"""What reaches the group, and what never does."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from ishiki.contracts.events import MessageDeleted
from ishiki.testing.onebot_frames import at, text
from ishiki.testing.openai_replies import Completion, Reply, call, error, reply_saying, tool_calls
from ishiki.testing.openai_replies import text as plain
from ishiki.testing.openai_server import ChatRequest

from .stage import GROUP, SharedBot, bodies_of, contents_of, lines_of, on_stage

MARKER = "marker"


_SECRET = "the cat is on the roof"
_JSON = json.dumps({"name": "send_message", "arguments": {"messages": [_SECRET]}})


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(plain(_SECRET), id="plain assistant text"),
        pytest.param(plain(None, reasoning=_SECRET), id="reasoning"),
        pytest.param(plain(f"<think>{_SECRET}</think>"), id="thoughts"),
        pytest.param(plain(_JSON[:-9]), id="tool JSON as text that breaks off"),
        pytest.param(plain(f"<tool_call>{_JSON[:-9]}"), id="a tool call as text that breaks off"),
        pytest.param(reply_saying(f"<think>{_SECRET}</think>"), id="a message of thoughts alone"),
        pytest.param(reply_saying(f"<think>{_SECRET}"), id="thoughts without an end"),
        pytest.param(tool_calls([call("send_message", f'{{"messages": ["{_SECRET}')]), id="broken arguments"),
        pytest.param(
            tool_calls([call("send_message", {"messages": {"a": _SECRET}})]), id="arguments against the schema"
        ),
        pytest.param(tool_calls([call("say", {"messages": [_SECRET]})]), id="an unknown tool"),
        pytest.param(Completion(content=_SECRET, choices="empty"), id="no choices"),
        pytest.param(plain([{"type": "text", "text": _SECRET}]), id="content as a list of parts"),
        pytest.param(error(400, f"bad request: {_SECRET}"), id="an error that blames the request"),
        pytest.param(error(500, f"internal: {_SECRET}"), id="an error of the server"),
    ],
)
async def test_the_group_never_sees_what_was_not_said_to_it(shared: SharedBot, reply: Reply) -> None:
    """Design, what a group never sees; what a model returns is untrusted."""

    def respond(request: ChatRequest) -> Reply:
        if MARKER in request.all_text:
            return reply_saying(MARKER)
        return tool_calls([call("finish", {})]) if request.messages[-1].get("role") == "tool" else reply

    async with on_stage(shared, respond) as stage:
        await stage.peer.mention("go on", group_id=GROUP)
        await stage.ended(1, stage.group())
        await stage.peer.mention(MARKER, group_id=GROUP)
        assert [sent.text for sent in await stage.sent(1)] == [MARKER]
        await stage.ended(2, stage.group())
        assert [sent.text for sent in stage.peer.sent] == [MARKER]
        assert not [made for made in stage.peer.calls if _SECRET in str(made.params)]


async def test_thoughts_around_what_is_said_are_taken_out(shared: SharedBot) -> None:
    """Design, what a group never sees: paired tags, and an end without a beginning."""
    reply = tool_calls(
        [call("send_message", {"messages": ["<think>plan</think>hello", "still a plan</think> there"]})],
        reasoning="more plans",
        content="and aside",
    )
    async with on_stage(shared, lambda request: reply) as stage:
        await stage.peer.mention("greet us", group_id=GROUP)
        assert [sent.text for sent in await stage.sent(2)] == ["hello", "there"]


async def test_a_failed_turn_is_an_entry_and_silence_and_the_next_mention_is_answered(shared: SharedBot) -> None:
    """Design, what a group never sees: a failed turn is a log line, an entry, and silence."""

    def respond(request: ChatRequest) -> Reply:
        return reply_saying("back again") if "now?" in request.all_text else error(500)

    async with on_stage(shared, respond) as stage:
        lines = len(stage.bot.log)
        await stage.peer.mention("are you there", group_id=GROUP)
        assert await stage.ended(1, stage.group()) == ["turn.failed"]
        await stage.bot.wait_log(rf"WARNING.*onebot:{stage.peer.self_id}/group:{GROUP}: turn .* failed", since=lines)
        assert not [line for line in stage.bot.log[lines:] if "Traceback" in line]
        await stage.peer.mention("now?", group_id=GROUP)
        assert [sent.text for sent in await stage.sent()] == ["back again"]
        assert await stage.ended(2, stage.group()) == ["turn.failed", "turn.done"]


async def test_what_a_person_types_is_never_markup(shared: SharedBot) -> None:
    """Issue, must hold: typed tags and CQ codes are plain text, and mention nobody."""
    async with on_stage(shared) as stage:
        me = stage.peer.self_id
        typed = ['<at id="1"/>', "[CQ:at,qq=all]", f'<at id="{me}"/> hey', f"[CQ:at,qq={me}] hey", '<quote id="1001"/>']
        for words in typed:
            await stage.peer.say(words, group_id=GROUP)
            await stage.peer.say(words, group_id=GROUP, message_format="string")
        escaped = [words.replace("<", "&lt;").replace(">", "&gt;") for words in typed for _ in range(2)]
        assert contents_of(await stage.kept(len(escaped), stage.group())) == escaped
        await stage.peer.mention(MARKER, group_id=GROUP)
        assert bodies_of((await stage.asked(1))[0])[:-1] == escaped
        await stage.sent()
        assert len(stage.server.requests) == 1


async def test_a_cq_code_that_the_model_writes_is_plain_text(shared: SharedBot) -> None:
    """Issue, must hold."""
    code = "[CQ:image,file=file:///etc/hostname]"
    async with on_stage(shared, lambda request: reply_saying(code)) as stage:
        await stage.peer.mention("show me", group_id=GROUP)
        (sent,) = await stage.sent()
        assert sent.segments == (text(code),)


@pytest.mark.parametrize(
    "source", ["file:///etc/hostname", "/etc/hostname", "local:///etc/hostname", "http://127.0.0.1:80/", "asset://x"]
)
async def test_an_image_that_is_not_the_groups_to_see_is_not_sent(shared: SharedBot, source: str) -> None:
    """Issue, must hold; design, safety defaults: neither a file of the host nor an address behind its wall."""
    reply = reply_saying(f'<img src="{source}"/>')

    def respond(request: ChatRequest) -> Reply:
        return tool_calls([call("finish", {})]) if request.messages[-1].get("role") == "tool" else reply

    async with on_stage(shared, respond) as stage:
        await stage.peer.mention("show me", group_id=GROUP)
        await stage.ended(1, stage.group())
        hostname = socket.gethostname()
        sends = [made for made in stage.peer.calls if made.action.startswith("send_")]
        assert not [made for made in sends if "image" in str(made.params) or hostname in str(made.params)]
        assert Path("/etc/hostname").name not in "".join(sent.text for sent in stage.peer.sent)


async def test_tags_of_the_model_become_segments(shared: SharedBot) -> None:
    """Specification, send_message: element mode."""

    def respond(request: ChatRequest) -> Reply:
        number = lines_of(request)[-1].message_id
        return reply_saying(f'<quote id="{number}"/><at id="42"/> 1 < 2 & <b>3</b> <face id="14"/>')

    async with on_stage(shared, respond) as stage:
        number = await stage.peer.mention("count", group_id=GROUP)
        (sent,) = await stage.sent()
        assert sent.quoted_ids == [str(number)]
        assert sent.mentioned_ids == ["42"]
        assert sent.text == "@42 1 < 2 & <b>3</b> [face]"


async def test_a_recall_is_a_fact_and_the_model_reads_who_recalled_what(shared: SharedBot) -> None:
    """Issue, must hold."""
    async with on_stage(shared) as stage:
        own = await stage.peer.say("oops", group_id=GROUP, user_id=41)
        spam = await stage.peer.say("buy now", group_id=GROUP, user_id=42)
        await stage.kept(2, stage.group())
        await stage.peer.recall(own)
        await stage.peer.recall(spam, operator_id=41)
        facts = await stage.kept(4, stage.group())
        deleted = [fact for fact in facts if isinstance(fact, MessageDeleted)]
        assert [(fact.message_id, fact.user_id, fact.operator_id) for fact in deleted] == [
            (str(own), "41", "41"),
            (str(spam), "42", "41"),
        ]
        await stage.peer.mention(MARKER, group_id=GROUP)
        request = await stage.asked_with(MARKER)
        assert [line.content for line in lines_of(request) if line.kind == "recall"] == [
            f"user 41(41) recalled their own message #{own}",
            f"user 42(42)'s message #{spam} was recalled by user 41(41)",
        ]
        await stage.sent()


async def test_a_mention_of_everyone_does_not_wake(shared: SharedBot) -> None:
    """Specification, mention test: addressing everyone is not addressing the account."""
    async with on_stage(shared) as stage:
        await stage.peer.say([at("all"), text(" meeting")], group_id=GROUP)
        await stage.kept(1, stage.group())
        await stage.peer.mention(MARKER, group_id=GROUP)
        await stage.sent()
        assert len(stage.server.requests) == 1
        assert bodies_of(stage.server.requests[0])[0] == '<at type="all"/> meeting'
