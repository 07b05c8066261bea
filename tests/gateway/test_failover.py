"""Groups: in which order members are asked, when the next one is, and what a breaker remembers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import anyio
import pytest

from ishiki.core.model import Finish, LanguageModel, ModelInfo, ModelPart, ModelRequest, ResponseStart, TextDelta
from ishiki.errors import ModelError, ModelErrorKind
from ishiki.gateway import CircuitBreaker, FailoverPolicy, GroupModel, ModelGroup
from ishiki.gateway.schema import CircuitBreakerConfig, Strategy
from ishiki.testing.clock import FixedRandom
from ishiki.testing.scripted_model import ScriptedAnswer, ScriptedModel, text

from .kit import EagerClock, answer, ask, finish_of, text_of


def failure(kind: ModelErrorKind = "unavailable", *, retry_after_s: float | None = None) -> ModelError:
    """Return an error as a provider makes it."""
    retryable = kind not in ("refused", "context_length")
    return ModelError(f"scripted {kind}", kind=kind, retryable=retryable, retry_after_s=retry_after_s)


def scripted(ref: str, *answers: ScriptedAnswer) -> ScriptedModel:
    """Return a model that gives these answers."""
    return ScriptedModel(answers, ref=ref)


class Silent:
    """A model that begins and says nothing."""

    def __init__(self, ref: str) -> None:
        self.ref = ref
        self.info = ModelInfo(ref)
        self.was_closed = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        try:
            yield ResponseStart(self.ref)
            await anyio.sleep_forever()
        finally:
            self.was_closed = True


class Setting:
    """A group over models, with its clock."""

    def __init__(
        self,
        *models: LanguageModel,
        strategy: Strategy = "failover",
        policy: FailoverPolicy | None = None,
        threshold: int = 3,
        dice: FixedRandom | None = None,
    ) -> None:
        self.clock = EagerClock()
        self.dice = dice or FixedRandom([0.0])
        limits = CircuitBreakerConfig(failure_threshold=threshold, cooldown_seconds=60)
        self.group = ModelGroup("main", models, strategy=strategy, breaker=limits, clock=self.clock, random=self.dice)
        self.model = GroupModel(self.group, policy=policy, clock=self.clock, random=self.dice)

    def order(self) -> list[str]:
        return [member.model.ref for member in self.group.candidates()]

    def failures(self) -> list[int]:
        return [status.failures for status in self.group.status().values()]


async def test_the_first_member_answers_where_it_can() -> None:
    """Reference, groups: failover tries the declared order."""
    first, second = scripted("p:a", text("A")), scripted("p:b")
    assert text_of(await answer(Setting(first, second).model)) == "A"
    assert second.requests == []


@pytest.mark.parametrize("kind", ["auth", "rate", "not_found", "unavailable", "timeout", "cut"])
async def test_the_next_member_answers_where_one_is_unavailable(kind: ModelErrorKind) -> None:
    """Reference, FailoverModel: unavailable -> failure at the candidate, try the next."""
    setting = Setting(scripted("p:a", failure(kind)), scripted("p:b", text("B")))
    parts = await answer(setting.model)
    assert text_of(parts) == "B"
    finish_of(parts)
    assert setting.failures() == [1, 0]


@pytest.mark.parametrize("kind", ["refused", "context_length"])
async def test_an_error_that_blames_the_request_is_nobodys_failure(kind: ModelErrorKind) -> None:
    """Reference, FailoverModel: invalid -> rethrow, not counted; with `any` the next one is tried."""
    setting = Setting(scripted("p:a", failure(kind)), scripted("p:b"))
    with pytest.raises(ModelError) as raised:
        await answer(setting.model)
    assert (raised.value.kind, setting.failures()) == (kind, [0, 0])
    other = Setting(
        scripted("p:a", failure(kind)), scripted("p:b", text("B")), policy=FailoverPolicy(failover_on="any")
    )
    assert text_of(await answer(other.model)) == "B"
    assert other.failures() == [0, 0]


async def test_a_failure_in_mid_answer_is_passed_on() -> None:
    """Reference, FailoverModel: never splice two models' halves; counted once."""
    setting = Setting(scripted("p:a", [TextDelta("half")]), scripted("p:b", text("B")))
    heard: list[ModelPart] = []

    async def listen() -> None:
        async for part in setting.model.stream(ask()):
            heard.append(part)

    with pytest.raises(ModelError) as raised:
        await listen()
    assert (raised.value.kind, text_of(heard), setting.failures()) == ("cut", "half", [1, 0])


async def test_a_preamble_is_no_answer_yet() -> None:
    """Reference, FailoverModel: read ahead past preamble parts; an end there is a failed try."""
    setting = Setting(scripted("p:a", [ResponseStart("a")]), scripted("p:b", text("B")))
    assert text_of(await answer(setting.model)) == "B"
    assert setting.failures() == [1, 0]


async def test_success_is_the_finish_and_closes_the_breaker() -> None:
    """Reference, FailoverModel: success is recorded only on the finish part."""
    setting = Setting(scripted("p:a", failure(), text("A")), scripted("p:b", text("B")))
    await answer(setting.model)
    stream = setting.model.stream(ask())
    async for part in stream:
        if isinstance(part, TextDelta):
            assert setting.failures() == [1, 0]
    assert setting.failures() == [0, 0]


async def test_when_all_fail_the_error_names_each_and_has_the_last_kind() -> None:
    """Reference, FailoverModel: attempts unset -> one pass over the candidates."""
    setting = Setting(scripted("p:a", failure("rate")), scripted("p:b", failure("unavailable")))
    with pytest.raises(ModelError, match=r"scripted rate.*scripted unavailable") as raised:
        await answer(setting.model)
    assert raised.value.kind == "unavailable"


async def test_attempts_go_round_until_they_are_used_up() -> None:
    """Reference, FailoverModel: attempts set -> keep cycling until that many tries."""
    setting = Setting(
        scripted("p:a", failure(), failure()),
        scripted("p:b", failure(), text("B")),
        policy=FailoverPolicy(attempts=4),
    )
    assert text_of(await answer(setting.model)) == "B"
    assert setting.failures() == [2, 0]


async def test_pauses_double_up_to_eight_seconds_and_are_half_random() -> None:
    """Reference, FailoverModel: base = min(backoff * 2^(tried-1), 8 s); actual = base/2 + random * base/2."""
    setting = Setting(
        scripted("p:a", *[failure() for _ in range(7)]), policy=FailoverPolicy(attempts=7), dice=FixedRandom([0.0, 0.5])
    )
    with pytest.raises(ModelError):
        await answer(setting.model)
    assert setting.clock.slept == [0.25, 0.75, 1.0, 3.0, 4.0, 6.0]


async def test_the_same_member_is_given_the_time_it_asked_for() -> None:
    """Style, async rules: retries honour retry_after_s; here at most as long as the longest pause."""
    limited = scripted("p:a", failure("rate", retry_after_s=3), failure("rate", retry_after_s=900), text("A"))
    setting = Setting(limited, policy=FailoverPolicy(attempts=3))
    await answer(setting.model)
    assert setting.clock.slept == [3, 8]


async def test_a_silent_member_is_left_for_the_next_one() -> None:
    """Our choice: the turn's own limit would end the whole call, and the next member would never be asked."""
    silent = Silent("p:a")
    setting = Setting(silent, scripted("p:b", text("B")), policy=FailoverPolicy(patience_s=0.01))
    assert text_of(await answer(setting.model)) == "B"
    assert setting.failures() == [1, 0]
    assert silent.was_closed


async def test_who_reads_is_told_of_a_further_try() -> None:
    """Our choice: a `ResponseStart` before each further try lets a reader's clock start anew."""
    parts = await answer(Setting(scripted("p:a", failure()), scripted("p:b", text("B"))).model)
    assert parts[0] == ResponseStart()


async def test_after_an_interrupt_nobody_else_is_asked() -> None:
    """Reference, FailoverModel: abort -> rethrow, no accounting."""
    setting = Setting(scripted("p:a", failure()), scripted("p:b"))
    request = ask()
    request.signal.cancel("stop")
    with pytest.raises(ModelError):
        await answer(setting.model, request)
    assert setting.failures() == [0, 0]


async def test_closing_the_group_closes_the_member() -> None:
    """Core, LanguageModel.stream: closing the iterator ends the call at the provider."""
    silent = Silent("p:a")
    setting = Setting(silent)
    async with anyio.create_task_group() as tasks:
        started = anyio.Event()

        async def read() -> None:
            started.set()
            await answer(setting.model)

        tasks.start_soon(read)
        await started.wait()
        await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert silent.was_closed
    assert setting.failures() == [0]


def names(*refs: str) -> Sequence[ScriptedModel]:
    """Return models that are never asked."""
    return [scripted(ref) for ref in refs]


def test_round_robin_starts_one_further_each_time() -> None:
    """Reference, groups: the cursor advances per call."""
    setting = Setting(*names("p:a", "p:b", "p:c"), strategy="round-robin")
    assert [setting.order()[0] for _ in range(4)] == ["p:a", "p:b", "p:c", "p:a"]


def test_random_shuffles_by_the_given_dice() -> None:
    """Reference, groups: shuffle; randomness is injected."""
    setting = Setting(*names("p:a", "p:b", "p:c"), strategy="random", dice=FixedRandom([0.99, 0.0, 0.0]))
    assert setting.order() == ["p:c", "p:a", "p:b"]


def test_an_open_member_is_left_out_and_offered_when_all_are_open() -> None:
    """Reference, groups: members whose breaker is open are omitted; if all are open the full list is offered."""
    setting = Setting(*names("p:a", "p:b"), threshold=1)
    first, second = setting.group.members
    first.breaker.failure()
    assert setting.order() == ["p:b"]
    second.breaker.failure()
    assert setting.order() == ["p:a", "p:b"]
    setting.clock.advance(60)
    second.breaker.failure()
    assert setting.order() == ["p:a"]


def test_a_breaker_opens_cools_and_closes() -> None:
    """Reference, groups: closed, open after the threshold, half-open after the cooldown, closed on success."""
    clock = EagerClock()
    breaker = CircuitBreaker(2, 60, clock)
    states = [breaker.state]
    for _ in range(2):
        breaker.failure()
        states.append(breaker.state)
    clock.advance(59)
    states.append(breaker.state)
    clock.advance(1)
    states.append(breaker.state)
    breaker.failure()
    states.append(breaker.state)
    clock.advance(60)
    breaker.success()
    states.append(breaker.state)
    assert states == ["closed", "closed", "open", "open", "half-open", "open", "closed"]
    breaker.failure()
    breaker.reset()
    assert breaker.status.failures == 0


def test_a_group_without_members_is_refused() -> None:
    """Reference, FailoverModel: group without members -> construction error."""
    with pytest.raises(ValueError, match="no members"):
        Setting()


async def test_a_finish_alone_is_an_answer() -> None:
    """Design, what a model returns is untrusted: empty content is legal."""
    empty = scripted("p:a", text(""))
    parts = await answer(Setting(empty, scripted("p:b")).model)
    assert isinstance(parts[-1], Finish)
