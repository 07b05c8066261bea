"""`python -m ishiki replay`: when minds would have spoken in a log, and why, without asking a model.

Reads the log line by line and keeps counts only, so its length does not matter. Plugins are not loaded.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel

from ishiki.cli.arguments import ReplayArguments
from ishiki.cli.environment import project_environment, project_folder
from ishiki.cli.replay_chart import draw_replay
from ishiki.cli.replay_mind import ReplayMind
from ishiki.cli.replay_report import MindCounts, ReplayReport, report_lines
from ishiki.config import Settings
from ishiki.content import clean_name
from ishiki.contracts.engines import WakeupEngine
from ishiki.contracts.events import MESSAGE_CREATED, MessageCreated
from ishiki.contracts.services import ServiceRegistry, engine_service
from ishiki.core.entries import EVENT, MESSAGE, Entry, entry_from_json
from ishiki.core.events import MessageAppended, TurnAborted, TurnDone, WakeupDecision
from ishiki.core.messages import AssistantMessage, CustomMessage
from ishiki.engines import BUILTIN_ENGINES
from ishiki.engines.wakeup.jev import Answers, JevEngine, JudgeCase
from ishiki.errors import ConfigError, IshikiError
from ishiki.jsonvalue import read_str
from ishiki.profile import LoadedProfiles, Profile, load_profiles, validate_blocks
from ishiki.runtime.zone import find_zone
from ishiki.storage.format import parse_line
from ishiki.storage.inspection import bare, read_lines
from ishiki.testing.task_scope import TaskScope

__all__ = ["run_replay"]

_SHOWN_BROKEN = 3
"""Broken lines that are named; the doctor names all."""

_YIELD_EVERY = 500
"""Lines between two looks at the clock, and messages between two at whether the person has interrupted."""

_PROGRESS_S = {True: 0.3, False: 10.0}
"""Seconds between two signs of progress: on a terminal, and elsewhere."""

_ERASE_LINE = "\r\x1b[2K"


def run_replay(arguments: ReplayArguments, *, folder: Path, environ: Mapping[str, str]) -> int:
    """Run a log through the wakeup engines of profiles, and print when each would have spoken.

    Args:
        arguments: the flags.
        folder: the present folder, for `.env` and `--profiles`.
        environ: the process's variables.

    Returns:
        The exit status: 0 done, 1 failed as the output says, 130 interrupted.
    """
    try:
        replay = _Replay(arguments, folder / arguments.log)
        replay.choose_minds(folder, environ)
        anyio.run(replay.run)
        replay.report(folder)
    except KeyboardInterrupt:
        return 130
    except IshikiError as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 1
    except OSError as fault:
        print(f"error: {fault.filename or arguments.log}: {fault.strerror or fault}", file=sys.stderr)
        return 1
    return 0


@dataclass(frozen=True, slots=True)
class _AssumedJudge:
    """A judge that is asked nothing: it is taken to see the same chance in every message. Fits `Judge`."""

    chance: float

    async def ask(self, case: JudgeCase) -> Answers:
        """Answer so that the chance comes out."""
        return Answers(self.chance, self.chance, 1 - self.chance)

    async def aclose(self) -> None:
        """Do nothing."""


@dataclass(slots=True)
class _Replay:
    """One replay."""

    arguments: ReplayArguments
    log: Path
    minds: list[ReplayMind] = field(default_factory=list[ReplayMind])
    counts: dict[str, MindCounts] = field(default_factory=dict[str, MindCounts])
    counted: ReplayReport = field(default_factory=ReplayReport)
    broken: int = 0

    # -- before ------------------------------------------------------------------------------------------------------

    def choose_minds(self, folder: Path, environ: Mapping[str, str]) -> None:
        """Read the profiles that were named.

        Raises:
            ConfigError: one is unknown or faulty.
            IshikiError: its wakeup engine is not there.
        """
        environment = project_environment(folder, environ)
        settings = Settings.from_mapping(environment)
        directory = project_folder(folder) / settings.profiles_dir
        if self.arguments.profiles is not None:
            directory = folder / self.arguments.profiles
        loaded = load_profiles(directory, environment)
        services = ServiceRegistry()
        judge = _AssumedJudge(self.arguments.judge)
        for engine in BUILTIN_ENGINES:
            services.provide(JevEngine(lambda host, config: judge) if isinstance(engine, JevEngine) else engine)
        for profile_id in dict.fromkeys(self.arguments.profile_ids):
            profile = _find_profile(profile_id, loaded, directory)
            zone = find_zone(profile.config.timezone, settings.timezone)
            provider, config = _wakeup_of(profile, services)
            counts = self.counts[profile_id] = MindCounts(profile_id, profile.engine("wakeup"))
            self.counted.minds.append(counts)
            self.counted.zone = self.counted.zone or zone
            mind = ReplayMind(
                profile,
                provider,
                config,
                zone=zone,
                seed=self.arguments.seed,
                takes_turns=not self.arguments.own_turns,
                on_decision=self._note,
            )
            self.minds.append(mind)

    # -- the log -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Let every mind hear the log."""
        async with TaskScope() as group:
            is_started = False
            try:
                for number, entry in enumerate(self._entries()):
                    if number % _YIELD_EVERY == 0:
                        await anyio.lowlevel.checkpoint()
                    message = _message(entry)
                    if message is not None and not is_started:
                        channel = MessageCreated.from_data(message.data).channel
                        for mind in self.minds:
                            await mind.start(group, entry.timestamp, channel, self.log.parent)
                        is_started = True
                    if is_started:
                        await self._pass_on(entry, message)
            finally:
                with anyio.CancelScope(shield=True):
                    for mind in self.minds:
                        await mind.stop()

    async def _pass_on(self, entry: Entry, message: CustomMessage | None) -> None:
        if message is not None:
            self.counted.hear(entry.timestamp)
            for mind in self.minds:
                await mind.hear(entry, message)
            return
        event = _turn_event(entry)
        if event is not None:
            for mind in self.minds:
                await mind.live(event, entry.timestamp)

    def _entries(self) -> Iterator[Entry]:
        """Yield what the engines are to see, in the order in which it was written down."""
        wanted = [b'"ishiki.message.created"']
        if self.arguments.own_turns:
            wanted += [b'"turn.done"', b'"turn.failed"', b'"turn.aborted"', b'"send_message"']
        size = self.log.stat().st_size
        progress = _Progress(self.log.name, size)
        with self.log.open("rb") as file:
            for line in read_lines(file, size):
                if line.number % _YIELD_EVERY == 0:
                    progress.show(line.number, line.offset)
                self.counted.lines = line.number
                # Most lines of a log are none of these, and looking is cheaper than reading.
                if not any(mark in line.raw for mark in wanted):
                    continue
                try:
                    yield entry_from_json(parse_line(bare(line.raw)))
                except ValueError as error:
                    self._note_broken(line.number, error)
        progress.wipe()

    def _note_broken(self, number: int, error: ValueError) -> None:
        self.broken += 1
        if self.broken <= _SHOWN_BROKEN:
            print(f"warning: {self.log}:{number}: this line is broken and passed over: {error}", file=sys.stderr)

    # -- what comes of it --------------------------------------------------------------------------------------------

    def _note(self, mind: ReplayMind, decision: WakeupDecision, message: CustomMessage | None) -> None:
        self.counts[mind.profile.id].note(decision, mind.now_ms, is_message=message is not None)
        if decision.woke and not self.arguments.quiet:
            when = datetime.fromtimestamp(mind.now_ms / 1000, mind.zone)
            print(f"{when:%Y-%m-%d %H:%M:%S}  {mind.profile.id}  {_described(message)}: {decision.reason}")

    def report(self, folder: Path) -> None:
        """Print the table, and draw the plot.

        Raises:
            ConfigError: the plot cannot be written.
        """
        if self.broken > _SHOWN_BROKEN:
            print(f"warning: {self.broken} lines are broken; see python -m ishiki doctor", file=sys.stderr)
        for line in report_lines(self.counted):
            print(line)
        if self.arguments.svg is not None:
            file = folder / self.arguments.svg
            try:
                file.write_text(draw_replay(self.counted), encoding="utf-8")
            except OSError as fault:
                raise ConfigError(f"cannot be written: {fault.strerror}", file=file) from fault
            print(f"plot: {file}")


def _find_profile(profile_id: str, loaded: LoadedProfiles, directory: Path) -> Profile:
    profile = loaded.get(profile_id)
    if profile is not None:
        return profile
    for problem in loaded.problems:
        if problem.profile_id == profile_id:
            raise problem.error
    known = ", ".join(one.id for one in loaded.profiles) or "none"
    raise ConfigError(f"no profile {profile_id!r} in {directory}; known: {known}")


def _wakeup_of(profile: Profile, services: ServiceRegistry) -> tuple[WakeupEngine[Any], Any]:
    blocks = validate_blocks(profile, services)
    name = profile.engine("wakeup")
    provider = cast("WakeupEngine[Any] | None", services.get(engine_service("wakeup", name), WakeupEngine))
    if provider is None or "wakeup" not in blocks.engines:
        raise profile.error(
            f"needs the engine {name!r} or one below it from a plugin, and a replay loads none", ("wakeup", "engine")
        )
    return provider, blocks.engines["wakeup"]


def _message(entry: Entry) -> CustomMessage | None:
    message = entry.message
    return message if isinstance(message, CustomMessage) and message.type == MESSAGE_CREATED else None


def _turn_event(entry: Entry) -> MessageAppended | TurnDone | TurnAborted | None:
    if entry.type == MESSAGE and isinstance(entry.message, AssistantMessage):
        return MessageAppended(entry.message, entry)
    if entry.type == EVENT and entry.turn_id is not None:
        kind = read_str(entry.json_data, "type")
        return TurnDone(entry.turn_id) if kind == "turn.done" else TurnAborted(entry.turn_id, kind)
    return None


def _described(message: CustomMessage | None) -> str:
    if message is None:
        return "its own clock"
    created = MessageCreated.from_data(message.data)
    number = clean_name(created.message_id, "without an id")
    return f"message {number} of {clean_name(created.user.name, created.user.id)}"


class _Progress:
    """Shows on standard error how far the reading is: on a terminal in one line, elsewhere now and then."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._is_terminal = sys.stderr.isatty()
        self._began = self._shown = time.monotonic()

    def show(self, lines: int, offset: int) -> None:
        """Show it, if it is time."""
        now = time.monotonic()
        if now - self._shown < _PROGRESS_S[self._is_terminal]:
            return
        self._shown = now
        speed = lines / (now - self._began)
        text = f"{self._name}: {offset / self._size:.0%}, {lines:,} lines, {speed:,.0f} lines/s"
        begin, end = (_ERASE_LINE, "") if self._is_terminal else ("", "\n")
        print(f"{begin}{text}", end=end, file=sys.stderr, flush=True)

    def wipe(self) -> None:
        """Take the line away."""
        if self._is_terminal and self._shown != self._began:
            print(_ERASE_LINE, end="", file=sys.stderr, flush=True)
