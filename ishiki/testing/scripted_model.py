"""`ScriptedModel`: a language model that answers what the test says, and remembers what it was asked.

For turn-level tests without a network. What crosses a network is tested with `openai_server`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeAlias

import anyio
import orjson

from ishiki.core.messages import FinishReason, Usage
from ishiki.core.model import Finish, ModelInfo, ModelPart, ModelRequest, ReasoningDelta, TextDelta, ToolCall
from ishiki.jsonvalue import JsonObject

__all__ = ["ScriptedAnswer", "ScriptedModel", "call", "reasoning", "saying", "text"]

ScriptedAnswer: TypeAlias = "Sequence[ModelPart] | Exception"
"""The parts of one answer (a missing `Finish` at the end is a cut stream), or what the call raises."""

_USAGE = Usage(input_tokens=100, output_tokens=10)


class ScriptedModel:
    """Gives the scripted answers in order; one more request than there are answers is an error of the test.

    Attributes:
        requests: what it was asked, in order of arrival.
    """

    def __init__(
        self,
        answers: Sequence[ScriptedAnswer],
        *,
        ref: str = "test:scripted",
        responder: Callable[[ModelRequest], ScriptedAnswer] | None = None,
    ) -> None:
        """Answer with `answers`, and then with what `responder` returns, if there is one."""
        self.requests: list[ModelRequest] = []
        self._answers: list[ScriptedAnswer] = [_as_answer(answer) for answer in answers]
        self._ref = ref
        self._responder = responder
        self._arrived = anyio.Event()
        self._gate: anyio.Event | None = None

    @property
    def ref(self) -> str:
        """The reference under which it goes."""
        return self._ref

    @property
    def info(self) -> ModelInfo:
        """What it claims of itself."""
        return ModelInfo(self._ref, context_window=100_000)

    def hold(self) -> None:
        """Let every request from now on wait for `release`."""
        self._gate = anyio.Event()

    def release(self) -> None:
        """Let the held requests, and all later ones, go on."""
        if self._gate is not None:
            self._gate.set()
            self._gate = None

    async def wait_requests(self, count: int, *, within_s: float = 5.0) -> None:
        """Return as soon as `count` requests have arrived in all.

        Raises:
            TimeoutError: they have not within `within_s` seconds.
        """
        with anyio.fail_after(within_s):
            while len(self.requests) < count:
                await self._arrived.wait()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """Answer `request`."""
        self.requests.append(request)
        number = len(self.requests)
        arrived, self._arrived = self._arrived, anyio.Event()
        arrived.set()
        if self._gate is not None:
            await self._gate.wait()
        if number <= len(self._answers):
            answer = self._answers[number - 1]
        elif self._responder is not None:
            answer = self._responder(request)
        else:
            raise AssertionError(f"request {number} has no scripted answer")
        if isinstance(answer, Exception):
            raise answer
        for part in answer:
            yield part


def _as_answer(answer: ScriptedAnswer) -> ScriptedAnswer:
    if isinstance(answer, Exception):
        return answer
    return _with_one_finish(answer) if any(isinstance(part, Finish) for part in answer) else answer


def _with_one_finish(parts: Sequence[ModelPart]) -> list[ModelPart]:
    """Keep the last finish only, so that answers can be added up: `call(…) + call(…)`."""
    last = next(part for part in reversed(parts) if isinstance(part, Finish))
    return [*(part for part in parts if not isinstance(part, Finish)), last]


def text(content: str, *, finish_reason: FinishReason = "stop", usage: Usage = _USAGE) -> list[ModelPart]:
    """Return an answer of plain text."""
    parts: list[ModelPart] = [TextDelta(content)] if content else []
    return [*parts, Finish(finish_reason, usage)]


def saying(content: str, *, finish: bool = True) -> list[ModelPart]:
    """Return an answer of plain text; `finish=False`: one whose stream was cut."""
    return text(content) if finish else [TextDelta(content)]


def reasoning(content: str) -> list[ModelPart]:
    """Return reasoning, to be put in front of another answer."""
    return [ReasoningDelta(content)]


def call(
    tool_name: str, arguments: JsonObject | str, tool_call_id: str = "call_1", *, usage: Usage = _USAGE
) -> list[ModelPart]:
    """Return an answer that calls a tool; several are added with `+`.

    Args:
        tool_name: the tool.
        arguments: an object, or the raw text that stands where JSON should.
        tool_call_id: the model's own id.
        usage: of the whole answer.
    """
    raw = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return [ToolCall(tool_call_id, tool_name, raw), Finish("tool-calls", usage)]
