"""`ChannelRuntime`: one mind at work. Builds an agent from a profile, feeds it facts, and closes it in order.

One task serves it (`serve`); a fault in it ends this runtime and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

import anyio
from anyio.abc import TaskGroup, TaskStatus

from ishiki.contracts.engines import EngineFamily
from ishiki.contracts.events import (
    ATTACHMENT,
    MESSAGE_CREATED,
    MESSAGE_DELETED,
    Attachment,
    AttachmentItem,
    ChatEvent,
    MessageCreated,
)
from ishiki.contracts.extension import ExtensionInstance
from ishiki.contracts.host import ChannelDomain, Domain
from ishiki.contracts.resources import ResourceCenter
from ishiki.contracts.transcript import Transcript
from ishiki.core.agent import Agent
from ishiki.core.disposer import Disposer
from ishiki.core.entries import CHECKPOINT, COMPACT, EVENT, Entry
from ishiki.core.events import AgentEvent, TurnAborted, TurnDone, TurnFailed
from ishiki.core.inbox import PROMPT_SEPARATOR
from ishiki.core.journal import Receipt
from ishiki.core.messages import CustomMessage
from ishiki.core.turn import TurnLimits
from ishiki.errors import AgentStoppedError, HookError, StorageError
from ishiki.jsonvalue import JsonObject, JsonValue, read_object
from ishiki.profile import BlockConfig
from ishiki.resources.capture import AssetRegistry
from ishiki.resources.center import SchemeRouter
from ishiki.runtime.active_profile import ActiveProfile
from ishiki.runtime.backfill import Backfill
from ishiki.runtime.facts import FactMemory
from ishiki.runtime.guards.channel import ChannelGuards, GuardParts
from ishiki.runtime.hooks import call_hook
from ishiki.runtime.host import BoundLogger, RuntimeHost, TaskOwner
from ishiki.runtime.kit import RuntimeKit
from ishiki.runtime.mind import Mind, MindParts
from ishiki.runtime.paths import LOG_NAME
from ishiki.runtime.prompt import CONTINUE
from ishiki.runtime.reach import hold_while_unreachable
from ishiki.runtime.schedule import RuntimeScheduler
from ishiki.runtime.usage.books import UsageBooks
from ishiki.runtime.usage.meter import RuntimeMeter
from ishiki.runtime.zone import find_zone
from ishiki.storage import EventLog
from ishiki.tools.deliveries import settle_entries

__all__ = ["ChannelRuntime"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

_CHECKPOINT_EVERY = 1_000
"""Entries after which a checkpoint is due, so that opening reads no further back. Source: design, checkpoint."""

_CLOSING = "the runtime closes"

_CLOSE_LIMIT_S = 2.0
"""How long the last writes, and each hook that stops something, may take at the end."""


@dataclass(slots=True)
class _Open:
    """What exists while the runtime is served."""

    store: EventLog
    agent: Agent
    host: RuntimeHost
    tasks: TaskOwner
    transcript: Transcript
    backfill: Backfill
    guards: ChannelGuards


@dataclass(slots=True, eq=False)
class _Contributor:
    """An extension in this runtime, with what undoes its `attach`."""

    name: str
    instance: ExtensionInstance
    disposer: Disposer | None = None


class ChannelRuntime:
    """Implements `AgentRuntime` for one channel.

    Attributes:
        id: `<profile>/<sid>/<channel>`.
        used_at: when it last took a fact, by the monotonic clock.
        owed_wake: after it has closed, the wake that it could not serve any more: its prompt, or None without one.
    """

    def __init__(
        self, active: ActiveProfile, domain: ChannelDomain, home: Path, kit: RuntimeKit, books: UsageBooks
    ) -> None:
        """Describe a runtime; `serve` builds it."""
        self.id = f"{active.id}/{domain.channel}"
        self.active = active
        self.home = home
        self.used_at = kit.clock.monotonic()
        self._domain = domain
        self._kit = kit
        self._books = books
        self._open: _Open | None = None
        self._facts = FactMemory()
        self._assets = AssetRegistry(home / "resources" / "assets")
        self._closing = anyio.Event()
        self._closed = anyio.Event()
        self._grace_s = 0.0
        self._checkpoint_due = False
        self._users = 0
        self.owed_wake: tuple[str | None] | None = None
        self._contributors: list[_Contributor] = []

    @property
    def profile_id(self) -> str:
        """The profile that it runs."""
        return self.active.id

    @property
    def domain(self) -> Domain:
        """Where it lives."""
        return self._domain

    @property
    def host(self) -> RuntimeHost:
        """What its extensions are handed."""
        return self._opened().host

    @property
    def agent(self) -> Agent:
        """The agent loop."""
        return self._opened().agent

    @property
    def resources(self) -> ResourceCenter:
        """Its resources."""
        return self._opened().host.resources

    @property
    def stopped(self) -> bool:
        """Whether it takes nothing any more."""
        return self._closing.is_set() or self._open is None

    @property
    def can_leave(self) -> bool:
        """Whether nothing speaks against closing it for idleness."""
        opened = self._open
        if opened is None or self.stopped:
            return True
        return (
            self._users == 0
            and opened.agent.is_idle()
            and opened.agent.backlog == 0
            and opened.tasks.kept_alive_by == 0
            and not self.active.wakeup.runs_without_input
        )

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Keep it from being closed for idleness meanwhile: somebody is about to give it a fact."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    def is_idle(self) -> bool:
        """Whether no turn runs, waits or is pending."""
        return self._open is None or self._open.agent.is_idle()

    async def wait_quiet(self) -> None:
        """Return when no turn runs, and none is about to: what waits for a hold to end is not waited for."""
        if self._open is None:
            return
        agent = self._open.agent
        if not agent.holds:
            await agent.wait()
        if agent.active_turn_id is None:
            return
        is_over = anyio.Event()

        def watch(event: AgentEvent) -> None:
            if isinstance(event, TurnDone | TurnFailed | TurnAborted):
                is_over.set()

        unwatch = agent.feed.subscribe("agent", watch)
        try:
            await is_over.wait()
        finally:
            unwatch()

    async def deliver(self, event: ChatEvent) -> None:
        """Submit a fact; see `AgentRuntime.deliver`."""
        await self.take(event)

    def is_known(self, event: ChatEvent) -> bool:
        """Whether the same fact was heard before."""
        return self._facts.is_known(event)

    def find_quoted(self, event: MessageCreated) -> MessageCreated | None:
        """Return `event` with the quoted message as the log has it, or None where the log has not."""
        if event.quote is None:
            return event
        found = self._facts.find_quote(event.quote, event.self_id, self._opened().store.window())
        return None if found is None else replace(event, quote=found)

    async def missed_before(self, event: ChatEvent) -> Sequence[MessageCreated]:
        """Return what was said before `event` while the account was away, once after each connection."""
        return await self._opened().backfill.missed_before(event)

    async def take(self, event: ChatEvent, *, is_late: bool = False) -> Receipt:
        """Capture media, submit the fact, and return what tells that it is stored.

        Args:
            event: the fact.
            is_late: True: nothing may wake on it, however young it is.
        """
        opened = self._opened()
        now = self._kit.clock.now_ms()
        self.used_at = self._kit.clock.monotonic()
        attachment: Attachment | None = None
        if isinstance(event, MessageCreated):
            content, items = await self._capture(event, now)
            if items:
                event = replace(event, content=content)
                attachment = Attachment("platform", items, channel=event.channel, message_id=event.message_id)
        kind = MESSAGE_CREATED if isinstance(event, MessageCreated) else MESSAGE_DELETED
        messages = [CustomMessage(kind, event.to_data(), timestamp=event.timestamp)]
        if attachment is not None:
            messages.append(CustomMessage(ATTACHMENT, attachment.to_data(), timestamp=event.timestamp))
        self._facts.note(event)
        wakes_nobody = is_late or opened.guards.wakes_nobody(event)

        def is_stale() -> bool:
            return wakes_nobody or self._kit.clock.now_ms() - event.timestamp > self._stale_after_ms

        _, receipt = opened.agent.submit(
            messages,
            is_stale=is_stale,
            is_self=self._is_own(event),
        )
        assert receipt is not None, "a record that triggers nothing is stored at once"
        if opened.store.entries_since_checkpoint >= _CHECKPOINT_EVERY and not self._checkpoint_due:
            self._checkpoint_due = True
            opened.tasks.spawn("checkpoint", self._write_checkpoint)
        return receipt

    async def _capture(self, event: MessageCreated, now_ms: int) -> tuple[str, Sequence[AttachmentItem]]:
        try:
            return await self._assets.capture(event.content, now_ms)
        except OSError as error:
            # A full disk must not cost the fact; it then names its media by their source.
            logger.warning("%s: media of message %s are not captured: %s", self.id, event.message_id, error)
            return event.content, ()

    def wake(self, prompt: str | None = None) -> str | None:
        """Start a turn past the wakeup engine; see `AgentRuntime.wake`."""
        text = prompt if prompt is not None and prompt.strip() else CONTINUE
        return self._opened().agent.continue_(text)

    def close(self, *, grace_s: float) -> None:
        """Ask it to close: a running turn gets `grace_s` seconds, then it is interrupted. Returns at once."""
        self._grace_s = grace_s
        self._closing.set()

    async def wait_closed(self) -> None:
        """Return when it has closed."""
        await self._closed.wait()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Build the runtime, report that it is ready, and keep it until `close`.

        Raises:
            StorageError: its log cannot be opened.
            Exception: what an engine or extension raised when it was created.
        """
        try:
            async with anyio.create_task_group() as group:
                try:
                    await self._build(group)
                    task_status.started()
                    await self._closing.wait()
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._shut()
                    group.cancel_scope.cancel()
        finally:
            self._closing.set()
            self._closed.set()

    def _opened(self) -> _Open:
        if self._open is None:
            raise AgentStoppedError(f"{self.id} is not open")
        return self._open

    @property
    def _stale_after_ms(self) -> float:
        return self.active.profile.config.limits.stale_after * 1000

    def _is_own(self, event: ChatEvent) -> bool:
        if not isinstance(event, MessageCreated):
            return False
        if event.is_self or event.user.id == event.self_id:
            return True
        author = f"{event.platform}:{event.user.id}"
        return author in self._kit.claimed_accounts or self._kit.is_own_account(author)

    async def _build(self, group: TaskGroup) -> None:
        profile, channel, kit = self.active.profile, self._domain.channel, self._kit
        config = profile.config
        try:
            await anyio.Path(self.home).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = f"this folder cannot be made: {error}; free space or mend its permissions"
            raise StorageError(problem, path=self.home, code="storage_unwritable") from error
        store = await EventLog.open(
            self.home / LOG_NAME,
            sid=channel.sid,
            channel_id=channel.channel_id,
            window_entries=config.limits.window_entries,
            files=kit.log_files,
        )
        try:
            await _settle_crash(store, kit.clock.now_ms())
            zone = find_zone(config.timezone, kit.settings.timezone)
            usage = await self._books.open(self.active.id, zone)
            meter = RuntimeMeter(usage, channel, store.window())
            guards = ChannelGuards(
                GuardParts(config.guards, channel, usage, kit.clock, self._stale_after_ms, self._is_own)
            )
            host = self._create_host(zone, TaskOwner(group, self.id), meter)
            checkpoint: JsonObject = {} if store.last_checkpoint is None else store.last_checkpoint.json_data
            since_checkpoint = _since_checkpoint(store)
            self._facts.restore(checkpoint, since_checkpoint)
            guards.restore(read_object(checkpoint, "guards"), since_checkpoint)
            host.transcript.restore_names(read_object(checkpoint, "names"))
            await self._create_extensions(host)
            agent = await self._create_agent(store, host, meter, guards)
            state = read_object(checkpoint, "state")
            if state and agent.state.get() == {"version": 1}:
                agent.state.restore(state)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._stop_extensions()
                await store.aclose()
            raise
        backfill = Backfill(host.platform, self._facts, limit_s=config.limits.fetch_s)
        self._open = _Open(store, agent, host, host.tasks, host.transcript, backfill, guards)
        meter.attach(agent)
        hold_while_unreachable(agent, host.platform, host.tasks)
        guards.attach(agent, host.tasks)
        await group.start(agent.serve)
        await self._attach_extensions()

    def _create_host(self, zone: ZoneInfo, tasks: TaskOwner, meter: RuntimeMeter) -> RuntimeHost:
        profile, kit = self.active.profile, self._kit
        config = profile.config
        return RuntimeHost(
            runtime_id=self.id,
            profile_id=self.active.id,
            domain=self._domain,
            root=profile.folder,
            home=self.home,
            logger=BoundLogger(logging.getLogger("ishiki.runtime"), {"runtime": self.id}),
            resources=SchemeRouter(),
            platform=kit.platform_for(self._domain.channel.sid, config.limits),
            clock=kit.clock,
            random=kit.random,
            scheduler=RuntimeScheduler(kit.clock, zone, tasks.spawn),
            transcript=Transcript(
                zone,
                max_message_chars=config.guards.max_message_chars,
                capacity=config.limits.window_entries,
            ),
            find_model=lambda ref: meter.metered(self.active.find_model(kit.gateway, ref)),
            tasks=tasks,
            profile_closers=self.active.closers,
        )

    async def _create_extensions(self, host: RuntimeHost) -> None:
        limit_s = self.active.profile.config.limits.hook_s
        for extension, config in self.active.extensions:
            create = partial(extension.create, host, config)
            instance = await call_hook(f"extension {extension.name}", "create", create, limit_s=limit_s)
            if instance is not None:
                self._contributors.append(_Contributor(extension.name, instance))

    async def _create_agent(
        self, store: EventLog, host: RuntimeHost, meter: RuntimeMeter, guards: ChannelGuards
    ) -> Agent:
        active, limits = self.active, self.active.profile.config.limits
        context = await self._create_engine("context", active.context.create, host)
        wakeup = await self._create_engine("wakeup", active.wakeup.create, host)
        toolcall = await self._create_engine("toolcall", active.toolcall.create, host)
        extensions = [(one.name, one.instance) for one in self._contributors]
        parts = MindParts(active.profile, host, context, wakeup, self._facts, guards, extensions)
        return Agent(
            self.id,
            model=active.find_model(self._kit.gateway, None),
            store=store,
            plugins=[Mind(parts)],
            limits=TurnLimits(
                first_part_s=limits.first_part_s,
                between_parts_s=limits.between_parts_s,
                call_s=limits.call_s,
                tool_s=limits.tool_s,
                hook_s=limits.hook_s,
                turn_s=limits.turn_s,
            ),
            clock=self._kit.clock,
            wrap=lambda model: toolcall.wrap(meter.metered(model)),
        )

    async def _create_engine(
        self, family: EngineFamily, create: Callable[[RuntimeHost, BlockConfig], T | Awaitable[T]], host: RuntimeHost
    ) -> T:
        owner = f"{family} engine {self.active.profile.engine(family)}"
        hook = partial(create, host, self.active.config_of(family))
        return await call_hook(owner, "create", hook, limit_s=self.active.profile.config.limits.hook_s)

    async def _attach_extensions(self) -> None:
        limit_s = self.active.profile.config.limits.hook_s
        for one in self._contributors:
            try:
                hook = partial(one.instance.attach, self)
                one.disposer = await call_hook(f"extension {one.name}", "attach", hook, limit_s=limit_s)
            except HookError as error:
                logger.warning("%s: %s; the runtime goes on without it", self.id, error, exc_info=error.__cause__)

    async def _write_checkpoint(self) -> None:
        opened = self._opened()
        try:
            await opened.agent.record(self._checkpoint_entry(opened))
        finally:
            self._checkpoint_due = False

    def _checkpoint_entry(self, opened: _Open) -> Entry:
        data: dict[str, JsonValue] = {
            "state": opened.agent.state.get(),
            "compaction": _compaction(opened.store),
            "waits": [],
            "guards": opened.guards.checkpoint(),
            "names": opened.transcript.names(),
            **self._facts.checkpoint(),
        }
        return Entry(CHECKPOINT, data, self._kit.clock.now_ms())

    async def _shut(self) -> None:
        """Close in order: turns, checkpoint, agent with its engines, extensions in reverse, and the store last."""
        opened = self._open
        if opened is None:
            return
        with anyio.move_on_after(self._grace_s):
            await self.wait_quiet()
        opened.tasks.is_closed = True
        opened.guards.detach()
        await self._interrupt(opened.agent)
        if opened.store.entries_since_checkpoint > 0:
            with anyio.move_on_after(_CLOSE_LIMIT_S):
                await opened.agent.record(self._checkpoint_entry(opened))
        with anyio.move_on_after(2 * _CLOSE_LIMIT_S):
            await opened.agent.stop(_CLOSING)
        await self._stop_extensions()
        await opened.store.aclose()
        self._open = None

    async def _interrupt(self, agent: Agent) -> None:
        """End the turn that runs, and keep the wake that is owed then: what joined the turn is judged at its end.

        A turn that has not begun, because the agent is held, is owed as well.
        """
        running = agent.active_turn_id

        def take_wake() -> None:
            owed = agent.take_pending_wake()
            if owed is not None:
                prompts = [prompt for prompt in (*(self.owed_wake or ()), *owed) if prompt]
                self.owed_wake = (PROMPT_SEPARATOR.join(prompts) or None,)

        def watch(event: AgentEvent) -> None:
            if isinstance(event, TurnDone | TurnFailed | TurnAborted):
                take_wake()
            if isinstance(event, TurnAborted) and event.turn_id != running:
                self.owed_wake = self.owed_wake or (None,)

        # Otherwise a wake would start a turn now, which would be interrupted in its turn.
        agent.hold(_CLOSING)
        take_wake()
        unwatch = agent.feed.subscribe("agent", watch)
        with anyio.move_on_after(_CLOSE_LIMIT_S):
            await agent.interrupt(_CLOSING)
        unwatch()

    async def _stop_extensions(self) -> None:
        """Stop what was created, newest first; a fault of one hook is a warning and keeps no other from running."""
        while self._contributors:
            one = self._contributors.pop()
            for hook, fn in (("stop", one.instance.stop), ("the disposer of attach", one.disposer)):
                if fn is None:
                    continue
                try:
                    await call_hook(f"extension {one.name}", hook, fn, limit_s=_CLOSE_LIMIT_S)
                except HookError as error:
                    logger.warning("%s: %s", self.id, error, exc_info=error.__cause__)


def _since_checkpoint(store: EventLog) -> list[Entry]:
    """Return what the log holds behind its newest checkpoint, oldest first."""
    window = store.window()
    newest = store.last_checkpoint
    position = next((i for i in range(len(window) - 1, -1, -1) if newest is not None and window[i].id == newest.id), -1)
    if position >= 0:
        return list(window[position + 1 :])
    return [*store.take_replay(), *window]


def _compaction(store: EventLog) -> JsonObject | None:
    """Return the newest compaction's data: in the window, or what an older checkpoint carries on."""
    newest = next((entry for entry in reversed(store.window()) if entry.type == COMPACT), None)
    if newest is not None:
        return newest.json_data
    carried = None if store.last_checkpoint is None else store.last_checkpoint.json_data.get("compaction")
    return carried if isinstance(carried, Mapping) else None


async def _settle_crash(store: EventLog, now_ms: int) -> None:
    """Write down how the turn ended that was running when the process died, with what it had said."""
    window = store.window()
    turn_id: str | None = None
    for entry in reversed(window):
        if entry.type == EVENT and entry.turn_id is not None:
            turn_id = entry.turn_id if entry.json_data.get("type") == "turn.start" else None
            break
    if turn_id is None:
        return
    ended = Entry(
        EVENT, {"type": "turn.aborted", "turnId": turn_id, "reason": "the process ended"}, now_ms, turn_id=turn_id
    )
    await store.append(*settle_entries(turn_id, window, now_ms), ended)
