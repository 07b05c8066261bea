"""One model of one provider as a `LanguageModel`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from ishiki.core.model import ModelInfo, ModelPart, ModelRequest
from ishiki.gateway.calls import Target, wire_call
from ishiki.gateway.limiter import CallLimiter
from ishiki.gateway.litellm_wire import LiteLLMWire

__all__ = ["ProviderModel"]


class ProviderModel:
    """A model behind LiteLLM."""

    def __init__(self, target: Target, *, wire: LiteLLMWire, limiter: CallLimiter) -> None:
        """Call `target` through `wire`, as `limiter` allows."""
        self._target = target
        self._wire = wire
        self._limiter = limiter

    @property
    def ref(self) -> str:
        """`provider:model[:level]`."""
        return self._target.ref

    @property
    def info(self) -> ModelInfo:
        """What models.yaml declares."""
        return self._target.info

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        """Answer `request`; waits for its turn where too many calls are in flight.

        Raises:
            ModelError: whatever went wrong, redacted.
        """
        call = wire_call(self._target, request)
        place = self._limiter.place(request.origin.owner, self.ref)
        async with place, aclosing(self._wire.stream(call)) as parts:
            async for part in parts:
                yield part
