"""Wakeup engine `jev`: a judge says how good it would be to speak now, and the mind wakes from a threshold on.

Source: specification, wakeup engines, `jev`. Ours: the judge `chat`, and that one judgement runs at a time in each
channel. What is said meanwhile is not asked about one by one; the newest message is, once, afterwards.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator

from ishiki.config import ConfigModel
from ishiki.contracts.engines import WakeupEngine, WakeupEngineInstance
from ishiki.contracts.events import ChannelRef, MessageCreated
from ishiki.contracts.host import ExtensionHost
from ishiki.core.agent import Agent
from ishiki.core.disposer import Disposer, resolved
from ishiki.core.events import AgentEvent, MessageAppended
from ishiki.core.messages import AssistantMessage
from ishiki.engines.wakeup._chat_judge import ChatJudge
from ishiki.engines.wakeup._decisions import Decisions, newest_entries, on_message, veto
from ishiki.engines.wakeup._judge import Answers, Judge, JudgeCase, JudgeError, Line
from ishiki.engines.wakeup._judge_window import MAX_CHANNELS, ChannelWindow, Windows, heard_line
from ishiki.engines.wakeup._rules import wake_reason
from ishiki.errors import ActivationError

__all__ = ["Answers", "JevConfig", "JevEngine", "JevRules", "Judge", "JudgeCase", "make_judge"]

KEY_VARIABLE = "TYPESAFE_API_KEY"
"""Where the key is looked for when the profile gives none. Source: specification."""

DEFAULT_MODEL = "jev-latest"
DEFAULT_ENDPOINT = "https://api.typesafe.ai/v1/systemone"

_TIMEOUT_MS = {"systemone": 1_500, "chat": 15_000}
"""The specification's for its judge; a chat model, which may reason first, needs more."""

MakeJudge = Callable[[ExtensionHost, "JevConfig"], Judge]


class JevRules(ConfigModel):
    """What wakes without asking the judge."""

    direct: bool = Field(default=True, description="Whether every message of a private chat wakes.")
    at_self: bool = Field(default=True, description="Whether a mention of the account (@) wakes.")
    quote_self: bool = Field(default=False, description="Whether a reply to one of the account's messages wakes.")
    keywords: tuple[str, ...] = Field(default=(), description="Words that wake; case matters, empty ones are ignored.")


class JevConfig(ConfigModel):
    """Who judges, and how."""

    provider: Literal["systemone", "chat"] = Field(
        default="systemone", description="systemone: an HTTP end made for it. chat: a model of models.yaml."
    )
    api_key: SecretStr = Field(
        default=SecretStr(""), description="Key of the HTTP end, as ${NAME}; empty: the variable TYPESAFE_API_KEY."
    )
    model: str = Field(
        default="", description="systemone: jev-latest by default. chat: a model reference; empty: the profile's model."
    )
    endpoint: str = Field(
        default=DEFAULT_ENDPOINT, description="Address of the HTTP end; http:// only inside the own network."
    )
    threshold: float = Field(
        default=0.5, ge=0, le=1, allow_inf_nan=False, description="The chance from which on the mind wakes."
    )
    cooldown_ms: int = Field(
        default=30_000, ge=0, le=86_400_000, description="Milliseconds after its own words in which nobody is asked."
    )
    timeout_ms: int | None = Field(
        default=None,
        ge=100,
        le=120_000,
        description="Milliseconds that a judgement may take; unset: 1500 for systemone, 15000 for chat.",
    )
    history_messages: int = Field(
        default=8, ge=1, le=50, description="Lines before the message that the judge is shown."
    )
    instruction: str = Field(default="", max_length=10_000, description="Further advice to the judge.")
    interests: tuple[str, ...] = Field(default=(), description="What the mind likes to talk about.")
    rules: JevRules = Field(default=JevRules(), description="What wakes without asking the judge.")

    @field_validator("endpoint")
    @classmethod
    def _safe_address(cls, written: str) -> str:
        address = written.strip() or DEFAULT_ENDPOINT
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("is no address; write it as https://host/path")
        if parts.username or parts.password:
            raise ValueError("holds a user name; the key goes into api_key")
        if parts.scheme == "http" and not _is_near(parts.hostname):
            raise ValueError("would send the key in the clear; write https://, or name a host of the own network")
        return address

    @field_validator("interests")
    @classmethod
    def _without_blanks(cls, interests: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(trimmed for one in interests if (trimmed := one.strip()))

    @property
    def timeout_s(self) -> float:
        """Seconds that a judgement may take."""
        return (self.timeout_ms or _TIMEOUT_MS[self.provider]) / 1000


def _is_near(host: str) -> bool:
    """Whether `host` is on this machine or in a private network, by its name alone."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        # A name without a dot is one of a compose file or of /etc/hosts.
        return "." not in host or host.endswith((".local", ".internal", ".lan"))
    return address.is_private


def make_judge(host: ExtensionHost, config: JevConfig) -> Judge:
    """Return the judge that `config` names.

    Raises:
        ActivationError: there is no key.
        GatewayError: the model reference names nothing usable.
    """
    model, instruction = config.model.strip(), config.instruction.strip()
    if config.provider == "chat":
        find_model = partial(host.model, model or None)
        find_model()
        return ChatJudge(find_model, owner=host.runtime_id, instruction=instruction, timeout_s=config.timeout_s)
    key = config.api_key.get_secret_value().strip() or os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        raise ActivationError(
            f'wakeup.jev has no key: write api_key: "${{{KEY_VARIABLE}}}" in the profile and set that variable in '
            ".env, or choose provider: chat, which asks a model of models.yaml",
            profile_id=host.profile_id,
            code="api_key_missing",
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        # Not shown, and not tried either: the HTTP client would quote it in its complaint.
        raise ActivationError(
            "the key of wakeup.jev holds characters that no key has; copy it again",
            profile_id=host.profile_id,
            code="api_key_invalid",
        )
    # The HTTP client takes 150 ms to import, and only this judge needs it.
    from ishiki.engines.wakeup._systemone import SystemOneJudge

    return SystemOneJudge(
        endpoint=config.endpoint,
        api_key=key,
        model=model or DEFAULT_MODEL,
        instruction=instruction,
        timeout_s=config.timeout_s,
    )


@dataclass(frozen=True, slots=True)
class _Pending:
    """A message that waits for its judgement."""

    created: MessageCreated
    line: Line
    window: tuple[Line, ...]
    """What was said before it."""
    began: float
    """When it was heard, by the monotonic clock."""
    wakes: int
    """How often the mind had been woken here by then."""


@dataclass(slots=True, eq=False)
class _Channel:
    window: ChannelWindow
    wakes: int = 0
    is_judging: bool = False
    next_up: _Pending | None = None
    disposers: list[Disposer] = field(default_factory=list[Disposer])


class _Jev:
    """The engine attached to one agent."""

    def __init__(self, host: ExtensionHost, config: JevConfig, judge: Judge, agent: Agent) -> None:
        domain = host.domain
        self._host = host
        self._config = config
        self._judge = judge
        self._agent = agent
        self._decisions = Decisions(agent, JevEngine.name, host.logger)
        self._windows = Windows(config.history_messages, domain.channel if domain.mode == "channel" else None)
        self._channels: dict[ChannelRef, _Channel] = {}
        self._is_disposed = False
        self._is_failing = False

    def start(self) -> None:
        """Fold the log in, so that the judge sees what was said before a restart."""
        self._host.logger.debug("wakeup jev attached")
        count = self._windows.fold_in(newest_entries(self._agent))
        self._host.logger.debug("wakeup jev history %d line(s) folded in", count)

    async def stop(self) -> None:
        """Drop what is in flight."""
        self._is_disposed = True
        for channel in self._channels.values():
            for disposer in channel.disposers:
                await resolved(disposer())
        self._channels.clear()
        await self._judge.aclose()
        self._host.logger.debug("wakeup jev detached")

    def hear_self(self, event: AgentEvent) -> None:
        """Note what the mind says."""
        if isinstance(event, MessageAppended) and isinstance(event.message, AssistantMessage):
            self._windows.speak(event.message, event.entry.timestamp)

    def hear(self, event: MessageAppended, created: MessageCreated) -> Awaitable[None] | None:
        """Take a message in; decide at once where no judge is needed."""
        channel = self._channel(created.channel)
        line = heard_line(created)
        began = self._host.clock.monotonic()
        pending = _Pending(created, line, tuple(channel.window.lines), began, channel.wakes)
        channel.window.add(line)
        if refused := veto(event, created):
            return self._decide(pending, f"wait {refused}", wakes=False)
        if rule := wake_reason(created, self._config.rules):
            channel.wakes += 1
            return self._decide(pending, "trigger rule", wakes=True, reason=f"rule: {rule}")
        if channel.is_judging:
            older, channel.next_up = channel.next_up, pending
            return None if older is None else self._decide(older, "wait a newer message is judged instead", wakes=False)
        if held := self._held_back(channel):
            return self._decide(pending, f"wait {held}", wakes=False)
        channel.is_judging = True
        channel.disposers = [self._host.spawn(f"jev {created.channel_id}", partial(self._judge_all, channel, pending))]
        return None

    def _channel(self, ref: ChannelRef) -> _Channel:
        window = self._windows.of(ref)
        found = self._channels.get(ref)
        if found is None or found.window is not window:
            found = self._channels[ref] = _Channel(window)
            if len(self._channels) > MAX_CHANNELS:
                del self._channels[next(iter(self._channels))]
        return found

    def _held_back(self, channel: _Channel) -> str:
        """Return why nobody is asked now, or ""."""
        if self._agent.holds:
            return "held: no turn could start"
        if not self._agent.is_idle():
            return "busy"
        last = channel.window.last_spoke_ms
        if last is None:
            return ""
        since = self._host.clock.now_ms() - last
        # Below zero the clock was set back: then nobody knows, and a mind that is deaf for so long would be worse.
        return f"cooldown since={since // 1000}s" if 0 <= since < self._config.cooldown_ms else ""

    async def _judge_all(self, channel: _Channel, first: _Pending) -> None:
        """Judge a message, and then the newest that came meanwhile, as long as there is one."""
        pending: _Pending | None = first
        try:
            while pending is not None:
                await self._judge_one(channel, pending)
                pending, channel.next_up = channel.next_up, None
        finally:
            channel.is_judging = False

    async def _judge_one(self, channel: _Channel, pending: _Pending) -> None:
        held = "" if pending.wakes == channel.wakes else "dropped: the mind has woken already"
        held = held or self._held_back(channel)
        if held:
            await self._decide(pending, f"wait {held}", wakes=False)
            return
        answers = await self._ask(channel, pending)
        if self._is_disposed:
            return
        # No await from here to the wake: the mind may have become busy while the judge thought.
        if answers is None:
            await self._decide(pending, "wait model unavailable", wakes=False)
            return
        figures = f"chance={answers.chance:.2f} threshold={self._config.threshold:g} window={len(pending.window)}"
        fields = {
            "chance": answers.chance,
            "threshold": self._config.threshold,
            "addressed": answers.addressed,
            "interested": answers.interested,
            "others": answers.others,
        }
        if pending.wakes != channel.wakes or not self._agent.is_idle():
            why = "dropped: the mind has woken already" if pending.wakes != channel.wakes else "dropped: busy"
            await self._decide(pending, f"wait {why} {figures}", wakes=False, fields=fields)
            return
        wakes = answers.chance >= self._config.threshold
        if wakes:
            channel.wakes += 1
        await self._decide(pending, f"{'trigger' if wakes else 'wait'} model {figures}", wakes=wakes, fields=fields)

    async def _ask(self, channel: _Channel, pending: _Pending) -> Answers | None:
        case = JudgeCase(
            pending.created,
            pending.line,
            pending.window,
            channel.window.last_spoke_ms,
            self._host.clock.now_ms(),
            self._config.interests,
        )
        try:
            answers = await self._judge.ask(case)
        except JudgeError as error:
            if self._is_failing:
                # A judge that is down would fill the log with one warning for every message.
                self._host.logger.debug("wakeup jev: the judge is still unavailable: %s", error)
            else:
                self._host.logger.warning(
                    "wakeup jev: the judge is unavailable: %s; only the rules wake meanwhile", error
                )
            self._is_failing = True
            return None
        if self._is_failing:
            self._is_failing = False
            self._host.logger.info("wakeup jev: the judge answers again")
        return answers

    def _decide(
        self, pending: _Pending, line: str, *, wakes: bool, reason: str = "", fields: dict[str, float] | None = None
    ) -> Awaitable[None]:
        elapsed_ms = round((self._host.clock.monotonic() - pending.began) * 1000)
        channel_id = pending.created.channel_id
        self._host.logger.debug("wakeup jev [%s] %s elapsed=%dms", channel_id, line, elapsed_ms)
        shown = reason or line.removeprefix("wait ").removeprefix("trigger ")
        figures = {**(fields or {}), "elapsed_ms": float(elapsed_ms)}
        return self._decisions.announce(pending.created, wakes=wakes, reason=shown, fields=figures)


@dataclass(frozen=True, slots=True)
class JevWakeup(WakeupEngineInstance):
    """The engine in one runtime."""

    host: ExtensionHost
    config: JevConfig
    judge: Judge

    def attach(self, agent: Agent) -> Disposer:
        """Fold the log in, and judge every message from now on."""
        jev = _Jev(self.host, self.config, self.judge, agent)
        jev.start()
        unsubscribe = [on_message(agent, jev.hear), agent.feed.subscribe("agent", jev.hear_self)]

        async def dispose() -> None:
            if unsubscribe:
                for undo in unsubscribe:
                    undo()
                unsubscribe.clear()
                await jev.stop()

        return dispose


class JevEngine(WakeupEngine[JevConfig]):
    """The provider."""

    name = "jev"
    Config = JevConfig
    runs_without_input = False

    def __init__(self, make: MakeJudge = make_judge) -> None:
        """Let `make` choose the judge of each runtime: for a replay, which must ask nobody."""
        self._make = make

    def create(self, host: ExtensionHost, config: JevConfig) -> WakeupEngineInstance:
        """Make the instance of one runtime.

        Raises:
            ActivationError: there is no key.
            GatewayError: the model reference names nothing usable.
        """
        return JevWakeup(host, config, self._make(host, config))
