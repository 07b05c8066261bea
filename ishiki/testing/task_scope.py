"""The tasks behind an object that is used with `async with`."""

from __future__ import annotations

from types import TracebackType

import anyio
from anyio.abc import TaskGroup

__all__ = ["TaskScope"]


class TaskScope:
    """A task group that ends its tasks at exit and lets an exception of the body through as it is.

    A plain task group wraps the body's exception in a group, so that a failed assertion inside `async with peer:`
    would read as an `ExceptionGroup`. An error in one of the tasks still cancels the body and comes out as a group.
    Enter and leave it in the same task.
    """

    def __init__(self) -> None:
        """Make the group; nothing runs yet."""
        self._group = anyio.create_task_group()

    async def __aenter__(self) -> TaskGroup:
        return await self._group.__aenter__()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        self._group.cancel_scope.cancel()
        if exc is not None and not isinstance(exc, anyio.get_cancelled_exc_class()):
            await self._group.__aexit__(None, None, None)
            return None
        return await self._group.__aexit__(exc_type, exc, traceback)
