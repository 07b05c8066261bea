"""`Platform`: what the runtime asks of a chat platform. `plugin/` implements it for OneBot v11.

Everything here is one account's or names its account; the mind never sees a platform's own objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ishiki.contracts.events import ChannelRef, MessageCreated
from ishiki.contracts.resources import FilePayload
from ishiki.jsonvalue import JsonObject, JsonValue

__all__ = ["ForwardNode", "MediaRef", "Platform", "SendOutcome", "SendState", "SpeechBar", "Standing"]

SendState = Literal["sent", "refused", "unreachable", "unknown"]
"""`sent`: the end said so. `refused`: the end said no (muted, not a member, content). `unreachable`: it never reached a
socket. `unknown`: it left, and nobody knows whether people have read it; it counts as said."""

SpeechBar = Literal["muted", "removed", "not_friend", "offline"]
"""Why nothing at all can be said in a channel: the account is muted there, is not a member of the group, may not write
to the person, or is not logged in to the chat. What passes by itself, such as a bound on speed, is none."""


@dataclass(frozen=True, slots=True)
class SendOutcome:
    """What became of one platform message."""

    state: SendState
    message_id: str = ""
    """The platform's id; empty where it gave none."""
    detail: str = ""
    """Why, in a few words that a model may read; empty for `sent`."""
    dropped: Sequence[str] = field(default_factory=tuple[str, ...])
    """Media that could not be sent, one description each; the rest went out."""
    bar: SpeechBar | None = None
    """Of a `refused` one: why nothing else could be said there either; None where something else may be."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a platform knows of its account's right to speak in a channel. It may be minutes old."""

    muted_until_ms: int = 0
    """Epoch milliseconds; not later than now where the account is not muted itself."""
    is_admin: bool = False
    """Whether it may speak while everybody is muted."""


@dataclass(frozen=True, slots=True)
class MediaRef:
    """A piece of media as the platform names it."""

    kind: Literal["image", "audio", "video", "file"]
    url: str = ""
    file: str = ""
    """The platform's own name for it."""


@dataclass(frozen=True, slots=True)
class ForwardNode:
    """One message of a forwarded bundle."""

    user_id: str
    user_name: str
    content: str
    """Element markup."""
    timestamp: int = 0


class Platform(Protocol):
    """One platform, seen by one runtime. `account` is a sid; None stands for the runtime's own (cross mode: its first).

    Every call has its own time limit and never raises for what the other end does, unless it says so.
    """

    def is_online(self, account: str | None = None) -> bool:
        """Whether a protocol end is connected for the account."""
        ...

    async def wait_online(self, account: str | None = None) -> None:
        """Return as soon as a protocol end is connected for the account."""
        ...

    async def send(self, target: ChannelRef, content: str) -> SendOutcome:
        """Send one message of element markup. Once handed to a socket it is not taken back by cancellation."""
        ...

    async def message(self, message_id: str, *, account: str | None = None) -> MessageCreated | None:
        """Fetch a message by its id; None where the end does not have it or does not answer in time."""
        ...

    async def recent_history(self, channel: ChannelRef, count: int) -> Sequence[MessageCreated] | None:
        """Fetch the newest messages of a channel, oldest first; empty where the end does not offer that.

        None: it was asked, and no answer came. Who asks again had better ask for fewer.
        """
        ...

    async def standing(self, channel: ChannelRef) -> Standing | None:
        """Return what the end knows of the account's right to speak in a channel; None where it does not tell."""
        ...

    def connection_count(self, account: str | None = None) -> int:
        """Return how often an end has connected for the account; a change means that something may have been missed."""
        ...

    async def forward(self, forward_id: str, *, account: str | None = None) -> Sequence[ForwardNode] | None:
        """Fetch a forwarded bundle; None where the end does not have it or does not answer in time."""
        ...

    async def media(self, ref: MediaRef, *, account: str | None = None) -> str | None:
        """Return a URL from which the bytes can be fetched now, or None."""
        ...

    async def call(self, action: str, params: JsonObject, *, account: str | None = None) -> JsonValue:
        """Call an action of the platform's own API and return its data.

        Raises:
            ToolError: the end refused, is not connected or did not answer in time.
        """
        ...

    async def publish(self, payload: FilePayload) -> str:
        """Return a temporary URL under which the protocol end can fetch the bytes."""
        ...
