"""A model that writes the transcript on: heads of lines are no words of its own.

The mind's own head at the start of a line goes; where a line speaks as somebody else, the words end. Heads are those of
`lines` and of the world state of context `v3`, as models imitate them. Code in Markdown is left as it is. Linear.
"""

from __future__ import annotations

import re

from ishiki.content.code_spans import code_at, code_spans
from ishiki.content.lines import INDENT

__all__ = ["without_line_heads"]

_TIME = r"\[(?:[0-9]{4}-)?[0-9]{1,2}[-/][0-9]{1,2}[ T][0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?\]"
_NAME = r"[^()\[\]#:<>&|\n]{1,64}?"
_TYPED_NAME = r"[^()（）\[\]#:：<>&|\n,.!?;，。！？；、]{1,24}?"
_WORD = r"[^()（）\[\]#:：<>&|\s]{1,64}"
_ID = r"[A-Za-z0-9_-]{1,64}"
_NUMBER = r"#[\w.-]{1,64}"
_YOU = r"[(（]you[)）]"
_COLON = r"[ ]?[:：](?!//)[ ]?"
_REPLY = r"(?:[(（]reply to [^()（）\n]{1,300}[)）][ ]?)?"

_HEAD = re.compile(
    # [11-30 10:00] Rin(42) #7: — the number, or the colon, may be missing behind a time.
    rf"[ \t]{{0,8}}(?:<message>)?(?P<time>{_TIME})[ ]?"
    rf"(?:(?:(?P<you>{_YOU})|(?P<name>{_NAME})[(（](?P<id>{_ID})[)）]|(?P<bare>{_WORD}))"
    rf"(?:[ ]?(?P<bare_number>{_NUMBER}){_COLON}|{_COLON})|(?P<you_alone>{_YOU})[ ])"
    # (you) #12: and Rin(10001) #12: without a time.
    rf"|[ \t]{{0,8}}(?:(?P<you2>{_YOU})|(?P<name2>{_TYPED_NAME})[(（](?P<id2>{_ID})[)）]|(?P<bare2>[0-9]{{5,20}}))"
    rf"(?:[ ](?P<number>{_NUMBER}))?{_COLON}"
    # [12|11-30 10:00|Rin(42)] of the world state.
    rf"|[ \t]{{0,8}}(?:<message>)?\[{_ID}\|[0-9-]{{3,10}}[ T][0-9:]{{3,8}}\|"
    rf"(?:(?P<you3>{_YOU})|(?P<name3>{_NAME})[(（](?P<id3>{_ID})[)）]|(?P<bare3>{_WORD}))(?:\|[^\]\n]{{0,300}})?\][ ]?"
)
_FOREIGN = re.compile(
    rf"[ \t]{{0,8}}(?:{_TIME}[ ]?\(recall\) |<(?:world_state|processed_events|new_events|system_event|system_note)>)"
)
_CHANNEL = re.compile(r"[ \t]{0,8}\[channel target=\{[^\n]{0,600}\}\][ \t]*")
_LEADING_REPLY = re.compile(r"[(（]reply to (?:#|your |you[:：]|an unknown message)[^()（）\n]{0,300}[)）][ ]?")
_BEHIND_HEAD = re.compile(_REPLY)
_TIME_ALONE = re.compile(rf"[ \t]{{0,8}}{_TIME}[ ]")
_MIN_ID_DIGITS = 5
"""An account's number in front of a colon is a head where it is as long as those of real accounts."""


def without_line_heads(text: str, self_id: str = "") -> str:
    """Return the words of `text`: without the mind's own heads, and without what it says as somebody else.

    Args:
        text: what the model wrote.
        self_id: the mind's own account; "" where it is not known.
    """
    spans = code_spans(text)
    kept: list[str] = []
    own_name = ""
    is_changed = is_behind_head = False
    position = 0
    for line in text.splitlines(keepends=True):
        start, position = position, position + len(line)
        if code_at(spans, start + 1) is not None:
            kept.append(line)
            continue
        if _CHANNEL.fullmatch(line.rstrip("\r\n")) is not None:
            is_changed = True
            continue
        if _FOREIGN.match(line) is not None:
            is_changed = True
            break
        head = _HEAD.match(line)
        if head is None or not _counts(head, self_id):
            kept.append(line.removeprefix(INDENT) if is_behind_head else line)
            continue
        is_changed = is_behind_head = True
        speaker = _speaker(head)
        # A word without a number may be a name, and the first one is the mind's: it writes its own line.
        is_name = head["bare"] is not None and head["bare_number"] is None and not speaker.isdigit()
        is_own = speaker in ("", self_id) or (is_name and speaker == (own_name or speaker))
        if not is_own:
            break
        own_name = own_name or speaker
        rest = line[head.end() :]
        reply = _BEHIND_HEAD.match(rest)
        kept.append(rest[reply.end() :] if reply is not None else rest)
    said = "".join(kept)
    if (reply := _LEADING_REPLY.match(said)) is not None:
        said, is_changed = said[reply.end() :], True
    times = [line for line in said.splitlines() if _TIME_ALONE.match(line)]
    if len(times) == 1 and (time := _TIME_ALONE.match(said)) is not None:
        said, is_changed = said[time.end() :], True
    if not is_changed:
        return text
    return said.removesuffix("\n").removesuffix("</message>").strip()


def _speaker(head: re.Match[str]) -> str:
    """Return the id, or the name, that speaks; "" for the mind itself."""
    return next((head[key] for key in ("id", "id2", "id3", "bare", "bare2", "bare3") if head[key] is not None), "")


def _counts(head: re.Match[str], self_id: str) -> bool:
    """Return whether this is a head and not somebody's way of writing: `Python(3): …` is none."""
    if head["number"] is not None or (head["id2"] is None and head["bare2"] is None):
        return True
    if head["bare2"] is not None:
        return False  # a number and a colon
    return head["id2"] == self_id or (head["id2"].isdigit() and len(head["id2"]) >= _MIN_ID_DIGITS)
