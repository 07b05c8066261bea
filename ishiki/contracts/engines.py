"""The three engine families. Each decision has one owner per runtime, chosen in the profile.

Source: specification, engine system. *Context*: what the model sees. *Wakeup*: when a turn starts. *Toolcall*: how the
model writes tool calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from ishiki.config import ConfigModel
from ishiki.core.disposer import Disposer, resolved
from ishiki.core.entries import Entry
from ishiki.core.messages import Message
from ishiki.core.model import LanguageModel, ModelInfo, ModelPart, ModelRequest
from ishiki.core.plugin import ContextRequest
from ishiki.jsonvalue import JsonObject

if TYPE_CHECKING:
    from ishiki.contracts.host import ExtensionHost
    from ishiki.core.agent import Agent

__all__ = [
    "ChosenWakeup",
    "ContextEngine",
    "ContextEngineInstance",
    "EngineFamily",
    "ModelMiddleware",
    "NextStream",
    "ToolcallEngine",
    "ToolcallEngineInstance",
    "WakeupEngine",
    "WakeupEngineInstance",
]

C = TypeVar("C")

EngineFamily = Literal["context", "wakeup", "toolcall"]
NextStream: TypeAlias = "Callable[[ModelRequest], AsyncIterator[ModelPart]]"
"""The rest of the way to the model."""


class ContextEngineInstance:
    """One context engine in one runtime; may hold budgets and projections. Every method is optional.

    Stored entries are never changed; a compaction is appended as a new entry.
    """

    def prepare_entries(
        self, entries: Sequence[Entry], request: ContextRequest
    ) -> Awaitable[Sequence[Entry]] | Sequence[Entry]:
        """Choose the entries of this step, in order. Called before every request. Raising fails the turn."""
        return entries

    def render_messages(
        self, messages: Sequence[Message], request: ContextRequest
    ) -> Awaitable[Sequence[Message]] | Sequence[Message]:
        """Merge, rewrite or insert messages. What is still custom afterwards gets the runtime's default projection."""
        return messages

    def instructions(self) -> Awaitable[str | None] | str | None:
        """Called once per turn, after the extensions: a paragraph for the system prompt. Raising fails the turn."""
        return None

    def attach(self, agent: Agent) -> Awaitable[Disposer | None] | Disposer | None:
        """Called once when the runtime is built; subscribe to turn events here. Raising is a warning."""
        return None


class WakeupEngineInstance(ABC):
    """One wakeup engine in one runtime."""

    @abstractmethod
    def attach(self, agent: Agent) -> Awaitable[Disposer] | Disposer:
        """Called once when the runtime is built, before any fact is stored.

        Subscribe to `agent.feed`, keep a timer, or both, and call `agent.continue_()`. Never wake on a notification
        that `is_stale` or `is_self`. The disposer unsubscribes, ends timers and drops judgements in flight.
        """


class ModelMiddleware:
    """Changes what goes to a model and what comes back. Override what you need."""

    def transform_request(self, request: ModelRequest, model: ModelInfo) -> Awaitable[ModelRequest] | ModelRequest:
        """Return the request as it is to be sent."""
        return request

    def wrap_stream(self, next_stream: NextStream, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """Return the parts of the answer; `next_stream(request)` asks the model."""
        return next_stream(request)


class ToolcallEngineInstance(ABC):
    """One toolcall engine in one runtime. Tools are still run by the host; this changes how calls are written."""

    @abstractmethod
    def middleware(self) -> ModelMiddleware | None:
        """Return what rewrites calls, or None to leave the model as it is."""

    def wrap(self, model: LanguageModel) -> LanguageModel:
        """Return the model that the agent asks. Called once per runtime.

        `model` stands for whatever the profile names at the time of each call, and must not be changed. Override this
        to orchestrate several calls or models.
        """
        middleware = self.middleware()
        return model if middleware is None else _MiddlewareModel(model, middleware)


class _MiddlewareModel:
    """A model seen through one middleware."""

    def __init__(self, model: LanguageModel, middleware: ModelMiddleware) -> None:
        self._model = model
        self._middleware = middleware

    @property
    def ref(self) -> str:
        return self._model.ref

    @property
    def info(self) -> ModelInfo:
        return self._model.info

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        changed = await resolved(self._middleware.transform_request(request, self._model.info))
        parts = self._middleware.wrap_stream(self._model.stream, changed)
        try:
            async for part in parts:
                yield part
        finally:
            # Whoever stops reading here ends the call at the provider now, not when this is collected.
            if isinstance(parts, AsyncGenerator):
                await parts.aclose()


class _Engine(ABC):
    name: ClassVar[str]
    """As profiles write it: `<family>: {engine: <name>, <name>: {…}}`."""
    Config: ClassVar[type[ConfigModel] | None] = None
    """Validates the engine's own block; None: `create` gets the raw mapping, read-only."""


class ContextEngine(_Engine, Generic[C]):
    """A provider of the context family, registered by `provide`."""

    @abstractmethod
    def create(self, host: ExtensionHost, config: C) -> Awaitable[ContextEngineInstance] | ContextEngineInstance:
        """Make the instance of one runtime. Raising means that this runtime cannot be built."""


class WakeupEngine(_Engine, Generic[C]):
    """A provider of the wakeup family, registered by `provide`."""

    runs_without_input: ClassVar[bool] = True
    """True: it may wake on a clock of its own, so its runtimes are built at start-up and never stopped for idleness."""

    base_key: ClassVar[str | None] = None
    """The field of its own `Config` that holds another wakeup engine, on which it builds; None: it builds on none.

    A profile writes it as it writes the section: `{engine: <name>, <name>: {…}}`. The field is of the type
    `InstanceOf[ChosenWakeup] | None`, defaults to None, and is filled when the profile is validated.
    """

    @abstractmethod
    def create(self, host: ExtensionHost, config: C) -> Awaitable[WakeupEngineInstance] | WakeupEngineInstance:
        """Make the instance of one runtime. Raising means that this runtime cannot be built."""


class ChosenWakeup:
    """A wakeup engine on which another one builds, with its validated settings. Never changes."""

    __slots__ = ("config", "provider")

    # `Any`: as in `Provider`; the settings are what the provider's own `Config` made. No dataclass, because pydantic
    # would look into the fields of one that a `Config` mentions.
    def __init__(self, provider: WakeupEngine[Any], config: ConfigModel | JsonObject) -> None:
        """Keep both."""
        self.provider = provider
        self.config = config

    def create(self, host: ExtensionHost) -> Awaitable[WakeupEngineInstance] | WakeupEngineInstance:
        """Make its instance in the runtime of `host`. Raises what the engine raises."""
        return self.provider.create(host, self.config)


class ToolcallEngine(_Engine, Generic[C]):
    """A provider of the toolcall family, registered by `provide`."""

    @abstractmethod
    def create(self, host: ExtensionHost, config: C) -> Awaitable[ToolcallEngineInstance] | ToolcallEngineInstance:
        """Make the instance of one runtime. Raising means that this runtime cannot be built."""
