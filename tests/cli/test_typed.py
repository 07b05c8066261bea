from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.cli.typed import (
    HELP,
    Attach,
    Group,
    Help,
    Log,
    Private,
    Quit,
    Quote,
    Recall,
    Say,
    Typed,
    TypedError,
    User,
    read_typed,
)


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("hello", Say("hello")),
        ("你好 @bot", Say("你好 @bot")),
        ("//weather Oslo", Say("/weather Oslo")),
        ("/group 500", Group(500)),
        ("/group 500 茶馆 two", Group(500, "茶馆 two")),
        ("/private", Private()),
        ("/user 42", User(42)),
        ("/user 42 Rin", User(42, "Rin")),
        ("/quote 12 I agree", Quote(12, "I agree")),
        ("/reply #12 I agree", Quote(12, "I agree")),
        ("/quote last 好", Quote(None, "好")),
        ("/recall 12", Recall(12)),
        ("/recall last", Recall(None)),
        ("/file a b.txt", Attach("file", Path("a b.txt"))),
        ("/image cat.png", Attach("image", Path("cat.png"))),
        ("/log", Log()),
        ("/log 3", Log(3)),
        ("/help", Help()),
        ("/quit", Quit()),
        ("/exit", Quit()),
    ],
)
def test_a_typed_line_is_understood(line: str, meant: Typed) -> None:
    """Our choice; docs/guide/chat.md lists the commands."""
    assert read_typed(line) == meant


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("/grup 500", "/group"),
        ("/weather", "//weather"),
        ("/", "/help"),
        ("/group", "/group 500"),
        ("/group five", "'five'"),
        ("/group 0", "'0'"),
        ("/group \u0665", "number"),
        ("/group 99999999999999999999", "too long"),
        ("/user", "/user 42"),
        ("/quote 12", "/log"),
        ("/quote text", "/log"),
        ("/quote one two", "'one'"),
        ("/recall", "/recall 12"),
        ("/file", "/file path"),
        ("/log many", "'many'"),
        ("/private now", "/private"),
    ],
)
def test_a_wrong_command_is_answered_with_how_to_write_it(line: str, hint: str) -> None:
    """Our choice."""
    with pytest.raises(TypedError) as raised:
        read_typed(line)
    assert hint in str(raised.value)


def answer(line: str) -> str:
    """Return what the person is told about a wrong line; "" for a right one."""
    try:
        read_typed(line)
    except TypedError as error:
        return str(error)
    return ""


@given(st.text(min_size=1))
def test_whatever_is_typed_is_understood_or_answered(line: str) -> None:
    """Our choice: the prompt never dies of a line, and only commands can be wrong."""
    assert line.startswith("/") or answer(line) == ""


def test_help_lists_commands_that_exist() -> None:
    """Our choice."""
    words = [line.split()[0] for line in HELP.splitlines()]
    commands = [word for word in words if word.startswith("/") and not word.startswith("//")]
    assert len(commands) > 5
    assert [word for word in commands if "there is no" in answer(word)] == []
