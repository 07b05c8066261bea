"""`demo:offline`: a model without a network, so that a fresh installation answers. Deterministic.

It is honest about what it is: every answer says that it is the demo, repeats what was said, and the first one of a
conversation tells which key makes it a real model. It reads requests of any shape and never raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass

from anyio.lowlevel import checkpoint

from ishiki.content import escape, split_lines, visible_text
from ishiki.core.messages import AssistantMessage, ModelMessage, TextPart, ToolMessage, Usage, UserMessage
from ishiki.core.model import (
    Finish,
    ModelInfo,
    ModelPart,
    ModelRequest,
    ResponseStart,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolSpec,
)
from ishiki.gateway.estimate import estimate_request, estimate_text
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_object, read_str

__all__ = ["DEMO_REF", "DemoModel"]

DEMO_REF = "demo:offline"
"""The model that always exists."""

_SPEAK = "send_message"
_FINISH = "finish"

_PIECE_CHARS = 16
"""How much of a tool call's arguments one part of the stream carries."""

_ECHO_CHARS = 200
"""How much of what was said is repeated."""

_WIDE = re.compile("[\u3400-\u9fff]")
_ADDRESSED = re.compile(r"<at[ />]")
_GREETING = re.compile(
    r"\b(?:hi|hello|hey|good (?:morning|evening|night))\b|你好|您好|早上好|晚上好|早安|晚安|哈喽|嗨", re.IGNORECASE
)
_QUESTION = re.compile(r"[?？]|(?:吗|呢|么|什么|怎么|为什么|谁|哪)[\s。！!~]*$")


@dataclass(frozen=True, slots=True)
class _Heard:
    """The line that is answered."""

    text: str
    name: str = ""
    is_wide: bool = False
    """Whether the answer is due in Chinese."""
    target: JsonObject | None = None
    """The channel the line came from, where the request names it."""


class DemoModel:
    """Repeats what was said, through `send_message` where it is offered."""

    def __init__(self, ref: str = DEMO_REF, *, variables: Sequence[str] = ()) -> None:
        """Answer as `ref`.

        Args:
            ref: the reference it was asked for by.
            variables: the environment variables whose keys would make a real model available, for the hint.
        """
        self._ref = ref
        self._variables = tuple(variables)

    @property
    def ref(self) -> str:
        """Usually `demo:offline`."""
        return self._ref

    @property
    def info(self) -> ModelInfo:
        """It reads text and takes tools."""
        return ModelInfo(self._ref, context_window=32_768)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        """Answer `request`. Never fails."""
        await checkpoint()
        yield ResponseStart(self._ref)
        call = self._call(request)
        if call is None:
            text = self._answer(request)
            for piece in _pieces(text):
                await checkpoint()
                yield TextDelta(piece)
            yield Finish("stop", self._usage(request, text))
            return
        name, arguments = call
        text = json.dumps(arguments, ensure_ascii=False)
        call_id = f"call_{len(request.messages)}"
        for piece in _pieces(text):
            await checkpoint()
            yield ToolCallDelta(call_id, name, piece)
        yield ToolCall(call_id, name, text)
        yield Finish("tool-calls", self._usage(request, text))

    def _usage(self, request: ModelRequest, answer: str) -> Usage:
        return Usage(estimate_request(request), estimate_text(answer), is_estimate=True)

    def _call(self, request: ModelRequest) -> tuple[str, JsonObject] | None:
        """Return the tool call to make; None: plain text."""
        tools = {tool.name: tool for tool in request.tools}
        choice = request.tool_choice
        if choice == "none" or not tools:
            return None
        if isinstance(choice, ToolSpec):
            tools = {choice.name: choice}
        elif _has_spoken(request.messages):
            tools.pop(_SPEAK, None)
            if _FINISH in tools:
                return _FINISH, {}
        if _SPEAK in tools:
            heard = _hear(request.messages)
            text = escape(self._reply(heard, is_first=not _was_here(request.messages)))
            return _SPEAK, _arguments_for(tools[_SPEAK], text, heard.target)
        if choice == "auto" or not tools:
            return None
        name = _FINISH if _FINISH in tools else next(iter(tools))
        return name, _arguments_for(tools[name], "demo", None)

    def _answer(self, request: ModelRequest) -> str:
        if _has_spoken(request.messages):
            return ""
        return self._reply(_hear(request.messages), is_first=not _was_here(request.messages))

    def _reply(self, heard: _Heard, *, is_first: bool) -> str:
        said = heard.text if len(heard.text) <= _ECHO_CHARS else heard.text[: _ECHO_CHARS - 1] + "…"
        if heard.is_wide:
            return _chinese(said, heard.name) + (self._hint_chinese() if is_first else "")
        return _english(said, heard.name) + (self._hint_english() if is_first else "")

    def _hint_chinese(self) -> str:
        if not self._variables:
            return "\n我只是演示：在 profiles/models.yaml 里配置一个模型，我就能真正聊天了。"
        return f"\n我只是演示：在 .env 里填上 {' 或 '.join(self._variables)} 并重启，我就能真正聊天了。"

    def _hint_english(self) -> str:
        if not self._variables:
            return "\nI am only a demo: declare a model in profiles/models.yaml to talk to a real one."
        return f"\nI am only a demo: set {' or '.join(self._variables)} in .env and restart to talk to a real model."


def _chinese(said: str, name: str) -> str:
    whom = name or "你"
    if not said:
        return f"【离线演示】我收到了{whom}的消息，里面没有文字。"
    if _GREETING.search(said):
        return f"【离线演示】{name + '，' if name else ''}你好呀！你说的是：「{said}」"
    if _QUESTION.search(said):
        return f"【离线演示】{whom}问：「{said}」这个问题要接上真正的模型才能回答。"
    return f"【离线演示】我听到{whom}说：「{said}」"


def _english(said: str, name: str) -> str:
    whom = name or "you"
    if not said:
        return f"[offline demo] I got a message from {whom}; there is no text in it."
    if _GREETING.search(said):
        return f"[offline demo] Hello{', ' + name if name else ''}! You said: “{said}”"
    if _QUESTION.search(said):
        return f"[offline demo] {name or 'You'} asked: “{said}” Only a real model can answer that."
    return f"[offline demo] I heard {whom} say: “{said}”"


def _pieces(text: str) -> Sequence[str]:
    return [text[at : at + _PIECE_CHARS] for at in range(0, len(text), _PIECE_CHARS)]


def _has_spoken(messages: Sequence[ModelMessage]) -> bool:
    """Return whether `send_message` was called since the latest line: then there is nothing more to say."""
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            return False
        if isinstance(message, ToolMessage) and any(part.tool_name == _SPEAK for part in message.content):
            return True
    return False


def _was_here(messages: Sequence[ModelMessage]) -> bool:
    """Return whether the hint was given before: in this conversation the mind has already answered."""
    return any(isinstance(message, AssistantMessage) and (message.text or message.tool_calls) for message in messages)


def _hear(messages: Sequence[ModelMessage]) -> _Heard:
    """Find what is answered: the latest line that addresses somebody, else the latest line, else the latest text."""
    texts = _unanswered(messages)
    everything = "\n".join(texts)
    lines = [line for text in texts for line in split_lines(text)]
    spoken = [line for line in lines if line.kind == "message" and not line.is_self]
    if not spoken:
        text = " ".join(texts[-1].split()) if texts else ""
        return _Heard(text, is_wide=bool(_WIDE.search(text)))
    addressed = [line for line in spoken if _ADDRESSED.search(line.content) or line.reply.startswith("your ")]
    line = (addressed or spoken)[-1]
    text = " ".join(visible_text(line.content).split())
    has_letters = any(character.isalpha() for character in text)
    return _Heard(
        text,
        line.name or line.user_id,
        is_wide=bool(_WIDE.search(text if has_letters else everything)),
        target=_target(texts),
    )


def _unanswered(messages: Sequence[ModelMessage]) -> list[str]:
    """Return the texts of the user messages since the mind's latest own words, in order."""
    found: list[str] = []
    for message in reversed(messages):
        if isinstance(message, AssistantMessage) and found:
            break
        if isinstance(message, UserMessage):
            parts = message.content
            texts = [parts] if isinstance(parts, str) else [part.text for part in parts if isinstance(part, TextPart)]
            found.extend(text for text in reversed(texts) if text.strip())
    return found[::-1]


def _target(texts: Sequence[str]) -> JsonObject | None:
    """Return the latest channel header of a mind of several channels."""
    for text in reversed(texts):
        for line in reversed(split_lines(text)):
            if line.kind == "channel":
                try:
                    target: JsonValue = json.loads(line.content)
                except ValueError:
                    continue
                return target if isinstance(target, Mapping) else None
    return None


def _arguments_for(tool: ToolSpec, text: str, target: JsonObject | None) -> JsonObject:
    """Return arguments that fit the tool's schema as far as a demo can: `text` where text is due."""
    properties = read_object(tool.input_schema, "properties")
    if tool.name == _SPEAK and ("messages" in properties or not properties):
        arguments: dict[str, JsonValue] = {"messages": [text]}
        if target is not None and "target" in properties:
            arguments["target"] = target
        return arguments
    required = [name for name in read_array(tool.input_schema, "required") if isinstance(name, str)]
    return {name: _sample(read_object(properties, name), text) for name in required}


def _sample(schema: JsonObject, text: str) -> JsonValue:
    choices = read_array(schema, "enum")
    if choices:
        return choices[0]
    samples: dict[str, JsonValue] = {"string": text, "array": [], "object": {}, "boolean": False, "null": None}
    kind = read_str(schema, "type", "string")
    return schema.get("minimum", 1) if kind in ("integer", "number") else samples.get(kind, text)
