"""Groups: models that stand in for each other, and the one model that a group is to its users.

A retry is a further try of the same model call, never of a step: tools may already have spoken. Before its first
meaningful part an answer may come from the next member; after that a failure is passed on, because two models' halves
make no answer. Source: reference, groups and FailoverModel.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal, cast

import anyio

from ishiki.core.clock import Clock, Random
from ishiki.core.model import Finish, LanguageModel, ModelInfo, ModelPart, ModelRequest, ResponseStart
from ishiki.errors import ModelError
from ishiki.gateway.breaker import BreakerStatus, CircuitBreaker
from ishiki.gateway.schema import CircuitBreakerConfig, Strategy

__all__ = ["FailoverPolicy", "GroupModel", "Member", "ModelGroup"]

logger = logging.getLogger(__name__)

_MAX_BACKOFF_S = 8.0
"""Reference, FailoverModel."""

_PATIENCE_S = 30.0
"""How long a member may stay silent while another one could answer instead. The last one has the caller's own limit.
Our choice: half of the turn's limit for a first part, so that the next member gets its chance inside it."""


@dataclass(frozen=True, slots=True)
class FailoverPolicy:
    """How often and when another try is made."""

    attempts: int | None = None
    """Tries in all; None: one pass over the candidates."""
    backoff_s: float = 0.5
    """Seconds before the second try; doubles with each further one."""
    failover_on: Literal["unavailable", "any"] = "unavailable"
    """`any`: also after an error that blames the request."""
    patience_s: float = _PATIENCE_S
    """Seconds without a first part after which the next candidate is asked, where there is one."""


@dataclass(frozen=True, slots=True)
class Member:
    """One model of a group, with its own breaker."""

    model: LanguageModel
    breaker: CircuitBreaker


class ModelGroup:
    """The members of one group and in which order they are tried. Shared by all who use the group."""

    def __init__(
        self,
        name: str,
        models: Sequence[LanguageModel],
        *,
        strategy: Strategy = "failover",
        breaker: CircuitBreakerConfig | None = None,
        clock: Clock,
        random: Random,
    ) -> None:
        """Make one breaker for each member.

        Args:
            name: the group's name.
            models: the members, in declared order; at least one.
            strategy: see `Strategy`.
            breaker: when a failing member is left out.
            clock: for the breakers.
            random: for the strategy `random`.
        """
        if not models:
            raise ValueError(f"the group {name!r} has no members")
        limits = breaker or CircuitBreakerConfig()
        self.name = name
        self._strategy: Strategy = strategy
        self._random = random
        self._cursor = 0
        self._members = [
            Member(model, CircuitBreaker(limits.failure_threshold, limits.cooldown_seconds, clock)) for model in models
        ]

    @property
    def members(self) -> Sequence[Member]:
        """All members, in declared order."""
        return tuple(self._members)

    def status(self) -> Mapping[str, BreakerStatus]:
        """Return each member's breaker, by reference."""
        return {member.model.ref: member.breaker.status for member in self._members}

    def candidates(self) -> Sequence[Member]:
        """Return the members to try, in order: those whose breaker is not open, or all where every one is."""
        ordered = self._ordered()
        usable = [member for member in ordered if member.breaker.state != "open"]
        return usable or ordered

    def _ordered(self) -> list[Member]:
        match self._strategy:
            case "failover":
                return list(self._members)
            case "round-robin":
                start = self._cursor % len(self._members)
                self._cursor += 1
                return self._members[start:] + self._members[:start]
            case "random":
                rest = list(self._members)
                return [rest.pop(int(self._random.random() * len(rest))) for _ in self._members]


class GroupModel:
    """A group as one model."""

    def __init__(
        self, group: ModelGroup, *, policy: FailoverPolicy | None = None, clock: Clock, random: Random
    ) -> None:
        """Answer from `group` by `policy`."""
        self._group = group
        self._policy = policy or FailoverPolicy()
        self._clock = clock
        self._random = random

    @property
    def ref(self) -> str:
        """The group's name."""
        return self._group.name

    @property
    def info(self) -> ModelInfo:
        """What every member can do: a request has to suit whichever answers."""
        infos = [member.model.info for member in self._group.members]
        windows = [info.context_window for info in infos if info.context_window is not None]
        outputs = [info.max_output_tokens for info in infos if info.max_output_tokens is not None]
        return ModelInfo(
            ref=self.ref,
            context_window=min(windows, default=None),
            max_output_tokens=min(outputs, default=None),
            input=frozenset[str].intersection(*(info.input for info in infos)),
            tool_call=all(info.tool_call for info in infos),
            reasoning=any(info.reasoning for info in infos),
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        """Answer from the first member that does.

        Yields:
            One answer. A `ResponseStart` more before each further try, so that a reader's clock starts anew.

        Raises:
            ModelError: an error that blames the request, a failure in mid-answer, or the last of all tries.
        """
        failures: list[ModelError] = []
        tries = _Tries(self._group, self._policy.attempts)
        previous: Member | None = None
        while (member := tries.take()) is not None:
            if failures:
                await self._pause(failures, is_same=member is previous)
                yield ResponseStart()
            previous = member
            async with aclosing(_Answer(member, request)) as answer:
                try:
                    await answer.begin(self._policy.patience_s if tries.has_more else None)
                except ModelError as error:
                    if not self._may_go_on(error, request):
                        raise
                    failures.append(error)
                    logger.warning("%s: a try failed (%s): %s", self.ref, error.kind, error)
                    continue
                async for part in answer.parts():
                    yield part
                return
        raise self._all_failed(failures)

    def _may_go_on(self, error: ModelError, request: ModelRequest) -> bool:
        if request.signal.cancelled:
            return False
        return not error.blames_request or self._policy.failover_on == "any"

    async def _pause(self, failures: Sequence[ModelError], *, is_same: bool) -> None:
        base = min(self._policy.backoff_s * 2 ** (len(failures) - 1), _MAX_BACKOFF_S)
        delay = base / 2 + self._random.random() * base / 2
        asked = failures[-1].retry_after_s
        if is_same and asked is not None:
            delay = max(delay, min(asked, _MAX_BACKOFF_S))
        await self._clock.sleep(delay)

    def _all_failed(self, failures: Sequence[ModelError]) -> ModelError:
        last = failures[-1]
        if len(failures) == 1:
            return last
        listed = "; ".join(dict.fromkeys(str(error) for error in failures))
        return ModelError(
            f"{self.ref}: all {len(failures)} tries failed: {listed}",
            kind=last.kind,
            retryable=any(error.retryable for error in failures),
            retry_after_s=last.retry_after_s,
            status=last.status,
        )


class _Tries:
    """Whom to ask next: once each, or round and round until `attempts` are used up."""

    def __init__(self, group: ModelGroup, attempts: int | None) -> None:
        self._group = group
        self._queue = list(group.candidates())
        self._left = len(self._queue) if attempts is None else max(1, attempts)

    @property
    def has_more(self) -> bool:
        return self._left > 0

    def take(self) -> Member | None:
        if self._left == 0:
            return None
        self._left -= 1
        if not self._queue:
            self._queue = list(self._group.candidates())
        return self._queue.pop(0)


class _Answer:
    """One member's answer to one try; accounts for it at the member's breaker."""

    def __init__(self, member: Member, request: ModelRequest) -> None:
        self._member = member
        self._request = request
        self._stream = member.model.stream(request)
        self._read: list[ModelPart] = []

    async def begin(self, limit_s: float | None) -> None:
        """Read up to the first meaningful part.

        Raises:
            ModelError: it did not come, or not within `limit_s` seconds.
        """
        with anyio.move_on_after(limit_s) as scope:
            while True:
                part = await self._next()
                self._read.append(part)
                if not isinstance(part, ResponseStart):
                    return
        if scope.cancelled_caught:
            waited = f"{self._member.model.ref} sent nothing for {limit_s:g} s"
            raise self._failed(ModelError(waited, kind="timeout", retryable=True))

    async def parts(self) -> AsyncGenerator[ModelPart, None]:
        """Yield what was read ahead, then the rest."""
        for part in self._read:
            yield part
            if isinstance(part, Finish):
                self._member.breaker.success()
                return
        while True:
            part = await self._next()
            if isinstance(part, Finish):
                self._member.breaker.success()
                yield part
                return
            yield part

    async def aclose(self) -> None:
        """End the call at the provider."""
        # A model need not be a generator; ours are.
        stream: object = self._stream
        if isinstance(stream, AsyncGenerator):
            await cast("AsyncGenerator[ModelPart]", stream).aclose()

    async def _next(self) -> ModelPart:
        try:
            part = await anext(self._stream, None)
        except ModelError as error:
            raise self._failed(error) from error.__cause__
        if part is None:
            ref = self._member.model.ref
            raise self._failed(ModelError(f"{ref}: the answer ended too early", kind="cut", retryable=True))
        return part

    def _failed(self, error: ModelError) -> ModelError:
        # An error that blames the request says nothing about the member.
        if not error.blames_request and not self._request.signal.cancelled:
            self._member.breaker.failure()
        return error
