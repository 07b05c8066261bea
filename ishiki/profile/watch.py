"""Which profiles, and whether models.yaml, changed on disk while the bot runs.

A look at the files' sizes and times decides; notifications of the system only say when to look. So a folder that does
not exist yet, a mount without notifications and an edit between loading and watching are all covered.
Persona and memory files do not count: they are read at each turn.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import anyio
import anyio.to_thread
from watchfiles import watch

from ishiki.profile.reading import PROFILE_FILES

__all__ = ["MODELS_FILES", "ProfileChanges", "Stamp", "changes_between", "take_stamp", "watch_profiles"]

logger = logging.getLogger(__name__)

MODELS_FILES = ("models.yaml", "models.yml")

Stamp: TypeAlias = "Mapping[str, tuple[int, int]]"
"""Every file that counts: its path in the profiles folder -> (modification time in ns, size in bytes)."""

_DEBOUNCE_MS = 400
"""An editor writes a file in several steps; what comes within this time is one edit."""

_STEP_MS = 200
"""How long the folder must be quiet, within the debounce."""

_LOOK_S = 5.0
"""The most between two looks, where no notification arrives."""


@dataclass(frozen=True, slots=True)
class ProfileChanges:
    """What was edited since the last look."""

    profile_ids: frozenset[str] = frozenset()
    """Folders whose profile file was added, edited or removed."""
    models: bool = False
    """Whether models.yaml was."""

    def __bool__(self) -> bool:
        """Whether anything was."""
        return bool(self.profile_ids) or self.models


def take_stamp(directory: Path) -> Stamp:
    """Look at the files in `directory` that count; an absent folder has none. Blocks on the disk."""
    return dict(_stamps(directory))


def changes_between(old: Stamp, new: Stamp) -> ProfileChanges:
    """Return what differs from `old` to `new`."""
    changed = {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}
    folders = frozenset(path.rpartition("/")[0] for path in changed)
    return ProfileChanges(folders - {""}, models="" in folders)


async def watch_profiles(
    directory: Path, since: Stamp, *, look_s: float = _LOOK_S
) -> AsyncGenerator[ProfileChanges, None]:
    """Wait for edits in `directory`, which may be absent, for ever.

    Args:
        directory: the profiles folder.
        since: what is known already; take it *before* loading the profiles, so that no edit falls in between.
        look_s: seconds between two looks where the system notifies of nothing.

    Yields:
        What was edited, at least one thing each time. Edits that follow each other within 0.4 s come together.
    """
    last = since
    while True:
        exists = await anyio.Path(directory).is_dir()
        root = directory if exists else await _existing_parent(directory)
        async with contextlib.aclosing(_wake_ups(root, look_s, recursive=exists)) as wake_ups:
            async for _ in wake_ups:
                now, still_exists = await anyio.to_thread.run_sync(_look, directory)
                changes = changes_between(last, now)
                last = now
                if changes:
                    yield changes
                if still_exists != exists:
                    break


def _look(directory: Path) -> tuple[Stamp, bool]:
    return take_stamp(directory), directory.is_dir()


async def _existing_parent(directory: Path) -> Path:
    for parent in (await anyio.Path(directory).absolute()).parents:
        if await parent.is_dir():
            return Path(parent)
    return Path(directory.anchor)


async def _wake_ups(root: Path, look_s: float, *, recursive: bool) -> AsyncGenerator[None, None]:
    """Yield at once, after each burst of changes below `root`, and every `look_s` at least; end when it is gone."""
    yield
    stop = threading.Event()
    # In a thread that is left behind on cancellation and told to end: the library's own async form is held by it for
    # up to `look_s`, which is too long at the process's end.
    bursts = watch(
        root,
        watch_filter=None,
        debounce=_DEBOUNCE_MS,
        step=_STEP_MS,
        stop_event=stop,
        rust_timeout=round(look_s * 1000),
        yield_on_timeout=True,
        recursive=recursive,
        ignore_permission_denied=True,
    )
    try:
        while await anyio.to_thread.run_sync(next, bursts, None, abandon_on_cancel=True) is not None:
            yield
    except FileNotFoundError:
        # Removed between the look and the watch; the caller looks again.
        return
    except OSError as fault:
        # Most often the system's limit of watches; looking from time to time needs none.
        logger.warning("%s cannot be watched (%s); edits are looked for every %g s", root, fault, look_s)
    finally:
        stop.set()
    while True:
        await anyio.sleep(look_s)
        yield


def _stamps(directory: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    try:
        folders = [path for path in directory.iterdir() if not path.name.startswith((".", "__"))]
    except OSError:
        return
    for path in [directory / name for name in MODELS_FILES] + [
        folder / name for folder in folders for name in PROFILE_FILES
    ]:
        with contextlib.suppress(OSError):
            status = path.stat()
            yield path.relative_to(directory).as_posix(), (status.st_mtime_ns, status.st_size)
