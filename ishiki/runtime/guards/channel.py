"""`ChannelGuards`: all guards of one runtime. Past one of them: a log line, an entry, silence.

It learns from the entries of the log, live and at a restart alike, so that it knows after a kill what it knew before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Literal

from ishiki.contracts.events import MESSAGE_CREATED, ChannelRef, ChatEvent, MessageCreated
from ishiki.core.agent import Agent
from ishiki.core.clock import Clock
from ishiki.core.entries import DELIVERY, EVENT, Entry
from ishiki.core.messages import CustomMessage
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_int, read_object, read_str
from ishiki.profile import GuardsConfig
from ishiki.runtime.guards.partners import PartnerWatch
from ishiki.runtime.guards.speech import SpeechMemory
from ishiki.runtime.guards.turns import TurnWindow
from ishiki.runtime.host import TaskOwner
from ishiki.runtime.usage.books import ProfileUsage
from ishiki.tools.deliveries import Delivery
from ishiki.tools.speech_guard import SpeechRefusal

__all__ = ["GUARD", "ChannelGuards", "GuardKind", "GuardParts"]

logger = logging.getLogger(__name__)

GUARD = "ishiki.guard"
"""The entry that says which bound was met; never shown to a model. Described in docs/guide/guards.md."""

GuardKind = Literal["turns_per_hour", "tokens_per_day", "messages_per_turn", "repeated_text", "two_bots"]

_LONGEST_NAP_S = 3_600.0
"""The clock of the day may be set while we wait, so the time left is computed anew at least this often."""


@dataclass(frozen=True, slots=True)
class GuardParts:
    """What the guards of a runtime work with."""

    config: GuardsConfig
    channel: ChannelRef
    usage: ProfileUsage
    """The profile's, for its tokens of the day."""
    clock: Clock
    stale_after_ms: float
    """Older facts wake nobody, so they take no part in a run of turns."""
    is_own: Callable[[ChatEvent], bool]
    """Whether one of our own accounts said it."""


class ChannelGuards:
    """Implements `SpeechGuard`. `restore`, then `attach`; everything between and after is told by entries."""

    def __init__(self, parts: GuardParts) -> None:
        """Know nothing yet."""
        self._parts = parts
        self._config = parts.config
        self._clock = parts.clock
        self._turns = TurnWindow(parts.config.turns_per_hour)
        self._speech = SpeechMemory(parts.config.messages_per_turn)
        is_private = parts.channel.channel_id.startswith("private:")
        self._partners = None if is_private else PartnerWatch(frozenset(parts.config.bots))
        self._budget_told_until = 0
        self._told_in_turn: set[GuardKind] = set()
        self._agent: Agent | None = None
        self._tasks: TaskOwner | None = None
        self._unwatch: Callable[[], None] | None = None

    def restore(self, checkpoint: JsonObject, entries: Sequence[Entry]) -> None:
        """Take over what a checkpoint's `guards` hold, and then what the entries behind it tell."""
        starts = [start for start in read_array(checkpoint, "turns") if isinstance(start, int)]
        self._turns = TurnWindow(self._config.turns_per_hour, starts)
        self._turns.is_announced = checkpoint.get("turnsTold") is True
        self._budget_told_until = read_int(checkpoint, "budgetToldUntil")
        self._speech.restore(checkpoint)
        if self._partners is not None:
            self._partners.restore(read_object(checkpoint, "partners"))
        # A history has what joined a step behind that step; here it counts when it came.
        for entry in sorted(entries, key=lambda entry: entry.timestamp):
            self.note(entry)

    def attach(self, agent: Agent, tasks: TaskOwner) -> None:
        """Hold `agent` where a bound is met, now and from now on. Called once, before the agent is served.

        Args:
            agent: the runtime's.
            tasks: what waits until a bound gives way runs there.
        """
        self._agent, self._tasks = agent, tasks
        self._check_turns()
        if self._config.tokens_per_day:
            self._check_budget()
            self._unwatch = self._parts.usage.watch(self._check_budget)

    def detach(self) -> None:
        """Let go of the profile's numbers, which outlive the runtime. Idempotent."""
        if self._unwatch is not None:
            self._unwatch()

    def checkpoint(self) -> dict[str, JsonValue]:
        """Return the part of a checkpoint that restores this."""
        return {
            "turns": self._turns.starts,
            "turnsTold": self._turns.is_announced,
            "budgetToldUntil": self._budget_told_until,
            "said": self._speech.checkpoint(),
            "partners": {} if self._partners is None else self._partners.checkpoint(),
        }

    def note(self, entry: Entry) -> None:
        """Learn from an entry of the log: each one once, in the order in which they are appended."""
        if entry.type == DELIVERY:
            delivery = Delivery.from_entry(entry)
            self._speech.note(delivery, entry.turn_id or "", entry.timestamp)
            if delivery.state != "failed" and self._partners is not None:
                self._partners.said(entry.timestamp)
        elif entry.type == EVENT and read_str(entry.json_data, "type") == "turn.start":
            self._note_turn(entry)
        elif entry.type == GUARD:
            self._note_told(entry)
        elif isinstance(entry.message, CustomMessage) and entry.message.type == MESSAGE_CREATED:
            self._note_heard(MessageCreated.from_data(entry.message.data), entry.timestamp)

    def wakes_nobody(self, event: ChatEvent) -> bool:
        """Whether `event` comes from an account that may wake no turn now, because it talks like a bot or is one."""
        if not isinstance(event, MessageCreated):
            return False
        if self._partners is None or event.is_direct:
            return event.user.id in self._config.bots
        return self._partners.rests_until(event.user.id, self._clock.now_ms()) is not None

    def refusal(self, turn_id: str, target: ChannelRef, content: str) -> SpeechRefusal | None:
        """Return why a message may not be sent now; see `SpeechGuard`."""
        refused = self._speech.refusal(turn_id, target, content, self._clock.now_ms())
        if refused is not None:
            kind: GuardKind = "messages_per_turn" if refused.name == "MessageLimit" else "repeated_text"
            self._tell_once_a_turn(kind)
        return refused

    # -- what the log tells --------------------------------------------------------------------------------------

    def _note_turn(self, entry: Entry) -> None:
        self._turns.began(entry.timestamp)
        self._told_in_turn.clear()
        self._check_turns()
        if self._partners is None:
            return
        account = self._partners.turn_began(entry.timestamp)
        until = None if account is None else self._partners.rests_until(account, entry.timestamp)
        if account is not None and until is not None:
            known = " and is listed in guards.bots" if account in self._config.bots else ", each time within seconds"
            detail = f"the account {account} has woken six turns in a row{known}; it wakes nobody for ten minutes"
            self._tell("two_bots", detail, until, account=account)

    def _note_heard(self, event: MessageCreated, at_ms: int) -> None:
        if self._partners is None or at_ms - event.timestamp > self._parts.stale_after_ms or self._parts.is_own(event):
            return
        self._partners.heard(event.user.id, at_ms)

    def _note_told(self, entry: Entry) -> None:
        match read_str(entry.json_data, "kind"):
            case "turns_per_hour":
                self._turns.is_announced = True
            case "tokens_per_day":
                self._budget_told_until = read_int(entry.json_data, "until")
            case _:
                pass

    # -- holding -------------------------------------------------------------------------------------------------

    def _check_turns(self) -> None:
        until = self._turns.held_until(self._clock.now_ms())
        if until is None or not self._hold("turns_per_hour", self._turns.held_until):
            return
        if not self._turns.is_announced:
            self._turns.is_announced = True
            bound = self._config.turns_per_hour
            turns = "1 turn has" if bound == 1 else f"{bound} turns have"
            self._tell(
                "turns_per_hour", f"{turns} begun within an hour; the next one may at {self._time(until)}", until
            )

    def _budget_held_until(self, now_ms: int) -> int | None:
        usage = self._parts.usage
        return usage.midnight_ms() if usage.tokens_today >= self._config.tokens_per_day else None

    def _check_budget(self) -> None:
        until = self._budget_held_until(self._clock.now_ms())
        if until is None or not self._hold("tokens_per_day", self._budget_held_until):
            return
        if self._budget_told_until < until:
            self._budget_told_until = until
            usage = self._parts.usage
            spent = f"the profile has used {usage.tokens_today} of its {self._config.tokens_per_day} tokens of this day"
            # The bound is the profile's: every channel keeps a note of it, the operator gets one line.
            is_first = usage.is_first_today("tokens_per_day")
            detail = f"{spent}; no turn starts until {self._time(until)}"
            self._tell("tokens_per_day", detail, until, is_loud=is_first)

    def _hold(self, kind: GuardKind, held_until: Callable[[int], int | None]) -> bool:
        """Hold the agent for `kind`; return whether it is held for that from now on."""
        agent, tasks = self._agent, self._tasks
        if agent is None or tasks is None or kind in agent.holds:
            return False
        agent.hold(kind)
        tasks.spawn(f"guard {kind}", partial(self._release_in_time, agent, kind, held_until))
        return True

    async def _release_in_time(self, agent: Agent, kind: GuardKind, held_until: Callable[[int], int | None]) -> None:
        while (until := held_until(now := self._clock.now_ms())) is not None:
            await self._clock.sleep(min((until - now) / 1000, _LONGEST_NAP_S))
        agent.release(kind)
        logger.info("%s: turns start again (%s)", agent.id, kind)

    # -- telling -------------------------------------------------------------------------------------------------

    def _tell_once_a_turn(self, kind: GuardKind) -> None:
        if kind in self._told_in_turn:
            return
        self._told_in_turn.add(kind)
        if kind == "messages_per_turn":
            most = self._config.messages_per_turn
            detail = f"a turn wanted to send more than {most} message{'' if most == 1 else 's'}; the rest is not sent"
        else:
            detail = "a turn wanted to say the same again, in the same turn or for the fourth time in ten minutes"
        self._tell(kind, detail)

    def _tell(
        self,
        kind: GuardKind,
        detail: str,
        until: int | None = None,
        *,
        account: str | None = None,
        is_loud: bool = True,
    ) -> None:
        agent, tasks = self._agent, self._tasks
        if agent is None or tasks is None:
            return  # the log is being read, and tells of this itself
        if is_loud:
            logger.warning("%s: guard %s: %s", agent.id, kind, detail)
        else:
            logger.debug("%s: guard %s: %s", agent.id, kind, detail)
        data: dict[str, JsonValue] = {"kind": kind, "detail": detail}
        if until is not None:
            data["until"] = until
        if account is not None:
            data["account"] = account
        entry = Entry(GUARD, data, self._clock.now_ms())
        tasks.spawn(f"noting {kind}", partial(agent.record, entry))

    def _time(self, at_ms: int) -> str:
        return datetime.fromtimestamp(at_ms / 1000, self._parts.usage.zone).strftime("%Y-%m-%d %H:%M")
