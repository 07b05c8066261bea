"""`ChannelGuards`: all guards of one runtime. Past one of them: a log line, an entry, silence.

It learns from the entries of the log, live and at a restart alike, so that it knows after a kill what it knew before.
In cross mode each channel has its own bounds: what one is up to mutes no other.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Literal

from ishiki.content import is_at_self
from ishiki.contracts.events import MESSAGE_CREATED, ChannelRef, ChatEvent, MessageCreated
from ishiki.core.agent import Agent
from ishiki.core.clock import LONGEST_NAP_S, Clock, SteadyTime
from ishiki.core.entries import DELIVERY, EVENT, Entry
from ishiki.core.messages import AssistantMessage, CustomMessage
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_int, read_object, read_str
from ishiki.profile import GuardsConfig
from ishiki.runtime.address import MAIN
from ishiki.runtime.guards.likeness import plain_words
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

_MAX_CHANNELS = 1_000
"""Channels of one mind that are watched in cross mode, those heard of last."""

_TURN_ENDS = ("turn.done", "turn.failed", "turn.aborted")


@dataclass(frozen=True, slots=True)
class GuardParts:
    """What the guards of a runtime work with."""

    config: GuardsConfig
    address: ChannelRef
    """Where the runtime lives; `MAIN` in cross mode."""
    usage: ProfileUsage
    """The profile's, for its tokens of the day."""
    clock: Clock
    stale_after_ms: float
    """Older facts wake nobody, so they take no part in a run of turns."""
    is_own: Callable[[ChatEvent], bool]
    """Whether one of our own accounts said it."""
    clock_offset_ms: Callable[[str], int] = lambda sid: 0
    """How far the clock that dates an account's lines is ahead of ours."""


@dataclass(slots=True)
class _Watch:
    """What is bounded for each channel apart."""

    turns: TurnWindow
    partners: PartnerWatch | None
    """None in private: two bots do not meet there."""

    @classmethod
    def of(cls, channel: ChannelRef, config: GuardsConfig) -> _Watch:
        is_private = channel.channel_id.startswith("private:")
        partners = None if is_private else PartnerWatch(frozenset(config.bots))
        return cls(TurnWindow(config.turns_per_hour), partners)

    def checkpoint(self, steady: SteadyTime) -> dict[str, JsonValue]:
        return {
            "turns": [steady.to_wall(start) for start in self.turns.starts],
            "turnsTold": self.turns.is_announced,
            "partners": {} if self.partners is None else self.partners.checkpoint(steady),
        }

    def restore(self, checkpoint: JsonObject, turns_per_hour: int, steady: SteadyTime) -> None:
        starts = [steady.of_past(start) for start in read_array(checkpoint, "turns") if isinstance(start, int)]
        self.turns = TurnWindow(turns_per_hour, starts)
        self.turns.is_announced = checkpoint.get("turnsTold") is True
        if self.partners is not None:
            self.partners.restore(read_object(checkpoint, "partners"), steady)


class ChannelGuards:
    """Implements `SpeechGuard`. `restore`, then `attach`; everything between and after is told by entries.

    What it bounds are spans, so it measures in steady time; entries and checkpoints have the wall's.
    """

    def __init__(self, parts: GuardParts) -> None:
        """Know nothing yet."""
        self._parts = parts
        self._config = parts.config
        self._clock = parts.clock
        self._steady = SteadyTime(parts.clock)
        self._is_cross = parts.address == MAIN
        self._home = _Watch.of(parts.address, parts.config)
        """The channel's own; in cross mode that of turns which nothing but a clock has woken."""
        self._channels: OrderedDict[ChannelRef, _Watch] = OrderedDict()
        """In cross mode; empty otherwise."""
        self._heard_in: ChannelRef | None = None
        """In cross mode, where somebody spoke last since a turn began."""
        self._turn_of: ChannelRef | None = None
        """In cross mode, where somebody had spoken last when the running turn began."""
        self._spoke_in: set[ChannelRef] = set()
        """In cross mode, where the running turn has spoken."""
        self._speech = SpeechMemory(parts.config.messages_per_turn)
        self._is_answered = False
        """Whether a model has answered anything in the running turn."""
        self._began_at = 0
        self._budget_told_until = 0
        self._told_in_turn: set[GuardKind] = set()
        self._agent: Agent | None = None
        self._tasks: TaskOwner | None = None
        self._unwatch: Callable[[], None] | None = None

    def restore(self, checkpoint: JsonObject, entries: Sequence[Entry]) -> None:
        """Take over what a checkpoint's `guards` hold, and then what the entries behind it tell."""
        self._home.restore(checkpoint, self._config.turns_per_hour, self._steady)
        for data in read_array(checkpoint, "channels"):
            if self._is_cross and isinstance(data, Mapping):
                self._watch_of(_channel_in(data)).restore(data, self._config.turns_per_hour, self._steady)
        self._budget_told_until = read_int(checkpoint, "budgetToldUntil")
        self._speech.restore(checkpoint, self._steady)
        # A history has what joined a step behind that step; here it counts when it came.
        for entry in sorted(entries, key=lambda entry: entry.timestamp):
            self._note(entry, self._steady.of_past(entry.timestamp))

    def attach(self, agent: Agent, tasks: TaskOwner) -> None:
        """Hold `agent` where a bound is met, now and from now on. Called once, before the agent is served.

        Args:
            agent: the runtime's.
            tasks: what waits until a bound gives way runs there.
        """
        self._agent, self._tasks = agent, tasks
        self._check_turns(self._parts.address)
        if self._config.tokens_per_day:
            self._check_budget()
            self._unwatch = self._parts.usage.watch(self._check_budget)

    def detach(self) -> None:
        """Let go of the profile's numbers, which outlive the runtime. Idempotent."""
        if self._unwatch is not None:
            self._unwatch()

    def checkpoint(self) -> dict[str, JsonValue]:
        """Return the part of a checkpoint that restores this."""
        data: dict[str, JsonValue] = {
            **self._home.checkpoint(self._steady),
            "budgetToldUntil": self._budget_told_until,
            "said": self._speech.checkpoint(self._steady),
        }
        if self._is_cross:
            data["channels"] = [
                _place(channel) | watch.checkpoint(self._steady) for channel, watch in self._channels.items()
            ]
        return data

    def note(self, entry: Entry) -> None:
        """Learn from an entry of the log that is appended now: each one once, in order."""
        self._note(entry, self._steady.now_ms())

    def _note(self, entry: Entry, at_ms: int) -> None:
        if entry.type == DELIVERY:
            delivery = Delivery.from_entry(entry)
            if delivery.is_late:
                return  # it counted when it was handed over
            self._speech.note(delivery, entry.turn_id or "", at_ms)
            if delivery.state != "failed":
                self._is_answered = True
                self._note_said(delivery.target, at_ms, delivery.content)
        elif entry.type == EVENT:
            self._note_event(read_str(entry.json_data, "type"), at_ms)
        elif entry.type == GUARD:
            self._note_told(entry)
        elif isinstance(entry.message, AssistantMessage):
            self._is_answered = True
        elif isinstance(entry.message, CustomMessage) and entry.message.type == MESSAGE_CREATED:
            self._note_heard(MessageCreated.from_data(entry.message.data), entry.timestamp, at_ms)

    def why_silent(self, event: ChatEvent) -> str:
        """Return why `event` may wake no turn now, as a log line says it; "" where it may.

        It may not from an account that is a bot or talks like one, where those have had their turns. In cross mode also
        in a channel that has had its turns: the agent is not held for one of many.
        """
        if not isinstance(event, MessageCreated):
            return ""
        watch, now_ms = self._watch_of(event.channel), self._steady.now_ms()
        if self._is_cross and (until := watch.turns.held_until(now_ms)) is not None:
            return f"guard turns_per_hour: the channel has had its turns until {self._steady_time(until)}"
        is_named = event.user.id in self._config.bots
        if watch.partners is None or event.is_direct:
            return "guards.bots: a named bot wakes nobody in a private chat" if is_named else ""
        until = watch.partners.rests_until(event.user.id, now_ms, plain_words(event.content))
        if until is None:
            return ""
        who = "a bot that guards.bots names" if is_named else "an account that talks like a bot"
        return f"guard two_bots: it is from {who}; those wake nobody until {self._steady_time(until)}"

    def note_before_hold(self, event: ChatEvent) -> str:
        """Return what the mind is to read behind `event`, before a bot may be held; "": nothing."""
        if not isinstance(event, MessageCreated) or event.is_direct:
            return ""
        partners, name = self._watch_of(event.channel).partners, event.user.name or event.user.id
        now_ms = self._steady.now_ms()
        if partners is None or not partners.asks_about(event.user.id, now_ms, plain_words(event.content)):
            return ""
        return (
            f"[{name} may be a bot that answers you automatically. Ask, or let the talk end; while the answers look "
            "like a machine's, they will not wake you for ten minutes.]"
        )

    def refusal(self, turn_id: str, target: ChannelRef, content: str) -> SpeechRefusal | None:
        """Return why a message may not be sent now; see `SpeechGuard`."""
        refused = self._speech.refusal(turn_id, target, content, self._steady.now_ms())
        if refused is not None:
            kind: GuardKind = "messages_per_turn" if refused.name == "MessageLimit" else "repeated_text"
            self._tell_once_a_turn(kind)
        return refused

    def _watch_of(self, channel: ChannelRef) -> _Watch:
        if not self._is_cross or channel == MAIN:
            return self._home
        found = self._channels.get(channel)
        if found is None:
            found = self._channels[channel] = _Watch.of(channel, self._config)
            if len(self._channels) > _MAX_CHANNELS:
                self._channels.popitem(last=False)
        self._channels.move_to_end(channel)
        return found

    # -- what the log tells --------------------------------------------------------------------------------------

    def _note_event(self, kind: str, at_ms: int) -> None:
        if kind == "turn.start":
            self._told_in_turn.clear()
            self._is_answered = False
            self._began_at = at_ms
            self._turn_of, self._heard_in = self._heard_in, None
            self._spoke_in.clear()
            if not self._is_cross:
                self._note_turn(self._parts.address, at_ms)
        elif kind == "turn.failed" and not self._is_answered:
            self._give_back()
        elif kind in _TURN_ENDS and self._is_cross and not self._spoke_in:
            # It said nothing, so it was about where somebody spoke last, if anybody did.
            self._note_turn(self._turn_of or MAIN, at_ms)

    def _give_back(self) -> None:
        """Let a turn in which no model has answered count for nothing: a model that was down leaves no silence behind.

        In cross mode it has not been counted yet.
        """
        if self._is_cross:
            return
        turns = self._home.turns
        turns.give_back(self._began_at)
        if self._agent is not None and turns.held_until(self._steady.now_ms()) is None:
            self._agent.release("turns_per_hour")

    def _note_said(self, target: ChannelRef, at_ms: int, content: str) -> None:
        if self._is_cross and target not in self._spoke_in:
            # A turn of many channels is a turn of those that it speaks in.
            self._spoke_in.add(target)
            self._note_turn(target, at_ms)
        if (partners := self._watch_of(target).partners) is not None:
            partners.said(at_ms, plain_words(content))

    def _note_turn(self, channel: ChannelRef, at_ms: int) -> None:
        watch = self._watch_of(channel)
        watch.turns.began(at_ms)
        self._check_turns(channel)
        if watch.partners is None:
            return
        account = watch.partners.turn_began(at_ms)
        until = None if account is None else watch.partners.resting_until(at_ms)
        if account is not None and until is not None:
            known = "is listed in guards.bots" if account in self._config.bots else "talks like a bot"
            detail = (
                f"the account {account} {known}; such accounts have woken six turns within ten minutes, and wake "
                "nobody for ten minutes. One that nobody named does again when it goes on like a person"
            )
            self._tell("two_bots", detail, self._steady.to_wall(until), account=account, channel=channel)

    def _note_heard(self, event: MessageCreated, arrived_ms: int, at_ms: int) -> None:
        age_ms = arrived_ms + self._parts.clock_offset_ms(event.channel.sid) - event.timestamp
        if age_ms > self._parts.stale_after_ms or self._parts.is_own(event):
            return
        self._heard_in = event.channel
        if (partners := self._watch_of(event.channel).partners) is not None:
            is_addressed = is_at_self(event.content, event.self_id) or _is_reply_to_self(event)
            partners.heard(event.user.id, at_ms, plain_words(event.content), is_addressed=is_addressed)

    def _note_told(self, entry: Entry) -> None:
        match read_str(entry.json_data, "kind"):
            case "turns_per_hour":
                self._watch_of(_channel_in(entry.json_data)).turns.is_announced = True
            case "tokens_per_day":
                self._budget_told_until = read_int(entry.json_data, "until")
            case _:
                pass

    # -- holding -------------------------------------------------------------------------------------------------

    def _check_turns(self, channel: ChannelRef) -> None:
        turns = self._watch_of(channel).turns
        until = turns.held_until(self._steady.now_ms())
        is_one_of_many = self._is_cross and channel != MAIN
        if until is None or not (is_one_of_many or self._hold("turns_per_hour", partial(self._turns_left_s, turns))):
            return
        if not turns.is_announced:
            turns.is_announced = True
            bound, at_ms = self._config.turns_per_hour, self._steady.to_wall(until)
            begun = "1 turn has" if bound == 1 else f"{bound} turns have"
            then = f"nothing wakes it there until {self._time(at_ms)}"
            detail = then if is_one_of_many else f"the next one may at {self._time(at_ms)}"
            self._tell("turns_per_hour", f"{begun} begun within an hour; {detail}", at_ms, channel=channel)

    def _turns_left_s(self, turns: TurnWindow) -> float | None:
        """Return the seconds until the next turn may begin; None: it may now."""
        now = self._steady.now_ms()
        until = turns.held_until(now)
        return None if until is None else (until - now) / 1000

    def _budget_held_until(self) -> int | None:
        """Return the time of day at which the tokens of the next one may be spent; None: there are some left."""
        usage = self._parts.usage
        return usage.midnight_ms() if usage.tokens_today >= self._config.tokens_per_day else None

    def _budget_nap_s(self) -> float | None:
        until = self._budget_held_until()
        return None if until is None else min((until - self._clock.now_ms()) / 1000, LONGEST_NAP_S)

    def _check_budget(self) -> None:
        until = self._budget_held_until()
        if until is None or not self._hold("tokens_per_day", self._budget_nap_s):
            return
        if self._budget_told_until < until:
            self._budget_told_until = until
            usage = self._parts.usage
            spent = f"the profile has used {usage.tokens_today} of its {self._config.tokens_per_day} tokens of this day"
            # The bound is the profile's: every channel keeps a note of it, the operator gets one line.
            is_first = usage.is_first_today("tokens_per_day")
            detail = f"{spent}; no turn starts until {self._time(until)}"
            self._tell("tokens_per_day", detail, until, is_loud=is_first)

    def _hold(self, kind: GuardKind, nap_s: Callable[[], float | None]) -> bool:
        """Hold the agent for `kind`; return whether it is held for that from now on.

        Args:
            kind: the bound.
            nap_s: returns in how many seconds to look again, or None where the bound has given way.
        """
        agent, tasks = self._agent, self._tasks
        if agent is None or tasks is None or kind in agent.holds:
            return False
        agent.hold(kind)
        tasks.spawn(f"guard {kind}", partial(self._release_in_time, agent, kind, nap_s))
        return True

    async def _release_in_time(self, agent: Agent, kind: GuardKind, nap_s: Callable[[], float | None]) -> None:
        while (seconds := nap_s()) is not None:
            await self._clock.sleep(seconds)
        if kind in agent.holds:  # a turn that was given back may have released it
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
        channel: ChannelRef = MAIN,
        is_loud: bool = True,
    ) -> None:
        agent, tasks = self._agent, self._tasks
        if agent is None or tasks is None:
            return  # the log is being read, and tells of this itself
        data: dict[str, JsonValue] = {"kind": kind, "detail": detail}
        where = agent.id
        if self._is_cross and channel != MAIN:
            data.update(_place(channel))
            where = f"{where}, {channel}"
        if is_loud:
            logger.warning("%s: guard %s: %s", where, kind, detail)
        else:
            logger.debug("%s: guard %s: %s", where, kind, detail)
        if until is not None:
            data["until"] = until
        if account is not None:
            data["account"] = account
        entry = Entry(GUARD, data, self._clock.now_ms())
        tasks.spawn(f"noting {kind}", partial(agent.record, entry))

    def _steady_time(self, at_ms: int) -> str:
        return self._time(self._steady.to_wall(at_ms))

    def _time(self, at_ms: int) -> str:
        return datetime.fromtimestamp(at_ms / 1000, self._parts.usage.zone).strftime("%Y-%m-%d %H:%M")


def _is_reply_to_self(event: MessageCreated) -> bool:
    quoted = None if event.quote is None else event.quote.user
    return quoted is not None and quoted.id == event.self_id


def _place(channel: ChannelRef) -> dict[str, JsonValue]:
    return {"sid": channel.sid, "channelId": channel.channel_id}


def _channel_in(data: JsonObject) -> ChannelRef:
    """Return the channel that a note or a checkpoint names; `MAIN` where it names none."""
    return ChannelRef(read_str(data, "sid"), read_str(data, "channelId", MAIN.channel_id))
