"""`Inbox` against a simple model of what it owes: every row of the send table, wakes, and one turn at a time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ishiki.core.inbox import IfBusy, Inbox, QueuedTurn, SendDecision
from ishiki.core.messages import Message, UserMessage
from ishiki.errors import AgentBusyError, AgentStoppedError

BUSY: Sequence[IfBusy] = ("defer", "join", "reject")


def content(messages: Sequence[Message]) -> list[object]:
    """Return the contents of user messages."""
    return [message.content for message in messages if isinstance(message, UserMessage)]


def numbered() -> Inbox:
    """Return an inbox whose turns are t1, t2 and so on."""
    numbers = itertools.count(1)
    return Inbox(new_turn_id=lambda: f"t{next(numbers)}")


class InboxMachine(RuleBasedStateMachine):
    """The model keeps everything: all turns, all wakes since the last one fired, and how far each step has read."""

    def __init__(self) -> None:
        super().__init__()
        self.inbox = numbered()
        self.turns = 0
        self.queue: list[tuple[str, list[object]]] = []
        self.active: str | None = None
        self.sealed = False
        self.step: int | None = None
        self.steps = 0
        self.history = 0
        self.reads: list[int] = []
        self.wakes: list[tuple[int, str]] = []
        self.stopped = False

    @property
    def accepting(self) -> str | None:
        return None if self.sealed else self.active

    def _enqueue(self, messages: list[object]) -> str:
        self.turns += 1
        self.queue.append((f"t{self.turns}", messages))
        return f"t{self.turns}"

    @rule(trigger=st.booleans(), if_busy=st.sampled_from(BUSY), text=st.text(max_size=3))
    def send(self, trigger: bool, if_busy: IfBusy, text: str) -> None:
        message = UserMessage(text)
        if self.stopped:
            with pytest.raises(AgentStoppedError):
                self.inbox.send([message], trigger=trigger, if_busy=if_busy)
            return
        active = self.accepting
        if active is not None and trigger and if_busy == "reject":
            with pytest.raises(AgentBusyError):
                self.inbox.send([message], trigger=trigger, if_busy=if_busy)
            return
        decision = self.inbox.send([message], trigger=trigger, if_busy=if_busy)
        step_key = None if self.step is None else f"{active}/{self.step}"
        if trigger and (active is None or if_busy == "defer"):
            expected = SendDecision(self._enqueue([text]), store_now=False, is_new_turn=True)
        elif active is None:
            expected = SendDecision(None, store_now=True)
        elif if_busy == "join":
            expected = SendDecision(active if trigger else None, store_now=True, joins=step_key)
        else:
            expected = SendDecision(None, store_now=True, joins=f"{active}/end")
        assert decision == expected

    @rule(prompt=st.sampled_from([None, "", "kettle", "door"]))
    def continue_(self, prompt: str | None) -> None:
        if self.stopped:
            with pytest.raises(AgentStoppedError):
                self.inbox.continue_(prompt)
            return
        is_idle = self.active is None and not self.queue and not self.wakes
        turn_id = self.inbox.continue_(prompt)
        if is_idle:
            assert turn_id == self._enqueue([prompt] if prompt else [])
        else:
            assert turn_id is None
            self.wakes.append((self.history, prompt or ""))

    def _owed(self) -> tuple[str | None] | None:
        """Return what the wakes owe: nothing only if each was without a prompt and read beyond by some step."""
        prompts = [prompt for _, prompt in self.wakes if prompt]
        is_read = all(any(read >= position for read in self.reads) for position, _ in self.wakes)
        self.wakes = []
        return None if is_read and not prompts else ("; ".join(prompts) or None,)

    @precondition(lambda self: self.active is None and not self.stopped)
    @rule()
    def next_turn(self) -> None:
        turn = self.inbox.next_turn()
        expected: tuple[str, list[object]] | None = None
        is_wake = not self.queue
        if self.queue:
            expected = self.queue.pop(0)
        elif (owed := self._owed()) is not None:
            self.turns += 1
            expected = (f"t{self.turns}", [] if owed[0] is None else [owed[0]])
        assert (None if turn is None else (turn.turn_id, content(turn.opening))) == expected
        if turn is not None:
            assert turn.is_wake == is_wake
            self.active, self.sealed, self.steps = turn.turn_id, False, 0

    @precondition(lambda self: self.active is None)
    @rule()
    def take_pending(self) -> None:
        assert self.inbox.take_pending() == self._owed()

    @precondition(lambda self: self.accepting is not None and self.step is None)
    @rule()
    def begin_step(self) -> None:
        self.step = self.steps
        self.steps += 1
        self.reads.append(self.history)
        assert self.inbox.begin_step(self.step) == f"{self.active}/{self.step}"

    @precondition(lambda self: self.step is not None)
    @rule()
    def end_step(self) -> None:
        self.inbox.end_step()
        self.step = None

    @precondition(lambda self: self.accepting is not None)
    @rule()
    def seal(self) -> None:
        self.inbox.seal()
        self.sealed, self.step = True, None

    @precondition(lambda self: self.active is not None and self.sealed)
    @rule()
    def finish(self) -> None:
        self.inbox.finish_turn()
        self.active, self.sealed = None, False

    @rule(count=st.integers(1, 3))
    def appended(self, count: int) -> None:
        for _ in range(count):
            self.inbox.appended()
        self.history += count

    def _dropped(self, turns: Sequence[QueuedTurn]) -> None:
        assert [turn.turn_id for turn in turns] == [turn_id for turn_id, _ in self.queue]
        self.queue, self.wakes = [], []

    @rule()
    def interrupt(self) -> None:
        self._dropped(self.inbox.drop_waiting())

    @precondition(lambda self: self.turns > 3)
    @rule()
    def stop(self) -> None:
        self._dropped(self.inbox.stop())
        self.stopped = True

    @precondition(lambda self: self.active is not None)
    @rule()
    def a_second_turn_never_begins(self) -> None:
        with pytest.raises(AssertionError):
            self.inbox.next_turn()

    @invariant()
    def agrees(self) -> None:
        assert self.inbox.active_turn_id == self.active
        assert self.inbox.has_pending_wake == bool(self.wakes)
        assert self.inbox.is_idle() == (self.active is None and not self.queue and not self.wakes)
        assert self.inbox.position == self.history
        assert self.inbox.stopping == self.stopped
        assert self.inbox.deferred_key == ("" if self.active is None else f"{self.active}/end")


TestInboxMachine = InboxMachine.TestCase
TestInboxMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
"""Specification, agent.send and agent.continue; design section 3, pending wake."""


def running() -> tuple[Inbox, str]:
    """Return an inbox with a running turn, and that turn."""
    inbox = numbered()
    inbox.send([UserMessage("opening")], trigger=True, if_busy="defer")
    turn = inbox.next_turn()
    assert turn is not None
    return inbox, turn.turn_id


@pytest.mark.parametrize(
    ("trigger", "if_busy", "expected"),
    [
        (False, "join", SendDecision(None, store_now=True, joins="t1/0")),
        (False, "defer", SendDecision(None, store_now=True, joins="t1/end")),
        (False, "reject", SendDecision(None, store_now=True, joins="t1/end")),
        (True, "join", SendDecision("t1", store_now=True, joins="t1/0")),
        (True, "defer", SendDecision("t2", store_now=False, is_new_turn=True)),
    ],
)
def test_what_send_means_during_a_step(trigger: bool, if_busy: IfBusy, expected: SendDecision) -> None:
    """Reference, send table."""
    inbox, _ = running()
    inbox.begin_step(0)
    assert inbox.send([UserMessage("x")], trigger=trigger, if_busy=if_busy) == expected


@pytest.mark.parametrize("if_busy", BUSY)
def test_without_an_accepting_turn_a_trigger_queues_one_and_a_record_is_stored(if_busy: IfBusy) -> None:
    """Reference, send table; a sealed turn counts as none."""
    inbox, _ = running()
    inbox.seal()
    for subject in (numbered(), inbox):
        record = subject.send([UserMessage("x")], trigger=False, if_busy=if_busy)
        assert record == SendDecision(None, store_now=True)
        assert subject.send([UserMessage("x")], trigger=True, if_busy=if_busy).is_new_turn


def test_a_wake_without_a_prompt_fires_once_when_no_step_has_read_beyond_it() -> None:
    """Design, section 3: a message that wakes gets exactly one turn that has seen it."""
    inbox, _ = running()
    inbox.begin_step(0)
    inbox.appended()
    assert inbox.continue_(None) is None
    assert inbox.continue_(None) is None
    inbox.seal()
    inbox.finish_turn()
    turn = inbox.next_turn()
    assert turn is not None
    assert turn.opening == []
    inbox.seal()
    inbox.finish_turn()
    assert inbox.next_turn() is None
    assert inbox.is_idle()


def test_a_wake_stays_owed_when_no_step_has_read_even_the_history_from_before_this_agent() -> None:
    """Bug: a turn that failed before its first step took the wake of a reopened log along."""
    inbox = numbered()
    inbox.continue_(None)
    inbox.continue_(None)
    assert inbox.next_turn() is not None
    inbox.seal()
    inbox.finish_turn()
    assert inbox.next_turn() is not None


def test_a_wake_without_a_prompt_is_dropped_when_a_later_step_has_read_beyond_it() -> None:
    """Design, section 3."""
    inbox, _ = running()
    inbox.begin_step(0)
    inbox.appended()
    inbox.continue_(None)
    inbox.end_step()
    inbox.begin_step(1)
    inbox.seal()
    inbox.finish_turn()
    assert not inbox.is_idle()
    assert inbox.next_turn() is None
    assert inbox.is_idle()


def test_a_wake_with_a_prompt_fires_even_when_a_step_has_read_beyond_it() -> None:
    """Design, section 3; the separator is the specification's."""
    inbox, _ = running()
    for prompt in ("kettle", None, "door"):
        inbox.continue_(prompt)
    inbox.begin_step(0)
    inbox.seal()
    inbox.finish_turn()
    turn = inbox.next_turn()
    assert turn is not None
    assert content(turn.opening) == ["kettle; door"]
