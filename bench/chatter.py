"""What people in groups say: OneBot v11 frames in endless supply, and how many of them have reached the disk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import anyio
import orjson

from ishiki.testing.onebot_account import Account
from ishiki.testing.onebot_frames import Segment, at, image, segment, text
from ishiki.testing.onebot_peer import OneBotPeer

__all__ = ["Chatter", "DiskCount", "say"]

_WORDS = (
    "今天的风很大，窗子一直在响",
    "I think the second build is the one that broke it",
    "周末去不去爬山？上次那条路太陡了",
    "lol",
    "明天的会改到三点，别忘了带上次的材料",
)


class Chatter:
    """Nine people who talk in some groups, about everything and never with the bot."""

    def __init__(self, groups: Sequence[int], *, self_id: int = 10001) -> None:
        """Talk in `groups`, one after the other."""
        self._account = Account(self_id, "bot", "array", time.time)
        self._groups = groups
        self._said = 0

    def frames(self, count: int) -> list[str]:
        """Return the next `count` lines, as they go over the wire."""
        return [self._frame() for _ in range(count)]

    def _frame(self) -> str:
        group = self._groups[self._said % len(self._groups)]
        user = 40 + self._said % 9
        kept = self._account.new_message(
            self._account.person(user, group_id=group), self._segments(), group_id=group, user_id=user
        )
        self._account.messages.clear()  # nobody asks for them, and there are many
        self._said += 1
        return orjson.dumps(kept.event).decode()

    def _segments(self) -> list[Segment]:
        words = text(f"{_WORDS[self._said % len(_WORDS)]} {self._said}")
        match self._said % 20:
            case 3:
                return [at(41), words]
            case 9:
                return [words, segment("face", id="14")]
            case 17:
                return [image("A0B1C2D3.jpg", url="https://example.com/A0B1C2D3.jpg"), words]
            case _:
                return [words]


async def say(peer: OneBotPeer, frames: Sequence[str], *, per_second: float | None = None) -> None:
    """Send frames, as fast as the bot reads or at an even pace."""
    began = time.monotonic()
    for number, frame in enumerate(frames):
        if per_second is not None:
            await anyio.sleep(max(0.0, began + number / per_second - time.monotonic()))
        await peer.send_frame(frame)


class DiskCount:
    """Counts the facts in logs that grow, reading each byte once."""

    _FACT = b'"type":"ishiki.message.created"'

    def __init__(self, paths: Sequence[Path]) -> None:
        """Count from what stands there now."""
        self._read = {path: path.stat().st_size if path.exists() else 0 for path in paths}
        self.count = 0
        """Facts that have come since."""

    def look(self) -> int:
        """Return the count as of now."""
        for path, position in self._read.items():
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(position)
                raw = file.read()
            whole = raw[: raw.rfind(b"\n") + 1]
            self._read[path] = position + len(whole)
            self.count += whole.count(self._FACT)
        return self.count

    async def reach(self, count: int, *, within_s: float = 120.0) -> None:
        """Return when there are `count`.

        Raises:
            RuntimeError: there were fewer in time; a benchmark that loses facts measures nothing.
        """
        until = time.monotonic() + within_s
        while self.look() < count:
            if time.monotonic() > until:
                raise RuntimeError(f"{self.count} of {count} facts are on disk after {within_s:g} s")
            await anyio.sleep(0.02)
