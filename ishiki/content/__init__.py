"""Message content: element markup, the line the model reads, and what can be asked of both.

A leaf: imports nothing of Ishiki outside this package. Content comes from strangers; the promise of this package is
that what a user typed never becomes an element, an attribute, or a line of somebody else.

* `tags`, `markup`: the vocabulary, `parse` and `serialise`
* `names`, `lines`: display names, one line per fact, and `split_lines` as the way back
* `mentions`: who is addressed, what is visible, one-line previews
* `splitting`, `graphemes`, `markdown`: cutting and flattening what the model says
* `typing_delay`, `think`, `repetition`: how long typing takes, what is reasoning, and going round in circles
* `line_heads`, `written_breaks`: a transcript that is written on, and line breaks that are written out
"""

from __future__ import annotations

from ishiki.content.line_heads import without_line_heads
from ishiki.content.lines import (
    INDENT,
    QUOTE_CHARS,
    ChannelLine,
    MessageLine,
    Quote,
    ReadLine,
    RecallLine,
    Speaker,
    StandingLine,
    normalise_body,
    render_channel,
    render_message,
    render_recall,
    render_standing,
    split_lines,
)
from ishiki.content.markdown import flatten_markdown
from ishiki.content.markup import (
    Element,
    Node,
    Text,
    canonical,
    element,
    escape,
    escape_attribute,
    map_text,
    parse,
    serialise,
    unescape,
)
from ishiki.content.mentions import contains_keyword, is_at_all, is_at_self, plain_preview, visible_text
from ishiki.content.names import MAX_NAME_CHARS, clean_name, line_id, line_name
from ishiki.content.repetition import collapse_repetition
from ishiki.content.splitting import shorten_markup, split_reply, split_text
from ishiki.content.tags import TAGS, TagSpec
from ishiki.content.think import strip_think
from ishiki.content.typing_delay import TypingConfig, typing_delay_ms
from ishiki.content.written_breaks import with_line_breaks

__all__ = [
    "INDENT",
    "MAX_NAME_CHARS",
    "QUOTE_CHARS",
    "TAGS",
    "ChannelLine",
    "Element",
    "MessageLine",
    "Node",
    "Quote",
    "ReadLine",
    "RecallLine",
    "Speaker",
    "StandingLine",
    "TagSpec",
    "Text",
    "TypingConfig",
    "canonical",
    "clean_name",
    "collapse_repetition",
    "contains_keyword",
    "element",
    "escape",
    "escape_attribute",
    "flatten_markdown",
    "is_at_all",
    "is_at_self",
    "line_id",
    "line_name",
    "map_text",
    "normalise_body",
    "parse",
    "plain_preview",
    "render_channel",
    "render_message",
    "render_recall",
    "render_standing",
    "serialise",
    "shorten_markup",
    "split_lines",
    "split_reply",
    "split_text",
    "strip_think",
    "typing_delay_ms",
    "unescape",
    "visible_text",
    "with_line_breaks",
    "without_line_heads",
]
