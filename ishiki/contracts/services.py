"""`provide` and the service registry: how providers and profiles find each other, in any order.

A service's name is `ishiki.ext.<name>` or `ishiki.engine.<family>.<name>`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from ishiki.contracts.engines import ContextEngine, EngineFamily, ToolcallEngine, WakeupEngine
from ishiki.contracts.extension import Extension
from ishiki.core.disposer import dispose_once
from ishiki.errors import ServiceConflictError

__all__ = ["Provider", "ServiceRegistry", "engine_service", "extension_service", "provide", "services"]

logger = logging.getLogger(__name__)

# `Any`: a provider is registered whatever its config type is; `create` is called with what its own `Config` made.
Provider: TypeAlias = "Extension[Any] | ContextEngine[Any] | WakeupEngine[Any] | ToolcallEngine[Any]"
P = TypeVar("P")


def extension_service(name: str) -> str:
    """Return the service name of an extension."""
    return f"ishiki.ext.{name}"


def engine_service(family: EngineFamily, name: str) -> str:
    """Return the service name of an engine."""
    return f"ishiki.engine.{family}.{name}"


def service_name(provider: Provider) -> str:
    """Return the name under which `provider` is found."""
    match provider:
        case Extension():
            return extension_service(provider.name)
        case ContextEngine():
            return engine_service("context", provider.name)
        case WakeupEngine():
            return engine_service("wakeup", provider.name)
        case ToolcallEngine():
            return engine_service("toolcall", provider.name)


@dataclass(frozen=True, slots=True)
class _Registration:
    provider: Provider
    module: str


class ServiceRegistry:
    """Providers by service name. Changes are told to watchers, synchronously."""

    def __init__(self) -> None:
        """Start empty."""
        self._registrations: dict[str, _Registration] = {}
        self._watchers: list[Callable[[str], None]] = []

    def provide(self, provider: Provider, *, module: str = "") -> Callable[[], None]:
        """Register `provider`.

        Args:
            provider: what to register.
            module: who registers it, for error texts.

        Returns:
            A disposer; after it, profiles that need the service wait again.

        Raises:
            ServiceConflictError: the name is taken; the first provider stays.
        """
        name = service_name(provider)
        known = self._registrations.get(name)
        if known is not None:
            raise ServiceConflictError(
                f"service {name} is provided by {known.module or 'an unnamed module'} already; "
                f"{module or 'an unnamed module'} cannot provide it too: rename one of them or remove a plugin"
            )
        self._registrations[name] = _Registration(provider, module)
        self._tell(name)

        def withdraw() -> None:
            self._registrations.pop(name, None)
            self._tell(name)

        return dispose_once(withdraw)

    def get(self, name: str, kind: type[P]) -> P | None:
        """Return the provider of `name` where there is one of that kind."""
        registration = self._registrations.get(name)
        return registration.provider if registration is not None and isinstance(registration.provider, kind) else None

    def has(self, name: str) -> bool:
        """Whether somebody provides `name`."""
        return name in self._registrations

    def names(self) -> list[str]:
        """Return all service names, sorted."""
        return sorted(self._registrations)

    def watch(self, watcher: Callable[[str], None]) -> Callable[[], None]:
        """Call `watcher(name)` whenever a service appears or goes. Sync; a raise is logged.

        Returns:
            A disposer.
        """
        self._watchers.append(watcher)
        return dispose_once(lambda: self._watchers.remove(watcher))

    def _tell(self, name: str) -> None:
        for watcher in tuple(self._watchers):
            try:
                watcher(name)
            except Exception:
                logger.exception("a watcher of the service registry raised on %s", name)


services = ServiceRegistry()
"""The registry of this process. `provide` at import time of a plugin must find one, before anything is assembled."""


def provide(provider: Provider) -> Callable[[], None]:
    """Register `provider` for this process; call it at import of a plugin, in any order.

    Returns:
        A disposer; after it, profiles that need the service wait again.

    Raises:
        ServiceConflictError: the name is taken; the first provider stays, and both modules are named.
    """
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    module = str(caller.f_globals.get("__name__", "")) if caller is not None else ""
    return services.provide(provider, module=module)
