"""Servers that fail instead of answering: silence, one failed turn in the log, no secret anywhere, and life goes on."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from ishiki.core.entries import WITHHELD
from ishiki.jsonvalue import JsonValue, read_object, read_str
from ishiki.testing import openai_replies as replies
from ishiki.testing.openai_server import ChatRequest, Responder
from tests.runtime.kit import SELF, Bot, profile_text, running

from .stage import always, mending

KEY = "verysecret-0123456789-abcdef"
KEYED = """\
providers:
  test:
    api: openai-completions
    base_url: {base_url}
    api_key: "${{MODEL_KEY}}"
    models: [{{id: a}}]
"""
QUICK = profile_text("limits: {first_part_s: 1.5, between_parts_s: 1.5}")


def never() -> anyio.Event:
    """Return an event that nobody sets."""
    return anyio.Event()


FAILED: dict[str, tuple[replies.Reply, str]] = {
    "no choices": (replies.Completion(choices="empty"), "model_unavailable"),
    "choices absent": (replies.Completion(choices="absent"), "model_unavailable"),
    "an empty object": (replies.RawReply(body=b"{}"), "model_unavailable"),
    "broken JSON": (replies.garbled(), "model_unavailable"),
    "401 that echoes the key": (replies.error(401, f"Incorrect API key provided: {KEY}."), "model_auth"),
    "404": (replies.error(404, "no such model"), "model_not_found"),
    "429": (replies.error(429, "slow down", retry_after_s=30), "model_rate"),
    "500": (replies.error(500, "Traceback (most recent call last): boom"), "model_unavailable"),
    "502 with a page": (replies.bad_gateway(), "model_unavailable"),
    "a reset": (replies.Reset(), "model_unavailable"),
    "a reset behind the headers": (replies.Reset("after_headers"), "model_unavailable"),
    "a hang": (replies.Hang(), "model_timeout"),
    "a hang behind the headers": (replies.Hang("after_headers"), "model_timeout"),
    "a hang between two parts": (
        replies.Completion(content="hello, all of you", pieces=4, holds={3: never()}),
        "model_timeout",
    ),
    "a hang inside a call": (
        replies.Completion(
            calls=(replies.call("send_message", {"messages": ["hi"]}),), pieces=4, holds={4: never()}
        ),
        "model_timeout",
    ),
    "an end without a finish": (replies.cut("hello, all of you"), "model_cut"),
    "a cut stream": (replies.cut("hello, all of you", ending="cut"), "model_cut"),
    "a reset stream": (replies.cut("hello, all of you", ending="reset"), "model_cut"),
    "a call cut half way": (
        replies.Completion(
            calls=(replies.call("send_message", {"messages": ["hi"]}),), pieces=4, ending="cut", parts_sent=4
        ),
        "model_cut",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILED)
async def test_a_failed_call_is_one_failed_turn_and_silence_and_the_next_mention_is_answered(
    tmp_path: Path, name: str
) -> None:
    """Issue, model faults; design, section 2: a failed turn is a log line, an entry, and silence."""
    reply, code = FAILED[name]
    async with running(tmp_path, QUICK, models=KEYED, environment={"MODEL_KEY": KEY}) as bot:
        bot.server.responder = mending
        bot.server.enqueue(reply)
        bot.mention("hello?")
        await bot.quiet()
        (end,) = bot.ends()
        assert (end["type"], read_str(read_object(end, "error"), "code")) == ("turn.failed", code)
        assert len(bot.logs.holding("failed: test:a")) == 1
        assert len(bot.server.requests) == 1
        assert bot.platform.texts == []
        bot.mention("still there?")
        await bot.quiet()
        assert bot.platform.texts == ["reply 2"]
        assert [request.headers["authorization"] for request in bot.server.requests] == [f"Bearer {KEY}"] * 2
        assert not [line for line in bot.logs.lines if KEY in line]
    written = [file for file in (tmp_path / "data").rglob("*") if file.is_file()]
    assert written
    assert not [file for file in written if KEY.encode() in file.read_bytes()]


REFUSALS: dict[str, replies.Reply] = {
    "400": replies.error(400, "this word is not allowed"),
    "400 content_filter": replies.error(400, "filtered", code="content_filter"),
    "422": replies.error(422, "sensitive words"),
    "finish content_filter": replies.text("", finish_reason="content_filter"),
    "finish content_filter in a call": replies.tool_calls(
        [replies.call("send_message", {"messages": ["POI"]})], finish_reason="content_filter"
    ),
    "finish sensitive": replies.text(None, finish_reason="sensitive"),
}


def refusing(reply: replies.Reply) -> Responder:
    """Return a responder that answers `reply` wherever POISON stands, and is healthy otherwise."""

    def respond(request: ChatRequest) -> replies.Reply:
        return reply if b"POISON" in request.raw else mending(request)

    return respond


def withheld(bot: Bot) -> list[JsonValue]:
    """Return what each entry on disk withholds, in order."""
    return [read_object(entry, "data")["ids"] for entry in bot.entries() if entry.get("type") == WITHHELD]


def turns(bot: Bot, *, since: int) -> list[ChatRequest]:
    """Return the requests of turns from position `since` on; summaries are asked for beside them, without tools."""
    return [request for request in bot.server.requests[since:] if request.tool_names]


def mention(bot: Bot, words: str, number: int, *, message_id: str) -> None:
    """Say something to the mind, as another person for each number: one alone would be taken for a bot."""
    bot.say(f'<at id="{SELF}"/> {words}', user=str(42 + number % 3), message_id=message_id)
    bot.clock.advance(30)


async def healthy_mentions(bot: Bot, count: int, *, run: str = "first run", vain: int = 0) -> None:
    """Say `count` ordinary things to the mind, each of which has to be answered by one request that holds it.

    The first one may be preceded by `vain` requests with what was refused before.
    """
    for number in range(count):
        said, asked = len(bot.platform.texts), len(bot.server.requests)
        mention(bot, f"ordinary line {number}", number, message_id=f"{run}, line {asked}")
        await bot.quiet()
        assert len(bot.platform.texts) == said + 1
        *refused, request = turns(bot, since=asked)
        assert len(refused) == (vain if number == 0 else 0)
        assert f"ordinary line {number}" in request.all_text


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refused_word_mutes_nobody_not_even_after_a_restart(tmp_path: Path, name: str) -> None:
    """Issue, model faults; design, section 2: a refused input must not poison the channel."""
    responder = refusing(REFUSALS[name])
    async with running(tmp_path) as bot:
        bot.server.responder = responder
        await healthy_mentions(bot, 1)
        bot.say("what is POISON?")
        bot.mention("tell them what POISON is")
        await bot.quiet()
        assert [end["type"] for end in bot.ends()] == ["turn.done", "turn.done"]
        assert "[withheld]" in bot.server.requests[-1].all_text
        before = withheld(bot)
        assert len(before) == 1
        await healthy_mentions(bot, 3, vain=1)
        assert "ordinary line 0" in bot.server.requests[-1].all_text
        # Asked for once more, and refused again: the same lines, for a day.
        assert withheld(bot) == before * 2
    async with running(tmp_path) as bot:
        bot.server.responder = responder
        await healthy_mentions(bot, 3, run="second run")
        assert withheld(bot) == before * 2
        assert not [request for request in bot.server.requests if b"POISON" in request.raw]


async def test_a_quote_of_a_refused_line_is_refused_once_more_and_then_withheld_as_well(tmp_path: Path) -> None:
    """Design, section 2, with section 6: a line shows what it quotes, so it carries the word on."""
    async with running(tmp_path) as bot:
        bot.server.responder = refusing(REFUSALS["400"])
        bad = bot.mention("POISON")
        await bot.quiet()
        bot.say(f'<at id="{SELF}"/> why not?', quotes=bad.message_id)
        await bot.quiet()
        assert len(bot.platform.texts) == 2
        await healthy_mentions(bot, 1, vain=1)
        assert not [request for request in bot.server.requests[-1:] if b"POISON" in request.raw]


@pytest.mark.parametrize("refusal", ["content", "setting"])
async def test_a_line_that_was_refused_in_error_is_read_as_soon_as_the_same_request_passes(
    tmp_path: Path, refusal: str
) -> None:
    """Issue, models: a passing refusal hides nothing for good, whatever its words blame."""
    words = "content_filter" if refusal == "content" else "what this server says when it is about to fall over"
    async with running(tmp_path) as bot:
        bot.server.responder = mending
        await healthy_mentions(bot, 1)
        bot.server.enqueue(replies.error(400, words))
        bot.mention("read me")
        await bot.quiet()
        bot.mention("and me")
        await bot.quiet()
        bot.mention("and me too")
        await bot.quiet()
        for request in turns(bot, since=len(bot.server.requests) - 1):
            assert all(line in request.all_text for line in ("read me", "and me", "and me too"))
        assert len(bot.server.requests) <= 1 + 2 + 2 + 1


async def test_where_a_server_refuses_everything_nothing_is_hidden_from_the_model_for_good(tmp_path: Path) -> None:
    """Our choice: a refused setting is no refused word; when it is mended, the mind has read what was said."""
    async with running(tmp_path) as bot:
        bot.server.responder = always(replies.error(400, "unknown field 'tools'"))
        for line in ("first words", "second words"):
            bot.mention(line)
            await bot.quiet()
        assert [end["type"] for end in bot.ends()] == ["turn.failed", "turn.failed"]
        assert withheld(bot) == []
        bot.server.responder = mending
        bot.mention("third words")
        await bot.quiet()
        assert len(bot.platform.texts) == 1
        for line in ("first words", "second words", "third words"):
            assert line in bot.server.requests[-1].all_text


def too_long(limit: int) -> Responder:
    """Return a responder that takes requests of at most `limit` bytes."""
    error = replies.error(400, "This model's maximum context length is small", code="context_length_exceeded")

    def respond(request: ChatRequest) -> replies.Reply:
        return error if len(request.raw) > limit else mending(request)

    return respond


async def test_a_request_that_is_too_long_is_answered_within_the_same_turn(tmp_path: Path) -> None:
    """Issue, model faults; design, section 2: the budget is halved and the request retried once."""
    async with running(tmp_path) as bot:
        bot.server.responder = mending
        for number in range(12):
            words = " ".join(f"{number}{chr(97 + number)}{chr(97 + place)}" for place in range(26)) * 4
            mention(bot, f"line {number}: {words}", number, message_id=f"long {number}")
            await bot.quiet()
        size = len(bot.server.requests[-1].raw)
        bot.server.responder = too_long(size)
        asked = len(bot.server.requests)
        bot.mention("and now?")
        await bot.quiet()
        assert len(turns(bot, since=asked)) == 2
        assert bot.ends()[-1]["type"] == "turn.done"
        assert len(bot.platform.texts) == 13
        assert "and now?" in turns(bot, since=asked)[-1].last_user_text
        await healthy_mentions(bot, 1)
        assert failures(bot) == []


def failures(bot: Bot) -> list[JsonValue]:
    """Return the kinds of the turns that did not end by themselves."""
    return [end["type"] for end in bot.ends() if end["type"] != "turn.done"]
