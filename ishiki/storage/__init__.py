"""Storage: one append-only `events.jsonl` per channel. The format is in docs/formats/events.md."""

from __future__ import annotations

from ishiki.storage.events_log import EventLog
from ishiki.storage.files import FsyncPolicy, LogFiles
from ishiki.storage.folder_lock import FolderLock

__all__ = ["EventLog", "FolderLock", "FsyncPolicy", "LogFiles"]
