"""Disposers: what undoes a registration. And `resolved`, which lets every hook be sync or async."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar, cast

__all__ = ["Disposer", "DisposerStack", "dispose_once", "resolved"]

Disposer: TypeAlias = "Callable[[], Awaitable[None] | None]"
"""Undoes one registration. Calling it twice does no harm; it may be async."""

T = TypeVar("T")


async def resolved(value: T | Awaitable[T]) -> T:
    """Return `value`, awaited first where it is awaitable.

    Whatever authors implement may be a plain or an async function; this is the one place where both become one.
    """
    if inspect.isawaitable(value):
        return await cast("Awaitable[T]", value)
    return value


def dispose_once(undo: Callable[[], None]) -> Callable[[], None]:
    """Return `undo` so that only its first call has an effect."""
    pending = [undo]

    def dispose() -> None:
        if pending:
            pending.pop()()

    return dispose


class DisposerStack:
    """Disposers in the order of registration, to be run once each in reverse."""

    def __init__(self) -> None:
        """Start empty."""
        self._disposers: list[Disposer] = []

    def push(self, disposer: Disposer | None) -> None:
        """Keep `disposer`; None, which hooks return for "nothing to undo", is passed over."""
        if disposer is not None:
            self._disposers.append(disposer)

    def pop(self) -> Disposer | None:
        """Take the newest disposer off, or None when all have been taken. The caller runs it."""
        return self._disposers.pop() if self._disposers else None
