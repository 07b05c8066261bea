"""Wakeup engine `willingness`: what is said makes the mind more willing to speak, time and its own turns less.

One score per channel. Formula and figures: specification, wakeup engines, `willingness` (there also under its older
name `v3`, the alias below). Settings per channel, and how the score is had again after a restart, are ours.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from ishiki.config import ConfigModel
from ishiki.content import contains_keyword, is_at_self
from ishiki.contracts.engines import WakeupEngine, WakeupEngineInstance
from ishiki.contracts.events import ChannelRef, MessageCreated
from ishiki.contracts.host import ExtensionHost
from ishiki.contracts.patterns import parse_pattern
from ishiki.core.agent import Agent
from ishiki.core.disposer import Disposer
from ishiki.core.entries import EVENT
from ishiki.core.events import AgentEvent, MessageAppended, TurnDone
from ishiki.engines.wakeup._decisions import Decisions, created_of, is_own, newest_entries, on_message, veto
from ishiki.engines.wakeup._rules import is_reply_to_self

__all__ = [
    "WillingnessConfig",
    "WillingnessEngine",
    "WillingnessSettings",
    "WillingnessV3Engine",
    "chance_of",
    "decay",
    "grown",
    "raw_gain",
]

_LEAST = 0.01
"""A score below this is none. Source: specification."""

_MAX_CHANNELS = 512
"""Channels of one runtime whose score is kept, those that spoke last: in cross mode there is no end of them."""


_Points = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
_Factor = Annotated[float, Field(ge=0, le=1_000, allow_inf_nan=False)]


class WillingnessSettings(ConfigModel):
    """What makes the mind willing, for all channels or for those of one pattern."""

    base: _Points = Field(default=12, description="Points that every message adds.")
    at_mention: _Points = Field(default=100, description="Points more where the account is mentioned (@).")
    is_quote: _Points = Field(default=15, description="Points more where a message of the account is quoted.")
    is_direct_message: _Points = Field(default=40, description="Points more in a private chat.")
    keywords: tuple[str, ...] = Field(
        default=(), description="Words that make a message count keyword_multiplier; case matters."
    )
    keyword_multiplier: _Factor = Field(default=1.2, description="Factor of the points where a keyword is said.")
    default_multiplier: _Factor = Field(default=1, description="Factor of the points where none is said.")
    max_willingness: _Points = Field(default=100, ge=1, description="The highest score.")
    decay_half_life_seconds: float = Field(
        default=600,
        ge=1,
        le=31_536_000,
        allow_inf_nan=False,
        description="Seconds in which the score halves; above the threshold it falls half as fast.",
    )
    probability_threshold: _Points = Field(default=55, description="Score up to which nothing wakes.")
    probability_amplifier: _Factor = Field(
        default=0.04, description="Chance to wake per point above the threshold; 0 never wakes."
    )
    reply_cost: _Points = Field(default=35, description="Points that a turn of the mind costs.")


def _check_pattern(written: str) -> str:
    _, is_exclusion = parse_pattern(written)
    if is_exclusion:
        raise ValueError('a pattern of settings takes no "!"; give these channels settings of their own')
    return written


class WillingnessConfig(WillingnessSettings):
    """The settings of all channels, and of single ones."""

    channels: dict[Annotated[str, AfterValidator(_check_pattern)], WillingnessSettings] = Field(
        default_factory=dict[str, WillingnessSettings],
        description="Channel pattern -> settings that differ there; the more specific pattern wins, key by key.",
    )

    def for_channel(self, channel_id: str) -> WillingnessSettings:
        """Return the settings of one channel: each key from the most specific pattern that gives it."""
        patterns = [(parse_pattern(written)[0], own) for written, own in self.channels.items()]
        settings: WillingnessSettings = self
        for pattern, own in sorted(patterns, key=lambda pair: pair[0].rank):
            if pattern.matches(channel_id):
                settings = settings.model_copy(update=own.model_dump(exclude_unset=True))
        return settings


def raw_gain(created: MessageCreated, settings: WillingnessSettings) -> float:
    """Return the points of a message, before the score bends them."""
    points = settings.base
    if is_at_self(created.content, created.self_id):
        points += settings.at_mention
    if is_reply_to_self(created):
        points += settings.is_quote
    if created.is_direct:
        points += settings.is_direct_message
    spoken = contains_keyword(created.content, settings.keywords)
    return points * (settings.keyword_multiplier if spoken else settings.default_multiplier)


def grown(score: float, raw: float, maximum: float) -> float:
    """Return the score after a message of `raw` points: less is added the nearer it is to `maximum`."""
    ratio = score / maximum
    margin = max(0.0, 1 - ratio**2)
    if ratio < 0.2:
        curve = 1.0
    elif ratio < 0.8:
        curve = max(1.0, 2 - (2 * (ratio - 0.5)) ** 2)
    else:
        curve = 1 - (ratio - 0.8) / 0.2
    return min(maximum, score + raw * margin * curve)


def decay(score: float, elapsed_ms: int, settings: WillingnessSettings) -> float:
    """Return the score after `elapsed_ms` of silence, of which whole seconds count.

    A second above the threshold takes half of what one below it takes. Closed form: what a message costs does not
    depend on the silence before it.
    """
    seconds = max(0, elapsed_ms) // 1000
    if score <= 0 or seconds == 0:
        return max(0.0, score)
    fast = 0.5 ** (1 / settings.decay_half_life_seconds)
    slow = 1 - (1 - fast) / 2
    threshold = settings.probability_threshold
    slow_seconds = 0
    if score > threshold:
        until_threshold = math.ceil(math.log(threshold / score) / math.log(slow)) if threshold > 0 else seconds
        slow_seconds = min(seconds, until_threshold)
    left = score * slow**slow_seconds * fast ** (seconds - slow_seconds)
    return left if left >= _LEAST else 0.0


def chance_of(score: float, settings: WillingnessSettings) -> float:
    """Return the chance that a message wakes at `score`, from 0 to 1."""
    return min(1.0, max(0.0, (score - settings.probability_threshold) * settings.probability_amplifier))


@dataclass(slots=True)
class _Channel:
    settings: WillingnessSettings
    score: float = 0.0
    updated_at_ms: int = 0

    def hear(self, created: MessageCreated, now_ms: int) -> float:
        """Take a message in and return the points it added."""
        decayed = self._decayed(now_ms)
        settings = self.settings
        self.score = grown(decayed, raw_gain(created, settings), settings.max_willingness)
        return self.score - decayed

    def pay(self, now_ms: int) -> None:
        """Pay for a turn."""
        self.score = max(0.0, self._decayed(now_ms) - self.settings.reply_cost)

    def _decayed(self, now_ms: int) -> float:
        elapsed = now_ms - self.updated_at_ms
        # The clock of the day may be set back; then nothing decays until it has caught up.
        self.updated_at_ms = max(self.updated_at_ms, now_ms)
        return decay(self.score, elapsed, self.settings)


class _Willingness:
    """The scores of one runtime."""

    def __init__(self, host: ExtensionHost, config: WillingnessConfig, decisions: Decisions) -> None:
        self._host = host
        self._config = config
        self._decisions = decisions
        self._channels: dict[ChannelRef, _Channel] = {}

    def seed(self, agent: Agent) -> None:
        """Have the scores again as they were, from the newest entries of the log, without dice."""
        for entry in newest_entries(agent):
            created = created_of(entry.message)
            if created is not None and not is_own(created):
                self._channel(created.channel).hear(created, created.timestamp)
            elif entry.type == EVENT and entry.json_data.get("type") == "turn.done":
                self._pay(entry.timestamp)

    def judge(self, event: MessageAppended, created: MessageCreated) -> Awaitable[None] | None:
        """Take a message in and roll the dice."""
        if refused := veto(event, created):
            return self._decisions.decide(created, wakes=False, reason=refused)
        channel = self._channel(created.channel)
        gain = channel.hear(created, self._host.clock.now_ms())
        p = chance_of(channel.score, channel.settings)
        # Rolled also where it cannot win: with the same dice, two settings can then be compared message by message.
        roll = self._host.random.random()
        reason = f"score {channel.score:.1f}, gain {gain:.1f}, p {p:.2f}, roll {roll:.2f}"
        fields = {"score": channel.score, "gain": gain, "p": p, "roll": roll}
        return self._decisions.decide(created, wakes=roll < p, reason=reason, fields=fields)

    def hear_end(self, event: AgentEvent) -> None:
        """Let every known channel pay when a turn has ended by itself."""
        if isinstance(event, TurnDone):
            self._pay(self._host.clock.now_ms())

    def forget(self) -> None:
        """Drop all scores."""
        self._channels.clear()

    def _pay(self, now_ms: int) -> None:
        for channel in self._channels.values():
            channel.pay(now_ms)

    def _channel(self, ref: ChannelRef) -> _Channel:
        found = self._channels.pop(ref, None) or _Channel(self._config.for_channel(ref.channel_id))
        self._channels[ref] = found
        if len(self._channels) > _MAX_CHANNELS:
            del self._channels[next(iter(self._channels))]
        return found


@dataclass(frozen=True, slots=True)
class WillingnessWakeup(WakeupEngineInstance):
    """The engine in one runtime."""

    engine: str
    host: ExtensionHost
    config: WillingnessConfig

    def attach(self, agent: Agent) -> Disposer:
        """Take the scores up from the log, and judge every message from now on."""
        scores = _Willingness(self.host, self.config, Decisions(agent, self.engine, self.host.logger))
        scores.seed(agent)
        stop_judging = on_message(agent, scores.judge)
        stop_paying = agent.feed.subscribe("agent", scores.hear_end)

        def dispose() -> None:
            stop_judging()
            stop_paying()
            scores.forget()

        return dispose


class WillingnessEngine(WakeupEngine[WillingnessConfig]):
    """The provider."""

    name = "willingness"
    Config = WillingnessConfig
    runs_without_input = False

    def create(self, host: ExtensionHost, config: WillingnessConfig) -> WakeupEngineInstance:
        """Make the instance of one runtime."""
        return WillingnessWakeup(self.name, host, config)


class WillingnessV3Engine(WillingnessEngine):
    """The same engine under its older name, with its settings under `wakeup.v3`."""

    name = "v3"
