"""Where a runtime lives: a channel, or, in cross mode, all channels of its profile at once under one address."""

from __future__ import annotations

from collections.abc import Sequence

from ishiki.contracts.events import ChannelRef
from ishiki.contracts.host import ChannelDomain, CrossDomain, Domain
from ishiki.profile import Profile

__all__ = ["MAIN", "account_of", "address_of", "claimed_accounts", "domain_of", "name_of"]

MAIN = ChannelRef("", "main")
"""The address of a runtime in cross mode, in its log's header too. No channel has it: an account is never empty."""


def address_of(profile: Profile, channel: ChannelRef) -> ChannelRef:
    """Return the address of the runtime of `profile` that hears `channel`."""
    return MAIN if profile.config.mode == "cross" else channel


def domain_of(profile: Profile, address: ChannelRef) -> Domain:
    """Return where the runtime at `address` lives, as its extensions are told."""
    return CrossDomain(profile.claims.patterns()) if address == MAIN else ChannelDomain(address)


def name_of(address: ChannelRef) -> str:
    """Return an address for log lines and ids: `<sid>/<channel>`, or `main`."""
    return address.channel_id if address == MAIN else str(address)


def account_of(profile: Profile, address: ChannelRef) -> str:
    """Return the sid of a runtime's own account: in cross mode the first that its profile names, or `onebot:*`."""
    if address != MAIN:
        return address.sid
    accounts = profile.claims.accounts
    return next((claim.account for claim in accounts.values() if claim.is_exact), next(iter(accounts)))


def claimed_accounts(profile: Profile, address: ChannelRef) -> Sequence[str]:
    """Return the sids that a runtime is known to have before anybody speaks to it."""
    if address != MAIN:
        return (address.sid,)
    return tuple(claim.account for claim in profile.claims.accounts.values() if claim.is_exact)
