"""How the journal writes together what waits together, in a store that takes several batches at once."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from ishiki.core.clock import SystemClock
from ishiki.core.entries import Entry
from ishiki.core.feed import AgentFeed
from ishiki.core.inbox import Inbox
from ishiki.core.journal import Journal
from ishiki.core.store import MemoryStore


class Batches(MemoryStore):
    """Keeps how it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[list[list[str]]] = []

    async def append_batches(self, batches: Sequence[Sequence[Entry]]) -> None:
        await anyio.lowlevel.checkpoint()
        self.writes.append([[entry.id for entry in batch] for batch in batches])
        for batch in batches:
            await self.append(*batch)


async def test_facts_that_wait_together_are_written_at_once_and_stay_batches_of_their_own() -> None:
    """Bug: one batch of many facts loses them all when a kill cuts it, though the first have been read in the log."""
    store = Batches()
    journal = Journal(store, AgentFeed(), Inbox(), SystemClock())
    first = [Entry("x", {}, 1, id="0")]
    others = [[Entry("x", {}, 1, id=f"{number}.{part}") for part in range(2)] for number in range(1, 4)]
    async with anyio.create_task_group() as group:
        for entries in (first, *others):
            journal.submit(entries)
        group.start_soon(journal.run)
        with anyio.fail_after(5):
            await journal.settled()
        journal.close()
    assert store.writes == [[["0"], ["1.0", "1.1"], ["2.0", "2.1"], ["3.0", "3.1"]]]
    assert [entry.id for entry in store.window()] == ["0", "1.0", "1.1", "2.0", "2.1", "3.0", "3.1"]
