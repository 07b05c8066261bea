"""Wakeup engine `standard`: the mind wakes when it is spoken to. No clock, no judgement, no state.

Source: specification, wakeup engines, `standard`; the order of the tests and their defaults are from there.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pydantic import Field

from ishiki.config import ConfigModel
from ishiki.content import contains_keyword, is_at_self
from ishiki.contracts.engines import WakeupEngine, WakeupEngineInstance
from ishiki.contracts.events import MESSAGE_CREATED, MessageCreated
from ishiki.contracts.host import ExtensionHost
from ishiki.core.agent import Agent
from ishiki.core.disposer import Disposer
from ishiki.core.events import AgentEvent, MessageAppended
from ishiki.core.messages import CustomMessage
from ishiki.errors import AgentStoppedError

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


def wake_reason(created: MessageCreated, config: StandardWakeupConfig) -> str:
    """Return why `created` wakes, or "" where it does not. The first test that holds decides; pure."""
    if config.direct and created.is_direct:
        return "a private message"
    quoted = None if created.quote is None else created.quote.user
    if config.quote_self and quoted is not None and quoted.id == created.self_id:
        return "a reply to the account"
    if contains_keyword(created.content, config.keywords):
        return "a keyword"
    if config.at_self and is_at_self(created.content, created.self_id):
        return "a mention of the account"
    return ""


@dataclass(frozen=True, slots=True)
class StandardWakeup(WakeupEngineInstance):
    """The engine in one runtime."""

    config: StandardWakeupConfig
    logger: logging.LoggerAdapter[logging.Logger]
    """Gets one DEBUG line per message, with the reason."""

    def attach(self, agent: Agent) -> Disposer:
        """Judge every message that is appended."""

        def judge(event: AgentEvent) -> None:
            if isinstance(event, MessageAppended) and isinstance(event.message, CustomMessage):
                self._judge(agent, event, event.message)

        return agent.feed.subscribe("agent", judge)

    def _judge(self, agent: Agent, event: MessageAppended, message: CustomMessage) -> None:
        if message.type != MESSAGE_CREATED:
            return
        created = MessageCreated.from_data(message.data)
        veto = _veto(event, created)
        reason = "" if veto else wake_reason(created, self.config)
        if not reason:
            self.logger.debug("message %s does not wake: %s", created.message_id, veto or "not spoken to")
            return
        self.logger.debug("message %s wakes: %s", created.message_id, reason)
        try:
            # Also while a turn runs: that merges into the one pending wake, and a message must not be lost because
            # the running turn's last request is out already.
            agent.continue_()
        except AgentStoppedError:
            self.logger.debug("message %s came while the agent stops; whoever opens the log next finds it", message.id)


def _veto(event: MessageAppended, created: MessageCreated) -> str:
    if event.is_self or created.is_self or created.user.id == created.self_id:
        return "one of our own accounts said it"
    return "it is older than limits.stale_after" if event.is_stale else ""


class StandardWakeupEngine(WakeupEngine[StandardWakeupConfig]):
    """The provider."""

    name = "standard"
    Config = StandardWakeupConfig
    runs_without_input = False

    def create(self, host: ExtensionHost, config: StandardWakeupConfig) -> WakeupEngineInstance:
        """Make the instance of one runtime."""
        return StandardWakeup(config, host.logger)
