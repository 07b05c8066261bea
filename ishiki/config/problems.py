"""The wording of validation errors: what is wrong with a value, and what its owner should write instead.

Owns texts and codes. Knows pydantic's error types, not its objects.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ishiki.config.scalars import NumberRangeError, resolve_plain
from ishiki.jsonvalue import JsonValue

__all__ = ["Finding", "Problem", "describe", "due_of", "nearest", "not_any_of", "shown_value", "unknown_key"]

_MAX_SHOWN = 60
"""Characters of a value that a message shows."""

_DUE = {
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "a mapping of 'key: value' lines",
    "mapping_type": "a mapping of 'key: value' lines",
    "model_type": "a mapping of 'key: value' lines",
    "model_attributes_type": "a mapping of 'key: value' lines",
    "dataclass_type": "a mapping of 'key: value' lines",
    "none_required": "null",
}
"""What is due, by pydantic's error type."""

_BOUNDS = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
    "multiple_of": ("a multiple of", "multiple_of"),
}
_LENGTHS = {
    "string_too_short": ("at least", "min_length", "characters"),
    "string_too_long": ("at most", "max_length", "characters"),
    "too_short": ("at least", "min_length", "items"),
    "too_long": ("at most", "max_length", "items"),
}
_YES_NO = {**dict.fromkeys(("yes", "y", "on", "1"), "true"), **dict.fromkeys(("no", "n", "off", "0"), "false")}


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding in words."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One of pydantic's errors, with the value as the file has it."""

    kind: str
    """Pydantic's error type."""
    message: str
    """Pydantic's own text, for types that have no better one here."""
    value: JsonValue
    shown: str
    """The value as messages may show it."""
    raw: str | None = None
    """The unquoted scalar as written."""
    is_hidden: bool = False
    """Whether no message may repeat the value: it came from a variable, or its key is a secret's."""
    context: Mapping[str, object] = field(default_factory=dict[str, object])
    """The bounds or choices of the error type."""
    description: str = ""
    """What the field is, from its model."""


def due_of(kind: str, context: Mapping[str, object]) -> str | None:
    """Return what is due where an error of this type is reported, or None for a type that says no such thing."""
    if kind in ("literal_error", "enum"):
        return f"one of {context.get('expected')}"
    return _DUE.get(kind)


def shown_value(value: JsonValue, raw: str | None = None) -> str:
    """Return `value` as a message shows it: text quoted, a number as written, collections by their kind."""
    if value is None:
        return "empty"
    if isinstance(value, str):
        return repr(value if len(value) <= _MAX_SHOWN else value[: _MAX_SHOWN - 1] + "…")
    if isinstance(value, bool | int | float):
        return raw or json.dumps(value)
    return "a mapping" if isinstance(value, Mapping) else "a list"


def nearest(given: str, known: Iterable[str]) -> str | None:
    """Return the known name that `given` most likely means, or None."""
    by_folded = {_folded(name): name for name in known}
    found = difflib.get_close_matches(_folded(given), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def unknown_key(key: str, known: Sequence[str]) -> Problem:
    """Word an unknown key, with the nearest known one."""
    close = nearest(key, known)
    hint = f"did you mean {close!r}?" if close else "remove it"
    return Problem("unknown_key", f"unknown key {key!r}; {hint} (known: {', '.join(known) or 'none'})")


def not_any_of(dues: Sequence[str], finding: Finding) -> Problem:
    """Word a value that fits no member of a union."""
    return Problem("wrong_type", f"must be {' or '.join(dict.fromkeys(dues))}, is {finding.shown}")


def describe(finding: Finding) -> Problem:
    """Word one finding."""
    kind, context, about = finding.kind, finding.context, _about(finding)
    if kind == "missing":
        return Problem("missing_key", f"is required{about}; add it")
    if finding.value is None and kind in _DUE and kind != "none_required":
        return Problem("empty_value", f"has no value; write {_DUE[kind]} or remove the line{about}")
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        return Problem("out_of_range", f"must be {words} {context.get(key)}, is {finding.shown}{about}")
    if kind in _LENGTHS:
        words, key, unit = _LENGTHS[kind]
        return Problem("out_of_range", f"must have {words} {context.get(key)} {unit}{about}")
    if kind in ("literal_error", "enum"):
        return _bad_choice(finding)
    if kind == "union_tag_not_found":
        return Problem("missing_key", f"needs the key {context.get('discriminator')}, which says what kind it is")
    if kind == "union_tag_invalid":
        return Problem("bad_choice", f"{context.get('discriminator')} must be one of {context.get('expected_tags')}")
    if kind in ("value_error", "assertion_error"):
        lead = "" if isinstance(finding.value, Mapping) else f"{finding.shown} is refused: "
        return Problem("config_invalid", f"{lead}{context.get('error') or finding.message}{about}")
    if kind in _DUE:
        code = "not_a_boolean" if kind.startswith("bool_") else "wrong_type"
        return Problem(code, f"must be {_DUE[kind]}, is {finding.shown}; {_cure(finding)}{about}")
    return Problem("config_invalid", f"{finding.message}, is {finding.shown}{about}")


def _about(finding: Finding) -> str:
    return f" ({finding.description.rstrip('.')})" if finding.description else ""


def _bad_choice(finding: Finding) -> Problem:
    expected = str(finding.context.get("expected"))
    choices: list[str] = re.findall(r"'([^']*)'", expected)
    close = nearest(finding.value, choices) if isinstance(finding.value, str) else None
    hint = f"; did you mean {close!r}?" if close else ""
    return Problem("bad_choice", f"must be one of {expected}, is {finding.shown}{hint}")


def _cure(finding: Finding) -> str:
    """Return what to write instead of a value of the wrong kind."""
    value, due = finding.value, _DUE[finding.kind]
    if finding.is_hidden:
        return f"write {due}"
    if due == "true or false":
        meant = _YES_NO.get(str(value).lower()) or (
            str(value).lower() if str(value).lower() in ("true", "false") else None
        )
        return f"write {meant}" if meant else "write true or false"
    if due == "text" and isinstance(value, bool | int | float):
        return f"write it in quotes: {json.dumps(finding.raw or json.dumps(value), ensure_ascii=False)}"
    if due in ("a whole number", "a number") and isinstance(value, str):
        return _plain_number(value)
    if due == "a list" and isinstance(value, str | bool | int | float):
        return f"write a list: {json.dumps([value], ensure_ascii=False)}"
    if due.startswith("a mapping"):
        return "put its keys below it, indented"
    return f"write {due}"


def _plain_number(text: str) -> str:
    """Return how to write a number that was written in a form that is text here."""
    stripped = text.strip().replace("_", "").replace(",", "")
    if re.fullmatch(r"0o?[0-7]+", stripped):
        octal, decimal = int(stripped.removeprefix("0o").removeprefix("0") or "0", 8), stripped.lstrip("0o") or "0"
        return f"write a decimal number: {octal if 'o' in stripped else f'{decimal}, or {octal} if octal was meant'}"
    if re.fullmatch(r"0x[0-9a-fA-F]+", stripped):
        return f"write a decimal number: {int(stripped, 16)}"
    try:
        number = resolve_plain(stripped)
    except NumberRangeError:
        return "write a smaller number"
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    return f"write {stripped}, without quotes" if is_number else "write a decimal number, without quotes"


def _folded(name: str) -> str:
    return re.sub(r"[-_. ]", "", name).lower()
