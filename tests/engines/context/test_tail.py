"""How much of a window is looked at, and that a shorter look finds the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import overload

from hypothesis import given
from hypothesis import strategies as st

from ishiki.contracts.transcript import Transcript
from ishiki.core.entries import CHECKPOINT, COMPACT, EVENT, Entry
from ishiki.core.messages import AssistantMessage, TextPart, UserMessage
from ishiki.engines.context._budget import EntrySizes, find_cut
from ishiki.engines.context._tail import MemoryFinder, read_tail
from ishiki.engines.context.standard import StandardContext, StandardContextConfig

from .kit import LOGGER, entries, picture, recalled, request, said, turn


class Watched(Sequence[Entry]):
    """A window that notes which of its entries were looked at, as one on disk has to decode those."""

    def __init__(self, held: Sequence[Entry]) -> None:
        self._held = held
        self.looked_at: set[int] = set()

    def __len__(self) -> int:
        return len(self._held)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(index, slice):
            self.looked_at.update(range(*index.indices(len(self._held))))
            return self._held[index]
        index %= len(self._held)
        self.looked_at.add(index)
        return self._held[index]

    def __iter__(self) -> Iterator[Entry]:
        return (self[index] for index in range(len(self)))

    def __reversed__(self) -> Iterator[Entry]:
        return (self[index] for index in range(len(self) - 1, -1, -1))


def busy(turns: int) -> list[Entry]:
    """Return a group in which the mind speaks after every forty lines."""
    history: list[Entry] = []
    for number in range(turns):
        history += entries(*(said(number * 40 + line, "words " * 10) for line in range(40)))
        history += turn(AssistantMessage([TextPart("ok")]))
    return history


def context(max_tokens: int = 4_000) -> StandardContext:
    """Return an engine."""
    return StandardContext(StandardContextConfig(max_tokens=max_tokens), Transcript(UTC), mode="channel", logger=LOGGER)


def test_the_first_request_of_a_full_window_looks_at_little_more_than_it_shows() -> None:
    """Design, budgets: our share of a turn with a full window; decoding and rendering all of it takes half a second."""
    window = Watched([*busy(100), Entry(CHECKPOINT, {"compaction": None}, 0), *turn(UserMessage("go"))])
    kept = context().prepare_entries(window, request())
    assert 50 < len(kept) < 110
    assert len(window.looked_at) < 1.5 * len(kept) + 70


def test_the_next_request_looks_no_further_than_the_cut() -> None:
    """Design, budgets: a cut stays where it is."""
    history = busy(100)
    engine = context()
    kept = engine.prepare_entries(history, request())
    window = Watched([*history, *entries(said(9_000))])
    assert len(engine.prepare_entries(window, request())) == len(kept) + 1
    assert len(window.looked_at) <= len(kept) + 1


def test_lines_are_rendered_in_their_order_so_that_a_recall_knows_the_name() -> None:
    """Specification, lines: names are those of messages seen before."""
    engine = context()
    history = [*busy(60), *entries(said(5_000, user="42"), said(5_001, user="43"), recalled(5_000))]
    engine.prepare_entries(history, request())
    shown = engine.render_messages([entry.message for entry in history[-3:] if entry.message is not None], request())
    assert "n42(42)'s message #5000 was recalled by n43(43)" in str(shown)


def knowing_all() -> Transcript:
    """Return a transcript that has the names of its checkpoint, so that no line depends on what was read before it."""
    transcript = Transcript(UTC)
    transcript.restore_names({"onebot:42": "n42", "onebot:43": "n43"})
    return transcript


@given(
    st.lists(st.sampled_from(["fact", "long", "picture", "recall", "reply", "turn"]), max_size=60),
    st.integers(0, 3_000),
    st.floats(0.1, 1),
)
def test_a_tail_gives_the_same_cut_as_the_whole_history(kinds: list[str], ceiling: int, ratio: float) -> None:
    """Our choice: reading backwards is only faster."""
    history: list[Entry] = []
    for number, kind in enumerate(kinds):
        match kind:
            case "fact":
                history += entries(said(number))
            case "long":
                history += entries(said(number, "y" * 500))
            case "picture":
                history += entries(picture(number))
            case "recall":
                history += entries(recalled(number))
            case "reply":
                history += entries(AssistantMessage([TextPart("x" * 30)]))
            case _:
                history.append(Entry(EVENT, {"type": "turn.start"}, 0))
    target = ceiling * ratio
    sizes = EntrySizes(knowing_all()).of(history)
    expected = find_cut(history, sizes, start=0, head=0, ceiling=ceiling, target=target)
    tail = read_tail(history, EntrySizes(knowing_all()), last_id=None, cut_id=None, limit=ceiling)
    assert list(tail.entries) == history[len(history) - len(tail.entries) :]
    assert list(tail.sizes) == sizes[len(history) - len(tail.entries) :]
    if sum(sizes) <= ceiling:
        assert tail.begins == "window"
        return
    cut = find_cut(tail.entries, tail.sizes, start=0, head=0, ceiling=ceiling, target=target)
    assert (None if cut is None else len(tail.entries) - cut) == (None if expected is None else len(history) - expected)


def compact(summary: str, last_id: str = "gone") -> Entry:
    """Return a compaction."""
    return Entry(COMPACT, {"summary": summary, "lastEntryId": last_id}, 0)


def carrying(summary: str) -> Entry:
    """Return a checkpoint that carries a compaction on."""
    return Entry(CHECKPOINT, {"compaction": {"summary": summary, "lastEntryId": "gone"}}, 0)


def found(finder: MemoryFinder, history: Sequence[Entry]) -> str | None:
    """Return the summary in force."""
    memory = finder.find(history)
    return None if memory is None else memory.summary


def test_the_newest_summary_is_in_force_wherever_it_stands() -> None:
    """Specification, context `standard`; design, checkpoint."""
    facts = entries(*(said(number) for number in range(10)))
    assert found(MemoryFinder(), facts) is None
    assert found(MemoryFinder(), [compact("a"), *facts, compact("b"), *facts]) == "b"
    assert found(MemoryFinder(), [compact("a"), carrying("b"), *facts]) == "a"
    assert found(MemoryFinder(), [carrying("a"), *facts]) == "a"
    assert found(MemoryFinder(), [Entry(CHECKPOINT, {"compaction": None}, 0), *facts]) is None


def test_a_checkpoint_made_while_a_summary_was_written_does_not_bring_the_old_one_back() -> None:
    """Our choice: the checkpoint stands behind a summary that it does not know."""
    history = [carrying("old"), *entries(said(1)), compact("new"), *entries(said(2)), carrying("old")]
    assert found(MemoryFinder(), history) == "new"
    finder = MemoryFinder()
    assert found(finder, history[:4]) == "new"
    assert found(finder, history) == "new"


def test_a_summary_outlives_the_window_it_stood_in() -> None:
    """Design, live window: a compaction older than the window stays in force, also where windows are short."""
    finder = MemoryFinder()
    facts = entries(*(said(number) for number in range(30)))
    assert found(finder, [compact("a"), *facts[:9]]) == "a"
    assert found(finder, facts[5:15]) == "a"
    assert found(finder, facts[20:30]) == "a"


def test_a_log_that_was_removed_takes_the_memory_along() -> None:
    """Our choice: who removes a channel's log wants it to forget."""
    finder = MemoryFinder()
    facts = entries(*(said(number) for number in range(30)))
    assert found(finder, [compact("a"), *facts[:9]]) == "a"
    assert found(finder, facts[20:22]) is None
