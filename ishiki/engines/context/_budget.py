"""How much of a history fits: sizes in characters, what a token costs, and where to cut. No clock, no I/O.

Only characters can be counted in advance: `tokens = fixed + rate * characters`, where `fixed` stands for the system
prompt and the tools, and both are learned from what providers report. Source: specification, context engine `standard`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from ishiki.contracts.transcript import Transcript
from ishiki.core.entries import EVENT, Entry
from ishiki.core.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    message_to_json,
)
from ishiki.jsonvalue import read_str

__all__ = ["EntrySizes", "TokenRate", "find_cut", "find_fold", "is_turn_start"]

_INITIAL_RATE = 0.5
_LEAST_RATE = 0.1
_GREATEST_RATE = 1.5
"""Tokens per character; a pair of samples that says anything else was disturbed by something."""

_LEAST_DIFFERENCE = 0.1
"""Two samples tell a rate only when their sizes differ by this much of the larger one."""

_PART_CHARS = 64
"""What a part of a user message counts that is no text; media are budgeted where they are projected."""

_LINE_CHARS = 20
"""About what a fact's line has beside its content: the shortest head of a line, and less than any recall."""

_LEAST_SHOWN = 100
"""However long a message is, so much of it is shown: the least that `guards.max_message_chars` can be."""


@dataclass(slots=True)
class TokenRate:
    """What a request of so many characters costs in tokens."""

    rate: float = _INITIAL_RATE
    fixed: float = 0.0
    _sample: tuple[int, int] | None = None

    def ceiling(self, max_tokens: int) -> float:
        """Return how many characters of history fit into `max_tokens`; 0 or more."""
        return max(0.0, (max_tokens - self.fixed) / self.rate)

    def learn(self, chars: int, tokens: int) -> None:
        """Take what one request of `chars` characters of history really cost.

        The sample is kept until another one differs enough to tell a rate; then that one is kept (our choice: compared
        with the last request only, a history that grows line by line would never tell anything).
        """
        if chars <= 0 or tokens <= 0:
            return
        if self._sample is None:
            self._sample = (chars, tokens)
            return
        known_chars, known_tokens = self._sample
        if abs(chars - known_chars) < _LEAST_DIFFERENCE * max(chars, known_chars):
            return
        self._sample = (chars, tokens)
        rate = (tokens - known_tokens) / (chars - known_chars)
        if _LEAST_RATE <= rate <= _GREATEST_RATE:
            self.rate = rate
            self.fixed = max(0.0, tokens - rate * chars)


@dataclass(slots=True)
class EntrySizes:
    """Characters that entries put before a model, measured once each."""

    transcript: Transcript
    _known: dict[str, int] = field(default_factory=dict[str, int])

    def of(self, entries: Sequence[Entry]) -> list[int]:
        """Return the size of each entry, in the order of the history; 0 for what is no message."""
        if len(self._known) > 2 * len(entries) + 1_000:
            live = {entry.id for entry in entries}
            self._known = {key: size for key, size in self._known.items() if key in live}
        known = self._known
        sizes: list[int] = []
        for entry in entries:
            size = known.get(entry.id)
            if size is None:
                message = entry.message
                size = known[entry.id] = 0 if message is None else self.of_message(message)
            sizes.append(size)
        return sizes

    def guess(self, entry: Entry) -> int:
        """Return the size of an entry, or a low guess at it that renders nothing.

        Facts are rendered in the order of the history, so looking backwards must not render them.
        """
        size = self._known.get(entry.id)
        if size is not None:
            return size
        message = entry.message
        if isinstance(message, CustomMessage):
            return _LINE_CHARS + min(len(read_str(message.data, "content")), _LEAST_SHOWN)
        size = self._known[entry.id] = 0 if message is None else self.of_message(message)
        return size

    def of_message(self, message: Message) -> int:
        """Return the characters of one message."""
        match message:
            case CustomMessage():
                fact = self.transcript.fact(message)
                return len(json.dumps(message.data, ensure_ascii=False)) if fact is None else len(fact.text)
            case SystemMessage():
                return len(message.content)
            case UserMessage(content=str() as content):
                return len(content)
            case UserMessage():
                parts = message.content
                return sum(len(part.text) if isinstance(part, TextPart) else _PART_CHARS for part in parts)
            case AssistantMessage() | ToolMessage():
                return len(json.dumps(message_to_json(message)["content"], ensure_ascii=False))


def find_cut(
    entries: Sequence[Entry], sizes: Sequence[int], *, start: int, head: int, ceiling: float, target: float
) -> int | None:
    """Return the index from which entries are kept, or None where no turn begins behind `start`.

    Whole turns are kept, the newest first: the newest one always, an older one while all stay within `ceiling`, and
    none behind the one that crosses `target`. A turn begins at its `turn.start`, so a call is never parted from its
    result.

    What led to the oldest kept turn stands before its start: facts directly in front of it are kept as well, the newest
    first, as far as `target` allows, and the last of them as far as `ceiling` does, in front of the newest turn in any
    case (our choice: in a busy group thousands of lines lie between two turns, and the last of them woke the mind).

    Args:
        entries: the history.
        sizes: characters of each entry.
        start: nothing before it is considered.
        head: characters that stand before the history in any case.
        ceiling: characters that must not be exceeded.
        target: characters to fall back to.
    """
    starts = [index for index in range(start, len(entries)) if is_turn_start(entries[index])]
    if not starts:
        return None
    kept = head
    cut = len(entries)
    for boundary in reversed(starts):
        size = sum(sizes[boundary:cut])
        if cut < len(entries) and kept + size > ceiling:
            break
        kept += size
        cut = boundary
        if kept > target:
            break
    room_for_last = float("inf") if cut == starts[-1] else ceiling - kept
    return _with_lead(entries, sizes, start=start, cut=cut, room=target - kept, room_for_last=room_for_last)


def find_fold(
    entries: Sequence[Entry], sizes: Sequence[int], *, head: int, ceiling: float, target: float
) -> int | None:
    """Return the index before which everything is to be summarised, or None where no turn begins.

    As `find_cut`, but the newest turn, which has ended, goes as well where it alone exceeds `ceiling`: it would fill
    every further request. What was said behind its last answer stays as far as `target` allows, since no model has read
    it yet (our choice).
    """
    newest = next((index for index in range(len(entries) - 1, -1, -1) if is_turn_start(entries[index])), None)
    if newest is None:
        return None
    if head + sum(sizes[newest:]) <= ceiling:
        return find_cut(entries, sizes, start=0, head=head, ceiling=ceiling, target=target)
    return _with_lead(
        entries, sizes, start=0, cut=len(entries), room=target - head, room_for_last=max(0.0, ceiling - head)
    )


def _with_lead(
    entries: Sequence[Entry], sizes: Sequence[int], *, start: int, cut: int, room: float, room_for_last: float
) -> int:
    lead = cut
    for index in range(cut - 1, start - 1, -1):
        message = entries[index].message
        if message is None:
            continue
        if isinstance(message, AssistantMessage | ToolMessage):
            break
        if sizes[index] > (max(room, room_for_last) if lead == cut else room):
            break
        lead = index
        room -= sizes[index]
    return lead


def is_turn_start(entry: Entry) -> bool:
    """Whether a turn begins with `entry`."""
    return entry.type == EVENT and entry.json_data.get("type") == "turn.start"
