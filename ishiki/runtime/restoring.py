"""What a runtime takes from its log when it opens: how the last turn ended, and what came behind the checkpoint."""

from __future__ import annotations

from ishiki.core.entries import EVENT, Entry
from ishiki.storage import EventLog
from ishiki.tools.deliveries import settle_entries

__all__ = ["settle_crash", "since_checkpoint"]


def since_checkpoint(store: EventLog) -> list[Entry]:
    """Return what the log holds behind its newest checkpoint, oldest first."""
    window = store.window()
    newest = store.last_checkpoint
    position = next((i for i in range(len(window) - 1, -1, -1) if newest is not None and window[i].id == newest.id), -1)
    if position >= 0:
        return list(window[position + 1 :])
    return [*store.take_replay(), *window]


async def settle_crash(store: EventLog, now_ms: int, *, shows_target: bool) -> None:
    """Write down how the turn ended that was running when the process died, with what it had said.

    Args:
        store: the log, just opened.
        now_ms: the time of that entry.
        shows_target: whether what was said is told with its target (cross mode).
    """
    window = store.window()
    turn_id: str | None = None
    for entry in reversed(window):
        if entry.type == EVENT and entry.turn_id is not None:
            turn_id = entry.turn_id if entry.json_data.get("type") == "turn.start" else None
            break
    if turn_id is None:
        return
    ended = Entry(
        EVENT, {"type": "turn.aborted", "turnId": turn_id, "reason": "the process ended"}, now_ms, turn_id=turn_id
    )
    await store.append(*settle_entries(turn_id, window, now_ms, shows_target=shows_target), ended)
