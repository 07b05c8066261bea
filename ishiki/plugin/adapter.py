"""The OneBot v11 adapter that `bot.py` registers: NoneBot's own, with every frame offered to intake first.

What differs from the stock adapter, and why (design, one message in): a frame reaches intake in wire order, before
anything can fail to parse, delay or change it; a frame that is no JSON ends no connection; the newest connection of an
account wins, unless it came another way and the one there is still answers; other plugins get events only when one of
them has a matcher, and not without bound; every task has an owner. Over a WebSocket, calls are answered or end as
unknown; nothing waits for a socket that is gone.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import ClassVar, Final, cast

import anyio
from nonebot.adapters.onebot.v11 import Adapter as OneBotAdapter
from nonebot.adapters.onebot.v11 import Bot, Event
from nonebot.adapters.onebot.v11.exception import ActionFailed, ApiNotAvailable
from nonebot.drivers import URL, Driver, HTTPClientMixin, Request, Response, WebSocket
from nonebot.exception import WebSocketClosed
from typing_extensions import override

from ishiki.config.settings import MAX_FRAME_BYTES
from ishiki.core.clock import SystemClock
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.plugin.accounts import Accounts, sid_of
from ishiki.plugin.connection import Connection, LateCalls, NotHandedOverError
from ishiki.plugin.event_passage import EventPassage
from ishiki.plugin.forward_socket import TOO_BIG, dial
from ishiki.plugin.intake import Intake
from ishiki.plugin.sent_registry import SentRegistry
from ishiki.plugin.wire import decode, read_id

__all__ = ["Adapter"]

logger = logging.getLogger(__name__)

_CLOSE_S: Final = 1.0
"""Seconds a closing handshake may take; a dead socket does not take part."""

_CONNECT_S: Final = 30.0
"""Seconds a forward connection may take to open, as in the stock adapter."""

_MAX_RECONNECT_S: Final = 15.0

_ALIVE_S: Final = 2.0
"""Seconds in which a connection has to answer, where another way to its account is about to replace it. Our choice."""

_GOOD_RETCODES: Final = (0, 1, None)
"""0: done; 1: will be done (`_async` actions)."""

_PARTIAL_ROLES: Final = ("api", "event")
"""`X-Client-Role` of ends that split calls and events over two connections."""


class Adapter(OneBotAdapter):
    """OneBot v11 over reverse WebSocket, forward WebSocket and HTTP.

    NoneBot makes one instance per process and parses frames in a class method, so what this class shares with the
    plugin belongs to the class.
    """

    clock: ClassVar = SystemClock()
    accounts: ClassVar[Accounts] = Accounts()
    """Which accounts are connected."""

    sent: ClassVar[SentRegistry] = SentRegistry(clock)
    """What this process sent."""

    intake: ClassVar[Intake] = Intake(accounts, sent, clock)
    """Where every frame goes; the plugin opens and closes it."""

    passage: ClassVar[EventPassage] = EventPassage()
    """The way to other plugins."""

    reconnect_s: ClassVar[float] = 3.0
    """Seconds until a lost forward connection is tried again; doubles up to 15 while that fails."""

    max_frame_bytes: ClassVar[int] = MAX_FRAME_BYTES
    """Of a forward connection."""

    @override
    def __init__(self, driver: Driver, **kwargs: object) -> None:
        """Set the routes and connections up, as the stock adapter does."""
        self._connections: dict[str, Connection] = {}
        self._late = LateCalls()
        self._vacated: dict[str, anyio.Event] = {}
        """Set when the account's connection is lost, for who was refused because of it."""
        self._told_of_two_ways: set[str] = set()
        super().__init__(driver, **kwargs)

    @classmethod
    @override
    def json_to_event(cls, json_data: JsonValue) -> Event | None:
        """Offer a frame to intake, then make an event of it if another plugin wants one. Called in wire order.

        Args:
            json_data: the frame as decoded.

        Returns:
            The event for NoneBot, or None: nobody wants it, too many are in flight, or it is no event.
        """
        if not isinstance(json_data, Mapping) or "post_type" not in json_data:
            return None
        if json_data.get("meta_event_type") == "lifecycle":  # over HTTP the only sign of a start
            cls.sent.connected(sid_of(read_id(json_data, "self_id")))
        cls.intake.offer(json_data)
        return super().json_to_event(json_data) if cls.passage.admits() else None

    # Reverse WebSocket: the end connects to us.

    @override
    async def _handle_ws(self, websocket: WebSocket) -> None:
        self_id = (websocket.request.headers.get("x-self-id") or "").strip()
        refusal = self._refusal(websocket.request, self_id)
        if refusal:
            logger.warning("a connection for account %r is refused: %s", self_id, refusal)
            await websocket.close(1008, refusal)
            return
        connection = Connection(websocket, self_id, self._late)
        if not await self._is_admitted(connection, self_id):
            await websocket.close(1008, "the account is connected another way")
            return
        await websocket.accept()
        self._adopt(connection)
        await self._serve(connection)

    def _refusal(self, request: Request, self_id: str) -> str:
        if not self_id:
            return "missing X-Self-ID header"
        # The token first of all: who may not connect must not end the connection of who may.
        if (response := self._check_access_token(request)) is not None:
            return str(response.content)
        if (request.headers.get("x-client-role") or "").lower() in _PARTIAL_ROLES:
            return "set the end to one universal connection (X-Client-Role: Universal)"
        return ""

    # Forward WebSocket: we connect to the end.

    @override
    async def _start_forward(self) -> None:
        for url in self.onebot_config.onebot_ws_urls:
            self.driver.task_group.start_soon(self._forward_ws, URL(str(url)))

    @override
    async def _forward_ws(self, url: URL) -> None:
        shown = str(url.with_query(None).with_user(None))  # a query may hold the token
        token = self.onebot_config.onebot_access_token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        wait_s = self.reconnect_s
        while True:
            refused_for = ""
            try:
                async with dial(
                    str(url), headers, connect_s=_CONNECT_S, close_s=_CLOSE_S, max_frame_bytes=self.max_frame_bytes
                ) as websocket:
                    logger.info("connected to %s", shown)
                    wait_s = self.reconnect_s
                    connection = Connection(websocket, late=self._late, way=shown)
                    await self._serve(connection)
                    refused_for = connection.refused_for
                    if not refused_for:
                        logger.warning("the connection to %s has ended; trying again in %.0f s", shown, wait_s)
            except Exception as error:  # noqa: BLE001 (each driver raises its own; this loop is the owner and goes on)
                logger.warning("no connection to %s (%s); trying again in %.0f s", shown, error, wait_s)
            if refused_for and refused_for in self._connections:
                await self._vacated.setdefault(refused_for, anyio.Event()).wait()
                continue
            await anyio.sleep(wait_s)
            wait_s = min(2 * wait_s, _MAX_RECONNECT_S)

    @override
    async def _stop(self) -> None:
        """Leave everything to NoneBot's task group: its end is the next thing, and all our tasks are in it."""

    # HTTP: the end posts its events.

    @override
    async def _handle_http(self, request: Request) -> Response:
        self_id = (request.headers.get("x-self-id") or "").strip()
        if not self_id:
            logger.warning("an HTTP event is refused: missing X-Self-ID header")
            return Response(400, content="Missing X-Self-ID Header")
        if (response := self._check_sender(request)) is not None:
            return response
        content = request.content
        frame = _decoded(content if isinstance(content, str | bytes) else b"")
        if not isinstance(frame, Mapping):
            return Response(400, content="The body is no JSON object")
        bot = self._bots().get(self_id)
        if bot is None:
            bot = self._connect(self_id)
        event = self.json_to_event(frame if read_id(frame, "self_id") else {**frame, "self_id": self_id})
        if event is not None:
            self._pass_on(bot, event)
        return Response(204)

    def _check_sender(self, request: Request) -> Response | None:
        """Refuse who does not prove to be the end: by the signature, or, where no secret is set, by the token.

        Our choice: the stock adapter takes any post where no secret is set, whatever the access token.
        """
        if self.onebot_config.onebot_secret:
            return self._check_signature(request)
        if (response := self._check_access_token(request)) is not None:
            logger.warning("an HTTP event is refused: set ONEBOT_SECRET here and at the end, or let it send the token")
            return response
        return None

    # All.

    async def _serve(self, connection: Connection) -> None:
        try:
            with connection.scope:
                await self._read(connection)
        finally:
            self._retire(connection)
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await _close(connection.websocket)

    async def _read(self, connection: Connection) -> None:
        has_warned = False
        while True:
            try:
                data = await connection.websocket.receive()
            except WebSocketClosed as closed:
                if closed.code == TOO_BIG:
                    logger.warning(
                        "account %s sent a frame of more than %d MiB; it is lost, and its connection ends",
                        connection.self_id or "?",
                        self.max_frame_bytes // 2**20,
                    )
                return
            connection.frames += 1
            frame = _decoded(data)
            if not isinstance(frame, Mapping):
                # Not an end of the connection: the frames around it are good.
                log = logger.debug if has_warned else logger.warning
                log("account %s sent a frame that is no JSON object; it is passed over", connection.self_id or "?")
                has_warned = True
            elif "post_type" in frame:
                named = read_id(frame, "self_id")
                if not connection.self_id and named and not await self._is_admitted(connection, named):
                    return
                self._take(connection, frame)
            elif not connection.answer(frame):
                self._take_late(connection, frame)

    def _take(self, connection: Connection, frame: JsonObject) -> None:
        self_id = read_id(frame, "self_id") or connection.self_id
        if not connection.self_id and self_id:
            connection.self_id = self_id
            self._adopt(connection)
        if not read_id(frame, "self_id"):
            frame = {**frame, "self_id": connection.self_id}
        event = self.json_to_event(frame)
        if event is not None and (bot := self._bots().get(connection.self_id)) is not None:
            self._pass_on(bot, event)

    def _take_late(self, connection: Connection, answer: JsonObject) -> None:
        """Take an answer that nobody waits for any more: of a send that worked, it reports the message."""
        params = self._late.take(answer)
        data = answer.get("data")
        message_id = read_id(data, "message_id") if isinstance(data, Mapping) else ""
        if params is None or not _is_success(answer) or not message_id:
            logger.debug("account %s answered a call that nobody waits for", connection.self_id or "?")
            return
        group_id, user_id = read_id(params, "group_id"), read_id(params, "user_id")
        is_group = bool(group_id) and (not user_id or params.get("message_type") == "group")
        self.intake.offer(
            {
                "post_type": "message_sent",
                "message_type": "group" if is_group else "private",
                "self_id": connection.self_id,
                "user_id": connection.self_id,
                "group_id": group_id if is_group else None,
                "target_id": group_id if is_group else user_id,
                "message_id": message_id,
                "message": params.get("message"),
            }
        )

    def _pass_on(self, bot: Bot, event: Event) -> None:
        async def handle() -> None:
            await bot.handle_event(event)

        self.passage.in_flight += 1
        self.driver.task_group.start_soon(self.passage.run, handle)

    def _bots(self) -> dict[str, Bot]:
        # NoneBot's base class types them as its own base class; this adapter makes no other.
        return cast("dict[str, Bot]", self.bots)

    async def _is_admitted(self, connection: Connection, self_id: str) -> bool:
        """Whether `connection` may become the account's own.

        Of the same way the newest connection wins at once. Where the account is connected another way, as when reverse
        and forward are both set up, the one there is stays as long as it answers: each would push the other out, for
        ever.
        """
        while True:
            earlier = self._connections.get(self_id)
            if earlier is None or earlier.way == connection.way:
                return True
            if await earlier.is_alive(_ALIVE_S) and self._connections.get(self_id) is earlier:
                break
            if self._connections.get(self_id) is earlier:
                return True
        connection.refused_for = self_id
        if self_id in self._told_of_two_ways:
            logger.debug("account %s is connected another way; %s waits", self_id, _way_in_words(connection))
            return False
        self._told_of_two_ways.add(self_id)
        logger.warning(
            "account %s is connected %s and also %s: the first is kept, the other waits until it is lost; set up one",
            self_id,
            _way_in_words(earlier),
            _way_in_words(connection),
        )
        return False

    def _adopt(self, connection: Connection) -> None:
        """Make `connection` the account's own; an earlier one ends now."""
        self_id = connection.self_id
        if (earlier := self._connections.get(self_id)) is not None:
            logger.warning("account %s has connected again; its earlier connection is closed", self_id)
            self._retire(earlier)
            earlier.replace()
        elif self_id in self.bots:  # known by HTTP
            self._disconnect(self_id)
        self._connections[self_id] = connection
        self.connections[self_id] = connection.websocket
        self._connect(self_id)

    def _retire(self, connection: Connection) -> None:
        connection.lose()
        if self._connections.get(connection.self_id) is connection:
            del self._connections[connection.self_id]
            self.connections.pop(connection.self_id, None)
            self._disconnect(connection.self_id)
            if (waiting := self._vacated.pop(connection.self_id, None)) is not None:
                waiting.set()

    def _connect(self, self_id: str) -> Bot:
        bot = Bot(self, self_id)
        self.bot_connect(bot)
        self.sent.connected(sid_of(self_id))
        self.accounts.connected(self_id, bot)
        logger.info("account %s is connected", self_id)
        return bot

    def _disconnect(self, self_id: str) -> None:
        bot = self._bots()[self_id]
        self.bot_disconnect(bot)
        self.accounts.disconnected(self_id, bot)
        logger.warning("account %s is disconnected", self_id)

    # API calls.

    def abandon_calls(self) -> None:
        """End all calls in flight as unanswered: the process is about to stop."""
        for connection in self._connections.values():
            connection.abandon()

    @override
    async def _call_api(self, bot: Bot, api: str, **data: object) -> object:
        """Call the API over the account's connection, or over HTTP where it has an API root.

        Args:
            bot: whose account.
            api: the action.
            **data: its parameters; `_timeout` is the time limit in seconds (default: NoneBot's `api_timeout`).

        Returns:
            The answer's `data`.

        Raises:
            ActionFailed: the end refused; `info` is its answer.
            NotHandedOverError: no connection; the call had no effect.
            NoAnswerError: it was handed over, and no answer came.
            ApiNotAvailable: there is no way to the account at all.
            NetworkError: an HTTP call failed.
        """
        limit = data.pop("_timeout", self.config.api_timeout)
        timeout_s = float(limit) if isinstance(limit, int | float) else None
        connection = self._connections.get(bot.self_id)
        if connection is not None:
            return _result(await connection.call(api, data, timeout_s))
        if self._is_reached_by_http(bot.self_id):
            return await super()._call_api(bot, api, **data, _timeout=timeout_s)
        if bot.self_id in self.bots:
            raise ApiNotAvailable
        raise NotHandedOverError(f"{api}: account {bot.self_id} is not connected")

    def _is_reached_by_http(self, self_id: str) -> bool:
        return self_id in self.onebot_config.onebot_api_roots and isinstance(self.driver, HTTPClientMixin)


def _way_in_words(connection: Connection) -> str:
    return f"by ONEBOT_WS_URLS ({connection.way})" if connection.way else "by reverse WebSocket"


def _decoded(data: str | bytes) -> JsonValue:
    try:
        return decode(data)
    except ValueError:
        return None


def _result(answer: JsonObject) -> JsonValue:
    """Return an answer's data; a failure is told by `status` or, at some ends, by `retcode` alone."""
    if not _is_success(answer):
        failure = ActionFailed()
        failure.info = dict(answer)
        raise failure
    return answer.get("data")


def _is_success(answer: JsonObject) -> bool:
    return answer.get("status") != "failed" and answer.get("retcode", 0) in _GOOD_RETCODES


async def _close(websocket: WebSocket) -> None:
    # Each driver raises its own where the socket is closed already, which is all that is wanted.
    with contextlib.suppress(Exception):
        await websocket.close()
