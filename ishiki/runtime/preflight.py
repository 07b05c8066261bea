"""What is judged before a start, by the bot and by `check` alike, so that the two cannot differ.

Owns everything that ends a start and can be known without one. What only hurts a part, such as a broken profile or
plugin, is told by whoever loads it.
"""

from __future__ import annotations

import ast
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

from ishiki.config import Settings
from ishiki.config.host_settings import judge_host_settings
from ishiki.errors import ConfigError, IshikiError
from ishiki.storage import FolderLock

__all__ = ["judge_place", "judge_settings", "judge_start"]

_STOCK_MODULE = "nonebot.adapters.onebot"


def judge_start(folder: Path, environment: Mapping[str, str]) -> Settings:
    """Return the settings that a bot starts with.

    Args:
        folder: the bot's own, of bot.py.
        environment: all variables, see `read_environment`.

    Raises:
        ConfigError: a setting is wrong, or the place is not fit.
        StorageError: another process uses the data folder.
    """
    settings = judge_settings(environment)
    for fault in judge_place(folder, settings):
        raise fault
    return settings


def judge_settings(environment: Mapping[str, str]) -> Settings:
    """Return the settings.

    Raises:
        ConfigError: one of them, or one of NoneBot's own, is wrong; every finding is in the error.
    """
    faults = judge_host_settings(environment)
    try:
        settings = Settings.from_mapping(environment)
    except ConfigError as fault:
        raise fault.joined(faults) from None
    if not settings.has_address:
        problem = (
            f"{settings.host!r} is a name, and NoneBot listens on an address; write HOST={_resolved(settings.host)}"
        )
        faults.insert(0, ConfigError(problem, key="HOST", code="host_name"))
    if faults:
        raise faults[0].joined(faults[1:])
    return settings


def judge_place(folder: Path, settings: Settings) -> Iterator[IshikiError]:
    """Yield why a bot with these settings cannot start in this folder now."""
    yield from _stock_adapter(folder / "bot.py")
    data = folder / settings.data_dir
    holder = FolderLock(data).holder
    if holder is not None:
        # Whoever uses the data most likely has the port as well.
        yield FolderLock.in_use(data, holder)
    elif settings.has_server:
        yield from _port(settings.listening_host, settings.port)


def _resolved(name: str) -> str:
    """Return the address of a name, or this machine's own."""
    try:
        return str(socket.getaddrinfo(name, None, family=socket.AF_INET, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return "127.0.0.1"


def _port(host: str, port: int) -> Iterator[ConfigError]:
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        problem = f"{host}:{port} cannot be listened on: {error.strerror}. Set HOST and PORT in .env, or stop what does"
        yield ConfigError(problem, code="port_unavailable")


def _stock_adapter(file: Path) -> Iterator[ConfigError]:
    """Yield the line of a bot.py that registers NoneBot's own adapter, as those of `nb` do."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return
    stock = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_STOCK_MODULE)
        for name in node.names
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr == "register_adapter" and node.args and ast.unparse(node.args[0]) in stock:
            problem = (
                "registers the stock OneBot V11 adapter; remove this line: loading ishiki.plugin registers its own"
            )
            yield ConfigError(problem, file=file, line=node.lineno, code="stock_adapter")
