"""The adapter over real WebSockets and HTTP: what reaches intake, and what a connection survives."""

from __future__ import annotations

import pytest

from ishiki.testing.onebot_peer import OneBotPeer

from .bot_kit import running_bot

pytestmark = pytest.mark.timeout(20)


async def test_lines_of_a_group_become_facts_in_wire_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design, one message in: in wire order."""
    async with running_bot(monkeypatch) as bot, OneBotPeer(bot.url) as peer:
        for number in range(50):
            await peer.say(f"line {number}", group_id=500)
        assert await bot.said(50) == [f"line {number}" for number in range(50)]
