"""Who keeps waking the mind in one group: how bots that would answer it for ever are told from people. Pure.

A message *looks like a bot's* by several signs at once: how soon it comes behind ours, whether a person could have
typed it, whether it repeats what was said, how even its delays are, and whether its account speaks only behind us.
Speed alone is none: people who are fun to talk with answer quickly. Turns that such messages or named bots wake count
together, whoever of them it was, so that several bots that take turns are no more than one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from ishiki.core.clock import SteadyTime
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_int, read_object, read_str
from ishiki.runtime.guards.likeness import is_like, is_typed_too_fast

__all__ = ["REST_MS", "PartnerWatch"]

_MOST_TURNS = 6
"""Turns within ten minutes that bots may wake in one group, all together."""

REST_MS = 600_000
"""How long they wake nobody then, and the window in which turns count. Source of both: design, guards."""

_AT_ONCE_MS, _QUICK_MS = 1_000, 3_000
"""So soon behind ours: nobody has read it yet; a quick person may have."""

_EVEN_MS, _EVEN_SHARE = 100, 0.05
"""Two delays are even that differ by no more than this, or this share. Our choice: people vary by a third and more."""

_SIGNS = 3
"""Weight of signs with which a message looks like a bot's. One of them must be of what it is, not of when it came."""

_LINES = 12
"""Messages of others that are compared with, the newest."""


@dataclass(frozen=True, slots=True)
class _Line:
    user_id: str
    words: str
    delay_ms: int
    """Behind ours; -1 where ours was not the last before it."""


@dataclass(slots=True)
class PartnerWatch:
    """The recent talk of one group. Times are steady, in milliseconds; words are those of `likeness.plain_words`."""

    bots: frozenset[str] = frozenset()
    """Accounts that are known to be bots."""
    _lines: deque[_Line] = field(default_factory=lambda: deque[_Line](maxlen=_LINES))
    _ours: deque[str] = field(default_factory=lambda: deque[str](maxlen=4))
    _said_at: int | None = None
    _heard_at: int | None = None
    _is_ours_last: bool = False
    _waker: str = ""
    """Who is to have woken the next turn: who spoke to us last, or else who spoke last."""
    _is_waker_addressing: bool = False
    _is_waker_bot: bool = False
    _turns: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """When bots have woken turns, and which; those of the last ten minutes."""
    _opening: tuple[int, str] = (0, "")
    """The newest turn that no bot seemed to wake; what opens a talk has none of ours before it and shows few signs."""
    _rest_until: int = 0
    _resting: set[str] = field(default_factory=set[str])
    _asked_at: int | None = None
    """When the mind was last told that it may be talking to a bot."""
    _human: dict[str, int] = field(default_factory=dict[str, int])
    """Of those who rest: how many messages in a row looked like a person's."""
    _lifted: dict[str, int] = field(default_factory=dict[str, int])
    """How often an account's rest has ended before its time since bots last kept quiet for ten minutes."""

    def heard(self, user_id: str, at_ms: int, words: str = "", *, is_addressed: bool = True) -> None:
        """Note a message of somebody else that may wake.

        Args:
            user_id: who said it.
            at_ms: when.
            words: what.
            is_addressed: whether it mentions us or replies to us.
        """
        looks_bot = self.looks_like_bot(user_id, at_ms, words)
        if self._is_in_rest(at_ms) and user_id in self._resting and user_id not in self.bots:
            # Who rests is not answered, so when it speaks tells nothing: one sign of what it says is enough.
            is_human = not self._signs_of_what(words, at_ms, self._delay(at_ms))
            self._human[user_id] = self._human.get(user_id, 0) + 1 if is_human else 0
            if self._human[user_id] >= self._needed(user_id):
                self._resting.discard(user_id)
                self._lifted[user_id] = self._lifted.get(user_id, 0) + 1
        elif self._is_in_rest(at_ms) and looks_bot and self._speaks_only_behind_us(user_id):
            self._resting.add(user_id)
        rests = self.rests_until(user_id, at_ms, words) is not None
        if not looks_bot:
            self._forgive(user_id)
        self._lines.append(_Line(user_id, words, self._delay(at_ms)))
        self._heard_at = at_ms
        # Another bot may answer the same of ours.
        self._is_ours_last = self._is_ours_last and (looks_bot or user_id in self.bots)
        if not rests and (is_addressed or not self._is_waker_addressing):
            self._waker, self._is_waker_addressing = user_id, is_addressed
            self._is_waker_bot = looks_bot or user_id in self.bots

    def said(self, at_ms: int, words: str = "") -> None:
        """Note a message of ours."""
        self._said_at, self._is_ours_last = at_ms, True
        if words and (not self._ours or self._ours[-1] != words):
            self._ours.append(words)

    def turn_began(self, at_ms: int) -> str | None:
        """Note that a turn has begun; return the account with which bots have had theirs: they rest from now on."""
        waker, is_bot = self._waker, self._is_waker_bot
        self._waker, self._is_waker_addressing, self._is_waker_bot = "", False, False
        self._prune(at_ms)
        if not waker:
            return None
        if not is_bot:
            self._opening = at_ms, waker
            return None
        if self._opening[1] == waker and all(account != waker for _, account in self._turns):
            self._turns.append(self._opening)
        self._opening = 0, ""
        self._turns.append((at_ms, waker))
        if len(self._turns) < _MOST_TURNS:
            return None
        self._resting = {account for _, account in self._turns}
        self._rest_until = at_ms + REST_MS
        self._turns.clear()
        self._human.clear()
        return waker

    def rests_until(self, user_id: str, now_ms: int, words: str = "") -> int | None:
        """Return until when this message of an account wakes nobody; None where it may wake."""
        if not self._is_in_rest(now_ms):
            return None
        until = self._rest_until
        if user_id in self.bots:
            return until
        if user_id in self._resting:
            is_human = not self._signs_of_what(words, now_ms, self._delay(now_ms))
            return None if is_human and self._human.get(user_id, 0) + 1 >= self._needed(user_id) else until
        # Whoever is new is answered once, whatever it looks like.
        joins = self._speaks_only_behind_us(user_id) and self.looks_like_bot(user_id, now_ms, words)
        return until if joins else None

    def resting_until(self, now_ms: int) -> int | None:
        """Return until when bots wake nobody; None where they may."""
        return self._rest_until if self._is_in_rest(now_ms) else None

    def asks_about(self, user_id: str, now_ms: int, words: str) -> bool:
        """Whether the mind is to be told now that it may be talking to a bot, which is held next. Notes that it is."""
        self._prune(now_ms)
        is_due = len(self._turns) == _MOST_TURNS - 1 and not self._is_in_rest(now_ms)
        if not is_due or user_id in self.bots or not self.looks_like_bot(user_id, now_ms, words):
            return False
        if self._asked_at is not None and 0 <= now_ms - self._asked_at < REST_MS:
            return False
        self._asked_at = now_ms
        return True

    def looks_like_bot(self, user_id: str, at_ms: int, words: str) -> bool:
        """Whether a message that comes now has the signs of a bot's."""
        delay = self._delay(at_ms)
        if delay < 0:
            return False  # the talk of others among themselves, which is most of a group's: nothing is compared
        of_what = self._signs_of_what(words, at_ms, delay)
        if not of_what:
            return False
        when = 1 if delay <= _QUICK_MS else 0
        when += 1 if self._is_even(user_id, delay) else 0
        when += 1 if self._speaks_only_behind_us(user_id) else 0
        return of_what + when >= _SIGNS

    def checkpoint(self, steady: SteadyTime) -> JsonObject:
        """Return what restores this, as the wall dates it."""
        human: dict[str, JsonValue] = dict(self._human)
        lifted: dict[str, JsonValue] = dict(self._lifted)
        return {
            "lines": [[line.user_id, line.words, line.delay_ms] for line in self._lines],
            "ours": list(self._ours),
            "saidAt": _to_wall(steady, self._said_at),
            "heardAt": _to_wall(steady, self._heard_at),
            "isOursLast": self._is_ours_last,
            "waker": self._waker,
            "isWakerAddressing": self._is_waker_addressing,
            "isWakerBot": self._is_waker_bot,
            "opening": [_to_wall(steady, self._opening[0]), self._opening[1]],
            "turns": [[steady.to_wall(at_ms), account] for at_ms, account in self._turns],
            "restUntil": _to_wall(steady, self._rest_until),
            "resting": sorted(self._resting),
            "askedAt": _to_wall(steady, self._asked_at),
            "human": human,
            "lifted": lifted,
        }

    def restore(self, guards: JsonObject, steady: SteadyTime) -> None:
        """Take over what a checkpoint holds. No span is longer by that, whatever the wall was set to meanwhile."""
        for item in read_array(guards, "lines"):
            match item:
                case [str(user_id), str(words), int(delay_ms)]:
                    self._lines.append(_Line(user_id, words, delay_ms))
                case _:
                    pass
        self._ours.extend(words for words in read_array(guards, "ours") if isinstance(words, str))
        self._said_at = _of_past(steady, read_int(guards, "saidAt")) or None
        self._heard_at = _of_past(steady, read_int(guards, "heardAt")) or None
        self._is_ours_last = guards.get("isOursLast") is True
        self._waker = read_str(guards, "waker")
        self._is_waker_addressing = guards.get("isWakerAddressing") is True
        self._is_waker_bot = guards.get("isWakerBot") is True
        match read_array(guards, "opening"):
            case [int(at_ms), str(account)]:
                self._opening = _of_past(steady, at_ms), account
            case _:
                pass
        for item in read_array(guards, "turns"):
            match item:
                case [int(at_ms), str(account)]:
                    self._turns.append((steady.of_past(at_ms), account))
                case _:
                    pass
        rest_until = read_int(guards, "restUntil")
        self._rest_until = _of_past(steady, rest_until - REST_MS) + REST_MS if rest_until else 0
        self._resting = {account for account in read_array(guards, "resting") if isinstance(account, str)}
        self._asked_at = _of_past(steady, read_int(guards, "askedAt")) or None
        self._human = _counts(read_object(guards, "human"))
        self._lifted = _counts(read_object(guards, "lifted"))

    def _signs_of_what(self, words: str, at_ms: int, delay: int) -> int:
        """Return the weight of what no person does: answering unread, typing too fast, saying the same again."""
        signs = 2 if 0 <= delay <= _AT_ONCE_MS else 0
        since = [at_ms - at for at in (self._said_at, self._heard_at) if at is not None and at <= at_ms]
        if since and is_typed_too_fast(words, min(since)):
            signs += 2
        if any(is_like(words, line.words) for line in self._lines) or any(is_like(words, ours) for ours in self._ours):
            signs += 1
        return signs

    def _is_even(self, user_id: str, delay: int) -> bool:
        """Whether this delay is that of the account's last two as well."""
        earlier = [line.delay_ms for line in self._lines if line.user_id == user_id and line.delay_ms >= 0][-2:]
        within = max(_EVEN_MS, _EVEN_SHARE * delay)
        return delay >= 0 and len(earlier) == 2 and all(abs(delay - other) <= within for other in earlier)

    def _speaks_only_behind_us(self, user_id: str) -> bool:
        mine = [line for line in self._lines if line.user_id == user_id]
        return bool(mine) and all(line.delay_ms >= 0 for line in mine[1:])

    def _delay(self, at_ms: int) -> int:
        if not self._is_ours_last or self._said_at is None or at_ms < self._said_at:
            return -1
        return at_ms - self._said_at

    def _needed(self, user_id: str) -> int:
        """Return how many messages in a row must look like a person's until the account may wake again."""
        return 1 + 2 * self._lifted.get(user_id, 0)

    def _is_in_rest(self, now_ms: int) -> bool:
        return now_ms < self._rest_until

    def _forgive(self, user_id: str) -> None:
        """Take back the newest of an account's turns: it has gone on like a person."""
        if user_id in self.bots:
            return
        for position in range(len(self._turns) - 1, -1, -1):
            if self._turns[position][1] == user_id:
                del self._turns[position]
                return

    def _prune(self, now_ms: int) -> None:
        self._turns = [(at_ms, account) for at_ms, account in self._turns if 0 <= now_ms - at_ms < REST_MS]
        if not self._turns and not self._is_in_rest(now_ms):
            self._resting.clear()
            self._lifted.clear()


def _counts(data: Mapping[str, JsonValue]) -> dict[str, int]:
    return {account: count for account in data if (count := read_int(data, account))}


def _to_wall(steady: SteadyTime, at_ms: int | None) -> int:
    """Return a time as the wall dates it; 0 where there is none."""
    return steady.to_wall(at_ms) if at_ms else 0


def _of_past(steady: SteadyTime, wall_ms: int) -> int:
    """Undo `_to_wall`, for what is over."""
    return steady.of_past(wall_ms) if wall_ms else 0
