"""`SpeechBars`: whether anything can be said in one channel, and until when not. Pure: the log tells it, and asks it.

Two kinds of knowledge: what the platform announces (muted until then, removed, taken in again), and what came of the
sends. A bar whose end nobody knows gives way for one try after a pause that doubles, from a minute to an hour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, get_args

from ishiki.contracts.events import MessageCreated, StandingChanged
from ishiki.contracts.platform import SpeechBar, Standing
from ishiki.core.clock import SteadyTime
from ishiki.jsonvalue import JsonObject, JsonValue, read_int, read_str
from ishiki.tools.deliveries import Delivery

__all__ = ["NEVER_MS", "SpeechBars"]

NEVER_MS: Final = 253_402_300_799_000
"""The end of the year 9999: a bar without an end."""

_FIRST_PAUSE_MS: Final = 60_000
_LONGEST_PAUSE_MS: Final = 3_600_000
"""The pause between two tries. Our choice: a person who is muted for a while tries again at about this rate."""

_REFUSED_TURNS: Final = 2
_UNSURE_TURNS: Final = 3
"""Turns in a row that said nothing for certain after which a pause begins: refused each time, or never confirmed.
Fewer would silence a mind for one text that a platform does not like."""

_REFUSAL_BARS: Final = frozenset(get_args(SpeechBar))

_WORDS: Final = {
    "muted": "the account is muted there",
    "removed": "the account is no member of that group",
    "not_friend": "the person takes no messages from the account",
    "offline": "the account is not logged in to the chat",
}


@dataclass(slots=True)
class SpeechBars:
    """What bars the account in one channel. Times are steady ones in milliseconds, where nothing else is said."""

    muted_until_ms: int = 0
    """The end of a mute of the account's own, as it was announced."""
    removed_at_ms: int = 0
    """When the account was removed from the group, by the platform's clock; 0: it was not."""
    bar: SpeechBar | None = None
    """Why nothing can be said, where nobody knows the end of it."""
    is_everybody: bool = False
    """Whether it is everybody who is muted."""
    tries: int = 0
    """Turns in a row that could say nothing."""
    rests_until_ms: int = 0
    """Until when no further try is made."""
    _turn_is_over: bool = False
    """Whether the running turn has been counted already."""
    _has_said: bool = False
    _has_failed: bool = False
    _is_unsure: bool = False

    @property
    def is_clear(self) -> bool:
        """Whether nothing is known against speaking."""
        return not (self.removed_at_ms or self.bar or self.tries or self.muted_until_ms)

    @property
    def why(self) -> str:
        """Why nothing can be said, in a few words for a model and a log."""
        if self.removed_at_ms:
            return _WORDS["removed"]
        if self.bar is not None:
            return "everybody in that group is muted" if self.is_everybody else _WORDS[self.bar]
        return _WORDS["muted"] if self.muted_until_ms else "what is sent there is refused or never confirmed"

    def held_until(self, now_ms: int) -> int | None:
        """Return until when nothing can be said; None where it can, or may be tried."""
        until = NEVER_MS if self.removed_at_ms else max(self.muted_until_ms, self.rests_until_ms)
        return until if until > now_ms else None

    def is_lifted(self, now_ms: int) -> bool:
        """Whether it is over for certain, and not only worth another try."""
        is_certain = self.bar is None and (not self.tries or self.muted_until_ms > 0)
        return is_certain and self.held_until(now_ms) is None

    def note_delivery(self, delivery: Delivery, at_ms: int) -> None:
        """Learn from what became of a message."""
        match delivery.state:
            case "sent" if delivery.is_late:
                self._has_said = True
                if self.bar is None:
                    self.tries, self.rests_until_ms = 0, 0
            case "sent":
                self._has_said = True
                self.clear()
            case "failed" if delivery.reason in _REFUSAL_BARS:
                self.bar = next(one for one in get_args(SpeechBar) if one == delivery.reason)
                self._pause(at_ms, allowed=0)
            case "failed" if delivery.reason == "refused":
                self._has_failed = True
            case "unknown":
                self._is_unsure = True
            case _:
                pass

    def note_turn_end(self, at_ms: int) -> None:
        """Count a turn that has sent something here."""
        is_vain = (self._has_failed or self._is_unsure) and not self._has_said
        if is_vain and not self._turn_is_over:
            self._pause(at_ms, allowed=(_REFUSED_TURNS if self._has_failed else _UNSURE_TURNS) - 1)
        self._turn_is_over = self._has_said = self._has_failed = self._is_unsure = False

    def note_standing(self, event: StandingChanged, at_ms: int) -> None:
        """Learn from what the platform announces."""
        match event.kind:
            case "muted" if event.until_ms and not event.is_everybody:
                self.muted_until_ms = event.until_ms
            case "muted":
                self.bar, self.is_everybody = "muted", event.is_everybody
                self._pause(at_ms, allowed=0)
            case "unmuted" if self.is_everybody and not event.is_everybody:
                self.muted_until_ms = 0
            case "unmuted":
                muted_until_ms = self.muted_until_ms if event.is_everybody else 0
                self.clear()
                self.muted_until_ms = muted_until_ms
            case "removed":
                self.clear()
                self.removed_at_ms = max(event.timestamp, 1)
            case "joined":
                self.clear()

    def note_heard(self, event: MessageCreated) -> None:
        """Learn from a line of the channel: who is in a group hears it, and who is not does not."""
        if self.removed_at_ms and event.timestamp > self.removed_at_ms:
            self.clear()

    def note_probe(self, standing: Standing, now_ms: int, *, may_lift: bool = False) -> None:
        """Learn from what the platform says when it is asked.

        Args:
            standing: what it says.
            now_ms: the time of day.
            may_lift: whether it knows better than an announced mute, which it then lifts; else it may be behind.
        """
        if standing.muted_until_ms > now_ms and not standing.is_admin:
            self.muted_until_ms = standing.muted_until_ms
            self.bar, self.rests_until_ms = None, 0
        elif standing.is_admin and self.is_everybody:
            self.clear()
        elif may_lift and self.muted_until_ms > now_ms:
            self.muted_until_ms = now_ms

    def clear(self) -> None:
        """Know nothing against speaking any more; what the running turn has done stays known."""
        self.muted_until_ms = self.removed_at_ms = self.tries = self.rests_until_ms = 0
        self.bar, self.is_everybody = None, False

    def _pause(self, at_ms: int, *, allowed: int) -> None:
        self.tries += 1
        self._turn_is_over = True
        if self.muted_until_ms <= at_ms:
            self.muted_until_ms = 0
        if (vain := self.tries - allowed) > 0:
            self.rests_until_ms = at_ms + min(_FIRST_PAUSE_MS * 2 ** min(vain - 1, 16), _LONGEST_PAUSE_MS)

    def checkpoint(self, steady: SteadyTime) -> dict[str, JsonValue]:
        """Return what restores this, as the wall dates it."""
        return {
            "mutedUntil": self.muted_until_ms and steady.to_wall(self.muted_until_ms),
            "removedAt": self.removed_at_ms,
            "bar": self.bar or "",
            "everybody": self.is_everybody,
            "tries": self.tries,
            "restsUntil": self.rests_until_ms and steady.to_wall(self.rests_until_ms),
        }

    @classmethod
    def restored(cls, data: JsonObject, steady: SteadyTime) -> SpeechBars:
        """Return what a checkpoint holds. No pause is longer than the longest, whatever the wall was set to."""
        muted_until, rests_until = read_int(data, "mutedUntil"), read_int(data, "restsUntil")
        return cls(
            muted_until_ms=muted_until and muted_until - steady.shift_ms,
            removed_at_ms=read_int(data, "removedAt"),
            bar=next((one for one in get_args(SpeechBar) if one == read_str(data, "bar")), None),
            is_everybody=data.get("everybody") is True,
            tries=read_int(data, "tries"),
            rests_until_ms=rests_until and steady.of_past(rests_until - _LONGEST_PAUSE_MS) + _LONGEST_PAUSE_MS,
        )
