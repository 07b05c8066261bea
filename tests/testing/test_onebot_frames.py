"""Segments, CQ codes and what an API call's message may look like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.jsonvalue import JsonValue
from ishiki.testing.onebot_frames import (
    Segment,
    at,
    image,
    message_value,
    parse_cq,
    read_segments,
    reply,
    segment,
    text,
    to_cq,
    visible_text,
)

_KEYS = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)


def _code(kind: str, data: dict[str, str]) -> Segment:
    return {"type": kind, "data": data}


_CODES = st.builds(
    _code,
    st.sampled_from(["at", "image", "face", "json", "mface"]),
    st.dictionaries(_KEYS, st.text(), max_size=3),
)


def _text(value: str) -> Segment:
    return text(value)


_TEXTS = st.builds(_text, st.text(min_size=1))


@st.composite
def _messages(draw: st.DrawFn) -> list[Segment]:
    """Messages without two texts side by side, which one string cannot tell apart."""
    parts: list[Segment] = []
    for part in draw(st.lists(st.one_of(_CODES, _TEXTS), max_size=6)):
        if not (parts and part["type"] == parts[-1]["type"] == "text"):
            parts.append(part)
    return parts


@given(_messages())
def test_a_message_reads_back_from_its_cq_string(message: list[Segment]) -> None:
    """OneBot v11, message/string: escapes lose nothing."""
    assert parse_cq(to_cq(message)) == message


@given(st.text(min_size=1))
def test_typed_text_never_becomes_a_code(typed: str) -> None:
    """OneBot v11, message/string: what a person types is escaped."""
    assert parse_cq(to_cq([text(typed)])) == [text(typed)]


def test_brackets_that_form_no_code_stay_text() -> None:
    """Our choice: an end is lenient with what a bot sends."""
    assert parse_cq("[CQ:] [cq:at,qq=1] &#91;") == [text("[CQ:] [cq:at,qq=1] [")]


_READINGS: list[tuple[JsonValue, tuple[Segment, ...] | None]] = [
    ("a[CQ:at,qq=1]", (text("a"), at(1))),
    ([text("a")], (text("a"),)),
    (at("all"), (at("all"),)),
    ([], ()),
    (None, None),
    (7, None),
    ([1], None),
    ([{"data": {}}], None),
    ([{"type": "text", "data": "a"}], None),
]


@pytest.mark.parametrize(("message", "expected"), _READINGS)
def test_every_legal_form_of_a_message_is_read_and_others_are_refused(
    message: JsonValue, expected: tuple[Segment, ...] | None
) -> None:
    """OneBot v11, message: a string, segments, or one segment."""
    assert read_segments(message) == expected


def test_auto_escape_makes_plain_text_of_a_string() -> None:
    """OneBot v11, api/send_private_msg, auto_escape."""
    assert read_segments("[CQ:at,qq=1]", auto_escape=True) == (text("[CQ:at,qq=1]"),)


def test_both_message_formats_say_the_same() -> None:
    """OneBot v11, message: array and string."""
    message = [at(7), text(" a,b&[c]"), image("cat.png", url="http://x/?a=1,2")]
    assert message_value(message, "array") == message
    assert (
        message_value(message, "string")
        == "[CQ:at,qq=7] a,b&amp;&#91;c&#93;[CQ:image,file=cat.png,url=http://x/?a=1&#44;2]"
    )


def test_the_visible_text_shows_mentions_and_media_and_no_quote() -> None:
    """Our choice: what assertions on sent messages read."""
    assert visible_text([reply(5), at(42), text(" look "), segment("face", id="1")]) == "@42 look [face]"
