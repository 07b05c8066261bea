"""Wakeup `willingness`: its figures, and when the mind wakes by them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.config import ConfigDocument, parse_yaml, validate_config
from ishiki.contracts.events import MessageCreated, Quote, User
from ishiki.contracts.host import CrossDomain
from ishiki.core.entries import EVENT, Entry, message_entry
from ishiki.core.events import WakeupDecision
from ishiki.engines.wakeup.willingness import (
    WillingnessConfig,
    WillingnessEngine,
    WillingnessSettings,
    WillingnessV3Engine,
    chance_of,
    decay,
    grown,
)
from ishiki.errors import ConfigError
from ishiki.testing.clock import FakeClock, FixedRandom

from .kit import GROUP, LOGGER, Mind, at, fact, minding, quoting_self, said

ENGINE = WillingnessEngine()
DEFAULT = WillingnessConfig()
QUIET = WillingnessConfig(base=0)
NEVER = FixedRandom([0.999999])


async def scores(mind: Mind, count: int) -> list[float]:
    """Let the mind hear plain messages and return the score after each."""
    return [(await mind.hear(said(message_id=f"m{number}"))).fields["score"] for number in range(count)]


@pytest.mark.parametrize(
    ("created", "config", "score"),
    [
        (said(), DEFAULT, 12),
        (said(at), DEFAULT, 100),
        (said(quote=quoting_self), DEFAULT, 27),
        (said(quote=Quote("7", "well", User("43"))), DEFAULT, 12),
        (said(channel="private:42"), DEFAULT, 52),
        (said("my neko sleeps"), WillingnessConfig(keywords=("neko",)), 14.4),
        (said("my Neko sleeps"), WillingnessConfig(keywords=("neko", "")), 12),
        (said(at, quote=quoting_self), WillingnessConfig(base=0, at_mention=10, is_quote=5), 15),
        (said(), WillingnessConfig(default_multiplier=0.5), 6),
    ],
)
async def test_the_first_message_scores_as_the_specification_says(
    created: MessageCreated, config: WillingnessConfig, score: float
) -> None:
    """Specification, wakeup `willingness`, pinned numbers; the keyword test is that of all engines."""
    async with minding(ENGINE, config, random=NEVER) as mind:
        decision = await mind.hear(created)
    assert decision.fields["score"] == pytest.approx(score)
    assert decision.fields["gain"] == pytest.approx(score)


async def test_a_score_halves_in_600_seconds_and_is_gone_after_20_half_lives() -> None:
    """Specification, pinned numbers."""
    config = WillingnessConfig()
    assert decay(12, 600_000, config) == pytest.approx(6)
    assert decay(12, 20 * 600_000, config) == 0
    assert decay(12, 999, config) == 12, "whole seconds count"
    async with minding(ENGINE, QUIET) as mind:
        await mind.hear(said(at, message_id="1"))
        assert await scores(mind, 1) == [65.0], "100, less 35 for the turn it woke"


async def test_each_turn_costs_35_down_to_nothing() -> None:
    """Specification, pinned numbers: 100, after a turn 65, and so on to 0."""
    left: list[float] = []
    async with minding(ENGINE, QUIET, random=NEVER) as mind:
        await mind.hear(said(at))
        for number in range(4):
            left.append((await mind.hear(said(message_id=f"m{number}"))).fields["score"])
            mind.agent.continue_()
            await mind.quiet()
    assert left == [65.0, 30.0, 0.0, 0.0], "the first turn is the mention's own"


async def test_with_dice_at_one_half_the_first_four_messages_never_wake_and_a_later_one_does() -> None:
    """Specification, pinned numbers."""
    async with minding(ENGINE, DEFAULT) as mind:
        woke = [(await mind.hear(said(message_id=f"m{number}"))).woke for number in range(12)]
    assert woke[:4] == [False] * 4
    assert True in woke[4:]


async def test_a_mention_always_wakes_whatever_the_dice_say() -> None:
    """Specification, pinned numbers: the chance is clamped to 1."""
    async with minding(ENGINE, DEFAULT, random=NEVER) as mind:
        decisions = [await mind.hear(said(at, message_id=f"m{number}")) for number in range(6)]
    assert [(one.woke, one.fields["p"]) for one in decisions] == [(True, 1.0)] * 6
    assert len(mind.model.requests) == 6


async def test_a_single_private_message_does_not_wake_by_default() -> None:
    """Specification: a single direct message gives 52, below 55."""
    async with minding(ENGINE, DEFAULT, random=FixedRandom([0.0])) as mind:
        decision = await mind.hear(said(channel="private:42"))
    assert (decision.woke, decision.fields["p"]) == (False, 0.0)


@pytest.mark.parametrize(
    ("score", "added"),
    [
        (0, 12),
        (10, 12 * 0.99),
        (20, 12 * 0.96 * 1.64),
        (50, 12 * 0.75 * 2),
        (80, 12 * 0.36),
        (90, 12 * 0.19 * 0.5),
        (100, 0),
    ],
)
def test_growth_bends_with_the_score(score: float, added: float) -> None:
    """Specification, formula: margin and curve."""
    assert grown(score, 12, 100) == pytest.approx(score + added)


def test_the_chance_grows_by_4_percent_a_point_above_55() -> None:
    """Specification, formula."""
    assert [chance_of(score, DEFAULT) for score in (0, 55, 60, 80, 100)] == pytest.approx([0, 0, 0.2, 1, 1])


def _by_seconds(score: float, seconds: int, settings: WillingnessSettings) -> float:
    fast = 0.5 ** (1 / settings.decay_half_life_seconds)
    slow = 1 - (1 - fast) / 2
    for _ in range(seconds):
        score *= slow if score > settings.probability_threshold else fast
    return score if score >= 0.01 else 0.0


@given(
    score=st.floats(0, 1_000),
    seconds=st.integers(0, 400),
    half_life=st.floats(1, 5_000),
    threshold=st.sampled_from([0.0, 0.5, 55.0, 99.0]),
)
def test_the_closed_form_decays_as_second_by_second(
    score: float, seconds: int, half_life: float, threshold: float
) -> None:
    """Specification, lazy decay: slow above the threshold, then fast."""
    settings = WillingnessSettings(decay_half_life_seconds=half_life, probability_threshold=threshold)
    assert decay(score, seconds * 1000 + 999, settings) == pytest.approx(
        _by_seconds(score, seconds, settings), rel=1e-6, abs=0.0100001
    )


async def test_time_passes_by_the_clock_between_messages() -> None:
    """Specification: the score decays from one message to the next."""
    clock = FakeClock()
    async with minding(ENGINE, DEFAULT, clock=clock) as mind:
        await mind.hear(said())
        clock.advance(600)
        decision = await mind.hear(said(message_id="10"))
    assert decision.fields["score"] == pytest.approx(6 + 12 * (1 - 0.06**2))


async def test_channels_of_one_runtime_have_scores_of_their_own_and_pay_together() -> None:
    """Specification: state per channel; a turn costs every channel seen in this runtime."""
    domain = CrossDomain({GROUP.sid: ["group:*"]})
    config = WillingnessConfig(channels={"group:*": WillingnessSettings(probability_amplifier=0)})
    async with minding(ENGINE, config, domain=domain) as mind:
        await mind.hear(said(at, channel="group:1", message_id="1"))
        assert (await mind.hear(said(channel="group:2", message_id="2"))).fields["score"] == 12
        mind.agent.continue_()
        await mind.quiet()
        first = await mind.hear(said(channel="group:1", message_id="3"))
        second = await mind.hear(said(channel="group:2", message_id="4"))
    assert first.fields["score"] - first.fields["gain"] == pytest.approx(65)
    assert second.fields["score"] - second.fields["gain"] == 0


def test_settings_of_a_channel_come_key_by_key_from_the_most_specific_pattern() -> None:
    """Our choice: overrides cascade."""
    text = """
base: 10
channels:
  "group:500": {keywords: [neko]}
  "*": {base: 1, replyCost: 5}
  "group:5*": {base: 3}
"""
    config = validate_config(WillingnessConfig, parse_yaml(text).data)
    exact = config.for_channel("group:500")
    assert (exact.base, exact.reply_cost, exact.keywords, exact.at_mention) == (3, 5, ("neko",), 100)
    assert config.for_channel("group:51").base == 3
    assert (config.for_channel("private:1").base, config.for_channel("private:1").keywords) == (1, ())


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("base: -1", 1, "base"),
        ("decay_half_life_seconds: 0", 1, "decay_half_life_seconds"),
        ("probabilityThreshold: .nan", 1, "probabilityThreshold"),
        ('base: 1\nchannels:\n  "42": {base: 1}', 3, '"group:42" or "private:42"'),
        ('channels:\n  "!group:1": {base: 1}', 2, 'takes no "!"'),
        ('channels:\n  "group:1":\n    base: 1\n    bass: 2', 4, "bass"),
        ('channels:\n  "group:1": {channels: {}}', 2, "channels"),
    ],
)
def test_a_faulty_setting_is_an_error_at_its_place(text: str, line: int, says: str) -> None:
    """Design, configuration: file, line, column, key; figures out of bounds are errors and not replaced silently."""
    document: ConfigDocument = parse_yaml(text)
    with pytest.raises(ConfigError) as caught:
        validate_config(WillingnessConfig, document.data, document=document)
    assert caught.value.line == line
    assert says in str(caught.value)


async def test_what_may_never_wake_leaves_the_score_alone() -> None:
    """Design, one message in: engines must not wake on stale facts or our own."""
    async with minding(ENGINE, DEFAULT, random=FixedRandom([0.0])) as mind:
        refused = [
            await mind.hear(said(at, message_id="1"), is_stale=True),
            await mind.hear(said(at, message_id="2"), is_self=True),
            await mind.hear(said(at, message_id="3", is_self=True)),
        ]
        score = (await mind.hear(said(message_id="4"))).fields["score"]
    assert [one.woke for one in refused] == [False] * 3
    assert score == 12


async def test_a_message_while_a_turn_runs_gets_exactly_one_more_turn() -> None:
    """Design, decided here: willingness calls continue_ also when busy."""
    async with minding(ENGINE, DEFAULT) as mind:
        mind.model.hold()
        mind.send(said(at, message_id="1"))
        await mind.model.wait_requests(1)
        for number in range(3):
            mind.send(said(at, message_id=f"m{number}"))
        await mind.agent.written()
        mind.model.release()
        await mind.quiet()
    assert len(mind.model.requests) == 2


async def test_every_message_leaves_one_line_and_one_event_that_say_why(caplog: pytest.LogCaptureFixture) -> None:
    """Issue, wakeup: score, gain, p and roll for every message, at DEBUG and on the feed."""
    caplog.set_level(logging.DEBUG, LOGGER)
    async with minding(ENGINE, DEFAULT) as mind:
        await mind.hear(said(message_id="1"))
        woken = await mind.hear(said(at, message_id="2"))
    reasons = ["score 12.0, gain 12.0, p 0.00, roll 0.50", "score 100.0, gain 88.0, p 1.00, roll 0.50"]
    lines = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert lines == [f"test: message 1 does not wake: {reasons[0]}", f"test: message 2 wakes: {reasons[1]}"]
    assert woken.turn_id
    assert woken == WakeupDecision(
        "willingness", str(GROUP), "2", True, reasons[1], {"score": 100, "gain": 88, "p": 1, "roll": 0.5}, woken.turn_id
    )


def past(clock: FakeClock, *what: tuple[int, str]) -> Sequence[Entry]:
    """Return a log: what was said, or "turn" for the end of a turn, each so many seconds ago."""
    now = clock.now_ms()
    entries: list[Entry] = []
    for seconds, one in what:
        when = now - seconds * 1000
        if one == "turn":
            entries.append(Entry(EVENT, {"type": "turn.done", "turnId": "t"}, when, turn_id="t"))
        else:
            entries.append(message_entry(fact(said(one, when=when)), timestamp=when))
    return entries


async def test_after_a_restart_the_score_is_what_the_log_makes_it() -> None:
    """Our choice: it is computed anew from the log, by the times of its lines and without dice."""
    clock = FakeClock()
    async with minding(ENGINE, DEFAULT, clock=clock, entries=past(clock, (600, at), (600, "turn"))) as mind:
        mentioned = await mind.hear(said(message_id="1"))
    async with minding(ENGINE, DEFAULT, clock=clock, entries=past(clock, (86_400, at))) as mind:
        long_ago = await mind.hear(said(message_id="1"))
    config = WillingnessConfig()
    assert mentioned.fields["score"] - mentioned.fields["gain"] == pytest.approx(decay(65, 600_000, config))
    assert long_ago.fields["score"] == 12
    assert len(mind.model.requests) == 0


async def test_a_detached_engine_wakes_nobody() -> None:
    """Design, contracts: the disposer unsubscribes; it may be called twice."""
    async with minding(ENGINE, DEFAULT) as mind:
        mind.dispose()
        mind.send(said(at))
        await mind.quiet()
    assert mind.model.requests == []
    assert len(mind.decisions) == 0


async def test_the_older_name_is_the_same_engine_under_its_own_block() -> None:
    """Design, decided here: v3 wakeup is an alias of willingness."""
    assert WillingnessV3Engine.name == "v3"
    assert WillingnessV3Engine.Config is WillingnessConfig
    assert not WillingnessV3Engine.runs_without_input
    async with minding(WillingnessV3Engine(), DEFAULT) as mind:
        assert (await mind.hear(said(at))).engine == "v3"
