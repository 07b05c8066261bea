"""Folding: consecutive facts as one user message. What has been folded stays a prefix when more facts follow."""

from __future__ import annotations

from collections.abc import Sequence

from ishiki.contracts.transcript import Transcript
from ishiki.core.messages import CustomMessage, Message, UserMessage

__all__ = ["fold"]


def fold(messages: Sequence[Message], transcript: Transcript) -> list[Message]:
    """Return `messages` with each run of lines as one user message, joined by newlines.

    Any other message ends the run and stays as it is; so does a change of channel in cross mode, where each run begins
    with its channel's header. Source: specification, context engine `standard`.
    """
    folded: list[Message] = []
    lines: list[str] = []
    header = run_id = ""
    for message in messages:
        fact = transcript.fact(message) if isinstance(message, CustomMessage) else None
        if fact is None or not fact.is_line:
            if lines:
                folded.append(UserMessage("\n".join(lines), id=run_id))
                lines = []
            folded.append(message)
            continue
        if not lines or fact.header != header:
            if lines:
                folded.append(UserMessage("\n".join(lines), id=run_id))
            header, run_id = fact.header, message.id
            lines = [header] if header else []
        lines.append(fact.text)
    if lines:
        folded.append(UserMessage("\n".join(lines), id=run_id))
    return folded
