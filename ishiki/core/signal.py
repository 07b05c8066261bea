"""`CancelSignal`: the one way in which code outside a task learns that its work is no longer wanted."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio

from ishiki.core.disposer import dispose_once

__all__ = ["CancelSignal"]

logger = logging.getLogger(__name__)


class CancelSignal:
    """Set once, never reset.

    Work inside a task is cancelled by its scope; this is for a thread, a callback, a child process.

    Attributes:
        reason: why it was cancelled, or None as long as it is not.
    """

    __slots__ = ("_callbacks", "_event", "reason")

    def __init__(self) -> None:
        """Start uncancelled."""
        self.reason: str | None = None
        self._event: anyio.Event | None = None
        self._callbacks: list[Callable[[str], None]] = []

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` has been called."""
        return self.reason is not None

    def cancel(self, reason: str) -> None:
        """Set the signal; only the first call has an effect. A callback that raises is logged and hurts no other."""
        if self.reason is not None:
            return
        self.reason = reason
        if self._event is not None:
            self._event.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            _call(callback, reason)

    async def wait(self) -> str:
        """Return the reason as soon as the signal is set."""
        if self._event is None:
            self._event = anyio.Event()
        if self.reason is None:
            await self._event.wait()
        return self.reason or ""

    def on_cancel(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call `callback(reason)` once, at once where the signal is set already.

        Returns:
            A disposer that takes the callback back.
        """
        if self.reason is not None:
            _call(callback, self.reason)
            return dispose_once(lambda: None)
        self._callbacks.append(callback)

        def remove() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return dispose_once(remove)


def _call(callback: Callable[[str], None], reason: str) -> None:
    try:
        callback(reason)
    except Exception:
        logger.exception("a callback of a cancel signal raised")
