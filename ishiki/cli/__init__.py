"""The commands of `python -m ishiki`: a person's hands on a bot, and a look at its configuration and its data.

Imports neither NoneBot nor LiteLLM, and each command loads only what it needs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ishiki.cli.arguments import (
    ChatArguments,
    CheckArguments,
    DoctorArguments,
    ReplayArguments,
    UsageArguments,
    VersionArguments,
    parse_arguments,
)
from ishiki.config.output import escape_unwritable

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments without the program's name; those of the process by default.

    Returns:
        The exit status: 0 done, 1 failed as the output says, 130 interrupted.

    Raises:
        SystemExit: the arguments are wrong (status 2) or asked for help (status 0).
    """
    escape_unwritable()
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    # Imported here because a person waits for the prompt: `chat` needs the WebSocket library but none of the
    # configuration models, `check` the other way round, and `--help` neither.
    match arguments:
        case ChatArguments():
            from ishiki.cli.chat import run_chat

            return run_chat(arguments, folder=Path.cwd(), environ=os.environ)
        case CheckArguments():
            from ishiki.cli.check import run_check

            return run_check(arguments, folder=Path.cwd(), environ=os.environ)
        case DoctorArguments():
            from ishiki.cli.doctor import run_doctor

            return run_doctor(arguments, folder=Path.cwd(), environ=os.environ)
        case ReplayArguments():
            from ishiki.cli.replay import run_replay

            return run_replay(arguments, folder=Path.cwd(), environ=os.environ)
        case UsageArguments():
            from ishiki.cli.usage import run_usage

            return run_usage(arguments, folder=Path.cwd(), environ=os.environ)
        case VersionArguments():
            from importlib.metadata import version

            print(f"ishiki {version('ishiki')}")
            return 0
