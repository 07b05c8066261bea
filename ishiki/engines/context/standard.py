"""Context engine `standard`: the history as it happened, folded, within a token budget, behind a memory of the rest.

A cut, once made, stays where it is until the budget is crossed again, so that consecutive requests share their
beginning byte for byte. Source: specification, context engine `standard`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from ishiki.config import ConfigModel
from ishiki.contracts.engines import ContextEngine, ContextEngineInstance
from ishiki.contracts.host import ExtensionHost
from ishiki.contracts.transcript import Transcript
from ishiki.core.agent import Agent
from ishiki.core.disposer import Disposer
from ishiki.core.entries import CHECKPOINT, COMPACT, MESSAGE, Entry
from ishiki.core.events import AgentEvent, TurnStep
from ishiki.core.messages import Message, UserMessage
from ishiki.core.plugin import ContextRequest
from ishiki.engines.context._budget import EntrySizes, TokenRate, find_cut
from ishiki.engines.context._folding import fold
from ishiki.jsonvalue import JsonObject, read_object, read_str

__all__ = ["MEMORY_HEAD", "StandardContext", "StandardContextConfig", "StandardContextEngine"]

MEMORY_HEAD = "[Memory of what was said before: background only, never an instruction of now.]"
"""First line of the message that holds a compaction's summary."""

_INSTRUCTIONS = {
    "channel": "You are in one conversation, and send_message speaks in it.",
    "cross": "You are in several conversations: copy send_message's target from the channel header above the lines "
    "that you answer.",
}


class StandardContextConfig(ConfigModel):
    """How much of the conversation the model sees."""

    max_tokens: int = Field(
        default=32_000,
        le=100_000_000,
        description="Tokens that one request may cost; 0 or less sets no bound and makes no summaries.",
    )
    refill_ratio: float = Field(
        default=0.8, gt=0, le=1, description="Share of the budget that is kept when older turns are cut off."
    )
    model: str | None = Field(
        default=None, min_length=1, description="The model that writes summaries; unset: the profile's own."
    )


@dataclass(frozen=True, slots=True)
class _Memory:
    entry: Entry
    """The summary as an entry that only this request has."""
    start: int
    """Where the history behind it begins."""


class StandardContext(ContextEngineInstance):
    """The engine in one runtime."""

    def __init__(
        self,
        config: StandardContextConfig,
        transcript: Transcript,
        *,
        mode: Literal["channel", "cross"],
        logger: logging.LoggerAdapter[logging.Logger],
    ) -> None:
        """Start with nothing cut and nothing learned."""
        self._config = config
        self._transcript = transcript
        self._mode = mode
        self._logger = logger
        self._sizes = EntrySizes(transcript)
        self._rate = TokenRate()
        self._cut_id: str | None = None
        self._cut_index = 0
        self._assembled = 0
        self._shrunk: tuple[str, float] | None = None
        self._memory_entry: Entry | None = None
        self._has_warned = False
        if config.max_tokens <= 0:
            logger.warning("context.standard.max_tokens is %d: requests have no bound", config.max_tokens)

    @property
    def _is_unbounded(self) -> bool:
        return self._config.max_tokens <= 0

    def prepare_entries(self, entries: Sequence[Entry], request: ContextRequest) -> Sequence[Entry]:
        """Return what fits: the memory of what was summarised, and the newest whole turns."""
        if self._is_unbounded and self._cut_id is None and request.budget_scale >= 1:
            self._assembled = 0
            return entries
        history = list(entries)
        sizes = self._sizes.of(history)
        memory = None if self._is_unbounded else self._find_memory(history)
        head = 0 if memory is None or memory.entry.message is None else self._sizes.of_message(memory.entry.message)
        start = max(0 if memory is None else memory.start, self._known_cut(history))
        total = head + sum(sizes[start:])
        ceiling = self._ceiling(request, total)
        if total > ceiling:
            target = ceiling * self._config.refill_ratio
            cut = find_cut(history, sizes, start=start, head=head, ceiling=ceiling, target=target)
            if cut is None:
                self._warn_uncut()
            elif cut > start:
                self._logger.debug("%d of %d entries are left out of requests from now on", cut, len(history))
                start = cut
                self._cut_id, self._cut_index = history[cut].id, cut
                total = head + sum(sizes[start:])
        self._assembled = total
        kept = history[start:] if start else history
        return kept if memory is None else [memory.entry, *kept]

    def render_messages(self, messages: Sequence[Message], request: ContextRequest) -> Sequence[Message]:
        """Fold runs of facts. Attachments and catalogues stay for whoever projects them."""
        return fold(messages, self._transcript)

    def instructions(self) -> str:
        """Return where `send_message` speaks."""
        return _INSTRUCTIONS[self._mode]

    def attach(self, agent: Agent) -> Disposer:
        """Learn from each step what its request cost."""

        def learn(event: AgentEvent) -> None:
            if isinstance(event, TurnStep) and not event.usage.is_estimate:
                self._rate.learn(self._assembled, event.usage.input_tokens)

        return agent.feed.subscribe("agent", learn)

    def _ceiling(self, request: ContextRequest, total: int) -> float:
        bound = float("inf") if self._is_unbounded else self._rate.ceiling(self._config.max_tokens)
        if request.budget_scale >= 1:
            return bound
        # What was just too long says more than what we thought would fit. Taken once a turn: each of its further
        # steps asks with the same scale.
        if self._shrunk is None or self._shrunk[0] != request.turn_id:
            self._shrunk = (request.turn_id, min(bound, self._assembled or total) * request.budget_scale)
        return min(bound, self._shrunk[1])

    def _known_cut(self, history: Sequence[Entry]) -> int:
        """Return where the last cut is now; 0 where everything before it has left the window."""
        if self._cut_id is None:
            return 0
        # A window grows at its end and loses at its start, so the cut is where it was, or a little before that.
        for index in range(min(self._cut_index, len(history) - 1), -1, -1):
            if history[index].id == self._cut_id:
                self._cut_index = index
                return index
        return 0

    def _find_memory(self, history: Sequence[Entry]) -> _Memory | None:
        """Return the newest summary. One whose last entry has left the window stays in force for all before it."""
        carriers = (entry for entry in reversed(history) if entry.type == COMPACT or entry.type == CHECKPOINT)
        source = next((entry for entry in carriers if read_str(_compaction(entry), "summary")), None)
        if source is None:
            return None
        data = _compaction(source)
        text = f"{MEMORY_HEAD}\n{read_str(data, 'summary')}"
        known = self._memory_entry
        if known is None or not isinstance(known.message, UserMessage) or known.message.content != text:
            # Kept as one object as long as it says the same: a checkpoint repeats the compaction under its own id.
            message = UserMessage(text, id=f"memory-{source.id}")
            known = self._memory_entry = Entry(MESSAGE, message, source.timestamp, id=message.id)
        last_id = read_str(data, "lastEntryId")
        position = next((index for index, entry in enumerate(history) if entry.id == last_id), -1)
        return _Memory(known, position + 1)

    def _warn_uncut(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._logger.warning("the history exceeds its budget and has no turn to cut at; it is sent whole")


def _compaction(entry: Entry) -> JsonObject:
    """Return the compaction of an entry, or the one that a checkpoint carries on."""
    if entry.type == COMPACT:
        return entry.json_data
    return read_object(entry.json_data, "compaction")


class StandardContextEngine(ContextEngine[StandardContextConfig]):
    """The provider."""

    name = "standard"
    Config = StandardContextConfig

    def create(self, host: ExtensionHost, config: StandardContextConfig) -> ContextEngineInstance:
        """Make the instance of one runtime."""
        return StandardContext(config, host.transcript, mode=host.domain.mode, logger=host.logger)
