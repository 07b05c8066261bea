"""A reminder for a model that answers without calling anything: what it wrote reaches nobody.

Small models do this often: they write their reply as plain text, write a tool call as text, or return nothing. Plain
text is never shown, so without a reminder people wait for an answer that was written. Once a turn, and only before the
turn has said anything. Our choice; see docs/decisions/one-reminder.md.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from ishiki.core.agent import Agent
from ishiki.core.clock import Clock
from ishiki.core.entries import Entry
from ishiki.core.messages import UserMessage
from ishiki.core.plugin import StepOptions, StepResult
from ishiki.tools.stop_rule import failed_sends

__all__ = ["REMINDED", "REMINDER", "Reminder"]

logger = logging.getLogger(__name__)

REMINDED = "ishiki.reminded"
"""The entry that says that a model was reminded; never shown to a model. Described in docs/formats/events.md."""

REMINDER = (
    "[A note of the runtime, not of the chat: your last answer called no tool, so nobody has read it. To say "
    "something, call send_message now. To stay silent, call finish.]"
)
"""What the step behind such an answer reads last. No entry: further turns do not read it."""


@dataclass(slots=True)
class Reminder:
    """The reminders of one runtime, one turn at a time."""

    clock: Clock
    _turn_id: str = ""
    _has_spoken: bool = False
    _due_step: int | None = None
    """The step that is asked with the reminder; None as long as the turn has had none."""

    async def goes_on(self, result: StepResult, agent: Agent) -> bool | None:
        """Return True where the turn goes on with a reminder; None: no opinion. Call it once for each step, in order.

        Args:
            result: the step.
            agent: whose log gets an entry of it.
        """
        if result.turn_id != self._turn_id:
            self._turn_id, self._has_spoken, self._due_step = result.turn_id, False, None
        self._has_spoken = self._has_spoken or failed_sends(result, 1) == 0
        if result.results is not None or self._has_spoken:
            return None
        if self._due_step is not None:
            logger.warning(
                "%s: a turn ends without a word, for the model called no tool, not even when it was reminded (%s)",
                agent.id, result.finish_reason,
            )  # fmt: skip
            return None
        self._due_step = result.step + 1
        wrote = "text" if result.assistant.text.strip() else "nothing"
        logger.info("%s: the model wrote %s and called no tool (%s); reminded", agent.id, wrote, result.finish_reason)
        data = {"step": result.step, "wrote": wrote, "finishReason": result.finish_reason}
        await agent.record(Entry(REMINDED, data, self.clock.now_ms(), turn_id=result.turn_id))
        return True

    def prepare(self, options: StepOptions) -> StepOptions | None:
        """Return the options of a step with the reminder behind its messages; None where none is due."""
        if (options.turn_id, options.step) != (self._turn_id, self._due_step):
            return None
        return replace(options, messages=[*options.messages, UserMessage(REMINDER)])
