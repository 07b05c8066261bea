"""The variables that a bot of this project sees, wherever in it a person stands.

Owns where the project's folder is; which files count is `ishiki.config`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ishiki.config.environment import read_environment

__all__ = ["project_environment", "project_folder"]

_PACKAGE_PARENT = Path(__file__).resolve().parents[2]


def project_folder(folder: Path) -> Path:
    """Return the folder of bot.py, which reads `.env` and the profiles from there.

    It is `folder` or the nearest above it. Outside of a project it is `folder` where that has a `.env` of its own, else
    the folder that this package runs from, else `folder`.
    """
    above = next((one for one in (folder, *folder.parents) if _is_project(one)), None)
    if above is not None or (folder / ".env").is_file():
        return above or folder
    return _PACKAGE_PARENT if _is_project(_PACKAGE_PARENT) else folder


def _is_project(folder: Path) -> bool:
    return (folder / "bot.py").is_file()


def project_environment(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a bot of the project sees: those of `.env`, and above them those of the process.

    Args:
        folder: where the person is, see `project_folder`.
        environ: the process's variables.

    Raises:
        ConfigError: a file cannot be read, or is not UTF-8.
    """
    return read_environment(project_folder(folder), environ)
