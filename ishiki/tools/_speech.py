"""From what the model wrote to the platform messages it becomes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ishiki.content import (
    Text,
    collapse_repetition,
    flatten_markdown,
    map_text,
    parse,
    serialise,
    split_reply,
    strip_think,
)
from ishiki.tools._technical import words_of

__all__ = ["Speech", "compose"]


@dataclass(frozen=True, slots=True)
class Speech:
    """What one call says."""

    messages: Sequence[str]
    """Platform messages in order, as element markup; none is empty."""
    dropped: Sequence[str]
    """Of each string that came to nothing, or to less, why."""


def compose(texts: Sequence[str], *, is_raw: bool, plain_text: bool, max_chars: int) -> Speech:
    """Return what is left of `texts` to be said.

    Reasoning, technical forms and repetition are taken out of each before its markup is read. A text longer than
    `max_chars` becomes several messages.

    Args:
        texts: what the model wrote, one per chat message.
        is_raw: whether markup stays text.
        plain_text: whether Markdown is flattened.
        max_chars: characters of one platform message, as a reader counts them.
    """
    messages: list[str] = []
    dropped: list[str] = []
    for number, text in enumerate(texts, start=1):
        said = strip_think(text)
        words = [said] if is_raw else [strip_think(word) for word in words_of(said)]
        pieces: list[str] = []
        for word in words:
            # More than one message is long on purpose: a model that loses itself for so long is cut by its own limit
            # before its call is whole.
            once = collapse_repetition(word) if len(word) <= max_chars else word
            if once is not word:
                dropped.append(f"message {number}: it repeated itself over and over, and was said once")
            nodes = (Text(once),) if is_raw else parse(once)
            if plain_text:
                nodes = map_text(nodes, flatten_markdown)
            pieces.extend(serialise(piece) for piece in split_reply(nodes, max_chars))
        messages.extend(pieces)
        if not pieces:
            dropped.append(f"message {number}: {_why_nothing(text, said)}")
    return Speech(messages, dropped)


def _why_nothing(text: str, said: str) -> str:
    if not text.strip():
        return "it was empty"
    if not said.strip():
        return "nothing was left when reasoning was taken out"
    return "a tool call written as text is not said; call the tool itself"
