"""Notices about the account itself: muted, unmuted, removed from a group, taken in. Pure.

Source: OneBot v11, notice events `group_ban`, `group_decrease` and `group_increase`. Not in the standard: a ban of all
members has the `user_id` 0 (go-cqhttp, NapCat, LLBot, Lagrange) and a `duration` of -1, 0 or years; NapCat tells of a
closed group by the `sub_type` `disband`.
"""

from __future__ import annotations

from typing import Final

from ishiki.contracts.events import StandingChanged, StandingKind
from ishiki.jsonvalue import JsonObject
from ishiki.plugin.accounts import PLATFORM
from ishiki.plugin.wire import read_id, read_text, read_time_ms

__all__ = ["read_standing"]

_LONGEST_MUTE_S: Final = 31 * 86_400
"""QQ mutes for thirty days at most; a longer time is some way to say "until it is lifted"."""

_LEFT_FOR_ALL: Final = ("kick_me", "disband")
"""Sub types of `group_decrease` that are about the account, whatever `user_id` says."""


def read_standing(raw: JsonObject, self_id: str, now_ms: int, *, offset_ms: int = 0) -> StandingChanged | None:
    """Return what a notice tells of the account's right to speak in a group, or None where it is about something else.

    Args:
        raw: the frame, a notice.
        self_id: the account.
        now_ms: the time of day; stands in for an absent or absurd `time`.
        offset_ms: how far the implementation's clock is ahead of ours; the end of a mute is told by ours.
    """
    group_id, sub_type = read_id(raw, "group_id"), read_text(raw, "sub_type")
    user_id = read_id(raw, "user_id")
    is_own = user_id == self_id
    match read_text(raw, "notice_type"):
        case "group_ban" if is_own or not user_id:
            duration_s = _duration_s(raw)
            is_lift = sub_type == "lift_ban" or (is_own and duration_s == 0)
            kind: StandingKind = "unmuted" if is_lift else "muted"
        case "group_decrease" if is_own or sub_type in _LEFT_FOR_ALL:
            duration_s, kind = 0, "removed"
        case "group_increase" if is_own:
            duration_s, kind = 0, "joined"
        case _:
            return None
    if not group_id:
        return None
    dated_ms = read_time_ms(raw, "time", now_ms=now_ms)
    timestamp = now_ms if dated_ms is None else dated_ms
    is_everybody = kind in ("muted", "unmuted") and not is_own
    has_end = kind == "muted" and not is_everybody and 0 < duration_s <= _LONGEST_MUTE_S
    return StandingChanged(
        timestamp,
        PLATFORM,
        self_id,
        f"group:{group_id}",
        kind,
        # Whose clock is ahead must not mute longer than was meant, also before it is known by how much.
        until_ms=min(timestamp - offset_ms, now_ms) + duration_s * 1000 if has_end else 0,
        is_everybody=is_everybody,
        operator_id=read_id(raw, "operator_id"),
    )


def _duration_s(raw: JsonObject) -> int:
    """Return the seconds of a mute; 0 where it is lifted, and -1 where they are absent or no number."""
    try:
        return int(float(read_text(raw, "duration") or "-1"))
    except (ValueError, OverflowError):
        return -1
