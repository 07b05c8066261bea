"""What all wakeup engines share: which facts are judged, what may never wake, and how a decision is made known.

Every message that is judged gets exactly one decision: one DEBUG line and one `wakeup.decision` on the feed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from ishiki.contracts.events import MESSAGE_CREATED, MessageCreated
from ishiki.core.agent import Agent
from ishiki.core.entries import Entry
from ishiki.core.events import AgentEvent, MessageAppended, WakeupDecision
from ishiki.core.messages import CustomMessage, Message
from ishiki.errors import AgentStoppedError

__all__ = ["Decisions", "MessageJudge", "created_of", "is_own", "newest_entries", "on_message", "veto"]

MessageJudge = Callable[[MessageAppended, MessageCreated], Awaitable[None] | None]
"""Judges one message; what it returns is awaited by the feed, so it must be quick."""

_SEED_ENTRIES = 300
"""How far an engine looks back in the log when it is attached. Our choice: what is older has no say any more in any of
the figures, and decoding more would be felt when a channel is opened."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """How one engine in one runtime acts on its decisions and makes them known."""

    agent: Agent
    engine: str
    """The engine, as the profile names it."""
    logger: logging.LoggerAdapter[logging.Logger]

    def decide(
        self, created: MessageCreated, *, wakes: bool, reason: str, fields: Mapping[str, float] | None = None
    ) -> Awaitable[None] | None:
        """Wake at once where `wakes`, write the line, tell the feed, and return what is left to be awaited of that."""
        verdict = "wakes" if wakes else "does not wake"
        shown = held(self.agent, reason) if wakes else reason
        self.logger.debug("message %s %s: %s", created.message_id, verdict, shown)
        return self.agent.feed.tell(self._made(created, wakes, reason, fields, str(created.channel), ""))

    def announce(
        self,
        created: MessageCreated | None,
        *,
        wakes: bool,
        reason: str,
        fields: Mapping[str, float] | None = None,
        channel: str = "",
        prompt: str = "",
    ) -> Awaitable[None]:
        """Do as `decide`, for an engine that writes a line of its own, or whose decision is about no message.

        Args:
            created: the message; None: the engine's own clock.
            wakes: whether to wake. Also while a turn runs: that merges into the one pending wake, and a message must
                not be lost because the running turn's last request is out already.
            reason: why.
            fields: the figures behind it.
            channel: where, if there is no message.
            prompt: what the turn opens with; "": nothing.
        """
        return self.agent.feed.emit(self._made(created, wakes, reason, fields, channel, prompt))

    def _made(
        self,
        created: MessageCreated | None,
        wakes: bool,
        reason: str,
        fields: Mapping[str, float] | None,
        channel: str,
        prompt: str,
    ) -> WakeupDecision:
        turn_id: str | None = None
        if wakes:
            try:
                turn_id = self.agent.continue_(prompt or None)
                reason = held(self.agent, reason)
            except AgentStoppedError:
                self.logger.debug("%s does not wake: the agent stops; whoever opens the log next finds it", self.engine)
                wakes, reason = False, "the agent stops"
        message_id = ""
        if created is not None:
            channel, message_id = str(created.channel), created.message_id
        return WakeupDecision(self.engine, channel, message_id, wakes, reason, dict(fields or {}), turn_id)


def created_of(message: Message | None) -> MessageCreated | None:
    """Return what somebody said, or None where `message` is anything else."""
    if isinstance(message, CustomMessage) and message.type == MESSAGE_CREATED:
        return MessageCreated.from_data(message.data)
    return None


def on_message(agent: Agent, judge: MessageJudge) -> Callable[[], None]:
    """Call `judge` for every message of the platform that is appended; return the disposer."""

    def listen(event: AgentEvent) -> Awaitable[None] | None:
        if isinstance(event, MessageAppended) and (created := created_of(event.message)) is not None:
            return judge(event, created)
        return None

    return agent.feed.subscribe("agent", listen)


def is_own(created: MessageCreated) -> bool:
    """Whether the account itself said it, here or on another device."""
    return created.is_self or created.user.id == created.self_id


def veto(event: MessageAppended, created: MessageCreated) -> str:
    """Return why `created` may not wake, whatever it says; "" where it may. Source: design, one message in."""
    if event.is_self or is_own(created):
        return "one of our own accounts said it"
    if event.no_wake:
        return event.no_wake
    return "it is older than limits.stale_after" if event.is_stale else ""


def held(agent: Agent, reason: str) -> str:
    """Return why something wakes, with what its turn waits for where the agent is held."""
    return f"{reason}; the turn waits for {', '.join(sorted(agent.holds))}" if agent.holds else reason


def newest_entries(agent: Agent) -> Iterator[Entry]:
    """Yield the newest entries of the log, oldest first: what an engine builds its state from when it is attached."""
    return reversed(list(islice(reversed(agent.store.window()), _SEED_ENTRIES)))
