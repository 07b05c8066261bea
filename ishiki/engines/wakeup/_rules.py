"""The tests by which a message is spoken to the mind. Source: specification, wakeup engines, `standard`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ishiki.content import contains_keyword, is_at_self
from ishiki.contracts.events import MessageCreated

__all__ = ["WakeRules", "is_reply_to_self", "wake_reason"]


class WakeRules(Protocol):
    """Which of the tests count."""

    @property
    def direct(self) -> bool:
        """Every message of a private chat."""
        ...

    @property
    def at_self(self) -> bool:
        """A mention of the account."""
        ...

    @property
    def quote_self(self) -> bool:
        """A reply to one of the account's messages."""
        ...

    @property
    def keywords(self) -> Sequence[str]:
        """Words that count wherever they stand in what somebody says; case matters, empty ones are ignored."""
        ...


def is_reply_to_self(created: MessageCreated) -> bool:
    """Whether `created` quotes a message of the account."""
    quoted = None if created.quote is None else created.quote.user
    return quoted is not None and quoted.id == created.self_id


def wake_reason(created: MessageCreated, rules: WakeRules) -> str:
    """Return why `created` wakes, or "" where it does not. The first test that holds decides; pure."""
    if rules.direct and created.is_direct:
        return "a private message"
    if rules.quote_self and is_reply_to_self(created):
        return "a reply to the account"
    if contains_keyword(created.content, rules.keywords):
        return "a keyword"
    if rules.at_self and is_at_self(created.content, created.self_id):
        return "a mention of the account"
    return ""
