# ruff: noqa: RUF001 - the letters that people type, which look like others, are what this is about
"""Settings as people write them who do not know the form: what they most likely mean, and the line that says it.

Pure. Yields candidates, best first; whether one is accepted is for who asks. Source for the form of a line:
python-dotenv, which NoneBot reads `.env` with.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator

from ishiki.config.scalars import NumberRangeError, resolve_plain
from ishiki.jsonvalue import JsonValue

__all__ = ["env_line", "likely_list", "likely_numbers", "likely_switch", "likely_text"]

_QUOTES = "\"'`“”„‟‘’‚‛«»「」『』＂＇"
_BRACKETS = "[](){}<>【】［］（）｛｝《》〔〕"
_SEPARATORS = re.compile(r"[,;|\s，、；｜]+")
_COMMENT = re.compile(r"\s+(?:#|//|;).*$")
_SWITCHES = {
    **dict.fromkeys(("yes", "y", "on", "1", "t", "true", "enable", "enabled", "是", "开", "真"), "true"),
    **dict.fromkeys(("no", "n", "off", "0", "f", "false", "disable", "disabled", "否", "关", "假"), "false"),
}


def env_line(name: str, value: str) -> str:
    """Return the line of `.env` that sets `name` to `value`."""
    is_plain = value == value.strip() and value[:1] not in ("'", '"') and not re.search(r"\s#|[\r\n]", value)
    if is_plain:
        return f"{name}={value}"
    return f"{name}='{value.replace(chr(92), chr(92) * 2).replace(chr(39), chr(92) + chr(39))}'"


def likely_text(text: str) -> Iterator[str]:
    """Yield `text` without what got around it: blanks, quotes, a comment, full-width forms."""
    bare = text.strip().strip(_QUOTES).strip()
    yield bare
    yield _COMMENT.sub("", bare).strip().strip(_QUOTES)
    yield unicodedata.normalize("NFKC", bare).strip().strip(_QUOTES)


def likely_list(text: str) -> Iterator[str]:
    """Yield JSON lists of text that `text` may stand for."""
    try:
        decoded: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        decoded = text
    yield _listed(_leaves(decoded))
    yield _listed(_words(text))


def likely_numbers(text: str) -> Iterator[str]:
    """Yield whole numbers that `text` may stand for."""
    for one in likely_text(text):
        plain = re.sub(r"(?<=\d)[_,' ](?=\d)", "", one)
        yield plain
        try:
            number = resolve_plain(plain)
        except NumberRangeError:
            continue
        if isinstance(number, float) and number.is_integer():
            yield str(int(number))
        if found := re.search(r"\d+", plain):
            yield str(int(found[0]))


def likely_switch(text: str) -> Iterator[str]:
    """Yield `true` or `false` where `text` says so in other words."""
    for one in likely_text(text):
        if (meant := _SWITCHES.get(one.lower())) is not None:
            yield meant


def _leaves(value: JsonValue) -> Iterator[str]:
    """Yield the texts and numbers in JSON data, in order; the keys of mappings, as in a set that is written so."""
    match value:
        case str():
            yield from _words(value)
        case None | bool():
            return
        case int():
            yield str(value)
        case float():
            yield f"{value:.0f}" if value.is_integer() else str(value)
        case _:
            for one in value:
                if isinstance(one, str):
                    yield one.strip()
                else:
                    yield from _leaves(one)


def _words(text: str) -> Iterator[str]:
    bare = _COMMENT.sub("", text)
    for one in _SEPARATORS.split("".join(" " if one in _BRACKETS else one for one in bare)):
        word = unicodedata.normalize("NFKC", one).strip(_QUOTES + "\\").strip()
        if word:
            yield word


def _listed(items: Iterator[str]) -> str:
    return json.dumps(list(dict.fromkeys(one for one in items if one)), ensure_ascii=False, separators=(",", ":"))
