"""What these tests share: a bot that starts fast, its channels, and ways to read what it knows and was asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import orjson

from ishiki.content import ReadLine, split_lines
from ishiki.contracts.events import ChannelRef, ChatEvent, MessageCreated
from ishiki.core.entries import EVENT, Entry
from ishiki.jsonvalue import read_str
from ishiki.testing.bot_process import BotProcess, profile_yaml
from ishiki.testing.openai_server import ChatRequest

SELF_ID = 10_001
GROUP = 500
LIMIT_S = 20.0
"""Seconds that a step may take; two cores may be busy with other tests."""

ENDS = ("turn.done", "turn.failed", "turn.aborted")
"""How a turn can end."""

_WIRE = Path(__file__).with_name("wire_model.py").read_text(encoding="utf-8")
_TROUBLE = re.compile(r"\[(WARNING|ERROR|CRITICAL)\]|Traceback")


def wire_bot(
    folder: Path, base_url: str, *, settings: Mapping[str, str] | None = None, env: Mapping[str, str] | None = None
) -> BotProcess:
    """Return a bot that asks the model server at `base_url`, and starts without a model library.

    Args:
        folder: its folder.
        base_url: the server's.
        settings: further sections of profile.yaml, each in one line.
        env: settings of the process.
    """
    sections = {"toolcall": f'{{engine: wire, wire: {{base_url: "{base_url}"}}}}', **(settings or {})}
    profile = profile_yaml(model="demo:offline", more="\n".join(f"{name}: {text}" for name, text in sections.items()))
    return BotProcess(
        folder,
        models="providers: {}\n",
        profiles={"mind": profile},
        plugins={"wire_model.py": _WIRE},
        env={"ISHIKI_TIMEZONE": "UTC", **(env or {})},
    )


def group(group_id: int = GROUP, *, self_id: int = SELF_ID) -> ChannelRef:
    """Return the channel of a group."""
    return ChannelRef(f"onebot:{self_id}", f"group:{group_id}")


def private(user_id: int, *, self_id: int = SELF_ID) -> ChannelRef:
    """Return the channel of a private chat."""
    return ChannelRef(f"onebot:{self_id}", f"private:{user_id}")


def lines_of(request: ChatRequest) -> list[ReadLine]:
    """Return the lines that a request shows its model, in order."""
    texts = [read_str(message, "content") for message in request.messages if message.get("role") == "user"]
    return [line for text in texts for line in split_lines(text)]


def contents_of(facts: Iterable[ChatEvent]) -> list[str]:
    """Return what was said, in order, without the address in front."""
    return [re.sub(r"^<at [^>]*/> ?", "", fact.content) for fact in facts if isinstance(fact, MessageCreated)]


def events_of(entries: Iterable[Entry], *types: str) -> list[str]:
    """Return the types of the agent's events among `entries`, those of `types` only."""
    found = [read_str(entry.json_data, "type") for entry in entries if entry.type == EVENT]
    return [kind for kind in found if kind in types]


def troubles(lines: Iterable[str]) -> list[str]:
    """Return the warnings and worse among log lines."""
    return [line for line in lines if _TROUBLE.search(line)]


async def ended(bot: BotProcess, channel: ChannelRef, count: int) -> list[str]:
    """Wait until `count` turns of a channel have ended, and return how each did."""

    def are_over(_entry: Entry) -> bool:
        return len(events_of(bot.entries(channel), *ENDS)) >= count

    await bot.wait_entry(are_over, channel, within=LIMIT_S)
    return events_of(bot.entries(channel), *ENDS)


def log_path(bot: BotProcess, channel: ChannelRef) -> Path:
    """Return the file of a channel's log."""
    return bot.home(channel) / "events.jsonl"


def is_whole(raw: bytes) -> bool:
    """Whether a log is whole batches: lines of JSON, and the last one ends its batch."""
    if not raw:
        return True
    if not raw.endswith(b"\n"):
        return False
    lines = [orjson.loads(line) for line in raw.splitlines()]
    return lines[-1].get("more") is not True
