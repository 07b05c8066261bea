"""The grammar of claims: accounts (`onebot:10001`, `onebot:*`) and channel patterns (`group:1`, `group:*`, `*`, `!…`).

Owns what each of them matches, and the wording of those that can match nothing. Knows no file and no profile.
Source: specification, channel claims. Refusing what can match nothing is our choice: it is always a slip.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ishiki.config import nearest

__all__ = [
    "CHANNEL_KINDS",
    "PLATFORMS",
    "ChannelPattern",
    "PatternError",
    "check_account",
    "is_covered",
    "parse_pattern",
]

PLATFORMS = ("onebot",)
"""The platforms that there are: the first half of an account."""

CHANNEL_KINDS = ("group", "private")
"""The kinds of channels that there are: the first half of a channel id."""

_OTHER_NAMES = {
    **dict.fromkeys(("guild", "channel", "room", "chat", "g", "群", "群聊"), "group"),
    **dict.fromkeys(("user", "friend", "direct", "dm", "pm", "u", "p", "私聊", "好友"), "private"),
}
"""What people call the kinds elsewhere."""

_LEADING_ZERO = re.compile(r"0[0-9]+")


class PatternError(ValueError):
    """An account or pattern that is malformed or can match nothing; the text says what was meant."""


@dataclass(frozen=True, slots=True)
class ChannelPattern:
    """One channel pattern, without its `!`."""

    body: str
    """The channel id of an exact pattern; otherwise what an id starts with, "" for `*`."""
    is_exact: bool

    @property
    def rank(self) -> tuple[bool, int]:
        """How specific it is: exact before prefix, a longer prefix before a shorter one."""
        return self.is_exact, 0 if self.is_exact else len(self.body)

    def matches(self, channel_id: str) -> bool:
        """Whether it matches the channel."""
        return channel_id == self.body if self.is_exact else channel_id.startswith(self.body)

    def __str__(self) -> str:
        """Return the pattern as profiles write it."""
        return self.body if self.is_exact else f"{self.body}*"


def parse_pattern(written: str) -> tuple[ChannelPattern, bool]:
    """Read one channel pattern.

    A prefix that only one kind of channel can start with counts as that kind: `gr*` is `group:*`.

    Returns:
        The pattern, and whether it excludes what it matches.

    Raises:
        PatternError: it is malformed or can match nothing.
    """
    is_exclusion = written.startswith("!")
    text = written.removeprefix("!")
    mark = "!" if is_exclusion else ""
    if not text:
        example = '"!group:123"' if is_exclusion else '"group:*", "private:*" or "*"'
        raise PatternError(f"the pattern {written!r} names no channel; write for example {example}")
    stem, star, rest = text.partition("*")
    if rest:
        raise PatternError(
            f"the pattern {written!r} has a '*' before its end; '*' stands only at the end, once{_meant(text, mark)}"
        )
    kind, colon, channel = stem.partition(":")
    if star and not colon:
        kinds = [known for known in CHANNEL_KINDS if known.startswith(kind)]
        if not kind:
            return ChannelPattern("", is_exact=False), is_exclusion
        if kinds:
            return ChannelPattern(f"{kinds[0]}:", is_exact=False), is_exclusion
    if kind not in CHANNEL_KINDS or not colon or not (channel or star) or not _is_id(channel):
        raise PatternError(f"the pattern {written!r} can match no channel{_meant(text, mark)}")
    return ChannelPattern(stem, is_exact=not star), is_exclusion


def check_account(written: str) -> None:
    """Check an account: `<platform>:<self_id>`, or `<platform>:*` for every account of the platform.

    Raises:
        PatternError: it is malformed or no account can have it.
    """
    platform, colon, self_id = written.partition(":")
    if platform in PLATFORMS and colon and (self_id == "*" or (self_id and "*" not in self_id and _is_id(self_id))):
        return
    if "${" in written:
        raise PatternError(f"the account {written!r} holds a variable; keys are not expanded: write the number itself")
    cleaned = re.sub(r"\s", "", written.replace("\uff1a", ":"))
    platform, _, self_id = cleaned.partition(":")
    if not cleaned.strip("*:"):
        raise PatternError(f'the account {written!r} names no platform; did you mean "{PLATFORMS[0]}:*"?')
    if cleaned.isdecimal():
        raise PatternError(
            f'the account {written!r} names no platform; did you mean "{PLATFORMS[0]}:{_plain(cleaned)}"?'
        )
    if "*" in self_id and self_id != "*":
        raise PatternError(
            f"the account {written!r} has a '*' beside other text; write one account, or \"{PLATFORMS[0]}:*\""
        )
    known = nearest(platform, PLATFORMS) or PLATFORMS[0]
    raise PatternError(f'no account can be called {written!r}; did you mean "{known}:{_plain(self_id) or "*"}"?')


def is_covered(pattern: ChannelPattern, by: Iterable[ChannelPattern]) -> bool:
    """Whether every channel that `pattern` matches is matched by one of `by`.

    Exact, because there are finitely many kinds of channels and no end of ids in each.
    """
    covers = tuple(by)
    if pattern.is_exact:
        return any(one.matches(pattern.body) for one in covers)
    starts = (pattern.body,) if pattern.body else tuple(f"{kind}:" for kind in CHANNEL_KINDS)
    return all(any(not one.is_exact and start.startswith(one.body) for one in covers) for start in starts)


def _is_id(text: str) -> bool:
    return not (re.search(r"\s", text) or "${" in text or "*" in text or _LEADING_ZERO.fullmatch(text))


def _plain(text: str) -> str:
    """Return an id without the zeros before it; the ids of accounts and groups have none."""
    return (text.lstrip("0") or "0") if _LEADING_ZERO.fullmatch(text) else text


def _meant(text: str, mark: str) -> str:
    """Return the end of a message: what the pattern was probably meant to be, in the quotes to set."""
    cleaned = re.sub(r"\s", "", text.replace("\uff1a", ":"))
    star = "*" if cleaned.endswith("*") else ""
    kind, colon, channel = cleaned.rstrip("*").partition(":")
    if not colon and kind.isdecimal():
        answers = [f"{one}:{_plain(kind)}{star}" for one in CHANNEL_KINDS]
    else:
        folded = kind.lower()
        known = nearest(folded, CHANNEL_KINDS) or _OTHER_NAMES.get(folded)
        channel = _plain(channel.replace("*", ""))
        if channel and not _is_id(channel):
            kind = known or CHANNEL_KINDS[0]
            return f'; write for example "{mark}{kind}:123" or "{mark}{kind}:*"'
        answers = [f"{one}:{channel}{star if channel else '*'}" for one in ([known] if known else CHANNEL_KINDS)]
    return "; did you mean " + " or ".join(f'"{mark}{answer}"' for answer in answers) + "?"
