"""Messages as a person refers to them: by number, chat and speaker. Owns the numbers that stand for ids (`#12`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ishiki.testing.onebot_account import Account, ChatKind

__all__ = ["BOT_NAME", "Line", "NumberedAccount", "Place"]

BOT_NAME = "bot"
"""What the bot's account is called."""


class NumberedAccount(Account):
    """An account whose message ids start anew high above those of earlier chats.

    The bot keeps its log across chats and looks quoted messages up by their id, so an id must not come again.
    """

    _IDS_PER_SECOND = 16
    """More than a person or a script gets to in the long run."""

    def __init__(self, self_id: int, now: Callable[[], float] = time.time) -> None:
        """Start with the number 1; `now` gives Unix seconds."""
        super().__init__(self_id, BOT_NAME, "array", now)
        # Message ids are 32-bit (OneBot v11, send_msg).
        self._base = int(now() * self._IDS_PER_SECOND) % (1 << 30)
        self._count = 0

    def new_message_id(self) -> int:
        """Return the id of the next number."""
        self._count += 1
        return self._base + self._count

    def number(self, message_id: int) -> int:
        """Return what a person calls the message."""
        return message_id - self._base

    def message_id(self, number: int) -> int:
        """Return the id of the message that a person calls `number`."""
        return number + self._base


@dataclass(frozen=True, slots=True)
class Place:
    """A chat: a group, or a person's private chat with the bot."""

    kind: ChatKind
    target_id: int
    """The group's id, or the person's."""

    @property
    def group_id(self) -> int | None:
        """The group's id, or None in private."""
        return self.target_id if self.kind == "group" else None

    def __str__(self) -> str:
        """Return it as shown: `group 500`."""
        return f"{self.kind} {self.target_id}"


@dataclass(slots=True)
class Line:
    """One message, as the log shows it."""

    number: int
    place: Place
    speaker: str
    text: str
    author_id: int
    is_recalled: bool = False
    position: int = 0
    """Of a message of the bot: its place among those."""

    @property
    def head(self) -> str:
        """What stands before the text: `[group 500] Rin #12:`."""
        return f"[{self.place}] {self.speaker} #{self.number}:"
