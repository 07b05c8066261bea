from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.cli.rendering import Rendered, mention_segments, plain, render
from ishiki.jsonvalue import read_object, read_str
from ishiki.testing.onebot_frames import Segment, at, image, reply, segment, text

NAMES = {"42": "Rin"}


def name_of(user_id: str) -> str:
    """Return the name of a user."""
    return NAMES.get(user_id, user_id)


@pytest.mark.parametrize(
    ("segments", "shown"),
    [
        ([text("hello "), at(42), text(" there")], "hello @Rin there"),
        ([at("all")], "@all"),
        ([at(77)], "@77"),
        ([image("cat.png")], "[image cat.png]"),
        ([segment("image", file="base64://" + "A" * 4000)], "[image of 3 kB]"),
        ([segment("image", file="base64://QUJD")], "[image of 3 bytes]"),
        ([segment("face", id="14")], "[face 14]"),
        ([segment("record", file="https://example.org/a.mp3")], "[record https://example.org/a.mp3]"),
        ([segment("dice")], "[dice]"),
        ([segment("markdown", content="**hi**")], "**hi**"),
        ([segment("hologram", depth=3)], "[hologram]"),
        ([{"type": "text"}], ""),
        (
            [segment("forward", id="f1"), segment("node", user_id="42", content=[text("one")])],
            "[forward f1]\n  Rin: one",
        ),
        ([segment("node", nickname="Kai", content="[CQ:face,id=1]two")], "  Kai: [face 1]two"),
    ],
)
def test_a_message_is_shown_as_words(segments: list[Segment], shown: str) -> None:
    """Our choice: nothing that was sent disappears."""
    assert render(segments, name_of) == Rendered(shown)


def test_a_quote_is_told_apart() -> None:
    """OneBot v11, message segments: `reply` names the quoted message."""
    assert render([reply(12), text("yes")], name_of) == Rendered("yes", quoted_id="12")


def test_what_the_bot_says_cannot_steer_the_terminal() -> None:
    """Design, safety defaults: content is data. An escape sequence could clear the screen or fake a line."""
    assert plain("a\x1b[2Jb\r\nc\td\x07\u202e") == "a\ufffd[2Jb\nc\td\ufffd\ufffd"


PEOPLE = {"bot": 10001, "Rin": 42, "Rin Aoki": 43, "林": 44}


@pytest.mark.parametrize(
    ("line", "mentioned"),
    [
        ("@bot hello", ["10001"]),
        ("hello @bot", ["10001"]),
        ("你好@bot在吗", ["10001"]),
        ("@bot, @Rin and @林", ["10001", "42", "44"]),
        ("@Rin Aoki", ["43"]),
        ("@77 @all", ["77", "all"]),
        ("me@bot.org", []),
        ("@bottle", []),
        ("@nobody", []),
        ("a @ b", []),
    ],
)
def test_an_at_with_a_known_name_is_a_mention(line: str, mentioned: list[str]) -> None:
    """Our choice: what a chat client's picker would insert."""
    found = [read_str(read_object(one, "data"), "qq") for one in mention_segments(line, PEOPLE) if one["type"] == "at"]
    assert found == mentioned


@given(st.text(st.sampled_from("@botRin all林.x"), max_size=30))
def test_a_line_keeps_all_its_words_around_mentions(line: str) -> None:
    """Our choice: turning words into mentions loses and adds nothing."""
    names = {str(user_id): name for name, user_id in PEOPLE.items()} | {"all": "all"}
    shown = ""
    for one in mention_segments(line, PEOPLE):
        data = read_object(one, "data")
        shown += read_str(data, "text") if one["type"] == "text" else f"@{names[read_str(data, 'qq')]}"
    assert shown == line
