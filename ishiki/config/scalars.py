"""What an unquoted scalar means: YAML 1.2 without its octal and hexadecimal forms.

`true`/`false`, `null`, decimal integers and decimal fractions have a type; everything else is text: `yes`, `0123`,
`0o17`, `0x1F`, `1_000`, `12:30:45`, `2024-01-01`, `.inf`. So an id keeps its zeros and a time stays a time.
"""

from __future__ import annotations

import math
import re

from ishiki.jsonvalue import JsonValue

__all__ = ["NumberRangeError", "resolve_plain"]

_WORDS: dict[str, JsonValue] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FRACTION = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")

_MAX_INTEGER_DIGITS = 19
"""Up to 64 bits: what every JSON reader of ours keeps exactly."""


class NumberRangeError(ValueError):
    """A number that JSON cannot carry exactly; the loader turns it into an error with its place."""


def resolve_plain(text: str) -> JsonValue:
    """Return the value that the unquoted scalar `text` stands for.

    Raises:
        NumberRangeError: a whole number beyond 64 bits, or a fraction beyond a double.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        if len(text.lstrip("+-")) > _MAX_INTEGER_DIGITS or not -(2**63) <= int(text) < 2**63:
            raise NumberRangeError(text)
        return int(text)
    if _FRACTION.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            raise NumberRangeError(text)
        return number
    return text
