"""The way of an event to other plugins: only where one of them has a matcher, and not without bound.

NoneBot makes a task of every event; in a burst of thousands that costs seconds and hundreds of megabytes (design,
one message in). Facts do not come this way.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from nonebot.matcher import matchers

__all__ = ["EventPassage"]

logger = logging.getLogger(__name__)

_MAX_IN_FLIGHT: Final = 256
"""Events at other plugins at once. Twenty command matchers handle 25 a second: more would only be later."""


class EventPassage:
    """Whether an event is passed on to other plugins, and how many are with them."""

    def __init__(self, max_in_flight: int = _MAX_IN_FLIGHT) -> None:
        """Start empty."""
        self.max_in_flight = max_in_flight
        self.in_flight = 0
        self.shed = 0
        self._is_shedding = False

    def admits(self) -> bool:
        """Whether an event is worth making now. One that is shed is counted, and logged once per burst."""
        if not any(matchers.values()):
            return False
        if self.in_flight < self.max_in_flight:
            return True
        self.shed += 1
        if not self._is_shedding:
            self._is_shedding = True
            logger.warning(
                "%d events are with other plugins: further ones are not passed on until some are done (%d so far); "
                "facts and turns are not affected",
                self.in_flight,
                self.shed,
            )
        return False

    async def run(self, handle: Callable[[], Awaitable[None]]) -> None:
        """Run one event through other plugins; a raise is logged."""
        try:
            await handle()
        except Exception:
            # The boundary to other plugins: in NoneBot's own group an exception would end the whole bot.
            logger.exception("an event failed in another plugin")
        finally:
            self.in_flight -= 1
            if self.in_flight <= self.max_in_flight // 2:
                self._is_shedding = False
