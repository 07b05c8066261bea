"""Toolcall engine `grounding`: one more system message in front of every request.

Shows `ModelMiddleware`, which may change what goes to a model and what comes back. In a profile:

    toolcall: {engine: grounding, grounding: {instruction: Name the URL behind every claim.}}
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from ishiki import (
    ConfigModel,
    ExtensionHost,
    ModelInfo,
    ModelMiddleware,
    ModelRequest,
    SystemMessage,
    ToolcallEngine,
    ToolcallEngineInstance,
    provide,
)


class GroundingConfig(ConfigModel):
    """What stands under `toolcall.grounding`."""

    instruction: str = Field(default="Name the URL behind every factual claim.", description="The system message.")


class Grounding(ToolcallEngineInstance, ModelMiddleware):
    """The engine in one runtime, and its own middleware."""

    def __init__(self, config: GroundingConfig) -> None:
        """Add the same message to each request, so that prefix caches hold."""
        self._message = SystemMessage(config.instruction)

    def middleware(self) -> ModelMiddleware:
        """Return what changes requests; the runtime puts it between the agent and the model once."""
        return self

    def transform_request(self, request: ModelRequest, model: ModelInfo) -> ModelRequest:
        """Return a changed copy: requests are frozen."""
        return replace(request, messages=[self._message, *request.messages])


class GroundingEngine(ToolcallEngine[GroundingConfig]):
    """The provider; one per process."""

    name = "grounding"
    Config = GroundingConfig

    def create(self, host: ExtensionHost, config: GroundingConfig) -> Grounding:
        """Make the engine of one runtime."""
        return Grounding(config)


provide(GroundingEngine())
