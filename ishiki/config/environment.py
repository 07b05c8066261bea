"""The process's environment as NoneBot's users know it: `.env`, `.env.<environment>`, and above both the real one."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from dotenv import dotenv_values
from dotenv.parser import parse_stream

from ishiki.config.settings import setting_name
from ishiki.errors import ConfigError

__all__ = ["ENV_ENCODING", "environment_files", "read_environment"]

logger = logging.getLogger(__name__)

ENV_ENCODING = "utf-8-sig"
"""Of `.env`: UTF-8, with or without the mark that editors of Windows put first."""


def environment_files(folder: Path, environ: Mapping[str, str] | None = None) -> tuple[Path, Path]:
    """Return `.env` and `.env.<environment>`, the second one above the first. Either may be missing."""
    real = os.environ if environ is None else environ
    values = _read(folder / ".env")
    name = real.get("ENVIRONMENT") or values.get("ENVIRONMENT") or "prod"
    return folder / ".env", folder / f".env.{name}"


def read_environment(folder: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return all variables, by name as written. Source: NoneBot, configuration; its order of precedence.

    A line that sets nothing is a warning. The letter case of a setting's name does not matter, so one of the real
    environment also stands above one that a file writes otherwise.

    Args:
        folder: where `.env` stands.
        environ: the real environment; None: the process's.

    Raises:
        ConfigError: a file cannot be read, or is not UTF-8.
    """
    real = os.environ if environ is None else environ
    found: dict[str, str] = {}
    for source in (*(_read(file, warns=True) for file in environment_files(folder, real)), real):
        above = {name.upper() for name in source if setting_name(name) is not None}
        found = {name: value for name, value in found.items() if name.upper() not in above} | dict(source)
    return found


def _read(file: Path, *, warns: bool = False) -> dict[str, str]:
    if not file.is_file():
        return {}
    try:
        if warns:
            _warn_of_lines(file)
        values = dotenv_values(file, encoding=ENV_ENCODING)
    except UnicodeDecodeError as fault:
        raise ConfigError("is not UTF-8; save it as UTF-8", file=file, code="config_unreadable") from fault
    except OSError as fault:
        reason = fault.strerror or type(fault).__name__
        raise ConfigError(f"cannot be read: {reason}", file=file, code="config_unreadable") from fault
    return {key: value for key, value in values.items() if value is not None}


def _warn_of_lines(file: Path) -> None:
    with file.open(encoding=ENV_ENCODING) as stream:
        for binding in parse_stream(stream):
            # A line without `=` has a name and no value; one that cannot be read at all has neither.
            if binding.error or (binding.key is not None and binding.value is None):
                logger.warning(
                    "%s:%d: this line sets nothing; write NAME=value, and a list as JSON: NAME=[\"one\",\"two\"]",
                    file, binding.original.line,
                )  # fmt: skip
