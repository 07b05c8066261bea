"""The command line: which commands there are, their flags and their defaults. Knows no command's work."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

__all__ = [
    "Arguments",
    "ChatArguments",
    "CheckArguments",
    "DoctorArguments",
    "ReplayArguments",
    "UsageArguments",
    "VersionArguments",
    "parse_arguments",
]

DEFAULT_ACCOUNT = 10001
DEFAULT_USER = 42
DEFAULT_NAME = "Rin"
DEFAULT_SEED = 1
DEFAULT_DAYS = 7
MAX_DAYS = 366
DEFAULT_TIMEOUT_S = 20.0
"""Seconds an expected message may take: above the longest typing pause of several messages in a row."""


Online: TypeAlias = Literal["used", "all"]
"""`used`: the models that profiles name; `all`: those of every configured provider."""


@dataclass(frozen=True, slots=True)
class ChatArguments:
    """What `chat` was asked for."""

    url: str | None = None
    """The bot's address; None: from HOST and PORT."""
    token: str | None = None
    """The access token; None: ONEBOT_ACCESS_TOKEN."""
    account: int = DEFAULT_ACCOUNT
    """The bot's account."""
    user: int = DEFAULT_USER
    """Who speaks at first."""
    name: str = DEFAULT_NAME
    """That person's name."""
    script: Path | None = None
    """A dialogue to run instead of reading standard input."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    """Seconds to wait for an expected message."""


@dataclass(frozen=True, slots=True)
class CheckArguments:
    """What `check` was asked for."""

    profiles: Path | None = None
    """The profiles folder; None: ISHIKI_PROFILES_DIR."""
    online: Online | None = None
    """Which models are asked over the network; None: none."""


@dataclass(frozen=True, slots=True)
class DoctorArguments:
    """What `doctor` was asked for."""

    data: Path | None = None
    """The data folder; None: ISHIKI_DATA_DIR."""
    repair: bool = False
    """Whether to mend what can be mended."""


@dataclass(frozen=True, slots=True)
class UsageArguments:
    """What `usage` was asked for."""

    profile: str | None = None
    """One profile; None: all."""
    days: int = DEFAULT_DAYS
    """How many days are shown, the last of them today."""
    svg: Path | None = None
    """A file to draw a plot into."""
    is_json: bool = False
    """Whether JSON is printed instead of a table."""


@dataclass(frozen=True, slots=True)
class ReplayArguments:
    """What `replay` was asked for."""

    log: Path
    """The log."""
    profile_ids: tuple[str, ...]
    """The profiles whose engines hear it."""
    profiles: Path | None = None
    """The profiles folder; None: ISHIKI_PROFILES_DIR."""
    svg: Path | None = None
    """A file to draw a plot into."""
    seed: int = DEFAULT_SEED
    """Of the dice; the same for each profile."""
    judge: float = 0.0
    """The chance that a judge is taken to see in every message."""
    own_turns: bool = False
    """Whether the turns of the log count, instead of those that each profile would have had."""
    quiet: bool = False
    """Whether only the counts are printed."""


@dataclass(frozen=True, slots=True)
class VersionArguments:
    """`--version`."""


Arguments: TypeAlias = (
    ChatArguments | CheckArguments | DoctorArguments | ReplayArguments | UsageArguments | VersionArguments
)
"""One command with its arguments."""


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Read the arguments of a command line.

    Raises:
        SystemExit: they are wrong (status 2, usage on standard error) or ask for help (status 0).
    """
    parser = _parser()
    found = parser.parse_args(argv)
    if found.version:
        return VersionArguments()
    match found.command:
        case "chat":
            return ChatArguments(
                url=found.url,
                token=found.token,
                account=found.account,
                user=found.user,
                name=found.name,
                script=found.script,
                timeout_s=found.timeout,
            )
        case "check":
            return CheckArguments(profiles=found.profiles, online=found.online)
        case "doctor":
            return DoctorArguments(data=found.data, repair=found.repair)
        case "replay":
            return ReplayArguments(
                log=found.log,
                profile_ids=tuple(found.profile),
                profiles=found.profiles,
                svg=found.svg,
                seed=found.seed,
                judge=found.judge,
                own_turns=found.own_turns,
                quiet=found.quiet,
            )
        case "usage":
            return UsageArguments(profile=found.profile, days=found.days, svg=found.svg, is_json=found.json)
        case _:
            parser.error("which command? chat, check, doctor, replay or usage; --help explains them")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ishiki",
        description="Commands beside a running Ishiki bot. The bot itself is started by ./run.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and end")
    commands = parser.add_subparsers(dest="command", metavar="command", title="commands")
    _add_chat(commands.add_parser("chat", help="talk to the running bot", allow_abbrev=False, description=_CHAT))
    _add_check(commands.add_parser("check", help="check the configuration", allow_abbrev=False, description=_CHECK))
    _add_doctor(commands.add_parser("doctor", help="check the data folder", allow_abbrev=False, description=_DOCTOR))
    replay = commands.add_parser("replay", help="try a profile on a log", allow_abbrev=False, description=_REPLAY)
    _add_replay(replay)
    _add_usage(commands.add_parser("usage", help="show what was used", allow_abbrev=False, description=_USAGE))
    return parser


_CHAT = (
    "Connects to the running bot as a OneBot v11 end would, and lets you speak in private chats and groups. "
    "Address and token come from HOST, PORT and ONEBOT_ACCESS_TOKEN, in the environment or in .env; flags win."
)
_CHECK = (
    "Reads models.yaml and every profile as the bot would, and prints each problem with its place, who owns which "
    "channels, and which providers have no key. With --online it proves each model that a profile uses, by at most "
    "three requests: the provider's models, one word, one tool call. Ends with status 1 where something is wrong."
)
_DOCTOR = (
    "Reads every log in the data folder and prints what is damaged, with line numbers. Ends with status 1 where "
    "something is. With --repair, and only while no bot runs, it mends what can be mended, and keeps beside each log "
    "what it removes from it."
)
_REPLAY = (
    "Runs a log through the wakeup engines of profiles, without a model, and prints when each would have spoken and "
    "why. Time passes as in the log, and a turn takes none. Engines of plugins are not there."
)
_USAGE = (
    "Prints the tokens that each channel of each profile has used, day by day, with the share of the input that the "
    "provider had cached. The bot may run meanwhile. Ends with status 1 where a file cannot be read."
)


def _add_chat(chat: argparse.ArgumentParser) -> None:
    chat.add_argument("--url", help="the bot's address, such as ws://127.0.0.1:8080/onebot/v11/ws")
    chat.add_argument("--token", help="the access token; visible to others on this machine, better set it in .env")
    chat.add_argument(
        "--account", type=_identity, default=DEFAULT_ACCOUNT, help="the bot's account id (default: %(default)s)"
    )
    chat.add_argument("--user", type=_identity, default=DEFAULT_USER, help="your user id (default: %(default)s)")
    chat.add_argument("--name", default=DEFAULT_NAME, help="your name (default: %(default)s)")
    chat.add_argument("--script", type=Path, metavar="FILE", help="run a dialogue from a file, for tests")
    chat.add_argument(
        "--timeout",
        type=_seconds,
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help="how long an expected message may take (default: %(default)g)",
    )


def _add_check(check: argparse.ArgumentParser) -> None:
    check.add_argument(
        "--profiles", type=Path, metavar="DIR", help="the profiles folder (default: ISHIKI_PROFILES_DIR, or profiles)"
    )
    check.add_argument(
        "--online",
        nargs="?",
        const="used",
        choices=("used", "all"),
        help="ask the models that profiles use, or all of configured providers; costs a few tokens each",
    )


def _add_doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.add_argument(
        "data", type=Path, nargs="?", metavar="DATA_DIR", help="the data folder (default: ISHIKI_DATA_DIR, or data)"
    )
    doctor.add_argument("--repair", action="store_true", help="mend what can be mended, keeping what is removed")


def _add_replay(replay: argparse.ArgumentParser) -> None:
    replay.add_argument("log", type=Path, metavar="EVENTS_JSONL", help="the log of a channel")
    replay.add_argument(
        "--profile", action="append", required=True, metavar="ID", help="a profile; give it again to compare several"
    )
    replay.add_argument(
        "--profiles", type=Path, metavar="DIR", help="the profiles folder (default: ISHIKI_PROFILES_DIR, or profiles)"
    )
    replay.add_argument("--svg", type=Path, metavar="FILE", help="draw a plot into a file as well")
    replay.add_argument(
        "--seed", type=int, default=DEFAULT_SEED, metavar="N", help="of the dice (default: %(default)s)"
    )
    replay.add_argument(
        "--judge",
        type=_chance,
        default=0.0,
        metavar="CHANCE",
        help="what the judge of jev is taken to answer, from 0 to 1; it is never asked (default: %(default)g)",
    )
    replay.add_argument(
        "--own-turns", action="store_true", help="count the turns of the log, and not those that would have followed"
    )
    replay.add_argument("--quiet", action="store_true", help="print the counts only")


def _add_usage(usage: argparse.ArgumentParser) -> None:
    usage.add_argument("--profile", metavar="ID", help="one profile (default: all)")
    usage.add_argument(
        "--days", type=_days, default=DEFAULT_DAYS, metavar="N", help="the last N days (default: %(default)s)"
    )
    usage.add_argument("--svg", type=Path, metavar="FILE", help="draw a plot into a file as well")
    usage.add_argument("--json", action="store_true", help="print JSON instead of a table, with every number whole")


def _chance(text: str) -> float:
    try:
        chance = float(text)
    except ValueError:
        chance = math.nan
    if not 0 <= chance <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no chance; write a number from 0 to 1")
    return chance


def _identity(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no id; write a positive number")
    return int(text)


def _days(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_DAYS):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days; write one from 1 to {MAX_DAYS}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write a positive number of seconds")
    return seconds
