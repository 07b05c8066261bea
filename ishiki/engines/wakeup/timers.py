"""Wakeup engine `timers`: a turn at times of its own, whether or not anybody says something.

On its own it hears nothing; a base engine beside it judges messages as it does alone. Source: design, decided here; the
keys and what happens to missed times are ours.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Self

from pydantic import Field, InstanceOf, field_validator, model_validator

from ishiki.config import ConfigModel
from ishiki.contracts.engines import ChosenWakeup, WakeupEngine, WakeupEngineInstance
from ishiki.contracts.host import ExtensionHost
from ishiki.core.agent import Agent
from ishiki.core.disposer import Disposer, DisposerStack, resolved
from ishiki.core.entries import EVENT
from ishiki.core.events import AgentEvent, MessageAppended, TurnAborted, TurnDone, TurnFailed
from ishiki.engines.wakeup._decisions import Decisions, created_of, newest_entries
from ishiki.engines.wakeup._triggers import (
    LastingTrigger,
    QuietHours,
    TriggerMaker,
    cron_times,
    interval_times,
    random_times,
)
from ishiki.errors import AgentStoppedError, StorageError
from ishiki.jsonvalue import read_int, read_object

__all__ = ["RandomGap", "TimersConfig", "TimersEngine"]

_STATE = "timers"
"""The key of the agent's state that keeps the next time of each timer."""

_MAX_MINUTES = 525_600.0
"""A year."""

_TURN_EVENTS = ("turn.start", "turn.done", "turn.failed", "turn.aborted")


class RandomGap(ConfigModel):
    """Two distances; every one between them is as likely."""

    min_minutes: float = Field(ge=0.1, le=_MAX_MINUTES, allow_inf_nan=False, description="Minutes, the least.")
    max_minutes: float = Field(ge=0.1, le=_MAX_MINUTES, allow_inf_nan=False, description="Minutes, the most.")

    @model_validator(mode="after")
    def _least_before_most(self) -> Self:
        if self.min_minutes > self.max_minutes:
            raise ValueError(f"min_minutes ({self.min_minutes:g}) is greater than max_minutes; swap them")
        return self


class TimersConfig(ConfigModel):
    """When the mind wakes by itself. At least one of `interval_minutes`, `cron` and `random_gap`."""

    interval_minutes: float | None = Field(
        default=None, ge=0.1, le=_MAX_MINUTES, allow_inf_nan=False, description="Minutes from one time to the next."
    )
    cron: tuple[str, ...] = Field(
        default=(),
        description="Times by the calendar: minute, hour, day of the month, month, weekday; in the profile's zone.",
    )
    random_gap: RandomGap | None = Field(default=None, description="Times at random distances.")
    quiet_hours: tuple[str, ...] = Field(
        default=(), description="Parts of the day, such as 23:00-07:30, in which no timer wakes; messages still may."
    )
    min_silence_minutes: float = Field(
        default=0,
        ge=0,
        le=_MAX_MINUTES,
        allow_inf_nan=False,
        description="Minutes since the last message or turn before which no timer wakes.",
    )
    missed_minutes: float = Field(
        default=10,
        ge=0,
        le=1_440,
        allow_inf_nan=False,
        description="Minutes; a time that came while the bot was away is made up once if it is not longer ago.",
    )
    prompt: str = Field(
        default="", max_length=10_000, description="What the mind reads when a timer wakes it; empty: nothing."
    )
    base: InstanceOf[ChosenWakeup] | None = Field(
        default=None, description="The engine that judges messages, written as the section wakeup is; unset: none does."
    )

    @field_validator("cron")
    @classmethod
    def _calendar(cls, expressions: tuple[str, ...]) -> tuple[str, ...]:
        for expression in expressions:
            cron_times(expression)
        return expressions

    @field_validator("quiet_hours")
    @classmethod
    def _parts_of_a_day(cls, parts: tuple[str, ...]) -> tuple[str, ...]:
        for part in parts:
            QuietHours.parse(part)
        return parts

    @model_validator(mode="after")
    def _some_time(self) -> Self:
        if self.interval_minutes is None and not self.cron and self.random_gap is None:
            raise ValueError('names no time; set interval_minutes, cron (such as ["0 9 * * *"]) or random_gap')
        return self


class _Timers:
    """The timers of one runtime."""

    def __init__(self, host: ExtensionHost, config: TimersConfig, agent: Agent) -> None:
        self._host = host
        self._config = config
        self._agent = agent
        self._decisions = Decisions(agent, TimersEngine.name, host.logger)
        self._quiet = [QuietHours.parse(part) for part in config.quiet_hours]
        silent_ms = max(0, host.clock.now_ms() - self._newest_sign_of_life())
        self._silent_since = host.clock.monotonic() - silent_ms / 1000
        self._timers: list[LastingTrigger] = []
        self._is_saving = False

    def start(self) -> list[Disposer]:
        """Add every timer to the schedule, from where the log says it stood; return what ends them."""
        saved = read_object(self._agent.state.get(), _STATE)
        makes_up = timedelta(minutes=self._config.missed_minutes)
        self._timers = [
            LastingTrigger(
                name,
                make,
                saved_ms=read_int(saved, name) or None,
                longest=longest,
                makes_up=makes_up,
                on_due=self._save_soon,
            )
            for name, make, longest in self._makers()
        ]
        return [self._host.scheduler.add(timer, partial(self._come, timer)) for timer in self._timers]

    def hear(self, event: AgentEvent) -> None:
        """Note when somebody spoke, or the mind had a turn."""
        is_message = isinstance(event, MessageAppended) and created_of(event.message) is not None
        if is_message or isinstance(event, TurnDone | TurnFailed | TurnAborted):
            self._silent_since = self._host.clock.monotonic()

    def _makers(self) -> Sequence[tuple[str, TriggerMaker, timedelta | None]]:
        """Return the timers by name, each with its longest span, which times of the calendar have not.

        The name holds the setting: one that is edited begins anew.
        """
        config = self._config
        makers: list[tuple[str, TriggerMaker, timedelta | None]] = []
        if config.interval_minutes is not None:
            distance = timedelta(minutes=config.interval_minutes)
            makers.append((f"interval of {config.interval_minutes:g} minutes", interval_times(distance), distance))
        makers.extend((f"cron {expression}", cron_times(expression), None) for expression in dict.fromkeys(config.cron))
        if (gap := config.random_gap) is not None:
            least, most = timedelta(minutes=gap.min_minutes), timedelta(minutes=gap.max_minutes)
            name = f"random gap of {gap.min_minutes:g} to {gap.max_minutes:g} minutes"
            makers.append((name, random_times(least, most, self._host.random), most))
        return makers

    def _come(self, timer: LastingTrigger) -> Awaitable[None]:
        """Decide at one time of a timer."""
        refused = self._refusal(timer)
        verdict = f"does not wake: {refused}" if refused else "wakes"
        self._host.logger.debug("timer %s %s", timer, verdict)
        domain = self._host.domain
        return self._decisions.announce(
            None,
            wakes=not refused,
            reason=f"{timer}, {refused}" if refused else str(timer),
            fields={"silence_s": self._silence_s()},
            channel=str(domain.channel) if domain.mode == "channel" else "",
            prompt=self._config.prompt.strip(),
        )

    def _refusal(self, timer: LastingTrigger) -> str:
        assert timer.due is not None, "it has just come"
        now = datetime.fromtimestamp(self._host.clock.now_ms() / 1000, timer.due.tzinfo)
        if any(quiet.holds(now) for quiet in self._quiet):
            return "quiet hours"
        if not self._agent.is_idle():
            return "a turn runs"
        silence = self._silence_s() / 60
        if silence < self._config.min_silence_minutes:
            return f"silent for {silence:.1f} of {self._config.min_silence_minutes:g} minutes"
        return ""

    def _silence_s(self) -> float:
        return max(0.0, self._host.clock.monotonic() - self._silent_since)

    def _newest_sign_of_life(self) -> int:
        newest = 0
        for entry in newest_entries(self._agent):
            created = created_of(entry.message)
            if created is not None or (entry.type == EVENT and entry.json_data.get("type") in _TURN_EVENTS):
                newest = max(newest, entry.timestamp)
        return newest

    def _save_soon(self) -> None:
        if not self._is_saving:
            self._is_saving = True
            self._host.spawn("keep timers", self._save)

    async def _save(self) -> None:
        self._is_saving = False
        times = {timer.name: round(timer.due.timestamp() * 1000) for timer in self._timers if timer.due is not None}
        if times == read_object(self._agent.state.get(), _STATE):
            return
        try:
            await self._agent.state.update({_STATE: times})
        except (AgentStoppedError, StorageError) as error:
            # Only a restart would miss it; then the time before it counts.
            self._host.logger.warning("the next times of the timers are not kept: %s", error)


@dataclass(frozen=True, slots=True)
class TimersWakeup(WakeupEngineInstance):
    """The engine in one runtime."""

    host: ExtensionHost
    config: TimersConfig
    base: WakeupEngineInstance | None

    async def attach(self, agent: Agent) -> Disposer:
        """Attach the base engine, then start the timers."""
        stack = DisposerStack()
        if self.base is not None:
            stack.push(await resolved(self.base.attach(agent)))
        timers = _Timers(self.host, self.config, agent)
        stack.push(agent.feed.subscribe("agent", timers.hear))
        for disposer in timers.start():
            stack.push(disposer)

        async def dispose() -> None:
            while (disposer := stack.pop()) is not None:
                await resolved(disposer())

        return dispose


class TimersEngine(WakeupEngine[TimersConfig]):
    """The provider. Its runtimes are built at start-up and stay in memory: nobody else would keep the time."""

    name = "timers"
    Config = TimersConfig
    base_key = "base"

    async def create(self, host: ExtensionHost, config: TimersConfig) -> WakeupEngineInstance:
        """Make the instance of one runtime, with that of its base engine."""
        base = None if config.base is None else await resolved(config.base.create(host))
        return TimersWakeup(host, config, base)
