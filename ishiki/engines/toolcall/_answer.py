"""One answer of a model, read: text and reasoning out, calls as tool calls, whichever way the stream was cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal, Protocol

from ishiki.core.messages import FinishReason
from ishiki.core.model import Finish, ModelPart, ReasoningDelta, TextDelta, ToolCall, ToolCallDelta
from ishiki.engines.toolcall._frames import Piece
from ishiki.modeltext.json_text import compact_json

__all__ = ["AnswerParser", "AnswerReader"]

_CUT_REASONS: frozenset[FinishReason] = frozenset({"length", "content-filter", "error"})
"""The model was stopped; what it has not closed by then is no call. Our choice: half a message must not be sent."""

_MAX_LEADING_SPACE = 1_000
"""White space before reasoning that is still looked past."""

_THINK_TAGS = {tag: re.compile(f"</{tag[1:]}", re.IGNORECASE) for tag in ("<think>", "<thinking>")}
_MAX_CLOSING_CHARS = len("</thinking>") - 1


class AnswerParser(Protocol):
    """Reads the text of one answer."""

    def feed(self, text: str) -> Iterator[Piece]:
        """Take the next piece of text; yield text and calls that are certain."""
        ...

    def end(self, *, is_cut: bool = False) -> Iterator[Piece]:
        """Yield what is left. `is_cut`: the model was stopped in the middle."""
        ...


class AnswerReader:
    """Turns the parts of one answer into those of a model with native calls."""

    def __init__(self, parser: AnswerParser, next_id: Callable[[], str], ahead_id: str) -> None:
        """Read with `parser`; `next_id` names calls, and `ahead_id` stands for one that is still being written."""
        self._parser = parser
        self._next_id = next_id
        self._ahead_id = ahead_id
        self._think = _LeadingReasoning()
        self._has_calls = False
        self._space: list[str] | None = []
        """White space that begins a text between calls; None once that text has begun."""

    def take(self, part: ModelPart) -> Iterator[ModelPart]:
        """Yield what follows from the next part."""
        match part:
            case TextDelta(text):
                is_silent = True
                for piece in self._think.feed(text):
                    for read in self._read(piece):
                        is_silent = False
                        yield read
                if is_silent and text:
                    # Whoever waits for the next part is to know that the model is writing.
                    yield ToolCallDelta(self._ahead_id, "", text)
            case Finish():
                for piece in self._think.end():
                    yield from self._read(piece)
                yield from self._pieces(self._parser.end(is_cut=part.reason in _CUT_REASONS))
                yield replace(part, reason="tool-calls") if self._has_calls else part
            case ToolCall():
                self._has_calls = True
                yield part
            case _:
                yield part

    def _read(self, piece: str | ReasoningDelta) -> Iterator[ModelPart]:
        if isinstance(piece, ReasoningDelta):
            yield piece
        else:
            yield from self._pieces(self._parser.feed(piece))

    def _pieces(self, pieces: Iterator[Piece]) -> Iterator[ModelPart]:
        for piece in pieces:
            if not isinstance(piece, str):
                self._has_calls = True
                self._space = []
                arguments = piece.arguments
                text = arguments if isinstance(arguments, str) else compact_json(arguments)
                yield ToolCall(self._next_id(), piece.tool_name, text)
            elif self._space is None:
                yield TextDelta(piece)
            else:
                # White space alone, around and between calls, says nothing.
                self._space.append(piece)
                if piece.strip():
                    yield TextDelta("".join(self._space))
                    self._space = None


class _LeadingReasoning:
    """Takes a `<think>` block at the very beginning of an answer as the reasoning that it is.

    Servers that do not separate reasoning leave it in the text, and a call that a model only thinks of must not run.
    A block that is never closed is text after all.
    """

    def __init__(self) -> None:
        self._state: Literal["before", "inside", "behind"] = "before"
        self._held = ""
        """What came before it is certain that a block has begun."""
        self._inner: list[str] = []
        self._tail = ""
        """The end of what is inside, where a closing tag may have begun."""
        self._closing = _THINK_TAGS["<think>"]

    def feed(self, text: str) -> Iterator[str | ReasoningDelta]:
        """Take the next piece of the answer's text."""
        match self._state:
            case "before":
                yield from self._before(text)
            case "inside":
                yield from self._inside(text)
            case "behind":
                yield text

    def end(self) -> Iterator[str]:
        """Yield what was held back."""
        held = self._held + "".join(self._inner)
        if self._state != "behind" and held:
            yield held
        self._state = "behind"

    def _before(self, text: str) -> Iterator[str | ReasoningDelta]:
        self._held += text
        stripped = self._held.lstrip()
        space = len(self._held) - len(stripped)
        beginning = stripped[: len("<thinking>")].lower()
        if space <= _MAX_LEADING_SPACE:
            tag = next((tag for tag in _THINK_TAGS if beginning.startswith(tag)), None)
            if tag is not None:
                self._state = "inside"
                self._closing = _THINK_TAGS[tag]
                self._held = self._held[: space + len(tag)]
                yield from self._inside(stripped[len(tag) :])
                return
            if any(tag.startswith(beginning) for tag in _THINK_TAGS):
                return
        self._state = "behind"
        yield self._held

    def _inside(self, text: str) -> Iterator[str | ReasoningDelta]:
        self._inner.append(text)
        near = self._tail + text
        if self._closing.search(near) is None:
            self._tail = near[-_MAX_CLOSING_CHARS:]
            return
        inner = "".join(self._inner)
        thought, rest = self._closing.split(inner, maxsplit=1)
        self._state = "behind"
        if thought := thought.strip():
            yield ReasoningDelta(thought)
        if rest:
            yield rest
