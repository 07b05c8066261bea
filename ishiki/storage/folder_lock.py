"""`FolderLock`: one bot at a time on a data folder, and no repair under a bot's feet.

A lock of the operating system on `.ishiki.lock` in that folder: it ends with the process that holds it, however that
ends, so a file that lies there says nothing. Blocks for moments only.
"""

from __future__ import annotations

import fcntl
import logging
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from ishiki.errors import StorageError

__all__ = ["LOCK_NAME", "FolderLock"]

_logger = logging.getLogger(__name__)

LOCK_NAME = ".ishiki.lock"
"""The file, in the data folder. It stays behind, empty of meaning: removing it would let two processes hold it."""

_MAX_PID_BYTES = 20


class FolderLock:
    """The right to write in a data folder. Taken by `acquire` or `with`."""

    def __init__(self, folder: Path) -> None:
        """Name the folder; nothing is locked yet."""
        self.path = folder / LOCK_NAME
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take it, making the folder where it is missing.

        Where the folder cannot be written, or its file system knows no locks, this is a warning: nothing else can be
        done about a second bot there.

        Raises:
            StorageError: another process has it (`storage_in_use`).
        """
        if self._descriptor is not None:
            return
        try:
            descriptor = self._opened()
        except OSError as error:
            _logger.warning("%s: not locked (%s); make sure that one bot at a time uses this folder", self.path, error)
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read_pid(descriptor)
            os.close(descriptor)
            raise self.in_use(self.path.parent, holder) from None
        except OSError as error:
            _logger.warning("%s: not locked (%s); make sure that one bot at a time uses this folder", self.path, error)
        self._descriptor = descriptor
        with suppress(OSError):  # a full or read-only disk: the number is for people only
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        """Let others take it. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    @staticmethod
    def in_use(folder: Path, holder: str) -> StorageError:
        """Make the error for a folder that another process has; `holder` is what `holder` says of it."""
        return StorageError(
            f"another process{holder} uses this data folder; stop it first, or set ISHIKI_DATA_DIR to another one",
            path=folder,
            code="storage_in_use",
        )

    @property
    def is_held(self) -> bool:
        """Whether some process, this one included, has it now. Makes no file."""
        return self.holder is not None

    @property
    def holder(self) -> str | None:
        """Who has it now, such as ` (1234)`, as far as the file tells; None: nobody. Makes no file."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read_pid(descriptor)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return None

    def _opened(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            # A folder that became read-only: the file of an earlier start can still be locked.
            return os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)


def _read_pid(descriptor: int) -> str:
    """Return who holds it, as far as the file tells."""
    with suppress(OSError):
        text = os.pread(descriptor, _MAX_PID_BYTES, 0).decode("ascii", "replace").strip()
        if text.isdigit():
            return f" ({text})"
    return ""
