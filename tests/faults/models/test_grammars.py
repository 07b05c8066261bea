"""Calls as text, over HTTP: a mention is answered by the words alone, whichever engine the profile names."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from ishiki.testing import openai_replies as replies
from ishiki.testing.call_grammars import CALL_GRAMMARS, REASONING_FORMS, reply_in_grammar
from ishiki.testing.openai_server import ChatRequest
from tests.faults.shared_bot import SharedBot, on_stage, shared_bot
from tests.runtime.kit import SELF, profile_text, running

from .stage import always, mending

ENGINES = ("native", "v3", "hermes", "qwen3coder", "morph-xml", "yaml-xml")
VENDORS = ("deepseek-v3", "deepseek-dsml", "qwen", "mistral-v11", "kimi-k2", "glm", "gpt-oss", "gemini")


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_mention_is_answered_by_a_call_in_any_grammar(tmp_path: Path, engine: str) -> None:
    """Issue, call markers as text: 30 of 33 were posted or lost."""
    grammars = [name for name in CALL_GRAMMARS if name in VENDORS or name in ("v3", "morph-xml", "yaml-xml", "react")]
    async with running(tmp_path, profile_text(more=f"toolcall: {{engine: {engine}}}")) as bot:
        for number, grammar in enumerate(grammars):
            bot.server.enqueue(
                reply_in_grammar(grammar, "send_message", {"messages": [f"word {number}"]}, pieces=1 + number % 3)
            )
            # Each time somebody else: who is answered again and again at once is taken for a bot.
            bot.say(f'<at id="{SELF}"/> hello?', user=str(100 + number))
            await bot.quiet()
        assert bot.platform.texts == [f"word {number}" for number in range(len(grammars))]


async def test_a_model_that_calls_what_is_not_there_is_asked_three_times(tmp_path: Path) -> None:
    """Issue: 20 requests for one mention; a model that has not found the form by then will not."""
    async with running(tmp_path) as bot:
        bot.server.responder = always(replies.tool_calls([replies.call("say", {"text": "hi"})]))
        bot.mention("hello?")
        await bot.quiet()
        assert len(bot.server.requests) == 3
        assert [end["type"] for end in bot.ends()] == ["turn.done"]
        assert len(bot.logs.holding("every tool call was refused before it ran (say)")) == 1
        bot.server.responder = mending
        bot.mention("still there?")
        await bot.quiet()
        assert bot.platform.texts == ["reply 4"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[SharedBot]:
    """Run one bot for the cases of this file."""
    with shared_bot(tmp_path_factory.mktemp("bot")) as shared:
        yield shared


async def test_the_process_answers_calls_in_any_grammar_and_posts_no_syntax(shared: SharedBot) -> None:
    """Issue, over the sockets: as content each is the call it is; inside a message the words before it are said."""
    pending = [*CALL_GRAMMARS.items()]

    def respond(request: ChatRequest) -> replies.Reply:
        if request.messages[-1].get("role") == "tool":
            return replies.tool_calls([replies.call("finish", {})])
        number = int(re.findall(r"\bm(\d+)\b", request.all_text)[-1])
        _, how = pending[number]
        if number % 2:
            return replies.text(how.write("send_message", {"messages": [f"heard m{number}"]}))
        form = [*REASONING_FORMS.values()][number % len(REASONING_FORMS)]
        torn = how.write("send_message", {"messages": ["SECRET"]})[: -1 - number % 5]
        return replies.reply_saying(f"{form}heard m{number}\n{torn}")

    async with on_stage(shared, respond) as stage:
        for number in range(len(pending)):
            await stage.answered(f"m{number}")
        assert stage.replies == [f"heard m{number}" for number in range(len(pending))]


async def test_the_process_posts_no_head_of_a_line_and_breaks_lines_where_they_are_meant(shared: SharedBot) -> None:
    """Issue: 7 of 7 heads were posted as they stood, and so were written-out line breaks and mentions."""

    def respond(request: ChatRequest) -> replies.Reply:
        if request.messages[-1].get("role") == "tool":
            return replies.tool_calls([replies.call("finish", {})])
        me = stage.peer.self_id
        return replies.reply_saying(
            "[11-30 10:00] (you) #12: one",
            f"Neko({me}): two",
            "three\n[11-30 10:01] Rin(42) #13: SECRET",
            r"four\nlines",
            'five<br/><at qq="42"/> and <at id="Rin"/>',
        )

    async with on_stage(shared, respond) as stage:
        await stage.peer.mention("go", group_id=500, user_id=901)
        await stage.peer.wait_sent_like(lambda sent: "five" in sent.text, within=20)
        assert stage.replies == ["one", "two", "three", "four\nlines", "five\n@42 and @Rin"]
