"""Providers for tests, made on the spot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ishiki import (
    Agent,
    ContextEngine,
    ContextEngineInstance,
    Disposer,
    Extension,
    ExtensionHost,
    ExtensionInstance,
    ExtensionTools,
    JsonObject,
    JsonValue,
    Tool,
    ToolContext,
    WakeupEngine,
    WakeupEngineInstance,
)

__all__ = ["Contributing", "Silent", "context_engine", "echo", "extension", "wakeup_engine"]


def extension(extension_name: str, make: Callable[[ExtensionHost], ExtensionInstance | None]) -> Extension[JsonObject]:
    """Return an extension of that name whose instances `make` makes."""

    class Made(Extension[JsonObject]):
        name = extension_name

        def create(self, host: ExtensionHost, config: JsonObject) -> ExtensionInstance | None:
            return make(host)

    return Made()


def context_engine(
    engine_name: str, make: Callable[[ExtensionHost], ContextEngineInstance]
) -> ContextEngine[JsonObject]:
    """Return a context engine of that name whose instances `make` makes."""

    class Made(ContextEngine[JsonObject]):
        name = engine_name

        def create(self, host: ExtensionHost, config: JsonObject) -> ContextEngineInstance:
            return make(host)

    return Made()


def wakeup_engine(engine_name: str, make: Callable[[ExtensionHost], WakeupEngineInstance]) -> WakeupEngine[JsonObject]:
    """Return a wakeup engine of that name whose instances `make` makes; it runs without input."""

    class Made(WakeupEngine[JsonObject]):
        name = engine_name

        def create(self, host: ExtensionHost, config: JsonObject) -> WakeupEngineInstance:
            return make(host)

    return Made()


class Silent(WakeupEngineInstance):
    """Never wakes."""

    def attach(self, agent: Agent) -> Disposer:
        return lambda: None


def echo(name: str) -> Tool:
    """Return a tool that returns its arguments."""

    def execute(arguments: JsonObject, context: ToolContext) -> JsonValue:
        return dict(arguments)

    return Tool("Returns what it gets.", {"type": "object"}, execute, name=name)


@dataclass
class Contributing(ExtensionInstance):
    """An extension with tools; `tools` may raise."""

    tools: Callable[[], ExtensionTools]

    def extend_tools(self) -> ExtensionTools:
        return self.tools()
