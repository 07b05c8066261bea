"""Calling what others wrote: with a time limit, and with an error that names the owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from ishiki.core.disposer import resolved
from ishiki.errors import AgentError, HookError

__all__ = ["call_hook"]

T = TypeVar("T")


async def call_hook(owner: str, hook: str, fn: Callable[[], T | Awaitable[T]], *, limit_s: float | None) -> T:
    """Call `fn`, sync or async, and return what it returns.

    Args:
        owner: who wrote it, such as `extension note`.
        hook: its name.
        fn: the hook, with its arguments.
        limit_s: seconds; None: it may take as long as whatever it is part of.

    Raises:
        HookError: it raised, or did not return within `limit_s` seconds; the text names `owner` and `hook`.
        AgentError: as it was; it names its owners itself.
    """
    try:
        # No `fail_after`: its TimeoutError looks like one that the hook raised itself.
        with anyio.move_on_after(limit_s):
            return await resolved(fn())
    except AgentError:
        raise
    except Exception as error:
        raise HookError(owner, hook, f"raised {type(error).__name__}: {error}") from error
    raise HookError(owner, hook, f"did not return within {limit_s:g} s")
