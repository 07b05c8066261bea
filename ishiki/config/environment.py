"""The process's environment as NoneBot's users know it: `.env`, `.env.<environment>`, and above both the real one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dotenv import dotenv_values

__all__ = ["read_environment"]


def read_environment(folder: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return all variables, by name as written. Source: NoneBot, configuration; its order of precedence.

    Args:
        folder: where `.env` stands.
        environ: the real environment; None: the process's.
    """
    real = os.environ if environ is None else environ
    values = _read(folder / ".env")
    name = real.get("ENVIRONMENT") or values.get("ENVIRONMENT") or "prod"
    return {**values, **_read(folder / f".env.{name}"), **real}


def _read(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    return {key: value for key, value in dotenv_values(file, encoding="utf-8-sig").items() if value is not None}
