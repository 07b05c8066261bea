"""The setting DRIVER: which drivers of NoneBot can be had together, without importing any.

Source: NoneBot 2.4, configuration of drivers, `<module>[:<class>][+<module>[:<class>]]*` with `~` for
`nonebot.drivers.`; its drivers and what each of them needs.
"""

from __future__ import annotations

import importlib.util
import re

from ishiki.config.problems import nearest

__all__ = ["check_driver", "has_server", "meant_driver"]

_SERVERS = {"fastapi": ("fastapi", "uvicorn"), "quart": ("quart", "uvicorn")}
_CLIENTS = {"httpx": ("httpx",), "websockets": ("websockets",), "aiohttp": ("aiohttp",)}
_PACKAGES = {**_SERVERS, **_CLIENTS, "none": ()}
_HOME = "nonebot.drivers."


def check_driver(expression: str) -> str:
    """Return `expression` if NoneBot can make a driver of it here.

    Raises:
        ValueError: it cannot; the text says why.
    """
    seen: set[str] = set()
    for index, part in enumerate(expression.split("+")):
        name = _own_name(part, "Mixin" if index else "Driver")
        if name is None:
            _check_foreign(part)
            continue
        if name not in _PACKAGES:
            raise ValueError(f"{part!r} is no driver of NoneBot (known: {', '.join(f'~{one}' for one in _PACKAGES)})")
        if name in seen:
            raise ValueError(f"~{name} is named twice")
        if index and name not in _CLIENTS:
            raise ValueError(f"~{name} can only come first")
        missing = [package for package in _PACKAGES[name] if importlib.util.find_spec(package) is None]
        if missing:
            raise ValueError(f"~{name} needs {' and '.join(missing)}, which is not installed")
        seen.add(name)
    return expression


def has_server(expression: str) -> bool:
    """Whether a driver of NoneBot's own in `expression` listens on a port."""
    return _own_name(expression.split("+")[0], "Driver") in _SERVERS


def meant_driver(text: str) -> str:
    """Return the expression that `text` most likely stands for; the usual one where it names no driver."""
    words = [word.rpartition(".")[2] for word in re.split(r"[^a-z.]+", text.lower().replace(":driver", "")) if word]
    known = [one for one in _PACKAGES if one != "quart"]
    names = list(dict.fromkeys(name for word in words if (name := nearest(word, known)) is not None))
    names.sort(key=lambda name: name in _CLIENTS)
    first = [name for name in names if name not in _CLIENTS][:1]
    return "+".join(f"~{name}" for name in [*first, *(one for one in names if one in _CLIENTS)])


def _own_name(part: str, attribute: str) -> str | None:
    """Return which driver of NoneBot's own `part` names; None for another's, or for a class that we do not know."""
    module, _, name = part.partition(":")
    if name not in ("", attribute):
        return None
    if module.startswith("~"):
        return module[1:]
    return module.removeprefix(_HOME) if module.startswith(_HOME) else None


def _check_foreign(part: str) -> None:
    package = part.partition(":")[0].partition(".")[0]
    if not package.isidentifier() or importlib.util.find_spec(package) is None or "." not in part:
        raise ValueError(f"{part!r} names no driver; those of NoneBot begin with ~")
