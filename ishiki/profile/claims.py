"""Which channels a profile claims, how specific each claim is, and where two profiles claim the same.

The more specific claim wins, in this order: any profile over one with `fallback: true`; an exact account over
`onebot:*`; an exact channel over a prefix, a longer prefix over a shorter one, anything over `*`. Inside one profile
the entry of the exact account speaks first; where it says nothing about a channel, the entry of `onebot:*` does.
Knows the parsed section and its places in the file. Source: specification, channel claims; the order is ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ishiki.config import ConfigDocument, KeyPath
from ishiki.contracts.patterns import ChannelPattern, PatternError, check_account, is_covered, parse_pattern
from ishiki.errors import ConfigError

__all__ = [
    "AccountClaim",
    "Claims",
    "Conflict",
    "Specificity",
    "claim_path",
    "find_conflict",
    "parse_claims",
    "wildcard_account",
]


def wildcard_account(sid: str) -> str:
    """Return the account pattern that stands for every account of `sid`'s platform, such as `onebot:*`."""
    return f"{sid.partition(':')[0]}:*"


class Specificity(NamedTuple):
    """How specific a claim is; compares with `<`, the greater one wins."""

    is_primary: bool
    """False for a profile with `fallback: true`."""
    is_exact_account: bool
    """False for `onebot:*`."""
    is_exact_channel: bool
    """False for a prefix and for `*`."""
    prefix_length: int
    """Characters before the `*`; 0 for an exact channel and for `*`."""


@dataclass(frozen=True, slots=True)
class AccountClaim:
    """What a profile claims of one account."""

    account: str
    """`onebot:10001`, or `onebot:*`."""
    includes: tuple[ChannelPattern, ...]
    """What it claims, the most specific first. Empty where an exact account only takes away from `onebot:*`."""
    excludes: tuple[ChannelPattern, ...]
    """What it does not claim, whatever else matches."""

    @property
    def is_exact(self) -> bool:
        """Whether it names one account."""
        return not self.account.endswith(":*")

    def __str__(self) -> str:
        """Return the claim as start-up lines show it: `onebot:*: group:*, private:* (not group:1)`."""
        written = f"{self.account}: {', '.join(map(str, self.includes)) or 'nothing more'}"
        return f"{written} (not {', '.join(map(str, self.excludes))})" if self.excludes else written


@dataclass(frozen=True, slots=True)
class Claims:
    """Everything that one profile claims."""

    accounts: Mapping[str, AccountClaim]
    """By account, in the order of the file."""
    is_fallback: bool = False
    """Whether every claim of a profile without `fallback: true` comes first."""

    def owns(self, sid: str, channel_id: str) -> Specificity | None:
        """Return how specific the claim on this channel is, or None where there is none."""
        for account in (sid, wildcard_account(sid)):
            claim = self.accounts.get(account)
            if claim is None:
                continue
            if any(pattern.matches(channel_id) for pattern in claim.excludes):
                return None
            for pattern in claim.includes:
                if pattern.matches(channel_id):
                    return self.specificity(claim, pattern)
        return None

    def specificity(self, claim: AccountClaim, pattern: ChannelPattern) -> Specificity:
        """Return how specific one pattern of one of these claims is."""
        return Specificity(not self.is_fallback, claim.is_exact, *pattern.rank)

    def exact_channels(self) -> Iterator[tuple[str, str]]:
        """Yield the channels that are claimed by their exact account and id, as (sid, channel id)."""
        for claim in self.accounts.values():
            for pattern in claim.includes:
                if claim.is_exact and pattern.is_exact and self.owns(claim.account, pattern.body):
                    yield claim.account, pattern.body

    def patterns(self) -> Mapping[str, Sequence[str]]:
        """Return the claims as profiles write them: account -> patterns, exclusions with their `!` last."""
        return {
            account: (*map(str, claim.includes), *(f"!{pattern}" for pattern in claim.excludes))
            for account, claim in self.accounts.items()
        }


@dataclass(frozen=True, slots=True)
class Conflict:
    """The first claim of one profile that another one makes as well, and equally specific."""

    account: str
    pattern: ChannelPattern


def find_conflict(ours: Claims, theirs: Claims) -> Conflict | None:
    """Return a claim that leaves it open whose a channel is, or None where every channel has one owner.

    Two claims are equally specific and overlap only if they are the same pattern of the same account. That is no
    conflict where exclusions, or more specific claims, of either profile take every such channel out.
    """
    if ours.is_fallback != theirs.is_fallback:
        return None
    for account, our in ours.accounts.items():
        their = theirs.accounts.get(account)
        if their is None:
            continue
        for pattern in our.includes:
            if pattern not in their.includes:
                continue
            narrower = (one for one in (*our.includes, *their.includes) if one.rank > pattern.rank)
            if not is_covered(pattern, (*our.excludes, *their.excludes, *narrower)):
                return Conflict(account, pattern)
    return None


def claim_path(channels: Mapping[str, Sequence[str]], conflict: Conflict) -> KeyPath:
    """Return where in its profile the claim of a conflict stands; `channels` as `parse_claims` took it."""
    written = channels.get(conflict.account, ())
    for index, text in enumerate(written):
        if parse_pattern(text) == (conflict.pattern, False):
            return ("channels", conflict.account, index)
    return ("channels", conflict.account)


def parse_claims(
    channels: Mapping[str, Sequence[str]], *, document: ConfigDocument | None = None, is_fallback: bool = False
) -> Claims:
    """Read the `channels` section of a profile.

    Args:
        channels: account -> patterns.
        document: the file that it was taken from, for places; None: errors name keys only.
        is_fallback: the profile's `fallback`.

    Raises:
        ConfigError: something in it is malformed or can match nothing; further findings are in its `others`.
    """
    reading = _Reading(channels, document or ConfigDocument({}))
    claims = {account: claim for account, patterns in channels.items() if (claim := reading.account(account, patterns))}
    if not channels:
        reading.blame('names no account; write for example {"onebot:*": ["group:*", "private:*"]}', ())
    if reading.errors:
        raise reading.errors[0].joined(reading.errors[1:])
    return Claims(claims, is_fallback)


class _Reading:
    """One reading of one `channels` section."""

    def __init__(self, channels: Mapping[str, Sequence[str]], document: ConfigDocument) -> None:
        self.errors: list[ConfigError] = []
        self._channels = channels
        self._document = document

    def blame(self, problem: str, path: tuple[str | int, ...], *, is_key: bool = False) -> None:
        """Note an error inside the section."""
        at = ("channels", *path)
        self.errors.append(self._document.error(problem, at, on="key" if is_key else "value", code="claim_invalid"))

    def account(self, account: str, patterns: Sequence[str]) -> AccountClaim | None:
        """Read the patterns of one account; None where an error was noted."""
        before = len(self.errors)
        try:
            check_account(account)
        except PatternError as fault:
            self.blame(str(fault), (account,), is_key=True)
        includes: dict[ChannelPattern, int] = {}
        excludes: dict[ChannelPattern, int] = {}
        for index, written in enumerate(patterns):
            try:
                pattern, is_exclusion = parse_pattern(written)
            except PatternError as fault:
                self.blame(str(fault), (account, index))
                continue
            (excludes if is_exclusion else includes).setdefault(pattern, index)
        if len(self.errors) == before:
            self._check_something_is_left(account, includes, excludes)
        if len(self.errors) > before:
            return None
        ordered = sorted(includes, key=lambda pattern: pattern.rank, reverse=True)
        return AccountClaim(account, tuple(ordered), tuple(excludes))

    def _check_something_is_left(
        self, account: str, includes: Mapping[ChannelPattern, int], excludes: Mapping[ChannelPattern, int]
    ) -> None:
        general = wildcard_account(account)
        if not includes and (not excludes or account == general or general not in self._channels):
            self.blame(
                f'claims no channel of {account!r}; add for example "group:*", or remove the account', (account,)
            )
        for pattern, index in includes.items():
            if is_covered(pattern, excludes):
                takers = [one for one in excludes if is_covered(one, (pattern,)) or is_covered(pattern, (one,))]
                written = " and ".join(f'"!{one}"' for one in takers)
                problem = (
                    f"the pattern {str(pattern)!r} claims nothing, {written} takes all of it away; remove one of them"
                )
                self.blame(problem, (account, index))
