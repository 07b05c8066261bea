"""One model of one provider as a `LanguageModel`."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from ishiki.core.model import ModelInfo, ModelPart, ModelRequest
from ishiki.gateway.calls import Target, wire_call
from ishiki.gateway.limiter import CallLimiter
from ishiki.gateway.litellm_wire import LiteLLMWire, WireCall
from ishiki.gateway.transcripts import RequestDump

__all__ = ["ProviderModel", "Watching"]

logger = logging.getLogger(__name__)

_MAX_SHOWN_CHARS = 80
"""Characters of a part in a log line."""


@dataclass(frozen=True, slots=True)
class Watching:
    """What is shown of calls to people who look for a fault."""

    dump: RequestDump | None = None
    """Writes each request and its answer; None: nothing is written."""
    logs_parts: bool = False
    """Whether each part of a stream is logged at DEBUG."""


class ProviderModel:
    """A model behind LiteLLM."""

    def __init__(
        self, target: Target, *, wire: LiteLLMWire, limiter: CallLimiter, watching: Watching | None = None
    ) -> None:
        """Call `target` through `wire`, as `limiter` allows."""
        self._target = target
        self._wire = wire
        self._limiter = limiter
        self._watching = watching or Watching()

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
        async with place, aclosing(self._parts(call)) as parts:
            async for part in parts:
                if self._watching.logs_parts:
                    logger.debug("%s: %s: %.*s", request.origin.owner, self.ref, _MAX_SHOWN_CHARS, part)
                yield part

    async def _parts(self, call: WireCall) -> AsyncGenerator[ModelPart, None]:
        dump = self._watching.dump
        if dump is None:
            async with aclosing(self._wire.stream(call)) as parts:
                async for part in parts:
                    yield part
            return
        record = await dump.begin(call)
        failure: BaseException | None = None
        try:
            async with aclosing(self._wire.stream(call)) as parts:
                async for part in parts:
                    record.take(part)
                    yield part
        except BaseException as error:
            # Of every kind: that a call was cancelled is what somebody who reads the file wants to know.
            failure = error if record.finish is None else None
            raise
        finally:
            await dump.end(record, failure)
