"""Claims for tests: built from a plain mapping, and the definition of ownership written down once more, naively."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from ishiki.errors import ConfigError
from ishiki.profile.claims import Claims, parse_claims

ACCOUNTS = ("onebot:*", "onebot:1", "onebot:2")
PATTERNS = ("*", *(f"{kind}:{tail}" for kind in ("group", "private") for tail in ("*", "1*", "12*", "1", "12", "13")))
SIDS = ("onebot:1", "onebot:2", "onebot:3")
CHANNELS = tuple(f"{kind}:{number}" for kind in ("group", "private") for number in ("1", "12", "13", "129", "19", "9"))

Channels = Mapping[str, Sequence[str]]


def parsed(channels: Channels, *, is_fallback: bool) -> Claims | None:
    """Return the claims, or None where the section is refused."""
    try:
        return parse_claims(channels, is_fallback=is_fallback)
    except ConfigError:
        return None


def matches(pattern: str, channel: str) -> bool:
    """Whether a pattern without its `!` matches, by the specification's words."""
    return channel.startswith(pattern[:-1]) if pattern.endswith("*") else channel == pattern


def specificity(channels: Channels, sid: str, channel: str, *, is_fallback: bool) -> tuple[int, int, int, int] | None:
    """Return how specific a claim is, or None: the definition, without any index."""
    for is_exact, account in ((1, sid), (0, "onebot:*")):
        patterns = channels.get(account, ())
        if any(matches(one[1:], channel) for one in patterns if one.startswith("!")):
            return None
        found = [one for one in patterns if not one.startswith("!") and matches(one, channel)]
        ranks = [(0, len(one) - 1) if one.endswith("*") else (1, 0) for one in found]
        if ranks:
            return (0 if is_fallback else 1, is_exact, *max(ranks))
    return None


_accounts: st.SearchStrategy[str] = st.sampled_from(sorted(ACCOUNTS))
_patterns: st.SearchStrategy[str] = st.sampled_from([*PATTERNS, *PATTERNS, *(f"!{pattern}" for pattern in PATTERNS)])
sections: st.SearchStrategy[Channels] = st.dictionaries(
    _accounts, st.lists(_patterns, min_size=1, max_size=4), min_size=1, max_size=3
)
"""Sections of accounts and patterns that meet often; not every one is accepted."""

profiles: st.SearchStrategy[list[tuple[bool, Channels]]] = st.lists(
    st.tuples(st.booleans(), sections), min_size=1, max_size=4
)
"""Several profiles: (fallback, channels)."""
