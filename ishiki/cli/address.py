"""Where the running bot is reached, and why it is not.

Turns settings and flags into an address and a token, and what went wrong with a connection into what to do about it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from typing import TypeAlias
from urllib.parse import urlsplit, urlunsplit

from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI

from ishiki.cli.arguments import ChatArguments
from ishiki.config import Settings
from ishiki.errors import ConfigError, IshikiError

__all__ = ["DIAL_ERRORS", "Address", "ChatError", "DialError", "dial_problem", "find_address"]

ONEBOT_PATH = "/onebot/v11/ws"
"""Where the bot's OneBot v11 adapter takes reverse WebSocket connections."""

DialError: TypeAlias = OSError | InvalidHandshake | InvalidURI
DIAL_ERRORS = (OSError, InvalidHandshake, InvalidURI)
"""What dialling raises when there is no connection in the end; a time-out is an `OSError`."""

_START_HINT = "start the bot in another terminal with ./run, or say where it listens: HOST and PORT in .env, or --url"


class ChatError(IshikiError):
    """The chat cannot go on; the text says what to do."""

    default_code = "chat_failed"


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect, and as whom."""

    url: str
    token: str | None = field(default=None, repr=False)
    token_source: str = ""
    """Where the token came from, for messages: `--token`, or `ONEBOT_ACCESS_TOKEN`."""


def find_address(arguments: ChatArguments, environment: Mapping[str, str]) -> Address:
    """Return where the bot listens: the flags, else HOST, PORT and ONEBOT_ACCESS_TOKEN, else their defaults.

    Raises:
        ConfigError: a setting or flag is no address.
    """
    settings = Settings.from_mapping(environment)
    if arguments.token is not None:
        token, source = arguments.token or None, "--token"
    else:
        secret = settings.onebot_access_token
        token, source = (secret.get_secret_value() if secret else None), "ONEBOT_ACCESS_TOKEN"
    if arguments.url is not None:
        return Address(_completed(arguments.url), token, source)
    return Address(f"ws://{_reachable(settings.host)}:{settings.port}{ONEBOT_PATH}", token, source)


def _reachable(host: str) -> str:
    """Return where a bot that listens on `host` is reached from the same machine."""
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return host
    is_v6 = isinstance(address, IPv6Address)
    if address.is_unspecified:
        return "[::1]" if is_v6 else "127.0.0.1"
    return f"[{address}]" if is_v6 else str(address)


_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}


def _completed(url: str) -> str:
    """Return the address as a WebSocket URL: scheme and path are added where they were left out."""
    try:
        parts = urlsplit(url if "://" in url else f"ws://{url}")
        is_usable = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise _bad_url(url) from None
    if not is_usable:
        raise _bad_url(url)
    path = ONEBOT_PATH if parts.path in ("", "/") else parts.path
    return urlunsplit((_SCHEMES[parts.scheme], parts.netloc, path, parts.query, ""))


def _bad_url(url: str) -> ConfigError:
    return ConfigError(
        f"{url!r} is no address; write for example ws://127.0.0.1:8080{ONEBOT_PATH}", key="--url", code="bad_url"
    )


def dial_problem(error: DialError, address: Address) -> str:
    """Return in words why there is no connection, and what to do."""
    where = urlsplit(address.url).netloc.rpartition("@")[2]
    match error:
        case InvalidStatus():
            return _refusal(error.response.status_code, where, address)
        case InvalidURI():
            return str(_bad_url(address.url))
        case InvalidHandshake():
            return f"what listens at {where} does not speak WebSocket; is it the bot? Its address is set by --url"
        case TimeoutError():
            return f"{where} does not answer; is it the bot, and is it well? Look at its log"
        case socket.gaierror():
            return f"no machine called {urlsplit(address.url).hostname!r} is known; check HOST, or --url"
        case ConnectionRefusedError():
            return f"nobody listens at {where}; {_START_HINT}"
        case _:
            reason = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
            return f"cannot connect to {where} ({reason}); {_START_HINT}"


def _refusal(status: int, where: str, address: Address) -> str:
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        said = f"the bot at {where} refused the connection ({status})"
        if address.token is None:
            return f"{said}: it wants an access token; set ONEBOT_ACCESS_TOKEN in .env to the bot's, or pass --token"
        return (
            f"{said}: the access token from {address.token_source} is not the bot's; it must equal the bot's "
            "ONEBOT_ACCESS_TOKEN, which the bot reads when it starts (restart it after an edit of .env)"
        )
    if status == HTTPStatus.NOT_FOUND:
        path = urlsplit(address.url).path
        return f"{where} takes no OneBot connection at {path} ({status}); is it the bot? Its path is {ONEBOT_PATH}"
    return f"{where} refused the connection ({status}); look at the bot's log"
