"""The budget of context `standard`: what a token costs, and where a history is cut."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.contracts.transcript import Transcript
from ishiki.core.entries import EVENT, MESSAGE, Entry
from ishiki.core.messages import (
    AssistantMessage,
    CustomMessage,
    FilePart,
    Message,
    SystemMessage,
    TextPart,
    ToolMessage,
    ToolOutput,
    ToolResultPart,
    UserMessage,
)
from ishiki.engines.context._budget import EntrySizes, TokenRate, find_cut

START = "start"
FACT = "fact"
REPLY = "reply"


def history(*kinds: str) -> list[Entry]:
    """Return entries of the given kinds."""
    made: list[Entry] = []
    for kind in kinds:
        match kind:
            case "start":
                made.append(Entry(EVENT, {"type": "turn.start"}, 0))
            case "fact":
                made.append(Entry(MESSAGE, CustomMessage("ishiki.message.created", {}), 0))
            case _:
                made.append(Entry(MESSAGE, AssistantMessage([TextPart("x")]), 0))
    return made


def sized(entries: Sequence[Entry], size: int = 10) -> list[int]:
    """Give every message the same size."""
    return [0 if entry.message is None else size for entry in entries]


def cut(entries: Sequence[Entry], *, ceiling: float, target: float, start: int = 0, head: int = 0) -> int | None:
    """Cut a history of messages of ten characters each."""
    return find_cut(entries, sized(entries), start=start, head=head, ceiling=ceiling, target=target)


FOUR_TURNS = history(*(START, FACT, REPLY) * 4)


@pytest.mark.parametrize(
    ("ceiling", "target", "expected"),
    [
        (60, 48, 3),  # three turns: the third crosses the target and stays within the ceiling
        (60, 20, 6),  # the second turn crosses the target of 20; 60 would hold a third
        (50, 50, 6),  # a third turn would be above the ceiling
        (5, 4, 9),  # the newest turn stays, however large
        (1000, 1000, 0),
    ],
)
def test_whole_turns_are_kept_from_the_newest_backwards(ceiling: float, target: float, expected: int) -> None:
    """Specification, context `standard`: the newest turn always, then as long as the ceiling holds, to the target."""
    assert cut(FOUR_TURNS, ceiling=ceiling, target=target) == expected


def test_without_a_turn_there_is_no_cut() -> None:
    """Specification, context `standard`."""
    assert cut(history(FACT, FACT), ceiling=1, target=1) is None
    assert cut(FOUR_TURNS, ceiling=1, target=1, start=10) is None


def test_lines_in_front_of_the_kept_turn_are_kept_as_far_as_the_target_allows() -> None:
    """Our choice: between two turns of a busy group lie more lines than fit, and the last of them woke the mind."""
    busy = history(START, REPLY, *[FACT] * 100, START)
    assert cut(busy, ceiling=100, target=80) == len(busy) - 1 - 8


def test_the_line_that_woke_the_newest_turn_stays_even_when_that_turn_fills_the_budget() -> None:
    """Our choice: a mind that cannot see what it answers says nonsense."""
    entries = history(START, REPLY, FACT, FACT, START, REPLY, REPLY)
    assert cut(entries, ceiling=10, target=8) == 3


def test_a_head_takes_room() -> None:
    """Specification, context `standard`: head plus tail against the ceiling."""
    assert cut(FOUR_TURNS, ceiling=60, target=60, head=20) == 6


@given(
    st.lists(st.sampled_from([START, FACT, REPLY]), max_size=40),
    st.integers(0, 300),
    st.floats(0.1, 1),
)
def test_a_cut_never_parts_a_reply_from_the_start_of_its_turn(kinds: list[str], ceiling: int, ratio: float) -> None:
    """Design: cuts on whole turns; what is kept exceeds the ceiling only by the newest turn and the line before it."""
    entries = history(*kinds)
    found = cut(entries, ceiling=ceiling, target=ceiling * ratio)
    if found is None:
        assert START not in kinds
        return
    kept = kinds[found:]
    assert START in kept
    assert REPLY not in kept[: kept.index(START)]
    newest = len(kinds) - 1 - kinds[::-1].index(START)
    assert sum(sized(entries)[found:]) <= max(ceiling, sum(sized(entries)[newest:]) + 10)


def test_the_rate_is_learned_from_two_requests_of_different_size() -> None:
    """Specification, context `standard`: rate from the difference, fixed costs from what is left."""
    rate = TokenRate()
    assert rate.ceiling(32_000) == 64_000
    rate.learn(1_000, 10_250)
    assert rate.ceiling(32_000) == 64_000
    rate.learn(2_000, 10_500)
    assert (rate.rate, rate.fixed) == (0.25, 10_000)
    assert rate.ceiling(32_000) == 88_000


def test_a_history_that_grows_line_by_line_still_tells_the_rate() -> None:
    """Our choice: the sample stays until another one differs by a tenth."""
    rate = TokenRate()
    for chars in range(1_000, 1_300, 20):
        rate.learn(chars, chars)
    assert rate.rate == 1.0


@pytest.mark.parametrize("tokens", [1_001, 9_000, 500])
def test_an_absurd_pair_is_dropped(tokens: int) -> None:
    """Specification, context `standard`: accepted from 0.1 to 1.5 tokens per character."""
    rate = TokenRate()
    rate.learn(1_000, 1_000)
    rate.learn(2_000, tokens)
    assert rate.rate == 0.5


def test_fixed_costs_above_the_budget_leave_nothing() -> None:
    """Specification, context `standard`: the ceiling is never below 0."""
    assert TokenRate(fixed=40_000).ceiling(32_000) == 0


@pytest.mark.parametrize(
    ("message", "at_least"),
    [
        (UserMessage("x" * 50), 50),
        (UserMessage([TextPart("x" * 50), FilePart("image/png", url="asset://0")]), 60),
        (SystemMessage("x" * 50), 50),
        (AssistantMessage([TextPart("字" * 50)]), 50),
        (ToolMessage([ToolResultPart("c", "read", ToolOutput("text", "x" * 50))]), 50),
        (CustomMessage("diary.note", {"text": "x" * 50}), 50),
    ],
)
def test_every_kind_of_message_has_a_size_in_characters(message: Message, at_least: int) -> None:
    """Specification, context `standard`, size of an entry."""
    (size,) = EntrySizes(Transcript(UTC)).of([Entry(MESSAGE, message, 0)])
    assert at_least <= size < 2 * at_least + 100


def test_sizes_are_the_same_when_a_window_has_moved_far() -> None:
    """Our choice: what has left the window is forgotten."""
    sizes = EntrySizes(Transcript(UTC))
    history = [Entry(MESSAGE, UserMessage("x" * number), 0) for number in range(3_000)]
    for start in range(0, 3_000, 100):
        assert sizes.of(history[start : start + 100]) == list(range(start, start + 100))
