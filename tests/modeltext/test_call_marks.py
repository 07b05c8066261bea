"""Where call syntax begins: every grammar, wherever it is torn off; and nothing of what people write."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from ishiki.content import strip_think
from ishiki.content.line_heads import without_line_heads
from ishiki.content.written_breaks import with_line_breaks
from ishiki.core.model import ToolSpec
from ishiki.jsonvalue import JsonObject
from ishiki.modeltext.call_marks import find_mark, without_frame
from ishiki.modeltext.call_reading import read_calls
from ishiki.modeltext.torn_calls import without_stray_end
from ishiki.testing.call_grammars import CALL_GRAMMARS
from ishiki.tools._speech import compose

_TEXT: JsonObject = {"type": "string"}


def _tool(name: str, *, required: str = "", **properties: JsonObject) -> ToolSpec:
    schema: JsonObject = {"type": "object", "properties": properties, "required": [required] if required else []}
    return ToolSpec(name, "", schema)


TOOLS = {
    tool.name: tool
    for tool in (
        _tool("send_message", required="messages", messages={"type": "array", "items": _TEXT}),
        _tool("search", required="query", query=_TEXT, limit={"type": "integer"}),
        _tool("read", required="url", url=_TEXT),
        _tool("note", required="text", text=_TEXT),
        _tool("wait", seconds={"type": "integer"}, reason=_TEXT),
        _tool("finish", reason=_TEXT),
    )
}

TALK = [
    'In XML you write <a href="x">link</a> and <b>bold</b>.',
    "Use `<tool_call>` for Qwen, `[TOOL_CALLS]` for Mistral and `<|python_tag|>` for Llama.",
    "the <tool_call> tag is what Qwen writes",
    "Vue: <template><div>{{ x }}</div></template>",
    "```xml\n<note>\n<to>Tove</to>\n</note>\n```",
    "<note>\n<to>Tove</to>\n<from>Jani</from>\n</note>",
    '```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```',
    'Here: {"name": "Rin", "age": 7, "tags": ["a"]}',
    '{"name": "Rin", "parameters": [1]} is valid JSON',
    'local t = {name = "x", [1] = {2, 3}} -- Lua',
    "local function f(x) return x end",
    "a < b and c > d, I <3 you, x<y>z",
    "f <| x |> g",
    "for (int i=0;i<n;i++) {}",
    "std::vector<int> v; std::map<std::string, int> m;",
    "Action: we go now\nReaction: fine",
    "Thought: maybe tomorrow?",
    "<search> is an element of HTML5",
    "wait(5) is too long",
    'read("x") returns text',
    "List<Function> functions; Function<String, Integer> f = x -> 1;",
    "[1] first\n[2] second",
    "[INFO] started",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "function App() { return <Foo bar={1} /> }",
    "<parameter>x</parameter>",
    "</div>",
    "<item>a</item>",
    "send_message is my tool",
    "I call `send_message(messages=[])` to talk",
    '```python\nsend_message(messages=["hi"])\n```\nlike so',
    'write {"messages": ["hi"]} there',
    "functools.partial(f, 1)",
    "<script>alert(1)</script>",
    "I said <s>old</s> new",
    "Final Answer: 42",
    "call:me later",
    "Rin(42): hi",
    "Python(3): yes",
    "10:30 #12: hi",
    "[CQ:at,qq=42] @Rin",
    '{"tool": "hammer", "args": 3}',
    "<actions> speak louder",
    "<观察>你好</观察>",
    "C:\\new\\table and [^\\n]*",
]
"""What people, and minds, write about code, markup and each other."""


@pytest.mark.parametrize("said", TALK)
def test_what_people_write_is_not_cut(said: str) -> None:
    """Our choice: whoever talks about such things still can."""
    assert find_mark(said, TOOLS) is None
    speech = compose([said], is_raw=False, plain_text=False, max_chars=5_000, tools=TOOLS, self_id="10001")
    assert "".join(speech.messages) == said.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@pytest.mark.parametrize("grammar", CALL_GRAMMARS)
def test_of_words_with_a_call_behind_them_the_words_are_left(grammar: str) -> None:
    """Reports of eleven vendors' models; today all of it was posted."""
    for name, arguments in (("send_message", {"messages": ["SECRET"]}), ("search", {"query": "SECRET", "limit": 3})):
        call = CALL_GRAMMARS[grammar].write(name, arguments)
        for is_raw in (False, True):
            speech = compose([f"hello\n{call}"], is_raw=is_raw, plain_text=False, max_chars=5_000, tools=TOOLS)
            assert speech.messages == ["hello"]


@pytest.mark.parametrize("grammar", CALL_GRAMMARS)
def test_a_message_that_is_a_call_of_send_message_is_said_by_its_words(grammar: str) -> None:
    """Design, section 2; decision `words-from-technical-forms`."""
    call = CALL_GRAMMARS[grammar].write("send_message", {"messages": ["hello", "you"]})
    speech = compose([call], is_raw=False, plain_text=False, max_chars=5_000, tools=TOOLS)
    assert speech.messages == ["hello", "you"]
    other = CALL_GRAMMARS[grammar].write("search", {"query": "SECRET"})
    speech = compose([other], is_raw=False, plain_text=False, max_chars=5_000, tools=TOOLS)
    assert speech.messages == []
    assert speech.dropped == ["message 1: a tool call written as text is not said; call the tool itself"]


@pytest.mark.parametrize("grammar", CALL_GRAMMARS)
def test_a_torn_call_leaves_nothing_of_its_arguments(grammar: str) -> None:
    """Our choice: cut from the first mark on, wherever the text ends behind it."""
    call = CALL_GRAMMARS[grammar].write("send_message", {"messages": ["SECRET one", "SECRET two"]})
    begins = call.index("SECRET one")
    for end in range(begins, len(call), 3):
        speech = compose([f"hello\n{call[:end]}"], is_raw=False, plain_text=False, max_chars=5_000, tools=TOOLS)
        assert speech.messages == ["hello"], call[:end]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hi</item></messages></send_message>", ["hi"]),
        ("hi\n</invoke>", ["hi"]),
        ("<send_message>hello</send_message>", ["hello"]),
        ('send_message({"messages": ["hello"]})', ["hello"]),
        ("<send_message><messages><item>hello", ["hello"]),
        ("hello <finish/>", ["hello"]),
        ("hello</parameter>\n</function>\n</tool_call>", ["hello"]),
        ("<messages><item>hello</item><item>you</item></messages>", ["hello", "you"]),
        ('messages:\n  - hello\n  - "you"\n</send_message>', ["hello", "you"]),
        ("<|im_start|>assistant\nhello<|im_end|>", ["hello"]),
        (
            "<|channel|>analysis<|message|>SECRET<|end|><|start|>assistant<|channel|>final<|message|>hello<|return|>",
            ["hello"],
        ),
        ("<|START_THINKING|>SECRET<|END_THINKING|><|START_RESPONSE|>hello<|END_RESPONSE|>", ["hello"]),
        ("hello</s>", ["hello"]),
        ("Thought: SECRET\nFinal Answer: hello", ["hello"]),
        ("<|begin_of_box|>hello<|end_of_box|>", ["hello"]),
        ("[THINK]SECRET[/THINK]hello", ["hello"]),
        ("hello<tool_response>SECRET</tool_response>", ["hello"]),
    ],
)
def test_of_frames_and_torn_ends_the_words_are_left(text: str, said: list[str]) -> None:
    """Chat templates of the vendors, and the second halves of our own engines' grammars."""
    assert compose([text], is_raw=False, plain_text=False, max_chars=5_000, tools=TOOLS).messages == said


@pytest.mark.parametrize(
    "half",
    [
        'name":"search","arguments":{"query":"SECRET","limit":3}}',
        '"arguments": {"messages": ["SECRET"]}}\n</tool_call>',
        'calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{"query":"SECRET"}\n```',
        "call_begin|>functions.search:0<|tool_call_argument_begin|>{}",
        '{"messages": ["SECRET"]}</invoke>',
        "</parameter>\n</invoke>\n</function_calls>\nSECRET",
        "<query>SECRET</query>\n<limit>3</limit>\n</search>",
        'Action Input: {"query": "SECRET"}',
        '/tool_call>\n<tool_call>{"name": "search"',
        '"actions":[{"function":"search","params":{"query":"SECRET"}}]}',
    ],
)
def test_of_the_second_half_of_a_call_nothing_is_said(half: str) -> None:
    """Our choice: a server has read the beginning, or a model has lost it."""
    speech = compose([f"hello\n{half}\n"], is_raw=False, plain_text=False, max_chars=5_000, tools=TOOLS)
    assert [message.strip() for message in speech.messages] in (["hello"], ["hello\nname"])


_UNITS = [
    *("<", "<|", "<｜", "< ", "<tool_call>", "<tool_call> ", "</tool_call>", '{"name": ', "[", "`", "```\n", "~~~\n"),
    *(
        "Thought: x\n",
        "Action: search\n",
        "send_message(",
        "<send_message>",
        "<search>\n",
        "[TOOL_CALLS]",
        "<function=x>",
    ),
    *(
        "<think",
        "<think ",
        '{"thoughts": "x',
        '{"id":"1",',
        "to=functions.",
        "<arg_key>",
        "call:search{",
        "search{",
        "\\n",
    ),
    *("(you) ", "[11-30 10:00] ", "Rin(42", "<br", "\n", " ", '{"a":', "</item>", "<|channel|>analysis", "\\", "'"),
]
_READERS: list[Callable[[str], object]] = [
    lambda text: find_mark(text, TOOLS),
    lambda text: read_calls(text, TOOLS),
    lambda text: without_stray_end(without_frame(text)),
    strip_think,
    without_line_heads,
    with_line_breaks,
]


@pytest.mark.parametrize("unit", _UNITS)
def test_reading_costs_no_more_than_the_length_of_the_text(unit: str) -> None:
    """Our choice: what strangers can make a model write is read in one pass. A square would be 16 times as much."""
    for read in _READERS:
        short, long = (_cost(read, (unit * length)[:length]) for length in (8_000, 32_000))
        assert long < 9 * short + 0.02, read


def _cost(read: Callable[[str], object], text: str) -> float:
    """Return the least processor time of three runs, in seconds."""
    costs: list[float] = []
    for _ in range(3):
        began = time.process_time()
        read(text)
        costs.append(time.process_time() - began)
    return min(costs)
