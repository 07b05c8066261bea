"""What a OneBot end knows: its account, groups with members, friends, and every message said or sent. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ishiki.jsonvalue import JsonObject, JsonValue, read_object, read_str
from ishiki.testing.onebot_frames import Frame, MessageFormat, Segment, message_value, to_cq, visible_text
from ishiki.testing.onebot_implementations import Implementation

__all__ = ["Account", "ChatKind", "Group", "KeptMessage", "Member", "Role", "Sent"]

ChatKind: TypeAlias = Literal["group", "private"]
"""Where a message stands: OneBot's `message_type`."""

Role: TypeAlias = Literal["owner", "admin", "member"]
"""A member's role in a group."""

_FIRST_MESSAGE_ID = 1001
"""Our choice: clearly no index and no user id in a failed assertion."""


@dataclass(frozen=True, slots=True)
class Member:
    """A person, as one group or the friend list shows them (standard, event/message, sender)."""

    user_id: int
    nickname: str
    card: str = ""
    role: Role = "member"
    sex: Literal["male", "female", "unknown"] = "unknown"
    age: int = 0
    title: str = ""
    level: str = "1"

    def sender(self, kind: ChatKind) -> Frame:
        """Return the `sender` object of a message event."""
        person: Frame = {"user_id": self.user_id, "nickname": self.nickname, "sex": self.sex, "age": self.age}
        if kind == "private":
            return person
        standing: Frame = {"card": self.card, "area": "", "level": self.level, "role": self.role, "title": self.title}
        return person | standing

    def info(self, group_id: int) -> Frame:
        """Return the answer of `get_group_member_info` (standard, api)."""
        return {
            "group_id": group_id,
            **self.sender("group"),
            "join_time": 0,
            "last_sent_time": 0,
            "unfriendly": False,
            "title_expire_time": 0,
            "card_changeable": False,
        }


@dataclass(slots=True)
class Group:
    """A group that the account is in."""

    group_id: int
    name: str
    members: dict[int, Member] = field(default_factory=dict[int, Member])
    muted: set[int] = field(default_factory=set[int])
    """User ids that may not speak; with the account's own id in it, the end refuses to send."""
    muted_until: dict[int, int] = field(default_factory=dict[int, int])
    """Unix seconds at which a mute ends, by user id: `shut_up_timestamp`, which is not in the standard."""
    is_whole_muted: bool = False

    def info(self) -> Frame:
        """Return the answer of `get_group_info` (standard, api)."""
        return {
            "group_id": self.group_id,
            "group_name": self.name,
            "member_count": len(self.members),
            "max_member_count": 500,
        }


@dataclass(frozen=True, slots=True)
class KeptMessage:
    """A message in the end's own store."""

    message_id: int
    kind: ChatKind
    target_id: int
    """The group's id, or the other person's."""
    event: Frame
    """The event as it went, or would have gone, to the bot."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that the bot sent."""

    message_id: int
    kind: ChatKind
    target_id: int
    """The group's or the person's id."""
    message: JsonValue
    """The call's `message`, as it came."""
    segments: tuple[Segment, ...]
    text: str
    """What a person sees of it, see `visible_text`."""
    at: float
    """Unix seconds."""

    @property
    def quoted_ids(self) -> list[str]:
        """The ids that its `reply` segments name, in order."""
        return self._values("reply", "id")

    @property
    def mentioned_ids(self) -> list[str]:
        """The ids that its `at` segments name (`all` included), in order."""
        return self._values("at", "qq")

    def _values(self, kind: str, key: str) -> list[str]:
        wanted = (part for part in self.segments if part.get("type") == kind)
        return [read_str(read_object(part, "data"), key) for part in wanted]


class Account:
    """The world of one account: it makes message events and remembers them."""

    def __init__(
        self,
        self_id: int,
        nickname: str,
        message_format: MessageFormat,
        now: Callable[[], float],
        implementation: Implementation | None = None,
    ) -> None:
        """Start with no groups and no friends; `now` gives Unix seconds, `implementation` shapes ids and events."""
        self.implementation = implementation
        self.self_id = self_id
        self.nickname = nickname
        self.message_format: MessageFormat = message_format
        self.now = now
        self.groups: dict[int, Group] = {}
        self.friends: dict[int, Member] = {}
        self.messages: dict[int, KeptMessage] = {}
        self.forwards: dict[str, Sequence[Segment]] = {}
        self.files: dict[str, JsonObject] = {}
        self._next_message_id = _FIRST_MESSAGE_ID

    @property
    def itself(self) -> Member:
        """The account as a person, outside any group."""
        return Member(self.self_id, self.nickname)

    def group(self, group_id: int, *, name: str | None = None) -> Group:
        """Return a group, made with the account as its member where it is new; `name` renames it."""
        known = self.groups.get(group_id)
        if known is None:
            known = Group(group_id, name or f"group {group_id}", {self.self_id: self.itself})
            self.groups[group_id] = known
        known.name = name or known.name
        return known

    def person(self, user_id: int, *, group_id: int | None) -> Member:
        """Return a member of the group, or a friend; made with the nickname `user <id>` where new."""
        people = self.friends if group_id is None else self.group(group_id).members
        return people.setdefault(user_id, Member(user_id, f"user {user_id}"))

    def new_message_id(self) -> int:
        """Return the next id; they increase by one."""
        message_id = self._next_message_id
        self._next_message_id += 1
        return message_id if self.implementation is None else self.implementation.message_id(message_id)

    def new_message(
        self,
        speaker: Member,
        segments: Sequence[Segment],
        *,
        group_id: int | None,
        user_id: int,
        message_id: int | None = None,
        time: int | None = None,
        message_format: MessageFormat | None = None,
        fields: JsonObject | None = None,
    ) -> KeptMessage:
        """Make a message and remember it.

        Args:
            speaker: who says it; the account itself for what the bot sends.
            segments: the message.
            group_id: the group, or None in private.
            user_id: the other person in private; not read in a group.
            message_id: an id of the caller's choice, also one that was used before; the next one by default.
            time: Unix seconds; now by default.
            message_format: of this message; the account's by default.
            fields: laid over the event at last, for what an odd end sends.
        """
        kind: ChatKind = "private" if group_id is None else "group"
        form = message_format or self.message_format
        number = self.new_message_id() if message_id is None else message_id
        is_own = speaker.user_id == self.self_id
        event: Frame = {
            "time": int(self.now()) if time is None else time,
            "self_id": self.self_id,
            "post_type": "message_sent" if is_own else "message",
            "message_type": kind,
            "sub_type": "friend" if group_id is None else "normal",
            "message_id": number,
            "message_seq": number,
            "user_id": speaker.user_id,
            "message": message_value(segments, form),
            "raw_message": to_cq(segments),
            "message_format": form,
            "font": 14,
            "sender": speaker.sender(kind),
        }
        if group_id is not None:
            event |= {"group_id": group_id, "group_name": self.group(group_id).name, "anonymous": None}
        if is_own:
            event["target_id"] = user_id if group_id is None else group_id
        if self.implementation is not None:
            event = self.implementation.event(event, len(self.messages) + 1)
        event |= fields or {}
        kept = KeptMessage(number, kind, user_id if group_id is None else group_id, event)
        self.messages[number] = kept
        return kept

    def history(self, kind: ChatKind, target_id: int) -> Iterator[KeptMessage]:
        """Yield the messages of one chat, oldest first; recalled ones are gone."""
        return (kept for kept in self.messages.values() if (kept.kind, kept.target_id) == (kind, target_id))

    def sent(self, kept: KeptMessage, message: JsonValue, segments: Sequence[Segment]) -> Sent:
        """Describe a message that the bot sent."""
        return Sent(
            message_id=kept.message_id,
            kind=kept.kind,
            target_id=kept.target_id,
            message=message,
            segments=tuple(segments),
            text=visible_text(segments),
            at=self.now(),
        )
