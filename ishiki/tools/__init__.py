"""The kernel's own tools: what every mind can do, whatever its extensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ishiki.content import TypingConfig
from ishiki.contracts.events import ChannelRef
from ishiki.contracts.host import ExtensionHost
from ishiki.core.tool import ToolSet
from ishiki.tools.deliveries import SEND_MESSAGE
from ishiki.tools.finish import FINISH, finish_tool
from ishiki.tools.send_message import send_message_tool
from ishiki.tools.speech_guard import SpeechGuard, SpeechRefusal

__all__ = ["SpeakingConfig", "SpeechGuard", "SpeechRefusal", "TypingNumbers", "kernel_tools"]


class TypingNumbers(Protocol):
    """How fast a mind types; a profile's `typing` section, see `ishiki.content.TypingConfig`."""

    @property
    def base_delay(self) -> float:
        """Milliseconds before the first key."""
        ...

    @property
    def char_per_second(self) -> float:
        """Chinese characters per second."""
        ...

    @property
    def min_delay(self) -> float:
        """Milliseconds, the least."""
        ...

    @property
    def max_delay(self) -> float:
        """Milliseconds, the most."""
        ...


class SpeakingConfig(Protocol):
    """What the kernel's tools read of a profile."""

    @property
    def typing(self) -> TypingNumbers:
        """How fast it types."""
        ...

    @property
    def plain_text(self) -> bool:
        """Whether Markdown becomes plain text."""
        ...


def kernel_tools(
    host: ExtensionHost,
    config: SpeakingConfig,
    *,
    guard: SpeechGuard | None = None,
    allows: Callable[[ChannelRef], bool] = lambda target: True,
) -> ToolSet:
    """Make the kernel's tools of one runtime, in the order in which the model sees them.

    Args:
        host: the runtime's.
        config: the profile's.
        guard: asked before each message; None lets everything out.
        allows: in cross mode, whether a channel is one of the runtime's.
    """
    typing = TypingConfig(
        base_delay_ms=config.typing.base_delay,
        char_per_second=config.typing.char_per_second,
        min_delay_ms=config.typing.min_delay,
        max_delay_ms=config.typing.max_delay,
    )
    send = send_message_tool(
        host.platform,
        host.domain,
        random=host.random,
        typing=typing,
        plain_text=config.plain_text,
        guard=guard,
        allows=allows,
    )
    return {SEND_MESSAGE: send, FINISH: finish_tool()}
