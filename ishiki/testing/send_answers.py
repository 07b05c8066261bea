"""What real OneBot implementations answer to a send: one table of named forms. No I/O.

    peer.script("send_group_msg", SEND_ANSWERS["napcat timeout"].behaviour())

Each form says whether people have read the message, which is what the answer itself often gets wrong, and where it was
seen. Texts are quoted as far as they matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from ishiki.contracts.platform import SpeechBar
from ishiki.jsonvalue import JsonValue
from ishiki.testing.onebot_actions import AnswerWith, SelfReport
from ishiki.testing.onebot_frames import Frame

__all__ = ["SEND_ANSWERS", "Implementation", "SendAnswer"]

Implementation: TypeAlias = Literal["napcat", "llbot", "lagrange", "go-cqhttp"]


@dataclass(frozen=True, slots=True)
class SendAnswer:
    """One form of an answer."""

    implementation: Implementation
    frame: Frame
    """The answer without its echo. `message_id` in its data stands for the message's real id where it is None."""
    is_read: bool | None
    """Whether people have read the message; None: it has been seen either way, so nobody can tell."""
    source: str
    """Where the form was seen."""
    bar: SpeechBar | None = None
    """Why nothing at all can be said there, where that is what it means."""

    def behaviour(self, *, is_read: bool = False, report: SelfReport | None = None) -> AnswerWith:
        """Return what a peer does that answers so.

        Args:
            is_read: whether people read the message where the form is seen either way.
            report: whether the account's own report of it comes; None: as the peer does.
        """
        return AnswerWith(self.frame, performs=is_read if self.is_read is None else self.is_read, report=report)


def _failed(retcode: int, text: str, *, key: str = "message") -> Frame:
    words: dict[str, JsonValue] = {"message": text, "wording": text} if key == "message" else {key: text}
    return {"status": "failed", "retcode": retcode, "data": None, **words}


_NT_EVENT = (
    "NTEvent serviceAndMethod:NodeIKernelMsgService/sendMsg ListenerName:NodeIKernelMsgListener/onMsgInfoListUpdate "
    "EventRet:\n"
)


def _event_ret(result: int, message: str) -> str:
    return f'{_NT_EVENT}{{\n    "result": {result},\n    "errMsg": "{message}"\n}}\n'


_REMOVED = "发送失败，你已被移出该群，请重新加群。"
_MUTED = "你已被禁言，消息无法发送。"
_GO_CQHTTP_LOG = "请参考 go-cqhttp 端输出"

SEND_ANSWERS: Final[Mapping[str, SendAnswer]] = MappingProxyType(
    {
        # Timeouts: the message is there as often as not.
        "napcat timeout": SendAnswer(
            "napcat", _failed(1200, f"Timeout: {_NT_EVENT}{{}}\n"), None, "NapCatQQ issues 932, 1255, 1772"
        ),
        "napcat timeout with result 0": SendAnswer(
            "napcat", _failed(1200, f"Timeout: {_event_ret(0, '')}"), None, "NapCatQQ issues 808, 1410"
        ),
        "napcat timeout 200": SendAnswer(
            "napcat", _failed(200, f"Timeout: {_NT_EVENT}{{}}\n"), None, "NapCatQQ issue 600"
        ),
        "napcat timeout with a trace": SendAnswer(
            "napcat",
            _failed(1200, f"Error: Timeout: {_event_ret(1, '')}\n    at Timeout.databack [as _onTimeout]"),
            None,
            "NapCatQQ issues 199, 237",
        ),
        "napcat packet timeout": SendAnswer(
            "napcat",
            _failed(1200, "[PacketClient] sendPacket 超时 cmd=MessageSvc.PbSendMsg timeout=5000ms"),
            None,
            "NapCatQQ issue 1922",
        ),
        "napcat old timeout": SendAnswer("napcat", _failed(1200, "发送超时"), None, "NapCatQQ issues 72, 108"),
        "llbot timeout": SendAnswer("llbot", _failed(200, "发送超时"), None, "LuckyLilliaBot issues 243, 314"),
        "lagrange without a receipt": SendAnswer(
            "lagrange",
            {"status": "failed", "retcode": 0, "data": None},
            None,
            "Lagrange.OneBot, SendGroupMessageOperation: no sequence",
        ),
        "go-cqhttp without a receipt": SendAnswer(
            "go-cqhttp",
            {"status": "failed", "retcode": 100, "data": None, "msg": "SEND_MSG_API_ERROR", "wording": _GO_CQHTTP_LOG},
            None,
            "go-cqhttp issues 382, 2284",
        ),
        # Success, with odd ids.
        "ok": SendAnswer(
            "napcat", {"status": "ok", "retcode": 0, "data": {"message_id": None}, "message": ""}, True, "OneBot v11"
        ),
        "napcat id 0": SendAnswer(
            "napcat", {"status": "ok", "retcode": 0, "data": {"message_id": 0}}, True, "NapCatQQ, SendMsg: no unique id"
        ),
        "ok without data": SendAnswer("lagrange", {"status": "ok", "retcode": 0, "data": None}, True, "OneBot v11"),
        "put off": SendAnswer(
            "go-cqhttp", {"status": "async", "retcode": 1, "data": None}, True, "OneBot v11, api, asynchronous calls"
        ),
        "go-cqhttp id -1": SendAnswer(
            "go-cqhttp", {"status": "ok", "retcode": 0, "data": {"message_id": -1}}, None, "MiraiGo, message id -1"
        ),
        # Nothing can be said there.
        "napcat muted": SendAnswer(
            "napcat",
            _failed(1200, f"EventChecker Failed: {_event_ret(120, _MUTED)}"),
            False,
            "NapCatQQ issue 901; QQ's result 120",
            "muted",
        ),
        "napcat removed": SendAnswer(
            "napcat",
            _failed(1200, f"EventChecker Failed: {_event_ret(110, _REMOVED)}"),
            False,
            "NapCatQQ issue 600",
            "removed",
        ),
        "napcat no temporary chat": SendAnswer(
            "napcat", _failed(1200, "不能发送临时消息"), False, "NapCatQQ issue 37", "not_friend"
        ),
        "llbot muted": SendAnswer(
            "llbot", _failed(200, "当前处于被禁言状态"), False, "LuckyLilliaBot issues 445, 802", "muted"
        ),
        "lagrange muted": SendAnswer(
            "lagrange",
            {"status": "failed", "retcode": 120, "data": None},
            False,
            "Lagrange.Core issue 482; SendGroupMessageOperation gives QQ's result",
            "muted",
        ),
        "lagrange removed": SendAnswer(
            "lagrange", {"status": "failed", "retcode": 110, "data": None}, False, "QQ's result 110", "removed"
        ),
        "go-cqhttp no group": SendAnswer(
            "go-cqhttp",
            {"status": "failed", "retcode": 100, "data": None, "msg": "GROUP_NOT_FOUND", "wording": "群聊不存在"},
            False,
            "go-cqhttp, coolq/api.go",
            "removed",
        ),
        # This one message is not taken.
        "napcat media failed": SendAnswer(
            "napcat",
            _failed(200, f"EventChecker Failed: {_event_ret(-1, 'rich media transfer failed')}"),
            False,
            "NapCatQQ issue 182 and ShowMeJM issue 17",
        ),
        "napcat nothing to send": SendAnswer(
            "napcat", _failed(1200, "消息体无法解析, 请检查是否发送了不支持的消息类型"), False, "NapCatQQ, SendMsg"
        ),
        "too fast": SendAnswer("napcat", _failed(1200, "发送消息过于频繁，请稍后再试"), False, "QQ's own words"),
        "bad request": SendAnswer(
            "go-cqhttp", {"status": "failed", "retcode": 1400, "data": None, "msg": "EMPTY_MSG_ERROR"}, False, "OneBot"
        ),
    }
)
"""By name."""
