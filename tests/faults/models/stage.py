"""What the tests of failing models share: a model that mends what it did wrong, and what became of a turn."""

from __future__ import annotations

from ishiki.core.entries import MESSAGE
from ishiki.jsonvalue import JsonValue, read_array, read_object, read_str
from ishiki.runtime.reminder import REMINDER
from ishiki.testing import openai_replies as replies
from ishiki.testing.openai_server import ChatRequest, Responder
from tests.runtime.kit import Bot

__all__ = ["MENDED", "OBEYED", "always", "mending", "reminded", "tool_errors"]

MENDED = "now in the right form"
"""What the model says behind an error result."""

OBEYED = "now by the tool"
"""What the model says behind a reminder."""


def mending(request: ChatRequest) -> replies.Reply:
    """Answer as a model does that mends what it is told about, and is healthy otherwise."""
    last = request.messages[-1]
    if not request.tool_names:
        return replies.text("a summary")
    if last.get("role") == "tool":
        done = '"ok":true' in read_str(last, "content")
        return replies.tool_calls([replies.call("finish", {})]) if done else replies.reply_saying(MENDED)
    if read_str(last, "content") == REMINDER:
        return replies.reply_saying(OBEYED)
    return replies.reply_saying(f"reply {request.number}")


def always(reply: replies.Reply) -> Responder:
    """Return a responder that knows one answer."""

    def respond(request: ChatRequest) -> replies.Reply:
        return reply

    return respond


def reminded(bot: Bot) -> int:
    """Return how often the model was reminded, by the log."""
    return sum(entry.get("type") == "ishiki.reminded" for entry in bot.entries())


def tool_errors(bot: Bot) -> list[JsonValue]:
    """Return the error results on disk, in order."""
    messages = [read_object(entry, "data") for entry in bot.entries() if entry.get("type") == MESSAGE]
    parts = [
        part
        for message in messages
        if message.get("role") == "tool"
        for part in read_array(message, "content")
        if isinstance(part, dict)
    ]
    outputs = [read_object(part, "output") for part in parts]
    return [
        output["value"]
        for output in outputs
        if read_str(output, "type").startswith("error") or read_object(output, "value").get("ok") is False
    ]
