"""Holds a mind whose accounts have gone: what it would say reaches nobody, so nothing is asked until one is back.

Source: design, `send_message`, outcome `unreachable`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

import anyio

from ishiki.contracts.platform import Platform
from ishiki.core.agent import Agent
from ishiki.core.events import AgentEvent, ToolDone
from ishiki.jsonvalue import read_object, read_str
from ishiki.runtime.host import TaskOwner
from ishiki.tools.deliveries import SEND_MESSAGE

__all__ = ["hold_while_unreachable"]

logger = logging.getLogger(__name__)

_HOLD = "the account is not connected"


def hold_while_unreachable(
    agent: Agent, platform: Platform, tasks: TaskOwner, accounts: Callable[[], Collection[str]]
) -> None:
    """Let `agent` start no turn from a send that reached no socket until an account is connected again.

    Args:
        agent: the runtime's.
        platform: tells who is connected.
        tasks: what waits for them runs there.
        accounts: the sids that the mind speaks from. Where it has several (cross mode), it is held only while none of
            them is connected: from those that are away it hears nothing.
    """

    async def wait() -> None:
        try:
            await _first_online(platform, accounts())
            logger.info("%s: the account is back; turns start again", agent.id)
        finally:
            agent.release(_HOLD)

    def watch(event: AgentEvent) -> None:
        if not isinstance(event, ToolDone) or event.tool_name != SEND_MESSAGE or _HOLD in agent.holds:
            return
        if len(accounts()) > 1 and any(platform.is_online(account) for account in accounts()):
            return
        result = event.result
        if isinstance(result, Mapping) and read_str(read_object(result, "error"), "name") == "SendUnreachable":
            logger.warning("%s: the account is not connected; no turn starts until it is back", agent.id)
            agent.hold(_HOLD)
            tasks.spawn("waiting for the account", wait)

    agent.feed.subscribe("agent", watch)


async def _first_online(platform: Platform, accounts: Collection[str]) -> None:
    async with anyio.create_task_group() as group:

        async def one(account: str) -> None:
            await platform.wait_online(account)
            group.cancel_scope.cancel()

        for account in accounts:
            group.start_soon(one, account)
