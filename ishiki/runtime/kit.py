"""`RuntimeKit`: what all runtimes of a process share. Made once, by the lifespan; handed down, never looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ishiki.config import Redactor, Settings
from ishiki.contracts.events import ChannelRef
from ishiki.contracts.platform import Platform
from ishiki.contracts.services import ServiceRegistry
from ishiki.core.clock import Clock, Random
from ishiki.gateway import Gateway
from ishiki.profile import LimitsConfig
from ishiki.runtime.agenda import Agenda
from ishiki.runtime.usage.books import UsageBooks
from ishiki.storage import LogFiles

__all__ = ["RuntimeKit", "SupervisorParts"]


@dataclass(frozen=True, slots=True)
class RuntimeKit:
    """The process's own parts."""

    settings: Settings
    environment: Mapping[str, str]
    """For `${NAME}` in YAML."""
    profiles_dir: Path
    data_dir: Path
    gateway: Gateway
    services: ServiceRegistry
    log_files: LogFiles
    clock: Clock
    random: Random
    platform_for: Callable[[str, LimitsConfig], Platform]
    """The platform as an account sees it, by sid, with a profile's time limits."""
    is_own_account: Callable[[str], bool]
    clock_offset_ms: Callable[[str], int]
    """How far the clock of an account's end is ahead of ours, by its sid."""
    """Whether a sid is an account that is connected, or was, in this process."""
    abandon_calls: Callable[[], None]
    """End every platform call in flight as unknown: at a stop, whose time is up."""
    redactor: Redactor = field(default_factory=Redactor)
    claimed_accounts: set[str] = field(default_factory=set[str])
    """Sids that profiles name exactly: ours too, before they connect. Kept by the supervisor."""


@dataclass(frozen=True, slots=True)
class SupervisorParts:
    """What the supervisor keeps, and all runtimes use."""

    books: UsageBooks
    agenda: Agenda
    owner_of: Callable[[ChannelRef], str | None]
    """The id of the profile that owns a channel now; None: nobody does."""
