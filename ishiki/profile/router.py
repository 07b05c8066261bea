"""From a channel to the profile that owns it. Built once for a set of profiles; knows claims only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ishiki.profile.claims import Claims, wildcard_account

__all__ = ["Router"]

_MAX_CACHED = 20_000
"""Channels whose owner is remembered, some 3 MB; ids come from outside, so their number has a bound."""


@dataclass(frozen=True, slots=True)
class _Owner:
    profile_id: str
    claims: Claims


@dataclass(slots=True)
class _Table:
    """The claims on one account, of profiles of one standing (ordinary, or fallback)."""

    exact: dict[str, list[_Owner]] = field(default_factory=dict[str, list[_Owner]])
    """By channel id."""
    prefixes: dict[str, list[_Owner]] = field(default_factory=dict[str, list[_Owner]])
    """By what the channel id starts with."""
    lengths: list[int] = field(default_factory=list[int])
    """The lengths of the prefixes, the longest first."""

    def candidates(self, channel_id: str) -> Iterable[_Owner]:
        """Yield the profiles with a pattern for the channel, the most specific pattern first."""
        yield from self.exact.get(channel_id, ())
        for length in self.lengths:
            yield from self.prefixes.get(channel_id[:length], ())


class Router:
    """Finds the owner of each channel among profiles without conflicts. Never changes; new profiles, new router."""

    def __init__(self, owners: Iterable[tuple[str, Claims]]) -> None:
        """Index `owners`: (profile id, its claims). Of two equally specific claims the earlier profile's wins."""
        self._owners = tuple(_Owner(profile_id, claims) for profile_id, claims in owners)
        self._tables: dict[tuple[bool, str], _Table] = {}
        self._cache: dict[tuple[str, str], str | None] = {}
        for owner in self._owners:
            for account, claim in owner.claims.accounts.items():
                table = self._tables.setdefault((owner.claims.is_fallback, account), _Table())
                for pattern in claim.includes:
                    (table.exact if pattern.is_exact else table.prefixes).setdefault(pattern.body, []).append(owner)
        for table in self._tables.values():
            table.lengths = sorted({len(prefix) for prefix in table.prefixes}, reverse=True)

    def route(self, sid: str, channel_id: str) -> str | None:
        """Return the id of the profile that owns the channel, or None where nobody claims it."""
        key = (sid, channel_id)
        try:
            return self._cache[key]
        except KeyError:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            return self._cache.setdefault(key, self._find(sid, channel_id))

    def who_owns(self) -> list[str]:
        """Return one line per claim for start-up, the most specific first: `onebot:10001: group:* -> neko`."""
        rows = [
            (
                max((owner.claims.specificity(claim, pattern) for pattern in claim.includes), default=None),
                f"{claim} -> {owner.profile_id}{' (what no other profile claims)' if owner.claims.is_fallback else ''}",
            )
            for owner in self._owners
            for claim in owner.claims.accounts.values()
        ]
        # A claim without patterns of its own only takes away from the profile's `onebot:*`; it stands last.
        rows.sort(key=lambda row: (row[0] is not None, row[0] or ()), reverse=True)
        return [line for _, line in rows]

    def _find(self, sid: str, channel_id: str) -> str | None:
        for is_fallback in (False, True):
            for account in (sid, wildcard_account(sid)):
                table = self._tables.get((is_fallback, account))
                if table is None:
                    continue
                for owner in table.candidates(channel_id):
                    # A pattern matches; an exclusion may still say no.
                    if owner.claims.owns(sid, channel_id) is not None:
                        return owner.profile_id
        return None
