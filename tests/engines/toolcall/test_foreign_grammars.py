"""A call that can be read is a call, whatever grammar the model wrote it in and whichever engine is chosen."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from ishiki.core.agent import Agent
from ishiki.core.messages import AssistantMessage, FinishReason, TextPart, UserMessage
from ishiki.core.model import Finish, LanguageModel, ModelPart, TextDelta
from ishiki.core.plugin import AgentPlugin
from ishiki.core.store import MemoryStore
from ishiki.core.tool import Tool, ToolContext, ToolSet
from ishiki.engines.toolcall._protocol import TextToolcall
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.call_grammars import CALL_GRAMMARS, REASONING_FORMS
from ishiki.testing.scripted_model import ScriptedModel, text

from .protocols import PROTOCOLS, SEARCH, SEND, USAGE

ENGINES = ("native", *(protocol.name for protocol in PROTOCOLS))
SENT: JsonObject = {"messages": ['hi <b>&"x"', "你好 {}"], "continue": True}
FOUND: JsonObject = {"query": "cats and dogs", "limit": 3}

Seen = list[tuple[str, JsonObject]]


class Tools(AgentPlugin):
    """Tools that note what they were asked."""

    name = "test tools"

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    def extend_tools(self, turn_id: str) -> ToolSet:
        return {
            spec.name: Tool(spec.description, spec.input_schema, self._noting(spec.name)) for spec in (SEND, SEARCH)
        }

    def _noting(self, name: str):
        def execute(arguments: JsonObject, context: ToolContext) -> JsonValue:
            self._seen.append((name, arguments))
            return {"ok": True}

        return execute


def wrapped(engine: str, model: LanguageModel) -> LanguageModel:
    """Return the model as the engine asks it."""
    found = [protocol for protocol in PROTOCOLS if protocol.name == engine]
    return TextToolcall(found[0]).wrap(model) if found else model


async def turn(engine: str, answer: Sequence[ModelPart]) -> tuple[Seen, list[AssistantMessage]]:
    """Let a model answer and then say nothing more; return what its tools were asked, and its messages."""
    seen: Seen = []
    done = text('{"thoughts": {}, "actions": []}' if engine == "v3" else "Done.")
    model = ScriptedModel([list(answer), *[done] * 2])
    agent = Agent("test", model=wrapped(engine, model), store=MemoryStore(), plugins=[Tools(seen)])
    async with anyio.create_task_group() as group:
        await group.start(agent.serve)
        agent.send(UserMessage("look"))
        with anyio.fail_after(5):
            await agent.wait()
        await agent.stop()
    messages = [entry.message for entry in agent.store.window()]
    return seen, [message for message in messages if isinstance(message, AssistantMessage)]


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_call_in_any_grammar_runs(engine: str) -> None:
    """Our choice, from reports of models behind servers without their parser: as content the call was lost."""
    lost: list[tuple[str, Seen]] = []
    for grammar, how in CALL_GRAMMARS.items():
        for name, arguments in (("send_message", SENT), ("search", FOUND)):
            seen, _ = await turn(engine, text(how.write(name, arguments)))
            if seen != [(name, arguments)]:
                lost.append((grammar, seen))
    assert lost == []


@pytest.mark.parametrize("engine", ["native", "hermes"])
async def test_words_before_a_call_stay_the_minds_own_and_reasoning_is_passed_over(engine: str) -> None:
    """Our choice: they are no message, and the model is to see in its history what it did."""
    call = CALL_GRAMMARS["deepseek-dsml"].write("search", FOUND)
    for form in REASONING_FORMS.values():
        seen, said = await turn(engine, text(f"{form}\nOne moment.\n{call}"))
        assert seen == [("search", FOUND)]
        assert [part.text for part in said[0].content if isinstance(part, TextPart)] == ["One moment."]
        assert said[0].finish_reason == "tool-calls"


async def test_a_call_that_is_only_thought_of_does_not_run() -> None:
    """Design, section 2: reasoning is nobody's deed."""
    call = CALL_GRAMMARS["qwen"].write("search", FOUND)
    seen, _ = await turn("native", text(f"<think>I could write {call}</think>"))
    assert seen == []


@pytest.mark.parametrize("grammar", CALL_GRAMMARS)
async def test_of_a_call_that_was_stopped_in_the_middle_nothing_runs(grammar: str) -> None:
    """Our choice: half a message must not be sent."""
    whole = CALL_GRAMMARS[grammar].write("send_message", {"messages": ["one", "SECRET and then some"]})
    cut = whole[: whole.index("some")]
    reason: FinishReason = "length"
    seen, _ = await turn("native", [TextDelta(cut), Finish(reason, USAGE)])
    assert seen == []


@pytest.mark.parametrize(
    "said",
    [
        "I would rather not call search now.",
        'In Qwen a call is `<tool_call>{"name": "search", "arguments": {}}</tool_call>`.',
        'Their JSON: {"name": "Rin", "arguments": []}',
        "```python\nsearch(query='cats')\n```\nis how you would call it.",
        "Action: none",
    ],
)
async def test_what_only_talks_about_calls_is_no_call(said: str) -> None:
    """Our choice: code in Markdown, and tools that are not there, are talk."""
    seen, _ = await turn("native", text(said))
    assert seen == []
