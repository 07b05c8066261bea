"""Resource schemes: how `read` learns a URL. Source: specification, extension API, "resource schemes".

The resource centre routes by scheme only; a handler gets the whole URL and reads path, query and view itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import ClassVar, Literal, Protocol, TypeAlias
from urllib.parse import unquote, urlsplit

from ishiki.core.disposer import Disposer
from ishiki.errors import ResourceError
from ishiki.jsonvalue import JsonObject, JsonValue

__all__ = [
    "RESERVED_SCHEMES",
    "FileEntry",
    "FilePayload",
    "FileScheme",
    "FileStat",
    "FileUrl",
    "ResourceCenter",
    "ResourceFileSystem",
    "ResourcePayload",
    "SchemeHandler",
    "TextPayload",
    "TextSource",
    "parse_file_url",
]

RESERVED_SCHEMES = frozenset({"asset", "artifact", "local"})
"""Schemes of the kernel; a handler for one of them is refused."""


@dataclass(frozen=True, slots=True)
class TextSource:
    """Where a text page came from: plain data, enough to read the next page without the handler's help."""

    url: str
    path: str
    filesystem: str = "host"
    """Name of the file system inside the runtime; `host` is the machine's own."""
    byte_start: int = 0
    byte_end: int | None = None
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class TextPayload:
    """Text. A handler returns it whole; the output exit pages it."""

    url: str
    text: str
    size: int
    """Bytes of the text in UTF-8."""
    media_type: str = "text/plain"
    filename: str = ""
    source: TextSource | None = None
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class FilePayload:
    """Bytes."""

    url: str
    bytes: bytes
    media_type: str
    size: int
    filename: str = ""
    immutable: bool = False
    """True: what stands behind the URL never changes, so the history may hold the URL. Else it is snapshot first."""
    type: Literal["file"] = "file"


ResourcePayload: TypeAlias = TextPayload | FilePayload


class SchemeHandler(ABC):
    """Makes one URL scheme readable. Registered by `host.resources.attach(handler)`, per runtime."""

    scheme: ClassVar[str]
    """Lower case, without the colon: `clock` for `clock://now`."""

    @abstractmethod
    def resolve(self, url: str) -> Awaitable[ResourcePayload] | ResourcePayload:
        """Return what stands behind `url`.

        Raises:
            ResourceError: with the code that fits; any other error is wrapped as `resource_read_failed`.
        """


@dataclass(frozen=True, slots=True)
class FileUrl:
    """A file-like URL in its parts, percent-decoded: `scheme://authority/path?view=name`."""

    url: str
    scheme: str
    authority: str
    path: str
    """Relative, without a leading slash; may be empty."""
    view: str = ""


@dataclass(frozen=True, slots=True)
class FileStat:
    """What a file system says of a path."""

    size: int
    is_directory: bool = False


class ResourceFileSystem(Protocol):
    """A file system other than the host's, such as a sandbox's. A host path is never one of its paths."""

    async def read_file_buffer(self, path: str) -> bytes:
        """Return a file's bytes."""
        ...

    async def stat(self, path: str) -> FileStat:
        """Describe a path; raises FileNotFoundError."""
        ...

    async def readdir(self, path: str) -> Sequence[str]:
        """Return the names in a directory, sorted."""
        ...


@dataclass(frozen=True, slots=True)
class FileEntry:
    """The file behind a URL, as a `FileScheme` opened it."""

    path: str
    media_type: str = ""
    """Empty: text or bytes is decided by a look at the content."""
    filesystem: ResourceFileSystem | None = None
    """None: the host's own."""
    metadata: JsonObject = field(default_factory=dict[str, JsonValue])
    """Shown by the `meta` view."""
    bytes: bytes | None = None
    """The content, where it is in memory already."""


class FileScheme(SchemeHandler):
    """A scheme over files. Subclasses say which file a URL means; line selection, views and paging are shared.

    Keeping inside a root, and what a symbolic link may do, is `open`'s duty. The resource centre reads what it opened.
    """

    def resolve(self, url: str) -> Awaitable[ResourcePayload] | ResourcePayload:
        """Not called: reading a file needs a disk, which is the resource centre's."""
        raise ResourceError("resource_unavailable", f"{url!r} is read by a resource centre, not by its scheme alone")

    @abstractmethod
    def open(self, url: FileUrl) -> Awaitable[FileEntry] | FileEntry:
        """Return the file that `url` means.

        Raises:
            ResourceError: with the code that fits.
        """


class ResourceCenter(Protocol):
    """The resources of one runtime. A URL means something only inside its own centre."""

    def attach(self, handler: SchemeHandler) -> Disposer:
        """Register `handler`.

        Raises:
            ValueError: the scheme is reserved or taken already.
        """
        ...

    def schemes(self) -> Sequence[str]:
        """Return the schemes that can be resolved now, in order of registration."""
        ...

    async def resolve(self, url: str) -> ResourcePayload:
        """Return what stands behind `url`.

        Raises:
            ResourceError: `resource_unavailable` for an unknown scheme, naming those there are; else the handler's.
        """
        ...


def parse_file_url(url: str) -> FileUrl:
    """Split a file-like URL.

    Raises:
        ResourceError: `invalid_resource_uri` for anything that could leave a root (`.`, `..`, backslash, NUL) or
            a query other than `view=<lower-case name>`.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ResourceError("invalid_resource_uri", f"{url!r} is no resource URL: {error}") from error
    authority, path = unquote(parts.netloc), unquote(parts.path)
    segments = PurePosixPath(path.lstrip("/")).parts
    raw_segments = [segment for segment in path.split("/") if segment]
    if not parts.scheme or "\0" in authority + path or "\\" in authority + path or "/" in authority:
        raise ResourceError("invalid_resource_uri", f"{url!r} is no resource URL")
    if authority.startswith(".") or any(segment in (".", "..") for segment in raw_segments):
        raise ResourceError("invalid_resource_uri", f"{url!r} has a '.' or '..' segment; name the path from the root")
    view = ""
    if parts.query:
        key, _, view = parts.query.partition("=")
        if key != "view" or not view.isascii() or not view.islower() or not view.isalpha():
            raise ResourceError("invalid_resource_uri", f"{url!r}: the only query is view=<name>")
    return FileUrl(url, parts.scheme.lower(), authority, "/".join(segments), view)
