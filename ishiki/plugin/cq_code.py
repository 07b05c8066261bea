"""CQ codes: a message as one string, `hello [CQ:at,qq=42] &#91;not a code&#93;`. Reading only; we never write them.

Source: OneBot v11, message formats, string form. Brackets that form no code are text.
"""

from __future__ import annotations

import re

from ishiki.jsonvalue import JsonValue

__all__ = ["parse_cq"]

_CODE = re.compile(r"\[CQ:([A-Za-z0-9_.-]+)((?:,[^,\[\]]*)*)\]")
_ESCAPE = re.compile(r"&(?:amp|#91|#93|#44);")
_PLAIN = {"&amp;": "&", "&#91;": "[", "&#93;": "]", "&#44;": ","}


def parse_cq(message: str) -> list[dict[str, JsonValue]]:
    """Return the segments of a message in string form, in order, as the array form would hold them.

    All values are text. Never raises, and no text is lost. Linear in the length of `message`.
    """
    segments: list[dict[str, JsonValue]] = []
    position = 0
    for code in _CODE.finditer(message):
        _add_text(segments, message[position : code.start()])
        segments.append({"type": code[1], "data": _parameters(code[2])})
        position = code.end()
    _add_text(segments, message[position:])
    return segments


def _add_text(segments: list[dict[str, JsonValue]], text: str) -> None:
    if text:
        segments.append({"type": "text", "data": {"text": _unescape(text)}})


def _parameters(written: str) -> dict[str, JsonValue]:
    parameters: dict[str, JsonValue] = {}
    for pair in written.split(",")[1:]:
        key, _, value = pair.partition("=")
        parameters[key.strip()] = _unescape(value)
    return parameters


def _unescape(text: str) -> str:
    """Read the four escapes in one pass: `&amp;#91;` is the text `&#91;`, not a bracket."""
    return _ESCAPE.sub(lambda match: _PLAIN[match.group()], text) if "&" in text else text
