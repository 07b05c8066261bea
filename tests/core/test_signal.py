"""`CancelSignal` and disposers."""

from __future__ import annotations

import anyio
import pytest

from ishiki.core.disposer import DisposerStack, resolved
from ishiki.core.signal import CancelSignal


async def test_a_signal_is_set_once_and_wakes_all_who_wait() -> None:
    """Design, section 3: cancelled, reason, wait."""
    signal = CancelSignal()
    assert not signal.cancelled
    reasons: list[str] = []

    async def wait() -> None:
        reasons.append(await signal.wait())

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            signal.cancel("enough")
            signal.cancel("again")
        assert await signal.wait() == "enough"
    assert signal.cancelled
    assert reasons == ["enough", "enough"]


def test_callbacks_run_once_with_the_reason_and_not_after_their_disposer() -> None:
    """Design, section 3: on_cancel returns a disposer."""
    signal = CancelSignal()
    heard: list[str] = []
    signal.on_cancel(lambda reason: heard.append(f"a {reason}"))
    dispose = signal.on_cancel(lambda reason: heard.append(f"b {reason}"))
    dispose()
    late = signal.on_cancel(lambda reason: heard.append(f"c {reason}"))
    signal.cancel("stop")
    late()
    signal.on_cancel(lambda reason: heard.append(f"d {reason}"))()
    assert heard == ["a stop", "c stop", "d stop"]


def test_a_callback_that_raises_is_logged_and_hurts_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Our choice; a bug where the signal was set already: it raised out of on_cancel."""

    def bad(reason: str) -> None:
        raise RuntimeError("bad callback")

    signal = CancelSignal()
    heard: list[str] = []
    signal.on_cancel(bad)
    signal.on_cancel(heard.append)
    signal.cancel("stop")
    signal.on_cancel(bad)
    assert heard == ["stop"]
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]


async def test_a_stack_gives_disposers_newest_first_and_hooks_may_be_sync_or_async() -> None:
    """Design, section 4: disposers run in reverse order; sync or async is accepted."""
    stack = DisposerStack()
    done: list[str] = []

    async def later() -> None:
        done.append("later")

    stack.push(lambda: done.append("first"))
    stack.push(None)
    stack.push(later)
    while (disposer := stack.pop()) is not None:
        await resolved(disposer())
    assert done == ["later", "first"]
