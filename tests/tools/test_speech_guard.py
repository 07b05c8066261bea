"""What `send_message` does with the word of a guard, and what the model reads of it."""

from __future__ import annotations

from collections.abc import Mapping

import anyio

from ishiki.content import TypingConfig
from ishiki.contracts.events import ChannelRef
from ishiki.contracts.host import ChannelDomain
from ishiki.core.agent import Agent
from ishiki.core.messages import ToolMessage
from ishiki.core.plugin import AgentPlugin, StepResult
from ishiki.core.store import MemoryStore
from ishiki.core.tool import ToolSet
from ishiki.jsonvalue import JsonObject
from ishiki.testing.clock import FakeClock, FixedRandom
from ishiki.testing.fake_platform import FakePlatform
from ishiki.testing.scripted_model import ScriptedModel, call, text
from ishiki.tools.send_message import send_message_tool
from ishiki.tools.speech_guard import SpeechRefusal
from ishiki.tools.stop_rule import StopRule

GROUP = ChannelRef("onebot:1", "group:5")
AT_ONCE = TypingConfig(base_delay_ms=0, char_per_second=0, min_delay_ms=0, max_delay_ms=0)
SAID = SpeechRefusal("AlreadySaid", "You have said this.")
LIMIT = SpeechRefusal("MessageLimit", "No more in this turn.", ends_turn=True)


class Guard:
    """Refuses what it was told to refuse, by content."""

    def __init__(self, refusals: Mapping[str, SpeechRefusal]) -> None:
        self.refusals = refusals
        self.asked: list[tuple[str, ChannelRef, str]] = []

    def refusal(self, turn_id: str, target: ChannelRef, content: str) -> SpeechRefusal | None:
        self.asked.append((turn_id, target, content))
        return self.refusals.get(content)


class Turn(AgentPlugin):
    """One turn of a mind that says `messages` once and then nothing; what went out and what the model was told."""

    def __init__(self, refusals: Mapping[str, SpeechRefusal]) -> None:
        self.guard = Guard(refusals)
        self.platform = FakePlatform()
        self.clock = FakeClock()
        self.requests = 0
        self.turn_id = ""
        self.result: JsonObject = {}
        self._rule = StopRule()

    async def run(self, *messages: str, goes_on: bool = False) -> None:
        model = ScriptedModel([call("send_message", {"messages": list(messages), "continue": goes_on}), text("")])
        agent = Agent("test", model=model, store=MemoryStore(), plugins=[self], clock=self.clock)
        async with anyio.create_task_group() as group:
            await group.start(agent.serve)
            self.turn_id = agent.continue_("go") or ""
            with anyio.fail_after(5):
                await agent.wait()
            await agent.stop()
        self.requests = len(model.requests)
        (message,) = (entry.message for entry in agent.store.window() if isinstance(entry.message, ToolMessage))
        value = message.content[0].output.value
        assert isinstance(value, dict)
        self.result = value

    def extend_tools(self, turn_id: str) -> ToolSet:
        domain = ChannelDomain(GROUP)
        random = FixedRandom()
        tool = send_message_tool(self.platform, domain, random=random, typing=AT_ONCE, guard=self.guard)
        return {"send_message": tool}

    def on_step_finish(self, result: StepResult) -> bool | None:
        return self._rule.goes_on(result)


async def test_the_guard_is_asked_before_each_message() -> None:
    """Our choice: with the turn, the target and the text as they will be."""
    turn = Turn({})
    await turn.run("one", '<at id="42"/> two')
    assert turn.guard.asked == [(turn.turn_id, GROUP, "one"), (turn.turn_id, GROUP, '<at id="42"/> two')]
    assert turn.result == {"ok": True, "ids": ["901", "902"]}


async def test_a_message_that_was_said_is_passed_over_without_typing_and_the_model_is_told() -> None:
    """Design, guards: the same text at most once a turn; no error to the group, and none to the model either."""
    turn = Turn({"one": SAID, "three": SAID})
    await turn.run("one", "two", "three", "four")
    assert turn.platform.texts == ["two", "four"]
    assert len(turn.clock.slept) == 2
    assert turn.result == {"ok": True, "ids": ["901", "902"], "notSent": ["message 1, 3: You have said this."]}
    assert turn.requests == 1


async def test_a_call_that_says_nothing_new_has_failed() -> None:
    """Our choice: the model may say something else once; two failed sends in a row end any turn."""
    turn = Turn({"one": SAID})
    await turn.run("one")
    error = {"name": "AlreadySaid", "message": "You have said this."}
    assert turn.result == {"ok": False, "error": error, "sent": [], "failedAt": 0}
    assert turn.requests == 2


async def test_past_its_bound_a_turn_says_nothing_more_and_ends_however_lenient_the_call_is() -> None:
    """Specification of the guard: the result says so in plain words, and the turn ends."""
    turn = Turn({"two": LIMIT})
    await turn.run("one", "two", "three", goes_on=True)
    assert turn.platform.texts == ["one"]
    error = {"name": "MessageLimit", "message": "No more in this turn."}
    assert turn.result == {"ok": False, "error": error, "sent": ["901"], "failedAt": 1}
    assert turn.requests == 1
