"""Text protocols inside the agent loop: the tool runs, and the next request shows what happened in the same words."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest

from ishiki.contracts.services import ServiceRegistry
from ishiki.core.agent import Agent
from ishiki.core.messages import (
    AssistantMessage,
    AssistantPart,
    FilePart,
    ModelMessage,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolResultPart,
    UserMessage,
)
from ishiki.core.model import LanguageModel, ModelRequest, ToolChoice
from ishiki.core.plugin import AgentPlugin
from ishiki.core.store import MemoryStore
from ishiki.core.tool import Tool, ToolContext, ToolSet
from ishiki.engines import BUILTIN_ENGINES
from ishiki.engines.toolcall._protocol import TextProtocol, TextToolcall
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.scripted_model import ScriptedModel, text

from .protocols import INFO, PROTOCOLS, SEARCH, TOOLS, said

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)

MARKS = {
    "v3": ("<action>", "<observation>"),
    "hermes": ("<tool_call>", "<tool_response>"),
    "qwen3coder": ("<function=search>", "<tool_response>"),
    "morph-xml": ("<search>", "<tool_response>"),
    "yaml-xml": ("<search>", "<tool_response>"),
}
"""What a call and a result begin with in the history of each protocol."""


class Tools(AgentPlugin):
    name = "test tools"

    def __init__(self, tools: ToolSet) -> None:
        self.tools = tools

    def extend_tools(self, turn_id: str) -> ToolSet:
        return self.tools

    def extend_instructions(self, turn_id: str) -> str:
        return "You are Rin."


def search_tool(seen: list[JsonObject]) -> Tool:
    """Return a tool that notes what it was asked."""

    def execute(arguments: JsonObject, context: ToolContext) -> JsonValue:
        seen.append(arguments)
        return {"found": [f"a {arguments['query']}"]}

    return Tool(SEARCH.description, SEARCH.input_schema, execute)


@asynccontextmanager
async def running(model: LanguageModel, tools: ToolSet) -> AsyncGenerator[Agent]:
    """Serve an agent with `tools`."""
    agent = Agent("test", model=model, store=MemoryStore(), plugins=[Tools(tools)])
    async with anyio.create_task_group() as group:
        await group.start(agent.serve)
        yield agent
        await agent.stop()


def transformed(
    protocol: TextProtocol, messages: Sequence[ModelMessage], *, tool_choice: ToolChoice = "auto"
) -> ModelRequest:
    """Return a request as the engine sends it on."""
    changed = (
        TextToolcall(protocol)
        .middleware()
        .transform_request(ModelRequest("You are Rin.", messages, TOOLS, tool_choice), INFO)
    )
    assert isinstance(changed, ModelRequest)
    return changed


@every_protocol
async def test_a_call_written_as_text_runs_and_its_result_comes_back_in_the_same_words(protocol: TextProtocol) -> None:
    """Reference, toolcall contract, all five points, through a whole turn."""
    seen: list[JsonObject] = []
    done = '{"thoughts": {"plan": "rest"}, "actions": []}' if protocol.name == "v3" else "Done."
    model = ScriptedModel([text(said(protocol, ("search", {"query": "cat", "limit": 2}))), text(done)])
    async with running(TextToolcall(protocol).wrap(model), {"search": search_tool(seen)}) as agent:
        agent.send(UserMessage("look"))
        await agent.wait()
        stored = [entry.message for entry in agent.store.window() if entry.message is not None]
    assert seen == [{"query": "cat", "limit": 2}]
    assert [message.role for message in stored] == ["user", "assistant", "tool", "assistant"]
    assistant = stored[1]
    assert isinstance(assistant, AssistantMessage)
    assert assistant.finish_reason == "tool-calls"
    first, second = model.requests
    assert first.tools == second.tools == ()
    assert first.instructions == second.instructions
    assert first.instructions.startswith("You are Rin.\n\n")
    assert SEARCH.description in first.instructions
    assert [message.role for message in second.messages] == ["user", "assistant", "user"]
    called, answered = second.messages[1:]
    assert isinstance(called, AssistantMessage)
    assert isinstance(answered, UserMessage)
    assert not called.tool_calls
    call_mark, result_mark = MARKS[protocol.name]
    assert call_mark in called.text
    assert isinstance(answered.content, str)
    assert answered.content.startswith(result_mark)
    assert "a cat" in answered.content


@every_protocol
async def test_arguments_that_do_not_fit_get_an_error_that_the_model_reads(protocol: TextProtocol) -> None:
    """Design, what a model returns is untrusted: the tool does not run, the model is told."""
    seen: list[JsonObject] = []
    done = '{"actions": []}' if protocol.name == "v3" else "Done."
    model = ScriptedModel([text(said(protocol, ("search", {"limit": 2}))), text(done)])
    async with running(TextToolcall(protocol).wrap(model), {"search": search_tool(seen)}) as agent:
        agent.send(UserMessage("look"))
        await agent.wait()
    assert seen == []
    answered = model.requests[1].messages[-1]
    assert isinstance(answered, UserMessage)
    assert "required" in str(answered.content)


@every_protocol
async def test_an_answer_that_is_no_call_ends_the_turn(protocol: TextProtocol) -> None:
    """Reference, toolcall contract: unparseable text is text, and the turn ends normally."""
    model = ScriptedModel([text("<tool_call>{oops <search> {")])
    async with running(TextToolcall(protocol).wrap(model), {"search": search_tool([])}) as agent:
        agent.send(UserMessage("look"))
        await agent.wait()
        ends = [entry.json_data.get("type") for entry in agent.store.window() if entry.type == "event"]
    assert ends[-1] == "turn.done"


def history(output: ToolOutput) -> list[ModelMessage]:
    """Return a conversation with a call that gave `output`."""
    parts: list[AssistantPart] = [
        ReasoningPart("hm"),
        TextPart("Let me see."),
        ToolCallPart("c1", "search", {"query": "cat"}),
    ]
    return [
        SystemMessage("note"),
        UserMessage("look"),
        AssistantMessage(parts),
        ToolMessage([ToolResultPart("c1", "search", output)], timestamp=7, id="t1"),
        ToolMessage([ToolResultPart("c2", "search", ToolOutput("execution-denied", "no"))]),
        UserMessage("and?"),
    ]


@every_protocol
def test_history_keeps_its_order_its_text_and_its_reasoning(protocol: TextProtocol) -> None:
    """Reference, toolcall contract: calls become protocol text, results user messages; the rest stays."""
    messages = transformed(protocol, history(ToolOutput("text", "a cat"))).messages
    assert [message.role for message in messages] == ["system", "user", "assistant", "user", "user"]
    assistant, results = messages[2], messages[3]
    assert isinstance(assistant, AssistantMessage)
    assert assistant.content[0] == ReasoningPart("hm")
    assert assistant.text.startswith("Let me see.\n<")
    assert isinstance(results, UserMessage)
    assert (results.id, results.timestamp) == ("t1", 7)
    assert "a cat" in str(results.content)
    assert "The call was denied: no" in str(results.content)


@every_protocol
def test_media_of_a_result_stay_files_behind_its_text(protocol: TextProtocol) -> None:
    """Reference, toolcall contract: media parts are kept as file parts, and named in the text."""
    picture = b"\x89PNG" * 600
    parts: list[JsonValue] = [
        {"type": "text", "text": "two pictures"},
        {"type": "media", "mediaType": "image/png", "data": base64.b64encode(picture).decode()},
        {"type": "media", "mediaType": "image/jpeg", "url": "https://example.org/cat.jpg", "filename": "cat.jpg"},
        {"type": "media", "mediaType": "image/png", "data": "no base64!"},
    ]
    results = transformed(protocol, history(ToolOutput("content", parts))).messages[3]
    assert isinstance(results, UserMessage)
    assert not isinstance(results.content, str)
    head, *files = results.content
    assert isinstance(head, TextPart)
    assert "two pictures" in head.text
    assert "[image/png 2.3 KiB]" in head.text
    assert files == [
        FilePart("image/png", picture),
        FilePart("image/jpeg", url="https://example.org/cat.jpg", filename="cat.jpg"),
    ]


@every_protocol
def test_a_request_without_a_user_message_gets_one(protocol: TextProtocol) -> None:
    """Reference, toolcall contract: requests stay well-formed."""
    messages = transformed(protocol, [AssistantMessage([TextPart("hi")])]).messages
    assert [message.role for message in messages] == ["assistant", "user"]


@every_protocol
def test_an_earlier_part_of_the_history_never_changes(protocol: TextProtocol) -> None:
    """Design, budgets: consecutive requests share every earlier message byte for byte."""
    messages = history(ToolOutput("json", {"a": [1, "二"]}))
    shorter = transformed(protocol, messages[:4]).messages
    assert transformed(protocol, messages[:4]).messages == shorter
    longer = transformed(protocol, [*messages[:4], *messages[5:]]).messages
    assert longer[: len(shorter)] == shorter


@every_protocol
def test_a_tool_that_must_be_called_is_named_in_the_contract(protocol: TextProtocol) -> None:
    """Reference, toolcall contract: native tools and choice are gone, so the contract says it."""
    plain = transformed(protocol, [UserMessage("hi")])
    some = transformed(protocol, [UserMessage("hi")], tool_choice="required")
    one = transformed(protocol, [UserMessage("hi")], tool_choice=SEARCH)
    assert one.tool_choice == some.tool_choice == "auto"
    assert some.instructions.startswith(plain.instructions)
    assert "at least one tool" in some.instructions
    assert one.instructions.endswith("has to call the tool search.")


def test_every_protocol_is_registered_under_its_name() -> None:
    """Design, contracts: the service `ishiki.engine.toolcall.<name>`."""
    registry = ServiceRegistry()
    for provider in BUILTIN_ENGINES:
        registry.provide(provider)
    names = {name for name in registry.names() if name.startswith("ishiki.engine.toolcall.")}
    assert names == {f"ishiki.engine.toolcall.{name}" for name in ("native", *MARKS)}
