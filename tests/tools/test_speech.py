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
