"""Holds a mind whose account has gone: what it would say reaches nobody, so nothing is asked until it is back.

Source: design, `send_message`, outcome `unreachable`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ishiki.contracts.platform import Platform
from ishiki.core.agent import Agent
from ishiki.core.events import AgentEvent, ToolDone
from ishiki.jsonvalue import read_object, read_str
from ishiki.runtime.host import TaskOwner
from ishiki.tools.deliveries import SEND_MESSAGE

__all__ = ["hold_while_unreachable"]

logger = logging.getLogger(__name__)

_HOLD = "the account is not connected"


def hold_while_unreachable(agent: Agent, platform: Platform, tasks: TaskOwner) -> None:
    """Let `agent` start no turn from a send that reached no socket until the account is connected again."""

    async def wait() -> None:
        try:
            await platform.wait_online()
            logger.info("%s: the account is back; turns start again", agent.id)
        finally:
            agent.release(_HOLD)

    def watch(event: AgentEvent) -> None:
        if not isinstance(event, ToolDone) or event.tool_name != SEND_MESSAGE or _HOLD in agent.holds:
            return
        result = event.result
        if isinstance(result, Mapping) and read_str(read_object(result, "error"), "name") == "SendUnreachable":
            logger.warning("%s: the account is not connected; no turn starts until it is back", agent.id)
            agent.hold(_HOLD)
            tasks.spawn("waiting for the account", wait)

    agent.feed.subscribe("agent", watch)
