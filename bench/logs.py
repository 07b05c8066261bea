"""Logs of any length, fast: blocks of 1,000 entries of every type, as the bot itself writes them.

One block is made by the real encoder; the others are its bytes with other ids and times. Entries are 350 to 600 bytes
in the mean. A block holds facts with mentions, quotes, pictures and their attachments, recalls, facts that joined a
running step, turns with deliveries and results, turns that failed, a compaction and, as its last entry, a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ishiki.contracts.events import (
    ATTACHMENT,
    MESSAGE_CREATED,
    MESSAGE_DELETED,
    Attachment,
    AttachmentItem,
    ChannelRef,
    ChatEvent,
    MessageCreated,
    MessageDeleted,
    Quote,
    User,
)
from ishiki.core.entries import CHECKPOINT, COMPACT, DELIVERY, EVENT, Entry, message_entry, step_key
from ishiki.core.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolResultPart,
    Usage,
)
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.storage.format import encode_entries, encode_header

__all__ = ["BLOCK", "SELF_ID", "channel", "size_of", "write_log"]

BLOCK = 1_000
"""Entries of a block; the runtime writes a checkpoint as often."""

SELF_ID = "10001"

_ID = "80000000"
"""Stands in every id of a block, and is replaced by the block's number; occurs nowhere else."""

_TIME = "16000"
"""How each time of a block begins (epoch milliseconds), replaced likewise: a block is 28 hours."""

_TIME_KEY = b'"timestamp":' + _TIME.encode()
_GROUP = 500
_CHANNEL = ChannelRef(f"onebot:{SELF_ID}", f"group:{_GROUP}")
_KEYS = 2_000
"""Keys of facts in a checkpoint, as many as the runtime remembers."""

_WORDS = (
    "今天的风很大，窗子一直在响。你们那边下雨了吗？我准备晚一点再出门。",
    "I think the second build is the one that broke it; the first still works on my machine, look at the log.",
    "周末去不去爬山？上次那条路太陡了，这次换一条，带上水和帽子，早上七点在地铁口见。",
    "lol yes",
    "明天的会改到三点，别忘了带上次的材料，还有那张签过字的表，没有它什么都办不成。",
    "does anybody have the link from yesterday? I lost it when my phone restarted, sorry for asking again",
)


def channel(group: int = _GROUP) -> ChannelRef:
    """Return the channel of a group."""
    return ChannelRef(_CHANNEL.sid, f"group:{group}")


def write_log(path: Path, entries: int, *, group: int = _GROUP) -> None:
    """Write a log of `entries` entries at `path`, as of the given group."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(encode_header(_CHANNEL.sid, f"group:{group}"))
        for block in _blocks(entries):
            file.write(block if group == _GROUP else block.replace(b"group:500", b"group:%d" % group))


def size_of(entries: int) -> float:
    """Return the mean bytes of an entry in a log of so many."""
    return sum(len(block) for block in _blocks(entries)) / entries


def _blocks(entries: int) -> Iterator[bytes]:
    lines = _template()
    whole = b"".join(lines)
    for number in range(0, entries, BLOCK):
        block = whole if number + BLOCK <= entries else b"".join(_cut(lines, entries - number))
        index = number // BLOCK
        yield block.replace(_ID.encode(), b"8%07d" % index).replace(_TIME_KEY, b'"timestamp":%d' % (int(_TIME) + index))


def _cut(lines: list[bytes], count: int) -> list[bytes]:
    """Return the first `count` lines; a batch that would be cut in two ends before."""
    kept = lines[:count]
    return [*kept[:-1], kept[-1].replace(b',"more":true', b"")] if kept else kept


@cache
def _template() -> list[bytes]:
    return _Block().lines()


@dataclass(slots=True)
class _Block:
    """Writes the entries of one block, in batches."""

    _batches: list[list[Entry]] = field(default_factory=list[list[Entry]])
    _count: int = 0
    _facts: int = 0
    _turns: int = 0
    _compacted: JsonObject = field(default_factory=dict[str, JsonValue])

    def lines(self) -> list[bytes]:
        while self._count < BLOCK // 2:
            self._scene()
        self._compaction()
        while self._count < BLOCK - 40:
            self._scene()
        while self._count < BLOCK - 1:
            self._fact()
        self._checkpoint()
        return [line.raw for batch in self._batches for line in encode_entries(batch)]

    def _scene(self) -> None:
        for number in range(18):
            if number == 7:
                self._picture()
            elif number == 11:
                self._recall()
            else:
                self._fact(quotes=number == 13)
        self._turn()

    @property
    def _now(self) -> int:
        return int(_TIME) * 100_000_000 + self._count * 99_000

    def _id(self) -> str:
        """Return an id as long as a real one, unique in the log."""
        self._count += 1
        return f"{'c0ffee' * 3:0<18}{_ID}{self._count:06d}"

    def _add(self, *entries: Entry) -> None:
        self._batches.append(list(entries))

    def _custom(self, kind: str, data: JsonObject, joins: str | None = None) -> Entry:
        entry_id = self._id()
        message = CustomMessage(kind, data, self._now, f"{entry_id}m")
        return Entry("message", message, self._now, entry_id, joins=joins)

    def _event(self, event: ChatEvent, joins: str | None = None) -> Entry:
        kind = MESSAGE_CREATED if isinstance(event, MessageCreated) else MESSAGE_DELETED
        return self._custom(kind, event.to_data(), joins)

    def _message_id(self) -> str:
        self._facts += 1
        return f"{_ID}{self._facts:04d}"

    def _said(self, content: str, quote: Quote | None = None) -> MessageCreated:
        speaker = 40 + self._facts % 9
        return MessageCreated(
            timestamp=self._now,
            platform="onebot",
            self_id=SELF_ID,
            channel_id=_CHANNEL.channel_id,
            message_id=self._message_id(),
            content=content,
            is_direct=False,
            user=User(str(speaker), f"成员 {speaker}"),
            guild_id=str(_GROUP),
            quote=quote,
        )

    def _fact(self, *, quotes: bool = False, joins: str | None = None) -> None:
        words = _WORDS[self._facts % len(_WORDS)]
        quote = Quote(f"{_ID}{self._facts:04d}", words, User("41", "成员 41")) if quotes else None
        self._add(self._event(self._said(words, quote), joins))

    def _picture(self) -> None:
        url = f"asset://{_ID}{self._facts:04d}.jpg"
        said = self._said(f'<img src="{url}"/> 看这个')
        items = (AttachmentItem(url, "image/jpeg", byte_length=48_213, width=1080, height=1440),)
        attachment = Attachment("platform", items, channel=_CHANNEL, message_id=said.message_id)
        self._add(self._event(said), self._custom(ATTACHMENT, attachment.to_data()))

    def _recall(self) -> None:
        recalled = f"{_ID}{self._facts:04d}"
        self._add(self._event(MessageDeleted(self._now, "onebot", SELF_ID, _CHANNEL.channel_id, recalled, "42", "42")))

    def _turn(self) -> None:
        self._turns += 1
        turn_id = f"{'beef' * 4}{_ID}{self._turns:08d}"
        call_id = f"call_{_ID}{self._turns:08d}"
        answer = _WORDS[self._turns % len(_WORDS)]
        self._add(self._record("turn.start", turn_id))
        if self._turns % 10 == 0:
            error: JsonObject = {"code": "model_unavailable", "message": "test:model: the server answered 502"}
            self._add(self._record("turn.failed", turn_id, {"error": error}))
            return
        self._fact(joins=step_key(turn_id, 0))
        delivery: JsonObject = {"toolCallId": call_id, "index": 0, "sid": _CHANNEL.sid, "content": answer}
        delivery = {**delivery, "channelId": _CHANNEL.channel_id}
        own_id = self._message_id()
        self._add(Entry(DELIVERY, {**delivery, "state": "sending"}, self._now, self._id(), turn_id=turn_id))
        self._add(Entry(DELIVERY, {**delivery, "state": "sent", "id": own_id}, self._now, self._id(), turn_id=turn_id))
        usage = Usage(9_120, 24, 8_960)
        call = ToolCallPart(call_id, "send_message", {"messages": [answer]})
        output = ToolOutput("json", {"ok": True, "ids": [own_id]})
        self._add(
            self._step(AssistantMessage([call], self._now, usage, "tool-calls", id=self._id()), turn_id),
            self._step(ToolMessage([ToolResultPart(call_id, "send_message", output)], self._now, self._id()), turn_id),
        )
        counted: JsonObject = {"usage": {"inputTokens": 9_120, "outputTokens": 24, "cachedInputTokens": 8_960}}
        self._add(self._record("turn.done", turn_id, counted))

    def _step(self, message: Message, turn_id: str) -> Entry:
        entry = message_entry(message, timestamp=self._now, turn_id=turn_id, step=0)
        return Entry(entry.type, entry.data, entry.timestamp, f"{message.id}e", turn_id=turn_id, step=0)

    def _record(self, kind: str, turn_id: str, more: JsonObject | None = None) -> Entry:
        return Entry(EVENT, {"type": kind, "turnId": turn_id, **(more or {})}, self._now, self._id(), turn_id=turn_id)

    def _compaction(self) -> None:
        last = self._batches[len(self._batches) // 5][-1]  # what follows it fills a request's budget
        summary = " ".join(_WORDS)
        self._compacted = {"summary": summary, "lastEntryId": last.id}
        self._add(Entry(COMPACT, self._compacted, self._now, self._id()))

    def _checkpoint(self) -> None:
        keys: list[JsonValue] = [f"{_CHANNEL}|{_ID}{number:04d}|42|{self._now}" for number in range(_KEYS)]
        data: dict[str, JsonValue] = {
            "state": {"version": 1},
            "compaction": self._compacted,
            "waits": [],
            "guards": {},
            "names": {f"onebot:{40 + number}": f"成员 {40 + number}" for number in range(9)},
            "recentIds": keys,
            "sentIds": [{"id": f"{_ID}{number:04d}", "sid": _CHANNEL.sid} for number in range(900)],
        }
        self._add(Entry(CHECKPOINT, data, self._now, self._id()))
