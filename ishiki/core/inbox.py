"""`Inbox`: which turn runs, what waits, and what a wake is still owed. A pure state machine: no I/O, no await.

Positions count the messages of the history. A wake notes the position at which it was asked for; a step notes the
position up to which it has read. A pending wake that some step has read beyond owes nothing any more, which is why a
message that wakes gets exactly one turn that has seen it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ishiki.core.entries import deferred_key, step_key
from ishiki.core.messages import Message, UserMessage, new_id
from ishiki.errors import AgentBusyError, AgentStoppedError

__all__ = ["IfBusy", "Inbox", "QueuedTurn", "SendDecision"]

IfBusy = Literal["defer", "join", "reject"]

PROMPT_SEPARATOR = "; "
"""Between the prompts of wakes that merged. Source: specification, `agent.continue`."""


@dataclass(frozen=True, slots=True)
class QueuedTurn:
    """A turn that has not begun."""

    turn_id: str
    opening: Sequence[Message] = ()
    """Stored at its first step."""
    is_wake: bool = False
    """Whether it is a pending wake that has just fired, and nobody has been told of the turn yet."""


@dataclass(frozen=True, slots=True)
class SendDecision:
    """What `send` means right now."""

    turn_id: str | None
    """What `send` returns."""
    store_now: bool
    """Whether the messages are to be appended at once; otherwise they open the new turn."""
    joins: str | None = None
    """The `joins` of their entries."""
    is_new_turn: bool = False


@dataclass(slots=True)
class _ActiveTurn:
    turn_id: str
    accepting: bool = True
    step: int | None = None


@dataclass(slots=True)
class _PendingWake:
    position: int
    prompts: list[str] = field(default_factory=list[str])


class Inbox:
    """All decisions about what an agent does next. Every method is synchronous and leaves a consistent state."""

    def __init__(self, *, new_turn_id: Callable[[], str] = new_id) -> None:
        """Start idle, with an empty history."""
        self._new_turn_id = new_turn_id
        self._queue: deque[QueuedTurn] = deque()
        self._active: _ActiveTurn | None = None
        self._pending: _PendingWake | None = None
        self._position = 0
        self._read_position = -1  # no step has read anything, not even an empty history
        self._stopping = False

    @property
    def position(self) -> int:
        """How many messages the history has had since this agent began."""
        return self._position

    @property
    def stopping(self) -> bool:
        """Whether nothing is taken any more."""
        return self._stopping

    @property
    def active_turn_id(self) -> str | None:
        """The running turn, or None."""
        return self._active.turn_id if self._active is not None else None

    @property
    def deferred_key(self) -> str:
        """The `joins` key of what waits for the end of the running turn; "" when none runs."""
        return "" if self._active is None else deferred_key(self._active.turn_id)

    @property
    def has_pending_wake(self) -> bool:
        """Whether a wake waits for the queue to drain."""
        return self._pending is not None

    def is_idle(self) -> bool:
        """Whether no turn runs or waits and no wake is pending."""
        return self._active is None and not self._queue and self._pending is None

    def send(self, messages: Sequence[Message], *, trigger: bool, if_busy: IfBusy) -> SendDecision:
        """Decide about `messages` (the table of the reference, section 2.4).

        Raises:
            AgentStoppedError: the agent takes nothing any more.
            AgentBusyError: `trigger` with `if_busy="reject"` while a turn runs.
        """
        self._refuse_when_stopping()
        active = self._active if self._active is not None and self._active.accepting else None
        if active is None:
            if not trigger:
                return SendDecision(None, store_now=True)
            return self._enqueue(messages)
        if not trigger:
            joins = self._join_key(active) if if_busy == "join" else deferred_key(active.turn_id)
            return SendDecision(None, store_now=True, joins=joins)
        match if_busy:
            case "reject":
                raise AgentBusyError(f"turn {active.turn_id} is running and if_busy is 'reject'")
            case "join":
                return SendDecision(active.turn_id, store_now=True, joins=self._join_key(active))
            case "defer":
                return self._enqueue(messages)

    def continue_(self, prompt: str | None) -> str | None:
        """Ask for a turn.

        Returns:
            The id of a new turn, or None when the request merged into the pending wake.

        Raises:
            AgentStoppedError: the agent takes nothing any more.
        """
        self._refuse_when_stopping()
        if self.is_idle():
            return self._enqueue([UserMessage(prompt)] if prompt else []).turn_id
        if self._pending is None:
            self._pending = _PendingWake(self._position)
        self._pending.position = self._position
        if prompt:
            self._pending.prompts.append(prompt)
        return None

    def next_turn(self) -> QueuedTurn | None:
        """Begin the next turn and return it, or None when there is nothing to do. No turn may be running."""
        assert self._active is None, "a turn is running"
        turn = self._queue.popleft() if self._queue else self._fire_pending()
        if turn is not None:
            self._active = _ActiveTurn(turn.turn_id)
        return turn

    def begin_step(self, step: int) -> str:
        """Note that `step` of the running turn reads the whole history now. Returns the `joins` key of the step."""
        active = self._running()
        active.step = step
        self._read_position = self._position
        return step_key(active.turn_id, step)

    def end_step(self) -> None:
        """Note that the step's batch is in the log; what arrives now needs no `joins`."""
        self._running().step = None

    def seal(self) -> None:
        """Note that the running turn takes nothing any more: its end is about to be recorded."""
        active = self._running()
        active.accepting = False
        active.step = None

    def finish_turn(self) -> None:
        """Note that the running turn has ended."""
        self._running()
        self._active = None

    def appended(self) -> None:
        """Count one message of the history. Called when it becomes visible, right before it is announced."""
        self._position += 1

    def drop_waiting(self) -> Sequence[QueuedTurn]:
        """Forget everything that waits, and return the turns among it. The running turn is not touched."""
        dropped = tuple(self._queue)
        self._queue.clear()
        self._pending = None
        return dropped

    def stop(self) -> Sequence[QueuedTurn]:
        """Take nothing any more, and forget what waits. Returns the turns among it."""
        self._stopping = True
        return self.drop_waiting()

    def take_pending(self) -> tuple[str | None] | None:
        """Take the pending wake away, for whoever continues this conversation.

        Returns:
            None when none is owed; otherwise a tuple of its merged prompt, or of None where it has none.
        """
        pending, self._pending = self._pending, None
        if pending is None or (not pending.prompts and self._read_position >= pending.position):
            return None
        return (PROMPT_SEPARATOR.join(pending.prompts) or None,)

    def _fire_pending(self) -> QueuedTurn | None:
        owed = self.take_pending()
        if owed is None:
            return None
        (prompt,) = owed
        return QueuedTurn(self._new_turn_id(), [UserMessage(prompt)] if prompt else [], is_wake=True)

    def _enqueue(self, messages: Sequence[Message]) -> SendDecision:
        turn = QueuedTurn(self._new_turn_id(), tuple(messages))
        self._queue.append(turn)
        return SendDecision(turn.turn_id, store_now=False, is_new_turn=True)

    def _join_key(self, active: _ActiveTurn) -> str | None:
        # Between two steps nothing is in flight: the next step reads what is stored now, in its place.
        return None if active.step is None else step_key(active.turn_id, active.step)

    def _running(self) -> _ActiveTurn:
        assert self._active is not None, "no turn is running"
        return self._active

    def _refuse_when_stopping(self) -> None:
        if self._stopping:
            raise AgentStoppedError("the agent is stopping and takes nothing any more")
