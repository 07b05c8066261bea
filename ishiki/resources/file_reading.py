"""Reads what a `FileScheme` opened: the part of file-backed schemes that all of them share and that needs a disk.

Text or bytes is decided by the content, never by a name alone. Source: specification, file schemes.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from pathlib import Path

import anyio

from ishiki.contracts.resources import (
    FileEntry,
    FilePayload,
    FileScheme,
    ResourcePayload,
    TextPayload,
    TextSource,
    parse_file_url,
)
from ishiki.core.disposer import resolved
from ishiki.errors import ResourceError
from ishiki.jsonvalue import JsonValue

__all__ = ["MAX_BYTES", "read_file_scheme"]

MAX_BYTES = 20 * 1024 * 1024
"""Bytes of one file. Source: design, safety defaults, downloads."""

_HOST = "host"


async def read_file_scheme(handler: FileScheme, url: str) -> ResourcePayload:
    """Return what stands behind a URL of `handler`'s scheme.

    Raises:
        ResourceError: what `open` says, or `resource_not_found`, `resource_too_large`, `unsupported_view`.
    """
    parsed = parse_file_url(url)
    entry = await resolved(handler.open(parsed))
    if parsed.view == "meta":
        return _text(url, _described(entry), entry, media_type="text/plain")
    if parsed.view:
        raise ResourceError("unsupported_view", f"{url!r}: there is no view {parsed.view!r}; the views are: meta")
    data = await _read(entry, url)
    media_type = entry.media_type or mimetypes.guess_type(entry.path)[0] or ""
    text = _as_text(data)
    if text is None:
        filename = Path(entry.path).name
        return FilePayload(url, data, media_type or "application/octet-stream", len(data), filename)
    return _text(url, text, entry, media_type=media_type or "text/plain")


async def _read(entry: FileEntry, url: str) -> bytes:
    if entry.bytes is not None:
        return entry.bytes
    try:
        if entry.filesystem is not None:
            size = (await entry.filesystem.stat(entry.path)).size
            _check_size(size, url)
            return await entry.filesystem.read_file_buffer(entry.path)
        path = anyio.Path(entry.path)
        _check_size((await path.stat()).st_size, url)
        return await path.read_bytes()
    except FileNotFoundError:
        raise ResourceError("resource_not_found", f"{url!r}: there is no such file") from None


def _check_size(size: int, url: str) -> None:
    if size > MAX_BYTES:
        raise ResourceError("resource_too_large", f"{url!r} has {size} bytes; at most {MAX_BYTES} are read")


def _as_text(data: bytes) -> str | None:
    """Return `data` as text, or None where it is none: NUL bytes, or no UTF-8."""
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _text(url: str, text: str, entry: FileEntry, *, media_type: str) -> TextPayload:
    source = TextSource(url, entry.path, _HOST if entry.filesystem is None else type(entry.filesystem).__name__)
    return TextPayload(url, text, len(text.encode()), media_type, Path(entry.path).name, source)


def _described(entry: FileEntry) -> str:
    known: Mapping[str, JsonValue] = {"type": entry.media_type or "unknown", **entry.metadata}
    return "\n".join(f"{key}: {value}" for key, value in known.items())
