"""Background compaction: what was cut off becomes a summary, between turns and beside them.

One at a time. Nothing waits for it, and what fails is tried again after the next turn. Source: specification, context
engine `standard`, compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from anyio.lowlevel import checkpoint

from ishiki.contracts.host import ExtensionHost
from ishiki.core.agent import Agent
from ishiki.core.disposer import Disposer, resolved
from ishiki.core.entries import COMPACT, Entry
from ishiki.core.hidden import MarkReader, withheld_ids
from ishiki.core.model import LanguageModel
from ishiki.engines.context._summary import Material, record_of, summarise
from ishiki.engines.context._tail import Memory
from ishiki.errors import IshikiError, ModelError

__all__ = ["Compactor", "Fold"]

_BREATH = 200
"""Entries that are read in one go; each may have to be decoded and rendered, and chats go on meanwhile."""

_LEAST_CHARS = 2_000
"""Of material in one call, however small the budget is."""

_TOKENS_PER_CHAR = 1.0
"""Assumed where a model has declared its context window: more than most text costs in any tokenizer."""

_MATERIAL_SHARE = 0.6
"""Of the summariser's own window; the rest is for the prompt, the previous memory, its thoughts and its answer."""


@dataclass(frozen=True, slots=True)
class Fold:
    """What is to be summarised."""

    history: Sequence[Entry]
    """As it was between two turns: while a step runs, a fact's place is not final."""
    end: int
    """Up to where, exclusive; from behind the previous memory on."""
    memory: Memory | None
    """The previous memory."""
    max_material_chars: float
    """Of one call; more is summarised in several, the oldest first, each of which is appended."""
    max_summary_chars: int


@dataclass(frozen=True, slots=True)
class _Chunk:
    records: Sequence[str]
    ids: Sequence[str]
    """Of the entries that have a record."""
    end: int
    """Where the next chunk begins."""


class Compactor:
    """Summarises for one runtime."""

    def __init__(self, host: ExtensionHost, *, model_ref: str | None, timeout_s: float) -> None:
        """Ask `model_ref`, or the profile's own model, for at most `timeout_s` seconds a call."""
        self._host = host
        self._model_ref = model_ref
        self._timeout_s = timeout_s
        self._cancel: Disposer | None = None
        self._is_closed = False
        self._share = 1.0
        self._left_out: set[str] = set()

    @property
    def is_running(self) -> bool:
        """Whether a summary is being made."""
        return self._cancel is not None

    def start(self, agent: Agent, fold: Fold, done: Callable[[], None]) -> None:
        """Summarise `fold` in a task of the runtime, unless one is at work. Returns at once.

        Args:
            agent: whose log it is.
            fold: what.
            done: called when all of it is in the log.
        """
        if self._is_closed or self.is_running:
            return
        self._cancel = self._host.spawn("compaction", partial(self._run, agent, fold, done), keep_alive=True)

    async def aclose(self) -> None:
        """End what is at work; what comes of it later is dropped. Idempotent."""
        self._is_closed = True
        if self._cancel is not None:
            await resolved(self._cancel())

    async def _run(self, agent: Agent, fold: Fold, done: Callable[[], None]) -> None:
        try:
            if await self._summarise(agent, fold):
                done()
        except IshikiError as error:
            self._host.logger.warning("no summary was made; the end of the next turn tries again: %s", error)
        finally:
            self._cancel = None

    async def _summarise(self, agent: Agent, fold: Fold) -> bool:
        """Append summaries until all is told; return False where this runtime has no use for them any more."""
        model = self._host.model(self._model_ref)
        entries = await _entries_of(fold)
        withheld = await _withheld(fold.history)
        summary = "" if fold.memory is None else fold.memory.summary
        start = 0
        while start < len(entries):
            chunk = await self._chunk(entries, start, withheld, self._bound(fold, summary, model))
            if chunk.records:
                summary = await self._ask(model, Material(summary, chunk.records), fold, chunk.ids)
            if self._is_closed:
                return False
            start = chunk.end
            if summary:
                data = {"summary": summary, "lastEntryId": entries[start - 1].id}
                await agent.record(Entry(COMPACT, data, self._host.clock.now_ms()))
                self._host.logger.debug("%d entries are summarised in %d characters", start, len(summary))
        return True

    async def _ask(self, model: LanguageModel, material: Material, fold: Fold, ids: Sequence[str]) -> str:
        try:
            summary = await summarise(
                model,
                material,
                max_chars=fold.max_summary_chars,
                timeout_s=self._timeout_s,
                owner=self._host.runtime_id,
            )
        except ModelError as error:
            if error.blames_request:
                # Too long, or one line of it is refused: less next time, until the line is found and left out.
                self._share /= 2
                if len(ids) == 1:
                    self._left_out.update(ids)
            raise
        self._share = 1.0
        return summary

    def _bound(self, fold: Fold, summary: str, model: LanguageModel) -> float:
        """Return how many characters of records one call may hold."""
        bound = fold.max_material_chars
        window = model.info.context_window
        if window is not None:
            bound = min(bound, window * _MATERIAL_SHARE / _TOKENS_PER_CHAR - len(summary))
        return max(_LEAST_CHARS, bound) * self._share

    async def _chunk(self, entries: Sequence[Entry], start: int, withheld: frozenset[str], bound: float) -> _Chunk:
        """Return the records of the next entries that fit into one call; at least those of one."""
        records: list[str] = []
        ids: list[str] = []
        chars = 0
        for index in range(start, len(entries)):
            if index % _BREATH == 0:
                await checkpoint()
            record = record_of(entries[index], self._host.transcript, withheld | self._left_out)
            if record is None:
                continue
            if records and chars + len(record) > bound:
                return _Chunk(records, ids, index)
            records.append(record)
            ids.append(entries[index].id)
            chars += len(record)
        return _Chunk(records, ids, len(entries))


async def _entries_of(fold: Fold) -> Sequence[Entry]:
    """Return what is to be summarised, in order."""
    last_id = None if fold.memory is None else fold.memory.last_id
    for index in range(fold.end - 1, -1, -1):
        if index % _BREATH == 0:
            await checkpoint()
        if fold.history[index].id == last_id:
            return fold.history[index + 1 : fold.end]
    return fold.history[: fold.end]


async def _withheld(history: Sequence[Entry]) -> frozenset[str]:
    """Return the ids of what a model has refused to read: no other is asked to, either."""
    marks = MarkReader()
    for start in range(0, len(history), _BREATH):
        await checkpoint()
        marks.read(history[start : start + _BREATH])
    return withheld_ids(marks.marks)
