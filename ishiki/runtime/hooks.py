"""Calling what others wrote: with a time limit, and with an error that names the owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from ishiki.core.disposer import resolved
from ishiki.errors import AgentError, HookError

__all__ = ["call_hook"]

T = TypeVar("T")


async def call_hook(owner: str, hook: str, fn: Callable[[], T | Awaitable[T]], *, limit_s: float) -> T:
    """Call `fn`, sync or async, and return what it returns.

    Raises:
        HookError: it raised, or did not return within `limit_s` seconds; the text names `owner` and `hook`.
        AgentError: as it was; it names its owners itself.
    """
    try:
        with anyio.fail_after(limit_s):
            return await resolved(fn())
    except TimeoutError as error:
        raise HookError(owner, hook, f"did not return within {limit_s:g} s") from error
    except AgentError:
        raise
    except Exception as error:
        raise HookError(owner, hook, f"raised {type(error).__name__}: {error}") from error
