"""Toolcall engine `native`: tool calls are the provider's own; the model is left as it is."""

from __future__ import annotations

from ishiki.config import ConfigModel
from ishiki.contracts.engines import ModelMiddleware, ToolcallEngine, ToolcallEngineInstance
from ishiki.contracts.host import ExtensionHost

__all__ = ["NativeToolcall", "NativeToolcallConfig", "NativeToolcallEngine"]


class NativeToolcallConfig(ConfigModel):
    """Nothing to set."""


class NativeToolcall(ToolcallEngineInstance):
    """The engine in one runtime."""

    def middleware(self) -> ModelMiddleware | None:
        """Return None: nothing is rewritten."""
        return None


class NativeToolcallEngine(ToolcallEngine[NativeToolcallConfig]):
    """The provider; `wrap` of its instances returns the model it was given."""

    name = "native"
    Config = NativeToolcallConfig

    def create(self, host: ExtensionHost, config: NativeToolcallConfig) -> ToolcallEngineInstance:
        """Make the instance of one runtime."""
        return NativeToolcall()
