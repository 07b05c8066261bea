"""Context engine `standard`: the history as it happened, folded, within a token budget, behind a memory of the rest.

A cut, once made, stays where it is until the budget is crossed again, so that consecutive requests share their
beginning byte for byte. What was cut off is summarised after the turn, in the background. Source: specification,
context engine `standard`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from ishiki.config import ConfigModel
from ishiki.contracts.engines import ContextEngine, ContextEngineInstance
from ishiki.contracts.host import ExtensionHost
from ishiki.contracts.transcript import Transcript
from ishiki.core.agent import Agent
from ishiki.core.disposer import Disposer
from ishiki.core.entries import Entry
from ishiki.core.events import AgentEvent, TurnDone, TurnStep
from ishiki.core.messages import Message
from ishiki.core.plugin import ContextRequest
from ishiki.engines.context._budget import EntrySizes, TokenRate, find_cut, find_fold
from ishiki.engines.context._compaction import Compactor, Fold
from ishiki.engines.context._folding import fold
from ishiki.engines.context._tail import MEMORY_HEAD, Memory, MemoryFinder, Tail, read_tail

__all__ = ["MEMORY_HEAD", "StandardContext", "StandardContextConfig", "StandardContextEngine"]

_SUMMARY_SHARE = 0.1
_LEAST_SUMMARY = 500
_GREATEST_SUMMARY = 6_000
"""Characters of a summary: a share of the budget, within what is worth the call and what stays true."""

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
    summary_timeout_s: float = Field(
        default=180.0, ge=0.1, le=3_600, description="Seconds that one summary may take; nothing waits for it."
    )


class StandardContext(ContextEngineInstance):
    """The engine in one runtime."""

    def __init__(
        self,
        config: StandardContextConfig,
        transcript: Transcript,
        *,
        mode: Literal["channel", "cross"],
        logger: logging.LoggerAdapter[logging.Logger],
        compactor: Compactor | None = None,
    ) -> None:
        """Start with nothing cut and nothing learned; without `compactor`, what is cut is not summarised."""
        self._config = config
        self._transcript = transcript
        self._mode = mode
        self._logger = logger
        self._compactor = compactor
        self._sizes = EntrySizes(transcript)
        self._rate = TokenRate()
        self._memories = MemoryFinder()
        self._cut_id: str | None = None
        self._assembled = 0
        self._shrunk_from: float | None = None
        """Characters of the request that was too long; None while none is."""
        self._shrunk_cut_id: str | None = None
        """As the cut, for requests that have to be smaller than that."""
        self._is_over = False
        self._has_warned = False
        if config.max_tokens <= 0:
            logger.warning("context.standard.max_tokens is %d: requests have no bound", config.max_tokens)

    @property
    def _is_unbounded(self) -> bool:
        return self._config.max_tokens <= 0

    def prepare_entries(self, entries: Sequence[Entry], request: ContextRequest) -> Sequence[Entry]:
        """Return what fits: the memory of what was summarised, and the newest whole turns."""
        if request.budget_scale >= 1:
            # What was cut for requests that were too long comes back: a smaller one may not even have helped.
            self._shrunk_from = self._shrunk_cut_id = None
        if self._is_unbounded and self._cut is None and request.budget_scale >= 1:
            self._assembled = 0
            return entries
        memory, head = self._memory(entries)
        ceiling = self._ceiling(entries, request, memory, head)
        tail = self._tail(entries, memory, ceiling - head)
        kept: Sequence[Entry] = tail.entries
        chars = head + tail.chars
        if chars > ceiling:
            self._is_over = True
            target = ceiling * self._config.refill_ratio
            cut = find_cut(tail.entries, tail.sizes, start=0, head=head, ceiling=ceiling, target=target)
            if cut is None:
                self._warn_uncut()
            elif cut > 0 or not tail.is_whole:
                self._logger.debug("requests begin with entry %s from now on", tail.entries[cut].id)
                kept = tail.entries[cut:]
                if self._shrunk_from is None:
                    self._cut_id = kept[0].id
                else:
                    self._shrunk_cut_id = kept[0].id
                chars = head + sum(tail.sizes[cut:])
        self._assembled = chars
        return kept if memory is None else [memory.entry, *kept]

    def render_messages(self, messages: Sequence[Message], request: ContextRequest) -> Sequence[Message]:
        """Fold runs of facts. Attachments and catalogues stay for whoever projects them."""
        return fold(messages, self._transcript)

    def instructions(self) -> str:
        """Return where `send_message` speaks."""
        return _INSTRUCTIONS[self._mode]

    def attach(self, agent: Agent) -> Disposer:
        """Learn from each step what its request cost, and summarise after a turn what no longer fits."""

        def hear(event: AgentEvent) -> None:
            if isinstance(event, TurnStep) and not event.usage.is_estimate:
                self._rate.learn(self._assembled, event.usage.input_tokens)
            elif isinstance(event, TurnDone):
                self._compact(agent)

        unsubscribe = agent.feed.subscribe("agent", hear)

        async def detach() -> None:
            unsubscribe()
            if self._compactor is not None:
                await self._compactor.aclose()

        return detach

    def _compact(self, agent: Agent) -> None:
        if self._compactor is None or self._compactor.is_running or self._is_unbounded or not self._is_over:
            return
        plan = self._plan(agent.store.window())
        if plan is None:
            self._is_over = False
        else:
            self._compactor.start(agent, plan, self._note_compacted)

    def _note_compacted(self) -> None:
        self._is_over = False

    def _plan(self, history: Sequence[Entry]) -> Fold | None:
        """Return what is to be summarised of `history`: what was cut off, and what a cut would take now."""
        memory, head = self._memory(history)
        ceiling = self._rate.ceiling(self._config.max_tokens)
        tail = self._tail(history, memory, ceiling - head)
        cut = 0
        if head + tail.chars > ceiling:
            target = ceiling * self._config.refill_ratio
            cut = find_fold(tail.entries, tail.sizes, head=head, ceiling=ceiling, target=target) or 0
        if cut == 0 and tail.begins in ("window", "memory"):
            return None
        end = len(history) - len(tail.entries) + cut
        max_summary = min(max(int(ceiling * _SUMMARY_SHARE), _LEAST_SUMMARY), _GREATEST_SUMMARY)
        return Fold(history, end, memory, ceiling, max_summary)

    def _memory(self, history: Sequence[Entry]) -> tuple[Memory | None, int]:
        """Return the summary in force, with its size."""
        memory = None if self._is_unbounded else self._memories.find(history)
        message = None if memory is None else memory.entry.message
        return memory, 0 if message is None else self._sizes.of_message(message)

    def _tail(self, history: Sequence[Entry], memory: Memory | None, limit: float) -> Tail:
        last_id = None if memory is None else memory.last_id
        return read_tail(history, self._sizes, last_id=last_id, cut_id=self._cut, limit=limit)

    @property
    def _cut(self) -> str | None:
        """The first entry that requests hold at present; None: all that fit."""
        return self._shrunk_cut_id or self._cut_id

    def _ceiling(self, history: Sequence[Entry], request: ContextRequest, memory: Memory | None, head: int) -> float:
        bound = float("inf") if self._is_unbounded else self._rate.ceiling(self._config.max_tokens)
        if request.budget_scale >= 1:
            return bound
        # What was just too long says more than what we thought would fit; all smaller ones are parts of that one.
        if self._shrunk_from is None:
            was = self._assembled or head + self._tail(history, memory, float("inf")).chars
            self._shrunk_from = min(bound, was)
        return min(bound, self._shrunk_from * request.budget_scale)

    def _warn_uncut(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._logger.warning("the history exceeds its budget and has no turn to cut at; it is sent whole")


class StandardContextEngine(ContextEngine[StandardContextConfig]):
    """The provider."""

    name = "standard"
    Config = StandardContextConfig

    def create(self, host: ExtensionHost, config: StandardContextConfig) -> ContextEngineInstance:
        """Make the instance of one runtime."""
        compactor = Compactor(host, model_ref=config.model, timeout_s=config.summary_timeout_s)
        return StandardContext(config, host.transcript, mode=host.domain.mode, logger=host.logger, compactor=compactor)
