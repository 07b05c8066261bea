"""One WebSocket of one account: API calls over it and their answers. What the frames mean is the adapter's business.

Source: OneBot v11, communication over WebSocket: a call carries an `echo`, and its answer the same.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, cast

import anyio
from nonebot.adapters.onebot.v11.exception import NetworkError
from nonebot.drivers import WebSocket
from nonebot.utils import DataclassEncoder

from ishiki.jsonvalue import JsonObject, JsonValue, read_object

__all__ = ["Connection", "LateCalls", "NoAnswerError", "NotHandedOverError"]

_echoes: Final = itertools.count(1)
"""Over all connections, so that an answer can never be taken for that of another connection's call."""


class NotHandedOverError(NetworkError):
    """The call never reached a socket: it certainly had no effect."""


class NoAnswerError(NetworkError):
    """The call was handed to a socket and no answer came: whether it had an effect cannot be known."""


_MAX_LATE: Final = 256
"""Calls whose answer may still come; the oldest leave."""


class LateCalls:
    """Sends that ended without an answer, over all connections: it may still come, also over the next connection."""

    def __init__(self) -> None:
        """Remember none."""
        self._frames: OrderedDict[str, str] = OrderedDict()

    def add(self, echo: str, action: str, frame: str) -> None:
        """Remember a call that nobody waits for any more, if it was a send."""
        if action.startswith("send_"):
            self._frames[echo] = frame
            if len(self._frames) > _MAX_LATE:
                self._frames.popitem(last=False)

    def take(self, answer: JsonObject) -> JsonObject | None:
        """Return the parameters of the send that `answer` belongs to, once; None where it belongs to none."""
        frame = self._frames.pop(_echo(answer.get("echo")), None)
        return None if frame is None else read_object(cast("JsonObject", json.loads(frame)), "params")


@dataclass(slots=True)
class _Call:
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: JsonObject | None = None


class Connection:
    """An open WebSocket.

    Attributes:
        websocket: NoneBot's socket.
        self_id: the account; "" until its first frame names it (forward connections).
        way: how it came about: the address that we dialled, or "" where the OneBot implementation dialled us.
        frames: how many have come.
        refused_for: the account for which it was refused, since another way to it is open; else "".
        scope: cancelled when a newer connection takes over.
    """

    def __init__(
        self, websocket: WebSocket, self_id: str = "", late: LateCalls | None = None, *, way: str = ""
    ) -> None:
        """Wrap an accepted socket; `late` takes the sends that end without an answer."""
        self.websocket = websocket
        self.self_id = self_id
        self.way = way
        self.frames = 0
        self.refused_for = ""
        self.scope = anyio.CancelScope()
        self.is_lost = False
        self._calls: dict[str, _Call] = {}
        self._late = late or LateCalls()

    async def call(self, action: str, params: dict[str, object], timeout_s: float | None) -> JsonObject:
        """Call an API action and return its answer, the whole frame.

        Args:
            action: the action.
            params: its parameters; NoneBot's message objects are written as the segments they hold.
            timeout_s: seconds until the answer must be there; None waits as long as the connection lasts.

        Raises:
            NotHandedOverError: the connection is gone.
            NoAnswerError: no answer in time, or the connection was lost before it came.
        """
        if self.is_lost or self.websocket.closed:
            raise NotHandedOverError(f"{action}: the connection is gone")
        echo = str(next(_echoes))
        frame = json.dumps({"action": action, "params": params, "echo": echo}, cls=DataclassEncoder)
        call = self._calls[echo] = _Call()
        try:
            with anyio.move_on_after(timeout_s):
                await self._send(action, frame)
                await call.done.wait()
        finally:
            del self._calls[echo]
            if call.answer is None:
                self._late.add(echo, action, frame)
        if call.answer is None:
            raise NoAnswerError(f"{action}: {'the connection was lost' if call.done.is_set() else 'no answer in time'}")
        return call.answer

    async def is_alive(self, within_s: float) -> bool:
        """Whether the other side still speaks: it is asked for its status, and any frame counts, also a refusal."""
        frames = self.frames
        with contextlib.suppress(NetworkError):
            await self.call("get_status", {}, within_s)
        return not self.is_lost and self.frames > frames

    async def _send(self, action: str, frame: str) -> None:
        try:
            await self.websocket.send(frame)
        except Exception as error:
            # Each driver raises its own when a socket dies under a send. Part of the frame may be on the wire.
            raise NoAnswerError(f"{action}: the connection was lost while sending") from error

    def answer(self, frame: JsonObject) -> bool:
        """Take an answer; False where nobody waits for it (any more)."""
        call = self._calls.get(_echo(frame.get("echo")))
        if call is None or call.done.is_set():
            return False
        call.answer = frame
        call.done.set()
        return True

    def abandon(self) -> None:
        """Wait for no answer any more: the calls in flight end without one."""
        for call in self._calls.values():
            call.done.set()

    def lose(self) -> None:
        """Take note that the socket is gone: the calls in flight end without an answer. Idempotent."""
        self.is_lost = True
        self.abandon()

    def replace(self) -> None:
        """End this connection because the account has connected anew."""
        self.lose()
        self.scope.cancel()


def _echo(value: JsonValue) -> str:
    """Return an echo as it was sent; some ends give a number back."""
    return str(value) if isinstance(value, str | int) else ""
