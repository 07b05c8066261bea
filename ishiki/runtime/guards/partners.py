"""Who keeps waking the mind, turn after turn: how two bots in one group are told from two who talk. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from ishiki.jsonvalue import JsonObject, JsonValue, read_int, read_object, read_str

__all__ = ["REST_MS", "PartnerWatch"]

_MOST_TURNS = 6
"""Turns in a row that one account may wake like a bot."""

_QUICK_MS = 3_000
"""So soon after one of ours answers a bot; people read and type first."""

REST_MS = 600_000
"""How long such an account wakes nobody. Source of all three: design, guards."""


@dataclass(slots=True)
class PartnerWatch:
    """The recent turns of one group. Times are epoch milliseconds.

    A run is turns in a row woken by one account. It goes on while each of that account's messages comes within three
    seconds of ours and nobody else speaks; for a known bot it goes on until somebody else wakes a turn.
    """

    bots: frozenset[str] = frozenset()
    """Accounts that are known to be bots."""
    _partner: str = ""
    _turns: int = 0
    _heard: str = ""
    """Who spoke last since the last turn began; who that was has woken the next one."""
    _is_quick: bool = False
    _said_at: int | None = None
    _resting: dict[str, int] = field(default_factory=dict[str, int])

    def heard(self, user_id: str, at_ms: int) -> None:
        """Note a message of somebody else that may wake."""
        if self.rests_until(user_id, at_ms) is not None:
            return
        if user_id != self._partner and self._partner not in self.bots:
            self._end_run()
        self._heard = user_id
        self._is_quick = self._said_at is not None and 0 <= at_ms - self._said_at <= _QUICK_MS

    def said(self, at_ms: int) -> None:
        """Note a message of ours."""
        self._said_at = at_ms

    def turn_began(self, at_ms: int) -> str | None:
        """Note that a turn has begun, and return whose run that has ended: the account rests from now on."""
        waker, self._heard = self._heard, ""
        if not waker:
            return None
        if waker == self._partner and (self._is_quick or waker in self.bots):
            self._turns += 1
        else:
            self._partner, self._turns = waker, 1
        if self._turns < _MOST_TURNS:
            return None
        self._end_run()
        self._resting = {account: until for account, until in self._resting.items() if until > at_ms}
        self._resting[waker] = at_ms + REST_MS
        return waker

    def rests_until(self, user_id: str, now_ms: int) -> int | None:
        """Return until when an account wakes nobody; None where it does not rest."""
        until = self._resting.get(user_id, 0)
        # No longer than a rest from now, also where the clock was set back.
        return min(until, now_ms + REST_MS) if until > now_ms else None

    def checkpoint(self) -> JsonObject:
        """Return what restores this."""
        resting: dict[str, JsonValue] = dict(self._resting)
        return {
            "partner": self._partner,
            "turns": self._turns,
            "heard": self._heard,
            "isQuick": self._is_quick,
            "saidAt": self._said_at,
            "resting": resting,
        }

    def restore(self, guards: JsonObject) -> None:
        """Take over what a checkpoint holds."""
        self._partner = read_str(guards, "partner")
        self._turns = read_int(guards, "turns")
        self._heard = read_str(guards, "heard")
        self._is_quick = guards.get("isQuick") is True
        self._said_at = read_int(guards, "saidAt") or None
        resting = read_object(guards, "resting")
        self._resting = {account: until for account in resting if (until := read_int(resting, account))}

    def _end_run(self) -> None:
        self._partner, self._turns = "", 0
