"""One turn: steps of projection, model call, tool calls and one atomic append, until somebody says that it is over.

Source: reference, turn and step life cycle; the specification where the two differ.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio

from ishiki.core.answer import Answer, read_answer
from ishiki.core.clock import Clock
from ishiki.core.disposer import resolved
from ishiki.core.entries import EVENT, Entry, deferred_key, message_entry, step_key
from ishiki.core.events import (
    ErrorInfo,
    TurnAborted,
    TurnDone,
    TurnFailed,
    TurnStart,
    TurnStep,
    event_data,
)
from ishiki.core.feed import AgentFeed
from ishiki.core.inbox import Inbox, QueuedTurn
from ishiki.core.journal import Journal
from ishiki.core.messages import AssistantMessage, Message, ToolMessage, Usage
from ishiki.core.model import LanguageModel, ModelRequest, RequestOrigin, ToolSpec
from ishiki.core.patience import Patience
from ishiki.core.plugin import AgentPlugin, ContextRequest, StepOptions, StepResult, TurnResult, overrides
from ishiki.core.projection import project
from ishiki.core.signal import CancelSignal
from ishiki.core.store import EntryStore
from ishiki.core.tool import Tool, ToolSet
from ishiki.core.toolrun import ToolRunner
from ishiki.errors import AgentError, ModelError, ToolChoiceError, ToolConflictError
from ishiki.jsonvalue import JsonObject, JsonValue

__all__ = ["TurnLimits", "TurnRunner"]

logger = logging.getLogger(__name__)

_MAX_REFUSED_STEPS = 3
"""Steps in a row whose calls were all refused, of tools that are not there or with arguments that cannot be used, after
which a turn ends: a model that has not found the form by then will not, and each step is a request."""

_END_LIMIT_S = 5.0
"""How long the end of a turn may take to be recorded when the turn itself was cancelled."""


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """How long a turn waits for what is not its own, in seconds."""

    first_part_s: float = 60.0
    between_parts_s: float = 30.0
    call_s: float = 180.0
    tool_s: float = 60.0
    hook_s: float = 5.0
    turn_s: float = 600.0
    max_steps: int = 20


@dataclass(slots=True)
class _Turn:
    turn_id: str
    signal: CancelSignal = field(default_factory=CancelSignal)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)
    instructions: str = ""
    tools: ToolSet = field(default_factory=dict[str, Tool])
    step: int = 0
    began_at: float = 0.0
    usage: Usage | None = None
    refused_steps: int = 0
    """Steps in a row in which every call was refused before it ran."""
    runtime_context: JsonObject = field(default_factory=dict[str, JsonValue])
    tools_context: JsonObject = field(default_factory=dict[str, JsonValue])


@dataclass(slots=True)
class TurnRunner:
    """Runs the turns of one agent, one at a time."""

    owner: str
    model: LanguageModel
    store: EntryStore
    journal: Journal
    inbox: Inbox
    feed: AgentFeed
    plugins: Sequence[AgentPlugin]
    limits: TurnLimits
    clock: Clock
    patience: Patience = field(init=False)
    _current: _Turn | None = None

    def __post_init__(self) -> None:
        """Be patient with the model from the first turn on."""
        self.patience = Patience(self.owner, self.model, self.journal, self.clock)

    def cancel(self, reason: str) -> None:
        """Cancel the running turn, if there is one. Its end is recorded as `turn.aborted`."""
        if self._current is not None:
            self._current.signal.cancel(reason)
            self._current.scope.cancel()

    async def interrupt(self, reason: str) -> None:
        """Cancel the running turn, if there is one, and return when it is over."""
        turn = self._current
        if turn is not None:
            self.cancel(reason)
            await turn.over.wait()

    async def run(self, queued: QueuedTurn) -> None:
        """Run one turn to its end and record it. Raises nothing but cancellation from outside."""
        turn = _Turn(queued.turn_id, began_at=self.clock.monotonic())
        self._current = turn
        self.journal.begin_turn(turn.turn_id)
        end: TurnDone | TurnFailed | TurnAborted = TurnAborted(turn.turn_id, "the agent was cancelled")
        try:
            try:
                with turn.scope:
                    end = await self._guarded(turn, queued.opening)
                if turn.scope.cancelled_caught:
                    end = TurnAborted(turn.turn_id, turn.signal.reason or "interrupted")
            finally:
                # Outside the scope: what has ended cannot be interrupted, so that it ends once.
                await self._end(turn, end)
            if isinstance(end, TurnDone):
                self._log_end(turn)
                await self._observe_end(turn)
        finally:
            self._current = None
            self.inbox.finish_turn()
            turn.over.set()

    async def _guarded(self, turn: _Turn, opening: Sequence[Message]) -> TurnDone | TurnFailed:
        try:
            with anyio.move_on_after(self.limits.turn_s):
                await self._run_steps(turn, opening)
                return TurnDone(turn.turn_id, turn.usage)
            raise AgentError(f"the turn took longer than {self.limits.turn_s:g} s", code="turn_timeout")
        except Exception as error:  # noqa: BLE001 - boundary: a turn; a failed one is a log line, an entry and silence
            return self._failure(turn, error)

    def _log_end(self, turn: _Turn) -> None:
        usage = turn.usage or Usage()
        took_s = self.clock.monotonic() - turn.began_at
        logger.info(
            "%s: turn ended after %.1f s, %d steps, %d tokens in (%d cached), %d out",
            self.owner, took_s, turn.step + 1, usage.input_tokens, usage.cached_input_tokens, usage.output_tokens,
        )  # fmt: skip

    def _failure(self, turn: _Turn, error: Exception) -> TurnFailed:
        turn.signal.cancel("the turn failed")
        expected = isinstance(error, ModelError | AgentError)
        logger.warning("%s: turn %s failed: %s", self.owner, turn.turn_id, error, exc_info=None if expected else error)
        return TurnFailed(turn.turn_id, ErrorInfo.of(error))

    async def _end(self, turn: _Turn, end: TurnDone | TurnFailed | TurnAborted) -> None:
        self.inbox.seal()
        if isinstance(end, TurnAborted):
            turn.signal.cancel(end.reason)

        def entries() -> Sequence[Entry]:
            terminal = Entry(EVENT, event_data(end), self.clock.now_ms(), turn_id=turn.turn_id)
            return [terminal] if isinstance(end, TurnDone) else [*self._settled(turn), terminal]

        # Made when all that the turn wrote is in the log: a batch may be under way, and must not be told twice.
        closes = (step_key(turn.turn_id, turn.step), deferred_key(turn.turn_id))
        receipt = self.journal.submit(entries, closes=closes, events=[end])
        # The store may be what failed: the submission stays queued and this turn is over all the same.
        with anyio.move_on_after(_END_LIMIT_S, shield=True):
            await self.journal.caught_up(receipt)

    def _settled(self, turn: _Turn) -> Sequence[Entry]:
        window = self.store.window()
        settled: list[Entry] = []
        for plugin in self.plugins:
            try:
                settled.extend(plugin.settle_turn(turn.turn_id, window))
            except Exception:
                logger.exception("%s: settle_turn of %s raised", self.owner, plugin.name)
        return settled

    async def _observe_end(self, turn: _Turn) -> None:
        result = TurnResult(turn.turn_id, turn.step + 1, turn.usage)
        for plugin in self.plugins:
            if overrides(plugin, "on_turn_finish"):
                try:
                    with anyio.fail_after(self.limits.hook_s):
                        await resolved(plugin.on_turn_finish(result))
                except Exception:
                    logger.warning("%s: on_turn_finish of %s raised", self.owner, plugin.name, exc_info=True)

    async def _run_steps(self, turn: _Turn, opening: Sequence[Message]) -> None:
        now = self.clock.now_ms()
        start = TurnStart(turn.turn_id)
        stored = [
            Entry(EVENT, event_data(start), now, turn_id=turn.turn_id),
            *(message_entry(replace(message, timestamp=message.timestamp or now), timestamp=now, turn_id=turn.turn_id)
              for message in opening),
        ]  # fmt: skip
        await self.journal.submit(stored, events=[start]).wait()
        turn.instructions = await self._assemble_instructions(turn)
        turn.tools = await self._assemble_tools(turn)
        for step in range(self.limits.max_steps):
            turn.step = step
            if not await self._run_step(turn):
                return
        logger.info("%s: turn %s ends at its limit of %d steps", self.owner, turn.turn_id, self.limits.max_steps)

    async def _assemble_instructions(self, turn: _Turn) -> str:
        paragraphs: list[str] = []
        for plugin in self.plugins:
            if overrides(plugin, "extend_instructions"):
                text = await resolved(plugin.extend_instructions(turn.turn_id))
                if text and text.strip():
                    paragraphs.append(text.strip())
        return "\n\n".join(paragraphs)

    async def _assemble_tools(self, turn: _Turn) -> ToolSet:
        merged: dict[str, Tool] = {}
        owners: dict[str, str] = {}
        for plugin in self.plugins:
            if not overrides(plugin, "extend_tools"):
                continue
            tools: Mapping[str, Tool] = await resolved(plugin.extend_tools(turn.turn_id)) or {}
            for name, tool in tools.items():
                if name in merged:
                    raise ToolConflictError(name, (owners[name], plugin.name))
                merged[name] = tool
                owners[name] = plugin.name
        return merged

    async def _run_step(self, turn: _Turn) -> bool:
        """Run one step and return whether another one follows."""
        await self.journal.settled()
        # No await between these two: what arrives from here on joins the step.
        entries = self.journal.begin_step(turn.step)
        answer, options = await self._ask_patiently(turn, entries)
        now = self.clock.now_ms()
        assistant = AssistantMessage(
            content=answer.parts, timestamp=now, usage=answer.usage, finish_reason=answer.finish_reason
        )
        offered = {name: tool for name, tool in turn.tools.items() if _is_offered(name, options)}
        runner = ToolRunner(
            turn.turn_id, offered, self.plugins, self.feed, self.clock, turn.signal,
            record=self._record, limit_s=self.limits.tool_s, extra=options.tools_context,
        )  # fmt: skip
        parts = await runner.run(answer.calls, step=turn.step, messages=options.messages)
        now = self.clock.now_ms()
        results = ToolMessage(parts, timestamp=now) if parts else None
        turn.usage = answer.usage
        batch: list[Message] = [assistant] if results is None else [assistant, results]
        key = step_key(turn.turn_id, turn.step)
        stored = [message_entry(message, timestamp=now, turn_id=turn.turn_id, step=turn.step) for message in batch]
        await self.journal.submit(stored, closes=[key]).wait()
        self.inbox.end_step()
        await self.feed.emit(TurnStep(turn.turn_id, turn.step, answer.usage, answer.finish_reason))
        result = StepResult(turn.turn_id, turn.step, assistant, results, answer.usage, answer.finish_reason)
        goes_on = await self._goes_on(result)
        turn.refused_steps = turn.refused_steps + 1 if parts and runner.refused == len(parts) else 0
        if goes_on and turn.refused_steps >= _MAX_REFUSED_STEPS:
            names = ", ".join(sorted({part.tool_name for part in parts}))
            logger.warning(
                "%s: turn %s ends: in %d steps in a row every tool call was refused before it ran (%.200s)",
                self.owner, turn.turn_id, turn.refused_steps, names,
            )  # fmt: skip
            return False
        return goes_on

    async def _goes_on(self, result: StepResult) -> bool:
        decision: bool | None = None
        for plugin in self.plugins:
            if overrides(plugin, "on_step_finish"):
                try:
                    opinion = await resolved(plugin.on_step_finish(result))
                except Exception:
                    logger.warning("%s: on_step_finish of %s raised", self.owner, plugin.name, exc_info=True)
                    continue
                decision = opinion if decision is None else decision
        # A turn goes on as long as the model calls something, even if every call was invalid: it may repair that.
        return result.results is not None if decision is None else decision

    async def _ask_patiently(self, turn: _Turn, entries: Sequence[Entry]) -> tuple[Answer, StepOptions]:
        """Ask the model; when it blames the request, with less."""

        async def ask(shown: Sequence[Entry], budget_scale: float) -> tuple[Answer, StepOptions]:
            return await self._ask(turn, shown, budget_scale)

        return await self.patience.ask(turn.turn_id, entries, ask)

    async def _ask(self, turn: _Turn, entries: Sequence[Entry], budget_scale: float) -> tuple[Answer, StepOptions]:
        request = ContextRequest(turn.turn_id, turn.signal, budget_scale)
        messages = await project(entries, request, self.plugins)
        options = StepOptions(
            turn.turn_id, turn.step, messages,
            runtime_context=turn.runtime_context, tools_context=turn.tools_context,
        )  # fmt: skip
        for plugin in self.plugins:
            if overrides(plugin, "prepare_step"):
                options = await resolved(plugin.prepare_step(options)) or options
        turn.runtime_context, turn.tools_context = options.runtime_context, options.tools_context
        specs = [
            ToolSpec(name, tool.description, tool.input_schema)
            for name, tool in turn.tools.items()
            if _is_offered(name, options)
        ]
        model_request = ModelRequest(
            instructions=turn.instructions,
            messages=options.messages,
            tools=specs,
            tool_choice=options.tool_choice,
            settings=options.settings,
            origin=RequestOrigin(self.owner, turn.turn_id, turn.step),
            signal=turn.signal,
        )
        answer = await read_answer(self.model, model_request, self.limits_of_call(), self.feed)
        if answer.finish_reason == "content-filter":
            # Whatever came before the filter cut in is half an answer: nothing of it is run.
            refused = f"{self.model.ref}: a content filter refused the request or the answer to it"
            raise ModelError(refused, kind="refused", retryable=False)
        if options.tool_choice not in ("auto", "none") and not answer.calls:
            raise ToolChoiceError("the model answered without the tool call that the request demanded")
        return answer, options

    def limits_of_call(self) -> tuple[float, float, float]:
        """Return the limits of one model call: first part, between parts, whole call; in seconds."""
        return self.limits.first_part_s, self.limits.between_parts_s, self.limits.call_s

    async def _record(self, *entries: Entry) -> None:
        await self.journal.submit(entries).wait()


def _is_offered(name: str, options: StepOptions) -> bool:
    return options.active_tools is None or name in options.active_tools
