"""Reads Markdown as the tests of our documents need it: headings, fenced blocks and links."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

_FENCE = re.compile(r"^(```+)(.*)$")
_HEADING = re.compile(r"^(#{1,6}) (.+?)\s*$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`[^`]*`")


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading."""

    level: int
    text: str

    @property
    def anchor(self) -> str:
        """The fragment under which GitHub reaches it."""
        kept = re.sub(r"[^\w\- ]", "", self.text.lower())
        return kept.replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    language: str
    text: str


@dataclass(slots=True)
class Page:
    """One Markdown file. What stands in a fenced block is neither a heading nor a link."""

    path: Path
    headings: list[Heading] = field(default_factory=list[Heading])
    blocks: list[Block] = field(default_factory=list[Block])
    links: list[str] = field(default_factory=list[str])
    prose: str = ""
    """Everything outside of fenced blocks."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file."""
        page = cls(path)
        fence, language = "", ""
        inside: list[str] = []
        outside: list[str] = []
        for line in path.read_text(encoding="utf-8").splitlines():
            mark = _FENCE.match(line)
            if fence:
                if mark and mark[1] == fence and not mark[2]:
                    page.blocks.append(Block(language, "\n".join(inside)))
                    fence, inside = "", []
                else:
                    inside.append(line)
            elif mark:
                fence, language = mark[1], mark[2].strip()
            else:
                outside.append(line)
                if heading := _HEADING.match(line):
                    page.headings.append(Heading(len(heading[1]), heading[2]))
                page.links.extend(_LINK.findall(_CODE.sub("", line)))
        assert not fence, f"{path}: a fenced block is not closed"
        page.prose = "\n".join(outside)
        return page

    def broken_links(self) -> list[str]:
        """Return the links into the project whose file or heading does not exist."""
        broken: list[str] = []
        for link in self.links:
            if re.match(r"[a-z]+:", link):
                continue
            name, _, fragment = link.partition("#")
            target = (self.path.parent / name).resolve() if name else self.path
            anchors = (
                {heading.anchor for heading in Page.read(target).headings} if fragment and target.is_file() else ()
            )
            if not target.exists() or (fragment and fragment not in anchors):
                broken.append(link)
        return broken
