"""Finds the frames in which a model writes its calls, in text that arrives in pieces.

A frame is an element whose tag begins a call. `FrameReader` cuts frames out; what is inside is read by the protocol
only when a frame is whole, so the result cannot depend on how the text was cut. Linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ishiki.jsonvalue import JsonValue
from ishiki.modeltext.xml_scanner import CDATA_CLOSE, Tag, TagReader, Token

__all__ = ["Call", "Frame", "FrameReader", "Piece", "Quoting"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call that was read from text."""

    tool_name: str
    arguments: JsonValue
    """An object; text where the model wrote something that is none, which the tool's schema will answer."""


@dataclass(frozen=True, slots=True)
class Frame:
    """An element that should hold calls."""

    tag: Tag
    body: str
    is_closed: bool
    """False where the text, or the next frame, came before the closing tag."""


Piece: TypeAlias = "str | Call"
Quoting = Literal["none", "json", "cdata"]
"""What hides tags inside a frame: nothing, JSON strings, or CDATA sections."""

_QUOTE = re.compile(r'["\\]')


class FrameReader:
    """Splits an answer into text and calls.

    A frame ends at the closing tag that balances its opening one; with JSON quoting, at the first closing tag outside
    strings. A frame that is never closed, or that `read` makes nothing of, is text, and the search goes on behind its
    opening tag (unclosed) or behind the frame (closed).
    """

    def __init__(
        self,
        names: frozenset[str],
        read: Callable[[Frame], Sequence[Call] | None],
        *,
        quoting: Quoting = "none",
        ignores_case: bool = False,
        nests: bool = False,
    ) -> None:
        """Read frames whose tags have one of `names`; `read` returns the calls of a frame, or None.

        With `nests` a frame may stand inside one of another name.
        """
        self._tags = TagReader(names, ignores_case=ignores_case, has_cdata=quoting == "cdata")
        self._read = read
        self._quoting: Quoting = quoting
        self._nests = nests
        self._frame: _OpenFrame | None = None
        self._is_behind_call = False

    def feed(self, text: str) -> Iterator[Piece]:
        """Take the next piece of text; yield text and calls that are certain."""
        for token in self._tags.feed(text):
            yield from self._take(token)

    def end(self, *, is_cut: bool = False) -> Iterator[Piece]:
        """Yield what is left at the end of the text.

        Args:
            is_cut: whether the model was stopped in the middle; then nothing unfinished is a call.
        """
        for token in self._tags.end():
            yield from self._take(token)
        if self._frame is not None:
            frame, self._frame = self._frame, None
            if is_cut and frame.root.kind != "empty":
                # All that is there may stand inside a value.
                yield from self._verbatim(frame.tokens)
            else:
                yield from self._settle(frame)

    def _take(self, token: Token) -> Iterator[Piece]:
        frame = self._frame
        if frame is None:
            yield from self._outside(token)
            return
        match frame.take(token):
            case "more":
                return
            case "whole":
                self._frame = None
                yield from self._whole(frame)
            case "restart":
                # Another frame begins before this one has ended.
                self._frame = None
                yield from self._settle(frame)
                yield from self._take(token)

    def _outside(self, token: Token) -> Iterator[Piece]:
        if isinstance(token, Tag) and _opens(token):
            self._frame = _OpenFrame(token, self._quoting)
            return
        yield from self._text(token)

    def _text(self, token: Token) -> Iterator[Piece]:
        """Yield a token as text. A closing tag right behind a call has lost its frame and is dropped."""
        if isinstance(token, Tag) and token.kind == "close" and self._is_behind_call:
            return
        raw = _raw(token)
        if raw.strip():
            self._is_behind_call = False
        yield raw

    def _calls(self, calls: Sequence[Call]) -> Iterator[Piece]:
        self._is_behind_call = True
        yield from calls

    def _verbatim(self, tokens: Sequence[Token]) -> Iterator[Piece]:
        self._is_behind_call = False
        return map(_raw, tokens)

    def _whole(self, frame: _OpenFrame) -> Iterator[Piece]:
        """Read a frame whose last token closes it."""
        calls = self._read(Frame(frame.root, _joined(frame.tokens[1:-1]), is_closed=True))
        if calls is not None:
            yield from self._calls(calls)
        elif frame.candidate is not None or frame.root.kind == "empty":
            yield from self._settle(frame)
        else:
            yield from self._verbatim(frame.tokens)

    def _settle(self, frame: _OpenFrame) -> Iterator[Piece]:
        """Make the best of a frame that did not end as it should."""
        if frame.candidate is None:
            yield from self._loose(frame.tokens)
            return
        # The string or section around that closing tag never ended, so it was the end of the frame after all.
        head, tail = frame.tokens[: frame.candidate + 1], frame.tokens[frame.candidate + 1 :]
        calls = self._read(Frame(frame.root, _joined(head[1:-1]), is_closed=True))
        yield from self._verbatim(head) if calls is None else self._calls(calls)
        yield from self._loose(tail)

    def _loose(self, tokens: Sequence[Token]) -> Iterator[Piece]:
        """Read tokens in which some frame is not closed; a closing tag is that of the nearest open one of its name."""
        partner = _partners(tokens)
        following = self._following(tokens)
        index = 0
        while index < len(tokens):
            token = tokens[index]
            if isinstance(token, str) or index not in following:
                yield from self._text(token)
                index += 1
                continue
            closing = partner.get(index)
            if closing is not None:
                stop, frame = closing + 1, Frame(token, _joined(tokens[index + 1 : closing]), is_closed=True)
            elif token.kind == "empty":
                stop, frame = index + 1, Frame(token, "", is_closed=True)
            else:
                stop = following[index]
                frame = Frame(token, _joined(tokens[index + 1 : stop]), is_closed=False)
            calls = self._read(frame)
            if calls is not None:
                yield from self._calls(calls)
                index = stop
            else:
                stop = stop if frame.is_closed else index + 1
                yield from self._verbatim(tokens[index:stop])
                index = stop

    def _following(self, tokens: Sequence[Token]) -> dict[int, int]:
        """Return for each opening tag where it ends at the latest if it is not closed."""
        following: dict[int, int] = {}
        ends: dict[str, int] = {}
        for index in range(len(tokens) - 1, -1, -1):
            token = tokens[index]
            if isinstance(token, Tag) and _opens(token):
                key = token.name if self._nests else ""
                following[index] = ends.get(key, len(tokens))
                ends[key] = index
        return following


class _OpenFrame:
    """A frame that is being read.

    Attributes:
        tokens: everything since its opening tag, which is the first.
        candidate: position of the first closing tag that stands inside a string or section, where one does.
    """

    def __init__(self, root: Tag, quoting: Quoting) -> None:
        self.root = root
        self.tokens: list[Token] = [root]
        self.candidate: int | None = None
        self._quoting: Quoting = quoting
        self._depth = 1
        self._is_quoted = False
        self._is_escaped = False
        self._tail = ""
        self._hidden: list[int] = []
        """Positions of tags in the section that is being read."""

    def take(self, token: Token) -> Literal["more", "whole", "restart"]:
        """Add a token; say whether it ends the frame, or begins another one (then it was not added)."""
        is_tag = isinstance(token, Tag)
        if self.root.kind == "empty" and is_tag and not self._closes(token):
            # Only its own closing tag would make `<name/>` the beginning of something longer.
            return "restart"
        if is_tag and _opens(token) and self._quoting == "json" and (not self._is_quoted or self.candidate is not None):
            return "restart"
        self.tokens.append(token)
        if self._is_quoted or isinstance(token, str):
            if isinstance(token, Tag) and self._closes(token) and self.candidate is None:
                self.candidate = len(self.tokens) - 1
            if is_tag:
                self._hidden.append(len(self.tokens) - 1)
            self._pass(_raw(token))
            return "more"
        if token.kind == "cdata":
            self._is_quoted = True
        elif token.name == self.root.name and self._quoting != "json" and token.kind == "open":
            self._depth += 1
        elif self._closes(token):
            self._depth -= 1
        return "more" if self._depth else "whole"

    def _closes(self, tag: Tag) -> bool:
        return tag.kind == "close" and tag.name == self.root.name

    def _pass(self, text: str) -> None:
        """Follow strings or sections through `text`."""
        if self._quoting == "json":
            self._pass_json(text)
        elif self._quoting == "cdata" and self._is_quoted:
            if CDATA_CLOSE in self._tail + text:
                self._is_quoted = False
                self.candidate = None
                self._tail = ""
                # Now that the section has ended, its tags are text for good.
                for position in self._hidden:
                    self.tokens[position] = _raw(self.tokens[position])
                self._hidden.clear()
            else:
                self._tail = (self._tail + text)[-2:]

    def _pass_json(self, text: str) -> None:
        position = 0
        if self._is_escaped and text:
            position, self._is_escaped = 1, False
        while (found := _QUOTE.search(text, position)) is not None:
            position = found.end()
            if found.group() == '"':
                self._is_quoted = not self._is_quoted
            elif self._is_quoted:
                self._is_escaped = position == len(text)
                position += 1


def _opens(tag: Tag) -> bool:
    return tag.kind in ("open", "empty")


def _raw(token: Token) -> str:
    return token if isinstance(token, str) else token.raw


def _joined(tokens: Sequence[Token]) -> str:
    return "".join(map(_raw, tokens))


def _partners(tokens: Sequence[Token]) -> dict[int, int]:
    """Return for each opening tag that is closed the position of what closes it."""
    partner: dict[int, int] = {}
    waiting: dict[str, list[int]] = {}
    for index, token in enumerate(tokens):
        if isinstance(token, str):
            continue
        if token.kind == "open":
            waiting.setdefault(token.name, []).append(index)
        elif token.kind == "close" and waiting.get(token.name):
            partner[waiting[token.name].pop()] = index
    return partner
