"""The one module that speaks through LiteLLM.

LiteLLM is imported on first need, in a worker thread: it costs seconds and about 190 MB, and a bot that answers by the
demo model never needs it. It is a wire and nothing more: retries, groups, breakers and limits are ours.

Of an `openai-completions` answer the SDK's own chunks are read, not LiteLLM's wrapper around them. Measured with
LiteLLM 1.110: the wrapper drops content that is a list of parts, turns unknown finish reasons and answers without any
chunk into `stop`, invents usage with a tokenizer, and takes 15 ms more at the end of each answer.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Protocol, cast
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from ishiki.core.clock import Clock
from ishiki.core.model import ModelPart, ModelRequest
from ishiki.errors import ModelError
from ishiki.gateway.chat_stream import ChunkReader
from ishiki.gateway.estimate import estimate_request
from ishiki.gateway.faults import Phase, model_error
from ishiki.jsonvalue import JsonObject

__all__ = ["NO_KEY", "LiteLLMWire", "WireCall", "is_loopback"]

logger = logging.getLogger(__name__)

_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it fetches a price list at import
    "HF_HUB_OFFLINE": "1",  # else a tokenizer's download can block for half a minute
    "LITELLM_LOG": "ERROR",
}
"""What has to be set before LiteLLM is imported; a value that is set already stays."""

_READ_TIMEOUT_S = 180.0
"""The longest silence of a provider, for callers without limits of their own. Turns have much shorter ones."""

_CALL_ONCE: JsonObject = {"stream": True, "max_retries": 0, "num_retries": 0, "timeout": _READ_TIMEOUT_S}
"""What every call says. Its default would hide two retries."""

NO_KEY = "no-key"
"""Sent where a local server wants none. Without any, LiteLLM would send the value of OPENAI_API_KEY to it."""

_FINISH_FIELDS = ("received_finish_reason", "intermittent_finish_reason", "received_any_finish_reason")

_AFTER_FINISH_S = 5.0
"""How long the usage, which follows the finish, is waited for."""

_CLOSE_LIMIT_S = 1.0
"""How long hanging up may take."""


@dataclass(frozen=True, slots=True)
class WireCall:
    """One call, ready for LiteLLM."""

    ref: str
    """The model as it was asked for, for error texts."""
    arguments: JsonObject
    """Keyword arguments of `acompletion`."""
    base_url: str | None
    request: ModelRequest
    """What `arguments` were made from; its size is estimated where the provider counts no tokens."""
    reads_raw_chunks: bool
    """Whether the answer is a chat-completions stream as it is."""
    signer: str = ""
    """Who signs reasoning that has to be sent back; "" where nothing has."""
    facts: JsonObject | None = None
    """What LiteLLM is to believe of a model whose name it does not know."""


class _Stream(Protocol):
    """LiteLLM's wrapper of an answer."""

    completion_stream: AsyncIterator[object]

    def __aiter__(self) -> AsyncIterator[object]: ...
    async def aclose(self) -> None: ...


class _LiteLLM(Protocol):
    """What we use of LiteLLM."""

    suppress_debug_info: bool
    disable_token_counter: bool
    model_cost: Mapping[str, object]

    def register_model(self, model_cost: Mapping[str, object]) -> object: ...
    async def acompletion(self, **arguments: object) -> _Stream: ...
    async def close_litellm_async_clients(self) -> None: ...


_loading = threading.Lock()
_loaded: list[_LiteLLM] = []


def _load() -> _LiteLLM:
    """Import LiteLLM and make it ready, once per process. Blocks for seconds."""
    with _loading:
        if not _loaded:
            logger.info("loading the model library; the first answer waits for it, some seconds")
            for name, value in _ENVIRONMENT.items():
                os.environ.setdefault(name, value)
            # Here and not above: heavy, and needed only by who has a model of a provider.
            import litellm

            module = cast("_LiteLLM", litellm)
            module.suppress_debug_info = True
            # What no provider counts is estimated by us; the tokenizer costs 0.3 s and 30 MB at the first answer.
            module.disable_token_counter = True
            anyio.run(_warm, module)
            _loaded.append(module)
        return _loaded[0]


async def _warm(module: _LiteLLM) -> None:
    """Make the first calls of the process, which import more, in the loading thread's own short-lived loop."""
    call = {"model": "custom_openai/warm-up", "messages": [{"role": "user", "content": "hi"}], **_CALL_ONCE}
    async for _ in await module.acompletion(**call, mock_response="hi"):
        pass
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and never listens: the call is refused at once
        with suppress(Exception):  # whatever refusal looks like; only its imports count
            await module.acompletion(**call, api_base=f"http://127.0.0.1:{nobody.getsockname()[1]}", api_key=NO_KEY)
    await module.close_litellm_async_clients()


class LiteLLMWire:
    """Makes calls. Everything it raises is a `ModelError`."""

    def __init__(self, *, clock: Clock, redact: Callable[[str], str]) -> None:
        """Import nothing yet.

        Args:
            clock: for a `Retry-After` that is a date.
            redact: takes secrets out of a provider's words.
        """
        self._clock = clock
        self._redact = redact
        self._lock = anyio.Lock()

    @property
    def is_loaded(self) -> bool:
        """Whether LiteLLM is imported and warm."""
        return bool(_loaded)

    async def load(self) -> None:
        """Import LiteLLM in a worker thread; at once where that is done."""
        await self._module()

    async def stream(self, call: WireCall) -> AsyncGenerator[ModelPart, None]:
        """Make `call` and yield its parts. Closing the iterator hangs up.

        Raises:
            ModelError: whatever went wrong, redacted.
        """
        reader = ChunkReader(signer=call.signer)
        try:
            module = await self._module()
        except Exception as fault:
            raise self._fault(fault, call, "opening") from fault  # a broken installation, such as an ImportError
        async with aclosing(_Response(module, call, self._fault)) as response:
            await response.open()
            while (chunk := await response.next(_AFTER_FINISH_S if reader.is_finished else None)) is not None:
                for part in reader.read(chunk):
                    yield part
                # An empty chunk is no beginning: what fails then has not been half an answer.
                response.phase = "streaming" if reader.has_content else "opening"
            if not reader.is_finished or response.is_finish_made_up:
                raise self._ended_early(call, reader)
            for part in reader.end(estimate_request(call.request)):
                yield part

    async def aclose(self) -> None:
        """Close the connections that LiteLLM keeps open."""
        if _loaded:
            await _loaded[0].close_litellm_async_clients()

    async def _module(self) -> _LiteLLM:
        if not _loaded:
            async with self._lock:
                await anyio.to_thread.run_sync(_load, abandon_on_cancel=True)
        return _loaded[0]

    def _fault(self, fault: Exception, call: WireCall, phase: Phase) -> ModelError:
        return model_error(fault, ref=call.ref, phase=phase, now_s=self._clock.now_ms() / 1000, redact=self._redact)

    def _ended_early(self, call: WireCall, reader: ChunkReader) -> ModelError:
        if reader.has_content:
            return ModelError(f"{call.ref}: the answer ended before its finish", kind="cut", retryable=True)
        return ModelError(
            f"{call.ref}: the server answered without an answer (no choices); is base_url right, and does it stream?",
            kind="unavailable",
            retryable=True,
        )


class _Response:
    """One HTTP response."""

    def __init__(
        self, module: _LiteLLM, call: WireCall, fault: Callable[[Exception, WireCall, Phase], ModelError]
    ) -> None:
        self._module = module
        self._call = call
        self._fault = fault
        self._stream: _Stream | None = None
        self._chunks: AsyncIterator[object] | None = None
        self.phase: Phase = "opening"

    @property
    def is_finish_made_up(self) -> bool:
        """Whether LiteLLM's wrapper has finished an answer that the provider did not."""
        if self._call.reads_raw_chunks or self._stream is None:
            return False
        # Where the wrapper keeps the provider's own; without any it ends a stream by a `stop` of its own making.
        return not any(getattr(self._stream, name, None) for name in _FINISH_FIELDS)

    async def open(self) -> None:
        """Send the request and wait for the status line."""
        if self._call.base_url is not None and is_loopback(self._call.base_url):
            _spare_loopback_from_proxies()
        _tell(self._module, self._call)
        try:
            self._stream = await self._module.acompletion(**self._call.arguments, **_CALL_ONCE)
            chunks = self._stream.completion_stream if self._call.reads_raw_chunks else self._stream
            self._chunks = aiter(chunks)
        except Exception as fault:  # noqa: BLE001 - LiteLLM lets bare IndexErrors and the like through
            # Without a cause: its text may hold a key.
            raise self._fault(fault, self._call, "opening") from None

    async def next(self, limit_s: float | None) -> object | None:
        """Return the next chunk; None at the end, or after `limit_s` seconds without one."""
        if self._chunks is None:
            return None
        try:
            with anyio.move_on_after(limit_s):
                # Of some providers LiteLLM sends the request here, and not before.
                return await anext(self._chunks, None)
        except Exception as fault:  # noqa: BLE001 - as in `open`
            if limit_s is not None:
                # The finish has come: the answer is whole, only its usage is lost and will be estimated.
                logger.debug("%s: the end of a finished answer failed: %s", self._call.ref, type(fault).__name__)
                return None
            raise self._fault(fault, self._call, self.phase) from None
        return None

    async def aclose(self) -> None:
        """Hang up. Never raises: there is nothing that a caller could do about it."""
        if self._stream is None:
            return
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSE_LIMIT_S):
            await self._stream.aclose()


def _tell(module: _LiteLLM, call: WireCall) -> None:
    """Tell LiteLLM of a model whose name it does not know."""
    if call.facts is None:
        return
    name = str(call.arguments["model"]).rpartition("/")[2]
    known = f"{call.facts['litellm_provider']}/{name}"
    is_listed = known in module.model_cost or call.facts["litellm_provider"] == _provider_of(module, name)
    if not is_listed:
        module.register_model({known: call.facts})


def _provider_of(module: _LiteLLM, name: str) -> object:
    listed = module.model_cost.get(name)
    return cast("Mapping[str, object]", listed).get("litellm_provider") if isinstance(listed, Mapping) else None


def is_loopback(url: str) -> bool:
    """Whether an address is this machine's own."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _spare_loopback_from_proxies() -> None:
    """Add loopback to NO_PROXY where a proxy is set: no proxy can reach a server on this machine."""
    names = ("http_proxy", "https_proxy", "all_proxy")
    if not any(os.environ.get(name) or os.environ.get(name.upper()) for name in names):
        return
    for name in ("no_proxy", "NO_PROXY"):
        spared = [host for host in os.environ.get(name, "").split(",") if host.strip()]
        missing = [host for host in ("localhost", "127.0.0.1", "::1") if host not in (one.strip() for one in spared)]
        if missing and "*" not in spared:
            os.environ[name] = ",".join([*spared, *missing])
