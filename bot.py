"""Starts the bot: NoneBot with Ishiki's adapter and plugin, then whatever stands in plugins/."""

from __future__ import annotations

import os
import pkgutil
import sys
from pathlib import Path

import nonebot
from nonebot.log import logger

from ishiki.config import Settings, read_environment
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
        try:
            nonebot.load_plugin(path)
        except Exception:  # noqa: BLE001 - whatever a plugin raises, the others are loaded
            logger.exception(f"the plugin {path} could not be loaded; the bot goes on without it")


def main() -> None:
    """Run until stopped."""
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
    nonebot.run()


if __name__ == "__main__":
    main()
