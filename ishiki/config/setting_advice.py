"""What the value of each setting most likely stands for when it is refused. Pure; `Settings` tries the candidates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address

from ishiki.config.drivers import meant_driver
from ishiki.config.problems import nearest
from ishiki.config.setting_text import likely_list, likely_numbers, likely_switch, likely_text
from ishiki.config.zones import meant_zone

__all__ = ["LOG_LEVELS", "likely_values"]

LOG_LEVELS = ("TRACE", "DEBUG", "INFO", "SUCCESS", "WARNING", "ERROR", "CRITICAL")
"""The levels of NoneBot's log, the least first."""

_LEVELS_ELSEWHERE = {
    "WARN": "WARNING", "FATAL": "CRITICAL", "OFF": "CRITICAL", "NONE": "CRITICAL", "QUIET": "CRITICAL",
    "VERBOSE": "DEBUG", "ALL": "TRACE", "NOTSET": "TRACE", "NOTICE": "INFO", "DEFAULT": "INFO",
}  # fmt: skip


_EXAMPLE_URLS = '["ws://127.0.0.1:3001/"]'
"""What an address looks like, where what was given looks like none."""


def likely_values(field: str, default: object, text: str) -> Iterator[str]:
    """Yield what the text of a setting may have been meant to be, best first.

    Args:
        field: the setting's field.
        default: its default, which tells of what kind it is.
        text: what was given.
    """
    match field:
        case "superusers" | "onebot_ws_urls":
            for one in likely_list(text):
                yield _as_websockets(one) if field == "onebot_ws_urls" else one
            if field == "onebot_ws_urls":
                yield _EXAMPLE_URLS
        case "host":
            yield from _likely_hosts(text)
        case "driver":
            yield meant_driver(text)
        case "timezone":
            yield meant_zone(text) or ""
        case "log_level":
            for one in likely_text(text):
                yield _LEVELS_ELSEWHERE.get(one.upper()) or nearest(one, LOG_LEVELS) or ""
        case "fsync":
            yield next((nearest(one, ("always", "interval", "never")) or "" for one in likely_text(text)), "")
        case _ if isinstance(default, bool):
            yield from likely_switch(text)
        case _ if isinstance(default, int):
            yield from likely_numbers(text)
        case _:
            yield from likely_text(text)


def _likely_hosts(text: str) -> Iterator[str]:
    """Yield addresses; a name would be taken here, and cannot be listened on."""
    for one in likely_text(text):
        bare = (one.partition("://")[2] or one).partition("/")[0].strip()
        if bare.lower() in ("*", "+", "all", "any"):
            yield "0.0.0.0"
        for host in (bare, bare.rpartition(":")[0]):
            with suppress(ValueError):
                yield str(ip_address(host.removeprefix("[").removesuffix("]")))


def _as_websockets(listed: str) -> str:
    urls: list[str] = []
    for url in json.loads(listed):
        scheme, mark, rest = str(url).partition("://")
        secure = "wss" if scheme.lower() in ("https", "wss") else "ws"
        urls.append(f"{secure}://{rest}" if mark else f"ws://{scheme.lstrip('/')}")
    return json.dumps(list(dict.fromkeys(urls)), ensure_ascii=False, separators=(",", ":"))
