"""What becomes of the strings that the model wants to say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.content import visible_text
from ishiki.tools._speech import compose


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello", "hello"),
        ("<think>hm</think>hello", "hello"),
        ("hello<think>hm", "hello"),
        ("hm</think>hello", "hello"),
        ('<at id="42"/> hi', '<at id="42"/> hi'),
        ("1 < 2 & <b>", "1 &lt; 2 &amp; &lt;b&gt;"),
        ("[CQ:at,qq=all]", "[CQ:at,qq=all]"),
    ],
)
def test_reasoning_goes_and_known_markup_stays(text: str, said: str) -> None:
    """Design, section 2, what a group never sees; section 6, unknown tags and stray signs are text."""
    speech = compose([text], is_raw=False, plain_text=False, max_chars=100)
    assert (speech.messages, speech.dropped) == ([said], [])


def test_raw_text_is_text() -> None:
    """Specification, send_message: `raw` is sent literally; reasoning goes all the same."""
    speech = compose(['<think>x</think><at id="42"/>'], is_raw=True, plain_text=False, max_chars=100)
    assert speech.messages == ['&lt;at id="42"/&gt;']


def test_what_came_to_nothing_is_reported_with_its_number() -> None:
    """Design, section 2: what is left empty is reported as dropped."""
    speech = compose(["a", "<think>b</think>", " \n"], is_raw=False, plain_text=False, max_chars=100)
    assert speech.messages == ["a"]
    assert [line.partition(":")[0] for line in speech.dropped] == ["message 2", "message 3"]
    assert "reasoning" in speech.dropped[0]


def test_markdown_becomes_plain_text_where_it_is_asked_for() -> None:
    """Design, long replies: `plain_text: true`."""
    assert compose(["**hi** <at id='1'/>"], is_raw=False, plain_text=True, max_chars=100).messages == [
        'hi <at id="1"/>'
    ]


def test_a_long_reply_is_cut_at_sentence_ends() -> None:
    """Design, long replies."""
    speech = compose(["One two. " * 30], is_raw=False, plain_text=False, max_chars=50)
    assert len(speech.messages) > 5
    assert all(message.endswith("two.") for message in speech.messages)


@given(st.lists(st.text(), max_size=5), st.integers(5, 50))
def test_no_message_is_empty_or_longer_than_the_limit(texts: list[str], limit: int) -> None:
    """Design, long replies: below the platform's limit; only one visible character may be longer by itself."""
    speech = compose(texts, is_raw=True, plain_text=False, max_chars=limit)
    for message in speech.messages:
        shown = visible_text(message)
        assert shown.strip()
        assert len(shown) <= limit or not shown.isascii()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"messages": ["hi", "there"]}', ["hi", "there"]),
        ('{"messages": "hi"}', ["hi"]),
        ('```json\n{"messages": ["hi"], "continue": false}\n```', ["hi"]),
        ('{"name": "send_message", "arguments": {"messages": ["<think>x</think>hi"]}}', ["hi"]),
        ('{"name": "send_message", "arguments": "{\\"messages\\": [\\"hi\\"]}"}', ["hi"]),
        ('<tool_call>{"name": "send_message", "arguments": {"messages": ["hi"]}}</tool_call>', ["hi"]),
        ('well <tool_call>{"name": "search", "arguments": {}}</tool_call>', ["well"]),
        ('well <tool_call>{"name": "sea', ["well"]),
        ("[{'type': 'text', 'text': 'a'}, {'type': 'text', 'text': 'b'}]", ["ab"]),
        ('[{"type": "text", "text": "a"}]', ["a"]),
        ('{"type": "text", "text": "a"}', ["a"]),
    ],
)
def test_of_a_technical_form_the_words_are_said(text: str, said: list[str]) -> None:
    """Design, section 2: a group never sees raw tool JSON; what it certainly says is said."""
    speech = compose([text], is_raw=False, plain_text=False, max_chars=100)
    assert speech.messages == said


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "search", "arguments": {"q": "x"}}',
        '{"name": "send_message", "arguments": {"text": "x"}}',
        "<tool_call>search(x)</tool_call>",
        '{"messages": 7}',
        '{"messages": []}',
    ],
)
def test_a_tool_call_as_text_without_words_is_reported(text: str) -> None:
    """Design, section 2: a group never sees raw tool JSON; the model learns that it was not said."""
    speech = compose([text], is_raw=False, plain_text=False, max_chars=100)
    assert speech.messages == []
    assert speech.dropped == ["message 1: a tool call written as text is not said; call the tool itself"]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '{"name": "Rin", "age": 7}',
        "{'messages': this is no JSON",
        "[1, 2, 3]",
        "[]",
        "{}",
        '[{"type": "image"}]',
        'write {"messages": ["hi"]} there',
        "[[[[" * 500,
        "the tag is called tool_call",
    ],
)
def test_whoever_talks_about_json_still_can(text: str) -> None:
    """Our choice: only whole strings of exactly our forms are technical."""
    assert compose([text], is_raw=False, plain_text=False, max_chars=5_000).messages == [text]


def test_raw_text_may_have_any_form() -> None:
    """Specification, send_message: `raw` is sent literally."""
    text = '{"messages": ["hi"]}'
    assert compose([text], is_raw=True, plain_text=False, max_chars=100).messages == [text]


def test_a_sentence_over_and_over_is_said_once_and_reported() -> None:
    """Design, section 2: a group never sees the same sentence over and over."""
    speech = compose(["I like this song. " * 50], is_raw=False, plain_text=False, max_chars=1_000)
    assert [message.strip() for message in speech.messages] == ["I like this song."]
    assert speech.dropped == ["message 1: it repeated itself over and over, and was said once"]
