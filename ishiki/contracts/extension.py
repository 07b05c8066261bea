"""Extensions: purely additive — tools, paragraphs of the system prompt, resource schemes, a task of their own.

Source: specification, extension API. Decisions belong to engines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeAlias, TypeVar

from ishiki.config import ConfigModel
from ishiki.core.disposer import Disposer
from ishiki.core.tool import Tool, ToolSet

if TYPE_CHECKING:
    from ishiki.contracts.host import AgentRuntime, ExtensionHost

__all__ = ["Extension", "ExtensionInstance", "ExtensionTools"]

C = TypeVar("C")

ExtensionTools: TypeAlias = "ToolSet | Sequence[Tool] | None"
"""Tools by name, or a list of tools that carry their names."""


class ExtensionInstance:
    """One extension in one runtime. Override what you need; every method may be sync or async."""

    def extend_instructions(self) -> Awaitable[str | None] | str | None:
        """Called once per turn: a paragraph for the system prompt. Raising or hanging fails that turn."""
        return None

    def extend_tools(self) -> Awaitable[ExtensionTools] | ExtensionTools:
        """Called once per turn: tools. Nothing is cached between turns. Raising or hanging fails that turn."""
        return None

    def attach(self, runtime: AgentRuntime) -> Awaitable[Disposer | None] | Disposer | None:
        """Called once when the runtime is built. Raising or hanging is a warning; the runtime goes on without it."""
        return None

    def stop(self) -> Awaitable[None] | None:
        """Called once when the runtime stops, before the disposer that `attach` returned."""
        return None


class Extension(ABC, Generic[C]):
    """A provider, registered by `provide`; enabled by `extends: {<name>: {config: …}}` in a profile.

    State that runtimes share belongs here, keyed by `host.root`, and is closed through `host.on_profile_close`.
    """

    name: ClassVar[str]
    """As profiles write it."""
    Config: ClassVar[type[ConfigModel] | None] = None
    """Validates `config`; None: `create` gets the raw mapping, read-only."""

    @abstractmethod
    def create(self, host: ExtensionHost, config: C) -> Awaitable[ExtensionInstance | None] | ExtensionInstance | None:
        """Make the instance of one runtime; None: nothing to contribute there. Called once per runtime."""
