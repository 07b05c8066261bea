"""Wakeup `standard`: who wakes the mind, and who does not."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from ishiki.config import validate_config
from ishiki.contracts.events import MESSAGE_CREATED, MESSAGE_DELETED, MessageCreated, MessageDeleted, Quote, User
from ishiki.core.agent import Agent
from ishiki.core.messages import CustomMessage, UserMessage
from ishiki.core.store import MemoryStore
from ishiki.engines.wakeup.standard import StandardWakeup, StandardWakeupConfig, StandardWakeupEngine, wake_reason
from ishiki.errors import ConfigError
from ishiki.testing.scripted_model import ScriptedModel, text

ALL = StandardWakeupConfig(keywords=("neko",))
NONE = StandardWakeupConfig(direct=False, at_self=False, quote_self=False)
AT = '<at id="1" name="Bot"/> hello'
RIN = User("42", "Rin")


def said(
    content: str = "hi",
    *,
    user: User = RIN,
    quote: Quote | None = None,
    channel_id: str = "group:5",
    is_self: bool = False,
) -> MessageCreated:
    """Return what somebody said to account 1."""
    is_direct = channel_id.startswith("private:")
    return MessageCreated(0, "onebot", "1", channel_id, "9", content, is_direct, user, quote=quote, is_self=is_self)


def fact(created: MessageCreated) -> CustomMessage:
    """Return it as the log holds it."""
    return CustomMessage(MESSAGE_CREATED, created.to_data())


@pytest.mark.parametrize(
    ("created", "reason"),
    [
        (said(), ""),
        (said(channel_id="private:42"), "a private message"),
        (said(quote=Quote("7", "hi", User("1"))), "a reply to the account"),
        (said(quote=Quote("7", "hi", User("43"))), ""),
        (said(quote=Quote("7")), ""),
        (said("my neko sleeps"), "a keyword"),
        (said("my Neko sleeps"), ""),
        (said(AT), "a mention of the account"),
        (said('hello <at id="1"/>'), "a mention of the account"),
        (said('<at id="2"/>'), ""),
        (said('<at type="all"/>'), ""),
        (said("&lt;at id=&quot;1&quot;/&gt;"), ""),
        (said(AT + " neko", channel_id="private:42", quote=Quote("7", "hi", User("1"))), "a private message"),
        (said(AT + " neko", quote=Quote("7", "hi", User("1"))), "a reply to the account"),
        (said(AT + " neko"), "a keyword"),
    ],
)
def test_the_first_test_that_holds_is_why_it_wakes(created: MessageCreated, reason: str) -> None:
    """Specification, wakeup `standard`: direct, quote, keyword, mention, in this order."""
    assert wake_reason(created, ALL) == reason
    assert wake_reason(created, NONE) == ""


def test_empty_keywords_match_nothing() -> None:
    """Specification, wakeup `standard`: any non-empty keyword."""
    assert wake_reason(said("anything"), StandardWakeupConfig(keywords=("", ""))) == ""


def test_settings_are_checked_and_have_the_originals_names_too() -> None:
    """Design, configuration; the defaults are the specification's."""
    config = validate_config(StandardWakeupConfig, {"atSelf": False, "keywords": ["a"]})
    assert (config.direct, config.at_self, config.quote_self, config.keywords) == (True, False, True, ("a",))
    with pytest.raises(ConfigError):
        validate_config(StandardWakeupConfig, {"keywords": "a"})
    assert not StandardWakeupEngine.runs_without_input


@asynccontextmanager
async def running(model: ScriptedModel) -> AsyncGenerator[Agent]:
    """Serve an agent that the engine with all its tests wakes."""
    agent = Agent("test", model=model, store=MemoryStore())
    StandardWakeup(ALL, logging.LoggerAdapter(logging.getLogger("test.wakeup"), {})).attach(agent)
    async with anyio.create_task_group() as group:
        await group.start(agent.serve)
        yield agent
        await agent.stop()


async def test_a_message_to_the_mind_gets_one_turn_and_any_other_none() -> None:
    """Specification, message path: a fact is kept; only what is addressed wakes."""
    model = ScriptedModel([text("ok")])
    async with running(model) as agent:
        agent.send(fact(said()), trigger=False)
        await agent.wait()
        assert model.requests == []
        agent.send(fact(said(AT)), trigger=False)
        await agent.wait()
    assert len(model.requests) == 1


async def test_a_message_while_a_turn_runs_gets_exactly_one_more_turn() -> None:
    """Design, decided here: `standard` calls continue_ also when busy."""
    model = ScriptedModel([text("ok"), text("ok")])
    async with running(model) as agent:
        model.hold()
        agent.send(fact(said(AT)), trigger=False)
        await model.wait_requests(1)
        for _ in range(3):
            agent.send(fact(said(AT)), trigger=False, if_busy="join")
        await agent.written()
        model.release()
        await agent.wait()
    assert len(model.requests) == 2


async def test_stale_facts_our_own_words_and_recalls_never_wake(caplog: pytest.LogCaptureFixture) -> None:
    """Design, section 2: engines must not wake on either; specification: deletions never wake."""
    caplog.set_level(logging.DEBUG, "test.wakeup")
    model = ScriptedModel([])
    recall = MessageDeleted(0, "onebot", "1", "private:42", "9", "42", "42")
    async with running(model) as agent:
        agent.send(fact(said(AT)), trigger=False, is_stale=True)
        agent.send(fact(said(AT)), trigger=False, is_self=True)
        agent.send(fact(said(AT, is_self=True)), trigger=False)
        agent.send(fact(said(AT, user=User("1"), channel_id="private:42")), trigger=False)
        agent.send(CustomMessage(MESSAGE_DELETED, recall.to_data()), trigger=False)
        agent.send([UserMessage("neko"), CustomMessage("ishiki.attachment", {})], trigger=False)
        await agent.wait()
    assert model.requests == []
    lines = [record.getMessage() for record in caplog.records if record.name == "test.wakeup"]
    assert len(lines) == 4
    assert "stale_after" in lines[0]


async def test_every_message_leaves_one_line_with_the_decision(caplog: pytest.LogCaptureFixture) -> None:
    """Style, logging: decisions at DEBUG, with why."""
    caplog.set_level(logging.DEBUG, "test.wakeup")
    model = ScriptedModel([text("ok")])
    async with running(model) as agent:
        agent.send(fact(said("nothing")), trigger=False)
        agent.send(fact(said("neko")), trigger=False)
        await agent.wait()
    lines = [record.getMessage() for record in caplog.records if record.name == "test.wakeup"]
    assert lines == ["message 9 does not wake: not spoken to", "message 9 wakes: a keyword"]


async def test_a_detached_engine_wakes_nobody() -> None:
    """Design, contracts: the disposer unsubscribes."""
    model = ScriptedModel([])
    agent = Agent("test", model=model, store=MemoryStore())
    dispose = StandardWakeup(ALL, logging.LoggerAdapter(logging.getLogger("test.wakeup"), {})).attach(agent)
    async with anyio.create_task_group() as group:
        await group.start(agent.serve)
        dispose()
        agent.send(fact(said(AT)), trigger=False)
        await agent.wait()
        await agent.stop()
    assert model.requests == []
