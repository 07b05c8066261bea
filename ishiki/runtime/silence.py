"""`Silence`: a channel in which nothing can be said starts no turn, until something can be said there again.

It learns from the log, live and at a restart alike: what the platform announces of the account, and what became of its
messages. Facts are kept all the while, and a wake that waits is served when it is over. In cross mode the agent is not
held for one of many channels: what is said in that one wakes nobody meanwhile, and nothing is sent there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import partial

import anyio

from ishiki.contracts.events import (
    MESSAGE_CREATED,
    STANDING_CHANGED,
    ChannelRef,
    ChatEvent,
    MessageCreated,
    StandingChanged,
)
from ishiki.contracts.platform import Platform
from ishiki.core.agent import Agent
from ishiki.core.clock import Clock, SteadyTime
from ishiki.core.entries import DELIVERY, EVENT, Entry
from ishiki.core.messages import CustomMessage
from ishiki.errors import AgentStoppedError
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_int, read_str
from ishiki.runtime.address import MAIN
from ishiki.runtime.host import TaskOwner
from ishiki.runtime.speech_bars import NEVER_MS, SpeechBars
from ishiki.tools.deliveries import Delivery
from ishiki.tools.speech_guard import SpeechGuard, SpeechRefusal

__all__ = ["CAN_SPEAK_AGAIN", "NOTHING_CAN_BE_SAID", "Silence", "SilenceParts"]

logger = logging.getLogger(__name__)

CAN_SPEAK_AGAIN = (
    "You can speak here again. Something that you wanted to say could not be sent: if it still matters, say it now; "
    "else call finish."
)
"""What opens the turn in which a mind may answer what it could not; once, where the end of the bar is certain."""

NOTHING_CAN_BE_SAID = "nothing can be said there"
"""Why a message wakes nobody, and why an agent is held."""

_TURN_ENDS = ("turn.done", "turn.failed", "turn.aborted")

_LONGEST_NAP_S = 600.0
"""A lift may be missed while the account is away: so often we look."""

_LOOK_AFTER_S = 5.0
"""How long after a send without confirmation the account's own history is asked for it. Our choice."""

_LOOK_AT = 20
"""Messages of that history."""


@dataclass(frozen=True, slots=True)
class SilenceParts:
    """What it works with."""

    address: ChannelRef
    """Where the runtime lives; `MAIN` in cross mode."""
    platform: Platform
    clock: Clock
    zone: tzinfo
    guard: SpeechGuard
    """Asked where nothing bars a message here."""
    settles: Callable[[MessageCreated], bool]
    """Takes a message of the account's own from its history; whether it is one that was never confirmed."""


class Silence:
    """Implements `SpeechGuard`. `restore`, then `attach`; everything between and after is told by entries.

    Mutes and pauses are spans, so they are measured in steady time; the log has the wall's.
    """

    def __init__(self, parts: SilenceParts) -> None:
        """Know of no bar."""
        self._parts = parts
        self._clock = parts.clock
        self._steady = SteadyTime(parts.clock)
        self._is_cross = parts.address == MAIN
        self._channels: dict[ChannelRef, SpeechBars] = {}
        """Those of which something is known; at most one but in cross mode."""
        self._owes_words = False
        """Whether a turn wanted to say something here and could not."""
        self._changed = anyio.Event()
        self._agent: Agent | None = None
        self._tasks: TaskOwner | None = None

    def restore(self, checkpoint: JsonObject, entries: Sequence[Entry]) -> None:
        """Take over what a checkpoint's `silence` holds, and then what the entries behind it tell."""
        for data in read_array(checkpoint, "channels"):
            if isinstance(data, Mapping):
                channel = ChannelRef(read_str(data, "sid"), read_str(data, "channelId"))
                self._channels[channel] = SpeechBars.restored(data, self._steady)
        self._owes_words = checkpoint.get("owesWords") is True
        for entry in sorted(entries, key=lambda entry: entry.timestamp):
            self._note(entry, self._steady.of_past(entry.timestamp))

    def attach(self, agent: Agent, tasks: TaskOwner) -> None:
        """Hold `agent` while nothing can be said, now and from now on. Called once, before the agent is served."""
        self._agent, self._tasks = agent, tasks
        self._check()
        bars = self._channels.get(self._parts.address)
        if bars is not None and NOTHING_CAN_BE_SAID not in agent.holds:
            # It ended while nobody was there to wait for it.
            self._speak_again(agent, bars)

    def checkpoint(self) -> dict[str, JsonValue]:
        """Return the part of a checkpoint that restores this."""
        channels: list[JsonValue] = [
            {"sid": channel.sid, "channelId": channel.channel_id, **bars.checkpoint(self._steady)}
            for channel, bars in self._channels.items()
            if not bars.is_clear
        ]
        return {"channels": channels, "owesWords": self._owes_words}

    def refusal(self, turn_id: str, target: ChannelRef, content: str) -> SpeechRefusal | None:
        """Return why a message may not be sent now; see `SpeechGuard`."""
        bars = self._channels.get(target)
        until = None if bars is None else bars.held_until(self._steady.now_ms())
        if bars is None or until is None:
            return self._parts.guard.refusal(turn_id, target, content)
        self._owes_words = True
        end = "" if until == NEVER_MS else f" until about {self._time(until)}"
        reason = f"Nothing can be said there{end}: {bars.why}. It was not sent, and your turn ends here."
        return SpeechRefusal("CannotSpeak", reason, ends_turn=True)

    def wakes_nobody(self, event: ChatEvent) -> bool:
        """Whether `event` may wake no turn: in cross mode, where nothing can be said in its channel."""
        bars = self._channels.get(event.channel) if self._is_cross else None
        return bars is not None and bars.held_until(self._steady.now_ms()) is not None

    def is_doubtful(self) -> bool:
        """Whether the last turns could say nothing, so that this one is a try. Never in cross mode."""
        return not self._is_cross and any(bars.tries for bars in self._channels.values())

    # -- what the log tells --------------------------------------------------------------------------------------

    def note(self, entry: Entry) -> None:
        """Learn from an entry of the log that is appended now: each one once, in order."""
        self._note(entry, self._steady.now_ms())

    def _note(self, entry: Entry, at_ms: int) -> None:
        if entry.type == DELIVERY:
            self._note_delivery(Delivery.from_entry(entry), at_ms)
        elif entry.type == EVENT:
            if self._channels and read_str(entry.json_data, "type") in _TURN_ENDS:
                self._note_turn_end(at_ms)
        elif isinstance(message := entry.message, CustomMessage):
            if message.type == STANDING_CHANGED:
                event = StandingChanged.from_data(message.data)
                event = replace(event, until_ms=self._of_wall(event.until_ms))
                self._bars(event.channel).note_standing(event, at_ms)
                self._settle()
            elif self._channels and message.type == MESSAGE_CREATED:
                self._note_heard(message.data)

    def _note_delivery(self, delivery: Delivery, at_ms: int) -> None:
        known = self._channels.get(delivery.target)
        if delivery.state == "sending" or (known is None and delivery.state == "sent"):
            return
        bars = self._bars(delivery.target)
        had_tried = bars.tries > 0
        bars.note_delivery(delivery, at_ms)
        if bars.bar is not None and not had_tried:
            self._owes_words = True
        if delivery.state == "unknown" and self._tasks is not None and not self._tasks.is_closed:
            self._tasks.spawn("looking for a message", partial(self._look_for, delivery.target))
        self._settle()

    def _note_turn_end(self, at_ms: int) -> None:
        for bars in self._channels.values():
            bars.note_turn_end(at_ms)
        self._settle()

    def _note_heard(self, data: JsonObject) -> None:
        channel = ChannelRef(f"{read_str(data, 'platform')}:{read_str(data, 'selfId')}", read_str(data, "channelId"))
        bars = self._channels.get(channel)
        if bars is not None and bars.removed_at_ms and read_int(data, "timestamp") > bars.removed_at_ms:
            bars.note_heard(MessageCreated.from_data(data))
            self._settle()

    def _bars(self, channel: ChannelRef) -> SpeechBars:
        return self._channels.setdefault(channel, SpeechBars())

    def _settle(self) -> None:
        """Let the agent be held or released as things stand now."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
        self._check()

    # -- holding -------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        agent, tasks = self._agent, self._tasks
        bars = None if self._is_cross else self._channels.get(self._parts.address)
        if agent is None or tasks is None or bars is None or tasks.is_closed:
            return
        until = bars.held_until(self._steady.now_ms())
        if until is None or NOTHING_CAN_BE_SAID in agent.holds:
            return
        agent.hold(NOTHING_CAN_BE_SAID)
        end = "" if until == NEVER_MS else f", or is tried at {self._time(until)}"
        logger.warning("%s: %s; no turn starts until it may speak again%s", agent.id, bars.why, end)
        tasks.spawn("waiting to speak again", partial(self._release_in_time, agent, bars))

    async def _release_in_time(self, agent: Agent, bars: SpeechBars) -> None:
        platform, account = self._parts.platform, self._parts.address.sid
        connection = platform.connection_count(account)
        try:
            await self._probe(bars)
            while (until := bars.held_until(now := self._steady.now_ms())) is not None:
                await self._nap(min((until - now) / 1000, _LONGEST_NAP_S))
                if (newest := platform.connection_count(account)) != connection:
                    connection = newest
                    await self._probe(bars, may_lift=True)
                elif bars.held_until(self._steady.now_ms()) is None:
                    await self._probe(bars)
        finally:
            agent.release(NOTHING_CAN_BE_SAID)
        is_lifted = bars.is_lifted(self._steady.now_ms())
        logger.info("%s: turns start again; %s", agent.id, "it may speak" if is_lifted else "it tries to speak")
        self._speak_again(agent, bars)

    def _speak_again(self, agent: Agent, bars: SpeechBars) -> None:
        """Let the mind say what it could not, once, where it may speak for certain."""
        if self._owes_words and bars.is_lifted(self._steady.now_ms()):
            self._owes_words = False
            try:
                agent.continue_(CAN_SPEAK_AGAIN)
            except AgentStoppedError:
                logger.debug("%s: the agent has stopped; nothing is said any more", agent.id)

    async def _nap(self, seconds: float) -> None:
        """Sleep, but no longer than until something has changed."""
        changed = self._changed
        async with anyio.create_task_group() as group:

            async def wake() -> None:
                await changed.wait()
                group.cancel_scope.cancel()

            group.start_soon(wake)
            await self._clock.sleep(seconds)
            group.cancel_scope.cancel()

    async def _probe(self, bars: SpeechBars, *, may_lift: bool = False) -> None:
        """Ask the platform, which costs nothing, how long the account is muted, and whether it is at all.

        With `may_lift` a mute that it does not know of any more is over: the lift came while the account was away.
        """
        if bars.bar != "muted" and not (may_lift and bars.muted_until_ms):
            return
        standing = await self._parts.platform.standing(self._parts.address)
        if standing is not None:
            standing = replace(standing, muted_until_ms=self._of_wall(standing.muted_until_ms))
            bars.note_probe(standing, self._steady.now_ms(), may_lift=may_lift)

    async def _look_for(self, channel: ChannelRef) -> None:
        """Look for what was never confirmed among the account's own messages."""
        await self._clock.sleep(_LOOK_AFTER_S)
        for message in await self._parts.platform.recent_history(channel, _LOOK_AT) or ():
            if message.is_self:
                self._parts.settles(message)

    def _of_wall(self, wall_ms: int) -> int:
        """Return an announced end in steady time; 0 stays none."""
        return wall_ms and wall_ms - self._steady.shift_ms

    def _time(self, at_ms: int) -> str:
        return datetime.fromtimestamp(self._steady.to_wall(at_ms) / 1000, self._parts.zone).strftime("%Y-%m-%d %H:%M")
