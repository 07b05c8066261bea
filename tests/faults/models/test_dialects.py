"""Servers that are stricter than OpenAI's: every mention is answered, what they take is learnt once, and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from ishiki.engines.toolcall._protocol import TextProtocol
from ishiki.gateway.dialects import DIALECTS as KNOWN
from ishiki.jsonvalue import JsonObject
from ishiki.testing import openai_replies as replies
from ishiki.testing.openai_dialects import DIALECTS, ServerDialect
from ishiki.testing.openai_server import ChatRequest, Responder
from tests.engines.toolcall.protocols import PROTOCOLS, written
from tests.runtime.kit import SELF, Bot, profile_text, running

STRICT = [dialect for dialect in DIALECTS if dialect != "openai"]
TEXT_ENGINES: dict[str, TextProtocol] = dict(
    zip(("v3", "hermes", "qwen3coder", "morph-xml", "yaml-xml"), PROTOCOLS, strict=True)
)
DECLARED = """\
providers:
  test:
    api: openai-completions
    base_url: {{base_url}}
    dialect: {dialect}
    models: [{{{{id: a}}}}]
"""


def speaking(request: ChatRequest) -> replies.Reply:
    """Answer as a model does that thinks, says one thing, now and then two, and calls a tool that is not there."""
    last = request.messages[-1]
    if last.get("role") == "tool" or " returned: " in str(last.get("content")).rpartition("\n\n")[2]:
        return replies.tool_calls([replies.call("finish", {})])
    said = f"reply {request.number}"
    calls = [replies.ToolCall("send_message", f'{{"messages":["{said}"]}}', signature=f"signature {request.number}")]
    if request.number % 3 == 0:
        calls.append(replies.call("no_such_tool", {}))
    return replies.tool_calls(calls, reasoning="hm")


def in_text(engine: str) -> Responder:
    """Return a responder that writes its calls as an engine reads them."""

    def respond(request: ChatRequest) -> replies.Reply:
        arguments: JsonObject = {"messages": [f"reply {request.number}"]}
        return replies.text(written(TEXT_ENGINES[engine], "send_message", arguments))

    return respond


async def mentioned(bot: Bot, number: int) -> None:
    """Somebody says something to the mind, and somebody else goes on talking."""
    for words, user in ((f"by the way {number}", "7"), (f'<at id="{SELF}"/> line {number}', str(420 + number))):
        bot.say(words, user=user)
        bot.clock.advance(30)
    await bot.quiet()


async def hold_a_conversation(bot: Bot, mentions: int = 4) -> list[int]:
    """Say something to the mind `mentions` times; return how many requests each answer took, the refused ones too."""
    taken: list[int] = []
    for number in range(mentions):
        asked, said = len(bot.server.requests), len(bot.platform.texts)
        await mentioned(bot, number)
        assert len(bot.platform.texts) == said + 1, f"mention {number} was not answered once"
        taken.append(len(bot.server.requests) - asked)
    for number in range(mentions):
        assert f"line {number}" in bot.server.requests[-1].all_text
        assert f"by the way {number}" in bot.server.requests[-1].all_text
    assert [end["type"] for end in bot.ends()] == ["turn.done"] * mentions
    return taken


@pytest.mark.parametrize("dialect", STRICT)
async def test_every_mention_is_answered_by_a_strict_server_and_its_form_is_learnt_once(
    tmp_path: Path, dialect: ServerDialect
) -> None:
    """Issue, models: roles, schemas, results, reasoning and ids as real servers want them, learnt from the refusal."""
    async with running(tmp_path) as bot:
        bot.server.responder = speaking
        bot.server.dialect = dialect
        await hold_a_conversation(bot)
        # A conversation of every form is behind it: what there was to learn has been learnt.
        asked = len(bot.server.requests)
        said = len(bot.logs.holding("refused the usual form"))
        assert said >= (0 if dialect == "deepseek-r1" else 1)  # which takes calls between two users for a turn
        for number in range(4, 7):
            await mentioned(bot, number)
        assert len(bot.server.requests) - asked <= 3 * 3
        assert len(bot.logs.holding("refused the usual form")) == said
        assert bot.logs.holding("without saying why") == []
        assert len(bot.platform.texts) == 7
        if dialect in ("mistral", "gemini-openai", "deepseek-reasoner"):
            assert f"`dialect: {dialect}`" in bot.logs.holding("refused the usual form")[-1]


@pytest.mark.parametrize("dialect", sorted(set(KNOWN) - {"openai"}))
async def test_a_declared_dialect_spares_every_refusal(tmp_path: Path, dialect: ServerDialect) -> None:
    """Issue, models: a table of what each provider takes; docs/reference/models.md."""
    async with running(tmp_path, models=DECLARED.format(dialect=dialect)) as bot:
        bot.server.responder = speaking
        bot.server.dialect = dialect
        await hold_a_conversation(bot, 6)
        assert bot.logs.holding("asked again in another form") == []
        assert bot.logs.holding("refused the usual form") == []


@pytest.mark.parametrize("engine", TEXT_ENGINES)
@pytest.mark.parametrize("dialect", ["mistral", "deepseek-r1", "vllm-template", "gemma-template", "lmstudio"])
async def test_engines_that_write_calls_as_text_are_answered_by_servers_that_want_turns(
    tmp_path: Path, engine: str, dialect: ServerDialect
) -> None:
    """Issue, models: all five text engines were answered once in three."""
    async with running(tmp_path, profile_text(f"toolcall: {{engine: {engine}}}")) as bot:
        bot.server.responder = in_text(engine)
        bot.server.dialect = dialect
        taken = await hold_a_conversation(bot)
        assert taken[-1] == 1 or engine != "v3"
        assert bot.logs.holding("without saying why") == []


async def test_a_signature_of_geminis_openai_door_goes_back_with_its_call(tmp_path: Path) -> None:
    """Gemini API, thought signatures: it is checked there, so that only the very one is right."""
    async with running(tmp_path, models=DECLARED.format(dialect="gemini-openai")) as bot:
        bot.server.responder = speaking
        bot.server.dialect = "gemini-openai"
        await hold_a_conversation(bot, 1)
        await mentioned(bot, 1)
        assert b'"signature 1"' in bot.server.requests[-1].raw
