"""The calls that stand in a text, in any grammar that we know. `call_marks` says where they begin.

Each reader knows one shape, not one vendor: tags that name the function, a name with JSON behind it, JSON alone,
Python, ReAct, elements named after tools. What is not closed is a call only where nothing can be missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ishiki.content.think import strip_think
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_object
from ishiki.modeltext.call_marks import MINIMAX_MARK, find_mark, without_frame
from ishiki.modeltext.element_values import only_parameter, read_arguments
from ishiki.modeltext.json_text import JsonReader, arguments_json, compact_json, json_values, python_literal
from ishiki.modeltext.python_calls import read_python_calls
from ishiki.modeltext.schema_values import HasSchema, Shape
from ishiki.modeltext.tagged_calls import CALL_TAGS, tagged_calls, typed_arguments
from ishiki.modeltext.xml_scanner import Element, Tag, elements, from_xml_text
from ishiki.modeltext.yaml_values import MAX_YAML_CHARS, read_yaml_arguments

__all__ = ["CallReading", "ReadCall", "json_calls", "known_name", "read_calls"]

ToolTable: TypeAlias = "Mapping[str, HasSchema]"
"""The tools that are there, by name."""

_MAX_CHARS = 64_000
"""Longer call syntax is not read; our choice, twice the longest arguments that are repaired."""

_MAX_CALLS = 64
_MAX_DEPTH = 8

_VENDOR = re.compile(
    r"(</?)(?:[ ]{0,2}+[|｜]{1,2}+[ ]{0,2}+DSML[ ]{0,2}+[|｜]{1,2}+[ ]{0,2}+|[a-z]{2,10}:|longcat_)(?=[a-z])"
)
_TOKEN = r"<[|｜][^<>\n|｜]{1,80}+[|｜]>"
_WRAPPERS = frozenset(
    {"tool_call", "tool_calls", "toolcall", "TOOLCALL", "TOOL_CALL", "function_call", "function_calls", "tool_use"}
    | {"tool_request", "tool_code", "functioncall", "actions", "function", "call", "tool", "tools", "invoke"}
)
_PARAMETERS = re.compile(r"<(?:parameter|param|argument|arg)[\s=]")
_NAME_THEN_JSON = re.compile(
    r"(?<![\w.\"'])(?:functions\.|default_api\.)?([A-Za-z_][\w-]{0,63}+)(?::[0-9]{1,4}+)?[\"']?"
    rf"(?:[ \t\r\n>]|{_TOKEN}|\[ARGS\]|\[CALL_ID\][\w-]{{0,40}}+|```(?:json)?|json\b){{0,12}}+(?=\{{)"
)
_ACTION = re.compile(
    r"(?m)^(?:\*\*)?Action(?:\*\*)?[ ]?[:：](?:\*\*)?[ \t]*+[`\"]?([\w.-]{1,80}+)[`\"]?[ \t]*+(?:\((.*)\))?$"
)
_ACTION_INPUT = re.compile(r"(?m)^(?:\*\*)?Action Input(?:\*\*)?[ ]?[:：](?:\*\*)?")
_GEMMA = re.compile(r"\bcall:([\w.-]{1,80}+)\{")
_BARE_KEY = re.compile(r"([{,]\s{0,20}+)([A-Za-z_]\w{0,80}+)\s{0,20}+:")
_GLM_NAME = re.compile(r"\s{0,200}+([A-Za-z_][\w.-]{0,80}+)\s{0,200}+(?=<|\Z)")
_NAMES = ("name", "function", "tool", "tool_name", "action", "recipient_name", "function_name")
_ARGUMENTS = ("arguments", "parameters", "args", "params", "input", "tool_input", "action_input", "kwargs")
_LISTS = ("tool_calls", "actions", "tool_uses", "calls")


@dataclass(frozen=True, slots=True)
class ReadCall:
    """One call that a text holds, of a tool that is there."""

    tool_name: str
    arguments: JsonValue
    """As far as the grammar says it; the schema says the rest (`coercion`)."""


@dataclass(frozen=True, slots=True)
class CallReading:
    """What a text with calls holds."""

    words: str
    """What stands before the first of them."""
    calls: Sequence[ReadCall]
    """In order; not empty."""


def read_calls(text: str, tools: ToolTable, *, is_cut: bool = False) -> CallReading | None:
    """Return the calls of `text`; None where it holds none that can be read.

    Reasoning and frames of chat templates are passed over.

    Args:
        text: an answer's content.
        tools: the tools that may be called.
        is_cut: whether the model was stopped in the middle; then nothing unfinished is a call.
    """
    plain = without_frame(strip_think(text))
    start = find_mark(plain, tools)
    if start is None:
        calls = json_calls(_json_of(plain, is_cut=True), tools) if plain.strip()[:1] in ("{", "[", "`") else []
        return CallReading("", calls) if calls else None
    region = plain[start:]
    if len(region) > _MAX_CHARS:
        return None
    reader = _Reader(region, tools, is_cut)
    found = reader.calls()
    return CallReading(plain[:start].strip(), found[:_MAX_CALLS]) if found else None


def known_name(name: str, tools: ToolTable) -> str | None:
    """Return the tool that `name` means: itself, or without a module in front and a number behind."""
    name = name.strip().strip("\"'`")
    for candidate in (name, name.rsplit(".", 1)[-1], name.rsplit(".", 1)[-1].split(":", 1)[0]):
        if candidate in tools:
            return candidate
    return None


def json_calls(value: JsonValue, tools: ToolTable, depth: int = 0) -> list[ReadCall]:
    """Return the calls that a JSON value is, in any of the shapes that vendors give them; none unless all of it is."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        found = [json_calls(item, tools, depth + 1) for item in value] if depth < _MAX_DEPTH else []
        return [call for calls in found for call in calls] if all(found) else []
    if not isinstance(value, Mapping) or depth >= _MAX_DEPTH:
        return []
    for key in _LISTS:
        if read_array(value, key):
            return json_calls(value[key], tools, depth + 1)
        if key == "actions" and read_object(value, key):
            return json_calls(value[key], tools, depth + 1)
    inner = read_object(value, "function")
    if inner:
        return json_calls(inner, tools, depth + 1)
    for key in _NAMES:
        name = value.get(key)
        if isinstance(name, str) and (known := known_name(name, tools)) is not None:
            given = [value[argument] for argument in _ARGUMENTS if argument in value]
            return [ReadCall(known, given[0] if given else {})] if given or len(value) == 1 else []
    if len(value) == 1:
        # Apertus: {"name": {…}}.
        ((name, arguments),) = value.items()
        known = known_name(name, tools)
        return [ReadCall(known, arguments)] if known is not None and isinstance(arguments, Mapping) else []
    return []


def _json_of(text: str, *, is_cut: bool) -> JsonValue:
    """Return the JSON, or the Python literal, that begins at the first bracket of `text`; None for none."""
    start = next((index for index, char in enumerate(text) if char in "{["), None)
    if start is None:
        return None
    values, end = json_values(text, start)
    if values:
        rest = text[end:].lstrip()
        if not is_cut or not rest or rest.startswith("```"):
            return values[0] if len(values) == 1 else values
        return None
    try:
        return python_literal(text[start:].strip().removesuffix("```").strip())
    except ValueError:
        pass
    if is_cut:
        return None
    if text[start] == "{":
        return arguments_json(text[start:])
    try:
        reading = JsonReader().read_answer(text[start:])
    except ValueError:
        return None
    return reading.value if reading.is_balanced else None


class _Reader:
    """The call syntax of one text, read by one shape after the other."""

    def __init__(self, region: str, tools: ToolTable, is_cut: bool) -> None:
        self._region = _VENDOR.sub(r"\1", region.replace(MINIMAX_MARK, ""))
        self._tools = tools
        self._is_cut = is_cut
        self._json = JsonReader()

    def calls(self) -> list[ReadCall]:
        readers: Sequence[Callable[[], Iterator[ReadCall]]] = (
            self._keys_and_values, self._gemma, self._tagged, self._named_json, self._json_alone,
            self._react, self._elements, self._actions, self._python,
        )  # fmt: skip
        for read in readers:
            if found := list(read()):
                return found
        return []

    def _keys_and_values(self) -> Iterator[ReadCall]:
        """GLM, LongCat and Hunyuan: a name, then `<arg_key>` and `<arg_value>` in turn."""
        if "<arg_key>" not in self._region:
            return
        for piece in self._region.split("<tool_call>")[1:]:
            body, closing, _ = piece.partition("</tool_call>")
            found = _GLM_NAME.match(body)
            name = None if found is None else known_name(found[1], self._tools)
            pairs = [pair.partition("</arg_key>") for pair in body.split("<arg_key>")[1:]]
            values = [value.partition("<arg_value>")[2].partition("</arg_value>") for _, _, value in pairs]
            if name is None or (not closing and (self._is_cut or not all(end for _, end, _ in values))):
                continue
            shape = Shape.of(self._tools[name], self._json)
            yield ReadCall(
                name,
                {
                    key.strip(): shape.property(key.strip()).read(value.strip("\n"))
                    for (key, _, _), (value, _, _) in zip(pairs, values, strict=True)
                },
            )

    def _gemma(self) -> Iterator[ReadCall]:
        """Gemma: `call:name{key:<|"|>text<|"|>,…}`."""
        for found in _GEMMA.finditer(self._region):
            name = known_name(found[1], self._tools)
            if name is None:
                continue
            pieces = self._region[found.end() - 1 :].split('<|"|>')
            text = "".join(
                compact_json(piece) if index % 2 else _BARE_KEY.sub(r'\1"\2":', piece)
                for index, piece in enumerate(pieces)
            )
            values, _ = json_values(text)
            if values and isinstance(values[0], Mapping):
                yield ReadCall(name, values[0])

    def _tagged(self) -> Iterator[ReadCall]:
        """Tags that name the function: `<invoke name="…">`, `<function=…>`."""
        yield from self._in_tags(self._region, 0)

    def _in_tags(self, text: str, depth: int) -> Iterator[ReadCall]:
        if depth >= _MAX_DEPTH or "<" not in text:
            return
        found, _ = elements(text, _WRAPPERS.__contains__)
        for element in found:
            if element.tag.label:
                yield from self._labelled(element)
            else:
                own = list(self._in_tags(element.inner, depth + 1))
                yield from own or self._unlabelled(element)

    def _labelled(self, element: Element) -> Iterator[ReadCall]:
        name = known_name(element.tag.label, self._tools)
        if name is None or (not element.is_closed and self._is_cut):
            return
        shape = Shape.of(self._tools[name], self._json)
        inner = element.inner
        if not _PARAMETERS.search(inner):
            arguments = self._arguments(inner, shape, is_closed=element.is_closed)
            if arguments is not None:
                yield ReadCall(name, arguments)
            return
        root = Tag(element.tag.raw, "function", "open", f"={name}")
        for called, raw in tagged_calls(root, inner, is_closed=element.is_closed) or ():
            if called == name:
                yield ReadCall(name, typed_arguments(raw, shape))

    def _unlabelled(self, element: Element) -> Iterator[ReadCall]:
        if element.tag.name not in CALL_TAGS or not element.is_closed:
            return
        for called, raw in tagged_calls(element.tag, element.inner, is_closed=True) or ():
            if (name := known_name(called, self._tools)) is not None:
                yield ReadCall(name, typed_arguments(raw, Shape.of(self._tools[name], self._json)))

    def _arguments(self, inner: str, shape: Shape, *, is_closed: bool) -> JsonObject | None:
        """Return arguments written as JSON, as elements or as YAML."""
        text = from_xml_text(inner)
        if text[:1] in ("{", "`"):
            return arguments_json(text, is_cut=self._is_cut)
        arguments = read_arguments(inner, shape, is_closed=is_closed)
        if arguments is not None or self._is_cut or len(inner) > MAX_YAML_CHARS:
            return arguments
        try:
            return read_yaml_arguments(inner, shape, is_closed=is_closed)
        except ValueError:
            pass
        only = only_parameter(shape) if is_closed and text and "<" not in text else None
        if only is None or not shape.property(only).has_type("array"):
            return None
        return {only: [text]}  # one text where a list of them is due

    def _named_json(self) -> Iterator[ReadCall]:
        """A name and, behind marks of any kind, its arguments as JSON: DeepSeek, Kimi, Mistral, harmony, Llama."""
        position = 0
        while (found := _NAME_THEN_JSON.search(self._region, position)) is not None:
            position = found.end()
            name = known_name(found[1], self._tools)
            if name is None:
                continue
            values, end = json_values(self._region, position)
            if values:
                position = end
                arguments = values[0]
            else:
                arguments = None if self._is_cut else arguments_json(_before_mark(self._region[position:]))
            if isinstance(arguments, Mapping):
                yield ReadCall(name, arguments)

    def _json_alone(self) -> Iterator[ReadCall]:
        """JSON that names the tool itself: Hermes, Granite, InternLM, Doubao, Cohere, Phi, v3 and others."""
        position = 0
        for _ in range(_MAX_CALLS):
            starts = [at for char in "{[" if (at := self._region.find(char, position)) >= 0]
            if not starts:
                return
            values, end = json_values(self._region, min(starts))
            if not values:
                if position == 0:
                    yield from json_calls(_json_of(_before_mark(self._region), is_cut=self._is_cut), self._tools)
                if self._region.startswith("[TOOL", min(starts)):
                    position = min(starts) + 1
                    continue
                return
            for value in values:
                yield from json_calls(value, self._tools)
            position = max(end, min(starts) + 1)

    def _react(self) -> Iterator[ReadCall]:
        """`Action:` and `Action Input:`."""
        action = _ACTION.search(self._region)
        name = None if action is None else known_name(action[1], self._tools)
        if action is None or name is None:
            return
        given = _ACTION_INPUT.search(self._region, action.end())
        text = (action[2] or "") if given is None else self._region[given.end() :]
        text = re.split(r"\n(?:Observation|Thought|Final Answer)[ ]?:", text, maxsplit=1)[0].strip()
        if not text:
            yield ReadCall(name, {})
            return
        arguments = arguments_json(text, is_cut=self._is_cut)
        if arguments is None and text[:1] not in ("{", "[", "`"):
            arguments = read_arguments(text, Shape.of(self._tools[name], self._json))
        if arguments is not None:
            yield ReadCall(name, arguments)

    def _elements(self) -> Iterator[ReadCall]:
        """Elements named after tools, with elements, JSON or YAML inside."""
        found, _ = elements(self._region, self._tools.__contains__)
        for element in found:
            shape = Shape.of(self._tools[element.tag.name], self._json)
            if element.tag.kind == "empty":
                yield ReadCall(element.tag.name, {})
            elif element.is_closed or not self._is_cut:
                arguments = self._arguments(element.inner, shape, is_closed=element.is_closed)
                if arguments is not None:
                    yield ReadCall(element.tag.name, arguments)

    def _actions(self) -> Iterator[ReadCall]:
        """The shape in which `v3` shows earlier turns: `<action><function>…</function><params>…</params></action>`."""
        for action in elements(self._region, lambda name: name == "action")[0]:
            parts = {part.tag.name: part for part in elements(action.inner, ("function", "params").__contains__)[0]}
            name = known_name(from_xml_text(parts["function"].inner), self._tools) if "function" in parts else None
            if name is None or not action.is_closed:
                continue
            inner = parts["params"].inner if "params" in parts else ""
            arguments = self._arguments(inner, Shape.of(self._tools[name], self._json), is_closed=True)
            if arguments is not None:
                yield ReadCall(name, arguments)

    def _python(self) -> Iterator[ReadCall]:
        """Calls in Python's form: Llama, LFM, OLMo, MiniCPM, Gemini's `tool_code`."""
        for name, positional, named in read_python_calls(self._region):
            known = known_name(name, self._tools)
            if known is None:
                continue
            shape = Shape.of(self._tools[known])
            if len(positional) == 1 and not named and isinstance(positional[0], Mapping):
                yield ReadCall(known, positional[0])
                continue
            order = sorted(shape.properties(), key=lambda key: key not in shape.required())
            if len(positional) <= len(order):
                yield ReadCall(known, {**dict(zip(order, positional, strict=False)), **named})


def _before_mark(text: str) -> str:
    """Return `text` up to the next special token or closing tag of a call."""
    end = re.search(
        rf"{_TOKEN}|</(?:tool_calls?|function_calls?|function|invoke|TOOLCALL|tool_use|tool_request)>", text[1:]
    )
    return text if end is None else text[: end.start() + 1]
