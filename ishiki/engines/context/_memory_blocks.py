"""Memory blocks: what a profile's owner wrote into `memory/*.md` and `memory/*.txt`, as a part of the system prompt.

Source: specification, context engine `v3`, memory blocks; sizes are our choice. Reading never fails a turn: a file that
cannot be used is left out, with a warning once for each fault.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread
from pydantic import Field

from ishiki.config import ConfigModel, parse_yaml, validate_config
from ishiki.content import escape
from ishiki.errors import ConfigError

__all__ = ["MAX_BLOCKS", "MAX_FILE_BYTES", "MAX_TOTAL_CHARS", "MemoryBlock", "MemoryFolder", "render_blocks"]

MAX_BLOCKS = 64
"""Files beyond this are left out."""

MAX_FILE_BYTES = 65_536
"""A larger file is left out: it would be sent with every request."""

MAX_TOTAL_CHARS = 100_000
"""Of all bodies together; what comes after that is left out."""

_FENCE = "---"
_SUFFIXES = frozenset({".md", ".txt"})
_LINE_END = re.compile(r"\r\n?|\n")


class _FrontMatter(ConfigModel):
    """What stands between the two `---` lines."""

    label: str = Field(
        pattern=r"^[A-Za-z][A-Za-z0-9_-]*$",
        max_length=64,
        description="Name of the block: a letter, then letters, digits, _ and -.",
    )
    title: str | None = Field(default=None, description="A heading.")
    description: str | None = Field(default=None, description="What the block is for.")


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """One file."""

    label: str
    title: str
    """Empty where there is none."""
    description: str
    """Empty where there is none."""
    content: str


class MemoryFolder:
    """A profile's `memory/`, read anew each time."""

    def __init__(self, folder: Path, logger: logging.LoggerAdapter[logging.Logger]) -> None:
        """Read `folder`, which may be absent; tell `logger` what is wrong with its files."""
        self._folder = folder
        self._logger = logger
        self._told: frozenset[str] = frozenset()

    async def blocks(self) -> Sequence[MemoryBlock]:
        """Return the blocks in the order of their files' names. Never raises."""
        blocks, faults = await to_thread.run_sync(_read_folder, self._folder)
        for fault in faults:
            if fault not in self._told:
                self._logger.warning("a memory block is left out: %s", fault)
        self._told = frozenset(faults)
        return blocks


def render_blocks(blocks: Sequence[MemoryBlock]) -> str:
    """Return the blocks as `<core_memory>`. What stands in a file can neither end its block nor open another one."""
    parts: list[str] = []
    for block in blocks:
        fields = [
            f"<{name}>{escape(text)}</{name}>"
            for name, text in (("title", block.title), ("description", block.description))
            if text
        ]
        fields.append(f"<content>\n{escape(block.content)}\n</content>")
        parts.append("\n".join([f"<{block.label}>", *fields, f"</{block.label}>"]))
    return "\n".join(["<core_memory>", *parts, "</core_memory>"])


def _read_folder(folder: Path) -> tuple[Sequence[MemoryBlock], Sequence[str]]:
    blocks: dict[str, MemoryBlock] = {}
    files: dict[str, Path] = {}
    faults: list[str] = []
    chars = 0
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"{folder}: cannot be read: {error}"]
    for path in paths:
        try:
            block = _read_file(path)
        except (OSError, ConfigError) as error:
            faults.append(str(error))
            continue
        chars += len(block.content)
        if (first := files.get(block.label)) is not None:
            faults.append(f"{path}: label {block.label!r} is taken by {first.name}; give it another one")
        elif len(blocks) == MAX_BLOCKS or chars > MAX_TOTAL_CHARS:
            faults.append(f"{path}: more than {MAX_BLOCKS} blocks or {MAX_TOTAL_CHARS} characters; merge or shorten")
        else:
            blocks[block.label], files[block.label] = block, path
    return list(blocks.values()), faults


def _read_file(path: Path) -> MemoryBlock:
    """Read one file.

    Raises:
        ConfigError: it is no block; the text names file and line.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        raw = file.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError(f"is larger than {MAX_FILE_BYTES} bytes; split or shorten it", file=path)
    try:
        text = raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ConfigError("is not saved as UTF-8; save it so", file=path) from error
    lines = _LINE_END.split(text)
    if lines[0].rstrip() != _FENCE:
        raise ConfigError("must begin with a line '---', then 'label: name', then '---'", file=path, line=1, column=1)
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise ConfigError("its front matter has no closing line '---'", file=path, line=1, column=1)
    # The empty first line stands for the opening fence, so that errors name the lines of the file.
    document = parse_yaml("\n".join(["", *lines[1:end]]), file=path)
    front = validate_config(_FrontMatter, document.data, document=document)
    body = "\n".join(lines[end + 1 :]).strip()
    return MemoryBlock(front.label, front.title or "", front.description or "", body)
