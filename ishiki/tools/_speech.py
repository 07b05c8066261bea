"""From what the model wrote to the platform messages it becomes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ishiki.content import Text, flatten_markdown, map_text, parse, serialise, split_reply, strip_think

__all__ = ["Speech", "compose"]


@dataclass(frozen=True, slots=True)
class Speech:
    """What one call says."""

    messages: Sequence[str]
    """Platform messages in order, as element markup; none is empty."""
    dropped: Sequence[str]
    """Of each string that came to nothing, why."""


def compose(texts: Sequence[str], *, is_raw: bool, plain_text: bool, max_chars: int) -> Speech:
    """Return what is left of `texts` to be said.

    Reasoning is taken out of each before its markup is read. A text longer than `max_chars` becomes several messages.

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
        nodes = (Text(said),) if is_raw else parse(said)
        if plain_text:
            nodes = map_text(nodes, flatten_markdown)
        pieces = split_reply(nodes, max_chars)
        messages.extend(serialise(piece) for piece in pieces)
        if not pieces:
            was_reasoning = bool(text.strip()) and not said.strip()
            why = "nothing was left when reasoning was taken out" if was_reasoning else "it was empty"
            dropped.append(f"message {number}: {why}")
    return Speech(messages, dropped)
