"""A lenient reader of XML-like text: models write tags by habit, not by grammar.

Everything is one pass over the text without backtracking. Nothing raises; what is no tag is text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = [
    "CDATA_CLOSE",
    "CDATA_OPEN",
    "Element",
    "Tag",
    "TagReader",
    "Token",
    "as_xml_text",
    "elements",
    "fenced",
    "from_xml_text",
    "is_tag_name",
]

CDATA_OPEN = "<![CDATA["
CDATA_CLOSE = "]]>"

MAX_TAG_CHARS = 300
"""A longer tag is text: it bounds what a stream holds back."""

_NAME = r"[A-Za-z0-9_.:\-]"
# Possessive repeats (`++`) never give anything back, so no input makes these slow.
_TAG = re.compile(rf"<(/?)({_NAME}{{1,80}}+)([^<>]{{0,200}}+)>")
_TAG_START = re.compile(rf"<(/?)({_NAME}{{0,80}}+)([^<>]{{0,200}}+)")
_TAG_NAME = re.compile(rf"{_NAME}{{1,64}}")
_NAME_ATTRIBUTE = re.compile(r"""\bname\s{0,9}+=\s{0,9}+(?:"([^"]*+)"|'([^']*+)'|([^\s"'/>]++))""", re.IGNORECASE)
_ENTITY = re.compile(r"&(lt|gt|amp|quot|apos|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}

TagKind = Literal["open", "close", "empty", "cdata"]


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag as it was written."""

    raw: str
    name: str
    """Folded where the reader ignores case."""
    kind: TagKind
    attributes: str = ""
    """What stands behind the name."""

    @property
    def label(self) -> str:
        """The name that the tag gives to what it holds: `<tag=label>` or `<tag name="label">`; "" for none."""
        text = self.attributes.strip()
        if text.startswith("="):
            return text[1:].strip().strip("\"'").strip()
        found = _NAME_ATTRIBUTE.search(text)
        return "" if found is None else next(group for group in found.groups() if group is not None).strip()


Token: TypeAlias = "str | Tag"


def is_tag_name(text: str) -> bool:
    """Return whether `text` can be the name of a tag here."""
    return _TAG_NAME.fullmatch(text) is not None


class TagReader:
    """Splits text that comes in pieces into text and the tags that are asked for.

    It holds back at most one beginning of a tag. What it returns, texts joined, does not depend on how the text is cut.
    """

    def __init__(self, names: frozenset[str], *, ignores_case: bool = False, has_cdata: bool = True) -> None:
        """Look for tags of `names` (lower case where case is ignored) and, with `has_cdata`, for CDATA openers."""
        self._names = names
        self._ignores_case = ignores_case
        self._has_cdata = has_cdata
        self._held = ""

    def feed(self, text: str) -> Iterator[Token]:
        """Take the next piece and yield what is certain."""
        data = self._held + text
        self._held = ""
        position = 0
        while position < len(data):
            # A first look for the bracket keeps long prose cheap; a lone one is passed over with the text around it.
            start = data.find("<", position)
            while start >= 0:
                found = self._at(data, start)
                if found is not None:
                    break
                start = data.find("<", start + 1)
            else:
                yield data[position:]
                return
            if start > position:
                yield data[position:start]
            if not isinstance(found, Tag):
                self._held = data[start:]
                return
            yield found
            position = start + len(found.raw)

    def end(self) -> Iterator[Token]:
        """Yield what was held back: at the end of the text it is text."""
        held, self._held = self._held, ""
        if held:
            yield held

    def _at(self, data: str, start: int) -> Tag | Literal["unsure"] | None:
        """Return the tag that begins at `start`, `unsure` where more text decides, None where there is none."""
        if self._has_cdata and data.startswith("!", start + 1):
            beginning = data[start : start + len(CDATA_OPEN)]
            if beginning == CDATA_OPEN:
                return Tag(CDATA_OPEN, CDATA_OPEN, "cdata")
            is_cut = start + len(beginning) == len(data)
            return "unsure" if is_cut and CDATA_OPEN.startswith(beginning) else None
        match = _TAG.match(data, start)
        if match is not None:
            closes, name, rest = match.groups()
            name = self._fold(name)
            if name not in self._names:
                return None
            if closes:
                return Tag(match.group(), name, "close") if _ends(rest) else None
            is_empty = rest.endswith("/")
            return Tag(match.group(), name, "empty" if is_empty else "open", rest[:-1] if is_empty else rest)
        if len(data) - start > MAX_TAG_CHARS:
            return None
        begun = _TAG_START.fullmatch(data, start)
        if begun is None:
            return None
        name = self._fold(begun.group(2))
        if begun.group(3):
            return "unsure" if name in self._names else None
        return "unsure" if any(known.startswith(name) for known in self._names) else None

    def _fold(self, name: str) -> str:
        return name.lower() if self._ignores_case else name


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a text: a tag with what it holds."""

    tag: Tag
    inner: str
    """Everything between its tags, raw; "" for an empty one."""
    is_closed: bool


def elements(text: str, is_wanted: Callable[[str], bool] | None = None) -> tuple[list[Element], str]:
    """Return the outermost elements of `text`, in order, and what stands outside them.

    A tag closes the nearest open one of its name. One that is never closed reaches to the next element that is
    wanted, or to the end. CDATA sections hold no tags. Linear in the length of `text`.

    Args:
        text: the inside of an element.
        is_wanted: says of a name whether its tags count; all count without it.
    """
    tags = _tags_of(text, is_wanted)
    partner = _partners([tag for _, tag in tags])
    found: list[Element] = []
    outside: list[str] = []
    position = index = 0
    while index < len(tags):
        start, tag = tags[index]
        outside.append(text[position:start])
        position = start + len(tag.raw)
        if tag.kind == "close":
            index += 1  # closes nothing
        elif tag.kind == "empty":
            found.append(Element(tag, "", is_closed=True))
            index += 1
        elif (closing := partner.get(index)) is not None:
            end, closer = tags[closing]
            found.append(Element(tag, text[position:end], is_closed=True))
            position = end + len(closer.raw)
            index = closing + 1
        else:
            end = tags[index + 1][0] if index + 1 < len(tags) else len(text)
            found.append(Element(tag, text[position:end], is_closed=False))
            position = end
            index += 1
    outside.append(text[position:])
    return found, "".join(outside)


def _tags_of(text: str, is_wanted: Callable[[str], bool] | None) -> list[tuple[int, Tag]]:
    found: list[tuple[int, Tag]] = []
    position = text.find("<")
    while position >= 0:
        if text.startswith(CDATA_OPEN, position):
            end = text.find(CDATA_CLOSE, position)
            if end < 0:
                break  # the rest is one unfinished section
            position = text.find("<", end)
            continue
        match = _TAG.match(text, position)
        closes, name, rest = ("", "", "") if match is None else match.groups()
        if match is not None and (is_wanted is None or is_wanted(name)) and not (closes and not _ends(rest)):
            kind: TagKind = "close" if closes else "empty" if rest.endswith("/") else "open"
            found.append((position, Tag(match.group(), name, kind, rest)))
            position = text.find("<", match.end())
        else:
            position = text.find("<", position + 1)
    return found


def _ends(rest: str) -> bool:
    """Return whether a closing tag may go on like this behind its name: `</tag >`, and `</tag=name>`."""
    return not rest or rest.isspace() or rest.startswith("=")


def _partners(tags: Sequence[Tag]) -> dict[int, int]:
    """Return for each opening tag that is closed the position of what closes it."""
    partner: dict[int, int] = {}
    waiting: dict[str, list[int]] = {}
    for index, tag in enumerate(tags):
        if tag.kind == "open":
            waiting.setdefault(tag.name, []).append(index)
        elif tag.kind == "close" and waiting.get(tag.name):
            partner[waiting[tag.name].pop()] = index
    return partner


def from_xml_text(raw: str) -> str:
    """Return what the inside of an element says: trimmed, entities decoded; CDATA sections exactly as they are."""
    start = raw.find(CDATA_OPEN)
    if start < 0:
        return _decoded(raw.strip())
    pieces = [_decoded(raw[:start].lstrip())]
    while start >= 0:
        end = raw.find(CDATA_CLOSE, start)
        if end < 0:
            pieces.append(raw[start + len(CDATA_OPEN) :])
            return "".join(pieces)
        pieces.append(raw[start + len(CDATA_OPEN) : end])
        position = end + len(CDATA_CLOSE)
        start = raw.find(CDATA_OPEN, position)
        between = raw[position:] if start < 0 else raw[position:start]
        pieces.append(_decoded(between.rstrip() if start < 0 else between))
    return "".join(pieces)


def as_xml_text(text: str, is_structural: Callable[[str], bool]) -> str:
    """Return `text` so that `from_xml_text` gives it back: as it is where it can be, else as CDATA.

    Args:
        text: what to write.
        is_structural: says of a tag's name whether the protocol would read such a tag as its own.
    """
    is_plain = (
        text == text.strip()
        and _ENTITY.search(text) is None
        and CDATA_OPEN not in text
        and CDATA_CLOSE not in text
        and not any(is_structural(match.group(2)) for match in _TAG_START.finditer(text))
    )
    if is_plain:
        return text
    inner = text.replace(CDATA_CLOSE, "]]]]><![CDATA[>")
    return f"{CDATA_OPEN}{inner}{CDATA_CLOSE}"


def fenced(text: str, names: Sequence[str]) -> str:
    """Return `text` in which no tag of `names` is left: what a tool returned is data and cannot end its own frame."""
    pattern = "|".join(re.escape(name) for name in names)
    return re.sub(rf"<(?=/?(?:{pattern})\b)", "&lt;", text, flags=re.IGNORECASE)


def _decoded(text: str) -> str:
    return _ENTITY.sub(_entity, text) if "&" in text else text


def _entity(match: re.Match[str]) -> str:
    name = match.group(1)
    if not name.startswith("#"):
        return _ENTITIES[name]
    number = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
    is_character = 0 < number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF
    return chr(number) if is_character else match.group()
