"""What NoneBot and its FastAPI driver read from the environment beside our settings, judged as they judge it.

Owns nothing of what these mean: only whether NoneBot would start with them. It reads them itself; where it would fail,
`judge_host_settings` says so first, with the line to write. Source: NoneBot 2.4, `nonebot.config.Config` and
`nonebot.drivers.fastapi.Config`; pydantic's lax forms are theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from pydantic import TypeAdapter, ValidationError

from ishiki.config.setting_text import env_line, likely_list, likely_numbers, likely_switch, likely_text
from ishiki.errors import ConfigError

__all__ = ["blank_overrides", "judge_host_settings"]


@dataclass(frozen=True, slots=True)
class _Setting:
    adapter: TypeAdapter[object]
    due: str
    default: str
    """As the environment would say it."""
    is_json: bool = False
    """Whether NoneBot takes nothing but JSON."""
    is_custom: bool = False
    """Whether NoneBot takes JSON where it is JSON, and text otherwise."""


def _words(default: str, *, is_custom: bool = False) -> _Setting:
    due = 'a JSON list of texts, such as ["one","two"]'
    kind: TypeAdapter[object] = TypeAdapter(list[str] | None if is_custom else set[str])
    return _Setting(kind, due, default, is_json=not is_custom, is_custom=is_custom)


_PATHS: TypeAdapter[object] = TypeAdapter(str | None)

_SETTINGS: Mapping[str, _Setting] = {
    "NICKNAME": _words("[]"),
    "COMMAND_START": _words('["/"]'),
    "COMMAND_SEP": _words('["."]'),
    "API_TIMEOUT": _Setting(TypeAdapter(float | None), "seconds, as a number", "30"),
    "SESSION_EXPIRE_TIMEOUT": _Setting(TypeAdapter(timedelta), "a time, such as 00:02:00 or PT2M", "PT2M"),
    **{
        f"FASTAPI_{name}_URL": _Setting(_PATHS, "a path, such as /docs", "null", is_custom=True)
        for name in ("OPENAPI", "DOCS", "REDOC")
    },
    "FASTAPI_INCLUDE_ADAPTER_SCHEMA": _Setting(TypeAdapter(bool), "true or false", "true", is_custom=True),
    "FASTAPI_RELOAD": _Setting(TypeAdapter(bool), "true or false", "false", is_custom=True),
    "FASTAPI_RELOAD_DELAY": _Setting(TypeAdapter(float), "seconds, as a number", "0.25", is_custom=True),
    "FASTAPI_RELOAD_DIRS": _words("null", is_custom=True),
    "FASTAPI_RELOAD_INCLUDES": _words("null", is_custom=True),
    "FASTAPI_RELOAD_EXCLUDES": _words("null", is_custom=True),
    "FASTAPI_EXTRA": _Setting(TypeAdapter(dict[str, object]), "a JSON mapping", "{}", is_custom=True),
}

_BLANK_OF_OURS = {"SUPERUSERS": "[]"}
"""A setting of ours that NoneBot takes apart as JSON before it looks at what it was initialised with."""


def judge_host_settings(environment: Mapping[str, str]) -> list[ConfigError]:
    """Return what NoneBot would fail on, each with the line to write.

    Args:
        environment: all variables as text; a value of blanks counts as unset, see `blank_overrides`.
    """
    found: list[ConfigError] = []
    for name, text in environment.items():
        upper = name.upper()
        setting = _SETTINGS.get(upper)
        if setting is None or not text.strip() or _accepts(setting, text):
            continue
        meant = next((one for one in _likely(setting, text) if one and _accepts(setting, one)), setting.default)
        shown = text if len(text) <= 60 else f"{text[:59]}…"
        problem = f"must be {setting.due}, is {shown!r} (a setting of NoneBot); write {env_line(upper, meant)}"
        found.append(ConfigError(problem, key=upper, code="host_setting"))
    return found


def blank_overrides(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults of NoneBot's settings that are set to nothing, which it would fail on, by name as written."""
    defaults = {**_BLANK_OF_OURS, **{name: setting.default for name, setting in _SETTINGS.items()}}
    return {
        name: defaults[name.upper()]
        for name, text in environment.items()
        if name.upper() in defaults and not text.strip()
    }


def _accepts(setting: _Setting, text: str) -> bool:
    value: object = text
    if setting.is_json or setting.is_custom:
        try:
            value = json.loads(text.strip() if setting.is_custom else text)
        except (ValueError, RecursionError):
            if setting.is_json:
                return False
    try:
        setting.adapter.validate_python(value)
    except ValidationError:
        return False
    return True


def _likely(setting: _Setting, text: str) -> Iterator[str]:
    if "list" in setting.due:
        yield from likely_list(text)
    elif setting.due == "true or false":
        yield from likely_switch(text)
    elif "number" in setting.due:
        yield from likely_text(text)
        yield from likely_numbers(text)
    else:
        yield from likely_text(text)
