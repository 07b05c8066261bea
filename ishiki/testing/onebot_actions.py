"""What a OneBot end answers to API calls, and how a test bends that. No I/O.

Source: the OneBot v11 standard, section api (public, hidden); the forward and history actions are those of go-cqhttp
and NapCat. Retcodes: 1400 and 1404 stand in the standard (communication/ws); 1200 is what NapCat says for an action
that did not work. Long because it is a table: one small function an action.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, TypeAlias

import anyio

from ishiki.jsonvalue import JsonObject, JsonValue, read_bool, read_str
from ishiki.testing.onebot_account import Account, Group, KeptMessage, Sent
from ishiki.testing.onebot_frames import Frame, Segment, notice, read_segments, segment

__all__ = [
    "ACTIONS",
    "Action",
    "Answer",
    "AnswerWhen",
    "AnswerWith",
    "Behaviour",
    "Call",
    "Done",
    "DropSocket",
    "Fail",
    "NeverAnswer",
    "Outcome",
    "SelfReport",
    "perform",
]

BAD_REQUEST = 1400
NO_SUCH_ACTION = 1404
DID_NOT_WORK = 1200

_HISTORY_COUNT = 20
"""How many messages a history call returns when it names no count, as go-cqhttp and NapCat do."""


SelfReport: TypeAlias = Literal["never", "before_answer", "after_answer"]
"""Whether the end reports what the bot sent as `message_sent`, and on which side of the API's answer."""


@dataclass(frozen=True, slots=True)
class Call:
    """One API call of the bot."""

    action: str
    params: JsonObject
    echo: JsonValue
    at: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer with `data`; the end does nothing else."""

    data: JsonValue = None


@dataclass(frozen=True, slots=True)
class Fail:
    """Refuse; the end does nothing."""

    retcode: int = DID_NOT_WORK
    wording: str = "the action did not work"


@dataclass(frozen=True, slots=True)
class NeverAnswer:
    """Keep the bot waiting for ever."""

    performs: bool = True
    """Whether the action takes effect all the same: a message that arrives, but nobody says so."""


@dataclass(frozen=True, slots=True)
class AnswerWith:
    """Answer with a frame of the test's own, such as one of `ishiki.testing.send_answers`."""

    frame: Frame
    """The answer without its echo; a `message_id` of None in its data becomes that of the message."""
    performs: bool = False
    """Whether the action takes effect all the same."""
    report: SelfReport | None = None
    """Whether a message that it sends is reported; None: as the peer does."""


@dataclass(frozen=True, slots=True)
class AnswerWhen:
    """Take effect at once, and answer when `event` is set."""

    event: anyio.Event
    refusal: Fail | None = None
    """What is answered instead; then the action has no effect."""


@dataclass(frozen=True, slots=True)
class DropSocket:
    """Cut the connection instead of an answer, without a close handshake."""

    performs: bool = False
    """Whether the action takes effect before."""


Behaviour: TypeAlias = Answer | AnswerWith | Fail | NeverAnswer | AnswerWhen | DropSocket
"""What a test may make of one call."""


@dataclass(frozen=True, slots=True)
class Done:
    """An action that worked: its answer, what was sent by it, and the events that it causes."""

    data: JsonValue = None
    sent: Sent | None = None
    own_message: KeptMessage | None = None
    events: tuple[Frame, ...] = ()


Outcome: TypeAlias = Done | Fail
"""How an action ended."""

Action: TypeAlias = Callable[[Account, JsonObject], Outcome]


def perform(account: Account, action: str, params: JsonObject) -> Outcome:
    """Do what the call asks, as a real end would."""
    known = ACTIONS.get(action)
    if known is None:
        return Fail(NO_SUCH_ACTION, f"unsupported action: {action}")
    return known(account, params)


def _identity(params: JsonObject, key: str) -> int | None:
    """Read an id; ends take it as a number and as text."""
    number = read_str(params, key)
    return int(number) if number.lstrip("-").isdigit() else None


def _missing(*keys: str) -> Fail:
    return Fail(BAD_REQUEST, f"missing or malformed parameter: {', '.join(keys)}")


def _joined_group(account: Account, params: JsonObject) -> Group | Fail:
    group_id = _identity(params, "group_id")
    if group_id is None:
        return _missing("group_id")
    known = account.groups.get(group_id)
    return Fail(DID_NOT_WORK, f"the account is not in group {group_id}") if known is None else known


def _send_group_msg(account: Account, params: JsonObject) -> Outcome:
    segments = read_segments(params.get("message"), auto_escape=read_bool(params, "auto_escape"))
    return _missing("message") if segments is None else _to_group(account, params, segments)


def _to_group(account: Account, params: JsonObject, segments: Sequence[Segment]) -> Outcome:
    group = _joined_group(account, params)
    if isinstance(group, Fail):
        return group
    if account.self_id in group.muted or group.is_whole_muted:
        return Fail(DID_NOT_WORK, "the account is muted in this group")
    if not segments:
        return Fail(DID_NOT_WORK, "the message is empty")
    speaker = group.members.get(account.self_id, account.itself)
    kept = account.new_message(speaker, segments, group_id=group.group_id, user_id=account.self_id)
    return _sent(account, kept, params.get("message"), segments)


def _send_private_msg(account: Account, params: JsonObject) -> Outcome:
    segments = read_segments(params.get("message"), auto_escape=read_bool(params, "auto_escape"))
    return _missing("message") if segments is None else _to_person(account, params, segments)


def _to_person(account: Account, params: JsonObject, segments: Sequence[Segment]) -> Outcome:
    user_id = _identity(params, "user_id")
    if user_id is None:
        return _missing("user_id")
    shared_group = account.groups.get(_identity(params, "group_id") or 0)
    if user_id not in account.friends and (shared_group is None or user_id not in shared_group.members):
        return Fail(DID_NOT_WORK, f"user {user_id} is no friend of the account")
    if not segments:
        return Fail(DID_NOT_WORK, "the message is empty")
    kept = account.new_message(account.itself, segments, group_id=None, user_id=user_id)
    return _sent(account, kept, params.get("message"), segments)


def _sent(account: Account, kept: KeptMessage, message: JsonValue, segments: Sequence[Segment]) -> Done:
    return Done({"message_id": kept.message_id}, account.sent(kept, message, segments), kept)


def _is_for_group(params: JsonObject) -> bool:
    kind = read_str(params, "message_type")
    return kind == "group" or (kind != "private" and _identity(params, "group_id") is not None)


def _send_msg(account: Account, params: JsonObject) -> Outcome:
    return _send_group_msg(account, params) if _is_for_group(params) else _send_private_msg(account, params)


def _send_forward_msg(account: Account, params: JsonObject) -> Outcome:
    nodes = read_segments(params.get("messages"))
    if not nodes:
        return _missing("messages")
    forward_id = f"forward-{len(account.forwards) + 1}"
    outcome = (_to_group if _is_for_group(params) else _to_person)(account, params, [segment("forward", id=forward_id)])
    if isinstance(outcome, Fail) or outcome.own_message is None:
        return outcome
    account.forwards[forward_id] = nodes
    return replace(outcome, data={"message_id": outcome.own_message.message_id, "forward_id": forward_id})


def _get_forward_msg(account: Account, params: JsonObject) -> Outcome:
    forward_id = read_str(params, "id") or read_str(params, "message_id")
    nodes = account.forwards.get(forward_id)
    return Fail(DID_NOT_WORK, f"no forward message {forward_id!r}") if nodes is None else Done({"message": list(nodes)})


def _kept(account: Account, params: JsonObject) -> KeptMessage | Fail:
    message_id = _identity(params, "message_id")
    if message_id is None:
        return _missing("message_id")
    known = account.messages.get(message_id)
    return Fail(DID_NOT_WORK, f"no message {message_id}") if known is None else known


def _get_msg(account: Account, params: JsonObject) -> Outcome:
    kept = _kept(account, params)
    return kept if isinstance(kept, Fail) else Done({**kept.event, "real_id": kept.message_id})


def _delete_msg(account: Account, params: JsonObject) -> Outcome:
    kept = _kept(account, params)
    if isinstance(kept, Fail):
        return kept
    del account.messages[kept.message_id]
    user_id = kept.event["user_id"]
    if kept.kind == "private":
        return Done(events=(notice("friend_recall", user_id=user_id, message_id=kept.message_id),))
    recalled = notice(
        "group_recall",
        group_id=kept.target_id,
        user_id=user_id,
        operator_id=account.self_id,
        message_id=kept.message_id,
    )
    return Done(events=(recalled,))


def _get_group_msg_history(account: Account, params: JsonObject) -> Outcome:
    group = _joined_group(account, params)
    return group if isinstance(group, Fail) else _history(account, group.group_id, params, is_group=True)


def _get_friend_msg_history(account: Account, params: JsonObject) -> Outcome:
    user_id = _identity(params, "user_id")
    return _missing("user_id") if user_id is None else _history(account, user_id, params, is_group=False)


def _history(account: Account, target_id: int, params: JsonObject, *, is_group: bool) -> Done:
    """Return the newest messages, oldest first; `message_seq` is the newest one wanted (absent or 0: the last)."""
    newest = _identity(params, "message_seq") or None
    count = _identity(params, "count") or _HISTORY_COUNT
    found: list[JsonValue] = []
    for kept in account.history("group" if is_group else "private", target_id):
        found.append({**kept.event, "real_id": kept.message_id})
        if kept.message_id == newest:
            break
    return Done({"messages": found[-count:]})


def _get_login_info(account: Account, _params: JsonObject) -> Outcome:
    return Done({"user_id": account.self_id, "nickname": account.nickname})


def _get_stranger_info(account: Account, params: JsonObject) -> Outcome:
    user_id = _identity(params, "user_id")
    if user_id is None:
        return _missing("user_id")
    places = (account.friends, *(group.members for group in account.groups.values()))
    found = next(islice((people[user_id] for people in places if user_id in people), 1), None)
    return Fail(DID_NOT_WORK, f"no user {user_id}") if found is None else Done(found.sender("private"))


def _get_friend_list(account: Account, _params: JsonObject) -> Outcome:
    return Done([{"user_id": who.user_id, "nickname": who.nickname, "remark": ""} for who in account.friends.values()])


def _get_group_info(account: Account, params: JsonObject) -> Outcome:
    group = _joined_group(account, params)
    return group if isinstance(group, Fail) else Done(group.info())


def _get_group_list(account: Account, _params: JsonObject) -> Outcome:
    return Done([group.info() for group in account.groups.values()])


def _get_group_member_info(account: Account, params: JsonObject) -> Outcome:
    group, user_id = _joined_group(account, params), _identity(params, "user_id")
    if isinstance(group, Fail):
        return group
    member = group.members.get(user_id or 0)
    if member is None:
        return Fail(DID_NOT_WORK, f"no member {user_id}")
    return Done({**member.info(group.group_id), "shut_up_timestamp": group.muted_until.get(member.user_id, 0)})


def _get_group_member_list(account: Account, params: JsonObject) -> Outcome:
    group = _joined_group(account, params)
    if isinstance(group, Fail):
        return group
    return Done([member.info(group.group_id) for member in group.members.values()])


def _set_group_ban(account: Account, params: JsonObject) -> Outcome:
    group, user_id = _joined_group(account, params), _identity(params, "user_id")
    if isinstance(group, Fail):
        return group
    if user_id is None:
        return _missing("user_id")
    duration = _identity(params, "duration")
    seconds = 30 * 60 if duration is None else duration  # the standard's default
    (group.muted.add if seconds else group.muted.discard)(user_id)
    banned = notice(
        "group_ban",
        sub_type="ban" if seconds else "lift_ban",
        group_id=group.group_id,
        operator_id=account.self_id,
        user_id=user_id,
        duration=seconds,
    )
    return Done(events=(banned,))


def _set_group_whole_ban(account: Account, params: JsonObject) -> Outcome:
    group = _joined_group(account, params)
    if isinstance(group, Fail):
        return group
    group.is_whole_muted = read_bool(params, "enable", default=True)
    return Done()


def _set_group_card(account: Account, params: JsonObject) -> Outcome:
    group, user_id = _joined_group(account, params), _identity(params, "user_id")
    if isinstance(group, Fail):
        return group
    if user_id is None or user_id not in group.members:
        return Fail(DID_NOT_WORK, f"no member {user_id}")
    group.members[user_id] = replace(group.members[user_id], card=read_str(params, "card"))
    return Done()


def _set_group_name(account: Account, params: JsonObject) -> Outcome:
    group = _joined_group(account, params)
    if isinstance(group, Fail):
        return group
    group.name = read_str(params, "group_name")
    return Done()


def _set_group_kick(account: Account, params: JsonObject) -> Outcome:
    group, user_id = _joined_group(account, params), _identity(params, "user_id")
    if isinstance(group, Fail):
        return group
    if user_id is None or group.members.pop(user_id, None) is None:
        return Fail(DID_NOT_WORK, f"no member {user_id}")
    left = notice(
        "group_decrease", sub_type="kick", group_id=group.group_id, operator_id=account.self_id, user_id=user_id
    )
    return Done(events=(left,))


def _set_group_leave(account: Account, params: JsonObject) -> Outcome:
    group = _joined_group(account, params)
    if isinstance(group, Fail):
        return group
    del account.groups[group.group_id]
    return Done()


def _get_file(account: Account, params: JsonObject) -> Outcome:
    name = read_str(params, "file") or read_str(params, "file_id")
    known = account.files.get(name)
    return Fail(DID_NOT_WORK, f"no file {name!r}") if known is None else Done(known)


def _nothing(_account: Account, _params: JsonObject) -> Outcome:
    """Work without a trace, as `send_like` and the answers to requests do for what a bot can see."""
    return Done()


def _get_status(_account: Account, _params: JsonObject) -> Outcome:
    return Done({"online": True, "good": True})


def _get_version_info(_account: Account, _params: JsonObject) -> Outcome:
    return Done({"app_name": "ishiki.testing", "app_version": "1", "protocol_version": "v11"})


def _can(_account: Account, _params: JsonObject) -> Outcome:
    return Done({"yes": True})


ACTIONS: dict[str, Action] = {
    "can_send_image": _can,
    "can_send_record": _can,
    "delete_msg": _delete_msg,
    "get_file": _get_file,
    "get_forward_msg": _get_forward_msg,
    "get_friend_list": _get_friend_list,
    "get_friend_msg_history": _get_friend_msg_history,
    "get_group_info": _get_group_info,
    "get_group_list": _get_group_list,
    "get_group_member_info": _get_group_member_info,
    "get_group_member_list": _get_group_member_list,
    "get_group_msg_history": _get_group_msg_history,
    "get_image": _get_file,
    "get_login_info": _get_login_info,
    "get_msg": _get_msg,
    "get_record": _get_file,
    "get_status": _get_status,
    "get_stranger_info": _get_stranger_info,
    "get_version_info": _get_version_info,
    "group_poke": _nothing,
    "send_forward_msg": _send_forward_msg,
    "send_group_forward_msg": _send_forward_msg,
    "send_group_msg": _send_group_msg,
    "send_like": _nothing,
    "send_msg": _send_msg,
    "send_private_forward_msg": _send_forward_msg,
    "send_private_msg": _send_private_msg,
    "set_friend_add_request": _nothing,
    "set_group_add_request": _nothing,
    "set_group_ban": _set_group_ban,
    "set_group_card": _set_group_card,
    "set_group_kick": _set_group_kick,
    "set_group_leave": _set_group_leave,
    "set_group_name": _set_group_name,
    "set_group_whole_ban": _set_group_whole_ban,
}
"""Every action this end knows; all others get retcode 1404."""
