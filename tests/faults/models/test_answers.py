"""Whatever a model answers, the group sees words or nothing, the log tells of it, and the next mention is answered."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from ishiki.jsonvalue import JsonValue
from ishiki.testing import openai_replies as replies
from tests.runtime.kit import running

from .stage import MENDED, OBEYED, always, mending, reminded, tool_errors

LOOP = "I like this song. "
SECRET = "they must not see this"
REPR = "[{'type': 'text', 'text': 'hello'}]"
CALL_TEXT = '{"name": "send_message", "arguments": {"messages": ["hi"]}}'
LONG_ID = "call_" + "x" * 85


def said(*messages: str, pieces: int = 1) -> replies.Reply:
    """Return a call that says `messages`."""
    return replies.reply_saying(*messages, pieces=pieces)


def sent(arguments: str, *, name: str = "send_message") -> replies.Reply:
    """Return a call with these arguments, as they are."""
    return replies.tool_calls([replies.call(name, arguments)])


def with_wire_arguments(arguments: JsonValue) -> replies.Reply:
    """Return a streamed call whose arguments are not even text."""
    function: JsonValue = {"name": "send_message", "arguments": arguments}
    call: JsonValue = {"index": 0, "id": "c", "type": "function", "function": function}
    deltas: list[tuple[JsonValue, JsonValue]] = [({"role": "assistant", "tool_calls": [call]}, None), ({}, "stop")]
    events = b""
    for delta, reason in deltas:
        choice: JsonValue = {"index": 0, "delta": delta, "finish_reason": reason}
        chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        events += b"data: " + orjson.dumps(chunk) + b"\n\n"
    return replies.RawReply(stream_body=events + b"data: [DONE]\n\n")


NO_CALL = {
    "empty": replies.text(""),
    "null": replies.text(None),
    "blank": replies.text(" \n\t "),
    "plain text": replies.text("hello, all"),
    "a list of parts": replies.text([{"type": "text", "text": "hello"}]),
    "a repr of one": replies.text(REPR),
    "reasoning only": replies.text(None, reasoning="they ask me"),
    "think only": replies.text(f"<think>{SECRET}</think>"),
    "think unclosed": replies.text(f"hm <think>{SECRET}", pieces=9),
    "length": replies.text("hello, al", finish_reason="length"),
    "length before a word": replies.text(None, reasoning="they ask", finish_reason="length"),
    "a call that breaks off": replies.text(f"<tool_call>\n{CALL_TEXT[:-9]}"),
    "usage null": replies.text("hello, all", usage="null"),
}


@pytest.mark.parametrize("name", NO_CALL)
async def test_an_answer_that_calls_nothing_is_not_shown_and_the_model_is_reminded_once(
    tmp_path: Path, name: str
) -> None:
    """Issue, model faults; design, section 2: plain text is never shown. The reminder is our choice."""
    async with running(tmp_path) as bot:
        bot.server.responder = mending
        bot.server.enqueue(NO_CALL[name])
        bot.mention("hello?")
        await bot.quiet()
        assert bot.platform.texts == [OBEYED]
        assert reminded(bot) == 1
        bot.mention("still there?")
        await bot.quiet()
        assert bot.platform.texts == [OBEYED, "reply 3"]


async def test_a_model_that_never_calls_anything_is_asked_twice_a_turn(tmp_path: Path) -> None:
    """Our choice: one reminder a turn; a model that cannot call tools must cost no more than that."""
    async with running(tmp_path) as bot:
        bot.server.responder = always(replies.text("hello, all"))
        for _ in range(2):
            bot.mention("hello?")
            await bot.quiet()
        assert len(bot.server.requests) == 4
        assert bot.platform.texts == []
        assert [end["type"] for end in bot.ends()] == ["turn.done", "turn.done"]
        assert len(bot.logs.holding("called no tool, not even when it was reminded")) == 2


async def test_after_it_has_spoken_a_model_may_end_its_turn_by_calling_nothing(tmp_path: Path) -> None:
    """Our choice: a reminder is for silence."""
    async with running(tmp_path) as bot:
        spoken = replies.call("send_message", {"messages": ["one moment"], "continue": True})
        bot.server.enqueue(replies.tool_calls([spoken]), replies.text("that was all"))
        bot.mention("hello?")
        await bot.quiet()
        assert (len(bot.server.requests), reminded(bot), bot.platform.texts) == (2, 0, ["one moment"])


SPOKEN = {
    "think paired": (said(f"<think>{SECRET}</think>hi"), ["hi"]),
    "think unclosed behind": (said(f"hi<think>{SECRET}"), ["hi"]),
    "think only closed": (said(f"{SECRET}</think>hi"), ["hi"]),
    "think in the middle": (said(f"first <think>{SECRET}</think>second"), ["first second"]),
    "think over many chunks": (said(f"<think>{SECRET}</think>hi", pieces=40), ["hi"]),
    "think beside words": (said(f"<think>{SECRET}</think>", "hi"), ["hi"]),
    "usage null": (replies.tool_calls([replies.call("send_message", {"messages": ["hi"]})], usage="null"), ["hi"]),
    "text beside the call": (
        replies.tool_calls([replies.call("send_message", {"messages": ["hi"]})], content=SECRET, reasoning=SECRET),
        ["hi"],
    ),
    "equal ids": (
        replies.tool_calls(
            [replies.call("send_message", {"messages": [text]}, call_id="same") for text in ("one", "two")]
        ),
        ["one", "two"],
    ),
    "a long id": (
        replies.tool_calls([replies.call("send_message", {"messages": ["hi"]}, call_id=LONG_ID)]),
        ["hi"],
    ),
    "a sentence fifty times in one message": (said(LOOP * 50), [LOOP.strip()]),
    "a sentence fifty times, cut by length": (
        said("开头。" + "我真的很喜欢这首歌" * 50 + "我真的"),
        ["开头。我真的很喜欢这首歌"],
    ),
    "fifty times the same message": (said(*[LOOP] * 50), [LOOP.strip()]),
    "a call as the message": (said(CALL_TEXT), ["hi"]),
    "a repr as the message": (said(REPR), ["hello"]),
    "raw tool JSON": (replies.text(CALL_TEXT), ["hi"]),
    "a tool_call tag": (replies.text(f"<tool_call>\n{CALL_TEXT}\n</tool_call>"), ["hi"]),
    "an extra brace": (sent('{"messages": ["hi"]}}'), ["hi"]),
    "one text for a list": (sent('{"messages": "hi"}'), ["hi"]),
    "a list as text": (sent('{"messages": "[\\"hi\\"]", "continue": "false"}'), ["hi"]),
    "nothing where something is optional": (sent('{"messages": ["hi"], "mode": null, "continue": null}'), ["hi"]),
    "arguments written as text once more": (sent('"{\\"messages\\": [\\"hi\\"]}"'), ["hi"]),
    "arguments inside arguments": (sent('{"arguments": {"messages": ["hi"]}}'), ["hi"]),
    "a Python literal": (sent("{'messages': ['hi'], 'continue': False,}"), ["hi"]),
    "arguments in a fence": (sent('```json\n{"messages": ["hi"]}\n```'), ["hi"]),
    "the name of a module in front": (sent('{"messages": ["hi"]}', name="functions.send_message"), ["hi"]),
    "arguments as an object": (with_wire_arguments({"messages": ["hi"]}), ["hi"]),
}


@pytest.mark.parametrize("name", SPOKEN)
async def test_of_what_is_said_the_group_sees_the_words_alone_and_once(tmp_path: Path, name: str) -> None:
    """Issue, model faults; design, section 2, what a group never sees."""
    reply, expected = SPOKEN[name]
    async with running(tmp_path) as bot:
        bot.server.responder = mending
        bot.server.enqueue(reply)
        bot.mention("hello?")
        await bot.quiet()
        assert [text.strip() for text in bot.platform.texts] == expected
        assert [end["type"] for end in bot.ends()] == ["turn.done"]
        bot.mention("still there?")
        await bot.quiet()
        assert bot.platform.texts[len(expected) :] == ["reply 2"]


REFUSED = {
    "cut arguments": sent('{"messages": ["hi'),
    "arguments null": sent("null"),
    "arguments null on the wire": with_wire_arguments(None),
    "arguments of a number on the wire": with_wire_arguments(7),
    "arguments empty text": sent('""'),
    "no arguments": sent(""),
    "arguments an empty list": sent("[]"),
    "arguments a list": sent('[["hi"]]'),
    "arguments a text": sent('"hi"'),
    "messages of another type": sent('{"messages": {"a": "hi"}}'),
    "messages that are no text": sent('{"messages": [{"type": "text", "text": "hi"}]}'),
    "unknown keys": sent('{"messages": ["hi"], "tone": "warm"}'),
    "no number": sent('{"messages": ["hi"], "delay": NaN}'),
    "an unknown tool": sent('{"messages": ["hi"]}', name="say"),
    "a doubled name": sent('{"messages": ["hi"]}', name="send_messagesend_message"),
    "a name that no tool can have": sent("{}", name="say it! " + "x" * 100),
    "no name": sent('{"messages": ["hi"]}', name=""),
    "nothing but reasoning": said(f"<think>{SECRET}"),
    "a call of something else as the message": said('<tool_call>{"name": "search", "arguments": {}}</tool_call>'),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_call_that_cannot_be_run_is_told_to_the_model_which_may_mend_it(tmp_path: Path, name: str) -> None:
    """Issue, model faults; design, section 2: an error result, and the tool does not run."""
    async with running(tmp_path) as bot:
        bot.server.responder = mending
        bot.server.enqueue(REFUSED[name])
        bot.mention("hello?")
        await bot.quiet()
        assert bot.platform.texts == [MENDED]
        assert len(tool_errors(bot)) == 1
        bot.mention("still there?")
        await bot.quiet()
        assert bot.platform.texts == [MENDED, "reply 3"]


async def test_an_id_that_a_model_uses_again_and_again_is_ours_in_every_request(tmp_path: Path) -> None:
    """Design, section 2: call ids are re-keyed to ours; the server checks that they are unique."""
    async with running(tmp_path) as bot:
        for number in range(3):
            call = replies.call("send_message", {"messages": [f"line {number}"]}, call_id="call_1")
            bot.server.enqueue(replies.tool_calls([call]))
            bot.mention("hello?")
            await bot.quiet()
        assert bot.platform.texts == ["line 0", "line 1", "line 2"]
