"""`Supervisor`: the root of everything that runs. Owns profiles, routing, queues and runtimes, from start to stop.

Its `run` is the one task that the host starts. It lets no exception out: an unexpected one in the host's own group
would leave a process that still listens and does nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus

from ishiki.contracts.events import ChannelRef, ChatEvent, MessageCreated
from ishiki.core import schema
from ishiki.core.journal import Receipt
from ishiki.errors import ActivationError, AgentStoppedError, ConfigError, IshikiError, StorageError
from ishiki.profile import LoadedProfiles, Router, Stamp, load_profiles, take_stamp, watch_profiles
from ishiki.runtime.active_profile import ActiveProfile, activate
from ishiki.runtime.address import MAIN, address_of, name_of
from ishiki.runtime.agenda import Agenda
from ishiki.runtime.agenda_watch import AgendaWatch
from ishiki.runtime.agent_runtime import ChannelRuntime
from ishiki.runtime.channel_queue import ChannelQueue
from ishiki.runtime.early_channels import early_channels
from ishiki.runtime.fallback import FactKeeper
from ishiki.runtime.fetches import Fetches
from ishiki.runtime.kit import RuntimeKit, SupervisorParts
from ishiki.runtime.quotes import fetch_quote
from ishiki.runtime.residents import Residents
from ishiki.runtime.usage.books import UsageBooks

__all__ = ["Supervisor", "SupervisorCounts"]

logger = logging.getLogger(__name__)

STOP_GRACE_S = 5.0
"""How long running turns may finish at a stop. Source: design, stop."""

_SWEEP_S = 60.0
"""How often idle runtimes are looked for."""

_DRAIN_S = 3.0
"""How long a stop waits for facts on their way to their logs: some ten thousand, where the disk takes them."""

_LATE_DRAIN_S = 1.0
"""And how long for what was left, when the runtimes have closed."""

_MAX_UNWRITTEN = 64
"""Facts of one channel that are handed to its agent and not on disk; the rest waits in the bounded queue."""


_SLICE = 32
"""Facts that a channel hands on at once; some milliseconds of work."""

_SLICES = 4
"""Channels that do so at a time."""

_SLICE_WRITTEN_S = 0.5
"""How long others may wait for the disk of one of them. Nothing is lost by going on: a channel has its own bound."""

_MAX_TRIES = 3
"""How many runtimes of a channel may close under a fact, before it is kept without one."""


@dataclass(slots=True)
class SupervisorCounts:
    """What happened since the start, for whoever watches."""

    taken: int = 0
    unclaimed: int = 0
    duplicates: int = 0
    shed: int = 0


@dataclass(slots=True)
class _Profiles:
    """What the newest reading of the profiles folder came to."""

    loaded: LoadedProfiles = field(default_factory=LoadedProfiles)
    router: Router = field(default_factory=lambda: Router(()))
    active: dict[str, ActiveProfile] = field(default_factory=dict[str, ActiveProfile])
    waiting: dict[str, ActivationError] = field(default_factory=dict[str, ActivationError])


class Supervisor:
    """Runs the minds of one process."""

    def __init__(self, kit: RuntimeKit) -> None:
        """Keep what all runtimes share; nothing starts before `run`."""
        self._kit = kit
        self.counts = SupervisorCounts()
        self._profiles = _Profiles()
        self._queues: dict[tuple[str, ChannelRef], ChannelQueue] = {}
        self._group: TaskGroup | None = None
        self._residents: Residents | None = None
        self._keeper = FactKeeper(kit)
        self._fetches = Fetches()
        self._slices = anyio.Semaphore(_SLICES)
        books, agenda = UsageBooks(kit.data_dir, kit.clock), Agenda(kit.data_dir, kit.clock)
        self._parts = SupervisorParts(books, agenda, self._owner_of)
        self._is_open = False
        self._stopping = anyio.Event()
        self._stopped = anyio.Event()
        self._services_changed = anyio.Event()

    @property
    def profiles(self) -> LoadedProfiles:
        """The profiles that were read last."""
        return self._profiles.loaded

    @property
    def waiting(self) -> dict[str, ActivationError]:
        """The profiles that wait for a service, each with what it waits for."""
        return dict(self._profiles.waiting)

    @property
    def resident_count(self) -> int:
        """How many runtimes are in memory."""
        return 0 if self._residents is None else len(self._residents)

    def owner_lines(self) -> list[str]:
        """Return who owns which channels, one line per claim, with the state of a profile that does not run."""
        return self._profiles.router.who_owns()

    def demo_profiles(self) -> list[str]:
        """Return the ids of the profiles that the demo model answers for."""
        gateway = self._kit.gateway
        return [
            active.id
            for active in self._profiles.active.values()
            if not gateway.needs_litellm([active.profile.config.model])
        ]

    def find(self, profile_id: str, channel: ChannelRef) -> ChannelRuntime | None:
        """Return the runtime that hears a channel if it is in memory."""
        address = self._address(profile_id, channel)
        return None if self._residents is None else self._residents.find(profile_id, address)

    def offer(self, event: ChatEvent) -> None:
        """Take a fact from intake. Never awaits; what nobody claims is not kept."""
        group = self._group
        if not self._is_open or group is None:
            return
        channel = event.channel
        profile_id = self._owner_of(channel)
        if profile_id is None:
            self.counts.unclaimed += 1
            return
        key = (profile_id, channel)
        queue = self._queues.get(key)
        if queue is None:
            queue = ChannelQueue(channel, profile_id, self._kit.settings.channel_queue)
            self._queues[key] = queue
            queue.offer(event)
            group.start_soon(self._drain, queue, name=f"queue {channel}")
        elif not queue.offer(event):
            self.counts.shed += 1

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Start everything, report readiness, and return when it has stopped."""
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                self._residents = Residents(self._kit, group, self._parts)
                agenda = AgendaWatch(self._parts.agenda, self._kit.clock, self._build_waiting)
                stamp = await anyio.to_thread.run_sync(take_stamp, self._kit.profiles_dir)
                await self._load()
                group.start_soon(self._kit.log_files.run)
                group.start_soon(self._guard, "counting usage", self._parts.books.run)
                group.start_soon(self._guard, "watching the agenda", agenda.run)
                group.start_soon(self._guard, "watching the profiles", lambda: self._watch(stamp))
                group.start_soon(self._guard, "sweeping idle channels", self._sweep)
                group.start_soon(self._guard, "watching services", self._watch_services)
                if self._needs_litellm():
                    group.start_soon(self._guard, "loading LiteLLM", self._kit.gateway.warm_up)
                group.start_soon(self._guard, "loading the schema checker", _preload_schemas)
                self._is_open = True
                task_status.started()
                await self._stopping.wait()
                with anyio.CancelScope(shield=True):
                    await self._shut(group)
        finally:
            self._is_open = False
            self._stopped.set()

    def close_intake(self) -> None:
        """Take no further facts."""
        self._is_open = False

    async def drained(self) -> None:
        """Return when every fact that was offered has been handed to its runtime, or kept without one."""
        while self._queues:
            queue = next(iter(self._queues.values()))
            await queue.drained.wait()

    async def stop(self) -> None:
        """Close intake, let turns finish for 5 s, interrupt the rest, and return when all is on disk. Idempotent."""
        self.close_intake()
        self._stopping.set()
        await self._stopped.wait()

    async def _shut(self, group: TaskGroup) -> None:
        self._is_open = False
        assert self._residents is not None
        self._fetches.end()
        # Turns go on meanwhile: both have the same five seconds.
        turns_end = anyio.current_time() + STOP_GRACE_S
        with anyio.move_on_after(_DRAIN_S):
            await self.drained()
        grace_s = turns_end - anyio.current_time()
        async with anyio.create_task_group() as calls:
            calls.start_soon(self._abandon_calls, grace_s)
            await self._residents.close_all(grace_s=grace_s)
            calls.cancel_scope.cancel()
        # What came too late for its runtime is kept without one.
        with anyio.move_on_after(_LATE_DRAIN_S):
            await self.drained()
        if lost := sum(len(queue) for queue in self._queues.values()):
            logger.error("%d facts could not be kept before the end and are lost", lost)
        for active in self._profiles.active.values():
            await active.close()
        await self._parts.books.aclose()
        await self._kit.log_files.aclose()
        await self._kit.gateway.aclose()
        group.cancel_scope.cancel()

    async def _abandon_calls(self, grace_s: float) -> None:
        """End what still waits for a protocol end when the turns' time is up: its outcome is written as unknown."""
        await anyio.sleep(grace_s)
        while True:
            self._kit.abandon_calls()
            await anyio.sleep(0.2)

    async def _guard(self, what: str, fn: Callable[[], Awaitable[None]]) -> None:
        """Run a side task; a fault in it is logged and ends it alone."""
        try:
            await fn()
        except Exception:
            logger.exception("%s failed and has ended; restart the bot to have it back", what)

    # -- profiles ------------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        """Read the profiles folder, and activate what changed."""
        old = self._profiles
        loaded = await anyio.to_thread.run_sync(
            lambda: load_profiles(self._kit.profiles_dir, self._kit.environment, previous=old.loaded)
        )
        for problem in loaded.problems:
            log = logger.error if problem.severity == "error" else logger.warning
            log("%s", self._kit.redactor.redact(str(problem)))
        self._profiles = _Profiles(loaded, loaded.router(), {}, {})
        self._kit.claimed_accounts.clear()
        self._kit.claimed_accounts.update(
            claim.account for profile in loaded.profiles for claim in profile.claims.accounts.values() if claim.is_exact
        )
        for profile in loaded.profiles:
            self._kit.redactor.add(profile.secrets)
            before = old.active.get(profile.id)
            if before is not None and before.profile.fingerprint == profile.fingerprint:
                self._profiles.active[profile.id] = before
            else:
                self._activate(profile.id, before)
        for profile_id, active in old.active.items():
            if self._profiles.active.get(profile_id) is not active:
                await self._retire(active)

    def _activate(self, profile_id: str, before: ActiveProfile | None = None) -> None:
        profile = self._profiles.loaded.get(profile_id)
        assert profile is not None
        try:
            self._profiles.active[profile_id] = activate(profile, self._kit.services, self._kit.gateway, before)
            self._profiles.waiting.pop(profile_id, None)
            logger.info("profile %s is active (%s)", profile_id, profile.file)
            self._build_early(profile_id)
        except ActivationError as error:
            if profile_id not in self._profiles.waiting:
                self._report(str(error))
            self._profiles.waiting[profile_id] = error
        except ConfigError as error:
            if before is not None:
                self._profiles.active[profile_id] = before
            self._report(str(error), goes_on=None if before is None else f"the profile {profile_id!r}")

    async def _retire(self, active: ActiveProfile) -> None:
        """Close what ran under an earlier form of a profile; where it runs on, its channels hand over."""
        assert self._residents is not None
        assert self._group is not None
        replacement = self._profiles.active.get(active.id)
        leaving: list[ChannelRuntime] = []
        for runtime in self._residents.all():
            if runtime.active is not active:
                continue
            if replacement is not None and self._is_home(replacement, runtime.address):
                find_active = partial(self._find_active, active.id)
                hand_over = partial(self._residents.hand_over, runtime, find_active)
                self._group.start_soon(self._guard, f"handing {runtime.id} over", hand_over)
            else:
                runtime.close(grace_s=STOP_GRACE_S)
                leaving.append(runtime)
        for runtime in leaving:
            await self._residents.evict(runtime, grace_s=STOP_GRACE_S)
        if replacement is None:
            await active.close()

    def _find_active(self, profile_id: str) -> ActiveProfile | None:
        return self._profiles.active.get(profile_id)

    async def _watch(self, stamp: Stamp) -> None:
        async for changes in watch_profiles(self._kit.profiles_dir, stamp):
            if changes.models:
                await self._reload_models()
            if changes.profile_ids or changes.models:
                await self._load()
                if self._needs_litellm():
                    await self._kit.gateway.warm_up()

    async def _reload_models(self) -> None:
        try:
            await anyio.to_thread.run_sync(lambda: self._kit.gateway.reload(env=self._kit.environment))
        except ConfigError as error:
            self._report(str(error), goes_on="the set of models")
            return
        logger.info("models.yaml was read again")
        assert self._residents is not None
        for runtime in self._residents.all():
            try:
                runtime.agent.set_model(runtime.active.find_model(self._kit.gateway, None))
            except IshikiError as error:
                self._report(str(error), goes_on=runtime.id)

    async def _watch_services(self) -> None:
        unwatch = self._kit.services.watch(lambda name: self._services_changed.set())
        try:
            while True:
                await self._services_changed.wait()
                self._services_changed = anyio.Event()
                await self._settle_services()
        finally:
            unwatch()

    async def _settle_services(self) -> None:
        """Activate profiles whose services have appeared; let those wait whose services have gone."""
        for profile_id in tuple(self._profiles.waiting):
            self._activate(profile_id)
        for profile_id, active in tuple(self._profiles.active.items()):
            try:
                again = activate(active.profile, self._kit.services, self._kit.gateway, active)
            except ActivationError as error:
                self._report(str(error))
                self._profiles.waiting[profile_id] = error
                del self._profiles.active[profile_id]
                await self._retire(active)
            except ConfigError as error:
                self._report(str(error), goes_on=f"the profile {profile_id!r}")
            else:
                if not _same_providers(active, again):
                    self._profiles.active[profile_id] = again
                    self._build_early(profile_id)
                    await self._retire(active)

    def _report(self, problem: str, *, goes_on: str | None = None) -> None:
        """Tell the owner what to mend, and what goes on as it was in the meantime."""
        end = "" if goes_on is None else f"\n{goes_on} goes on as it was before"
        logger.error("%s%s", self._kit.redactor.redact(problem), end)

    def _needs_litellm(self) -> bool:
        references = [active.profile.config.model for active in self._profiles.active.values()]
        return self._kit.gateway.needs_litellm(references)

    # -- channels ------------------------------------------------------------------------------------------------

    def _owner_of(self, channel: ChannelRef) -> str | None:
        return self._profiles.router.route(channel.sid, channel.channel_id)

    def _address(self, profile_id: str, channel: ChannelRef) -> ChannelRef:
        """Return where the runtime lives that hears a channel, as its profile runs, or would run."""
        active = self._profiles.active.get(profile_id)
        profile = self._profiles.loaded.get(profile_id) if active is None else active.profile
        return channel if profile is None else address_of(profile, channel)

    def _is_home(self, active: ActiveProfile, address: ChannelRef) -> bool:
        """Whether a runtime of `active` may live at `address`: its mode is that one, and the channel is its own."""
        if active.profile.config.mode == "cross":
            return address == MAIN
        return address != MAIN and self._owner_of(address) == active.id

    def _build_early(self, profile_id: str) -> None:
        """Build, in the background, the runtimes of a profile that have something to do without a message."""
        assert self._group is not None
        active = self._profiles.active[profile_id]
        build = partial(self._build_all, active)
        self._group.start_soon(self._guard, f"building the channels of {profile_id}", build)

    async def _build_all(self, active: ActiveProfile) -> None:
        waiting = await self._parts.agenda.open(active.id)
        early: Sequence[ChannelRef] = ()
        if active.wakeup.runs_without_input:
            find = partial(early_channels, self._kit.data_dir, active.id, active.profile.claims)
            is_cross = active.profile.config.mode == "cross"
            early = (MAIN,) if is_cross else await anyio.to_thread.run_sync(find)
        built = 0
        for address in dict.fromkeys((*early, *waiting)):
            if self._profiles.active.get(active.id) is not active:
                return
            if self._is_home(active, address):
                built += await self._build_waiting(active.id, address)
        if active.wakeup.runs_without_input:
            logger.info("profile %s keeps time in %d channels", active.id, built)

    async def _build_waiting(self, profile_id: str, address: ChannelRef) -> bool:
        """Build what has something to do without a message; return False where that is worth another try."""
        assert self._residents is not None
        active = self._profiles.active.get(profile_id)
        if active is None or not self._is_home(active, address):
            return True
        try:
            await self._residents.get(active, address)
        except AgentStoppedError:
            pass
        except Exception:
            logger.exception("%s/%s cannot be built; its first message tries again", profile_id, name_of(address))
            return False
        return True

    async def _drain(self, queue: ChannelQueue) -> None:
        """Hand the queue's events to the channel's runtime, in order, until it is empty."""
        receipt: Receipt | None = None
        stands_still = False
        try:
            while (event := queue.head()) is not None:
                try:
                    is_taken, receipt = await self._take_slice(queue)
                    if not is_taken:
                        receipt = await self._process(queue, event)
                        queue.pop()
                except StorageError as error:
                    # The log is the fact: without it, nothing happens in this channel, and its queue holds what comes.
                    stands_still = True
                    await self._keeper.stand_still(queue.channel, error)
                    continue
                except Exception:
                    # Boundary: one fact of one channel. It is lost, which must be seen; its channel goes on.
                    logger.exception("%s: an event could not be taken in and is lost", queue.channel)
                    queue.pop()
                if stands_still:
                    stands_still = False
                    logger.info("%s: its log can be used again", queue.channel)
                if receipt is not None and not receipt.is_done:
                    runtime = self.find(queue.profile_id, queue.channel)
                    if runtime is not None and not runtime.stopped and runtime.agent.backlog >= _MAX_UNWRITTEN:
                        await receipt.finished()
        finally:
            queue.drained.set()
            self._queues.pop((queue.profile_id, queue.channel), None)

    async def _take_slice(self, queue: ChannelQueue) -> tuple[bool, Receipt | None]:
        """Hand on what need not wait for anything, some facts at once; return whether there was any, and its receipt.

        A few channels at a time do so and are written, so that a burst over hundreds of channels neither fills the
        memory with what waits for the disk nor holds a turn up. A channel where somebody waits for an answer does not
        queue for that.
        """
        if queue.is_urgent:
            await anyio.lowlevel.checkpoint()
            return self._take_at_once(queue)
        async with self._slices:
            is_taken, receipt = self._take_at_once(queue)
            if receipt is not None:
                with anyio.move_on_after(_SLICE_WRITTEN_S):
                    await receipt.finished()
        return is_taken, receipt

    def _take_at_once(self, queue: ChannelQueue) -> tuple[bool, Receipt | None]:
        assert self._residents is not None
        active = self._profiles.active.get(queue.profile_id)
        if active is None:
            return False, None
        runtime = self._residents.ready(active, address_of(active.profile, queue.channel))
        count, receipt = 0, None
        while runtime is not None and not runtime.stopped and (event := queue.head()) is not None and count < _SLICE:
            if runtime.is_known(event):
                self.counts.duplicates += 1
            elif runtime.agent.backlog < _MAX_UNWRITTEN and runtime.can_take_at_once(event):
                receipt = runtime.take_at_once(event)
                self.counts.taken += 1
            else:
                break
            queue.pop()
            count += 1
        return count > 0, receipt

    async def _process(self, queue: ChannelQueue, event: ChatEvent) -> Receipt | None:
        """Give a fact to the channel's runtime, or keep it without one.

        Raises:
            StorageError: the log cannot be used; the fact is not kept.
        """
        assert self._residents is not None
        for _ in range(_MAX_TRIES):
            active = self._profiles.active.get(queue.profile_id)
            if active is None:
                break
            try:
                runtime = await self._residents.get(active, address_of(active.profile, queue.channel))
            except AgentStoppedError:
                break
            except StorageError:
                raise
            except Exception as error:  # noqa: BLE001 - boundary: what an engine or extension raises costs no fact
                await self._keep(queue, event, because=error)
                return None
            try:
                with runtime.in_use():
                    return await self._hand_on(active, runtime, event)
            except AgentStoppedError:
                logger.debug("%s closed before it took a fact; the next one gets it", runtime.id)
        await self._keep(queue, event, because=self._profiles.waiting.get(queue.profile_id))
        return None

    async def _keep(self, queue: ChannelQueue, event: ChatEvent, *, because: Exception | None = None) -> None:
        """Append a fact without a runtime."""
        assert self._residents is not None
        address = self._address(queue.profile_id, queue.channel)
        # What runs there may still be closing, or another channel of the same mind keep a fact: a log has one writer.
        async with self._residents.vacated(queue.profile_id, address, grace_s=STOP_GRACE_S):
            await self._keeper.keep(queue.profile_id, address, event, because=because)

    async def _hand_on(self, active: ActiveProfile, runtime: ChannelRuntime, event: ChatEvent) -> Receipt | None:
        """Give a fact to its runtime, with what it quotes; None where the runtime knows it already."""
        if runtime.is_known(event):
            self.counts.duplicates += 1
            return None
        missing, completed = await self._completed(active, runtime, event)
        for missed in missing:
            await runtime.take(runtime.find_quoted(missed) or missed, is_late=True)
        receipt = await runtime.take(completed)
        self.counts.taken += 1
        return receipt

    async def _completed(
        self, active: ActiveProfile, runtime: ChannelRuntime, event: ChatEvent
    ) -> tuple[Sequence[MessageCreated], ChatEvent]:
        """Return what was missed before `event`, and `event` with what it quotes.

        Both are asked for at once: an end that answers nothing costs a fact one time limit and not two.
        """
        missing: Sequence[MessageCreated] = ()
        completed = event

        async def find_missed() -> None:
            nonlocal missing
            with suppress(AgentStoppedError):  # `take` will say so
                missing = await runtime.missed_before(event)

        async def find_quoted(quoting: MessageCreated) -> None:
            nonlocal completed
            limit_s = active.profile.config.limits.fetch_s
            with suppress(AgentStoppedError):
                found = runtime.find_quoted(quoting)
                completed = found or await fetch_quote(quoting, runtime.host.platform, limit_s)

        may_have_missed = runtime.may_have_missed(event)
        with self._fetches.waiting():
            async with anyio.create_task_group() as fetches:
                if may_have_missed:
                    fetches.start_soon(find_missed)
                if isinstance(event, MessageCreated) and event.quote is not None and not event.quote.content:
                    fetches.start_soon(find_quoted, event)
        return missing, completed

    async def _sweep(self) -> None:
        assert self._residents is not None
        while True:
            await self._kit.clock.sleep(_SWEEP_S)
            await self._residents.make_room()


def _same_providers(one: ActiveProfile, other: ActiveProfile) -> bool:
    return (
        one.context is other.context
        and one.wakeup is other.wakeup
        and one.toolcall is other.toolcall
        and [extension for extension, _ in one.extensions] == [extension for extension, _ in other.extensions]
    )


async def _preload_schemas() -> None:
    await anyio.to_thread.run_sync(schema.preload)
