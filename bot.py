"""Starts the bot: NoneBot with Ishiki's adapter and plugin, then whatever stands in plugins/."""

from __future__ import annotations

import os
import pkgutil
import sys
from pathlib import Path

import nonebot
from nonebot.drivers import ASGIMixin
from nonebot.log import logger

from ishiki.config import ENV_ENCODING, Settings, environment_files, read_environment
from ishiki.config.host_settings import blank_overrides
from ishiki.config.output import escape_unwritable
from ishiki.config.settings import MAX_FRAME_BYTES
from ishiki.errors import ConfigError, StorageError
from ishiki.runtime.preflight import judge_start

ROOT = Path(__file__).resolve().parent


def judge(folder: Path) -> tuple[Settings, dict[str, str]]:
    """Return the settings and all variables, or end with what stands against a start; `check` asks the same."""
    try:
        environment = read_environment(folder)
        return judge_start(folder, environment), environment
    except (ConfigError, StorageError) as error:
        sys.exit(f"{error}\nSettings stand in {folder / '.env'} and in the environment; .env.example explains them.")


def load_plugins(folder: Path) -> None:
    """Load what stands in `folder` one by one, so that a bad plugin hurts only itself."""
    for module in sorted(pkgutil.iter_modules([str(folder)]), key=lambda module: module.name):
        if module.name.startswith("_"):
            continue
        path = folder / module.name if module.ispkg else folder / f"{module.name}.py"
        # NoneBot logs what a plugin raises, with its traceback, and returns None.
        if nonebot.load_plugin(path) is None:
            logger.error(f"the plugin {path} could not be loaded, see above; the bot goes on without it")


def main() -> None:
    """Run until stopped."""
    escape_unwritable()
    os.chdir(ROOT)  # relative folders, .env and plugins/ are the bot's own, wherever it is started from
    settings, environment = judge(ROOT)
    os.environ.update(blank_overrides(environment))
    # NoneBot reads the same files; what was judged here stands above it, whatever form it was written in.
    options = {**settings.host_options(), "_env_file_encoding": ENV_ENCODING}
    nonebot.init(_env_file=environment_files(ROOT), **options)
    if nonebot.load_plugin("ishiki.plugin") is None:
        sys.exit("Ishiki itself could not be loaded; the lines above say why.")
    load_plugins(ROOT / "plugins")
    if isinstance(nonebot.get_driver(), ASGIMixin):
        nonebot.run(ws_max_size=MAX_FRAME_BYTES)
    else:
        nonebot.run()


if __name__ == "__main__":
    main()
