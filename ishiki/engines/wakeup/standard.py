"""Wakeup engine `standard`: the mind wakes when it is spoken to. No clock, no judgement, no state.

Source: specification, wakeup engines, `standard`; the order of the tests and their defaults are from there.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from dataclasses import dataclass

from pydantic import Field

from ishiki.config import ConfigModel
from ishiki.contracts.engines import WakeupEngine, WakeupEngineInstance
from ishiki.contracts.events import MessageCreated
from ishiki.contracts.host import ExtensionHost
from ishiki.core.agent import Agent
from ishiki.core.disposer import Disposer
from ishiki.core.events import MessageAppended
from ishiki.engines.wakeup._decisions import Decisions, on_message, veto
from ishiki.engines.wakeup._rules import wake_reason

__all__ = ["StandardWakeup", "StandardWakeupConfig", "StandardWakeupEngine", "wake_reason"]


class StandardWakeupConfig(ConfigModel):
    """What counts as being spoken to."""

    direct: bool = Field(default=True, description="Whether every message of a private chat wakes.")
    at_self: bool = Field(default=True, description="Whether a mention of the account (@) wakes.")
    quote_self: bool = Field(default=True, description="Whether a reply to one of the account's messages wakes.")
    keywords: tuple[str, ...] = Field(
        default=(),
        description="Words that wake wherever they stand in what somebody says; case matters, empty ones are ignored.",
    )


@dataclass(frozen=True, slots=True)
class StandardWakeup(WakeupEngineInstance):
    """The engine in one runtime."""

    config: StandardWakeupConfig
    logger: logging.LoggerAdapter[logging.Logger]
    """Gets one DEBUG line per message, with the reason."""

    def attach(self, agent: Agent) -> Disposer:
        """Judge every message that is appended."""
        decisions = Decisions(agent, StandardWakeupEngine.name, self.logger)

        def judge(event: MessageAppended, created: MessageCreated) -> Awaitable[None] | None:
            refused = veto(event, created)
            reason = "" if refused else wake_reason(created, self.config)
            return decisions.decide(created, wakes=bool(reason), reason=reason or refused or "not spoken to")

        return on_message(agent, judge)


class StandardWakeupEngine(WakeupEngine[StandardWakeupConfig]):
    """The provider."""

    name = "standard"
    Config = StandardWakeupConfig
    runs_without_input = False

    def create(self, host: ExtensionHost, config: StandardWakeupConfig) -> WakeupEngineInstance:
        """Make the instance of one runtime."""
        return StandardWakeup(config, host.logger)
