"""What the failed answer to a send means: whether people may have read the message, and whether anything can be said.

Pure. OneBot v11 gives a failure a `retcode` of the implementation's own and, at most, a text; what they are is not in
the standard. Sources: issues and sources of NapCat (`Timeout: NTEvent …`, `EventChecker Failed: …` around QQ's own
result), LLBot, Lagrange.OneBot (QQ's result as the retcode) and go-cqhttp; each form that we know is in
`ishiki.testing.send_answers`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ishiki.contracts.platform import SendOutcome, SpeechBar
from ishiki.jsonvalue import JsonObject
from ishiki.plugin.wire import read_text

__all__ = ["read_failure", "words_of_failure"]

_MAX_DETAIL_CHARS: Final = 120
_SPACE = re.compile(r"\s+")

_QQ_RESULT = re.compile(r"\bresult\W{1,6}(-?\d{1,9})\b")
"""QQ's own result, as NapCat quotes it: `"result": 120`."""

_RESULT_BARS: Final[Mapping[str, SpeechBar]] = MappingProxyType({"16": "removed", "110": "removed", "120": "muted"})
"""QQ's results for a message to a place where the account may not speak."""

_BARS: Final[tuple[tuple[SpeechBar, re.Pattern[str]], ...]] = (
    ("muted", re.compile(r"\bmuted?\b|\b(?:is|are|was|been) banned\b|禁言", re.IGNORECASE)),
    (
        "removed",
        re.compile(
            r"not in (?:the |this )?group|no such group|not a member|group[_ ]not[_ ]found|不在.{0,4}群|已退群"
            r"|移出该?群|群聊?不存在|群已解散|请重新加群",
            re.IGNORECASE,
        ),
    ),
    (
        "not_friend",
        re.compile(
            r"no friend|not (?:a |your )?friend|friend[_ ]not[_ ]found|(?:不是|非)(?:对方|你的?)?好友|好友不存在"
            r"|添加.{0,4}好友|对方拒收|被对方拉黑|不能发送临时消息|临时会话.{0,8}(?:关闭|失败)",
            re.IGNORECASE,
        ),
    ),
    (
        "offline",
        re.compile(
            r"account.{0,12}offline|not logged ?in|kicked offline|(?:账号|帐号|机器人|bot).{0,4}(?:离线|不在线|掉线)"
            r"|未登录|登录(?:已)?失效|被踢下线",
            re.IGNORECASE,
        ),
    ),
)

_MAY_HAVE_BEEN_READ = re.compile(
    r"time[- ]?d? ?-?out|超时|deadline exceeded|SEND_MSG_API_ERROR|可能被风控|socket hang up|ECONNRESET|EPIPE"
    r"|connection (?:was |is )?(?:lost|closed|reset)|连接.{0,4}(?:断开|中断|重置)",
    re.IGNORECASE,
)
"""The implementation has handed the message to QQ and saw no receipt. What people saw it does not know: NapCat's and
LLBot's timeouts are read as often as not, and go-cqhttp's risk notice is what a receipt that never came looks like."""

_TOO_FAST = re.compile(r"too (?:fast|many|frequent)|rate.?limit|过于频繁|频率|发送太快", re.IGNORECASE)

_WORDS: Final[Mapping[SpeechBar, str]] = MappingProxyType(
    {
        "muted": "the account is muted there",
        "removed": "the account is not a member of that group",
        "not_friend": "they are no friend of the account, or take no messages from it",
        "offline": "the account is not logged in to the chat",
    }
)
"""What the model reads."""


def read_failure(answer: JsonObject) -> SendOutcome:
    """Return what became of a message whose send was answered as failed.

    `unknown`: a timeout in any form, and whatever else says that no receipt came: people may have read it. `refused`:
    they have not; with a `bar` where nothing else could be said there either. QQ's own verdict, where the answer quotes
    it, counts more than the words around it.

    Args:
        answer: the whole frame.
    """
    said = " ".join(text for key in ("wording", "message", "msg") if (text := read_text(answer, key)))
    retcode = read_text(answer, "retcode")
    quoted = _QQ_RESULT.search(said)
    result = quoted[1] if quoted is not None else ""
    bar = _RESULT_BARS.get(result) or _bar_in(said)
    is_unsure = _MAY_HAVE_BEEN_READ.search(said) is not None
    if bar is None and not is_unsure and not quoted:
        # Lagrange gives QQ's result as the retcode, and 0 with `failed` where the receipt never came.
        bar = _RESULT_BARS.get(retcode)
        is_unsure = retcode == "0"
    if bar is not None:
        return SendOutcome("refused", detail=_WORDS[bar], bar=bar)
    if is_unsure or result == "0":
        return SendOutcome("unknown", detail="no confirmation came: the chat's own confirmation timed out")
    if _TOO_FAST.search(said):
        return SendOutcome("refused", detail="the account sends too fast for the chat")
    return SendOutcome("refused", detail=words_of_failure(answer))


def _bar_in(said: str) -> SpeechBar | None:
    return next((bar for bar, pattern in _BARS if pattern.search(said)), None)


def words_of_failure(answer: JsonObject) -> str:
    """Return what an implementation says of a failure, as one line of at most 120 characters."""
    first = read_text(answer, "wording", "message", "msg") or f"retcode {read_text(answer, 'retcode') or 'unknown'}"
    line = _SPACE.sub(" ", first).strip()
    return line if len(line) <= _MAX_DETAIL_CHARS else f"{line[:_MAX_DETAIL_CHARS]}…"
