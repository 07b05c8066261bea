"""Starts the bot: NoneBot with Ishiki's adapter and plugin, then whatever stands in plugins/."""

from __future__ import annotations

import os
import pkgutil
import socket
import sys
from pathlib import Path

import nonebot
from nonebot.drivers import ASGIMixin
from nonebot.log import logger

from ishiki.config import Settings, read_environment
from ishiki.config.output import escape_unwritable
from ishiki.errors import ConfigError

ROOT = Path(__file__).resolve().parent


def read_settings() -> Settings:
    """Read the process's settings, or end with what is wrong in them."""
    try:
        return Settings.from_mapping(read_environment(ROOT))
    except ConfigError as error:
        sys.exit(f"{error}\nSettings stand in {ROOT / '.env'} and in the environment; .env.example explains them.")


def load_plugins(folder: Path) -> None:
    """Load what stands in `folder` one by one, so that a bad plugin hurts only itself."""
    for module in sorted(pkgutil.iter_modules([str(folder)]), key=lambda module: module.name):
        if module.name.startswith("_"):
            continue
        path = folder / module.name if module.ispkg else folder / f"{module.name}.py"
        # NoneBot logs what a plugin raises, with its traceback, and returns None.
        if nonebot.load_plugin(path) is None:
            logger.error(f"the plugin {path} could not be loaded, see above; the bot goes on without it")


def check_port(host: str, port: int) -> None:
    """End with what to do where the port cannot be had, before anything is started."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        sys.exit(
            f"{host}:{port} cannot be listened on: {error.strerror}. Set HOST and PORT in .env, or stop what does."
        )


def main() -> None:
    """Run until stopped."""
    escape_unwritable()
    os.chdir(ROOT)  # relative folders, .env and plugins/ are the bot's own, wherever it is started from
    settings = read_settings()
    token = settings.onebot_access_token
    nonebot.init(
        driver=settings.driver,
        host=settings.host,
        port=settings.port,
        log_level=settings.log_level,
        superusers=set(settings.superusers),
        onebot_access_token=None if token is None else token.get_secret_value(),
        onebot_ws_urls=set(settings.onebot_ws_urls),
    )
    if nonebot.load_plugin("ishiki.plugin") is None:
        sys.exit("Ishiki itself could not be loaded; the lines above say why.")
    load_plugins(ROOT / "plugins")
    driver = nonebot.get_driver()
    if isinstance(driver, ASGIMixin):
        check_port(str(driver.config.host), driver.config.port)
    nonebot.run()


if __name__ == "__main__":
    main()
