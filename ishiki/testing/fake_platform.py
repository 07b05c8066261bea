"""`FakePlatform`: a chat platform without a network, for tests of tools, engines and extensions.

What crosses a wire is tested with `onebot_peer`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import anyio

from ishiki.contracts.events import ChannelRef, MessageCreated
from ishiki.contracts.platform import ForwardNode, MediaRef, SendOutcome, Standing
from ishiki.contracts.resources import FilePayload
from ishiki.errors import ToolError
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.journal import Journal

__all__ = ["FakePlatform", "SentMessage"]


@dataclass(frozen=True, slots=True)
class SentMessage:
    """One message that the platform was asked to send."""

    target: ChannelRef
    content: str
    outcome: SendOutcome


class FakePlatform:
    """Answers as it was told. Fits `ishiki.contracts.platform.Platform`.

    Attributes:
        attempts: targets and contents in the order in which `send` was called; before any `hold`.
        sent: what `send` has answered, in order.
        standings: what `standing` knows, by channel; nothing by default.
        calls: actions and parameters given to `call`, in order.
    """

    def __init__(
        self,
        outcomes: Sequence[SendOutcome] = (),
        *,
        is_online: bool = True,
        messages: Sequence[MessageCreated] = (),
        results: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Answer with `outcomes` in order, then with `sent` and ids that count up from 901.

        Args:
            outcomes: what becomes of the first messages.
            is_online: whether an account is connected; `set_online` changes it.
            messages: what `message` finds.
            results: what `call` returns, by action; any other action is refused.
        """
        self.attempts: Journal[tuple[ChannelRef, str]] = Journal("attempts")
        self.sent: Journal[SentMessage] = Journal("messages")
        self.calls: list[tuple[str, JsonObject]] = []
        self.standings: dict[ChannelRef, Standing] = {}
        self._outcomes = deque(outcomes)
        self._next_id = 901
        self._messages = {message.message_id: message for message in messages}
        self._results = dict(results or {})
        self._gate = anyio.Event()
        self._gate.set()
        self._online = anyio.Event()
        self._connections = int(is_online)
        if is_online:
            self._online.set()

    @property
    def texts(self) -> list[str]:
        """The contents that went out: those answered with `sent` or `unknown`."""
        return [sent.content for sent in self.sent if sent.outcome.state in ("sent", "unknown")]

    def remember(self, *messages: MessageCreated) -> None:
        """Let `message` and `recent_history` find these as well."""
        self._messages.update({message.message_id: message for message in messages})

    def hold(self) -> None:
        """Let every send from now on wait for `release`."""
        self._gate = anyio.Event()

    def release(self) -> None:
        """Let the held sends go on."""
        self._gate.set()

    def set_online(self, is_online: bool) -> None:
        """Connect or disconnect every account."""
        if not is_online:
            self._online = anyio.Event()
        elif not self._online.is_set():
            self._connections += 1
            self._online.set()

    def is_online(self, account: str | None = None) -> bool:
        """Whether an account is connected."""
        return self._online.is_set()

    async def wait_online(self, account: str | None = None) -> None:
        """Return as soon as an account is connected."""
        await self._online.wait()

    async def send(self, target: ChannelRef, content: str) -> SendOutcome:
        """Take one message and answer with the next outcome."""
        self.attempts.add((target, content))
        await self._gate.wait()
        outcome = self._outcomes.popleft() if self._outcomes else self._success()
        self.sent.add(SentMessage(target, content, outcome))
        return outcome

    async def message(self, message_id: str, *, account: str | None = None) -> MessageCreated | None:
        """Return the message of that id, if it was given one."""
        return self._messages.get(message_id)

    async def recent_history(self, channel: ChannelRef, count: int) -> Sequence[MessageCreated] | None:
        """Return the newest messages that it was given for the channel."""
        known = [message for message in self._messages.values() if message.channel == channel]
        return sorted(known, key=lambda message: message.timestamp)[-count:]

    async def standing(self, channel: ChannelRef) -> Standing | None:
        """Return what it was told of the account's right to speak there."""
        return self.standings.get(channel)

    def connection_count(self, account: str | None = None) -> int:
        """Return how often the accounts were connected."""
        return self._connections

    async def forward(self, forward_id: str, *, account: str | None = None) -> Sequence[ForwardNode] | None:
        """Return None: nothing was forwarded here."""
        return None

    async def media(self, ref: MediaRef, *, account: str | None = None) -> str | None:
        """Return the reference's own URL, or None."""
        return ref.url or None

    async def call(self, action: str, params: JsonObject, *, account: str | None = None) -> JsonValue:
        """Return the result given for `action`.

        Raises:
            ToolError: there is none.
        """
        self.calls.append((action, params))
        if action not in self._results:
            raise ToolError(f"this platform has no action {action!r}")
        return self._results[action]

    async def publish(self, payload: FilePayload) -> str:
        """Return a URL on this machine that nobody serves."""
        return f"http://127.0.0.1/published/{len(payload.bytes)}"

    def _success(self) -> SendOutcome:
        outcome = SendOutcome("sent", str(self._next_id))
        self._next_id += 1
        return outcome
