"""From what the model wrote to the platform messages it becomes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ishiki.content import (
    Text,
    canonical,
    collapse_repetition,
    flatten_markdown,
    map_text,
    parse,
    serialise,
    split_reply,
    strip_think,
    with_line_breaks,
    without_line_heads,
)
from ishiki.modeltext.schema_values import HasSchema
from ishiki.tools._technical import plain_words, words_of

__all__ = ["Speech", "compose"]


@dataclass(frozen=True, slots=True)
class Speech:
    """What one call says."""

    messages: Sequence[str]
    """Platform messages in order, as element markup; none is empty."""
    dropped: Sequence[str]
    """Of each string that came to nothing, or to less, why."""


def compose(
    texts: Sequence[str],
    *,
    is_raw: bool,
    plain_text: bool,
    max_chars: int,
    tools: Mapping[str, HasSchema] | None = None,
    self_id: str = "",
) -> Speech:
    """Return what is left of `texts` to be said.

    Reasoning, technical forms, heads of lines and repetition are taken out of each before its markup is read. A text
    longer than `max_chars` becomes several messages.

    Args:
        texts: what the model wrote, one per chat message.
        is_raw: whether markup stays text.
        plain_text: whether Markdown is flattened.
        max_chars: characters of one platform message, as a reader counts them.
        tools: the tools that are there; calls of them are known by their names.
        self_id: the account that speaks.
    """
    messages: list[str] = []
    dropped: list[str] = []
    for number, text in enumerate(texts, start=1):
        technical = [plain_words(text, tools)] if is_raw else words_of(text, tools)
        words = [without_line_heads(word, self_id) for word in technical]
        pieces: list[str] = []
        for words_alone in words:
            word = words_alone if is_raw else with_line_breaks(words_alone)
            # More than one message is long on purpose: a model that loses itself for so long is cut by its own limit
            # before its call is whole.
            once = collapse_repetition(word) if len(word) <= max_chars else word
            if once is not word:
                dropped.append(f"message {number}: it repeated itself over and over, and was said once")
            nodes = (Text(once),) if is_raw else canonical(parse(once))
            if plain_text:
                nodes = map_text(nodes, flatten_markdown)
            pieces.extend(serialise(piece) for piece in split_reply(nodes, max_chars))
        messages.extend(pieces)
        if not pieces:
            dropped.append(f"message {number}: {_why_nothing(text, technical)}")
    return Speech(messages, dropped)


def _why_nothing(text: str, technical: Sequence[str]) -> str:
    if not text.strip():
        return "it was empty"
    if not strip_think(text).strip():
        return "nothing was left when reasoning was taken out"
    if any(word.strip() for word in technical):
        return "it spoke as somebody else, by the head of a line; write your own words only, without a head"
    return "a tool call written as text is not said; call the tool itself"
