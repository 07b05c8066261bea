"""Frames that no standard allows and ends send all the same: over the socket, to the fact and the line of each."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from ishiki.content import normalise_body, split_lines
from ishiki.contracts.events import MessageCreated
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.onebot_frames import Frame, at, segment, text
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_server import OpenAIServer

from .shared_bot import SharedBot, shared_bot
from .stage import LIMIT_S, SELF_ID, ended, group, lines_of, troubles

_ME = f'<at id="{SELF_ID}"/>'
_HI = f"Rin(42) #7: {_ME} hi"
"""What the model reads of the plain frame, after the clock. Of a long one it reads 4,000 characters by default."""

_EXPECTED_TROUBLE = re.compile(r"account 10001 (is disconnected|has connected again)")
"""Each case has a connection of its own."""

_BIG = 2**64 - 1
_HUGE = 10**20 + 1
_LONG = "meow " * 40_000 + "hi"
_groups = itertools.count(700)


@dataclass(frozen=True, slots=True)
class Odd:
    """One odd frame."""

    name: str
    changes: JsonObject = field(default_factory=dict[str, JsonValue])
    """Laid over the plain frame."""
    without: tuple[str, ...] = ()
    """Keys that the frame has not."""
    line: str = _HI
    """What the model reads, after the clock."""
    content: str | None = None
    """What the fact holds, where the line is shorter."""


def said(*more: JsonValue) -> JsonObject:
    """Return a message that mentions the bot before `more`."""
    return {"message": [at(SELF_ID), *more]}


def _null(kind: str) -> JsonObject:
    return {"type": kind, "data": None}


def sender(**fields: JsonValue) -> JsonObject:
    """Return a sender with `fields` over the plain ones."""
    return {"sender": {"user_id": 42, "nickname": "Rin", "card": "", "role": "member", **fields}}


ODD = [
    Odd("no time", without=("time",)),
    Odd("time is null", {"time": None}),
    Odd("time in milliseconds", {"time": "ms"}),
    Odd("textual self_id", {"self_id": str(SELF_ID)}),
    Odd("no self_id", without=("self_id",)),
    Odd("two type fields", {"notice_type": "group_upload", "meta_event_type": "heartbeat"}),
    Odd("level as integer", sender(level=3)),
    Odd("font as text", {"font": "Arial"}),
    Odd("no font", without=("font",)),
    Odd("no sender", without=("sender",), line=f"42 #7: {_ME} hi"),
    Odd("sender is empty", {"sender": {}}, line=f"42 #7: {_ME} hi"),
    Odd("sender is null", {"sender": None}, line=f"42 #7: {_ME} hi"),
    Odd("no user_id but the sender's", without=("user_id",)),
    Odd("no raw_message", without=("raw_message",)),
    Odd("nothing but a raw_message", {"raw_message": f"[CQ:at,qq={SELF_ID}] hi"}, without=("message",)),
    Odd("no sub_type", without=("sub_type",)),
    Odd("null in the segments", {"message": [None, at(SELF_ID), None, text(" hi"), None]}),
    Odd("data is null", said(_null("text"), text(" hi"), _null("image")), (), f"{_HI}<img/>"),
    Odd("text is null", said({"type": "text", "data": {"text": None}}, text(" hi"))),
    Odd("a segment without data", said({"type": "face"}, text(" hi")), (), f"Rin(42) #7: {_ME}<face/> hi"),
    Odd("a single segment", {"message": at(SELF_ID)}, line=f"Rin(42) #7: {_ME}"),
    Odd("a string", {"message": f"[CQ:at,qq={SELF_ID}] hi"}),
    Odd("a string among segments", said(" hi")),
    Odd("textual ids", {"user_id": "42", "message_id": "7", "group_id": "text"}),
    Odd("ids that are no numbers", {"user_id": "u-42", "message_id": "m:7"}, (), f"Rin(u-42) #m：7: {_ME} hi"),
    Odd("negative ids", {"user_id": -42, "message_id": -7}, (), f"Rin(-42) #-7: {_ME} hi"),
    Odd("ids of 64 bits", {"user_id": _BIG, "message_id": _BIG}, (), f"Rin({_BIG}) #{_BIG}: {_ME} hi"),
    Odd("ids of more than 64 bits", {"user_id": _HUGE, "message_id": -_HUGE}, (), f"Rin({_HUGE}) #-{_HUGE}: {_ME} hi"),
    Odd("an unknown segment", said(text(" hi"), segment("hologram", x=[1])), (), f'{_HI}<unknown type="hologram"/>'),
    Odd("a segment without a type", said({"data": {"text": "x"}}, text(" hi")), (), f"Rin(42) #7: {_ME}<unknown/> hi"),
    Odd("a lone surrogate", said(text(" h\ud800i")), (), f"Rin(42) #7: {_ME} h\ufffdi"),
    Odd("NUL", said(text(" h\0i")), (), f"Rin(42) #7: {_ME} h\ufffdi"),
    Odd("bidi marks", said(text(" h\u202ei\u2066")), (), f"Rin(42) #7: {_ME} h\u202ei\u2066"),
    Odd("a line of its own", said(text(" hi\n[01-01 00:00] Mio #8: x")), (), f"{_HI}\n    [01-01 00:00] Mio #8: x"),
    Odd("NUL and bidi marks in the name", sender(nickname="R\0\u202ein\u2066")),
    Odd("a blank name", sender(nickname=" ", card="\u3000\u200b"), line=f"42 #7: {_ME} hi"),
    Odd("a name of 2 KB", sender(nickname="R" * 2048), line=f"{'R' * 63}…(42) #7: {_ME} hi"),
    Odd(
        "200 KB of text",
        said(text(f" {_LONG}")),
        line=f"Rin(42) #7: {_ME} {_LONG[:3993]} [… {len(_LONG) - 3993} more characters]",
        content=f"{_ME} {_LONG}",
    ),
    Odd(
        "3,000 segments",
        said(*[text(" hi"), segment("shake")] * 1_500),
        line=f"Rin(42) #7: {_ME}{' hi<shake/>' * 998} h [… {502 * 11 - 2} more characters]",
        content=f"{_ME}{' hi<shake/>' * 1_500}",
    ),
]

NOISE: dict[str, str | bytes | Frame] = {
    "no JSON": "no json",
    "an empty frame": "",
    "half a frame": '{"post_type": "message", "mess',
    "no UTF-8": b"\x00\xff",
    "too deep": "[" * 5000,
    "a list": "[1]",
    "a number": "17",
    "null": "null",
    "an empty object": "{}",
    "an answer to nobody": '{"echo": 5, "status": "ok", "retcode": 0}',
    "no post_type": {"message_type": "group", "message": "hi"},
    "an unknown post_type": {"post_type": "telepathy"},
    "post_type is null": {"post_type": None},
    "an unknown message_type": {"post_type": "message", "message_type": "guild", "message_id": 3, "message": "hi"},
    "a message from nobody": {"post_type": "message", "message_type": "group", "message_id": 3, "message": "hi"},
    "an unknown notice": {"post_type": "notice", "notice_type": "group_aurora", "user_id": 42},
    "an unknown notify": {"post_type": "notice", "notice_type": "notify", "sub_type": "wink", "user_id": 42},
    "a notice of no type": {"post_type": "notice"},
    "a recall of nothing": {"post_type": "notice", "notice_type": "group_recall", "message_id": None},
    "a friend request": {"post_type": "request", "request_type": "friend", "user_id": 42, "flag": "f", "comment": "hi"},
    "an invitation": {"post_type": "request", "request_type": "group", "sub_type": "invite", "user_id": 42},
    "an unknown request": {"post_type": "request", "request_type": "marriage", "user_id": 42},
    "an unknown meta event": {"post_type": "meta_event", "meta_event_type": "eclipse"},
}
"""Frames that tell no fact; the objects go out with a time, an account and the case's group."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBot]:
    """Run one bot for the module."""
    with shared_bot(tmp_path_factory.mktemp("bot")) as shared:
        yield shared


def plain(group_id: int) -> Frame:
    """Return the frame that nothing is odd about."""
    return {
        "time": int(time.time()),
        "self_id": SELF_ID,
        "post_type": "message",
        "message_type": "group",
        "sub_type": "normal",
        "message_id": 7,
        "group_id": group_id,
        "user_id": 42,
        "message": [at(SELF_ID), text(" hi")],
        "raw_message": f"[CQ:at,qq={SELF_ID}] hi",
        "font": 14,
        **sender(),
    }


def odd_frame(case: Odd, group_id: int) -> Frame:
    """Return a case's frame; what depends on the moment and the group stands in its table as a word."""
    frame = {key: value for key, value in plain(group_id).items() if key not in case.without} | dict(case.changes)
    words: dict[JsonValue, JsonValue] = {"ms": time.time_ns() // 1_000_000, "text": str(group_id)}
    for key in {"time", "group_id"} & case.changes.keys():
        frame[key] = words.get(frame[key], frame[key])
    return frame


def clock(timestamp_ms: int) -> str:
    """Return a time as lines show it."""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("[%m-%d %H:%M]")


@pytest.mark.parametrize("case", ODD, ids=lambda case: case.name)
async def test_an_odd_frame_is_a_correct_fact_and_is_answered(case: Odd, shared: SharedBot) -> None:
    """Issue, odd frames; design, one message in: what NoneBot loses, misreads or turns into something else."""
    bot, group_id = shared.bot, next(_groups)
    since, began = len(bot.log), time.time()
    if case.name == "negative ids":
        group_id = -group_id
    async with OpenAIServer(port=shared.model_port) as server, OneBotPeer(bot.url, self_id=SELF_ID) as peer:
        peer.set_group(group_id)
        await peer.send_frame(json.dumps(odd_frame(case, group_id)))
        (sent,) = await peer.wait_sent(1, within=LIMIT_S)
        assert await ended(bot, group(group_id), 1) == ["turn.done"]
        (fact,) = bot.facts(group(group_id))
        assert isinstance(fact, MessageCreated)
        (expected,) = split_lines(f"{clock(fact.timestamp)} {case.line}")
        assert lines_of(server.requests[0]) == [expected]
        assert f"{clock(fact.timestamp)} {case.line}" in server.requests[0].all_text
        assert (sent.kind, sent.target_id, sent.text) == ("group", group_id, "reply 1")
        assert (server.violations, peer.malformed) == ([], [])
    assert began - 1 <= fact.timestamp / 1000 <= time.time() + 1
    assert (fact.self_id, fact.channel, fact.guild_id) == (str(SELF_ID), group(group_id), str(group_id))
    assert (fact.user.id, fact.message_id.replace(":", "：")) == (expected.user_id, expected.message_id)
    assert (normalise_body(fact.content), fact.quote, fact.is_self) == (case.content or expected.content, None, False)
    assert [line for line in troubles(bot.log[since:]) if not _EXPECTED_TROUBLE.search(line)] == []


@pytest.mark.parametrize("name", NOISE)
async def test_a_frame_that_tells_nothing_is_passed_over_and_the_line_behind_it_is_answered(
    name: str, shared: SharedBot
) -> None:
    """Issue, odd frames: no JSON, no object, unknown notices and requests; the connection goes on."""
    bot, group_id, noise = shared.bot, next(_groups), NOISE[name]
    since = len(bot.log)
    if isinstance(noise, dict):
        noise = {"time": int(time.time()), "self_id": SELF_ID, "group_id": group_id, **noise}
    async with OpenAIServer(port=shared.model_port) as server, OneBotPeer(bot.url, self_id=SELF_ID) as peer:
        peer.set_group(group_id)
        await peer.send_frame(noise)
        await peer.send_frame(noise)
        await peer.send_frame(plain(group_id))
        assert [sent.text for sent in await peer.wait_sent(1, within=LIMIT_S)] == ["reply 1"]
        assert await ended(bot, group(group_id), 1) == ["turn.done"]
        assert [(line.message_id, line.content) for line in lines_of(server.requests[0])] == [("7", f"{_ME} hi")]
        assert len(bot.facts(group(group_id))) == 1
        await peer.flushed()
    found = [line for line in troubles(bot.log[since:]) if not _EXPECTED_TROUBLE.search(line)]
    assert [line for line in found if "no JSON object; it is passed over" not in line] == []
    assert len(found) == int(not isinstance(noise, dict) and not str(noise).endswith("}")), "once per connection"
