"""Where a runtime's numbers come from: every answer of a model it asks, and the turns and steps of its agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TypeAlias

from ishiki.core.agent import Agent
from ishiki.core.entries import Entry, step_key
from ishiki.core.events import AgentEvent, MessageAppended, TurnStart
from ishiki.core.messages import AssistantMessage, Usage
from ishiki.core.model import (
    Finish,
    LanguageModel,
    ModelInfo,
    ModelPart,
    ModelRequest,
    ReasoningDelta,
    RequestOrigin,
    TextDelta,
    ToolCallDelta,
)
from ishiki.gateway.estimate import estimate_request, estimate_text
from ishiki.runtime.usage.books import ProfileUsage

__all__ = ["MeteredModel", "RuntimeMeter"]

_Note: TypeAlias = "Callable[[Usage, RequestOrigin], None]"


class MeteredModel:
    """Passes every call on and notes what it took, also where the answer never comes to its end."""

    def __init__(self, model: LanguageModel, note: _Note) -> None:
        """Pass calls on to `model`, and tell `note` of each that was answered, once."""
        self._model = model
        self._note = note

    @property
    def ref(self) -> str:
        """The model's reference."""
        return self._model.ref

    @property
    def info(self) -> ModelInfo:
        """The model's info."""
        return self._model.info

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        """Let the model answer.

        Raises:
            ModelError: as the model does.
        """
        written: list[str] = []
        has_begun = is_finished = False
        parts = self._model.stream(request)
        try:
            async for part in parts:
                has_begun = True
                written.append(_text_of(part))
                if isinstance(part, Finish) and not is_finished:
                    is_finished = True
                    self._note(part.usage, request.origin)
                yield part
        finally:
            if has_begun and not is_finished:
                # It is paid for all the same. How much, only the provider knows.
                estimate = Usage(estimate_request(request), estimate_text("".join(written)), is_estimate=True)
                self._note(estimate, request.origin)
            if isinstance(parts, AsyncGenerator):
                await parts.aclose()


def _text_of(part: ModelPart) -> str:
    match part:
        case TextDelta(text) | ReasoningDelta(text):
            return text
        case ToolCallDelta():
            return part.delta
        case _:
            return ""


class RuntimeMeter:
    """One runtime's share of its profile's numbers."""

    def __init__(self, usage: ProfileUsage, channel: str, window: Sequence[Entry]) -> None:
        """Count for `channel` in `usage`, and count first what of its log a kill has left uncounted.

        Args:
            usage: the profile's.
            channel: the runtime's, as `<sid>/<channel>`, or `main` in cross mode.
            window: the newest entries of its log.
        """
        self._usage = usage
        self._channel = channel
        usage.catch_up(self._channel, window)

    def metered(self, model: LanguageModel) -> LanguageModel:
        """Return `model` with its calls counted."""
        return MeteredModel(model, self._note_call)

    def attach(self, agent: Agent) -> None:
        """Count the turns of `agent` from now on."""
        agent.feed.subscribe("agent", self._hear)

    def _note_call(self, usage: Usage, origin: RequestOrigin) -> None:
        step = step_key(origin.turn_id, origin.step) if origin.turn_id else ""
        self._usage.note_call(self._channel, usage, step)

    def _hear(self, event: AgentEvent) -> None:
        match event:
            case TurnStart():
                self._usage.note_turn(self._channel, event.turn_id)
            case MessageAppended(message=AssistantMessage(), entry=entry) if entry.turn_id and entry.step is not None:
                self._usage.note_written(self._channel, step_key(entry.turn_id, entry.step))
            case _:
                pass
