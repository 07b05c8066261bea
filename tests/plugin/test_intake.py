"""Intake: one neutral fact for each frame that tells one, whatever the end makes of its fields."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.content import parse, serialise
from ishiki.contracts.events import ChannelRef, ChatEvent, MessageCreated, MessageDeleted, StandingChanged
from ishiki.core.clock import SystemClock
from ishiki.jsonvalue import JsonValue
from ishiki.plugin.accounts import Accounts
from ishiki.plugin.intake import Ignored, Intake, normalise, read_fetched
from ishiki.plugin.segments import SEGMENTS
from ishiki.plugin.sent_registry import SentRegistry
from ishiki.testing.onebot_frames import Frame, reply, text

NOW = 1_800_000_000_000

LINE: Frame = {
    "time": 1_700_000_000,
    "self_id": 10001,
    "post_type": "message",
    "message_type": "group",
    "sub_type": "normal",
    "message_id": 7,
    "group_id": 500,
    "user_id": 42,
    "message": [text("hi")],
    "raw_message": "hi",
    "font": 0,
    "sender": {"user_id": 42, "nickname": "Rin", "card": "Rin of 500"},
}
PRIVATE: Frame = {**LINE, "message_type": "private", "sub_type": "friend", "group_id": None}
PHONE: Frame = {**PRIVATE, "post_type": "message_sent", "user_id": 10001, "target_id": 42, "sender": {"user_id": 10001}}
RECALL: Frame = {
    "time": 1_700_000_000,
    "self_id": 10001,
    "post_type": "notice",
    "notice_type": "group_recall",
    "group_id": 500,
    "user_id": 42,
    "operator_id": 43,
    "message_id": 7,
}


def read(frame: JsonValue, *, account: str = "") -> MessageCreated:
    """Return the message that a frame tells."""
    fact = normalise(frame, now_ms=NOW, account=account)
    assert isinstance(fact, MessageCreated)
    return fact


def test_a_group_line_becomes_a_fact_with_its_place_and_speaker() -> None:
    """Specification, event and message types; OneBot v11, message events."""
    fact = read(LINE)
    assert fact.channel == ChannelRef("onebot:10001", "group:500")
    assert (fact.message_id, fact.content, fact.timestamp) == ("7", "hi", 1_700_000_000_000)
    assert (fact.user.id, fact.user.name, fact.is_direct, fact.is_self) == ("42", "Rin of 500", False, False)


MISREAD: list[dict[str, JsonValue]] = [
    {"time": None},
    {"self_id": "10001"},
    {"notice_type": "group_upload"},
    {"font": "Arial"},
    {"sender": {"user_id": 42, "card": "Rin of 500", "level": 3}},
    {"sub_type": None},
    {"message": [None, text("hi")]},
    {"message": "hi"},
    {"message": text("hi")},
    {"message": None},
    {"user_id": "42", "group_id": "500", "message_id": "7"},
    {"user_id": 42.0},
    {"user_id": None},
    {"message_type": None},
    {"anonymous": None, "extra": {"deep": [[]]}},
]


@pytest.mark.parametrize("changes", MISREAD)
def test_a_frame_that_nonebot_misreads_is_the_same_fact(changes: dict[str, JsonValue]) -> None:
    """Design, one message in: no `time`, a textual self_id, two type fields, text `font`, and so on."""
    fact = read({**LINE, **changes})
    assert (fact.channel.channel_id, fact.self_id, fact.user.id, fact.content) == ("group:500", "10001", "42", "hi")
    assert (fact.message_id, fact.user.name) == ("7", "Rin of 500")


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (1_700_000_000, 1_700_000_000_000),
        (1_700_000_000_123, 1_700_000_000_123),
        ("1700000000", 1_700_000_000_000),
        (1_700_000_000.5, 1_700_000_000_500),
        (NOW // 1000 + 60, NOW + 60_000),
        (NOW // 1000 + 10 * 86_400, NOW),
        (0, NOW),
        (-5, NOW),
        (12345, NOW),
        (1e300, NOW),
        (float("nan"), NOW),
        ("yesterday", NOW),
        (None, NOW),
        (True, NOW),
        ([], NOW),
    ],
)
def test_an_absent_or_absurd_time_is_now(time: JsonValue, expected: int) -> None:
    """Design, one message in; milliseconds are told by their size (our choice)."""
    assert read({**LINE, "time": time}).timestamp == expected
    recall = normalise({**RECALL, "time": time}, now_ms=NOW)
    assert isinstance(recall, MessageDeleted)
    assert recall.timestamp == expected


@pytest.mark.parametrize(
    ("sender", "name"),
    [
        ({"card": "", "nickname": "Rin"}, "Rin"),
        ({"card": " \u200b\u202e", "nickname": "Rin"}, "Rin"),
        ({"card": "C", "nickname": "Rin"}, "C"),
        ({"card": "a\ud800", "nickname": "Rin"}, "a\ufffd"),
        ({"nickname": None}, ""),
        (None, ""),
        ("Rin", ""),
    ],
)
def test_a_speaker_is_called_by_the_first_name_that_can_be_seen(sender: JsonValue, name: str) -> None:
    """Specification, events: card, nickname; without a name the line shows the id."""
    assert read({**LINE, "sender": sender}).user.name == name


def test_an_anonymous_line_is_called_by_its_mask() -> None:
    """OneBot v11, message events, anonymous."""
    assert read({**LINE, "anonymous": {"id": 1, "name": "Mask", "flag": "x"}}).user.name == "Mask"


def test_a_private_message_that_carries_a_group_is_private() -> None:
    """Issue, must hold: it is answered in private."""
    fact = read({**PRIVATE, "sub_type": "group", "group_id": 500})
    assert (fact.channel_id, fact.is_direct, fact.guild_id) == ("private:42", True, "500")


def test_a_reply_is_the_quote() -> None:
    """Specification, events: the quote's content is filled in later."""
    fact = read({**LINE, "message": [reply(5), text("yes")]})
    assert fact.quote is not None
    assert (fact.quote.id, fact.quote.content, fact.content) == ("5", "", "yes")


@pytest.mark.parametrize(
    ("message_id", "kept"), [(0, ""), (None, ""), ("", ""), (-12, "-12"), ([], ""), ("a-b", "a-b")]
)
def test_an_unusable_message_id_is_none(message_id: JsonValue, kept: str) -> None:
    """Design, channel queue: without a usable id nothing is a duplicate."""
    assert read({**LINE, "message_id": message_id}).message_id == kept


def test_what_the_owner_says_from_elsewhere_is_the_minds_own_words() -> None:
    """Design, intake: `message_sent` is kept as the account's own, in the peer's channel."""
    fact = read(PHONE)
    assert (fact.channel_id, fact.is_self, fact.user.id) == ("private:42", True, "10001")
    assert read({**PHONE, "target_id": None, "user_id": 42}).channel_id == "private:42"
    group = read({**LINE, "post_type": "message_sent", "user_id": 10001})
    assert (group.channel_id, group.is_self) == ("group:500", True)


def test_a_line_of_another_account_of_ours_is_kept() -> None:
    """Design, intake: only the account's own frames are no new facts."""
    assert read({**LINE, "user_id": 10002}).user.id == "10002"


def test_a_frame_without_an_account_is_the_connections() -> None:
    """Our choice: the connection knows whose it is."""
    assert read({**LINE, "self_id": None}, account="10001").self_id == "10001"


def test_a_group_recall_names_author_and_operator() -> None:
    """Specification, events; OneBot v11, notice events."""
    assert normalise(RECALL, now_ms=NOW) == MessageDeleted(
        timestamp=1_700_000_000_000,
        platform="onebot",
        self_id="10001",
        channel_id="group:500",
        message_id="7",
        user_id="42",
        operator_id="43",
    )


def test_a_friend_recalls_their_own_message() -> None:
    """OneBot v11, notice events: only the author can, in private."""
    fact = normalise({**RECALL, "notice_type": "friend_recall", "group_id": None, "operator_id": None}, now_ms=NOW)
    assert isinstance(fact, MessageDeleted)
    assert (fact.channel_id, fact.user_id, fact.operator_id) == ("private:42", "42", "42")


@pytest.mark.parametrize(
    "frame",
    [
        {**LINE, "user_id": 10001},
        {**LINE, "user_id": None, "sender": None},
        {**LINE, "group_id": None},
        {**LINE, "message_type": "guild"},
        {**LINE, "self_id": None},
        {**PHONE, "target_id": None},
        {**RECALL, "message_id": None},
        {**RECALL, "group_id": 0},
        {**RECALL, "notice_type": "group_ban"},
        {**LINE, "post_type": "meta_event"},
        {**LINE, "post_type": ["message"]},
        {},
        [],
        "message",
        None,
    ],
)
def test_a_frame_that_tells_no_fact_is_ignored_with_its_reason(frame: JsonValue) -> None:
    """Specification, intake: unknown kinds produce nothing; our choice: what cannot be placed is no fact."""
    fact = normalise(frame, now_ms=NOW)
    assert isinstance(fact, Ignored)
    assert fact.reason


def test_a_fetched_message_is_read_without_its_place() -> None:
    """OneBot v11, get_msg: the standard names neither group nor post type."""
    answer: Frame = {"time": 1_700_000_000, "message_type": "group", "message_id": 7, "message": [text("hi")]}
    answer["sender"] = {"user_id": 42, "nickname": "Rin"}
    fact = read_fetched(answer, None, self_id="10001", now_ms=NOW)
    assert fact is not None
    assert (fact.channel_id, fact.user.name, fact.content, fact.is_self) == ("", "Rin", "hi", False)
    own = read_fetched(
        {**answer, "sender": {"user_id": "10001"}}, ChannelRef("onebot:10001", "group:5"), self_id="10001", now_ms=NOW
    )
    assert own is not None
    assert (own.channel_id, own.is_self) == ("group:5", True)
    assert read_fetched({}, None, self_id="10001", now_ms=NOW) is None


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["group", "private", "all"])
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8
)
PARTS = st.fixed_dictionaries(
    {
        "type": st.sampled_from([*SEGMENTS, "?"]) | JSON,
        "data": JSON
        | st.dictionaries(
            st.sampled_from(["id", "qq", "text", "file", "url", "data", "content", "name", "type", "raw", "rows"]), JSON
        ),
    }
)
FRAMES = st.fixed_dictionaries(
    {"post_type": st.sampled_from(["message", "message_sent", "notice", "meta_event"]) | JSON},
    optional={
        "message_type": st.sampled_from(["group", "private"]) | JSON,
        "notice_type": st.sampled_from(["group_recall", "friend_recall"]) | JSON,
        "message": JSON | st.lists(PARTS, max_size=4) | st.text(alphabet="[CQ:at,qq=1]&#9;amp "),
        "sender": JSON | st.dictionaries(st.sampled_from(["user_id", "card", "nickname"]), JSON),
        **dict.fromkeys(("time", "self_id", "group_id", "user_id", "message_id", "target_id", "anonymous"), JSON),
    },
)


@given(JSON | FRAMES)
def test_any_frame_is_a_storable_fact_or_none(frame: JsonValue) -> None:
    """Design, intake: never raises; what it keeps can be written as UTF-8 and reads back."""
    fact = normalise(frame, now_ms=NOW, account="10001")
    if isinstance(fact, MessageCreated):
        assert fact.channel_id.startswith(("group:", "private:"))
        assert serialise(parse(fact.content)) == fact.content
        for value in (fact.content, fact.user.id, fact.user.name, fact.message_id, fact.channel_id):
            value.encode()
    elif isinstance(fact, MessageDeleted):
        assert fact.message_id


def opened(sink: Callable[[ChatEvent], None]) -> Intake:
    """Return an intake that hands facts to `sink`."""
    clock = SystemClock()
    intake = Intake(Accounts(), SentRegistry(clock), clock)
    intake.open(sink)
    return intake


def test_intake_hands_facts_on_in_order_until_it_is_closed() -> None:
    """Design, stop: intake is closed first."""
    facts: list[ChatEvent] = []
    intake = opened(facts.append)
    for number in range(1, 4):
        intake.offer({**LINE, "message_id": number})
    intake.close()
    intake.offer({**LINE, "message_id": 4})
    assert [fact.message_id for fact in facts] == ["1", "2", "3"]
    assert (intake.counts.offered, intake.counts.facts, intake.counts.lost) == (4, 3, 1)
    assert not intake.is_open


def test_a_sink_that_raises_loses_that_fact_only(caplog: pytest.LogCaptureFixture) -> None:
    """Design, one message in: the boundary of intake logs and goes on."""
    facts: list[ChatEvent] = []

    def sink(fact: ChatEvent) -> None:
        if fact.message_id == "1":
            raise ValueError("full")
        facts.append(fact)

    intake = opened(sink)
    intake.offer({**LINE, "message_id": 1})
    intake.offer({**LINE, "message_id": 2})
    assert [fact.message_id for fact in facts] == ["2"]
    assert intake.counts.lost == 1
    assert "could not be handed on" in caplog.text


BAN: Frame = {
    "time": 1_700_000_000,
    "self_id": 10001,
    "post_type": "notice",
    "notice_type": "group_ban",
    "sub_type": "ban",
    "group_id": 500,
    "operator_id": 43,
    "user_id": 10001,
    "duration": 600,
}
LEFT: Frame = {**BAN, "notice_type": "group_decrease", "sub_type": "kick_me", "duration": None}


@pytest.mark.parametrize(
    ("frame", "kind", "minutes", "is_everybody"),
    [
        pytest.param(BAN, "muted", 10, False, id="muted"),
        pytest.param({**BAN, "user_id": "10001", "duration": "600"}, "muted", 10, False, id="as text"),
        pytest.param({**BAN, "duration": None}, "muted", 0, False, id="without an end"),
        pytest.param({**BAN, "duration": 268_435_455}, "muted", 0, False, id="for years"),
        pytest.param({**BAN, "sub_type": "lift_ban", "duration": 0}, "unmuted", 0, False, id="lifted"),
        pytest.param({**BAN, "duration": 0}, "unmuted", 0, False, id="lifted by a mute of no length"),
        pytest.param({**BAN, "user_id": 0, "duration": -1}, "muted", 0, True, id="everybody"),
        pytest.param({**BAN, "user_id": 0, "duration": 0}, "muted", 0, True, id="everybody, of no length"),
        pytest.param({**BAN, "user_id": 0, "sub_type": "lift_ban"}, "unmuted", 0, True, id="everybody, lifted"),
        pytest.param(LEFT, "removed", 0, False, id="kicked"),
        pytest.param({**LEFT, "user_id": 0}, "removed", 0, False, id="kicked, without who"),
        pytest.param({**LEFT, "sub_type": "leave"}, "removed", 0, False, id="left"),
        pytest.param({**LEFT, "sub_type": "disband", "user_id": 1}, "removed", 0, False, id="the group is closed"),
        pytest.param({**LEFT, "notice_type": "group_increase", "sub_type": "invite"}, "joined", 0, False, id="joined"),
    ],
)
def test_a_notice_about_the_account_becomes_a_fact_of_what_it_may_do(
    frame: Frame, kind: str, minutes: int, is_everybody: bool
) -> None:
    """OneBot v11, notice events; the ban of all members is that of go-cqhttp, NapCat, LLBot and Lagrange."""
    fact = normalise(frame, now_ms=NOW)
    assert isinstance(fact, StandingChanged)
    until_ms = 1_700_000_000_000 + minutes * 60_000 if minutes else 0
    assert (fact.kind, fact.until_ms, fact.is_everybody) == (kind, until_ms, is_everybody)
    assert (str(fact.channel), fact.operator_id) == ("onebot:10001/group:500", "43")
    assert StandingChanged.from_data(fact.to_data()) == fact


@pytest.mark.parametrize(
    "changes",
    [{"user_id": 42}, {"group_id": None}, {"notice_type": "group_admin"}, {"notice_type": ["group_ban"]}],
)
def test_a_notice_about_somebody_else_or_nowhere_is_no_fact(changes: Frame) -> None:
    """Our choice: what the account may do is all that is kept of these notices."""
    assert isinstance(normalise({**BAN, **changes}, now_ms=NOW), Ignored)


UPLOAD: dict[str, JsonValue] = {
    "time": NOW // 1000,
    "self_id": 10001,
    "post_type": "notice",
    "notice_type": "group_upload",
    "group_id": 500,
    "user_id": 42,
    "file": {"id": "/abc", "name": "notes.pdf", "size": 1024, "busid": 102},
}


def test_the_notice_of_a_file_is_a_line_with_its_name_size_and_id() -> None:
    """Bug: a file in a group was an empty line without a name. OneBot v11, notice events, group file upload."""
    fact = read(UPLOAD)
    assert fact.content == '<file name="notes.pdf" size="1024" id="/abc"/>'
    assert (fact.channel.channel_id, fact.user.id, fact.message_id) == ("group:500", "42", "")


def test_the_notice_of_a_file_in_private_is_a_line_with_its_address() -> None:
    """go-cqhttp and Lagrange (`OneBotPrivateFile`): `offline_file`."""
    file: JsonValue = {"name": "notes.pdf", "size": 9, "url": "http://e.example.org/f"}
    fact = read({**UPLOAD, "notice_type": "offline_file", "group_id": None, "file": file})
    assert fact.content == '<file src="http://e.example.org/f" name="notes.pdf" size="9"/>'
    assert fact.channel.channel_id == "private:42"


@pytest.mark.parametrize("change", [{"user_id": 10001}, {"file": None}, {"group_id": None}, {"user_id": None}])
def test_a_file_of_nobody_nowhere_or_of_the_account_itself_is_no_fact(change: dict[str, JsonValue]) -> None:
    """Our choice: a notice has no id by which our own could be told."""
    assert isinstance(normalise({**UPLOAD, **change}, now_ms=NOW), Ignored)


@pytest.mark.parametrize("message", [[], "", [text("")], [text("  ")], [None]])
@pytest.mark.parametrize("kind", ["group", "private"])
def test_an_empty_message_is_no_fact(message: JsonValue, kind: str) -> None:
    """Bug: implementations send one beside the notice of a file; in private it woke a turn."""
    frame: JsonValue = {**LINE, "message": message, "raw_message": "", "message_type": kind}
    assert isinstance(normalise(frame, now_ms=NOW), Ignored)


def test_a_message_without_segments_is_read_from_its_text() -> None:
    """Our choice: nothing that was said vanishes."""
    assert read({**LINE, "message": [], "raw_message": "hi [CQ:face,id=14]"}).content == 'hi <face id="14"/>'


@pytest.mark.parametrize(
    "place",
    [{"group_id": 500}, {"group_id": None, "sender": {"user_id": 42, "group_id": 500}}],
    ids=["frame", "sender"],
)
def test_a_temporary_chat_is_answered_through_its_group(place: dict[str, JsonValue]) -> None:
    """Bug: LLBot names the group in `sender.group_id` alone; the answer went without it, and was refused."""
    accounts, clock = Accounts(), SystemClock()
    accounts.add_own("10001")
    facts: list[ChatEvent] = []
    intake = Intake(accounts, SentRegistry(clock), clock)
    intake.open(facts.append)
    intake.offer({**LINE, "message_type": "private", "sub_type": "group", **place})
    (fact,) = facts
    assert isinstance(fact, MessageCreated)
    assert (fact.channel.channel_id, fact.guild_id) == ("private:42", "500")
    assert accounts.temporary_chat(fact.channel) == "500"
    fetched = read_fetched({**LINE, "message_type": "private", **place}, fact.channel, self_id="10001", now_ms=NOW)
    assert fetched is not None
    assert fetched.guild_id == "500"
