"""A request of the core as an OpenAI chat-completions request. Pure.

Source: OpenAI API reference, chat completions (create). What it does not say is our choice: media that a model does not
read become a line of text, and media in a tool's result follow as a user message, because a tool message takes text
only. Reasoning is not sent back unless the model's configuration asks for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ishiki.core.messages import (
    AssistantMessage,
    FilePart,
    ModelMessage,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    ToolOutput,
    UserMessage,
    file_data_url,
)
from ishiki.core.model import ModelRequest, ToolChoice, ToolSpec
from ishiki.gateway.tool_schema import lean_schema, subset_schema
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_object, read_str

__all__ = ["REPLAY", "ChatDialect", "chat_messages", "chat_tool_choice", "chat_tools", "replay_of", "wire_text"]

_NO_OUTPUT = "(no output)"
"""Some servers refuse a tool message without text."""

REPLAY = "replay"
"""The key in a reasoning part's provider options under which stands what goes back to whoever wrote it."""

_NO_SIGNATURE = "skip_thought_signature_validator"
"""Stands for the signature of a call that another model made. Source: Gemini API, thought signatures."""

_AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


@dataclass(frozen=True, slots=True)
class ChatDialect:
    """What one model takes."""

    input: frozenset[str] = frozenset({"text"})
    """Modalities it reads: text, image, audio, video, pdf."""
    sends_reasoning: bool = False
    """Whether earlier reasoning goes back as `reasoning_content`."""
    signer: str = ""
    """Whose signed reasoning goes back as it came; "" for nobody's. Another model's signature would be refused."""
    results: Literal["text", "object"] = "text"
    """Whether a tool's result may be any text, or has to be a JSON object."""
    signatures: Literal["", "google"] = ""
    """Where a call's signature stands; "" where LiteLLM puts it there."""


def replay_of(message: AssistantMessage, signer: str) -> JsonObject:
    """Return what `signer` wants sent back with `message`; empty where it did not write it.

    `thinkingBlocks` are Anthropic's signed blocks, `callSignatures` are Gemini's, one for each call or null.
    """
    for part in message.content:
        if isinstance(part, ReasoningPart):
            replay = read_object(part.provider_options, REPLAY)
            if signer and replay.get("by") == signer:
                return replay
    return {}


def wire_text(text: str) -> str:
    """Return `text` without lone surrogates, which no request body can carry; each becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def chat_messages(request: ModelRequest, dialect: ChatDialect) -> list[JsonObject]:
    """Return the conversation: the system prompt, where there is one, then every message in order."""
    messages: list[JsonObject] = []
    if request.instructions:
        messages.append({"role": "system", "content": wire_text(request.instructions)})
    for message in request.messages:
        messages.extend(_chat_message(message, dialect))
    return messages


def chat_tools(tools: Sequence[ToolSpec], schemas: Literal["full", "subset"] = "full") -> list[JsonObject]:
    """Return the tools as functions, in order, their schemas as a model needs them or in Gemini's subset."""
    written = lean_schema if schemas == "full" else subset_schema
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": wire_text(tool.description),
                "parameters": written(tool.input_schema),
            },
        }
        for tool in tools
    ]


def chat_tool_choice(choice: ToolChoice) -> JsonValue:
    """Return the tool choice; None where the request says nothing, because `auto` is what servers assume."""
    match choice:
        case "auto":
            return None
        case "none" | "required":
            return choice
        case ToolSpec():
            return {"type": "function", "function": {"name": choice.name}}


def _chat_message(message: ModelMessage, dialect: ChatDialect) -> Sequence[JsonObject]:
    match message:
        case SystemMessage():
            return ({"role": "system", "content": wire_text(message.content)},)
        case UserMessage():
            return ({"role": "user", "content": _user_content(message, dialect)},)
        case AssistantMessage():
            return (_assistant(message, dialect),)
        case ToolMessage():
            return _tool_results(message, dialect)


def _user_content(message: UserMessage, dialect: ChatDialect) -> JsonValue:
    if isinstance(message.content, str):
        return wire_text(message.content)
    parts: list[JsonObject] = []
    for part in message.content:
        match part:
            case TextPart():
                parts.append(_text_part(part.text))
            case FilePart():
                parts.append(_file_part(part, dialect))
            case _:
                pass  # of a type that nobody here knows; it has no form for a model
    if all(part["type"] == "text" for part in parts):
        # One text is what every server takes; lists are for media.
        return "\n".join(read_str(part, "text") for part in parts)
    return parts


def _text_part(text: str) -> JsonObject:
    return {"type": "text", "text": wire_text(text)}


def _file_part(part: FilePart, dialect: ChatDialect) -> JsonObject:
    kind, _, subtype = part.media_type.partition("/")
    if kind == "image" and "image" in dialect.input:
        return {"type": "image_url", "image_url": {"url": file_data_url(part)}}
    if kind == "audio" and "audio" in dialect.input and part.media_type in _AUDIO_FORMATS and part.data is not None:
        data = file_data_url(part).partition(",")[2]
        return {"type": "input_audio", "input_audio": {"data": data, "format": _AUDIO_FORMATS[part.media_type]}}
    if part.media_type == "application/pdf" and "pdf" in dialect.input and part.data is not None:
        name = part.filename or "document.pdf"
        return {"type": "file", "file": {"filename": wire_text(name), "file_data": file_data_url(part)}}
    about = f"{kind if kind in ('image', 'audio', 'video') else subtype or 'file'}"
    name = f" {part.filename!r}" if part.filename else ""
    return _text_part(f"[{about}{name}: this model cannot read it]")


def _assistant(message: AssistantMessage, dialect: ChatDialect) -> JsonObject:
    # Calls that the provider ran itself are its own business, and so are their results.
    replay = replay_of(message, dialect.signer)
    signatures = read_array(replay, "callSignatures")
    calls: list[JsonObject] = []
    for position, call in enumerate(call for call in message.tool_calls if not call.provider_executed):
        function: JsonObject = {"name": call.tool_name, "arguments": _arguments(call.input)}
        written: dict[str, JsonValue] = {"id": call.tool_call_id, "type": "function", "function": function}
        signature = signatures[position] if position < len(signatures) else None
        if dialect.signatures == "google":
            signed = signature if isinstance(signature, str) else _NO_SIGNATURE
            if position == 0 or isinstance(signature, str):
                written["extra_content"] = {"google": {"thought_signature": signed}}
        elif isinstance(signature, str):
            written["provider_specific_fields"] = {"thought_signature": signature}
        calls.append(written)
    text = wire_text(message.text)
    out: dict[str, JsonValue] = {"role": "assistant", "content": text or (None if calls else "")}
    if dialect.sends_reasoning:
        reasoning = "".join(part.text for part in message.content if isinstance(part, ReasoningPart))
        if reasoning:
            out["reasoning_content"] = wire_text(reasoning)
    if blocks := read_array(replay, "thinkingBlocks"):
        out["thinking_blocks"] = [*blocks]
    if calls:
        out["tool_calls"] = calls
    return out


def _arguments(value: JsonValue) -> str:
    """Return arguments as the text of a JSON object: chat templates of compatible servers read them as one."""
    if isinstance(value, Mapping):
        return _compact(value)
    return "{}" if value is None else _compact({"input": value})


def _compact(value: JsonValue) -> str:
    return wire_text(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict))


def _tool_results(message: ToolMessage, dialect: ChatDialect) -> Sequence[JsonObject]:
    results: list[JsonObject] = []
    media: list[JsonObject] = []
    for part in message.content:
        text = _output_text(part.output)
        if dialect.results == "object":
            text = _as_object(part.output, text)
        if part.output.type == "content":
            found = _output_media(part.output, dialect)
            if found:
                media.extend((_text_part(f"[media from {part.tool_name}, call {part.tool_call_id}]"), *found))
        results.append({"role": "tool", "tool_call_id": part.tool_call_id, "content": text or _NO_OUTPUT})
    if media:
        results.append({"role": "user", "content": media})
    return results


def _output_text(output: ToolOutput) -> str:
    value = output.value
    match output.type:
        case "text" | "error-text":
            return wire_text(value) if isinstance(value, str) else _compact(value)
        case "json" | "error-json":
            return _compact(value)
        case "execution-denied":
            reason = f": {value}" if isinstance(value, str) and value else ""
            return wire_text(f"The call was denied{reason}")
        case "content":
            texts = [read_str(part, "text") for part in _parts(value) if part.get("type") == "text"]
            return wire_text("\n".join(texts))


def _as_object(output: ToolOutput, text: str) -> str:
    """Return a result as the text of a JSON object: as it is where it is one, else under `result` or `error`."""
    if isinstance(output.value, Mapping) and output.type in ("json", "error-json"):
        return text
    value = text if output.type in ("text", "error-text", "execution-denied", "content") else output.value
    return _compact({"error" if output.is_error else "result": value})


def _output_media(output: ToolOutput, dialect: ChatDialect) -> list[JsonObject]:
    """Return the media of a `content` output: parts with a `url`, or with base64 `data`, and their `mediaType`."""
    found: list[JsonObject] = []
    for part in _parts(output.value):
        media_type = read_str(part, "mediaType", "application/octet-stream")
        url = read_str(part, "url")
        if not url and (data := read_str(part, "data")):
            url = f"data:{media_type};base64,{data}"
        if url and part.get("type") != "text":
            file = FilePart(media_type, url=url, filename=read_str(part, "filename") or None)
            found.append(_file_part(file, dialect))
    return found


def _parts(value: JsonValue) -> list[JsonObject]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return []
    return [part for part in value if isinstance(part, Mapping)]
