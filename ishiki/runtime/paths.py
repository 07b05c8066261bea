"""Where a runtime keeps its data. Two channels never share a folder, whatever their ids are."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

__all__ = ["LOG_NAME", "folder_name", "runtime_home"]

LOG_NAME = "events.jsonl"

_MAX_BYTES = 120
"""Beyond it a name is shortened and hashed; file systems end at 255 bytes, some sync tools much earlier."""


def folder_name(value: str) -> str:
    """Return `value` as the name of a folder: percent-encoded outside `[A-Za-z0-9._-]`, hashed beyond 120 bytes.

    Different values give different names; a name is never empty, `.` or `..`.
    """
    encoded = re.sub(
        rb"[^A-Za-z0-9._-]", lambda found: b"%%%02X" % found.group()[0], value.encode("utf-8", "surrogatepass")
    ).decode("ascii")
    if not encoded.strip("."):
        encoded = "%2E" * len(encoded) or "%"
    if len(encoded) <= _MAX_BYTES:
        return encoded
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    # "~" is outside the alphabet of encoded names, so a hashed name can equal no plain one.
    return f"{encoded[: _MAX_BYTES - 33]}~{digest}"


def runtime_home(data: Path, profile_id: str, sid: str, channel_id: str) -> Path:
    """Return the folder of a channel's runtime; of one for all channels where `sid` is empty (cross mode)."""
    if not sid:
        return data / folder_name(profile_id) / folder_name(channel_id)
    return data / folder_name(profile_id) / folder_name(sid) / folder_name(channel_id)
