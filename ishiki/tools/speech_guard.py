"""`SpeechGuard`: what `send_message` asks before each message. The runtime decides; the tool tells the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from ishiki.contracts.events import ChannelRef

__all__ = ["SpeechGuard", "SpeechRefusal", "SpeechRefusalName"]

SpeechRefusalName = Literal["MessageLimit", "AlreadySaid", "CannotSpeak"]
"""`MessageLimit`: the turn has sent as many messages as it may. `AlreadySaid`: the same text went out lately.
`CannotSpeak`: nothing can be said in that channel, such as while the account is muted there."""


@dataclass(frozen=True, slots=True)
class SpeechRefusal:
    """Why a message is not sent."""

    name: SpeechRefusalName
    """`error.name` of the result where nothing was said."""
    reason: str
    """In plain words, for the model."""
    ends_turn: bool = False
    """Whether nothing more is sent in this turn."""


class SpeechGuard(Protocol):
    """Whether a mind may say something now. Called before each platform message; may not raise."""

    def refusal(self, turn_id: str, target: ChannelRef, content: str) -> SpeechRefusal | None:
        """Return why `content` (element markup) may not be sent; None where it may.

        What becomes of the message is told by its delivery entries.
        """
        ...
