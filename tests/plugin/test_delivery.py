"""Delivery: what the model writes becomes segments, and what it must not reach stays text or is reported."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.content import escape
from ishiki.jsonvalue import JsonValue, read_object, read_str
from ishiki.plugin.delivery import to_segments
from ishiki.plugin.segments import read_message
from ishiki.testing.onebot_frames import Frame, segment


def sent(markup: str) -> list[dict[str, JsonValue]]:
    """Return the segments of a message of which nothing was dropped."""
    message = to_segments(markup)
    assert message.dropped == []
    return message.segments


@pytest.mark.parametrize(
    ("markup", "segments"),
    [
        ("hello", [segment("text", text="hello")]),
        ("1 &lt; 2 &amp; 3 < 4", [segment("text", text="1 < 2 & 3 < 4")]),
        ('<at id="42"/> hi', [segment("at", qq="42"), segment("text", text=" hi")]),
        ('<at type="all"/>', [segment("at", qq="all")]),
        ('<at id="Rin"/> hi', [segment("text", text="@Rin hi")]),
        ('hi <quote id="5"/>you', [segment("reply", id="5"), segment("text", text="hi you")]),
        ('<img src="https://e.example.org/a.png"/>', [segment("image", file="https://e.example.org/a.png")]),
        ('<img src="data:image/png;base64,AAAA"/>', [segment("image", file="base64://AAAA")]),
        ('<audio src="data:audio/ogg;codecs=opus;base64,AA=="/>', [segment("record", file="base64://AA==")]),
        ('<video src="http://e.example.org/v.mp4"/>', [segment("video", file="http://e.example.org/v.mp4")]),
        ('<face id="178"/>', [segment("face", id="178")]),
        ('<face name="smile"/>', [segment("text", text="[smile]")]),
        ("<dice/>", [segment("dice")]),
        ("<markdown># a</markdown>", [segment("text", text="# a")]),
        ("<blink>x</blink>", [segment("text", text="<blink>x</blink>")]),
    ],
)
def test_an_element_becomes_its_segment(markup: str, segments: list[Frame]) -> None:
    """Design, delivery; OneBot v11, message segments."""
    assert sent(markup) == segments


@pytest.mark.parametrize("text", ["[CQ:image,file=file:///etc/hostname]", "[CQ:at,qq=all]", "&#91;CQ:at,qq=all&#93;"])
def test_a_cq_code_in_the_models_text_stays_text(text: str) -> None:
    """Issue, must hold."""
    (part,) = sent(text)
    assert part["type"] == "text"


@pytest.mark.parametrize(
    "source",
    [
        "file:///etc/hostname",
        "/etc/hostname",
        "../secret.png",
        "C:\\secret.png",
        "asset://abc",
        "ftp://e.example.org/a",
        "data:text/html,<b>",
        "http://[::1",
        "http://127.0.0.1/a.png",
        "http://127.1/a.png",
        "http://2130706433/a.png",
        "http://0x7f.1/a.png",
        "http://[::1]/a.png",
        "http://[::ffff:127.0.0.1]/a.png",
        "http://10.0.0.7:6099/api",
        "http://169.254.169.254/latest",
        "http://localhost/a.png",
        "http://napcat:6099/a.png",
        "http://printer.local/a.png",
        "http://localhost./a.png",
        "",
    ],
)
def test_a_source_that_the_end_must_not_read_is_dropped_and_reported(source: str) -> None:
    """Design, safety defaults: no local files, no private addresses; the rest of the message goes out."""
    message = to_segments(f'look <img src="{escape(source)}"/>')
    assert message.segments == [segment("text", text="look ")]
    assert len(message.dropped) == 1
    assert message.dropped[0].startswith("<img>")


def test_a_file_and_what_only_platforms_make_are_reported() -> None:
    """Our choice: uploads come later; nothing is dropped in silence."""
    message = to_segments('a<file name="n.pdf" src="asset://1"/><card type="json"/><forward id="1"/><quote/><at/>')
    assert message.segments == [segment("text", text="a")]
    assert [text.partition(">")[0] for text in message.dropped[:3]] == ["<file", "<card", "<forward"]
    assert len(message.dropped) == 5


def test_a_message_of_nothing_but_a_quote_or_spaces_is_not_sent() -> None:
    """Our choice: ends refuse it, or show an empty line."""
    assert sent('<quote id="5"/>') == []
    assert sent(" \n ") == []
    assert sent("") == []


def test_a_second_quote_is_reported() -> None:
    """OneBot v11, message segments: a message replies to one."""
    message = to_segments('<quote id="5"/><quote id="6"/>x')
    assert message.segments == [segment("reply", id="5"), segment("text", text="x")]
    assert len(message.dropped) == 1


@given(st.text())
def test_any_literal_text_arrives_as_it_was_written(text: str) -> None:
    """Design, delivery: `raw` is escaped text, and text is never interpreted."""
    arrived = "".join(str(part["data"]["text"]) for part in sent(escape(text)) if isinstance(part["data"], dict))
    assert arrived == (text if text.strip() else "")


@given(st.text(alphabet='<>/"= &;[]:,atimgquoesrcdCQfl1', max_size=80))
def test_any_markup_becomes_segments_that_read_back(markup: str) -> None:
    """Design, delivery: never raises; only known segment types leave."""
    message = to_segments(markup)
    kinds = {str(part["type"]) for part in message.segments}
    assert kinds <= {"text", "at", "reply", "image", "record", "video", "face", "rps", "dice"}
    assert "<unknown" not in read_message(list(message.segments)).markup


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ('hi <at qq="42"/>', ["hi ", "@42"]),
        ('hi <at name="Rin"/>', ["hi @Rin"]),
        ('<card title="News">look</card> there', ["look there"]),
        ('<card title="News"/> there', ["News there"]),
        ("<forward><message>one</message><message> two</message></forward>", ["one two"]),
    ],
)
def test_an_element_that_cannot_be_used_leaves_its_words(content: str, texts: list[str]) -> None:
    """Our choice: nothing that was said vanishes."""
    segments = to_segments(content).segments
    said = [
        read_str(data, "text") or f"@{read_str(data, 'qq')}" for one in segments if (data := read_object(one, "data"))
    ]
    assert said == texts
