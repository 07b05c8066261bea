"""`ExtensionHost` and `AgentRuntime`: what an extension or engine is handed. Source: specification, extension API."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from ishiki.contracts.events import ChannelRef, ChatEvent
from ishiki.contracts.platform import Platform
from ishiki.contracts.resources import ResourceCenter
from ishiki.contracts.scheduler import Scheduler
from ishiki.contracts.transcript import Transcript
from ishiki.core.agent import Agent
from ishiki.core.clock import Clock, Random
from ishiki.core.disposer import Disposer
from ishiki.core.model import LanguageModel

__all__ = ["AgentRuntime", "ChannelDomain", "CrossDomain", "Domain", "ExtensionHost"]


@dataclass(frozen=True, slots=True)
class ChannelDomain:
    """A runtime that lives in one channel."""

    channel: ChannelRef
    mode: Literal["channel"] = "channel"


@dataclass(frozen=True, slots=True)
class CrossDomain:
    """A runtime that lives in all channels of its profile."""

    channels: Mapping[str, Sequence[str]]
    """The profile's claims: account pattern -> channel patterns."""
    mode: Literal["cross"] = "cross"


Domain: TypeAlias = ChannelDomain | CrossDomain


class AgentRuntime(Protocol):
    """One mind at work: one per channel, or one per profile in cross mode."""

    @property
    def id(self) -> str:
        """`<profile>/<sid>/<channel>`, or `<profile>/main`."""
        ...

    @property
    def profile_id(self) -> str:
        """The profile that it runs."""
        ...

    @property
    def domain(self) -> Domain:
        """Where it lives."""
        ...

    @property
    def host(self) -> ExtensionHost:
        """What its extensions are handed."""
        ...

    @property
    def agent(self) -> Agent:
        """The agent loop."""
        ...

    @property
    def resources(self) -> ResourceCenter:
        """Its resources."""
        ...

    @property
    def stopped(self) -> bool:
        """Whether it takes nothing any more."""
        ...

    def is_idle(self) -> bool:
        """Whether no turn runs, waits or is pending."""
        ...

    async def deliver(self, event: ChatEvent) -> None:
        """Submit a fact. Pure ingestion: it captures media and stores, and starts no turn.

        Returning means submitted, not stored; `message.appended` tells that it is stored.
        """
        ...

    def wake(self, prompt: str | None = None) -> str | None:
        """Start a turn past the wakeup engine; a missing or blank `prompt` becomes `Continue.`.

        Returns:
            The turn's id, or None when it merged into the pending wake.
        """
        ...


class ExtensionHost(Protocol):
    """What one runtime offers to its extensions and engines."""

    @property
    def runtime_id(self) -> str:
        """Id of the runtime."""
        ...

    @property
    def profile_id(self) -> str:
        """Id of the profile."""
        ...

    @property
    def domain(self) -> Domain:
        """Where the runtime lives."""
        ...

    @property
    def root(self) -> Path:
        """The profile's folder: shared by all its runtimes; key shared state by it."""
        ...

    @property
    def home(self) -> Path:
        """The runtime's data folder; exists."""
        ...

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """Bound to profile and channel."""
        ...

    @property
    def resources(self) -> ResourceCenter:
        """The runtime's resources; register schemes here."""
        ...

    @property
    def platform(self) -> Platform:
        """The chat platform."""
        ...

    @property
    def transcript(self) -> Transcript:
        """How facts are written for a model; context engines render through it, so that bytes stay the same."""
        ...

    @property
    def clock(self) -> Clock:
        """The process's clock; use it instead of `time` and `asyncio.sleep`."""
        ...

    @property
    def random(self) -> Random:
        """The process's dice."""
        ...

    @property
    def scheduler(self) -> Scheduler:
        """Work at computed times."""
        ...

    def model(self, ref: str | None = None) -> LanguageModel:
        """Return a model of models.yaml; None: the profile's own.

        Raises:
            GatewayError: the reference names nothing usable.
        """
        ...

    def spawn(self, name: str, fn: Callable[[], Awaitable[None]], *, keep_alive: bool = False) -> Disposer:
        """Run `fn` as a task of the runtime, cancelled when it stops. A raise is logged and ends that task only.

        Args:
            name: for log lines.
            fn: the work.
            keep_alive: True: the runtime is not stopped for idleness while the task runs.

        Returns:
            A disposer that cancels it.
        """
        ...

    def on_profile_close(self, fn: Callable[[], Awaitable[None] | None]) -> Disposer:
        """Call `fn` once when the last runtime of the profile has stopped and the profile closes.

        The same function counts once, however many runtimes register it: pass a method of the provider. It outlives
        this runtime.
        """
        ...
