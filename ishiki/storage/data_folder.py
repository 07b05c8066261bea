"""Walking through a data folder: which logs are there, which small JSON files stand beside them, and what was kept.

Knows names and JSON, not what the files mean. Blocks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from ishiki.storage.folder_lock import LOCK_NAME
from ishiki.storage.mending import MENDED_SUFFIX

__all__ = ["DataFiles", "find_data_files", "json_problem", "lock_folder", "set_aside"]

_LOG = "events.jsonl"

_CUT_MARK = ".cut-"
"""In the name of a file that holds what was removed from a log."""

_SIDECAR = re.compile(r"agenda\.json|[0-9a-f]{32}\.json|\d{4}-\d\d-\d\d\.json")
"""The agenda of a profile, what is known of each asset, and the usage of each day."""

_ASIDE = ".unreadable-"
"""Behind the name of a file that was set aside, before the time."""

_DEPTH = 3
"""Folders between the data folder and a log: profile, account, channel."""


@dataclass(frozen=True, slots=True)
class DataFiles:
    """What lies in one folder, each list sorted by name."""

    folder: Path
    logs: tuple[Path, ...]
    """`events.jsonl`, if there is one."""
    cuts: tuple[Path, ...]
    """What earlier repairs removed from it."""
    leftovers: tuple[Path, ...]
    """Mended logs that never took the log's name: a crash came between."""
    sidecars: tuple[Path, ...]


def find_data_files(folder: Path) -> Iterator[DataFiles]:
    """Yield every folder below `folder`, itself included, that holds something of ours; in order of their names.

    Raises:
        OSError: `folder` or one below it cannot be listed.
    """

    def refuse(error: OSError) -> None:
        raise error

    for root, folders, names in os.walk(folder, onerror=refuse):
        folders.sort()
        here = Path(root)
        files = [here / name for name in sorted(names)]
        found = DataFiles(
            here,
            tuple(file for file in files if file.name == _LOG),
            tuple(file for file in files if file.name.startswith(f"{_LOG}{_CUT_MARK}")),
            tuple(file for file in files if file.name == f"{_LOG}{MENDED_SUFFIX}"),
            tuple(file for file in files if _SIDECAR.fullmatch(file.name)),
        )
        if found.logs or found.cuts or found.leftovers or found.sidecars:
            yield found


def lock_folder(folder: Path) -> Path:
    """Return the data folder that `folder` is, or is a part of: the nearest above it that a bot has locked before."""
    absolute = folder.resolve()
    return next((one for one in (absolute, *absolute.parents[:_DEPTH]) if (one / LOCK_NAME).is_file()), absolute)


def json_problem(file: Path) -> str | None:
    """Return why `file` holds no JSON object, or None where it does."""
    try:
        value: object = orjson.loads(file.read_bytes())
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    except orjson.JSONDecodeError as error:
        return f"is not JSON ({error})"
    return None if isinstance(value, dict) else "is no JSON object"


def set_aside(file: Path, now_ms: int) -> Path:
    """Give `file` a name under which nothing looks for it, and return that.

    Raises:
        OSError: it cannot be renamed.
    """
    target = file.with_name(f"{file.name}{_ASIDE}{now_ms}")
    while target.exists():
        now_ms += 1
        target = file.with_name(f"{file.name}{_ASIDE}{now_ms}")
    return file.rename(target)
