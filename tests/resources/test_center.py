"""The resource centre: a URL reaches the handler of its scheme, and everything that goes wrong has its code."""

from __future__ import annotations

from pathlib import Path

import pytest

from ishiki.contracts.resources import (
    FileEntry,
    FilePayload,
    FileScheme,
    FileUrl,
    ResourcePayload,
    SchemeHandler,
    TextPayload,
)
from ishiki.errors import ResourceError
from ishiki.resources.center import SchemeRouter


class Echo(SchemeHandler):
    """Returns the URL it was asked for."""

    scheme = "echo"

    def resolve(self, url: str) -> ResourcePayload:
        """Return the URL as text."""
        if url == "echo://fails":
            raise RuntimeError("broken")
        return TextPayload(url, url, len(url))


class Shelf(FileScheme):
    """Files of one folder."""

    scheme = "shelf"

    def __init__(self, root: Path) -> None:
        """Serve `root`."""
        self.root = root

    def open(self, url: FileUrl) -> FileEntry:
        """Return the file of that path."""
        return FileEntry(str(self.root / url.path), metadata={"shelf": url.authority})


async def test_a_url_reaches_the_handler_of_its_scheme_whatever_its_case() -> None:
    """Reference, resource centre."""
    center = SchemeRouter()
    center.attach(Echo())
    assert (await center.resolve("ECHO://a?b#c")).url == "ECHO://a?b#c"
    assert center.schemes() == ("echo",)


@pytest.mark.parametrize("scheme", ["asset", "artifact", "local", "Echo", "no scheme"])
async def test_a_reserved_taken_or_impossible_scheme_is_refused(scheme: str) -> None:
    """Specification, resource schemes: reserved names and duplicates."""

    class Other(Echo):
        pass

    Other.scheme = scheme
    center = SchemeRouter()
    center.attach(Echo())
    with pytest.raises(ValueError, match="scheme"):
        center.attach(Other())


async def test_a_disposed_handler_is_gone_and_its_name_is_free() -> None:
    """Specification: attach returns what undoes it."""
    center = SchemeRouter()
    detach = center.attach(Echo())
    detach()
    detach()
    with pytest.raises(ResourceError) as unknown:
        await center.resolve("echo://a")
    assert unknown.value.code == "resource_unavailable"
    center.attach(Echo())


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("nothing", "invalid_resource_uri"),
        ("other://a", "resource_unavailable"),
        ("echo://fails", "resource_read_failed"),
        ("shelf://a/../b", "invalid_resource_uri"),
        ("shelf://a/b?view=raw", "unsupported_view"),
        ("shelf://a/b?x=1", "invalid_resource_uri"),
        ("shelf://a/absent.txt", "resource_not_found"),
    ],
)
async def test_what_cannot_be_read_says_why_by_its_code(url: str, code: str, tmp_path: Path) -> None:
    """Reference, error codes."""
    center = SchemeRouter()
    center.attach(Echo())
    center.attach(Shelf(tmp_path))
    with pytest.raises(ResourceError) as failure:
        await center.resolve(url)
    assert failure.value.code == code


async def test_a_file_scheme_needs_only_open_and_tells_text_from_bytes(tmp_path: Path) -> None:
    """Specification, file schemes: the base class reads, and the content decides what it is."""
    (tmp_path / "note.md").write_text("天气 fine", encoding="utf-8")
    (tmp_path / "note.bin").write_bytes(b"\x00\x01")
    center = SchemeRouter()
    center.attach(Shelf(tmp_path))
    text = await center.resolve("shelf://a/note.md")
    assert isinstance(text, TextPayload)
    assert (text.text, text.source and text.source.path) == ("天气 fine", str(tmp_path / "note.md"))
    file = await center.resolve("shelf://a/note.bin")
    assert isinstance(file, FilePayload)
    assert (file.bytes, file.filename) == (b"\x00\x01", "note.bin")
    meta = await center.resolve("shelf://a/note.md?view=meta")
    assert isinstance(meta, TextPayload)
    assert "shelf: a" in meta.text
