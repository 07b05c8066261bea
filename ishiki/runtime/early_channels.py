"""Which channels a profile has before anybody speaks there: those with a log, and those it claims by name.

Runtimes whose wakeup engine runs without input are built for them at start-up. Source: design, at start-up.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote_to_bytes

from ishiki.contracts.events import ChannelRef
from ishiki.jsonvalue import JsonObject, read_str
from ishiki.profile import Claims
from ishiki.runtime.paths import LOG_NAME, folder_name
from ishiki.storage.format import is_header, parse_line

__all__ = ["early_channels"]

_MAX_HEADER_BYTES = 4096
"""A header takes some 150."""


def early_channels(data_dir: Path, profile_id: str, claims: Claims) -> list[ChannelRef]:
    """Return the channels with a log, sorted by folder, then the exactly claimed ones; each once.

    Blocks. A log that cannot be read is left out: whoever opens it reports why. Nothing here says whose a channel is.
    """
    home = data_dir / folder_name(profile_id)
    logs: Iterable[Path] = sorted(home.glob(f"*/*/{LOG_NAME}")) if home.is_dir() else ()
    found = [channel for log in logs if (channel := _channel_of(log)) is not None]
    exact = [ChannelRef(sid, channel_id) for sid, channel_id in claims.exact_channels()]
    return list(dict.fromkeys([*found, *exact]))


def _channel_of(log: Path) -> ChannelRef | None:
    first: JsonObject = {}
    try:
        with log.open("rb") as stream:
            first = parse_line(stream.readline(_MAX_HEADER_BYTES))
    except (OSError, ValueError):
        pass
    if is_header(first):
        channel = ChannelRef(read_str(first, "sid"), read_str(first, "channelId"))
    else:
        # A log of the original has no header; its folders are named after the channel, unless they had to be hashed.
        channel = ChannelRef(_unfolded(log.parent.parent.name), _unfolded(log.parent.name))
    names = folder_name(channel.sid), folder_name(channel.channel_id)
    return channel if names == (log.parent.parent.name, log.parent.name) else None


def _unfolded(name: str) -> str:
    return unquote_to_bytes(name).decode("utf-8", "replace")
