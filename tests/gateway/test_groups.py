"""Groups over real HTTP: members behind servers of their own, one of which fails."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from ishiki.core.clock import SystemClock
from ishiki.core.messages import AssistantMessage, ReasoningPart, TextPart, UserMessage
from ishiki.core.model import ModelRequest, ReasoningDelta, ResponseStart
from ishiki.errors import ModelError
from ishiki.gateway import FailoverPolicy, Gateway
from ishiki.testing import openai_replies as replies
from ishiki.testing.clock import FixedRandom
from ishiki.testing.openai_server import ChatRequest, OpenAIServer, Responder

from .kit import answer, ask, finish_of, one_server, served, text_of, write_models


class Pair:
    """Two servers and the gateway of a group over both."""

    def __init__(self, gateway: Gateway, first: OpenAIServer, second: OpenAIServer) -> None:
        self.gateway = gateway
        self.first = first
        self.second = second

    def asked(self) -> tuple[int, int]:
        """Return how often each server was asked."""
        return len(self.first.requests), len(self.second.requests)


@asynccontextmanager
async def pair(folder: Path, strategy: str = "failover", *, threshold: int = 3) -> AsyncGenerator[Pair]:
    """Open a group `main` over two members, on the machine's own clock, with the shortest pauses that chance gives."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(OpenAIServer(_named("first")))
        second = await stack.enter_async_context(OpenAIServer(_named("second")))
        provider = "{{api: openai-completions, base_url: {}, models: [{{id: m}}]}}"
        file = write_models(
            folder,
            f"""
providers:
  one: {provider.format(first.base_url)}
  two: {provider.format(second.base_url)}
groups:
  main:
    strategy: {strategy}
    models: ["one:m", "two:m"]
    circuit_breaker: {{failure_threshold: {threshold}, cooldown_seconds: 60}}
""",
        )
        gateway = Gateway.load(file, env={}, clock=SystemClock(), random=FixedRandom([0.0]))
        stack.push_async_callback(gateway.aclose)
        await gateway.warm_up()
        yield Pair(gateway, first, second)
        assert first.violations + second.violations == []


def _named(name: str) -> Responder:
    def respond(request: ChatRequest) -> replies.Reply:
        return replies.text(f"by the {name}")

    return respond


FAILURES: dict[str, replies.Reply] = {
    "429": replies.error(429, retry_after_s=60),
    "502": replies.bad_gateway(),
    "reset": replies.Reset(),
    "reset behind the headers": replies.Reset("after_headers"),
    "no choices": replies.Completion(choices="empty"),
    "choices absent": replies.Completion(choices="absent"),
    "401": replies.error(401),
    "404": replies.error(404),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_where_the_first_member_fails_the_second_is_asked_within_a_second(tmp_path: Path, name: str) -> None:
    """Issue, gateway complete. Another member is not made to wait for what the first one asked (Retry-After)."""
    async with pair(tmp_path) as it:
        it.first.enqueue(FAILURES[name])
        parts = await answer(it.gateway.model("main"))
        assert text_of(parts) == "by the second"
        finish_of(parts)
        assert it.asked() == (1, 1)
        assert it.second.requests[0].at - it.first.requests[0].at < 1
        assert [status.failures for status in it.gateway.group("main").status().values()] == [1, 0]


async def test_once_part_of_an_answer_is_out_nobody_else_is_asked(tmp_path: Path) -> None:
    """Issue, gateway complete: switching only before the first meaningful part."""
    async with pair(tmp_path) as it:
        it.first.enqueue(replies.cut("half an answer", ending="reset", parts_sent=3))
        with pytest.raises(ModelError) as raised:
            await answer(it.gateway.model("main"))
        assert raised.value.kind == "cut"
        assert it.asked() == (1, 0)


async def test_reasoning_is_a_part_of_an_answer_and_a_role_is_none(tmp_path: Path) -> None:
    """Reference, FailoverModel: preamble parts do not count; reasoning has been handed on."""
    async with pair(tmp_path) as it:
        it.first.enqueue(
            replies.Completion(content="hello", reasoning="hm", ending="reset", parts_sent=1),
            replies.Completion(content="hello", reasoning="hm", ending="reset", parts_sent=2),
        )
        assert text_of(await answer(it.gateway.model("main"))) == "by the second"
        with pytest.raises(ModelError):
            await answer(it.gateway.model("main"))
        assert it.asked() == (2, 1)


async def test_a_request_that_is_refused_is_refused_by_the_group_unless_any_failure_counts(tmp_path: Path) -> None:
    """Reference, FailoverModel: failover_on; nobody's breaker counts it."""
    async with pair(tmp_path) as it:
        refusal = replies.error(400, "content_filter: no")
        it.first.enqueue(refusal, refusal)
        with pytest.raises(ModelError) as raised:
            await answer(it.gateway.model("main"))
        assert raised.value.kind == "refused"
        patient = it.gateway.model("main", failover=FailoverPolicy(failover_on="any"))
        assert text_of(await answer(patient)) == "by the second"
        assert [status.failures for status in it.gateway.group("main").status().values()] == [0, 0]


async def test_an_open_breaker_spares_a_failing_member(tmp_path: Path) -> None:
    """Reference, groups: a member whose breaker is open is left out."""
    async with pair(tmp_path, threshold=2) as it:
        it.first.enqueue(*[replies.error(500)] * 2)
        for _ in range(3):
            assert text_of(await answer(it.gateway.model("main"))) == "by the second"
        assert it.asked() == (2, 3)


async def test_round_robin_takes_turns_whoever_asks(tmp_path: Path) -> None:
    """Reference, groups: the cursor advances per call; it belongs to the group."""
    async with pair(tmp_path, "round-robin") as it:
        texts = [text_of(await answer(it.gateway.model("main"))) for _ in range(4)]
    assert texts == ["by the first", "by the second"] * 2


async def test_random_asks_by_the_dice(tmp_path: Path) -> None:
    """Reference, groups: shuffle; these dice always throw the lowest number."""
    async with pair(tmp_path, "random") as it:
        texts = [text_of(await answer(it.gateway.model("main"))) for _ in range(2)]
    assert texts == ["by the first"] * 2


async def test_a_single_model_is_asked_again_where_a_profile_says_so(tmp_path: Path) -> None:
    """Reference, FailoverModel: attempts > 1 also for a model that is no group; who reads hears of each further try."""
    async with pair(tmp_path) as it:
        it.first.enqueue(replies.error(503), replies.error(503))
        model = it.gateway.model("one:m", failover=FailoverPolicy(attempts=3, backoff_s=0.01))
        parts = await answer(model)
        assert text_of(parts) == "by the first"
        assert parts[:2] == [ResponseStart(), ResponseStart()]
        assert it.asked() == (3, 0)


@pytest.mark.parametrize(("setting", "sent"), [("", None), (", thinking: {send_back: true}", "because")])
async def test_reasoning_goes_back_where_a_model_asks_for_it(tmp_path: Path, setting: str, sent: str | None) -> None:
    """Issue, gateway complete: `reasoning_content` sent back where a model's settings ask for it."""
    async with OpenAIServer() as server, served(one_server(tmp_path, server.base_url, model=setting)) as gateway:
        server.enqueue(replies.text("hello", reasoning="because"))
        parts = await answer(gateway.model("main:m"))
        reasoning = "".join(part.text for part in parts if isinstance(part, ReasoningDelta))
        said = AssistantMessage([ReasoningPart(reasoning), TextPart(text_of(parts))])
        history = ModelRequest("", [*ask("hi").messages, said, UserMessage("so?")])
        await answer(gateway.model("main:m"), history)
        _, request = await server.wait_requests(2)
        assert server.violations == []
    assert request.messages[1].get("reasoning_content") == sent
