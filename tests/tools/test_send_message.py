"""`send_message` through an agent: what the platform gets, what the log holds, what the model reads."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import anyio
import pytest

from ishiki.content import TypingConfig
from ishiki.contracts.events import ChannelRef
from ishiki.contracts.host import ChannelDomain, CrossDomain
from ishiki.contracts.platform import SendOutcome
from ishiki.core.agent import Agent
from ishiki.core.entries import DELIVERY, EVENT, Entry
from ishiki.core.messages import AssistantMessage, ToolMessage, UserMessage
from ishiki.core.model import ModelPart
from ishiki.core.plugin import AgentPlugin, StepResult
from ishiki.core.store import MemoryStore
from ishiki.core.tool import Tool, ToolContext, ToolSet
from ishiki.errors import StorageError
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.clock import FakeClock, FixedRandom
from ishiki.testing.fake_platform import FakePlatform
from ishiki.testing.scripted_model import ScriptedAnswer, ScriptedModel, call, text
from ishiki.tools.deliveries import settle_entries
from ishiki.tools.finish import finish_tool
from ishiki.tools.send_message import MAX_CHARS, send_message_tool
from ishiki.tools.stop_rule import StopRule

GROUP = ChannelRef("onebot:1", "group:5")
AT_ONCE = TypingConfig(base_delay_ms=0, char_per_second=0, min_delay_ms=0, max_delay_ms=0)


class Kernel(AgentPlugin):
    """The kernel's tools as the runtime puts them in place."""

    def __init__(self, send: Tool) -> None:
        self.send = send
        self.rule = StopRule()

    def extend_tools(self, turn_id: str) -> ToolSet:
        def look(arguments: JsonObject, context: ToolContext) -> JsonValue:
            return "nothing"

        looking = Tool("Look something up.", {"type": "object"}, look)
        return {"send_message": self.send, "finish": finish_tool(), "look": looking}

    def on_step_finish(self, result: StepResult) -> bool | None:
        return self.rule.goes_on(result)

    def settle_turn(self, turn_id: str, entries: Sequence[Entry]) -> Sequence[Entry]:
        return settle_entries(turn_id, entries, 0)


class Mind:
    """An agent with its platform, for one test."""

    def __init__(self, agent: Agent, model: ScriptedModel, platform: FakePlatform) -> None:
        self.agent = agent
        self.model = model
        self.platform = platform

    async def take_turn(self) -> None:
        self.agent.continue_("go")
        with anyio.fail_after(5):
            await self.agent.wait()

    @property
    def results(self) -> list[JsonValue]:
        """What the calls of all steps returned."""
        window = self.agent.store.window()
        messages = [entry.message for entry in window if isinstance(entry.message, ToolMessage)]
        return [part.output.value for message in messages for part in message.content]

    @property
    def result(self) -> dict[str, JsonValue]:
        """The last call's result, an object."""
        value = self.results[-1]
        assert isinstance(value, dict)
        return value

    @property
    def deliveries(self) -> list[tuple[JsonValue, ...]]:
        """Index and state of every delivery entry, in order."""
        data = [entry.json_data for entry in self.agent.store.window() if entry.type == DELIVERY]
        return [(one["index"], one["state"]) for one in data]

    @property
    def ends(self) -> list[JsonValue]:
        """How turns ended."""
        events = [entry.json_data.get("type") for entry in self.agent.store.window() if entry.type == EVENT]
        return [kind for kind in events if kind != "turn.start"]


@asynccontextmanager
async def mind(
    *answers: ScriptedAnswer,
    platform: FakePlatform | None = None,
    send: Tool | None = None,
    clock: FakeClock | None = None,
    store: MemoryStore | None = None,
) -> AsyncGenerator[Mind]:
    """Serve an agent that answers with `answers` and speaks in a group."""
    platform = platform or FakePlatform()
    model = ScriptedModel(list(answers))
    send = send or send_message_tool(platform, ChannelDomain(GROUP), random=FixedRandom(), typing=AT_ONCE)
    agent = Agent("test", model=model, store=store or MemoryStore(), plugins=[Kernel(send)], clock=clock or FakeClock())
    async with anyio.create_task_group() as group:
        await group.start(agent.serve)
        yield Mind(agent, model, platform)
        await agent.stop()


def say(*messages: str, **more: JsonValue) -> list[ModelPart]:
    """Return an answer that calls send_message."""
    return call("send_message", {"messages": list(messages), **more})


async def test_each_string_is_a_message_in_order_and_the_turn_ends() -> None:
    """Specification, send_message and stop rule."""
    async with mind(say("one", '<at id="42"/> two')) as it:
        await it.take_turn()
        assert it.platform.texts == ["one", '<at id="42"/> two']
        assert [sent.target for sent in it.platform.sent] == [GROUP, GROUP]
        assert it.result == {"ok": True, "ids": ["901", "902"]}
        assert it.deliveries == [(0, "sending"), (0, "sent"), (1, "sending"), (1, "sent")]
        assert len(it.model.requests) == 1


async def test_the_model_never_reads_delivery_entries() -> None:
    """Design, deliveries: never shown to the model."""
    async with mind(say("one", **{"continue": True}), text("")) as it:
        await it.take_turn()
        assert "sending" not in str(it.model.requests[1].messages)


async def test_reasoning_never_reaches_the_group() -> None:
    """Design, section 2, what a group never sees."""
    async with mind(say("<think>secret</think>hello", "<think>secret"), text("")) as it:
        await it.take_turn()
        assert it.platform.texts == ["hello"]
        assert it.result["ok"] is True
        assert len(cast("list[str]", it.result["dropped"])) == 1


async def test_nothing_to_say_is_told_to_the_model_and_ends_the_turn_the_second_time() -> None:
    """Design, section 7: two failed sends in a row end any turn."""
    async with mind(say("<think>a</think>"), say(" ")) as it:
        await it.take_turn()
        assert len(it.platform.attempts) == 0
        assert cast("dict[str, str]", it.result["error"])["name"] == "EmptyMessage"
        assert len(it.model.requests) == 2


@pytest.mark.parametrize("arguments", [{}, {"messages": []}, {"messages": {"a": "hi"}}, {"messages": ["a"], "to": "b"}])
async def test_wrong_arguments_send_nothing(arguments: dict[str, JsonValue]) -> None:
    """Design, section 2: arguments that fail the schema get an error result and the tool does not run."""
    async with mind(call("send_message", arguments), call("finish", {})) as it:
        await it.take_turn()
        assert len(it.platform.attempts) == 0
        assert len(it.model.requests) == 2


async def test_a_long_text_becomes_several_messages_of_one_call() -> None:
    """Design, long replies; each piece has its own delivery entries."""
    async with mind(say("A sentence. " * 600)) as it:
        await it.take_turn()
        assert len(it.platform.texts) == 3
        assert all(len(content) <= MAX_CHARS for content in it.platform.texts)
        assert [index for index, _ in it.deliveries] == [0, 0, 1, 1, 2, 2]


async def test_it_types_before_each_message_by_the_clock() -> None:
    """Design, section 7: the delay goes before each message, by the clock; specification: the formula."""
    clock = FakeClock()
    platform = FakePlatform()
    send = send_message_tool(platform, ChannelDomain(GROUP), random=FixedRandom())
    async with mind(say("你好你好", "x"), send=send, clock=clock, platform=platform) as it:
        it.agent.continue_()
        await clock.wait_sleepers()
        assert len(platform.attempts) == 0
        clock.advance(1.3)
        await platform.attempts.at_least(1)
        await clock.wait_sleepers()
        assert len(platform.attempts) == 1
        clock.advance(0.8)
        await it.agent.wait()
    assert [round(seconds, 3) for seconds in clock.slept] == [1.3, 0.8]
    assert platform.texts == ["你好你好", "x"]


async def test_markup_is_not_typed() -> None:
    """Specification, send_message: on visible text only."""
    clock = FakeClock()
    platform = FakePlatform()
    typing = TypingConfig(base_delay_ms=0, char_per_second=1, min_delay_ms=0, max_delay_ms=10_000)
    send = send_message_tool(platform, ChannelDomain(GROUP), random=FixedRandom(), typing=typing)
    async with mind(say('<img src="asset://0123456789abcdef"/>'), send=send, clock=clock, platform=platform) as it:
        await it.take_turn()
    assert clock.slept == [0]


async def test_after_a_refusal_the_model_may_answer_once_more() -> None:
    """Design, section 7, and specification: sent ids and where it failed."""
    platform = FakePlatform([SendOutcome("sent", "1"), SendOutcome("refused", detail="muted")])
    async with mind(say("a", "b", "c"), say("d"), platform=platform) as it:
        await it.take_turn()
        assert it.results[0] == {
            "ok": False,
            "error": {"name": "SendRefused", "message": "muted"},
            "sent": ["1"],
            "failedAt": 1,
        }
        assert platform.texts == ["a", "d"]
        assert it.deliveries[:4] == [(0, "sending"), (0, "sent"), (1, "sending"), (1, "failed")]


async def test_two_refusals_end_the_turn_in_silence() -> None:
    """Design, section 7."""
    platform = FakePlatform([SendOutcome("refused")] * 5)
    async with mind(say("a"), say("b"), platform=platform) as it:
        await it.take_turn()
        assert it.ends == ["turn.done"]
        assert len(it.model.requests) == 2


async def test_with_continue_a_refused_message_is_skipped_and_the_turn_goes_on() -> None:
    """Specification, send_message `continue`."""
    platform = FakePlatform([SendOutcome("sent", "1"), SendOutcome("refused", detail="too long")])
    answers = (say("a", "b", "c", **{"continue": True}), call("finish", {}))
    async with mind(*answers, platform=platform) as it:
        await it.take_turn()
        assert platform.texts == ["a", "c"]
        assert it.results[0] == {"ok": True, "ids": ["1", "901"], "failed": ["message 2: too long"]}
        assert len(it.model.requests) == 2


async def test_an_unconfirmed_message_counts_as_said_and_is_not_repeated() -> None:
    """Design, deliveries: at most once."""
    platform = FakePlatform([SendOutcome("unknown", detail="no answer")])
    async with mind(say("a", "b"), platform=platform) as it:
        await it.take_turn()
        assert platform.texts == ["a", "b"]
        assert it.result["ok"] is True
        assert "message 1 was probably delivered" in str(it.result["note"])
        assert it.deliveries == [(0, "sending"), (0, "unknown"), (1, "sending"), (1, "sent")]
        assert len(it.model.requests) == 1


async def test_an_account_that_stays_away_ends_the_turn() -> None:
    """Design, section 7, unreachable: nothing was begun, so nothing is recorded."""
    platform = FakePlatform(is_online=False)
    send = send_message_tool(platform, ChannelDomain(GROUP), random=FixedRandom(), typing=AT_ONCE, online_wait_s=0.01)
    async with mind(say("a", **{"continue": True}), platform=platform, send=send) as it:
        await it.take_turn()
        assert cast("dict[str, str]", it.result["error"])["name"] == "SendUnreachable"
        assert it.deliveries == []
        assert len(it.model.requests) == 1


async def test_an_account_that_comes_back_in_time_speaks() -> None:
    """Design, section 7, unreachable: no account after 10 s."""
    platform = FakePlatform(is_online=False)
    async with mind(say("a"), platform=platform) as it:
        it.agent.continue_()
        await it.model.wait_requests(1)
        platform.set_online(True)
        with anyio.fail_after(5):
            await it.agent.wait()
        assert platform.texts == ["a"]


async def test_a_socket_lost_before_the_message_left_ends_the_turn_even_with_continue() -> None:
    """Design, section 7, unreachable."""
    platform = FakePlatform([SendOutcome("unreachable")])
    async with mind(say("a", "b", **{"continue": True}), platform=platform) as it:
        await it.take_turn()
        assert len(platform.attempts) == 1
        assert it.deliveries == [(0, "sending"), (0, "failed")]
        assert len(it.model.requests) == 1


async def test_media_that_were_dropped_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """Design, section 7: dropped media come back as `dropped`; no id is invented."""
    platform = FakePlatform([SendOutcome("sent", "", dropped=["asset://0: gone"])])
    async with mind(say("a"), platform=platform) as it:
        await it.take_turn()
        assert it.result == {"ok": True, "ids": [], "dropped": ["asset://0: gone"]}
    assert "without giving it an id" in caplog.text


async def test_an_interrupted_send_is_still_recorded_and_remembered() -> None:
    """Design, deliveries: when a step is cancelled the outcome is known and told, then turn.aborted."""
    platform = FakePlatform()
    platform.hold()
    async with mind(say("a", "b"), platform=platform) as it:
        it.agent.continue_()
        await platform.attempts.at_least(1)
        async with anyio.create_task_group() as group:
            group.start_soon(it.agent.interrupt, "stop")
            await anyio.lowlevel.checkpoint()
            platform.release()
        assert platform.texts == ["a"]
        assert it.deliveries == [(0, "sending"), (0, "sent")]
        assert it.ends == ["turn.aborted"]
        (said,) = [entry.message for entry in it.agent.store.window() if isinstance(entry.message, AssistantMessage)]
        assert said.tool_calls[0].input == {"messages": ["a"]}
        assert it.result["ids"] == ["901"]


async def test_an_interrupt_while_typing_sends_nothing() -> None:
    """Design, concurrency: cancellation is passed on; nothing was begun."""
    clock = FakeClock()
    platform = FakePlatform()
    send = send_message_tool(platform, ChannelDomain(GROUP), random=FixedRandom())
    async with mind(say("a"), platform=platform, send=send, clock=clock) as it:
        it.agent.continue_()
        await clock.wait_sleepers()
        await it.agent.interrupt("stop")
        assert it.deliveries == []
        assert it.results == []
        assert len(platform.attempts) == 0


class GatedStore(MemoryStore):
    """A store whose deliveries wait, or are refused."""

    def __init__(self, error: StorageError | None = None) -> None:
        super().__init__()
        self.gate = anyio.Event()
        self.reached = anyio.Event()
        self.error = error

    async def append(self, *entries: Entry) -> None:
        if any(entry.type == DELIVERY for entry in entries):
            self.reached.set()
            if self.error is not None:
                raise self.error
            await self.gate.wait()
        await super().append(*entries)


async def test_an_interrupt_before_the_first_entry_is_written_sends_nothing_and_says_so() -> None:
    """Our choice: a `sending` that nothing followed must not read as said."""
    store, platform = GatedStore(), FakePlatform()
    async with mind(say("a"), platform=platform, store=store) as it:
        it.agent.continue_()
        await store.reached.wait()
        async with anyio.create_task_group() as group:
            group.start_soon(it.agent.interrupt, "stop")
            await anyio.lowlevel.checkpoint()
            store.gate.set()
        assert len(platform.attempts) == 0
        assert it.deliveries == [(0, "sending"), (0, "failed")]
        assert it.results == []


async def test_what_cannot_be_recorded_is_not_said(caplog: pytest.LogCaptureFixture) -> None:
    """Design, deliveries: at most once; the host's paths are not the model's business."""
    caplog.set_level(logging.WARNING, "ishiki")  # what other tests let the log tell is not asked here
    store = GatedStore(StorageError("broken", path="/srv/log"))
    platform = FakePlatform()
    async with mind(say("a", "b"), call("finish", {}), platform=platform, store=store) as it:
        await it.take_turn()
        assert len(platform.attempts) == 0
        error = cast("dict[str, str]", cast("dict[str, JsonValue]", it.results[0])["error"])
        assert error["name"] == "NotRecorded"
        assert "/srv" not in str(it.results)
    assert [(record.name, record.levelname) for record in caplog.records] == [
        ("ishiki.tools.send_message", "ERROR"),
    ]


CROSS = CrossDomain({"onebot:1": ["group:*"]})


async def test_in_cross_mode_the_model_names_one_of_its_channels() -> None:
    """Specification, cross mode: target is required; a channel outside the domain is an error and nothing is sent."""
    platform = FakePlatform()
    send = send_message_tool(
        platform, CROSS, random=FixedRandom(), typing=AT_ONCE, allows=lambda target: target == GROUP
    )
    good, bad = ({"sid": "onebot:1", "channelId": channel} for channel in ("group:5", "group:6"))
    answers = (say("a"), say("a", target=bad), say("b", target=good))
    async with mind(answers[1], answers[2], platform=platform, send=send) as it:
        await it.take_turn()
        assert cast("dict[str, JsonValue]", it.results[0])["error"] == {
            "name": "InvalidTarget",
            "message": "'onebot:1/group:6' is none of your channels. "
            "Copy target from the header above the lines you answer.",
        }
        assert [sent.target for sent in platform.sent] == [GROUP]
    async with mind(answers[0], call("finish", {}), platform=platform, send=send) as it:
        await it.take_turn()
        assert "target" in str(it.results[0])
        assert len(platform.sent) == 1


async def test_the_schema_has_a_target_in_cross_mode_only_and_describes_every_property() -> None:
    """Our choice: what a model is not told it gets wrong."""
    for domain, is_cross in ((ChannelDomain(GROUP), False), (CROSS, True)):
        tool = send_message_tool(FakePlatform(), domain, random=FixedRandom())
        properties = cast("dict[str, dict[str, str]]", tool.input_schema["properties"])
        assert ("target" in properties) is is_cross
        assert all(schema["description"] for schema in properties.values())
        assert tool.sequential


async def test_two_calls_of_one_step_speak_in_call_order() -> None:
    """Design, section 2: send_message is sequential."""
    async with mind(say("a", "b") + say("c")) as it:
        await it.take_turn()
        assert it.platform.texts == ["a", "b", "c"]


async def test_finish_ends_the_turn_without_a_word() -> None:
    """Specification, finish."""
    async with mind(call("finish", {"reason": "not for me"})) as it:
        await it.take_turn()
        assert it.results == [{"ok": True}]
        assert len(it.platform.attempts) == 0
        assert it.ends == ["turn.done"]


async def test_sending_beside_another_tool_goes_on() -> None:
    """Specification, stop rule: send together with read, search or others is followed by another step."""
    async with mind(say("wait") + call("look", {}), call("finish", {})) as it:
        await it.take_turn()
        assert it.platform.texts == ["wait"]
        assert len(it.model.requests) == 2
        assert isinstance(it.agent.store.window()[1].message, UserMessage)
