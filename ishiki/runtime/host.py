"""`RuntimeHost`: what one runtime hands to its extensions and engines."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from ishiki.contracts.host import Domain
from ishiki.contracts.platform import Platform
from ishiki.contracts.resources import ResourceCenter
from ishiki.contracts.scheduler import Scheduler
from ishiki.contracts.transcript import Transcript
from ishiki.core.clock import Clock, Random
from ishiki.core.disposer import Disposer, dispose_once
from ishiki.core.model import LanguageModel

__all__ = ["BoundLogger", "RuntimeHost", "TaskOwner"]

logger = logging.getLogger(__name__)


class BoundLogger(logging.LoggerAdapter[logging.Logger]):
    """Puts the runtime's id in front of every line."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Prefix `msg`."""
        return f"{(self.extra or {}).get('runtime', '')}: {msg}", kwargs


@dataclass(slots=True)
class TaskOwner:
    """The tasks of one runtime beside its agent. All end with the runtime's task group."""

    group: TaskGroup
    runtime_id: str
    kept_alive_by: int = 0
    """How many running tasks forbid that the runtime is stopped for idleness."""
    is_closed: bool = False

    def spawn(self, name: str, fn: Callable[[], Awaitable[None]], *, keep_alive: bool = False) -> Disposer:
        """Run `fn`; see `ExtensionHost.spawn`."""
        scope = anyio.CancelScope()
        if self.is_closed:
            logger.warning("%s: %s is not started: the runtime is stopping", self.runtime_id, name)
            return dispose_once(scope.cancel)
        self.kept_alive_by += int(keep_alive)

        async def run() -> None:
            try:
                with scope:
                    await fn()
            except Exception:
                logger.exception("%s: the task %s raised and ends", self.runtime_id, name)
            finally:
                self.kept_alive_by -= int(keep_alive)

        self.group.start_soon(run, name=f"{self.runtime_id} {name}")
        return dispose_once(scope.cancel)


@dataclass(frozen=True, slots=True)
class RuntimeHost:
    """Implements `ExtensionHost`."""

    runtime_id: str
    profile_id: str
    domain: Domain
    root: Path
    home: Path
    logger: BoundLogger
    resources: ResourceCenter
    platform: Platform
    clock: Clock
    random: Random
    scheduler: Scheduler
    transcript: Transcript
    find_model: Callable[[str | None], LanguageModel]
    tasks: TaskOwner
    profile_closers: list[Callable[[], Awaitable[None] | None]] = field(
        default_factory=list[Callable[[], Awaitable[None] | None]]
    )
    """Shared by the profile's runtimes."""

    def model(self, ref: str | None = None) -> LanguageModel:
        """Return a model of models.yaml; None: the profile's own."""
        return self.find_model(ref)

    def spawn(self, name: str, fn: Callable[[], Awaitable[None]], *, keep_alive: bool = False) -> Disposer:
        """Run `fn` as a task of the runtime."""
        return self.tasks.spawn(name, fn, keep_alive=keep_alive)

    def on_profile_close(self, fn: Callable[[], Awaitable[None] | None]) -> Disposer:
        """Call `fn` once when the profile closes, however many runtimes register it."""
        if fn in self.profile_closers:
            return dispose_once(lambda: None)
        self.profile_closers.append(fn)

        def withdraw() -> None:
            if fn in self.profile_closers:
                self.profile_closers.remove(fn)

        return dispose_once(withdraw)
