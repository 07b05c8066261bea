"""How many messages a backfill asks for, connection after connection."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from ishiki.contracts.events import ChannelRef, MessageCreated, User
from ishiki.runtime.backfill import Backfill
from ishiki.runtime.facts import FactMemory
from ishiki.testing.fake_platform import FakePlatform

EVENT = MessageCreated(1_700_000_000_000, "onebot", "10001", "group:500", "900", "hi", False, User("42"))


class BigHistory(FakePlatform):
    """Answers only where few enough messages are asked for."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.counts: list[int] = []

    @override
    async def recent_history(self, channel: ChannelRef, count: int) -> Sequence[MessageCreated] | None:
        self.counts.append(count)
        return None if count > self.most else ()


async def _connect(platform: FakePlatform, backfill: Backfill, times: int) -> None:
    for _ in range(times):
        platform.set_online(False)
        platform.set_online(True)
        await backfill.missed_before(EVENT)


async def test_a_history_without_an_answer_is_asked_for_by_halves_and_at_last_not_at_all() -> None:
    """Bug: asked for the same again, a history that is too big ended the connection for ever."""
    platform = BigHistory(most=0)
    backfill = Backfill(platform, FactMemory().is_known, limit_s=1)
    await _connect(platform, backfill, 9)
    assert platform.counts == [50, 25, 12, 6, 3, 1]


async def test_an_answer_lets_the_next_request_be_larger_again() -> None:
    """Our choice: what was too much at once may have scrolled away."""
    platform = BigHistory(most=12)
    backfill = Backfill(platform, FactMemory().is_known, limit_s=1)
    await _connect(platform, backfill, 3)
    platform.most = 50
    await _connect(platform, backfill, 3)
    assert platform.counts == [50, 25, 12, 24, 48, 50]
