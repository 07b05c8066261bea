"""Messages: what one entry of type `message` holds, and what a model reads.

Four roles reach a model (`ModelMessage`); a custom message needs a plugin's `to_model_messages` first. The JSON form
keeps the camelCase field names of the original's log, so that one opens here (docs/formats/events.md).
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_int, read_object, read_str

__all__ = [
    "AssistantMessage",
    "AssistantPart",
    "CustomMessage",
    "FilePart",
    "FinishReason",
    "Message",
    "ModelMessage",
    "OpaquePart",
    "ReasoningPart",
    "SystemMessage",
    "TextPart",
    "ToolCallPart",
    "ToolMessage",
    "ToolOutput",
    "ToolOutputType",
    "ToolResultPart",
    "Usage",
    "UserMessage",
    "UserPart",
    "file_data_url",
    "message_from_json",
    "message_to_json",
    "new_id",
]

FinishReason = Literal["stop", "tool-calls", "length", "content-filter", "error", "other"]
"""Why a model stopped; `other` covers reasons that we do not know."""

ToolOutputType = Literal["text", "json", "error-text", "error-json", "execution-denied", "content"]
"""How a tool's result is written for the model."""


def new_id() -> str:
    """Return a fresh id: 32 hexadecimal digits."""
    return secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call, as the provider counted them."""

    input_tokens: int = 0
    """Tokens of the whole request, cached ones included."""
    output_tokens: int = 0
    """Tokens of the answer, reasoning included."""
    cached_input_tokens: int = 0
    """The part of `input_tokens` that the provider had cached."""
    reasoning_tokens: int = 0
    """The part of `output_tokens` that was reasoning."""
    is_estimate: bool = False
    """True where the provider sent no usage and we counted characters instead."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """A model's reasoning. Kept in the log, never shown in a chat."""

    text: str
    provider_options: JsonObject = field(default_factory=dict[str, JsonValue])
    """What the provider wants sent back with it, such as a signature."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """Media for the model: bytes, or a URL that the provider fetches. Bytes never enter the log."""

    media_type: str
    data: bytes | None = None
    url: str | None = None
    filename: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """One call that the model asks for. `tool_call_id` is ours, unique in the log, at most 64 characters."""

    tool_call_id: str
    tool_name: str
    input: JsonValue
    provider_executed: bool = False


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A tool's result in the form that the model reads.

    Attributes:
        type: how `value` is to be read.
        value: text for `text` and `error-text`, JSON for `json` and `error-json`, a list of parts for `content`, the
            reason (or None) for `execution-denied`.
    """

    type: ToolOutputType
    value: JsonValue

    @property
    def is_error(self) -> bool:
        """Whether the call failed or was denied."""
        return self.type in ("error-text", "error-json", "execution-denied")


@dataclass(frozen=True, slots=True)
class ToolResultPart:
    """The result of the call with the same id."""

    tool_call_id: str
    tool_name: str
    output: ToolOutput


@dataclass(frozen=True, slots=True)
class OpaquePart:
    """A part of a type that this version does not know; it survives as its JSON."""

    data: JsonObject


UserPart: TypeAlias = TextPart | FilePart | OpaquePart
AssistantPart: TypeAlias = TextPart | ReasoningPart | ToolCallPart | ToolResultPart | FilePart | OpaquePart


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What is put before the model as input."""

    content: str | Sequence[UserPart]
    timestamp: int = 0
    """Epoch milliseconds; 0 for a projection that is not stored."""
    id: str = field(default_factory=new_id)
    role: Literal["user"] = "user"


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """An instruction inside the conversation. The system prompt itself is `ModelRequest.instructions`."""

    content: str
    timestamp: int = 0
    id: str = field(default_factory=new_id)
    role: Literal["system"] = "system"


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What the model answered in one step."""

    content: Sequence[AssistantPart]
    timestamp: int = 0
    usage: Usage | None = None
    finish_reason: FinishReason | None = None
    provider_options: JsonObject = field(default_factory=dict[str, JsonValue])
    id: str = field(default_factory=new_id)
    role: Literal["assistant"] = "assistant"

    @property
    def tool_calls(self) -> Sequence[ToolCallPart]:
        """The calls, in the order in which the model wrote them."""
        return [part for part in self.content if isinstance(part, ToolCallPart)]

    @property
    def text(self) -> str:
        """All text parts joined."""
        return "".join(part.text for part in self.content if isinstance(part, TextPart))


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The results of one step, in call order."""

    content: Sequence[ToolResultPart]
    timestamp: int = 0
    id: str = field(default_factory=new_id)
    role: Literal["tool"] = "tool"


@dataclass(frozen=True, slots=True)
class CustomMessage:
    """A fact or record of a type that the core does not read, such as `ishiki.message.created`."""

    type: str
    data: JsonObject
    timestamp: int = 0
    id: str = field(default_factory=new_id)
    role: Literal["custom"] = "custom"


ModelMessage: TypeAlias = UserMessage | SystemMessage | AssistantMessage | ToolMessage
"""The roles that a model reads."""

Message: TypeAlias = ModelMessage | CustomMessage
"""Everything that an entry of type `message` can hold."""


def message_to_json(message: Message) -> dict[str, JsonValue]:
    """Return `message` as a JSON object in the log's field names. Bytes are refused: media live in resources.

    Raises:
        ValueError: a file part carries bytes.
    """
    out: dict[str, JsonValue] = {"id": message.id, "timestamp": message.timestamp, "role": message.role}
    match message:
        case CustomMessage():
            out["type"] = message.type
            out["data"] = message.data
        case SystemMessage():
            out["content"] = message.content
        case UserMessage():
            content = message.content
            out["content"] = content if isinstance(content, str) else [_part_to_json(part) for part in content]
        case ToolMessage():
            out["content"] = [_part_to_json(part) for part in message.content]
        case AssistantMessage():
            out["content"] = [_part_to_json(part) for part in message.content]
            if message.usage is not None:
                out["usage"] = _usage_to_json(message.usage)
            if message.finish_reason is not None:
                out["finishReason"] = message.finish_reason
            if message.provider_options:
                out["providerOptions"] = message.provider_options
    return out


def message_from_json(data: JsonObject) -> Message | None:
    """Return the message that `data` holds, or None where its role or shape is not one of ours.

    Reads what the original wrote as well: an assistant's content may be a plain string there.
    """
    message_id = read_str(data, "id") or new_id()
    timestamp = read_int(data, "timestamp")
    content = data.get("content")
    match data.get("role"):
        case "custom":
            return CustomMessage(read_str(data, "type"), read_object(data, "data"), timestamp, message_id)
        case "system" if isinstance(content, str):
            return SystemMessage(content, timestamp, message_id)
        case "user" if isinstance(content, str):
            return UserMessage(content, timestamp, message_id)
        case "user":
            parts = [_part_from_json(part) for part in read_array(data, "content") if isinstance(part, Mapping)]
            return UserMessage([part for part in parts if isinstance(part, UserPart)], timestamp, message_id)
        case "tool":
            parts = [_part_from_json(part) for part in read_array(data, "content") if isinstance(part, Mapping)]
            return ToolMessage([part for part in parts if isinstance(part, ToolResultPart)], timestamp, message_id)
        case "assistant":
            return AssistantMessage(
                content=_assistant_content(data),
                timestamp=timestamp,
                usage=_usage_from_json(data.get("usage")),
                finish_reason=_finish_reason(data.get("finishReason")),
                provider_options=read_object(data, "providerOptions"),
                id=message_id,
            )
        case _:
            return None


def _assistant_content(data: JsonObject) -> Sequence[AssistantPart]:
    content = data.get("content")
    if isinstance(content, str):
        return [TextPart(content)] if content else []
    return [_part_from_json(part) for part in read_array(data, "content") if isinstance(part, Mapping)]


def _finish_reason(value: JsonValue) -> FinishReason | None:
    if value is None:
        return None
    return next((reason for reason in get_args(FinishReason) if reason == value), "other")


def _usage_to_json(usage: Usage) -> dict[str, JsonValue]:
    out: dict[str, JsonValue] = {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens}
    if usage.cached_input_tokens:
        out["cachedInputTokens"] = usage.cached_input_tokens
    if usage.reasoning_tokens:
        out["reasoningTokens"] = usage.reasoning_tokens
    if usage.is_estimate:
        out["isEstimate"] = True
    return out


def _usage_from_json(value: JsonValue) -> Usage | None:
    if not isinstance(value, Mapping):
        return None
    return Usage(
        input_tokens=read_int(value, "inputTokens"),
        output_tokens=read_int(value, "outputTokens"),
        cached_input_tokens=read_int(value, "cachedInputTokens"),
        reasoning_tokens=read_int(value, "reasoningTokens"),
        is_estimate=value.get("isEstimate") is True,
    )


def _part_to_json(part: AssistantPart | UserPart) -> dict[str, JsonValue]:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ReasoningPart():
            out: dict[str, JsonValue] = {"type": "reasoning", "text": part.text}
            if part.provider_options:
                out["providerOptions"] = part.provider_options
            return out
        case FilePart():
            if part.data is not None:
                raise ValueError("a file part with bytes cannot be stored; register it as a resource and store its URL")
            return {
                "type": "file",
                "mediaType": part.media_type,
                "url": part.url,
                **({"filename": part.filename} if part.filename else {}),
            }
        case ToolCallPart():
            call: dict[str, JsonValue] = {
                "type": "tool-call",
                "toolCallId": part.tool_call_id,
                "toolName": part.tool_name,
                "input": part.input,
            }
            if part.provider_executed:
                call["providerExecuted"] = True
            return call
        case ToolResultPart():
            output: dict[str, JsonValue] = {"type": part.output.type, "value": part.output.value}
            if part.output.type == "execution-denied":
                output = {"type": part.output.type, "reason": part.output.value}
            return {
                "type": "tool-result",
                "toolCallId": part.tool_call_id,
                "toolName": part.tool_name,
                "output": output,
            }
        case OpaquePart():
            return dict(part.data)


def _part_from_json(data: JsonObject) -> AssistantPart:
    match data.get("type"):
        case "text":
            return TextPart(read_str(data, "text"))
        case "reasoning":
            return ReasoningPart(read_str(data, "text"), read_object(data, "providerOptions"))
        case "file" | "image" as kind:
            # The original puts an address, or base64, under `data` or `image`.
            default = "image/*" if kind == "image" else "application/octet-stream"
            media_type = read_str(data, "mediaType", default)
            url = read_str(data, "url") or _address(read_str(data, "data") or read_str(data, "image"), media_type)
            return FilePart(media_type, url=url or None, filename=read_str(data, "filename") or None)
        case "tool-call":
            return ToolCallPart(
                tool_call_id=read_str(data, "toolCallId"),
                tool_name=read_str(data, "toolName"),
                input=data.get("input"),
                provider_executed=data.get("providerExecuted") is True,
            )
        case "tool-result":
            return ToolResultPart(
                tool_call_id=read_str(data, "toolCallId"),
                tool_name=read_str(data, "toolName"),
                output=_output_from_json(read_object(data, "output")),
            )
        case _:
            return OpaquePart(data)


def _address(text: str, media_type: str) -> str:
    is_address = not text or text.startswith("data:") or "://" in text
    return text if is_address else f"data:{media_type};base64,{text}"


def _output_from_json(data: JsonObject) -> ToolOutput:
    kind: ToolOutputType | None = next((name for name in get_args(ToolOutputType) if name == data.get("type")), None)
    if kind is None:
        return ToolOutput("json", data)
    return ToolOutput(kind, data.get("reason" if kind == "execution-denied" else "value"))


def file_data_url(part: FilePart) -> str:
    """Return the URL of a file part: its own, or its bytes as a `data:` URL."""
    if part.data is None:
        return part.url or ""
    return f"data:{part.media_type};base64,{base64.b64encode(part.data).decode('ascii')}"
