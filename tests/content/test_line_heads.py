"""A model that writes the transcript on: its own heads go, and where it speaks as somebody else its words end."""

from __future__ import annotations

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.content import MessageLine, Quote, Speaker, render_message, with_line_breaks, without_line_heads

ME = "10001"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[11-30 10:00] (you) #12: hello", "hello"),
        ("[11-30 10:00] (you): hello", "hello"),
        ("[11-30 10:00] (you) hello", "hello"),
        ("(you) #12: hello", "hello"),
        ("(you): hello", "hello"),
        ("Neko(10001): hello", "hello"),
        ("Neko(10001) #3: hello", "hello"),
        ("[11-30 10:00] Neko(10001) #3: hello", "hello"),
        ("[11-30 10:00] 10001 #3: hello", "hello"),
        ("[11-30 10:00] hello", "hello"),
        ("[2026-11-30 10:00:01] (you): hello", "hello"),
        ("小猫（10001）：你好", "你好"),
        ("[11-30 10:00] (you) #12: (reply to #7 Rin: has anyone?) hello", "hello"),
        ("(reply to #7 Rin: has anyone?) hello", "hello"),
        ("[12|11-30 10:00|(you)] hello", "hello"),
        ("<message>[12|11-30 10:00|Neko(10001)|reply to 3] hello</message>", "hello"),
        ("[11-30 10:00] (you) #1: one\n    two\n[11-30 10:01] (you) #2: three", "one\ntwo\nthree"),
        ('[channel target={"sid":"onebot:1","channelId":"group:5"}]\nhello', "hello"),
    ],
)
def test_the_minds_own_head_is_not_said(text: str, said: str) -> None:
    """Our choice: the heads of `lines` and of the world state, and how models vary them."""
    assert without_line_heads(text, ME) == said


@pytest.mark.parametrize(
    "behind",
    [
        "[11-30 10:01] Rin(42) #13: me too",
        "[11-30 10:01] 42 #13: me too",
        "Rin(424242): me too",
        "Rin(42) #13: me too",
        "[13|11-30 10:01|Rin(42)] me too",
        "[11-30 10:01] (recall) Rin(42) recalled their own message #7",
        "<new_events>",
    ],
)
def test_words_end_where_somebody_else_speaks(behind: str) -> None:
    """Our choice: a mind says nothing in the name of others."""
    assert without_line_heads(f"hello\n{behind}\nand more", ME) == "hello"
    assert without_line_heads(f"[11-30 10:00] (you) #12: hello\n{behind}", ME) == "hello"
    assert without_line_heads(behind, ME) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Python(3): a language",
        "f(x): the function",
        "Rin(42): hi",
        "12345: that is it",
        "at 10:30: we go",
        "[11-30 10:00] tea\n[11-30 12:00] lunch",
        "```\n[11-30 10:00] (you) #12: hello\n```",
        "look (you): no",
        "今天来的人有张三，李四和王五(123456)：大家好",
        "https://example.org/(you): x",
        "    indented\n        code",
    ],
)
def test_what_is_no_head_stays(text: str) -> None:
    """Our choice: a name and a colon are how people write."""
    assert without_line_heads(text, ME) == text


_ids = st.sampled_from(["10001", "42", "u_7", "999999999"])
_names = st.sampled_from(["", "Rin", "(you)", "小猫", "a:b", "[x]"])
_quotes = st.sampled_from([None, Quote("7"), Quote("7", Speaker("42", "Rin"), "has <at id='1'/> anyone?"), Quote("")])


@given(_ids, _names, st.booleans(), _quotes, st.integers(0, 4_000_000_000_000))
def test_every_head_that_we_render_is_known(
    user_id: str, name: str, is_self: bool, quote: Quote | None, time_ms: int
) -> None:
    """The renderer and its imitation cannot come apart."""
    speaker = Speaker(user_id, name, is_self)
    line = render_message(MessageLine(time_ms, speaker, "12", "hello\nyou", quote), UTC)
    is_own = is_self or user_id == ME
    assert without_line_heads(line, ME) == ("hello\nyou" if is_own else "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (r"one\ntwo", "one\ntwo"),
        (r"第一行\n第二行", "第一行\n第二行"),
        (r"a\n\nb", "a\n\nb"),
        (r"1. tea\n2. milk", "1. tea\n2. milk"),
        (r"a\r\nb", "a\nb"),
        (r"end.\n", "end.\n"),
        ("a<br>b<br/>c<br />d", "a\nb\nc\nd"),
        (r"Hi!\nIt is in C:\new", "Hi!\nIt is in C:\\new"),
    ],
)
def test_a_line_break_that_is_written_out_is_one(text: str, said: str) -> None:
    """Reports: models encode their text twice, and groups read the two characters."""
    assert with_line_breaks(text) == said


@pytest.mark.parametrize(
    "text",
    [
        r"C:\new\notes",
        r"..\new",
        r"src\new.py",
        r"\\server\new",
        r"dir\temp\new",
        r"[^\n]+",
        r"\n is a line break",
        r"use \n for that",
        r'"\n"',
        r'print("a\nb")',
        r"`a\nb`",
        "a real one\nand a\\nb",
        r"\frac{\nu}{2}",
        "`<br>` is a tag",
    ],
)
def test_a_backslash_that_is_meant_stays(text: str) -> None:
    """Our choice; the rule is in docs/formats/markup.md."""
    assert with_line_breaks(text) == text
