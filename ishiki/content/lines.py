"""One line of a conversation as the model reads it, and the way back.

A line starts at column 0 with its head; whatever a user typed comes after the head, and each further line of it is
indented by `INDENT`. So a line that starts with `[` was written by us, and `split_lines` gives back exactly the facts
that were rendered. The grammar is in `docs/formats/line.md`; the wording of recalls and of our own lines is our choice,
the rest is the specification's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Literal

from ishiki.content.markup import escape
from ishiki.content.mentions import plain_preview
from ishiki.content.names import line_id, line_name
from ishiki.content.splitting import shorten_markup

__all__ = [
    "INDENT",
    "QUOTE_CHARS",
    "ChannelLine",
    "MessageLine",
    "Quote",
    "ReadLine",
    "RecallLine",
    "Speaker",
    "StandingLine",
    "normalise_body",
    "render_channel",
    "render_message",
    "render_recall",
    "render_standing",
    "split_lines",
]

INDENT = "    "
"""What each further line of a message starts with: one token for most models, and plainly not a new line's head."""

QUOTE_CHARS = 60
"""How much of a quoted message is shown. Source: design, content."""

_NO_TIME = "00-00 00:00"
_BREAK = re.compile("\r\n|[\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
"""Every boundary of `str.splitlines`."""

_UNUSUAL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f]")
_UNSEEN = "[\\s\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufffd]*"
_TYPED_REPLY = re.compile(rf"{_UNSEEN}\((?=reply to )", re.IGNORECASE)
_GUARDED_REPLY = re.compile(rf"({_UNSEEN})&#40;(?=reply to )", re.IGNORECASE)
"""A body that begins like our note of a reply gets a reference for its parenthesis, so that none is forged."""

_LEADING_QUOTE = re.compile(r"\s*<quote(?: [^<>]*)?/>\s?")
_QUOTE_SAFE = str.maketrans("()", "（）")

_WORD = r"[^()\[\]#:<>&\s]+"
_NAME = r"[^()\[\]#:<>&\n]+"
_HEAD = re.compile(rf"\[(\d\d-\d\d \d\d:\d\d)\] (?:(\(you\))|({_NAME})\(({_WORD})\)|({_WORD})) #({_WORD}): ")
_REPLY = re.compile(r"\(reply to ([^()\n]*)\) ")
_RECALL = re.compile(r"\[(\d\d-\d\d \d\d:\d\d)\] \(recall\) ")
_STANDING = re.compile(r"\[(\d\d-\d\d \d\d:\d\d)\] \(notice\) ")
_CHANNEL = re.compile(r"\[channel target=(\{.*\})\]$")
_MESSAGE_NUMBER = re.compile(f"#({_WORD})")


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who said or did something."""

    user_id: str
    """The platform's id, as text; compared by this, never by name."""

    name: str = ""
    """The name as it was then; empty when unknown."""

    is_self: bool = False
    """Whether it is the mind's own account."""


@dataclass(frozen=True, slots=True)
class Quote:
    """The message that another one replies to, as far as it is known."""

    message_id: str
    author: Speaker | None = None
    content: str = ""
    """Markup; empty when the message could not be found."""


@dataclass(frozen=True, slots=True)
class MessageLine:
    """One message to render."""

    timestamp_ms: int
    """Milliseconds since 1970, UTC."""

    speaker: Speaker
    """`is_self` marks the mind's own words said from elsewhere: another device, another plugin."""

    message_id: str
    content: str
    """Markup, as stored."""

    quote: Quote | None = None


@dataclass(frozen=True, slots=True)
class RecallLine:
    """One recalled message to render."""

    timestamp_ms: int
    message_id: str
    author: Speaker | None = None
    """Whose message it was; None when unknown."""

    operator: Speaker | None = None
    """Who recalled it; None when unknown."""


@dataclass(frozen=True, slots=True)
class StandingLine:
    """A change of the mind's own right to speak, to render."""

    timestamp_ms: int
    kind: Literal["muted", "unmuted", "removed", "joined"]
    until_ms: int = 0
    """When a mute ends; 0 when unknown."""

    is_everybody: bool = False
    operator: Speaker | None = None
    """Who did it; None when unknown."""


@dataclass(frozen=True, slots=True)
class ChannelLine:
    """The place that the following lines come from, for a mind of several channels."""

    sid: str
    channel_id: str


@dataclass(frozen=True, slots=True)
class ReadLine:
    """One logical line found by `split_lines`."""

    kind: Literal["message", "recall", "standing", "channel", "other"]
    time: str = ""
    """`MM-DD HH:mm`; empty for a channel header and other text."""

    name: str = ""
    """The speaker's name as shown; empty when it is the id, or for the mind itself."""

    user_id: str = ""
    """The speaker's id as shown; empty for the mind itself."""

    is_self: bool = False
    message_id: str = ""
    reply: str = ""
    """What stands between `(reply to ` and `)`."""

    content: str = ""
    """The message's body as `normalise_body` leaves it; the sentence of a recall or of a standing; a channel's JSON;
    else the text."""


def render_message(line: MessageLine, timezone: tzinfo, *, max_chars: int | None = None) -> str:
    """Render `[MM-DD HH:mm] <name(id) | id> #<messageId>: <content>`.

    The mind's own words have `(you)` as their speaker, which no name can imitate. A reply has
    `(reply to #<id> <author>: <first 60 characters>) ` before its content.

    Args:
        line: the message.
        timezone: the zone whose clock is shown.
        max_chars: content whose markup is longer is cut, with a note of how much is missing; None shows all.

    Returns:
        One logical line without a line break at its end; see `split_lines` for the way back.
    """
    content = line.content
    if line.quote is not None:
        content = _LEADING_QUOTE.sub("", content, count=1) if content.lstrip().startswith("<quote") else content
    if max_chars is not None and len(content) > max_chars:
        content = shorten_markup(content, max_chars)
    body = normalise_body(content)
    if (typed := _TYPED_REPLY.match(body)) is not None:
        body = f"{body[: typed.end() - 1]}&#40;{body[typed.end() :]}"
    if "\n" in body:
        body = body.replace("\n", "\n" + INDENT)
    reply = _render_quote(line.quote) if line.quote is not None else ""
    head = f"[{_clock(line.timestamp_ms, timezone)}] {_speaker(line.speaker)} #{line_id(line.message_id)}: "
    return f"{head}{reply}{body}"


def normalise_body(content: str) -> str:
    r"""Return content with every line boundary as `\n` and other control characters but tab as U+FFFD."""
    if _UNUSUAL.search(content) is None:
        return content
    return _CONTROL.sub("\ufffd", _BREAK.sub("\n", content))


def _clock(timestamp_ms: int, timezone: tzinfo) -> str:
    try:
        at = datetime.fromtimestamp(timestamp_ms / 1000, timezone)
    except (OverflowError, OSError, ValueError):
        return _NO_TIME
    return f"{at.month:02d}-{at.day:02d} {at.hour:02d}:{at.minute:02d}"


def _speaker(speaker: Speaker, own: str = "(you)") -> str:
    if speaker.is_self:
        return own
    user_id = line_id(speaker.user_id)
    name = line_name(speaker.name, speaker.user_id)
    return user_id if name == user_id else f"{name}({user_id})"


def _render_quote(quote: Quote) -> str:
    author = quote.author
    number = f"#{line_id(quote.message_id)}" if quote.message_id else ""
    if author is None:
        words = number
    elif author.is_self:
        words = f"your {number}" if number else "you"
    else:
        words = f"{number} {line_name(author.name, author.user_id)}".lstrip()
    preview = escape(plain_preview(quote.content, QUOTE_CHARS)).translate(_QUOTE_SAFE)
    words = f"{words}: {preview}" if preview else words
    return f"(reply to {words or 'an unknown message'}) "


def render_recall(line: RecallLine, timezone: tzinfo) -> str:
    """Render who recalled what: `[MM-DD HH:mm] (recall) <sentence>`.

    Author and operator are the same person when their ids are equal, whatever their names.
    """
    message = f"message #{line_id(line.message_id)}"
    author, operator = line.author, line.operator
    if author is not None and operator is not None and operator.user_id == author.user_id:
        own = f"your own {message}" if author.is_self else f"their own {message}"
        sentence = f"{_speaker(author, 'you')} recalled {own}"
    else:
        whose = "" if author is None else "your " if author.is_self else f"{_speaker(author)}'s "
        by_whom = "" if operator is None else f" by {_speaker(operator, 'you')}"
        sentence = f"{whose}{message} was recalled{by_whom}"
    return f"[{_clock(line.timestamp_ms, timezone)}] (recall) {sentence}"


_STANDINGS = {
    "muted": ("you were muted", "everybody in this group was muted"),
    "unmuted": ("you may speak again", "everybody in this group may speak again"),
    "removed": ("you are no longer a member of this group", "this group was closed"),
    "joined": ("you have become a member of this group", "this group was opened"),
}
"""What is told of the account alone, and of everybody."""


def render_standing(line: StandingLine, timezone: tzinfo) -> str:
    """Render what has become of the right to speak: `[MM-DD HH:mm] (notice) <sentence>`."""
    alone, everybody = _STANDINGS[line.kind]
    until = f" until {_clock(line.until_ms, timezone)}" if line.kind == "muted" and line.until_ms else ""
    operator = line.operator
    by_whom = "" if operator is None else f" (by {_speaker(operator, 'you')})"
    sentence = f"{everybody if line.is_everybody else alone}{until}{by_whom}"
    return f"[{_clock(line.timestamp_ms, timezone)}] (notice) {sentence}"


def render_channel(line: ChannelLine) -> str:
    """Render `[channel target={"sid":…,"channelId":…}]`, the target as JSON that the model copies."""
    target = {"sid": line.sid, "channelId": line.channel_id}
    plain = line.sid.isprintable() and line.channel_id.isprintable()
    return f"[channel target={json.dumps(target, ensure_ascii=not plain, separators=(',', ':'))}]"


def split_lines(text: str) -> tuple[ReadLine, ...]:
    """Give back the logical lines of a text made of rendered lines joined by newlines, in order.

    A physical line that starts with `INDENT` belongs to the line before it. Text that none of our renderers wrote
    comes back as `other`.
    """
    return tuple(_read(logical) for logical in _logical(text))


def _logical(text: str) -> Iterator[str]:
    current: list[str] = []
    for physical in text.split("\n") if text else ():
        if current and physical.startswith(INDENT):
            current.append(physical[len(INDENT) :])
            continue
        if current:
            yield "\n".join(current)
        current = [physical]
    if current:
        yield "\n".join(current)


def _read(logical: str) -> ReadLine:
    if (head := _HEAD.match(logical)) is not None:
        time, own, name, named_id, bare_id, message_id = head.groups()
        body = logical[head.end() :]
        reply = _REPLY.match(body)
        body = body[reply.end() :] if reply is not None else body
        return ReadLine(
            kind="message",
            time=time,
            name=name or "",
            user_id=named_id or bare_id or "",
            is_self=own is not None,
            message_id=message_id,
            reply=reply.group(1) if reply is not None else "",
            content=_GUARDED_REPLY.sub(r"\1(", body, count=1) if _GUARDED_REPLY.match(body) else body,
        )
    if (recall := _RECALL.match(logical)) is not None:
        sentence = logical[recall.end() :]
        number = _MESSAGE_NUMBER.search(sentence)
        return ReadLine(
            kind="recall", time=recall.group(1), message_id=number.group(1) if number else "", content=sentence
        )
    if (standing := _STANDING.match(logical)) is not None:
        return ReadLine(kind="standing", time=standing.group(1), content=logical[standing.end() :])
    if (channel := _CHANNEL.match(logical)) is not None:
        return ReadLine(kind="channel", content=channel.group(1))
    return ReadLine(kind="other", content=logical)
