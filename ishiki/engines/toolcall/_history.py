"""The history as a text protocol shows it: no native call and no tool message is left in a request.

A pure function of the messages, so that what a provider has cached of earlier requests stays valid.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ishiki.core.messages import (
    AssistantMessage,
    AssistantPart,
    FilePart,
    ModelMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolResultPart,
    UserMessage,
    UserPart,
)
from ishiki.core.repair import NO_INPUT
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_str
from ishiki.modeltext.json_text import compact_json

__all__ = ["output_text", "output_value", "rewritten"]

_KIB = 1024


def rewritten(
    messages: Sequence[ModelMessage],
    render_call: Callable[[ToolCallPart], str],
    render_result: Callable[[ToolResultPart], str],
) -> list[ModelMessage]:
    """Return `messages` with calls as text and results as user messages.

    Tool messages that follow each other become one user message; media of results stand behind the text as file parts.
    Ids and timestamps stay. At least one user message is there.
    """
    out: list[ModelMessage] = []
    results: list[ToolMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            results.append(message)
            continue
        if results:
            out.append(_results(results, render_result))
            results = []
        match message:
            case AssistantMessage() if any(isinstance(part, ToolCallPart) for part in message.content):
                out.append(replace(message, content=_assistant(message.content, render_call)))
            case _:
                out.append(message)
    if results:
        out.append(_results(results, render_result))
    if not any(isinstance(message, UserMessage) for message in out):
        out.append(UserMessage(NO_INPUT))
    return out


def _assistant(content: Sequence[AssistantPart], render_call: Callable[[ToolCallPart], str]) -> list[AssistantPart]:
    """Return `content` with calls written out, each on lines of its own; texts that then stand together are one."""
    parts: list[AssistantPart] = []
    text = ""
    is_behind_call = False
    for part in content:
        # What a provider ran itself is its own business and stays as it is.
        is_call = isinstance(part, ToolCallPart) and not part.provider_executed
        if isinstance(part, ToolCallPart) and is_call:
            piece = render_call(part)
        elif isinstance(part, TextPart):
            piece = part.text
        else:
            if text:
                parts.append(TextPart(text))
            text = ""
            parts.append(part)
            continue
        needs_break = (is_call or is_behind_call) and text and not text.endswith("\n") and not piece.startswith("\n")
        text += f"\n{piece}" if needs_break else piece
        is_behind_call = is_call
    if text:
        parts.append(TextPart(text))
    return parts


def _results(messages: Sequence[ToolMessage], render: Callable[[ToolResultPart], str]) -> UserMessage:
    texts: list[str] = []
    files: list[UserPart] = []
    for message in messages:
        for part in message.content:
            texts.append(render(part))
            files.extend(_files(part.output))
    text = "\n".join(texts) or NO_INPUT
    content: str | list[UserPart] = [TextPart(text), *files] if files else text
    return UserMessage(content, messages[0].timestamp, messages[0].id)


def output_value(output: ToolOutput) -> JsonValue:
    """Return a result as JSON: the value of a JSON output, text for every other."""
    return output.value if output.type in ("json", "error-json") else output_text(output)


def output_text(output: ToolOutput) -> str:
    """Return a result as text; media as `[image/png 12.3 KiB]`."""
    value = output.value
    match output.type:
        case "text" | "error-text":
            return value if isinstance(value, str) else compact_json(value)
        case "json" | "error-json":
            return compact_json(value)
        case "execution-denied":
            reason = f": {value}" if isinstance(value, str) and value else ""
            return f"The call was denied{reason}"
        case "content":
            return "\n".join(filter(None, map(_part_text, _content(output))))


def _part_text(part: JsonObject) -> str:
    if part.get("type") == "text":
        return read_str(part, "text")
    media_type = read_str(part, "mediaType", "application/octet-stream")
    data = read_str(part, "data")
    # Four characters of base64 are three bytes.
    return f"[{media_type} {len(data) * 3 / 4 / _KIB:.1f} KiB]" if data else f"[{media_type}]"


def _content(output: ToolOutput) -> Sequence[JsonObject]:
    parts = read_array({"value": output.value}, "value")
    return [part for part in parts if isinstance(part, Mapping)]


def _files(output: ToolOutput) -> list[FilePart]:
    if output.type != "content":
        return []
    found: list[FilePart] = []
    for part in _content(output):
        if part.get("type") == "text":
            continue
        media_type = read_str(part, "mediaType", "application/octet-stream")
        filename = read_str(part, "filename") or None
        if url := read_str(part, "url"):
            found.append(FilePart(media_type, url=url, filename=filename))
        elif data := read_str(part, "data"):
            try:
                found.append(FilePart(media_type, base64.b64decode(data, validate=True), filename=filename))
            except (binascii.Error, ValueError):
                continue  # the text names it; there is nothing to show
    return found
