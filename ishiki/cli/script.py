"""Dialogues in a file: what is typed, and what the bot is expected to say. docs/guide/chat.md documents the format.

Reading a script needs no bot; running one needs a `Conversation`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ishiki.cli.conversation import Conversation
from ishiki.cli.lines import Line, Place
from ishiki.cli.screen import Screen
from ishiki.cli.typed import Quit, Typed, TypedError, read_typed
from ishiki.errors import ConfigError

__all__ = ["Expect", "ExpectNone", "Script", "ScriptError", "Step", "load_script", "read_script", "run_script"]

_SHOWN_MESSAGES = 5
"""How many of the bot's newest messages a failed expectation prints."""


class ScriptError(ConfigError):
    """A script that cannot be read, or that did not go as written; the text starts with `file:line`."""

    default_code = "script_failed"


@dataclass(frozen=True, slots=True)
class Expect:
    """Wait for a message of the bot in the present chat."""

    pattern: re.Pattern[str] | None
    """What it has to contain; None: any message will do."""
    shown: str
    """As written."""


@dataclass(frozen=True, slots=True)
class ExpectNone:
    """Nothing may stand before the message that the next `Expect` in this chat finds."""


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a script."""

    line: int
    """1-based."""
    action: Typed | Expect | ExpectNone


@dataclass(frozen=True, slots=True)
class Script:
    """A dialogue."""

    file: Path | str
    steps: tuple[Step, ...]

    def error(self, problem: str, line: int | None = None, code: str | None = None) -> ScriptError:
        """Make (not raise) an error of this script."""
        return ScriptError(problem, file=self.file, line=line, code=code)


_Action: TypeAlias = Typed | Expect | ExpectNone


def load_script(file: Path) -> Script:
    """Read a script from a file. Blocks on the disk.

    Raises:
        ScriptError: it cannot be read, or a line of it is wrong.
    """
    try:
        written = file.read_text(encoding="utf-8-sig")
    except OSError as fault:
        raise ScriptError(f"cannot be read: {fault.strerror or type(fault).__name__}", file=file) from None
    except UnicodeDecodeError:
        raise ScriptError("is not UTF-8; save it as UTF-8", file=file) from None
    return read_script(written, file)


def read_script(written: str, file: Path | str) -> Script:
    """Read a script; `file` names it in errors.

    Raises:
        ScriptError: a line is wrong, or nothing is expected; further findings are in its `others`.
    """
    steps: list[Step] = []
    errors: list[ConfigError] = []
    for number, line in enumerate(written.splitlines(), start=1):
        try:
            action = _read_line(line.strip())
        except TypedError as fault:
            errors.append(ScriptError(str(fault), file=file, line=number, code="script_invalid"))
            continue
        if action is not None:
            steps.append(Step(number, action))
    if errors:
        raise errors[0].joined(errors[1:])
    if not any(isinstance(step.action, Expect) for step in steps):
        raise ScriptError("expects nothing, so it could not fail; add an `expect` line", file=file)
    return Script(file, tuple(steps))


def _read_line(line: str) -> _Action | None:
    if not line or line.startswith("#"):
        return None
    if line.startswith("\\"):
        return read_typed(line[1:]) if len(line) > 1 else None
    word, _, rest = line.partition(" ")
    if word == "expect-none":
        if rest:
            raise TypedError("expect-none takes nothing behind it")
        return ExpectNone()
    if word == "expect":
        return _expectation(rest.strip())
    return read_typed(line)


def _expectation(wanted: str) -> Expect:
    if not wanted:
        return Expect(None, "any message")
    if not (len(wanted) > 2 and wanted.startswith("/") and wanted.endswith("/")):
        return Expect(re.compile(re.escape(wanted)), repr(wanted))
    try:
        return Expect(re.compile(wanted[1:-1], re.DOTALL), wanted)
    except re.error as fault:
        raise TypedError(f"{wanted} is no regular expression: {fault}; text between slashes is one") from None


async def run_script(script: Script, conversation: Conversation, screen: Screen, *, timeout_s: float) -> None:
    """Hold the dialogue, one line after the other.

    Args:
        script: the dialogue.
        conversation: where it is held; something else must `watch` it.
        screen: for remarks on what was met.
        timeout_s: seconds to wait for each expected message.

    Raises:
        ScriptError: it did not go as written.
    """
    run = _Run(script, conversation, screen, timeout_s)
    for step in script.steps:
        if not await run.take(step):
            break
    run.finish()


class _Run:
    """One run of one script."""

    def __init__(self, script: Script, conversation: Conversation, screen: Screen, timeout_s: float) -> None:
        self._script = script
        self._conversation = conversation
        self._screen = screen
        self._timeout_s = timeout_s
        self._next: dict[Place, int] = {}
        """By chat, the position behind the message that was expected last."""
        self._silent: dict[Place, int] = {}
        """By chat, the script's line that wants silence until the next expected message."""
        self._met = 0

    async def take(self, step: Step) -> bool:
        """Do one step; returns False where the script ends the chat."""
        match step.action:
            case Expect() as wanted:
                await self._expect(wanted, step.line)
            case ExpectNone():
                self._silent[self._conversation.place] = step.line
            case Quit():
                return False
            case typed:
                try:
                    await self._conversation.perform(typed)
                except TypedError as fault:
                    raise self._script.error(str(fault), step.line) from None
        return True

    def finish(self) -> None:
        """End the run.

        Raises:
            ScriptError: silence was wanted, and nothing proved it.
        """
        for place, line in self._silent.items():
            problem = f"no `expect` follows in {place}, so the silence is not proved; say a line that must be answered"
            raise self._script.error(problem, line, "silence_unproved")
        expectations = "expectation" if self._met == 1 else "expectations"
        self._screen.note(f"{self._script.file}: passed, {self._met} {expectations} met")

    async def _expect(self, wanted: Expect, at_line: int) -> None:
        place = self._conversation.place
        since = self._next.get(place, 0)

        def matches(line: Line) -> bool:
            return line.place == place and (wanted.pattern is None or wanted.pattern.search(line.text) is not None)

        try:
            found = await self._conversation.heard.first(matches, since=since, within=self._timeout_s)
        except TimeoutError:
            raise self._missed(wanted, place, since, at_line) from None
        silent_line = self._silent.pop(place, None)
        before = self._here(place, since, found.position)
        if silent_line is not None and before:
            problem = f"expected nothing before {wanted.shown}, and the bot said:{_listed(before)}"
            raise self._script.error(problem, silent_line, "silence_broken")
        self._next[place] = found.position + 1
        self._met += 1

    def _missed(self, wanted: Expect, place: Place, since: int, at_line: int) -> ScriptError:
        came = self._here(place, since, len(self._conversation.heard))
        elsewhere = self._conversation.heard.items[since:] if not came else []
        said = f"the bot said since:{_listed(came)}" if came else f"the bot said nothing in {place} since"
        if elsewhere:
            said += f"; elsewhere it said:{_listed(elsewhere)}"
        problem = f"expected {wanted.shown} in {place} within {self._timeout_s:g} s; {said}"
        return self._script.error(problem, at_line, "expectation_missed")

    def _here(self, place: Place, since: int, until: int) -> Sequence[Line]:
        return [line for line in self._conversation.heard.items[since:until] if line.place == place]


def _listed(lines: Sequence[Line]) -> str:
    return "".join(f"\n  {line.head} {line.text}" for line in lines[-_SHOWN_MESSAGES:])
