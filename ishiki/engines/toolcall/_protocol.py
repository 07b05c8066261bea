"""What all text protocols share: tools go into the system prompt, calls come out of the answer's text.

A protocol says how tools, calls and results are written (`TextProtocol`); the middleware here does the rest, for each
model call. Source: reference, toolcall contract. Native tools that a model calls all the same pass through.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from ishiki.contracts.engines import ModelMiddleware, NextStream, ToolcallEngineInstance
from ishiki.core.messages import ToolCallPart, ToolResultPart
from ishiki.core.model import ModelInfo, ModelPart, ModelRequest, ToolChoice, ToolSpec
from ishiki.engines.toolcall._answer import AnswerParser, AnswerReader
from ishiki.engines.toolcall._history import rewritten

__all__ = ["TextMiddleware", "TextProtocol", "TextRequest", "TextToolcall", "ToolTable"]

ToolTable: TypeAlias = "Mapping[str, ToolSpec]"
"""The tools of one request by name, in the order in which the model sees them."""


class TextProtocol(ABC):
    """How one engine writes tools, calls and results. Holds no state; everything it does is a pure function."""

    name: ClassVar[str]
    """As profiles write the engine; call ids begin with it."""

    @abstractmethod
    def contract(self, tools: ToolTable) -> str:
        """Return the rules and the catalogue for the system prompt. `tools` is not empty."""

    @abstractmethod
    def render_call(self, call: ToolCallPart, tools: ToolTable) -> str:
        """Return an earlier call as the model would have written it. Its tool may be gone."""

    @abstractmethod
    def render_result(self, part: ToolResultPart) -> str:
        """Return a result as text, fenced: nothing that a tool returned can end it."""

    @abstractmethod
    def parser(self, tools: ToolTable) -> AnswerParser:
        """Return a fresh parser for one answer."""


@dataclass(frozen=True, slots=True)
class TextRequest(ModelRequest):
    """A request whose tools stand in its instructions."""

    catalogue: Sequence[ToolSpec] = ()
    """The tools that its answer may call; none where calls are not to be read."""


class TextToolcall(ToolcallEngineInstance):
    """One text protocol in one runtime."""

    def __init__(self, protocol: TextProtocol) -> None:
        self._middleware = TextMiddleware(protocol)

    def middleware(self) -> ModelMiddleware:
        """Return the middleware; the same one every time, because it counts the calls."""
        return self._middleware


class TextMiddleware(ModelMiddleware):
    """Applies a text protocol to each model call."""

    def __init__(self, protocol: TextProtocol) -> None:
        self._protocol = protocol
        self._count = 0

    def transform_request(self, request: ModelRequest, model: ModelInfo) -> ModelRequest:
        """Return `request` with its tools in the instructions and its history in the protocol's own words.

        The contract stands behind the instructions, and both change only with the tools: the prefix stays cacheable.
        """
        tools = _tools_of(request)
        table = {tool.name: tool for tool in tools}
        instructions = request.instructions
        if tools:
            paragraphs = [instructions, self._protocol.contract(table), _demand(request.tool_choice)]
            instructions = "\n\n".join(text for text in paragraphs if text)
        return TextRequest(
            instructions=instructions,
            messages=rewritten(
                request.messages,
                lambda call: self._protocol.render_call(call, table),
                self._protocol.render_result,
            ),
            settings=request.settings,
            origin=request.origin,
            signal=request.signal,
            catalogue=() if request.tool_choice == "none" else tools,
        )

    async def wrap_stream(self, next_stream: NextStream, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """Yield the answer with the calls that stand in its text as tool calls."""
        catalogue = request.catalogue if isinstance(request, TextRequest) else request.tools
        reader = AnswerReader(
            self._protocol.parser({tool.name: tool for tool in catalogue}), self._next_id, self._protocol.name
        )
        stream = next_stream(request)
        try:
            async for part in stream:
                if not catalogue:
                    yield part
                    continue
                for read in reader.take(part):
                    yield read
        finally:
            # An iterator that is no generator ends with its task.
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    def _next_id(self) -> str:
        self._count += 1
        return f"{self._protocol.name}-{self._count}"


def _tools_of(request: ModelRequest) -> Sequence[ToolSpec]:
    choice = request.tool_choice
    if isinstance(choice, ToolSpec) and all(tool.name != choice.name for tool in request.tools):
        return (*request.tools, choice)
    return request.tools


def _demand(choice: ToolChoice) -> str:
    match choice:
        case "auto":
            return ""
        case "none":
            return "Call no tool in this answer."
        case "required":
            return "This answer has to call at least one tool."
        case ToolSpec(name):
            return f"This answer has to call the tool {name}."
