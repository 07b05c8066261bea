"""The facts of a chat: what is written is read back, and nothing that stands in a log raises."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.contracts.events import (
    Attachment,
    AttachmentItem,
    ChannelRef,
    MessageCreated,
    MessageDeleted,
    Quote,
    User,
)
from ishiki.contracts.resources import parse_file_url
from ishiki.errors import ResourceError
from ishiki.jsonvalue import JsonObject, JsonValue

ID = st.text("0123456789ab", min_size=1, max_size=6)
TIME = st.integers(0, 2**50)
USERS = st.builds(User, ID, st.text(max_size=5))
QUOTES = st.builds(Quote, ID, st.text(max_size=5), st.none() | USERS)
CHANNELS = st.tuples(st.sampled_from(["group", "private"]), ID).map(":".join)
CREATED = st.builds(
    MessageCreated,
    TIME,
    st.just("onebot"),
    ID,
    st.shared(CHANNELS, key="channel"),
    st.text(max_size=5),
    st.text(max_size=20),
    st.shared(CHANNELS, key="channel").map(lambda channel: channel.startswith("private:")),
    USERS,
    st.text(max_size=3),
    st.none() | QUOTES,
    st.booleans(),
)
DELETED = st.builds(MessageDeleted, TIME, st.just("onebot"), ID, CHANNELS, ID, st.text(max_size=3), st.text(max_size=3))
SIZE = st.none() | st.integers(0, 10**9)
ITEMS = st.lists(st.builds(AttachmentItem, ID, ID, st.text(max_size=3), SIZE, SIZE, SIZE), max_size=3).map(tuple)
OF_PLATFORM = st.builds(
    Attachment,
    st.just("platform"),
    ITEMS,
    channel=st.builds(ChannelRef, ID.map("onebot:{}".format), CHANNELS),
    message_id=st.text(max_size=3),
)
OF_TOOL = st.builds(Attachment, st.just("tool"), ITEMS, tool_name=ID, tool_call_id=ID)


def again(data: JsonObject) -> JsonObject:
    """Return `data` as a log gives it back."""
    return json.loads(json.dumps(data))


@given(CREATED)
def test_a_message_reads_back_as_it_was(event: MessageCreated) -> None:
    """Reference, Ishiki custom message types."""
    assert MessageCreated.from_data(again(event.to_data())) == event
    assert str(event.channel) == f"onebot:{event.self_id}/{event.channel_id}"


@given(DELETED)
def test_a_recall_reads_back_as_it_was(event: MessageDeleted) -> None:
    """Reference, Ishiki custom message types."""
    assert MessageDeleted.from_data(again(event.to_data())) == event
    assert event.channel == ChannelRef(f"onebot:{event.self_id}", event.channel_id)


@given(OF_PLATFORM | OF_TOOL)
def test_an_attachment_reads_back_as_it_was(attachment: Attachment) -> None:
    """Reference, Ishiki custom message types."""
    assert Attachment.from_data(again(attachment.to_data())) == attachment


KEYS = [
    *("timestamp", "platform", "selfId", "channelId", "messageId", "content", "isDirect", "user", "guildId", "quote"),
    *("self", "id", "name", "userId", "operatorId", "source", "items", "toolName", "toolCallId", "url", "mediaType"),
    *("filename", "byteLength", "width", "height"),
]
TEXTS = st.text(max_size=4) | st.sampled_from(["platform", "tool"])
ANYTHING: st.SearchStrategy[JsonValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["platform", "tool"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=12))
def test_nothing_that_stands_in_a_log_raises(data: JsonObject) -> None:
    """Design, section 3: a log of another version opens; what is read once is read the same again."""
    created, deleted = MessageCreated.from_data(data), MessageDeleted.from_data(data)
    attachment = Attachment.from_data(data)
    assert MessageCreated.from_data(created.to_data()) == created
    assert MessageDeleted.from_data(deleted.to_data()) == deleted
    assert Attachment.from_data(attachment.to_data()).items == attachment.items


def test_a_size_is_a_whole_number() -> None:
    """Bug: `true` was a width of True."""
    assert AttachmentItem.from_data(
        {"url": "asset://1", "width": True, "height": 1.5, "byteLength": 3}
    ) == AttachmentItem("asset://1", "", byte_length=3)


def test_a_private_channel_is_direct_even_when_the_log_does_not_say_so() -> None:
    """Our choice: a log of the original."""
    assert MessageCreated.from_data({"channelId": "private:7"}).is_direct
    assert not MessageCreated.from_data({"channelId": "group:7"}).is_direct


# -- URLs of file schemes --------------------------------------------------------------------------------------------


def test_a_file_url_is_split_and_decoded() -> None:
    """Specification, extension API, resource schemes."""
    url = parse_file_url("Notes://shelf/a%20b//c.md?view=meta")
    assert (url.scheme, url.authority, url.path, url.view) == ("notes", "shelf", "a b/c.md", "meta")
    assert parse_file_url("notes://shelf").path == ""


@pytest.mark.parametrize(
    "url",
    [
        "no scheme",
        "notes://shelf/../etc",
        "notes://shelf/%2e%2e/etc",
        "notes://shelf/a/./b",
        "notes://..",
        "notes://a%2F..%2Fb/c",
        "notes://shelf/a%5Cb",
        "notes://shelf/a%00",
        "notes://shelf/a?line=1",
        "notes://shelf/a?view=",
        "notes://shelf/a?view=UP",
        "notes://[shelf/a",
    ],
)
def test_a_url_that_could_leave_its_root_or_means_nothing_is_refused(url: str) -> None:
    """Specification, resource schemes; bugs: a slash hidden in the authority, and brackets without end."""
    with pytest.raises(ResourceError) as caught:
        parse_file_url(url)
    assert caught.value.code == "invalid_resource_uri"


@given(st.text(st.sampled_from("ab./%2eE5cCfF\\?#:@[]\x00 "), max_size=30))
def test_whatever_is_written_a_path_stays_below_its_root(text: str) -> None:
    """Design, section 10: paths stay inside their root."""
    try:
        url = parse_file_url(f"notes://shelf/{text}")
    except ResourceError:
        return
    assert not url.path.startswith("/")
    assert ".." not in url.path.split("/")
    assert "\\" not in url.path
    assert url.authority == "shelf"
