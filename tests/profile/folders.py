"""Profile folders on disk for tests."""

from __future__ import annotations

from pathlib import Path

GOOD = 'model: demo:offline\nchannels:\n  "onebot:*": ["group:*"]\n'
"""The shortest profile that loads."""


def write_profile(directory: Path, name: str, text: str = GOOD, *, file: str = "profile.yaml") -> Path:
    """Write one profile file and return its path."""
    path = directory / name / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def claiming(*patterns: str, account: str = "onebot:*", more: str = "") -> str:
    """Return the text of a profile that claims `patterns` of one account."""
    written = ", ".join(f'"{pattern}"' for pattern in patterns)
    return f'model: demo:offline\nchannels:\n  "{account}": [{written}]\n{more}'
