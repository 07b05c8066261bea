"""What the stages are told. The convention stands in the system prompt; a stage's own note is the last message.

What a model wrote stands in notes as JSON text, which nothing inside can end.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ishiki import JsonObject

__all__ = ["CONVENTION", "decoder_note", "narrator_note", "repair_note", "replyer_note"]

CONVENTION = """\
How your turns go:
- You live a story, step by step. Each request ends with a note of the runtime that names one stage. Do that stage's \
work and nothing else, whatever was said before about how you speak.
- Narrator: tells how the story goes on and chooses one direction. Replyer: writes what you say. Action Decoder: turns \
what you are about to do into tool calls.
- Lines that begin with [mark: divide the history. What stands behind the last one is this turn's evidence: what was \
said since your turn before, and what you have done in this turn. What stands before it is the story so far, already \
dealt with.
- <narration> holds what you narrated earlier. Nobody else has read it."""

_NOTE = "[A note of the runtime, not of the chat. Stage: {stage}.]"

_DIRECTIONS = {
    "reply": '"reply": you say something now',
    "act": '"act": you do something now, with one or more of these tools: {tools}',
    "end": '"end": there is nothing more to say or do in this turn',
}


def narrator_note(directions: Sequence[str], tools: Sequence[str], *, has_evidence: bool) -> str:
    """Return what the Narrator is asked.

    Args:
        directions: those that are open, of `reply`, `act` and `end`.
        tools: names of the tools to act with.
        has_evidence: whether anything stands behind the last mark.
    """
    news = "Read this turn's evidence" if has_evidence else "Nothing was said since your turn before: time has passed"
    choices = "; ".join(_DIRECTIONS[name].format(tools=", ".join(tools)) for name in directions)
    return (
        f"{_NOTE.format(stage='Narrator')} {news}, and tell how the story goes on: what has happened, what it means to "
        "you, what you are about to do. Do not repeat what you have narrated. Call no tool. Answer with one JSON "
        'object and nothing else: {"narration": "…", "direction": "…", "brief": "…"}\n'
        "narration: one to four sentences, for yourself.\n"
        f"direction: {choices}.\n"
        "brief: one sentence for the stage that carries it out: what to say or do, to whom, and why."
    )


def replyer_note(narration: str, brief: str, required: Sequence[str]) -> str:
    """Return what the Replyer is asked; `required` names arguments of `send_message` beside its messages."""
    more = f" It has to have {', '.join(required)} as well." if required else ""
    return (
        f"{_NOTE.format(stage='Replyer')} {_decided(narration, brief)} Write what you say, as a person there would. "
        "Call no tool. Answer with one JSON object and nothing else, the arguments of send_message: "
        f'{{"messages": ["…"]}}. Each string is one chat message.{more}'
    )


def decoder_note(narration: str, brief: str) -> str:
    """Return what the Action Decoder is asked."""
    return (
        f"{_NOTE.format(stage='Action Decoder')} {_decided(narration, brief)} Do it: call at least one tool now. "
        "Speaking is not this stage's work, so call neither send_message nor finish."
    )


def repair_note(problem: str) -> str:
    """Return what a stage is told whose answer could not be read."""
    return f"[A note of the runtime, not of the chat.] That could not be used: {problem}. Answer again as asked."


def _decided(narration: str, brief: str) -> str:
    decision: JsonObject = {"narration": narration, "brief": brief}
    return f"The Narrator has decided: {json.dumps(decision, ensure_ascii=False)}"
