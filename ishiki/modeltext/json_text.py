"""JSON as models write it: read strictly where possible, repaired where not, and never for longer than it is worth.

Repair is the library json-repair's; what it costs grows with the square of hostile input, so it reads from a text that
counts. Every function here raises `ValueError` and nothing else.
"""

from __future__ import annotations

import ast
import json
import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import SupportsIndex, cast

import json_repair

from ishiki.jsonvalue import JsonObject, JsonValue, normalise

__all__ = [
    "JsonReader",
    "JsonReading",
    "arguments_json",
    "compact_json",
    "json_values",
    "python_literal",
    "strict_json",
]

logger = logging.getLogger(__name__)

_MAX_DEPTH = 64
"""Lists and objects inside each other. No tool needs more, and what runs over it is no longer safe to write."""

_MAX_REPAIR_CHARS = 32_000
"""Longer text is not repaired; our choice, several times the longest message."""

_MAX_REPAIR_READS = 400_000
"""How often the repairs of one answer may look at their text: 0.4 s of one core, many times what honest text needs."""

_FENCE = re.compile(r"```[ \t]*json\b[ \t]*\n?", re.IGNORECASE)
_WHOLE_FENCE = re.compile(r"```[A-Za-z_]{0,20}+[ \t]*+\n?(?P<body>.*?)\n?[ \t]*```", re.DOTALL)
_NO_JSON_VALUE = re.compile(r"\b(?:NaN|Infinity)\b|[0-9]{4301}")
"""What must not become a value of another kind: numbers that JSON, or its readers, do not have."""
_TRAILING = re.compile(r"(?:[\s})\];,`]|</?[A-Za-z_:|｜▁-]{1,40}+>|<[|｜][^<>\n]{1,40}+[|｜]>)*+")
"""What models leave behind a value: brackets too many, a fence, the end of a frame."""
_OPENERS = "{["
_CLOSERS = "}]"


class _GaveUp(Exception):
    """A repair has looked at its text too often."""


class _CountedText(str):
    """Text that can be read a limited number of times."""

    __slots__ = ("reads_left",)

    reads_left: int

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        self.reads_left -= 1
        if self.reads_left < 0:
            raise _GaveUp
        return str.__getitem__(self, key)


@dataclass(frozen=True, slots=True)
class JsonReading:
    """A value, and what was done to read it."""

    value: JsonValue
    steps: Sequence[str] = field(default=())
    """In order; empty where the text was plain JSON."""
    is_balanced: bool = True
    """False where the text ended before its brackets closed."""


def compact_json(value: JsonValue) -> str:
    """Return `value` as JSON text on one line, with other scripts as they are."""
    return json.dumps(value, ensure_ascii=False, default=dict)


def strict_json(text: str) -> JsonValue:
    """Return the value of `text`. Raw control characters inside strings are taken; models write them.

    Raises:
        ValueError: it is no JSON, has numbers that JSON has not, or is nested deeper than 64.
    """
    try:
        value = cast("JsonValue", json.loads(text, strict=False, parse_constant=_no_constant))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check(value)
    return value


def python_literal(text: str) -> JsonValue:
    """Return the value of a Python literal: single quotes, `True`, `None`, tuples.

    Raises:
        ValueError: it is none, it is too long or too deep, or it holds what JSON has not.
    """
    if len(text) > _MAX_REPAIR_CHARS or _depth_of(text) > _MAX_DEPTH:
        raise ValueError("too long or too deep for a literal")
    try:
        value = normalise(ast.literal_eval(text))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError("no Python literal") from error
    _check(value)
    return value


def json_values(text: str, position: int = 0) -> tuple[list[JsonValue], int]:
    """Return the JSON values that stand at `position`, parted by white space, commas or semicolons, and their end."""
    decoder = json.JSONDecoder(strict=False, parse_constant=_no_constant)
    found: list[JsonValue] = []
    end = position
    while True:
        start = end
        while start < len(text) and (text[start].isspace() or (found and text[start] in ",;")):
            start += 1
        if start >= len(text) or text[start] not in _OPENERS:
            return found, end
        try:
            value, end = cast("tuple[JsonValue, int]", decoder.raw_decode(text, start))
            _check(value)
        except (ValueError, RecursionError):
            return found, start if not found else end
        found.append(value)


def arguments_json(text: str, *, is_cut: bool = False) -> JsonObject | None:
    """Return the object that a call's arguments are, where it is unmistakable in spite of how it is written.

    Taken are: a fence around it, Python's literals, commas and brackets too many, quotes of the wrong kind, and, at
    the end, brackets that are missing behind a value that has ended.

    Args:
        text: the arguments.
        is_cut: whether the model was stopped in the middle; then nothing is added at the end.
    """
    inner = text.strip()
    if (fence := _WHOLE_FENCE.match(inner)) is not None and not inner[fence.end() :].strip():
        inner = fence["body"].strip()
    if inner[:1] != "{" or len(inner) > _MAX_REPAIR_CHARS or _NO_JSON_VALUE.search(inner):
        return None
    found, end = json_values(inner)
    if found:
        (value, *more), rest = found, inner[end:]
        is_whole = all(other == value for other in more) and _TRAILING.fullmatch(rest) is not None
        return value if is_whole and isinstance(value, Mapping) else None
    try:
        literal = python_literal(inner)
        return literal if isinstance(literal, Mapping) else None
    except ValueError:
        pass
    if _last_closer(inner) is None and (is_cut or not _ends_behind_a_value(inner)):
        return None
    try:
        value = strict_json(_with_right_brackets(inner))
    except ValueError:
        pass
    else:
        return value if isinstance(value, Mapping) and value else None
    try:
        reading = JsonReader().read(inner)
    except ValueError:
        return None
    return reading.value if isinstance(reading.value, Mapping) and reading.value else None


def _with_right_brackets(text: str) -> str:
    """Return `text` without commas in front of closing brackets, and with those that are missing at its end."""
    kept: list[str] = []
    opened: list[str] = []
    is_inside = is_escaped = False
    comma: int | None = None
    for char in text:
        if is_inside:
            is_inside = is_escaped or char != '"'
            is_escaped = char == "\\" and not is_escaped
        else:
            is_inside = char == '"'
            if char in _CLOSERS and comma is not None:
                kept[comma] = ""
            if char in _CLOSERS and opened:
                opened.pop()
            elif char in _OPENERS:
                opened.append(_CLOSERS[_OPENERS.index(char)])
            if not char.isspace():
                comma = len(kept) if char == "," else None
        kept.append(char)
    return "".join([*kept, *reversed(opened)])


def _ends_behind_a_value(text: str) -> bool:
    return text[-1:] in '"]}' and not _is_inside_string(text, len(text))


class JsonReader:
    """Reads the JSON of one answer; all its repairs together have one limit."""

    def __init__(self) -> None:
        self._reads_left = _MAX_REPAIR_READS

    def read(self, text: str) -> JsonReading:
        """Return the value of `text`, repaired where that is needed. A repair is logged.

        Raises:
            ValueError: nothing could be made of it.
        """
        stripped = text.strip()
        try:
            return JsonReading(strict_json(stripped))
        except ValueError:
            is_balanced = _last_closer(stripped) is not None
            return JsonReading(self._repaired(stripped), ("repaired",), is_balanced)

    def read_answer(self, text: str) -> JsonReading:
        """Return the JSON value that an answer consists of, whatever stands around it.

        Source: reference, JSON repair order: trim; the inside of a json fence; cut before the first bracket; cut
        behind the last one where the brackets balance; strict; repair.

        Raises:
            ValueError: there is no bracket in it, or what is there cannot be repaired.
        """
        steps: list[str] = []
        inner = _inside_fence(text.strip(), steps)
        start = next((index for index, char in enumerate(inner) if char in _OPENERS), None)
        if start is None:
            raise ValueError("no JSON object in the answer")
        if start:
            steps.append("cut before the first bracket")
            inner = inner[start:]
        end = _last_closer(inner)
        if end is None:
            steps.append("unbalanced")
        elif end < len(inner):
            steps.append("cut behind the last bracket")
            inner = inner[:end]
        try:
            value = strict_json(inner)
        except ValueError:
            value = self._repaired(inner)
            steps.append("repaired")
        if steps:
            logger.debug("an answer was read as JSON after: %s", ", ".join(steps))
        return JsonReading(value, steps, end is not None)

    def _repaired(self, text: str) -> JsonValue:
        if not text or len(text) > _MAX_REPAIR_CHARS:
            raise ValueError(f"text of {len(text)} characters is not repaired")
        if _depth_of(text) > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        counted = _CountedText(text)
        counted.reads_left = self._reads_left
        try:
            value = cast("JsonValue", json_repair.repair_json(counted, return_objects=True, skip_json_loads=True))
        except _GaveUp:
            raise ValueError("too far from JSON to be repaired") from None
        finally:
            self._reads_left = max(0, counted.reads_left)
        value = _plain(value)
        _check(value)
        logger.warning("JSON that a model wrote (%d characters) was not valid and has been repaired", len(text))
        return value


def _inside_fence(text: str, steps: list[str]) -> str:
    opening = _FENCE.search(text)
    if opening is None and text[:3] == "```":
        opening = re.match(r"```[A-Za-z]*[ \t]*\n?", text)
    if opening is None:
        return text
    if text[:1] in _OPENERS and _last_closer(text[: opening.start()]) is not None:
        return text  # the answer itself comes first; the fence is something behind it
    if text[:1] in _OPENERS and _is_inside_string(text, opening.start()):
        return text  # a fence that the answer talks about
    steps.append("took the inside of the fence")
    end = text.rfind("```")
    inner = text[opening.end() :] if end < opening.end() else text[opening.end() : end]
    return inner.strip()


def _is_inside_string(text: str, position: int) -> bool:
    is_inside = is_escaped = False
    for char in text[:position]:
        if is_escaped:
            is_escaped = False
        elif char == "\\":
            is_escaped = is_inside
        elif char == '"':
            is_inside = not is_inside
    return is_inside


def _last_closer(text: str) -> int | None:
    """Return the position behind the last closing bracket where brackets outside strings balance, else None."""
    depth = 0
    end: int | None = None
    is_inside = is_escaped = False
    for index, char in enumerate(text):
        if is_escaped:
            is_escaped = False
        elif is_inside:
            is_escaped = char == "\\"
            is_inside = char != '"'
        elif char == '"':
            # Quotes behind the value belong to prose.
            is_inside = depth > 0
        elif char in _OPENERS:
            depth += 1
        elif char in _CLOSERS:
            depth -= 1
            end = index + 1
    return end if depth == 0 and not is_inside else None


def _depth_of(text: str) -> int:
    """Return how deep brackets go at most, strings included: text that needs repair has no certain strings."""
    depth = deepest = 0
    for char in text:
        if char in _OPENERS:
            depth += 1
            deepest = max(deepest, depth)
        elif char in _CLOSERS:
            depth = max(0, depth - 1)
    return deepest


def _plain(value: JsonValue) -> JsonValue:
    """Return `value` without subclasses of `str` that a repair may have cut out of its text."""
    match value:
        case str():
            return str(value)
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case Sequence():
            return [_plain(item) for item in value]
        case _:
            return value


def _no_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is not JSON")


def _check(value: JsonValue) -> None:
    """Raise `ValueError` where `value` is nested too deeply or holds a number without an end."""
    level: list[JsonValue] = [value]
    for _ in range(_MAX_DEPTH + 1):
        below: list[JsonValue] = []
        for item in level:
            match item:
                case float() if not math.isfinite(item):
                    raise ValueError("a number is too large")
                case Mapping():
                    below.extend(item.values())
                case Sequence() if not isinstance(item, str):
                    below.extend(item)
                case _:
                    pass
        if not below:
            return
        level = below
    raise ValueError("nested too deeply")
