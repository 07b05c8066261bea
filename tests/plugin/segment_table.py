"""The segment table: one row for each type, and what it becomes. The one list that all tests of segments read."""

from __future__ import annotations

import json

from ishiki.jsonvalue import JsonValue

__all__ = ["BEYOND", "STANDARD", "TABLE"]

STANDARD = (
    *("text", "face", "image", "record", "video", "at", "rps", "dice", "shake", "poke", "anonymous", "share"),
    *("contact", "location", "music", "reply", "forward", "node", "xml", "json"),
)
"""OneBot v11, message segments: the list of the standard."""

BEYOND = ("mface", "file", "onlinefile", "markdown", "keyboard")
"""Those that NapCat, Lagrange and LLOneBot send besides."""

MINI_APP = json.dumps(
    {
        "app": "com.tencent.miniapp_01",
        "prompt": "[QQ小程序]哔哩哔哩",
        "meta": {
            "detail_1": {
                "title": "哔哩哔哩",
                "desc": "A cat, asleep [live]",
                "preview": "pic.example.org/cat.png",
                "qqdocurl": "https://b23.example/x?a=1&b=2",
            }
        },
    },
    ensure_ascii=False,
)
XML = (
    '<?xml version="1.0" encoding="UTF-8"?><msg serviceID="1" brief="[share] News" url="https://example.org/n">'
    '<item><picture cover="https://example.org/c.png"/><title>News</title>'
    "<summary>Rain &amp; wind</summary></item></msg>"
)

TABLE: list[tuple[str, dict[str, JsonValue], str]] = [
    ("text", {"text": "a <b> & [CQ:at,qq=all]"}, "a &lt;b&gt; &amp; [CQ:at,qq=all]"),
    ("face", {"id": "178"}, '<face id="178"/>'),
    ("face", {"id": "0"}, '<face id="0"/>'),
    (
        "image",
        {"file": "A.jpg", "url": "https://img.example.org/A?x=1&y=2"},
        '<img src="https://img.example.org/A?x=1&amp;y=2" file="A.jpg"/>',
    ),
    ("image", {"file": "A.jpg", "type": "flash"}, '<img type="flash" file="A.jpg"/>'),
    (
        "image",
        {"file": "A.jpg", "sub_type": "1", "summary": "[动画表情]"},
        '<img type="sticker" summary="动画表情" file="A.jpg"/>',
    ),
    (
        "record",
        {"file": "v.amr", "url": "http://e.example.org/v"},
        '<audio src="http://e.example.org/v" file="v.amr"/>',
    ),
    ("video", {"file": "v.mp4", "url": "http://e.example.org/m"}, '<video src="http://e.example.org/m" file="v.mp4"/>'),
    ("at", {"qq": "10001"}, '<at id="10001"/>'),
    ("at", {"qq": "42", "name": 'Rin" id="1'}, '<at id="42" name="Rin&quot; id=&quot;1"/>'),
    ("at", {"qq": "all"}, '<at type="all"/>'),
    ("rps", {}, "<rps/>"),
    ("rps", {"result": "2"}, '<rps result="2"/>'),
    ("dice", {}, "<dice/>"),
    ("dice", {"result": "6"}, '<dice result="6"/>'),
    ("shake", {}, "<shake/>"),
    ("poke", {"type": "126", "id": "2003", "name": "Poke"}, '<poke type="126" id="2003" name="Poke"/>'),
    ("anonymous", {}, "<anonymous/>"),
    (
        "share",
        {"url": "https://example.org", "title": "Home", "content": "About us", "image": "https://example.org/i.png"},
        '<card type="share" title="Home" summary="About us" url="https://example.org" src="https://example.org/i.png"/>',
    ),
    ("contact", {"type": "qq", "id": "10001000"}, '<card type="contact" kind="qq" id="10001000"/>'),
    ("contact", {"type": "group", "id": "100100"}, '<card type="contact" kind="group" id="100100"/>'),
    (
        "location",
        {"lat": "39.8", "lon": "116.4", "title": "Here", "content": "Main street"},
        '<card type="location" title="Here" summary="Main street" lat="39.8" lon="116.4"/>',
    ),
    ("music", {"type": "163", "id": "28949129"}, '<card type="music" kind="163" id="28949129"/>'),
    (
        "music",
        {"type": "custom", "url": "https://m.example.org", "audio": "https://m.example.org/a.mp3", "title": "Song"},
        '<card type="music" kind="custom" title="Song" url="https://m.example.org"/>',
    ),
    ("forward", {"id": "F-1"}, '<forward id="F-1"/>'),
    ("node", {"id": "77"}, '<forward id="77"/>'),
    (
        "xml",
        {"data": XML},
        '<card type="xml" title="News" summary="Rain &amp; wind" url="https://example.org/n" '
        'src="https://example.org/c.png"/>',
    ),
    (
        "json",
        {"data": MINI_APP},
        '<card type="json" title="哔哩哔哩" summary="A cat, asleep [live]" url="https://b23.example/x?a=1&amp;b=2" '
        'src="https://pic.example.org/cat.png" app="com.tencent.miniapp_01"/>',
    ),
    (
        "mface",
        {
            "emoji_id": "e",
            "emoji_package_id": "1",
            "key": "k",
            "summary": "[贴贴]",
            "url": "https://g.example.org/e.gif",
        },
        '<img src="https://g.example.org/e.gif" type="mface" summary="贴贴"/>',
    ),
    (
        "file",
        {"file": "notes.pdf", "file_id": "/abc", "file_size": "1024"},
        '<file name="notes.pdf" size="1024" id="/abc"/>',
    ),
    (
        "onlinefile",
        {"msgId": "7", "elementId": "8", "fileName": "notes.pdf", "fileSize": "1024", "isDir": False},
        '<file name="notes.pdf" size="1024"/>',
    ),
    ("markdown", {"content": "# Title <b>"}, "<markdown># Title &lt;b&gt;</markdown>"),
    ("keyboard", {}, '<card type="keyboard"/>'),
    ("sound", {"n": "1"}, '<unknown type="sound"/>'),
]
