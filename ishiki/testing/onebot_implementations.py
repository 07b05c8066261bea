"""What the well-known OneBot implementations really send, as presets for `OneBotPeer(implementation=…)`. No I/O.

Facts and their public sources, looked up in August 2026 (NapCat: NapNeko/NapCatQQ `packages/napcat-onebot`; LLBot:
LLOneBot/LuckyLilliaBot `src/onebot11`; Lagrange: LagrangeDev/Lagrange.Core, branch v1, `Lagrange.OneBot`):

* Ids. NapCat: 31 bits of an MD5, never negative, the last 5,000 are known (`napcat-common/message-unique.ts`).
  LLBot: all 32 bits, signed (`main/store.ts`). Lagrange: 16 bits of the sequence and 16 random ones, signed
  (`Database/MessageRecord.cs`).
* `message_seq`. NapCat: the message id, with `real_id` the same and a textual `real_seq` (`api/msg.ts`). LLBot: the
  group's own sequence, which its `real_id` of `get_msg` repeats (`entities.ts`, `action/msg/GetMsg.ts`). Lagrange:
  none.
* Temporary chats, `sub_type: group`. NapCat: `group_id`, `temp_source: 0` (`api/msg.ts`). LLBot: `sender.group_id`
  alone, `temp_source: 0` (`entities.ts`). Lagrange: no group anywhere (`Message/MessageService.cs`).
* Files in a group: a message with a `file` segment and a `group_upload` notice. NapCat begins both at once, and the
  two ids of the file differ (`index.ts`, `api/group.ts`). LLBot: the same id (`entities.ts`). Lagrange: a segment
  without a size, a notice with an address (`Core/Notify/NotifyService.cs`, `Message/Entity/FileSegment.cs`). In
  private only Lagrange sends a notice, `offline_file`.
* Own messages. NapCat and LLBot: `message_sent`, where `reportSelfMessage` is set (`index.ts`, `connect/ws.ts`).
  Lagrange: an ordinary `message` of the account, where `IgnoreSelf` is not. On which side of the API's answer is not
  written anywhere: the presets differ in it, by our choice.
* Answers. An unknown action: NapCat 1404 `不支持的Api …` (`network/websocket-client.ts`), LLBot 1404 `… API 不存在`
  (`connect/ws.ts`), Lagrange 404 without a word (`Core/Operation/OperationService.cs`). A missing message: 1200 with a
  text at NapCat and LLBot, 200 at Lagrange. Lagrange's answers have no `message` and no `wording`
  (`Core/Entity/Action/OneBotResult.cs`), its `get_msg` no place and no `user_id` (`GetMessageOperation.cs`).
* An empty history: NapCat and Lagrange fail, LLBot answers with an empty list (`GetGroupMsgHistory.ts`,
  `GetGroupMessageHistoryOperation.cs`).
* The largest frame: NapCat 50 MiB, LLBot without a bound (`maxPayload`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from ishiki.jsonvalue import JsonObject, JsonValue, read_object
from ishiki.testing.onebot_frames import Frame, segment

__all__ = ["IMPLEMENTATIONS", "Implementation", "ImplementationName", "Upload"]

ImplementationName: TypeAlias = Literal["napcat", "llbot", "lagrange"]

_HISTORIES: Final = frozenset({"get_group_msg_history", "get_friend_msg_history"})

_LAGRANGE_GET_MSG: Final = ("time", "message_type", "message_id", "real_id", "sender", "message")


@dataclass(frozen=True, slots=True)
class Upload:
    """What is sent for one file: segments of its message, then the fields of its notice, or the other way round."""

    segments: Sequence[Frame]
    notice_type: str
    """Empty: there is no notice."""
    file: JsonObject
    """The notice's `file`."""
    is_notice_first: bool


@dataclass(frozen=True, slots=True)
class Implementation:
    """How one implementation differs from the textbook; the module says where each fact is from."""

    name: ImplementationName
    message_id: Callable[[int], int]
    """The id of the nth message."""
    event: Callable[[Frame, int], Frame]
    """Shapes the event of the nth message."""
    temporary: Callable[[int], Frame]
    """The fields of a private message through a group, laid over the event."""
    upload: Callable[[str, int, bool], Upload]
    """What a file makes, by its name, its bytes and whether it is in a group."""
    self_report: Literal["before_answer", "after_answer"]
    unknown_action: tuple[int, str]
    """Retcode and text; `{}` stands for the action."""
    missing: tuple[int, str]
    """Retcode and text for a message that is not there."""
    is_empty_history_refused: bool
    are_answers_terse: bool
    """Whether answers have no `message` and no `wording`."""

    def answer(self, action: str, data: JsonValue) -> JsonValue:
        """Return the data of an answer as this implementation gives it."""
        if action == "get_msg" and isinstance(data, dict):
            if self.name == "lagrange":
                return {key: data[key] for key in _LAGRANGE_GET_MSG if key in data}
            if self.name == "llbot":
                return {**data, "real_id": data.get("message_seq")}
        return data

    def refuses_history(self, action: str, data: JsonValue) -> bool:
        """Whether it fails instead of an answer with this history."""
        is_empty = isinstance(data, dict) and not data.get("messages")
        return self.is_empty_history_refused and action in _HISTORIES and is_empty

    def frame(self, answer: Frame) -> Frame:
        """Return the whole frame of an answer."""
        if not self.are_answers_terse:
            return answer
        return {key: value for key, value in answer.items() if key not in ("message", "wording")}


def _hash(name: str, number: int, *, is_signed: bool) -> int:
    digest = bytearray(hashlib.md5(f"{name}|{number}".encode(), usedforsecurity=False).digest())
    if not is_signed:
        digest[0] &= 0x7F
    return int.from_bytes(digest[:4], "big", signed=is_signed)


def _napcat_event(event: Frame, number: int) -> Frame:
    fields: Frame = {"real_id": event["message_id"], "real_seq": str(number)}
    if event["post_type"] == "message_sent":
        fields["message_sent_type"] = "self"
    elif event["message_type"] == "private":
        fields["target_id"] = event["user_id"]
    return event | {"message_seq": event["message_id"]} | fields


def _napcat_upload(name: str, size_bytes: int, in_group: bool) -> Upload:
    parts = segment("file", file=name, file_id=f"/uuid-{name}", file_size=str(size_bytes))
    file: Frame = {"id": f"encoded-{name}", "name": name, "size": size_bytes, "busid": 102}
    return Upload([parts], "group_upload" if in_group else "", file, is_notice_first=True)


def _llbot_event(event: Frame, number: int) -> Frame:
    return event | {"message_seq": number}


def _llbot_upload(name: str, size_bytes: int, in_group: bool) -> Upload:
    file_id = f"/uuid-{name}"
    parts = segment("file", file=name, url="", file_id=file_id, path="", file_size=str(size_bytes))
    file: Frame = {"id": file_id, "name": name, "size": size_bytes, "busid": 102}
    return Upload([parts], "group_upload" if in_group else "", file, is_notice_first=False)


def _lagrange_event(event: Frame, _number: int) -> Frame:
    left_out = ("message_seq", "message_format", "group_name")
    kept: Frame = {key: value for key, value in event.items() if key not in left_out}
    kept |= {"post_type": "message", "font": 0, "message_style": None}
    if event["message_type"] == "group":
        kept.pop("target_id", None)
    else:
        kept.setdefault("target_id", event["self_id"])
    sender = read_object(event, "sender")
    level = sender.get("level")
    if isinstance(level, str) and level.isdigit():
        kept["sender"] = {**sender, "level": int(level)}
    return kept


def _lagrange_upload(name: str, size_bytes: int, in_group: bool) -> Upload:
    url = f"https://file.example.org/{name}"
    parts = segment("file", file_name=name, file_hash="", file_id=f"/uuid-{name}", url=url)
    file: Frame = {"id": f"/uuid-{name}", "name": name, "size": size_bytes, "url": url}
    file |= {"busid": 0} if in_group else {"hash": ""}
    return Upload([parts], "group_upload" if in_group else "offline_file", file, is_notice_first=False)


def _lagrange_id(number: int) -> int:
    sequence = (40_000 + number) & 0xFFFF  # a group that has seen much: the sign bit is set
    value = sequence << 16 | (number * 40_503) & 0xFFFF
    return value - 2**32 if value >= 2**31 else value


_ALL: Final = (
    Implementation(
        name="napcat",
        message_id=lambda number: _hash("napcat", number, is_signed=False),
        event=_napcat_event,
        temporary=lambda group_id: {"sub_type": "group", "group_id": group_id, "temp_source": 0},
        upload=_napcat_upload,
        self_report="after_answer",
        unknown_action=(1404, "不支持的Api {}"),
        missing=(1200, "消息不存在"),
        is_empty_history_refused=True,
        are_answers_terse=False,
    ),
    Implementation(
        name="llbot",
        message_id=lambda number: _hash("llbot", number, is_signed=True),
        event=_llbot_event,
        temporary=lambda group_id: {"sub_type": "group", "temp_source": 0, "sender": {"group_id": group_id}},
        upload=_llbot_upload,
        self_report="before_answer",
        unknown_action=(1404, "{} API 不存在"),
        missing=(1200, "消息不存在"),
        is_empty_history_refused=False,
        are_answers_terse=False,
    ),
    Implementation(
        name="lagrange",
        message_id=_lagrange_id,
        event=_lagrange_event,
        temporary=lambda _group_id: {"sub_type": "group"},
        upload=_lagrange_upload,
        self_report="after_answer",
        unknown_action=(404, "failed"),
        missing=(200, "failed"),
        is_empty_history_refused=True,
        are_answers_terse=True,
    ),
)

IMPLEMENTATIONS: Final = MappingProxyType({one.name: one for one in _ALL})
"""The presets by name."""
