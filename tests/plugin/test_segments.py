"""Every segment type of OneBot v11 and of the common ends: its markup, and the line that the model reads."""

from __future__ import annotations

import json
import re
from datetime import UTC
from pathlib import Path

import pytest

from ishiki.content import MessageLine, Quote, Speaker, Text, element, parse, render_message, serialise
from ishiki.jsonvalue import JsonValue
from ishiki.plugin.segments import SEGMENTS, read_forward, read_message
from ishiki.testing.onebot_frames import segment, to_cq

from .segment_table import BEYOND, STANDARD, TABLE

HEAD = "[11-14 22:13] Rin(42) #7: "


def line(message: JsonValue) -> str:
    """Return what the model reads of a message by Rin."""
    content = read_message(message)
    quote = Quote(content.quote.id) if content.quote is not None else None
    return render_message(MessageLine(1_700_000_000_000, Speaker("42", "Rin"), "7", content.markup, quote), UTC)


@pytest.mark.parametrize(("kind", "data", "markup"), TABLE)
def test_a_segment_becomes_its_element_in_array_and_in_cq_form(
    kind: str, data: dict[str, JsonValue], markup: str
) -> None:
    """Design, content; OneBot v11, message formats: both forms, and a single segment, say the same."""
    part = segment(kind, **data)
    for message in ([part], to_cq([part]), part):
        assert read_message(message).markup == markup
        assert line(message) == HEAD + markup


def test_a_reply_becomes_the_quote_and_leaves_the_content() -> None:
    """Specification, events: a quote has its own field, and the line shows it before the content."""
    parts = [segment("reply", id="5"), segment("text", text="yes")]
    for message in (parts, to_cq(parts)):
        content = read_message(message)
        assert (content.quote is not None and content.quote.id, content.markup) == ("5", "yes")
        assert line(message) == f"{HEAD}(reply to #5) yes"


def test_a_second_reply_and_one_without_an_id_do_not_disappear() -> None:
    """Design, content: a segment never disappears."""
    content = read_message([segment("reply"), segment("reply", id=5), segment("reply", id=6)])
    assert content.quote is not None
    assert content.quote.id == "5"
    assert content.markup == '<unknown type="reply"/><quote id="6"/>'


def test_the_table_covers_every_name_and_the_reference_page_too() -> None:
    """Issue, must hold: a test fails when a name is missing."""
    tested = {kind for kind, _, _ in TABLE} | {"reply"}
    assert set(SEGMENTS) == {*STANDARD, *BEYOND}
    assert [name for name, spec in SEGMENTS.items() if spec.is_standard] == list(STANDARD)
    assert tested == {*SEGMENTS, "sound"}
    page = (Path(__file__).parents[2] / "docs/reference/segments.md").read_text(encoding="utf-8")
    assert [name for name in SEGMENTS if not re.search(rf"^\| `{name}` \|", page, re.MULTILINE)] == []


@pytest.mark.parametrize(
    ("message", "markup"),
    [
        ("plain", "plain"),
        ("&#91;CQ:at,qq=all&#93; &amp;amp; &#44;", "[CQ:at,qq=all] &amp;amp; ,"),
        ("&amp;#91;", "&amp;#91;"),
        ("[CQ:at,qq=42]hi[CQ:face,id=1]", '<at id="42"/>hi<face id="1"/>'),
        ("[CQ:at,qq=1&#44;2]", '<at id="1,2"/>'),
        ("[CQ:shake]", "<shake/>"),
        ("a [b] [CQ:at,qq=1 <i>", "a [b] [CQ:at,qq=1 &lt;i&gt;"),
        ("[CQ:share,url=https://e.example.org/?a=b]", '<card type="share" url="https://e.example.org/?a=b"/>'),
        ("[CQ:strange.one,a=1]", '<unknown type="strange.one"/>'),
    ],
)
def test_a_cq_string_is_read_with_its_escapes(message: str, markup: str) -> None:
    """OneBot v11, message formats, string form: `&amp; &#91; &#93; &#44;`, read once."""
    assert read_message(message).markup == markup


ODD: list[tuple[JsonValue, str]] = [
    ([{"type": "text", "data": None}], ""),
    ([{"type": "text", "data": {"text": None}}], ""),
    ([{"type": "text", "data": {"text": 0}}], "0"),
    ([{"type": "text", "data": {"text": "  "}}], "  "),
    ([None, {"type": "text", "data": {"text": "x"}}], "x"),
    ([{"type": "image"}], "<img/>"),
    ([{"type": "at", "data": {"qq": None}}], '<unknown type="at"/>'),
    ([{"type": "at", "data": {"qq": 42}}], '<at id="42"/>'),
    ([{"type": ["x"]}], "<unknown/>"),
    ([17], "<unknown/>"),
    (["typed"], "typed"),
    (None, ""),
    ([], ""),
    (True, ""),
    ([{"type": "text", "data": {"text": "a\ud800b"}}], "a\ufffdb"),
    ([{"type": "image", "data": {"file": "base64://AAAA"}}], "<img/>"),
    ([{"type": "image", "data": {"file": "/root/cache/a.jpg"}}], '<img file="a.jpg"/>'),
    ([{"type": "image", "data": {"url": "file:///etc/passwd"}}], "<img/>"),
    ([{"type": "unheard\n<of>", "data": {}}], '<unknown type="unheard&#10;&lt;of&gt;"/>'),
]


@pytest.mark.parametrize(("message", "markup"), ODD)
def test_an_odd_segment_is_read_as_far_as_it_goes(message: JsonValue, markup: str) -> None:
    """Design, content: never raises, never disappears, bytes and local paths stay out of the log."""
    assert read_message(message).markup == markup


def test_what_a_user_typed_is_never_an_element() -> None:
    """Issue, must hold: `<at id="1"/>` and `[CQ:at,qq=all]` typed by a user are plain text."""
    typed = '<at id="1"/>[CQ:at,qq=all]'
    for message in ([segment("text", text=typed)], to_cq([segment("text", text=typed)])):
        assert parse(read_message(message).markup) == (Text(typed),)


def test_a_message_falls_back_to_its_raw_form() -> None:
    """Our choice: some ends leave `message` out where they send `raw_message`."""
    assert read_message(None, fallback="[CQ:face,id=1]x").markup == '<face id="1"/>x'


def test_a_keyboard_shows_its_labels() -> None:
    """Design, content: a card holds the text that a person sees."""
    rows: JsonValue = [{"buttons": [{"render_data": {"label": "Yes"}}, {"render_data": {"label": "No <"}}]}, None]
    assert read_message(segment("keyboard", content={"rows": rows})).markup == (
        '<card type="keyboard">Yes | No &lt;</card>'
    )


def test_nodes_side_by_side_are_one_bundle() -> None:
    """Our choice: OneBot v11 writes a bundle as `node` segments one after the other."""
    nodes = [
        segment("node", user_id="1", nickname="Ann", content=[segment("text", text="one")]),
        segment("node", user_id="2", nickname="Bo", content="two[CQ:face,id=3]"),
    ]
    assert read_message(nodes).markup == (
        '<forward><message user_id="1" name="Ann">one</message>'
        '<message user_id="2" name="Bo">two<face id="3"/></message></forward>'
    )


def test_a_forward_with_its_messages_keeps_them() -> None:
    """Design, content: `<forward>` with its nodes; NapCat sends them as message events."""
    inside: JsonValue = [
        {
            "sender": {"user_id": 1, "card": "Ann"},
            "time": 1_700_000_000,
            "message": [segment("reply", id=3), segment("text", text="one")],
        }
    ]
    assert read_message(segment("forward", id="F", content=inside)).markup == (
        '<forward id="F"><message user_id="1" name="Ann" time="1700000000000"><quote id="3"/>one</message></forward>'
    )


def test_forwards_inside_forwards_end_somewhere_and_read_back() -> None:
    """Our choice: five deep is unfolded, deeper ones are named."""
    message: JsonValue = [segment("text", text="core")]
    for number in range(200):
        message = [segment("forward", id=str(number), content=[segment("node", user_id="1", content=message)])]
    markup = read_message(message).markup
    assert markup.count("<forward") == 6
    assert serialise(parse(markup)) == markup


@pytest.mark.parametrize(
    "answer",
    [
        [segment("node", user_id="1", nickname="Ann", content="one")],
        [segment("node", uin="1", name="Ann", content=[segment("text", text="one")])],
        [{"sender": {"user_id": 1, "nickname": "Ann"}, "content": "one", "time": 0}],
        [{"user_id": 1, "sender": {"nickname": "Ann"}, "message": [segment("text", text="one")]}],
    ],
)
def test_a_fetched_bundle_is_read_in_the_forms_that_ends_use(answer: JsonValue) -> None:
    """OneBot v11, get_forward_msg, and the forms of go-cqhttp and NapCat."""
    (node,) = read_forward(answer)
    assert (node.user_id, node.user_name, node.content, node.timestamp) == ("1", "Ann", "one", 0)


@pytest.mark.parametrize(
    ("card", "markup"),
    [
        (
            {
                "app": "com.tencent.structmsg",
                "prompt": "[分享]Song",
                "meta": {
                    "music": {"title": "Song", "desc": "Singer", "jumpUrl": "https://m.example.org/1", "preview": ""}
                },
            },
            '<card type="json" title="Song" summary="Singer" url="https://m.example.org/1" '
            'app="com.tencent.structmsg"/>',
        ),
        (
            {"app": "com.tencent.map", "meta": {"Location.Search": {"name": "Park", "address": "West road"}}},
            '<card type="json" title="Park" summary="West road" app="com.tencent.map"/>',
        ),
        (
            {"app": "com.tencent.multimsg", "meta": {"detail": {"resid": "R/1", "summary": "2 messages"}}},
            '<forward id="R/1"/>',
        ),
        ({"app": "x", "prompt": "[Only a prompt]"}, '<card type="json" title="[Only a prompt]" app="x"/>'),
        ({"app": "x"}, '<card type="json" app="x">{"app": "x"}</card>'),
    ],
)
def test_a_json_card_shows_what_a_person_sees(card: JsonValue, markup: str) -> None:
    """Our choice: title, description, address; a card of which nothing is known keeps its source."""
    assert parse(read_message(segment("json", data=json.dumps(card))).markup) == parse(markup)


def test_a_json_card_may_come_decoded_or_broken() -> None:
    """Our choice: some ends decode the card; a broken one keeps its source."""
    assert read_message(segment("json", data={"prompt": "p"})).markup == '<card type="json" title="p"/>'
    assert read_message(segment("json", data="{broken")).markup == '<card type="json">{broken</card>'
    assert read_message(segment("json")).markup == '<card type="json"/>'
    assert read_message(segment("json", data="[" * 100_000)).markup.startswith('<card type="json">[[[')


def test_an_xml_card_with_a_document_type_is_not_parsed() -> None:
    """Our choice (safety): entities and external references need a declaration, which no card has."""
    bomb = '<!DOCTYPE m [<!ENTITY a "aaaa"><!ENTITY b SYSTEM "file:///etc/passwd">]><msg><title>&a;&b;</title></msg>'
    assert parse(read_message(segment("xml", data=bomb)).markup) == (element("card", Text(bomb), type="xml"),)
    assert read_message(segment("xml", data="<msg><unclosed>")).markup == (
        '<card type="xml">&lt;msg&gt;&lt;unclosed&gt;</card>'
    )


def test_an_xml_card_of_a_bundle_is_a_forward() -> None:
    """Our choice: older ends send merged forwards as such a card."""
    assert read_message(segment("xml", data='<msg action="viewMultiMsg" m_resid="R1"/>')).markup == '<forward id="R1"/>'
