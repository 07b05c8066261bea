"""Reads what a stage answered: lenient about what stands around the JSON, strict about what it says.

Every reader raises `ValueError` with a sentence that the model can mend its answer by. No I/O.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from ishiki import JsonObject, JsonValue, ToolCall, ToolSpec

__all__ = ["SPEECH_TOOLS", "Direction", "Plot", "StageAnswer", "read_acts", "read_plot", "read_speech", "required_keys"]

Direction: TypeAlias = Literal["reply", "act", "end"]

SPEECH_TOOLS = frozenset({"send_message", "finish"})
"""Tools that are no acts: they belong to the directions `reply` and `end`."""

_MAX_CHARS = 100_000
"""Longer text is no answer to any stage; our choice."""

_MAX_TRIES = 32
"""Brackets at which JSON may begin before a text counts as having none; bounds what hostile text costs."""

_DECODER = json.JSONDecoder(strict=False)  # models write line breaks inside strings
_OPENING = re.compile(r"[{\[]")
_THOUGHT = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StageAnswer:
    """What a model answered to one stage."""

    text: str
    calls: Sequence[ToolCall] = ()


@dataclass(frozen=True, slots=True)
class Plot:
    """What the Narrator decided."""

    narration: str
    direction: Direction
    brief: str


def read_plot(answer: StageAnswer, directions: Sequence[Direction]) -> Plot:
    """Return the Narrator's decision.

    Raises:
        ValueError: there is none, or it takes a direction that is not open.
    """
    objects = [value for value in _json_values(answer.text) if isinstance(value, Mapping)]
    found = next((value for value in objects if "direction" in value), objects[0] if objects else None)
    if found is None:
        raise ValueError("it holds no JSON object")
    named = found.get("direction")
    chosen = named.strip().casefold() if isinstance(named, str) else ""
    open_ones: dict[str, Direction] = {one: one for one in directions}
    direction = open_ones.get(chosen)
    if direction is None:
        raise ValueError(f"direction has to be one of {', '.join(directions)}, not {_shown(named)}")
    narration, brief = found.get("narration"), found.get("brief")
    if not isinstance(narration, str) or not narration.strip():
        raise ValueError("narration has to be text")
    return Plot(narration.strip(), direction, brief.strip() if isinstance(brief, str) else "")


def read_speech(answer: StageAnswer, tool: ToolSpec) -> JsonObject:
    """Return the arguments of `send_message` that the Replyer wrote.

    A bare list counts as the messages, and a native call of the tool as its arguments. Keys that the tool does not
    know are left out.

    Raises:
        ValueError: there are none, or nothing is said in them.
    """
    called = next((call.arguments for call in answer.calls if call.tool_name == tool.name), None)
    known = tool.input_schema.get("properties")
    problem = "it holds no JSON object with messages"
    for value in _json_values(answer.text if called is None else called):
        found: JsonObject = value if isinstance(value, Mapping) else {"messages": value}
        messages = found.get("messages")
        if isinstance(messages, str):
            messages = [messages]
        if not isinstance(messages, Sequence) or not all(isinstance(message, str) for message in messages):
            continue
        spoken = [message for message in messages if isinstance(message, str) and message.strip()]
        missing = [key for key in required_keys(tool) if key not in found]
        if not spoken:
            problem = "messages says nothing"
        elif missing:
            problem = f"{', '.join(missing)} is missing"
        else:
            more = {key: item for key, item in found.items() if isinstance(known, Mapping) and key in known}
            return {**more, "messages": spoken}
    raise ValueError(problem)


def read_acts(answer: StageAnswer) -> Sequence[ToolCall]:
    """Return the Action Decoder's calls, in order, at least one.

    Raises:
        ValueError: it called nothing, or only what is no act.
    """
    acts = [call for call in answer.calls if call.tool_name not in SPEECH_TOOLS]
    if not acts:
        raise ValueError("it calls no tool to act with")
    return acts


def required_keys(tool: ToolSpec) -> Sequence[str]:
    """Return the arguments that `send_message` has to have beside its messages; in cross mode, its target."""
    required = tool.input_schema.get("required")
    if not isinstance(required, Sequence):
        return ()
    return [key for key in required if isinstance(key, str) and key != "messages"]


def _json_values(text: str) -> Iterator[JsonValue]:
    """Yield the JSON objects and lists in `text`, outermost ones only, in order. Fences and prose are passed over."""
    if len(text) > _MAX_CHARS:
        return
    text = _THOUGHT.sub("", text)
    position = tries = 0
    while tries < _MAX_TRIES and (opening := _OPENING.search(text, position)) is not None:
        tries += 1
        try:
            value, position = cast("tuple[JsonValue, int]", _DECODER.raw_decode(text, opening.start()))
        except (ValueError, RecursionError):
            position = opening.end()
        else:
            yield value


def _shown(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False, default=dict)
    return text if len(text) <= 40 else f"{text[:40]}…"
