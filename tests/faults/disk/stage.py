"""What tests of a faulty disk share: a bot that answers at once, its channels, and a disk that fills up at a word."""

from __future__ import annotations

import re
import resource
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ishiki.contracts.events import MESSAGE_CREATED, ChannelRef, ChatEvent, MessageCreated, User
from ishiki.core.entries import EVENT, Entry, message_entry
from ishiki.core.messages import CustomMessage
from ishiki.jsonvalue import read_str
from ishiki.storage.format import encode_entries, encode_header
from ishiki.testing.bot_process import BotProcess, profile_yaml

SID = "onebot:10001"
LIMIT_S = 20.0
"""Seconds that a step may take: a disk that refused is tried again after five, and two cores may be busy."""


def group(group_id: int) -> ChannelRef:
    """Return the channel of a group."""
    return ChannelRef(SID, f"group:{group_id}")


def demo_bot(folder: Path, *, more: str = "", command: Sequence[str] | None = None) -> BotProcess:
    """Return a bot whose model answers at once, without a network, and repeats what it heard."""
    return BotProcess(folder, profiles={"mind": profile_yaml(model="demo:offline", more=more)}, command=command)


@contextmanager
def full_disk(bot: BotProcess, size: int = 0) -> Generator[None]:
    """Let none of the bot's files grow beyond `size` bytes, as a full disk does: a write is cut short, then refused."""
    soft, hard = resource.prlimit(bot.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(bot.pid, resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        if bot.is_running:
            resource.prlimit(bot.pid, resource.RLIMIT_FSIZE, (soft, hard))


def log_file(bot: BotProcess, group_id: int) -> Path:
    """Return the log of a group."""
    return bot.home(group(group_id)) / "events.jsonl"


def put_log(bot: BotProcess, group_id: int, content: bytes) -> Path:
    """Write the log of a group, before the bot opens it."""
    log = log_file(bot, group_id)
    log.parent.mkdir(parents=True)
    log.write_bytes(content)
    return log


def header(group_id: int) -> bytes:
    """Return the first line of a group's log."""
    return encode_header(SID, f"group:{group_id}")


def said_line(group_id: int, number: int, content: str, *, more: bool = False) -> bytes:
    """Return the line of a fact: somebody said `content` in a group."""
    user = User("77", "Mio")
    fact = MessageCreated(
        number, "onebot", "10001", f"group:{group_id}", str(900_000 + number), content, is_direct=False, user=user
    )
    message = CustomMessage(MESSAGE_CREATED, fact.to_data(), timestamp=number)
    (line,) = encode_entries([message_entry(message, timestamp=number)])
    return line.raw if not more else line.raw.replace(b"}\n", b',"more":true}\n')


def contents_of(facts: list[ChatEvent]) -> list[str]:
    """Return what was said, in order, without the address in front."""
    return [re.sub(r"^<at [^>]*/> ?", "", fact.content) for fact in facts if isinstance(fact, MessageCreated)]


def turns_of(entries: list[Entry]) -> list[str]:
    """Return the types of the turns' events, in order."""
    return [read_str(entry.json_data, "type") for entry in entries if entry.type == EVENT]


def errors_of(bot: BotProcess, since: int = 0) -> list[str]:
    """Return the errors in the bot's log."""
    return [line for line in bot.log[since:] if re.search(r"\[(ERROR|CRITICAL)\]|Traceback", line)]
