"""From entries to the messages of a request: hooks in order, and what was withheld."""

from __future__ import annotations

from collections.abc import Sequence

from ishiki.core.entries import MESSAGE, WITHHELD, Entry
from ishiki.core.hidden import marks_of, withheld_ids
from ishiki.core.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
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
from ishiki.core.plugin import AgentPlugin, ContextRequest, ordered_plugins
from ishiki.core.projection import WITHHELD_TEXT, project
from ishiki.core.repair import NO_INPUT
from ishiki.core.signal import CancelSignal
from ishiki.jsonvalue import JsonObject

REQUEST = ContextRequest("turn", CancelSignal())


def entry(message: Message, name: str = "") -> Entry:
    """Return an entry with `message`."""
    return Entry(MESSAGE, message, 1, id=name or message.id)


def contents(messages: Sequence[ModelMessage]) -> list[object]:
    """Return the contents of user and system messages."""
    return [message.content for message in messages if isinstance(message, UserMessage | SystemMessage)]


class Render(AgentPlugin):
    """Renders custom messages of one type; keeps a list of what it was asked."""

    def __init__(self, kind: str, text: str, asked: list[str]) -> None:
        self.kind = kind
        self.text = text
        self.asked = asked

    def to_model_messages(self, message: CustomMessage) -> Sequence[ModelMessage] | None:
        self.asked.append(self.text)
        return [UserMessage(f"{self.text} {message.data['content']}")] if message.type == self.kind else None


async def test_the_first_plugin_that_renders_a_custom_message_decides_and_unrendered_ones_are_left_out() -> None:
    """Reference, hooks: toModelMessages, first non-undefined wins; otherwise dropped."""
    asked: list[str] = []
    plugins = [Render("other", "first", asked), Render("fact", "second", asked), Render("fact", "third", asked)]
    entries = [entry(CustomMessage("fact", {"content": "x"})), entry(CustomMessage("nobody's", {"content": "y"}))]
    assert contents(await project(entries, REQUEST, plugins)) == ["second x"]
    assert asked == ["first", "second", "first", "second", "third"]


async def test_only_messages_reach_a_model_and_a_request_always_has_a_user_message() -> None:
    """Reference: non-message entries never reach the model; design, section 3, history repair."""
    entries = [Entry("ishiki.compact", {"summary": "s"}, 1), entry(SystemMessage("rule"))]
    assert contents(await project(entries, REQUEST, [])) == ["rule", NO_INPUT]


class Pipe(AgentPlugin):
    """Appends its letter to every text, at both stages, async or sync."""

    def __init__(self, letter: str) -> None:
        self.letter = letter

    async def transform_entries(self, entries: Sequence[Entry], request: ContextRequest) -> Sequence[Entry] | None:
        return None if self.letter == "-" else [*entries, entry(UserMessage(self.letter))]

    def transform_messages(self, messages: Sequence[Message], request: ContextRequest) -> Sequence[Message] | None:
        return None if self.letter == "-" else [*messages, UserMessage(self.letter.upper())]


async def test_transforms_are_a_pipe_in_the_order_of_the_plugins() -> None:
    """Reference, hooks: pipe; None keeps what there was."""
    plugins = [Pipe("a"), Pipe("-"), AgentPlugin(), Pipe("b")]
    assert contents(await project([], REQUEST, plugins)) == ["a", "b", "A", "B"]


class Early(AgentPlugin):
    enforce = "pre"


class Late(AgentPlugin):
    enforce = "post"


def test_plugins_run_pre_then_unmarked_then_post_in_order_of_registration() -> None:
    """Reference, hooks and order."""
    late, plain, other, early = Late(), AgentPlugin(), AgentPlugin(), Early()
    assert ordered_plugins([late, plain, early, other]) == [early, plain, other, late]


LOOKUP = ToolCallPart("1", "look", {"for": "POISON"})


async def test_what_is_withheld_is_read_as_such_with_its_quote_and_everything_else_stays() -> None:
    """Design, section 2: read as "[withheld]" from then on."""
    user: JsonObject = {"id": "1", "name": "POISON"}
    fact = CustomMessage("fact", {"content": "POISON", "quote": {"content": "POISON"}, "user": user})
    entries = [
        entry(fact, "bad fact"),
        entry(CustomMessage("other", {"items": []}), "bad other"),
        entry(UserMessage("POISON"), "bad line"),
        entry(UserMessage("fine"), "fine"),
        entry(AssistantMessage([TextPart("said")]), "mine"),
        entry(AssistantMessage([ReasoningPart("POISON"), TextPart("POISON"), LOOKUP]), "bad own"),
        entry(ToolMessage([ToolResultPart("1", "look", ToolOutput("json", {"found": "POISON"}))]), "bad result"),
        Entry(WITHHELD, {"ids": ["bad fact", "bad line", 7]}, 1),
        Entry(WITHHELD, {"ids": ["bad other", "bad own", "bad result", "gone"]}, 1),
        Entry(WITHHELD, {"ids": "broken"}, 1),
    ]
    assert withheld_ids(marks_of(entries)) == {"bad fact", "bad line", "bad other", "bad own", "bad result", "gone"}
    seen: list[Entry] = []

    class Look(AgentPlugin):
        def transform_entries(self, entries: Sequence[Entry], request: ContextRequest) -> None:
            seen.extend(entries)

    messages = await project(entries, REQUEST, [Look(), Render("fact", "fact", [])])
    assert contents(messages) == [f"fact {WITHHELD_TEXT}", WITHHELD_TEXT, "fine"]
    assert seen[0].message == CustomMessage("fact", {"content": WITHHELD_TEXT, "user": {"id": "1"}}, id=fact.id)
    assert isinstance(seen[1].message, CustomMessage)
    assert (seen[1].message.type, seen[1].message.data) == (WITHHELD, {})
    mine, own = [message for message in messages if isinstance(message, AssistantMessage)]
    assert mine is entries[4].data
    assert own.content == [TextPart(WITHHELD_TEXT), ToolCallPart("1", "look", {})]
    (results,) = [message for message in messages if isinstance(message, ToolMessage)]
    assert results.content == [ToolResultPart("1", "look", ToolOutput("text", WITHHELD_TEXT))]
