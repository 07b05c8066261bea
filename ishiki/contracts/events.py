"""The facts of a chat: what a custom message of the log holds. Platform differences have ended before this.

Source: specification, event and message types; `is_self` is ours. `from_data` never raises: the log may have been
written by another version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_int, read_object, read_str

__all__ = [
    "ATTACHMENT",
    "MESSAGE_CREATED",
    "MESSAGE_DELETED",
    "STANDING_CHANGED",
    "TOOLS_CATALOG",
    "Attachment",
    "AttachmentItem",
    "ChannelRef",
    "ChatEvent",
    "MessageCreated",
    "MessageDeleted",
    "Quote",
    "StandingChanged",
    "StandingKind",
    "User",
    "fact_type",
]

MESSAGE_CREATED = "ishiki.message.created"
MESSAGE_DELETED = "ishiki.message.deleted"
STANDING_CHANGED = "ishiki.standing.changed"
ATTACHMENT = "ishiki.attachment"
TOOLS_CATALOG = "ishiki.tools.catalog"


@dataclass(frozen=True, slots=True)
class ChannelRef:
    """The address of a channel."""

    sid: str
    """The account: `<platform>:<self_id>`, such as `onebot:10001`; only ever compared."""
    channel_id: str
    """`group:<id>` or `private:<id>`."""

    def __str__(self) -> str:
        """Return `<sid>/<channel_id>`, as log lines show it."""
        return f"{self.sid}/{self.channel_id}"


@lru_cache(maxsize=4_096)
def _channel_ref(platform: str, self_id: str, channel_id: str) -> ChannelRef:
    """Return the channel of an event; each event is asked several times, and a few channels have most of them."""
    return ChannelRef(f"{platform}:{self_id}", channel_id)


@dataclass(frozen=True, slots=True)
class User:
    """Somebody, as he was called when he spoke."""

    id: str
    name: str = ""
    """Empty where the platform gave none."""

    def to_data(self) -> dict[str, JsonValue]:
        """Return the log's form."""
        return {"id": self.id, "name": self.name} if self.name else {"id": self.id}

    @classmethod
    def from_data(cls, data: JsonObject) -> User:
        """Read the log's form."""
        return cls(read_str(data, "id"), read_str(data, "name"))


@dataclass(frozen=True, slots=True)
class Quote:
    """The message that another one quotes, as far as it is known."""

    id: str
    content: str = ""
    """Element markup; empty where the message could not be had."""
    user: User | None = None

    def to_data(self) -> dict[str, JsonValue]:
        """Return the log's form."""
        out: dict[str, JsonValue] = {"id": self.id}
        if self.content:
            out["content"] = self.content
        if self.user is not None:
            out["user"] = self.user.to_data()
        return out

    @classmethod
    def from_data(cls, data: JsonObject) -> Quote:
        """Read the log's form."""
        user = read_object(data, "user")
        return cls(read_str(data, "id"), read_str(data, "content"), User.from_data(user) if user else None)


@dataclass(frozen=True, slots=True)
class MessageCreated:
    """Somebody said something."""

    timestamp: int
    """Epoch milliseconds, as the platform dates it."""
    platform: str
    self_id: str
    channel_id: str
    message_id: str
    """Empty where the platform gave no usable id; then nothing can quote it and nothing is a duplicate of it."""
    content: str
    """Element markup (`ishiki.content`)."""
    is_direct: bool
    user: User
    guild_id: str = ""
    quote: Quote | None = None
    is_self: bool = False
    """Said by the account itself, outside this process: the mind's own words, nothing to react to."""

    @property
    def channel(self) -> ChannelRef:
        """Where it was said."""
        return _channel_ref(self.platform, self.self_id, self.channel_id)

    def to_data(self) -> dict[str, JsonValue]:
        """Return the log's form."""
        out: dict[str, JsonValue] = {
            "timestamp": self.timestamp,
            "platform": self.platform,
            "selfId": self.self_id,
            "channelId": self.channel_id,
            "isDirect": self.is_direct,
            "messageId": self.message_id,
            "content": self.content,
            "user": self.user.to_data(),
        }
        if self.guild_id:
            out["guildId"] = self.guild_id
        if self.quote is not None:
            out["quote"] = self.quote.to_data()
        if self.is_self:
            out["self"] = True
        return out

    @classmethod
    def from_data(cls, data: JsonObject) -> MessageCreated:
        """Read the log's form."""
        channel_id = read_str(data, "channelId")
        quote = read_object(data, "quote")
        return cls(
            timestamp=read_int(data, "timestamp"),
            platform=read_str(data, "platform"),
            self_id=read_str(data, "selfId"),
            channel_id=channel_id,
            message_id=read_str(data, "messageId"),
            content=read_str(data, "content"),
            is_direct=data.get("isDirect") is True or channel_id.startswith("private:"),
            user=User.from_data(read_object(data, "user")),
            guild_id=read_str(data, "guildId"),
            quote=Quote.from_data(quote) if quote else None,
            is_self=data.get("self") is True,
        )


@dataclass(frozen=True, slots=True)
class MessageDeleted:
    """A message was recalled."""

    timestamp: int
    platform: str
    self_id: str
    channel_id: str
    message_id: str
    user_id: str = ""
    """Author of the recalled message; empty where unknown."""
    operator_id: str = ""
    """Who recalled it; empty where unknown."""

    @property
    def channel(self) -> ChannelRef:
        """Where it was recalled."""
        return _channel_ref(self.platform, self.self_id, self.channel_id)

    def to_data(self) -> dict[str, JsonValue]:
        """Return the log's form."""
        out: dict[str, JsonValue] = {
            "timestamp": self.timestamp,
            "platform": self.platform,
            "selfId": self.self_id,
            "channelId": self.channel_id,
            "messageId": self.message_id,
        }
        if self.user_id:
            out["userId"] = self.user_id
        if self.operator_id:
            out["operatorId"] = self.operator_id
        return out

    @classmethod
    def from_data(cls, data: JsonObject) -> MessageDeleted:
        """Read the log's form."""
        return cls(
            timestamp=read_int(data, "timestamp"),
            platform=read_str(data, "platform"),
            self_id=read_str(data, "selfId"),
            channel_id=read_str(data, "channelId"),
            message_id=read_str(data, "messageId"),
            user_id=read_str(data, "userId"),
            operator_id=read_str(data, "operatorId"),
        )


StandingKind = Literal["muted", "unmuted", "removed", "joined"]
"""What has become of an account's right to speak in a channel."""


@dataclass(frozen=True, slots=True)
class StandingChanged:
    """The account itself was muted, unmuted, removed from a group or taken in."""

    timestamp: int
    """Epoch milliseconds, as the platform dates it."""
    platform: str
    self_id: str
    channel_id: str
    kind: StandingKind
    until_ms: int = 0
    """Of `muted`: when it ends by itself; 0 where nobody says."""
    is_everybody: bool = False
    """Whether all members are muted or unmuted, and not the account alone."""
    operator_id: str = ""
    """Who did it; empty where unknown."""

    @property
    def channel(self) -> ChannelRef:
        """Where it holds."""
        return _channel_ref(self.platform, self.self_id, self.channel_id)

    @property
    def message_id(self) -> str:
        """Empty: it is about no message."""
        return ""

    def to_data(self) -> dict[str, JsonValue]:
        """Return the log's form."""
        out: dict[str, JsonValue] = {
            "timestamp": self.timestamp,
            "platform": self.platform,
            "selfId": self.self_id,
            "channelId": self.channel_id,
            "kind": self.kind,
        }
        if self.until_ms:
            out["until"] = self.until_ms
        if self.is_everybody:
            out["everybody"] = True
        if self.operator_id:
            out["operatorId"] = self.operator_id
        return out

    @classmethod
    def from_data(cls, data: JsonObject) -> StandingChanged:
        """Read the log's form; a kind that we do not know reads as `unmuted`, which bars nothing."""
        kind = read_str(data, "kind")
        return cls(
            timestamp=read_int(data, "timestamp"),
            platform=read_str(data, "platform"),
            self_id=read_str(data, "selfId"),
            channel_id=read_str(data, "channelId"),
            kind=next((one for one in get_args(StandingKind) if one == kind), "unmuted"),
            until_ms=read_int(data, "until"),
            is_everybody=data.get("everybody") is True,
            operator_id=read_str(data, "operatorId"),
        )


ChatEvent: TypeAlias = MessageCreated | MessageDeleted | StandingChanged
"""What a platform delivers."""


def fact_type(event: ChatEvent) -> str:
    """Return the type of the custom message that holds `event` in the log."""
    match event:
        case MessageCreated():
            return MESSAGE_CREATED
        case MessageDeleted():
            return MESSAGE_DELETED
        case StandingChanged():
            return STANDING_CHANGED


@dataclass(frozen=True, slots=True)
class AttachmentItem:
    """One piece of media."""

    url: str
    """A resource URL of the runtime, such as `asset://…`."""
    media_type: str
    """May be a wildcard such as `image/*` as long as nobody has seen the bytes."""
    filename: str = ""
    byte_length: int | None = None
    width: int | None = None
    height: int | None = None

    def to_data(self) -> dict[str, JsonValue]:
        """Return the log's form."""
        out: dict[str, JsonValue] = {"url": self.url, "mediaType": self.media_type}
        if self.filename:
            out["filename"] = self.filename
        sizes = (("byteLength", self.byte_length), ("width", self.width), ("height", self.height))
        out.update({key: value for key, value in sizes if value is not None})
        return out

    @classmethod
    def from_data(cls, data: JsonObject) -> AttachmentItem:
        """Read the log's form."""
        return cls(
            read_str(data, "url"),
            read_str(data, "mediaType"),
            read_str(data, "filename"),
            _size(data, "byteLength"),
            _size(data, "width"),
            _size(data, "height"),
        )


def _size(data: JsonObject, key: str) -> int | None:
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class Attachment:
    """Media that belong to a platform message or to a tool's result; stored right behind it."""

    source: Literal["platform", "tool"]
    items: Sequence[AttachmentItem] = field(default_factory=tuple[AttachmentItem, ...])
    channel: ChannelRef | None = None
    """Of a platform message."""
    message_id: str = ""
    """Of a platform message."""
    tool_name: str = ""
    tool_call_id: str = ""

    def to_data(self) -> dict[str, JsonValue]:
        """Return the log's form."""
        items: JsonValue = [item.to_data() for item in self.items]
        if self.source == "tool" or self.channel is None:
            return {"source": "tool", "toolName": self.tool_name, "toolCallId": self.tool_call_id, "items": items}
        platform, _, self_id = self.channel.sid.partition(":")
        return {
            "source": "platform",
            "platform": platform,
            "selfId": self_id,
            "channelId": self.channel.channel_id,
            "messageId": self.message_id,
            "items": items,
        }

    @classmethod
    def from_data(cls, data: JsonObject) -> Attachment:
        """Read the log's form."""
        raw = [item for item in read_array(data, "items") if isinstance(item, Mapping)]
        items = tuple(AttachmentItem.from_data(item) for item in raw)
        if data.get("source") == "platform":
            sid = f"{read_str(data, 'platform')}:{read_str(data, 'selfId')}"
            channel = ChannelRef(sid, read_str(data, "channelId"))
            return cls("platform", items, channel=channel, message_id=read_str(data, "messageId"))
        return cls("tool", items, tool_name=read_str(data, "toolName"), tool_call_id=read_str(data, "toolCallId"))
