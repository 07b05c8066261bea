"""The context half: the history as it happened, in runs of lines, with a mark in front of each turn's input.

Cut at whole lines when it grows past its bound, and then by a good part at once: a cut stays where it is until the
bound is crossed again, so that requests in between share their beginning.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import Field

from ishiki import (
    AssistantMessage,
    ConfigModel,
    ContextEngine,
    ContextEngineInstance,
    ContextRequest,
    CustomMessage,
    Entry,
    ExtensionHost,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)

from .mark import with_marks

__all__ = ["NarrativeContext", "NarrativeContextConfig", "NarrativeContextEngine"]

_REFILL_RATIO = 0.75
"""Share of the bound that a cut leaves: small enough that cuts are seldom, large enough that little is lost."""

_FILE_CHARS = 1_500
"""What media count for, in characters; our choice."""


class NarrativeContextConfig(ConfigModel):
    """What stands under `context.narrative`."""

    max_chars: int = Field(
        default=40_000,
        ge=1_000,
        le=100_000_000,
        description="Characters of the conversation that one request shows; every stage of a step pays for them.",
    )


class NarrativeContext(ContextEngineInstance):
    """The engine in one runtime."""

    def __init__(self, host: ExtensionHost, config: NarrativeContextConfig) -> None:
        """Start with nothing cut."""
        self._transcript = host.transcript
        self._logger = host.logger
        self._max_chars = config.max_chars
        self._cut_id: str | None = None
        self._shown_chars = 0
        self._shrunk: tuple[str, float] | None = None
        self._has_warned = False

    def prepare_entries(self, entries: Sequence[Entry], request: ContextRequest) -> Sequence[Entry]:
        """Return the newest entries that fit, with their marks."""
        kept = self._within(self._bound(request), entries, request.turn_id)
        return with_marks(kept, request.turn_id)

    def render_messages(self, messages: Sequence[Message], request: ContextRequest) -> Sequence[Message]:
        """Join runs of lines. Marks end a run; attachments stay for whoever projects them."""
        folded: list[Message] = []
        lines: list[str] = []
        header = run_id = ""
        for message in messages:
            fact = self._transcript.fact(message) if isinstance(message, CustomMessage) else None
            is_line = fact is not None and fact.is_line
            if lines and (fact is None or not is_line or fact.header != header):
                folded.append(UserMessage("\n".join(lines), id=run_id))
                lines = []
            if fact is None or not is_line:
                folded.append(message)
                continue
            if not lines:
                header, run_id = fact.header, message.id
                lines = [header] if header else []
            lines.append(fact.text)
        if lines:
            folded.append(UserMessage("\n".join(lines), id=run_id))
        return folded

    def _bound(self, request: ContextRequest) -> float:
        if request.budget_scale >= 1:
            return self._max_chars
        # What was just too long says more than the setting. Taken once a turn: its further steps ask with the same
        # scale.
        if self._shrunk is None or self._shrunk[0] != request.turn_id:
            known = min(self._max_chars, self._shown_chars or self._max_chars)
            self._shrunk = (request.turn_id, known * request.budget_scale)
        return self._shrunk[1]

    def _within(self, bound: float, entries: Sequence[Entry], turn_id: str) -> Sequence[Entry]:
        """Return what is shown of `entries`: from the cut on, which moves where that is more than `bound`."""
        chars = 0
        best: int | None = None
        for index in range(len(entries) - 1, -1, -1):
            entry = entries[index]
            chars += self._size(entry.message)
            if entry.turn_id == turn_id and isinstance(entry.message, AssistantMessage | ToolMessage):
                best = None  # what the running turn has done is never cut off
            elif self._can_begin(entry.message) and (best is None or chars <= bound * _REFILL_RATIO):
                best = index
            if chars > bound:
                break
            if entry.id == self._cut_id:
                self._shown_chars = chars
                return entries[index:]
        else:
            self._shown_chars = chars
            return entries
        if best is None:
            self._warn_uncut()
            best = self._first_beginning(entries, turn_id)
        self._cut_id = entries[best].id if entries else None
        self._shown_chars = sum(self._size(entry.message) for entry in entries[best:])
        self._logger.debug("requests begin with entry %s from now on", self._cut_id)
        return entries[best:]

    def _warn_uncut(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._logger.warning("a turn alone is longer than context.narrative.max_chars; it is sent whole")

    def _first_beginning(self, entries: Sequence[Entry], turn_id: str) -> int:
        """Return the last place before the running turn's own deeds at which a request can begin; 0 if there is none.

        The line that stands there is what the turn answers.
        """
        place = 0
        for index, entry in enumerate(entries):
            if entry.turn_id == turn_id and isinstance(entry.message, AssistantMessage | ToolMessage):
                break
            if self._can_begin(entry.message):
                place = index
        return place

    def _can_begin(self, message: Message | None) -> bool:
        """Whether a request may begin here: with a line or an input, not inside a turn or between a line's media."""
        if isinstance(message, CustomMessage):
            fact = self._transcript.fact(message)
            return fact is not None and fact.is_line
        return isinstance(message, UserMessage)

    def _size(self, message: Message | None) -> int:
        match message:
            case CustomMessage():
                fact = self._transcript.fact(message)
                return 0 if fact is None else len(fact.text) + 1
            case UserMessage(content=str(text)):
                return len(text)
            case UserMessage(content=parts) | AssistantMessage(content=parts):
                return sum(_part_size(part) for part in parts)
            case ToolMessage():
                return sum(len(_compact(part.output.value)) for part in message.content)
            case _:
                return 0


def _part_size(part: object) -> int:
    match part:
        case TextPart(text) | ReasoningPart(text):
            return len(text)
        case ToolCallPart():
            return len(part.tool_name) + len(_compact(part.input))
        case _:
            return _FILE_CHARS


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=dict)


class NarrativeContextEngine(ContextEngine[NarrativeContextConfig]):
    """The provider; one per process."""

    name = "narrative"
    Config = NarrativeContextConfig

    def create(self, host: ExtensionHost, config: NarrativeContextConfig) -> NarrativeContext:
        """Make the engine of one runtime."""
        return NarrativeContext(host, config)
