"""`AgentFeed`: an agent's publish and subscribe.

Listeners are awaited, so that "the judge has seen it" is true before the agent goes on, but only for so long, and a
listener that raises hurts nobody else.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, overload

import anyio

from ishiki.core.disposer import dispose_once
from ishiki.core.events import AgentEvent, StreamEvent

__all__ = ["AgentFeed", "AgentListener", "StreamListener", "Topic"]

logger = logging.getLogger(__name__)

Topic = Literal["agent", "stream"]
AgentListener: TypeAlias = "Callable[[AgentEvent], Awaitable[None] | None]"
StreamListener: TypeAlias = "Callable[[StreamEvent], Awaitable[None] | None]"

_MAX_FAILURES_IN_A_ROW = 3
"""A listener that failed this often without one success in between is detached: it will not mend itself."""


@dataclass(slots=True, eq=False)
class _Subscription:
    listener: Callable[[AgentEvent | StreamEvent], Awaitable[None] | None]
    failures: int = 0
    active: bool = True


class AgentFeed:
    """Two topics, any number of listeners, called in order of subscription."""

    def __init__(self, *, listener_limit_s: float = 5.0) -> None:
        """Await each listener at most `listener_limit_s` seconds per event."""
        self._limit_s = listener_limit_s
        self._topics: dict[Topic, list[_Subscription]] = {"agent": [], "stream": []}

    @overload
    def subscribe(self, topic: Literal["agent"], listener: AgentListener) -> Callable[[], None]: ...
    @overload
    def subscribe(self, topic: Literal["stream"], listener: StreamListener) -> Callable[[], None]: ...
    def subscribe(self, topic: Topic, listener: AgentListener | StreamListener) -> Callable[[], None]:
        """Call `listener` for every event of `topic` from now on.

        The listener may be sync or async. It is awaited before the agent goes on, for a limited time: slow work
        belongs into a task of its own (`host.spawn`). Awaiting a turn inside it is a deadlock until the limit.

        Returns:
            A disposer.
        """
        subscription = _Subscription(cast("Callable[[AgentEvent | StreamEvent], Awaitable[None] | None]", listener))
        self._topics[topic].append(subscription)
        return dispose_once(lambda: self._remove(topic, subscription))

    def has_listeners(self, topic: Topic) -> bool:
        """Whether anybody listens to `topic`; spares the making of events that nobody reads."""
        return bool(self._topics[topic])

    async def emit(self, event: AgentEvent | StreamEvent) -> None:
        """Give `event` to all listeners of its topic and return when all have returned or run out of time."""
        rest = self.tell(event)
        if rest is not None:
            await rest

    def tell(self, event: AgentEvent | StreamEvent) -> Awaitable[None] | None:
        """Do as `emit`, without a task switch where no listener is asynchronous: most facts are heard by such alone.

        Returns:
            What is left to be awaited, or None.
        """
        topic: Topic = "stream" if isinstance(event, StreamEvent) else "agent"
        unfinished: list[tuple[_Subscription, Awaitable[None]]] = []
        for subscription in tuple(self._topics[topic]):
            if not subscription.active:
                continue
            try:
                result = subscription.listener(event)
            except Exception:
                logger.warning("a listener of %s raised on %s", topic, event.type, exc_info=True)
                self._count_failure(topic, subscription)
                continue
            if inspect.isawaitable(result):
                unfinished.append((subscription, result))
            else:
                subscription.failures = 0
        if len(unfinished) == 1:
            return self._finish(topic, event, *unfinished[0])
        return self._finish_all(topic, event, unfinished) if unfinished else None

    async def _finish_all(
        self,
        topic: Topic,
        event: AgentEvent | StreamEvent,
        unfinished: Sequence[tuple[_Subscription, Awaitable[None]]],
    ) -> None:
        async with anyio.create_task_group() as group:
            for subscription, awaitable in unfinished:
                group.start_soon(self._finish, topic, event, subscription, awaitable)

    async def _finish(
        self, topic: Topic, event: AgentEvent | StreamEvent, subscription: _Subscription, awaitable: Awaitable[None]
    ) -> None:
        try:
            with anyio.move_on_after(self._limit_s) as scope:
                await awaitable
        except Exception:
            logger.warning("a listener of %s raised on %s", topic, event.type, exc_info=True)
            self._count_failure(topic, subscription)
            return
        if scope.cancelled_caught:
            logger.warning("a listener of %s did not return from %s within %g s", topic, event.type, self._limit_s)
            self._count_failure(topic, subscription)
        else:
            subscription.failures = 0

    def _count_failure(self, topic: Topic, subscription: _Subscription) -> None:
        subscription.failures += 1
        if subscription.failures >= _MAX_FAILURES_IN_A_ROW:
            logger.warning("a listener of %s failed %d times in a row and is detached", topic, subscription.failures)
            self._remove(topic, subscription)

    def _remove(self, topic: Topic, subscription: _Subscription) -> None:
        subscription.active = False
        if subscription in self._topics[topic]:
            self._topics[topic].remove(subscription)
