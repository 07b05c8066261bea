"""What every test of the log on disk needs: files that are closed again, and logs opened through them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from ishiki.storage import EventLog, LogFiles


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the log lies; its folder does not exist yet."""
    return tmp_path / "channel" / "events.jsonl"


@pytest.fixture
async def files() -> AsyncIterator[LogFiles]:
    """Share one pool of files in a test."""
    files = LogFiles()
    yield files
    await files.aclose()


@pytest.fixture
async def open_log(path: Path, files: LogFiles) -> AsyncIterator[Callable[..., Awaitable[EventLog]]]:
    """Open the log of `onebot:10001`, `group:500`, anew with each call: what was opened before is closed first."""
    opened: list[EventLog] = []

    async def open_log(*, channel_id: str = "group:500", window_entries: int = 5000) -> EventLog:
        while opened:
            await opened.pop().aclose()
        log = await EventLog.open(
            path, sid="onebot:10001", channel_id=channel_id, window_entries=window_entries, files=files
        )
        opened.append(log)
        return log

    yield open_log
    while opened:
        await opened.pop().aclose()
