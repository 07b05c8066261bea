"""One stage: asks its model, reads the answer, and asks once more where that cannot be read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Generic, TypeVar

from ishiki import (
    AssistantMessage,
    Finish,
    LanguageModel,
    ModelError,
    ModelPart,
    ModelRequest,
    ReasoningDelta,
    ResponseStart,
    TextDelta,
    TextPart,
    ToolCall,
    ToolCallDelta,
    Usage,
    UserMessage,
)

from .answers import StageAnswer
from .prompts import repair_note

__all__ = ["Stage", "usage_sum"]

T = TypeVar("T")

_ATTEMPTS = 2
"""A first one, and one to mend it."""

_SHOWN_CHARS = 4_000
"""How much of an unreadable answer its writer is shown again."""

_ALIVE_ID = "narrative"
"""The call id of the deltas that tell whoever waits that a stage is writing."""


def usage_sum(one: Usage, other: Usage) -> Usage:
    """Return the tokens of both; an estimate where either is one."""
    return Usage(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cached_input_tokens + other.cached_input_tokens,
        one.reasoning_tokens + other.reasoning_tokens,
        one.is_estimate or other.is_estimate,
    )


class Stage(Generic[T]):
    """One stage of one step. Iterate `parts`, then take `result`.

    Attributes:
        usage: of all its calls so far.
    """

    def __init__(
        self, name: str, model: LanguageModel, request: ModelRequest, read: Callable[[StageAnswer], T]
    ) -> None:
        """Ask `model` with `request`, which ends with the stage's note; `read` raises `ValueError` saying why not."""
        self.name = name
        self.model = model
        self.request = request
        self.read = read
        self.usage = Usage()
        self._results: list[T] = []

    @property
    def result(self) -> T:
        """What was read; there once `parts` has come to its end."""
        return self._results[0]

    async def parts(self) -> AsyncGenerator[ModelPart, None]:
        """Ask, and yield what only shows that the model is at work: nothing of it is part of the answer.

        Raises:
            ModelError: the call failed, or what the model wrote could not be read twice (`unavailable`).
        """
        request, problem = self.request, ""
        for _ in range(_ATTEMPTS):
            heard = _Heard(self.name, self.model.ref)
            async with aclosing(heard.parts(self.model.stream(request))) as parts:
                async for part in parts:
                    yield part
            self.usage = usage_sum(self.usage, heard.usage)
            answer = StageAnswer("".join(heard.text), heard.calls)
            try:
                self._results.append(self.read(answer))
            except ValueError as error:
                problem = str(error)
                request = replace(self.request, messages=[*self.request.messages, *_mending(answer, problem)])
            else:
                return
        raise ModelError(
            f"narrative: the {self.name} ({self.model.ref}) gave no usable answer, not even when it was asked again: "
            f"{problem}",
            kind="unavailable",
            retryable=True,
        )


class _Heard:
    """One call's answer, as it comes."""

    def __init__(self, stage: str, ref: str) -> None:
        self.stage = stage
        self.ref = ref
        self.text: list[str] = []
        self.calls: list[ToolCall] = []
        self.usage = Usage()

    async def parts(self, stream: AsyncIterator[ModelPart]) -> AsyncGenerator[ModelPart, None]:
        """Read `stream` to its finish, and yield a sign of life for each of its parts."""
        try:
            async for part in stream:
                match part:
                    case Finish():
                        self._finish(part)
                        return
                    case TextDelta(text):
                        self.text.append(text)
                        yield ToolCallDelta(_ALIVE_ID, "", text)
                    case ReasoningDelta(text):
                        yield ToolCallDelta(_ALIVE_ID, "", text)
                    case ToolCall():
                        self.calls.append(part)
                    case ResponseStart() | ToolCallDelta():
                        yield part
        finally:
            # Whoever stops reading here ends the call at the provider. An iterator that is no generator ends with its
            # task.
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()
        raise ModelError(
            f"narrative: the answer of the {self.stage} ({self.ref}) was cut before its end", kind="cut", retryable=True
        )

    def _finish(self, finish: Finish) -> None:
        self.usage = finish.usage
        if finish.reason == "content-filter":
            refused = f"narrative: a content filter refused the {self.stage}'s request ({self.ref}) or its answer"
            raise ModelError(refused, kind="refused", retryable=False)


def _mending(answer: StageAnswer, problem: str) -> tuple[AssistantMessage, UserMessage]:
    written = answer.text.strip() or ", ".join(f"(called {call.tool_name})" for call in answer.calls)
    shown = written[:_SHOWN_CHARS] or "(nothing)"
    return AssistantMessage([TextPart(shown)]), UserMessage(repair_note(problem))
