"""`AgentState`: written first, then taken; the newest entry is what counts."""

from __future__ import annotations

import anyio
import pytest

from ishiki.core.entries import STATE, Entry
from ishiki.errors import AgentStoppedError, StorageError
from ishiki.jsonvalue import JsonObject
from ishiki.testing.scripted_model import ScriptedModel

from .core_kit import FakeDisk, fatal, served


async def test_a_state_begins_at_version_one_and_every_change_is_an_entry_with_the_whole() -> None:
    """Reference, state."""
    disk = FakeDisk()
    async with served(ScriptedModel([]), store=disk) as agent:
        assert agent.state.get() == {"version": 1}
        await agent.state.update({"mood": "calm"})
        await agent.state.set(lambda present: {**present, "version": 2})
        assert agent.state.get() == {"version": 2, "mood": "calm"}
    assert [entry.json_data for entry in disk.window()] == [
        {"version": 1, "mood": "calm"},
        {"version": 2, "mood": "calm"},
    ]
    assert {entry.type for entry in disk.window()} == {STATE}
    with pytest.raises(AgentStoppedError):
        await agent.state.update({"mood": "late"})


async def test_the_newest_state_entry_is_restored_and_a_checkpoint_may_replace_it() -> None:
    """Reference, state: the latest entry is restored on init."""
    entries = [Entry(STATE, {"version": 1, "n": n}, 1) for n in range(3)]
    async with served(ScriptedModel([]), store=FakeDisk(entries)) as agent:
        assert agent.state.get() == {"version": 1, "n": 2}
        agent.state.restore({"version": 9})
        assert agent.state.get() == {"version": 9}


async def test_changes_at_the_same_time_are_taken_one_after_another() -> None:
    """Reference: changes are serialised."""
    async with served(ScriptedModel([]), store=FakeDisk()) as agent:

        async def add() -> None:
            await agent.state.set(lambda present: {**present, "n": int(str(present.get("n", 0))) + 1})

        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                for _ in range(20):
                    group.start_soon(add)
        assert agent.state.get()["n"] == 20


async def test_a_change_that_cannot_be_written_leaves_the_state_as_it_was() -> None:
    """Reference: written first, then swapped."""
    disk = FakeDisk()
    async with served(ScriptedModel([]), store=disk) as agent:
        disk.refusals = [fatal()]
        with pytest.raises(StorageError):
            await agent.state.update({"n": 1})
        assert agent.state.get() == {"version": 1}
        await agent.state.update({"n": 2})
        assert agent.state.get() == {"version": 1, "n": 2}


async def test_a_change_whose_caller_was_cancelled_is_never_lost_to_the_next_one() -> None:
    """Bug: it was in the log but not in memory, so that the next change undid it."""
    disk = FakeDisk()
    async with served(ScriptedModel([]), store=disk) as agent:
        disk.hold()

        async def change(partial: JsonObject) -> None:
            await agent.state.update(partial)

        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(change, {"a": 1})
                await disk.wait_held()
                group.cancel_scope.cancel()
            async with anyio.create_task_group() as group:
                group.start_soon(change, {"b": 2})
                await anyio.wait_all_tasks_blocked()
                disk.let_go()
        assert agent.state.get() == {"version": 1, "a": 1, "b": 2} == disk.window()[-1].json_data
