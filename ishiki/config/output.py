"""The process's standard output and error, which may know fewer characters than people write.

A console is not always UTF-8 (`LC_ALL=C`, a Windows code page). What it cannot show is written as Python's escapes, so
that neither a log line nor a command fails at an emoji.
"""

from __future__ import annotations

import io
import sys

__all__ = ["escape_unwritable"]

_RAISING = ("strict", "surrogateescape")
"""Python's defaults for standard output; both raise at what the encoding lacks. Anything else was asked for."""


def escape_unwritable() -> None:
    r"""Let standard output and error write escapes (`\U0001f431`) for what their encoding lacks. Idempotent.

    Whatever writes to them is covered, loggers that hold the streams since before as well.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in _RAISING:
            stream.reconfigure(errors="backslashreplace")
