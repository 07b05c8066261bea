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
    Attachment,
    AttachmentItem,
    ChannelRef,
    ChatEvent,
    MessageCreated,
    fact_type,
)
from ishiki.contracts.extension import ExtensionInstance
from ishiki.contracts.host import Domain
from ishiki.contracts.resources import ResourceCenter
from ishiki.contracts.transcript import Transcript
from ishiki.core.agent import Agent
from ishiki.core.disposer import Disposer
from ishiki.core.entries import CHECKPOINT, COMPACT, Entry
from ishiki.core.events import AgentEvent, TurnAborted, TurnDone, TurnFailed
from ishiki.core.inbox import PROMPT_SEPARATOR
from ishiki.core.journal import Receipt
from ishiki.core.messages import CustomMessage, Message, UserMessage
from ishiki.core.store import newest_of
from ishiki.core.tool import Tool
from ishiki.core.turn import TurnLimits
from ishiki.errors import AgentStoppedError, HookError, StorageError
from ishiki.jsonvalue import JsonObject, JsonValue, read_object
from ishiki.profile import BlockConfig
from ishiki.resources.capture import AssetRegistry
from ishiki.resources.center import SchemeRouter
from ishiki.runtime.active_profile import ActiveProfile
from ishiki.runtime.address import MAIN, account_of, claimed_accounts, domain_of, name_of
from ishiki.runtime.backfill import Backfill
from ishiki.runtime.facts import FactMemory
from ishiki.runtime.guards.channel import ChannelGuards, GuardParts
from ishiki.runtime.hooks import call_hook
from ishiki.runtime.host import BoundLogger, RuntimeHost, TaskOwner
from ishiki.runtime.kit import RuntimeKit, SupervisorParts
from ishiki.runtime.mind import Mind, MindParts
from ishiki.runtime.paths import LOG_NAME
from ishiki.runtime.prompt import CONTINUE
from ishiki.runtime.reach import hold_while_unreachable
from ishiki.runtime.restoring import settle_crash, since_checkpoint
from ishiki.runtime.schedule import RuntimeScheduler
from ishiki.runtime.silence import NOTHING_CAN_BE_SAID, Silence, SilenceParts
from ishiki.runtime.usage.meter import RuntimeMeter
from ishiki.runtime.waits import Waits
from ishiki.runtime.zone import find_zone
from ishiki.storage import EventLog
from ishiki.tools.wait import WAIT, wait_tool

__all__ = ["ChannelRuntime"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LATE = "it was said while the account was away, and only asked for now"
"""Why what a backfill brings wakes nobody."""

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
    silence: Silence
    waits: Waits


@dataclass(slots=True, eq=False)
class _Contributor:
    """An extension in this runtime, with what undoes its `attach`."""

    name: str
    instance: ExtensionInstance
    disposer: Disposer | None = None


class ChannelRuntime:
    """Implements `AgentRuntime` for one channel, or in cross mode for all channels of a profile.

    Attributes:
        id: `<profile>/<sid>/<channel>`, or `<profile>/main`.
        address: where it lives; `MAIN` in cross mode.
        used_at: when it last took a fact, by the monotonic clock.
        owed_wake: after it has closed, the wake that it could not serve any more: its prompt, or None without one.
    """

    def __init__(
        self,
        active: ActiveProfile,
        address: ChannelRef,
        home: Path,
        kit: RuntimeKit,
        parts: SupervisorParts,
        *,
        owed: tuple[str | None] | None = None,
    ) -> None:
        """Describe a runtime; `serve` builds it. `owed` is the `owed_wake` of the one that it replaces."""
        self.id = f"{active.id}/{name_of(address)}"
        self.address = address
        self.active = active
        self.home = home
        self.used_at = kit.clock.monotonic()
        self._domain = domain_of(active.profile, address)
        self._accounts = set(claimed_accounts(active.profile, address))
        self._kit = kit
        self._parts = parts
        self._inherited = owed
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
        """Whether the same fact was heard before, or is the report of a message of its own.

        One whose arrival nobody had confirmed is confirmed by that: its delivery becomes `sent`, with its id.
        """
        if self._facts.is_known(event):
            return True
        delivery = self._facts.settle(event)
        if delivery is None:
            return False
        opened = self._opened()
        logger.info("%s: message %s has arrived after all", self.id, delivery.message_id)
        entry = delivery.to_entry(timestamp=self._kit.clock.now_ms(), turn_id=delivery.turn_id)
        opened.tasks.spawn("noting that a message has arrived", partial(opened.agent.record, entry))
        return True

    def find_quoted(self, event: MessageCreated) -> MessageCreated | None:
        """Return `event` with the quoted message as the log has it, or None where the log has not."""
        if event.quote is None:
            return event
        found = self._facts.find_quote(event.quote, event, self._opened().store.window())
        return None if found is None else replace(event, quote=found)

    def may_have_missed(self, event: ChatEvent) -> bool:
        """Whether something may have been said before `event` while the account was away."""
        return self._opened().backfill.is_due(event)

    def can_take_at_once(self, event: ChatEvent) -> bool:
        """Whether nothing has to be waited for before `event` can be submitted: no fetch, no file of its media."""
        if self.may_have_missed(event):
            return False
        if not isinstance(event, MessageCreated):
            return True
        return "src=" not in event.content and (event.quote is None or bool(event.quote.content))

    async def missed_before(self, event: ChatEvent) -> Sequence[MessageCreated]:
        """Return what was said before `event` while the account was away, once after each connection."""
        return await self._opened().backfill.missed_before(event)

    async def take(self, event: ChatEvent, *, is_late: bool = False) -> Receipt:
        """Capture media, submit the fact, and return what tells that it is stored.

        Args:
            event: the fact.
            is_late: True: nothing may wake on it, however young it is.
        """
        attachment: Attachment | None = None
        if isinstance(event, MessageCreated):
            content, items = await self._capture(event, self._kit.clock.now_ms())
            if items:
                event = replace(event, content=content)
                attachment = Attachment("platform", items, channel=event.channel, message_id=event.message_id)
        return self.take_at_once(event, attachment, is_late=is_late)

    def take_at_once(self, event: ChatEvent, attachment: Attachment | None = None, *, is_late: bool = False) -> Receipt:
        """Do as `take`, for an event whose media are captured, or for which `can_take_at_once` holds.

        Args:
            event: the fact.
            attachment: its media, stored right behind it.
            is_late: see `take`.
        """
        opened = self._opened()
        self.used_at = self._kit.clock.monotonic()
        messages: list[Message] = [CustomMessage(fact_type(event), event.to_data(), timestamp=event.timestamp)]
        if attachment is not None:
            messages.append(CustomMessage(ATTACHMENT, attachment.to_data(), timestamp=event.timestamp))
        self._facts.note(event)
        self._accounts.add(event.channel.sid)

        def is_stale() -> bool:
            return self._age_ms(event) > self._stale_after_ms

        is_own = self._is_own(event)
        no_wake = _LATE if is_late else opened.guards.why_silent(event)
        if not no_wake and opened.silence.wakes_nobody(event):
            no_wake = NOTHING_CAN_BE_SAID
        if not no_wake and not is_own and not is_stale() and (note := opened.guards.note_before_hold(event)):
            messages.append(UserMessage(note, timestamp=event.timestamp))

        _, receipt = opened.agent.submit(
            messages,
            is_stale=is_stale,
            is_self=is_own,
            no_wake=no_wake,
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

    def _age_ms(self, event: ChatEvent) -> float:
        """Return how old a fact is, by the clock of the end that told it."""
        return self._kit.clock.now_ms() + self._kit.clock_offset_ms(event.channel.sid) - event.timestamp

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
        address, config, kit = self.address, self.active.profile.config, self._kit
        try:
            await anyio.Path(self.home).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = f"this folder cannot be made: {error}; free space or mend its permissions"
            raise StorageError(problem, path=self.home, code="storage_unwritable") from error
        store = await EventLog.open(
            self.home / LOG_NAME,
            sid=address.sid,
            channel_id=address.channel_id,
            window_entries=config.limits.window_entries,
            files=kit.log_files,
        )
        try:
            await settle_crash(store, kit.clock.now_ms(), shows_target=address == MAIN)
            zone = find_zone(config.timezone, kit.settings.timezone)
            usage = await self._parts.books.open(self.active.id, zone)
            meter = RuntimeMeter(usage, name_of(address), store.window())
            guards = ChannelGuards(
                GuardParts(
                    config.guards, address, usage, kit.clock, self._stale_after_ms, self._is_own, kit.clock_offset_ms
                )
            )
            waits = Waits(
                kit.clock, partial(self._parts.agenda.put, self.active.id, address), self._parts.agenda.deadlines
            )
            host = self._create_host(zone, TaskOwner(group, self.id), meter)
            silence = Silence(SilenceParts(address, host.platform, kit.clock, zone, guards, self.is_known))
            checkpoint: JsonObject = {} if store.last_checkpoint is None else store.last_checkpoint.json_data
            recent = since_checkpoint(store)
            self._facts.restore(checkpoint, recent)
            guards.restore(read_object(checkpoint, "guards"), recent)
            silence.restore(read_object(checkpoint, "silence"), recent)
            waits.restore(checkpoint, recent)
            host.transcript.restore_names(read_object(checkpoint, "names"))
            await self._create_extensions(host)
            agent = await self._create_agent(store, host, meter, guards, silence, wait_tool(waits, zone))
            state = read_object(checkpoint, "state")
            if state and agent.state.get() == {"version": 1}:
                agent.state.restore(state)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._stop_extensions()
                await store.aclose()
            raise
        backfill = Backfill(host.platform, self.is_known, limit_s=config.limits.fetch_s)
        self._open = _Open(store, agent, host, host.tasks, host.transcript, backfill, guards, silence, waits)
        meter.attach(agent)
        hold_while_unreachable(agent, host.platform, host.tasks, lambda: self._accounts)
        guards.attach(agent, host.tasks)
        silence.attach(agent, host.tasks)
        await group.start(agent.serve)
        await self._attach_extensions()
        await waits.attach(agent, host.tasks, None if self._inherited is None else self._inherited[0])
        if self._inherited is not None:
            agent.continue_(self._inherited[0])

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
            platform=kit.platform_for(account_of(profile, self.address), config.limits),
            clock=kit.clock,
            random=kit.random,
            scheduler=RuntimeScheduler(kit.clock, zone, tasks.spawn),
            transcript=Transcript(
                zone,
                shows_channel=self.address == MAIN,
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
        self,
        store: EventLog,
        host: RuntimeHost,
        meter: RuntimeMeter,
        guards: ChannelGuards,
        silence: Silence,
        wait: Tool,
    ) -> Agent:
        active, limits = self.active, self.active.profile.config.limits
        context = await self._create_engine("context", active.context.create, host)
        wakeup = await self._create_engine("wakeup", active.wakeup.create, host)
        toolcall = await self._create_engine("toolcall", active.toolcall.create, host)
        extensions = [(one.name, one.instance) for one in self._contributors]
        parts = MindParts(
            active.profile,
            host,
            context,
            wakeup,
            self._facts,
            guards,
            silence,
            extensions,
            {WAIT: wait},
            self._may_speak_in,
        )
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

    def _may_speak_in(self, channel: ChannelRef) -> bool:
        return self._parts.owner_of(channel) == self.active.id

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
            "waits": opened.waits.checkpoint(),
            "guards": opened.guards.checkpoint(),
            "silence": opened.silence.checkpoint(),
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
        with anyio.move_on_after(_CLOSE_LIMIT_S):
            await opened.waits.settle()
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


def _compaction(store: EventLog) -> JsonObject | None:
    """Return the newest compaction's data: in the window, or what an older checkpoint carries on."""
    newest = newest_of(store.window(), COMPACT)
    if newest is not None:
        return newest.json_data
    carried = None if store.last_checkpoint is None else store.last_checkpoint.json_data.get("compaction")
    return carried if isinstance(carried, Mapping) else None
