"""Our accounts: which are connected, how to reach them, and what is remembered of each while the process runs.

The adapter tells of every connection the moment it begins or ends, in order; NoneBot's own hooks run as tasks and may
overtake each other. Single event loop; not thread-safe.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio

from ishiki.contracts.events import ChannelRef
from ishiki.core.disposer import dispose_once

__all__ = ["PLATFORM", "Accounts", "ApiLink", "self_id_of", "sid_of"]

logger = logging.getLogger(__name__)

PLATFORM: Final = "onebot"
"""The platform's name in a sid: `onebot:<self_id>`."""

_MAX_TEMPORARY_CHATS: Final = 1_000
"""Per account; the least recently used leave."""

_TIMEOUTS_UNTIL_BARRED: Final = 2
_BARRED_S: Final = 60.0
"""After that many fetches without an answer, none is tried for so long. Source: design, quoted messages."""


class ApiLink(Protocol):
    """What calls an account's API: a NoneBot bot, so that other plugins' API hooks see the call."""

    async def call_api(self, api: str, **data: object) -> object:
        """Call `api` and return its data."""
        ...


def sid_of(self_id: str) -> str:
    """Return the sid of a OneBot account."""
    return f"{PLATFORM}:{self_id}"


def self_id_of(sid: str) -> str:
    """Return the account's own id out of its sid."""
    return sid.partition(":")[2]


@dataclass(slots=True)
class _Account:
    link: ApiLink | None = None
    online: anyio.Event = field(default_factory=anyio.Event)
    temporary_chats: OrderedDict[str, str] = field(default_factory=OrderedDict[str, str])
    connections: int = 0
    timeouts: int = 0
    barred_until: float = 0.0


class Accounts:
    """All accounts of this process, by their self id as text."""

    def __init__(self) -> None:
        """Know none."""
        self._accounts: dict[str, _Account] = {}
        self._watchers: list[Callable[[str, bool], None]] = []

    def connected(self, self_id: str, link: ApiLink) -> None:
        """Take note that an end is connected for the account; a later link replaces an earlier one."""
        account = self._account(self_id)
        account.link = link
        account.connections += 1
        account.timeouts, account.barred_until = 0, 0.0
        account.online.set()
        self._tell(self_id, is_online=True)

    def disconnected(self, self_id: str, link: ApiLink) -> None:
        """Take note that `link` is gone. Does nothing where another one has replaced it."""
        account = self._accounts.get(self_id)
        if account is None or account.link is not link:
            return
        account.link = None
        account.online = anyio.Event()
        self._tell(self_id, is_online=False)

    def add_own(self, self_id: str) -> None:
        """Make an account known as ours before it connects, as an exact claim of a profile does."""
        self._account(self_id)

    def is_own(self, user_id: str) -> bool:
        """Whether somebody is one of our accounts: one that was connected, or `add_own` named."""
        return user_id in self._accounts

    @property
    def own(self) -> frozenset[str]:
        """The self ids of all our accounts."""
        return frozenset(self._accounts)

    @property
    def online(self) -> frozenset[str]:
        """The self ids of those connected now."""
        return frozenset(self_id for self_id, account in self._accounts.items() if account.link is not None)

    def connection_count(self, self_id: str) -> int:
        """Return how often an end has connected for the account."""
        account = self._accounts.get(self_id)
        return 0 if account is None else account.connections

    def link(self, self_id: str) -> ApiLink | None:
        """Return what calls the account's API now, or None while it is offline."""
        account = self._accounts.get(self_id)
        return account.link if account is not None else None

    async def wait_online(self, self_id: str) -> ApiLink:
        """Return the account's link as soon as there is one. No time limit."""
        account = self._account(self_id)
        while account.link is None:
            await account.online.wait()
        return account.link

    def watch(self, watcher: Callable[[str, bool], None]) -> Callable[[], None]:
        """Call `watcher(self_id, is_online)` at every change. Sync; a raise is logged.

        Returns:
            A disposer.
        """
        self._watchers.append(watcher)
        return dispose_once(lambda: self._watchers.remove(watcher))

    def note_temporary_chat(self, channel: ChannelRef, group_id: str) -> None:
        """Remember through which group a stranger's private chat goes; "" forgets it: they are friends now.

        OneBot's `send_private_msg` needs that group (`group_id`) to reach somebody who is no friend. Nothing is
        remembered for an account that is not ours.
        """
        account = self._accounts.get(self_id_of(channel.sid))
        if account is None:
            return
        chats = account.temporary_chats
        chats.pop(channel.channel_id, None)
        if group_id:
            chats[channel.channel_id] = group_id
            if len(chats) > _MAX_TEMPORARY_CHATS:
                chats.popitem(last=False)

    def temporary_chat(self, channel: ChannelRef) -> str:
        """Return the group through which the private chat goes, or ""."""
        account = self._accounts.get(self_id_of(channel.sid))
        return account.temporary_chats.get(channel.channel_id, "") if account is not None else ""

    def may_fetch(self, self_id: str, now_s: float) -> bool:
        """Whether a fetch is worth trying: not for a minute after two in a row without an answer.

        Args:
            self_id: the account.
            now_s: seconds on the monotonic clock.
        """
        account = self._accounts.get(self_id)
        return account is not None and account.link is not None and now_s >= account.barred_until

    def note_fetch(self, self_id: str, now_s: float, *, is_answered: bool) -> None:
        """Take note of how a fetch ended."""
        account = self._account(self_id)
        account.timeouts = 0 if is_answered else account.timeouts + 1
        if account.timeouts >= _TIMEOUTS_UNTIL_BARRED:
            account.timeouts, account.barred_until = 0, now_s + _BARRED_S
            logger.warning(
                "account %s: %d fetches had no answer; no more for %.0f s", self_id, _TIMEOUTS_UNTIL_BARRED, _BARRED_S
            )

    def _account(self, self_id: str) -> _Account:
        return self._accounts.setdefault(self_id, _Account())

    def _tell(self, self_id: str, *, is_online: bool) -> None:
        for watcher in tuple(self._watchers):
            try:
                watcher(self_id, is_online)
            except Exception:
                logger.exception("a watcher of accounts raised on %s", self_id)
