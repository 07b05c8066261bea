"""The time zone of a profile: its own, the process's, or the system's."""

from __future__ import annotations

import os
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

__all__ = ["find_zone"]

_LOCALTIME = Path("/etc/localtime")


def find_zone(*names: str | None) -> ZoneInfo:
    """Return the first zone of `names` that is given, else the system's, else UTC.

    A named zone and not a fixed offset, so that summer time is right for every date.
    """
    for name in (*names, os.environ.get("TZ")):
        if name:
            try:
                return ZoneInfo(name.removeprefix(":"))
            except (ZoneInfoNotFoundError, ValueError, OSError):
                continue
    _, found, key = str(_LOCALTIME.resolve()).partition("zoneinfo/")
    try:
        return ZoneInfo(key) if found else ZoneInfo("UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo("UTC")
