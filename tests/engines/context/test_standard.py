"""Context `standard`: what requests hold, turn after turn, and that they share their beginning."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from itertools import pairwise
from typing import Literal

import pytest

from ishiki.config import validate_config
from ishiki.contracts.transcript import Transcript
from ishiki.core.entries import CHECKPOINT, COMPACT, Entry
from ishiki.core.messages import (
    AssistantMessage,
    TextPart,
    Usage,
    UserMessage,
)
from ishiki.engines.context._tail import MEMORY_HEAD
from ishiki.engines.context.standard import StandardContext, StandardContextConfig, StandardContextEngine
from ishiki.errors import ConfigError, ModelError
from ishiki.testing.scripted_model import ScriptedModel, call, text

from .kit import LOGGER, chatter, entries, is_prefix, minding, picture, recalled, request, said, turn


def engine(
    max_tokens: int = 32_000, refill_ratio: float = 0.8, *, mode: Literal["channel", "cross"] = "channel"
) -> StandardContext:
    """Return the engine of one runtime."""
    transcript = Transcript(UTC, shows_channel=mode == "cross")
    config = StandardContextConfig(max_tokens=max_tokens, refill_ratio=refill_ratio)
    return StandardContext(config, transcript, mode=mode, logger=LOGGER)


def contents(context: StandardContext, history: Sequence[Entry], *, budget_scale: float = 1.0) -> list[str]:
    """Return what the engine shows of `history`: the texts of user messages, the role of any other."""
    step = request(budget_scale=budget_scale)
    kept = [entry.message for entry in context.prepare_entries(history, step) if entry.message is not None]
    return [
        message.content if isinstance(message, UserMessage) and isinstance(message.content, str) else message.role
        for message in context.render_messages(kept, step)
    ]


def reply(content: str = "ok") -> AssistantMessage:
    """Return what the mind wrote."""
    return AssistantMessage([TextPart(content)])


def no_summary(ref: str | None) -> ScriptedModel:
    """Return a model that never has a summary."""
    return ScriptedModel([], responder=lambda _: text(""))


def test_runs_of_facts_fold_and_anything_else_ends_a_run() -> None:
    """Specification, context `standard`: a change of speaker does not split; traces and attachments do."""
    history = entries(said(1), said(2, user="43"), recalled(1), picture(2), said(3), reply(), said(4), said(5))
    assert contents(engine(), history) == [
        "[01-01 00:00] n42(42) #1: hi\n[01-01 00:00] n43(43) #2: hi\n"
        "[01-01 00:00] (recall) n42(42)'s message #1 was recalled by n43(43)",
        "custom",
        "[01-01 00:00] n42(42) #3: hi",
        "assistant",
        "[01-01 00:00] n42(42) #4: hi\n[01-01 00:00] n42(42) #5: hi",
    ]


def test_in_cross_mode_each_run_of_a_channel_stands_under_its_header() -> None:
    """Specification, cross header, once per run."""
    history = entries(said(1), said(2), said(3, channel_id="group:6"), said(4))
    heads = [content.splitlines() for content in contents(engine(mode="cross"), history)]
    assert [len(lines) for lines in heads] == [3, 2, 2]
    assert heads[0][0] == '[channel target={"sid":"onebot:1","channelId":"group:5"}]'
    assert '"group:6"' in heads[1][0]
    assert engine(mode="cross").instructions() != engine().instructions()


def test_a_history_within_the_budget_is_passed_whole() -> None:
    """Specification, context `standard`: pass-through below the budget."""
    history = entries(said(1), reply(), said(2))
    assert list(engine().prepare_entries(history, request())) == history


def test_without_a_bound_the_entries_are_passed_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    """Specification, context `standard`: maxTokens <= 0 disables the budget, with a warning."""
    history = [*entries(said(1)), Entry(COMPACT, {"summary": "s", "lastEntryId": "x"}, 0)]
    assert engine(0).prepare_entries(history, request()) is history
    assert "no bound" in caplog.text


def test_older_turns_are_cut_off_whole_and_the_cut_stays() -> None:
    """Specification, context `standard`, and design, prefix: once cut, until the ceiling is crossed again."""
    context = engine(1_000)  # 2,000 characters, refilled to 1,600
    history: list[Entry] = []
    firsts: list[str] = []
    for number in range(200):
        history += turn(UserMessage(f"{number:03}" + "x" * 17), reply("y"))
        shown = contents(context, history)
        assert shown[-1] == "assistant"
        firsts.append(shown[0])
    cuts = sum(before != after for before, after in pairwise(firsts))
    assert 10 < cuts < 40
    assert firsts == sorted(firsts)


def test_a_history_without_turns_is_passed_whole_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Specification, context `standard`: no boundary at all."""
    context = engine(10)
    history = entries(*(said(number) for number in range(20)))
    for _ in range(2):
        assert len(context.prepare_entries(history, request())) == 20
    assert len(caplog.records) == 1


def test_a_summary_stands_in_front_of_what_follows_it() -> None:
    """Specification, context `standard`: the newest compaction is the memory."""
    old, new = entries(said(1), said(2)), entries(said(3))
    compacts = [Entry(COMPACT, {"summary": text_, "lastEntryId": old[1].id}, 0) for text_ in ("first", "They met.")]
    shown = contents(engine(), [*old, *compacts, *new])
    assert shown == [f"{MEMORY_HEAD}\nThey met.", "[01-01 00:00] n42(42) #3: hi"]


def test_a_summary_older_than_the_window_stays_in_force() -> None:
    """Design, live window; a checkpoint carries it on, and its bytes stay the same."""
    context = engine()
    data = {"summary": "They met.", "lastEntryId": "long gone"}
    with_compact = [*entries(said(1)), Entry(COMPACT, data, 0), *entries(said(2))]
    with_checkpoint = [Entry(CHECKPOINT, {"compaction": data}, 0), *with_compact[2:]]
    assert contents(context, with_compact)[0] == f"{MEMORY_HEAD}\nThey met."
    first = context.prepare_entries(with_compact, request())[0]
    assert context.prepare_entries(with_checkpoint, request())[0] is first


def test_a_request_that_was_too_long_is_halved_as_often_as_asked_and_whole_again_when_it_fits() -> None:
    """Design, section 2: `context_length_exceeded` halves the budget, whatever we thought it was.

    Bug: what was cut for a request that was refused all the same stayed away for good.
    """
    context = engine()
    history = [entry for number in range(20) for entry in turn(UserMessage(f"{number:02}" + "x" * 98))]
    assert len(contents(context, history)) == 20
    halved = contents(context, history, budget_scale=0.5)
    assert 6 <= len(halved) <= 10
    assert contents(context, history, budget_scale=0.5) == halved
    quartered = contents(context, history, budget_scale=0.25)
    assert 2 <= len(quartered) <= 5
    assert len(contents(context, history)) == 20


def test_an_unbounded_engine_obeys_a_request_that_was_too_long() -> None:
    """Our choice: without a bound of ours the model's own is the one that counts."""
    context = engine(0)
    history = [entry for _ in range(20) for entry in turn(UserMessage("x" * 100))]
    context.prepare_entries(history, request())
    assert len(contents(context, history, budget_scale=0.5)) <= 10


@pytest.mark.parametrize("block", [{"refill_ratio": 0}, {"refillRatio": 1.1}, {"max_tokens": "many"}, {"tokens": 1}])
def test_a_wrong_setting_is_an_error(block: dict[str, float | str]) -> None:
    """Design, configuration: bounds and unknown keys."""
    with pytest.raises(ConfigError):
        validate_config(StandardContextConfig, block)


async def test_consecutive_requests_share_their_beginning_with_recalls_and_pictures_in_the_group() -> None:
    """Design, budgets, prefix."""
    model = ScriptedModel([], responder=lambda _: call("finish", {}))
    async with minding(
        StandardContextEngine(), StandardContextConfig(max_tokens=32_000), model, find_model=no_summary
    ) as mind:
        agent = mind.agent
        for number in range(20):
            for fact in chatter(number):
                agent.send(fact, trigger=False)
            agent.continue_()
            await agent.wait()
    assert len(model.requests) == 20
    for before, after in pairwise(model.requests):
        assert is_prefix(before, after)


async def test_cuts_are_seldom_and_requests_between_them_share_their_beginning() -> None:
    """Design, budgets, prefix: only a cut may change what stands in front."""
    # The provider's usage is an estimate here, so that the budget stays what it is.
    finish = call("finish", {}, usage=Usage(100, 1, is_estimate=True))
    model = ScriptedModel([], responder=lambda _: finish)
    async with minding(
        StandardContextEngine(), StandardContextConfig(max_tokens=16_000), model, find_model=no_summary
    ) as mind:
        agent = mind.agent
        for number in range(80):
            for fact in chatter(number):
                agent.send(fact, trigger=False)
            agent.continue_()
            await agent.wait()
    breaks = [index for index, (before, after) in enumerate(pairwise(model.requests)) if not is_prefix(before, after)]
    assert 1 <= len(breaks) <= 12
    newest = str(model.requests[-1].messages)
    assert "#797" in newest
    assert "#1:" not in newest


async def test_facts_after_an_answer_are_a_message_of_their_own() -> None:
    """Specification, context `standard`: a run is cut by traces."""
    model = ScriptedModel([call("finish", {}), call("finish", {})])
    async with minding(
        StandardContextEngine(), StandardContextConfig(max_tokens=32_000), model, find_model=no_summary
    ) as mind:
        agent = mind.agent
        for number in (1, 2):
            agent.send(said(number), trigger=False)
            agent.continue_()
            await agent.wait()
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "tool", "user"]


async def test_what_requests_really_cost_widens_or_narrows_the_budget() -> None:
    """Specification, context `standard`: learned from usage.inputTokens of each step."""
    costs = iter([1_000, 1_400, 1_400])
    model = ScriptedModel([], responder=lambda _: call("finish", {}, usage=Usage(next(costs), 1)))
    async with minding(
        StandardContextEngine(), StandardContextConfig(max_tokens=1_000), model, find_model=no_summary
    ) as mind:
        agent = mind.agent
        for size in (100, 900, 100):
            agent.send(said(size, "x" * size), trigger=False)
            agent.continue_()
            await agent.wait()
    # Two samples: 0.5 tokens a character at most, and near 950 fixed ones: almost nothing of the history fits.
    (message,) = model.requests[2].messages
    assert str(message).count("#") == 1
    assert "#100:" in str(message)


async def test_a_model_with_a_smaller_window_gets_half_and_answers() -> None:
    """Design, section 2: halved and retried once."""
    too_long = ModelError("too long", kind="context_length", retryable=False)
    model = ScriptedModel([call("finish", {}), call("finish", {}), too_long, text("ok")])
    async with minding(
        StandardContextEngine(), StandardContextConfig(max_tokens=32_000), model, find_model=no_summary
    ) as mind:
        agent = mind.agent
        for number in range(3):
            agent.send(said(number, "x" * 1_000), trigger=False)
            agent.continue_()
            await agent.wait()
    assert len(model.requests) == 4
    assert len(str(model.requests[3].messages)) < len(str(model.requests[2].messages)) * 0.7
    assert "#2:" in str(model.requests[3].messages)
