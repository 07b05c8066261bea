"""A cheap count of tokens, for where a provider sends none.

Characters, not a tokenizer: loading one costs seconds and hundreds of megabytes, and it would be another model's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ishiki.core.messages import (
    AssistantMessage,
    FilePart,
    OpaquePart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from ishiki.core.model import ModelRequest

__all__ = ["estimate_request", "estimate_text"]

_PER_WIDE = 0.75
"""Tokens for a character beyond ASCII; measured 0.54 to 1.0 for Chinese, by tokenizer."""
_PER_NARROW = 0.28
"""Tokens for an ASCII character; measured 0.25 to 0.3 for English and JSON."""
_PER_FILE = 800
"""Tokens for a picture of common size."""
_PER_MESSAGE = 4
"""What a chat template adds to each message."""


def estimate_text(text: str) -> int:
    """Return about how many tokens `text` has."""
    narrow = len(text.encode("ascii", "ignore"))
    return math.ceil((len(text) - narrow) * _PER_WIDE + narrow * _PER_NARROW)


def estimate_request(request: ModelRequest) -> int:
    """Return about how many tokens the whole request has, tools included."""
    count = estimate_text(request.instructions)
    for message in request.messages:
        count += _PER_MESSAGE
        match message:
            case SystemMessage():
                count += estimate_text(message.content)
            case UserMessage() if isinstance(message.content, str):
                count += estimate_text(message.content)
            case UserMessage() | AssistantMessage() | ToolMessage():
                count += _parts(message.content)
    for tool in request.tools:
        count += estimate_text(f"{tool.name}{tool.description}{tool.input_schema}")
    return count


def _parts(
    parts: str | Sequence[TextPart | ReasoningPart | ToolCallPart | ToolResultPart | FilePart | OpaquePart],
) -> int:
    count = 0
    for part in parts:
        match part:
            case TextPart():
                count += estimate_text(part.text)
            case FilePart():
                count += _PER_FILE
            case ToolCallPart():
                count += estimate_text(f"{part.tool_name}{part.input}")
            case ToolResultPart():
                count += estimate_text(str(part.output.value))
            case _:
                pass
    return count
