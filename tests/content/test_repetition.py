"""Whether a text goes round in circles, and what is left of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.content import collapse_repetition


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("I like this song. " * 50, "I like this song. "),
        ("开头。" + "我真的很喜欢这首歌" * 50 + "我真的", "开头。我真的很喜欢这首歌"),
        ("Intro\n" + "line one\n" * 20 + "end", "Intro\nline one\nend"),
        ("A B C. D E F. " * 20, "A B C. D E F. "),
        ("你好！" * 50 + "再见", "你好！再见"),
        ("one two. " * 9 + "And " + "three four. " * 9, "one two. And three four."),
        ("I like cats. " * 8 + "I like dogs.", "I like cats. I like dogs."),
    ],
)
def test_the_same_sentence_in_a_row_is_said_once(text: str, left: str) -> None:
    """Our choice of bounds: six copies of a sentence, ten of a few characters."""
    assert collapse_repetition(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "",
        "哈" * 300,
        "hahaha" * 50,
        "-" * 80,
        "| --- " * 12 + "|",
        "0, " * 100,
        "well " * 5,
        "I like this song. " * 5,
        "The cat sat. The cat ate. The cat slept. The cat left. The cat came. The cat sat. The cat ate.",
    ],
)
def test_people_may_laugh_draw_and_insist(text: str) -> None:
    """Our choice: little is touched; what is not comes back as the same object."""
    assert collapse_repetition(text) is text


@given(st.text(max_size=200), st.text("abcd 字。", min_size=3, max_size=30), st.integers(0, 30), st.text(max_size=200))
def test_what_is_left_is_a_part_of_what_was_there_in_order(before: str, unit: str, copies: int, after: str) -> None:
    """Our choice: nothing is made up, only left out; and a second look finds no more than the first."""
    text = before + unit * copies + after
    left = collapse_repetition(text)
    rest = iter(text)
    assert all(character in rest for character in left)
    assert len(left) <= len(text)
