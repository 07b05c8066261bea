"""What a turn does when a model refuses its request: it asks again with less, and keeps what helped.

No refusal may mute a channel for longer than it lasts. Four things can be less: the history's size, what is new since
the last good request, the whole past where nothing else has helped for two turns, and nothing at all, where the fault
is elsewhere. What is left out is asked for again, so that a line that was left out in error comes back.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ishiki.core.clock import Clock
from ishiki.core.entries import COMPACT, EVENT, OMITTED, RESTORED, WITHHELD, Entry
from ishiki.core.hidden import Mark, marks_of, withheld_ids
from ishiki.core.journal import Journal
from ishiki.core.messages import AssistantMessage, ToolMessage
from ishiki.core.model import LanguageModel
from ishiki.errors import ModelError
from ishiki.jsonvalue import JsonValue, read_str

__all__ = ["Patience"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_Ask = Callable[[Sequence[Entry], float], Awaitable[_T]]
"""Asks with these entries and this part of the history's budget."""

_BLAMES: Final = frozenset({"refused", "bad_request", "context_length"})
"""Kinds of failure that say that the request was not taken."""

_LEAST_SCALE: Final = 1 / 8
"""Of the history's budget. What does not fit into that is not too long by its history."""

_GOOD_BEFORE_MORE: Final = 50
"""Requests that have to be taken before twice the history is tried again. Our choice."""

_FAILED_TURNS: Final = 2
"""Turns in a row that may fail by a refusal before the past is left out."""

_RETEST_MS: Final = 24 * 3600 * 1000
"""How long what was refused twice stays out of requests: at most one vain request a day for a channel."""

_TURN_ENDS: Final = frozenset({"turn.done", "turn.failed", "turn.aborted"})


@dataclass(slots=True)
class Patience:
    """Of one agent, over all its turns."""

    owner: str
    model: LanguageModel
    journal: Journal
    clock: Clock
    _last_good_id: str | None = None
    _failed_turns: int = 0
    _scale: float = 1.0
    _good: int = 0
    _model_ref: str = ""
    _tested_in: str = field(default="")
    """The turn that has seen to what is hidden: once is enough for a turn."""
    _narrowed_in: str = field(default="")
    """The turn that has asked without what is new: likewise."""

    async def ask(self, turn_id: str, entries: Sequence[Entry], ask: _Ask[_T]) -> _T:
        """Ask until an answer comes or nothing is left to leave out.

        Args:
            turn_id: the turn.
            entries: the history, in order.
            ask: makes one request; its failures are `ModelError`.

        Raises:
            ModelError: what the last request met, or the first one where less did not help either.
        """
        if self._model_ref != self.model.ref:
            self._model_ref, self._scale, self._good = self.model.ref, 1.0, 0
        try:
            answer = await self._ask_hopefully(turn_id, entries, ask)
        except ModelError as error:
            self._failed_turns += _may_be_about_the_request(error)
            raise
        self._failed_turns = 0
        self._last_good_id = entries[-1].id if entries else None
        return answer

    async def _ask_hopefully(self, turn_id: str, entries: Sequence[Entry], ask: _Ask[_T]) -> _T:
        """Ask with what is hidden, where that is due; then without it."""
        due = [] if self._tested_in == turn_id else self._due(turn_id, entries)
        self._tested_in = turn_id
        if not due:
            return await self._ask_with_less(turn_id, entries, ask)
        restored = self._entry(RESTORED, {"of": [mark.entry_id for mark in due]}, turn_id)
        try:
            answer = await self._ask_in_size([*entries, restored], ask)
        except ModelError as error:
            if not _may_be_about_the_request(error):
                raise
            # Only an answer without it proves that it was to blame: a server may be refusing everything just now.
            answer = await self._ask_with_less(turn_id, entries, ask)
            now = self.clock.now_ms()
            again = [mark.again(model=self.model.ref, now_ms=now, turn_id=turn_id) for mark in due]
            logger.info("%s: what a model refused is refused again, and stays out of requests for a day", self.owner)
            await self.journal.submit(again).wait()
            return answer
        logger.warning("%s: what a model refused is taken now, and is in requests again", self.owner)
        await self.journal.submit([restored]).wait()
        return answer

    def _due(self, turn_id: str, entries: Sequence[Entry]) -> list[Mark]:
        return [mark for mark in marks_of(entries) if mark.turn_id != turn_id and self._is_due(mark)]

    def _is_due(self, mark: Mark) -> bool:
        if mark.refusals < 2 or (mark.model and mark.model != self.model.ref):
            return True
        return self.clock.now_ms() - mark.timestamp >= _RETEST_MS

    async def _ask_with_less(self, turn_id: str, entries: Sequence[Entry], ask: _Ask[_T]) -> _T:
        try:
            return await self._ask_in_size(entries, ask)
        except ModelError as error:
            if not _may_be_about_the_request(error):
                raise
            markers = [*self._narrowed(turn_id, entries)] if error.kind == "refused" else []
            if self._failed_turns >= _FAILED_TURNS:
                markers += self._anew(turn_id, entries)
            for marker in markers:
                try:
                    answer = await self._ask_in_size([*entries, marker], ask)
                except ModelError as again:
                    if not _may_be_about_the_request(again):
                        raise
                    continue
                await self._keep(marker, error)
                return answer
            raise

    async def _ask_in_size(self, entries: Sequence[Entry], ask: _Ask[_T]) -> _T:
        """Ask, and with half of the history each time that a request was too long."""
        scale = self._scale
        while True:
            try:
                answer = await ask(entries, scale)
                break
            except ModelError as error:
                if error.kind != "context_length" or scale <= _LEAST_SCALE:
                    raise
            scale /= 2
            logger.info("%s: a request was too long; asked again with half of the history", self.owner)
        self._good = 0 if scale < self._scale else self._good + 1
        self._scale = scale
        if self._good >= _GOOD_BEFORE_MORE and scale < 1.0:
            self._scale, self._good = min(1.0, scale * 2), 0
        return answer

    def _narrowed(self, turn_id: str, entries: Sequence[Entry]) -> Iterator[Entry]:
        """Yield marks for what is new since the last good request.

        One line must not mute a channel. What the mind itself did before this turn is left out only if the rest was
        not to blame. Where nothing helps, something else is refused, such as a setting: then nothing is marked.
        """
        if self._narrowed_in == turn_id:
            return
        self._narrowed_in = turn_id
        known = withheld_ids(marks_of(entries))
        news = entries[self._last_good_position(entries) + 1 :]
        new = [entry for entry in news if entry.message is not None and entry.id not in known]
        heard = [entry.id for entry in new if not _is_own_deed(entry, turn_id)]
        if heard:
            yield self._entry(WITHHELD, {"ids": heard, "model": self.model.ref}, turn_id)
        if len(new) > len(heard):
            yield self._entry(WITHHELD, {"ids": [entry.id for entry in new], "model": self.model.ref}, turn_id)

    def _anew(self, turn_id: str, entries: Sequence[Entry]) -> list[Entry]:
        """Return marks that leave the past out: all but what was said since the last good request, then less.

        None once the mind has done something in this turn: without its own deeds it would do them again.
        """
        if any(entry.turn_id == turn_id and isinstance(entry.message, AssistantMessage) for entry in entries):
            return []
        last_end = max((index for index, entry in enumerate(entries) if _is_turn_end(entry)), default=-1)
        found: list[Entry] = []
        for start in dict.fromkeys((self._last_good_position(entries) + 1, last_end + 1)):
            rest = [entry for entry in entries[start:] if entry.message is not None]
            said = [entry for entry in rest if not isinstance(entry.message, AssistantMessage | ToolMessage)]
            has_past = any(entry.message is not None or entry.type == COMPACT for entry in entries[:start])
            if said and (has_past or len(said) < len(rest)):
                own: list[JsonValue] = [entry.id for entry in rest if entry not in said]
                data: dict[str, JsonValue] = {"before": said[0].id, "ids": own, "model": self.model.ref}
                found.append(self._entry(OMITTED, data, turn_id))
        return found

    async def _keep(self, marker: Entry, error: ModelError) -> None:
        if marker.type == WITHHELD:
            count = len(marks_of([marker])[0].ids)
            logger.warning(
                "%s: a model refused a request; %d new messages are withheld until it takes them", self.owner, count
            )
        else:
            logger.warning(
                "%s: a model refused every request of %d turns, and takes one without what came before; that is left "
                "out until it is taken again: %s", self.owner, _FAILED_TURNS, error,
            )  # fmt: skip
        await self.journal.submit([marker]).wait()

    def _last_good_position(self, entries: Sequence[Entry]) -> int:
        """Return where what a model has read without complaint ends; -1 where nothing has been read."""
        for index in range(len(entries) - 1, -1, -1):
            entry = entries[index]
            if entry.id == self._last_good_id:
                return index
            # A step's batch proves that what stands before it was read, and is still known after a restart. The batch
            # itself, and what joined the step, is new: a tool may have returned the very thing that is refused.
            if entry.step is not None and isinstance(entry.message, AssistantMessage):
                return index - 1
        return -1

    def _entry(self, kind: str, data: dict[str, JsonValue], turn_id: str) -> Entry:
        return Entry(kind, data, self.clock.now_ms(), turn_id=turn_id)


def _may_be_about_the_request(error: ModelError) -> bool:
    """Whether another request may be taken: a server may also break at what it reads, and says 500 then."""
    return error.kind in _BLAMES or (error.kind == "unavailable" and (error.status or 0) >= 500)


def _is_own_deed(entry: Entry, turn_id: str) -> bool:
    """Whether the mind itself said or did this: its words always, what its tools returned before this turn."""
    if isinstance(entry.message, ToolMessage):
        return entry.turn_id != turn_id
    return isinstance(entry.message, AssistantMessage)


def _is_turn_end(entry: Entry) -> bool:
    return entry.type == EVENT and read_str(entry.json_data, "type") in _TURN_ENDS
