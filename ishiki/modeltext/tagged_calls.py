"""Calls written as tags that name the function and its parameters, however they do it.

`<function=name><parameter=key>value</parameter></function>`, `<invoke name="…"><parameter name="…">`, names in elements
of their own, any of them unclosed, nested or stray. One pass, and nothing raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.modeltext.schema_values import Shape
from ishiki.modeltext.xml_scanner import CDATA_CLOSE, Tag, TagReader, Token, from_xml_text, is_tag_name

__all__ = ["CALL_TAGS", "STRUCTURE", "tagged_calls", "typed_arguments"]

CALL_TAGS = frozenset({"tool_call", "function", "call", "tool", "invoke"})
"""Tags that hold a call."""

_PARAMETER_TAGS = frozenset({"parameter", "param", "argument", "arg"})
_NAME_TAGS = frozenset({"name", "tool_name"})
STRUCTURE = CALL_TAGS | _PARAMETER_TAGS | _NAME_TAGS
"""Every tag of the grammar, lower case."""


def tagged_calls(root: Tag, body: str, *, is_closed: bool) -> list[tuple[str, dict[str, str]]] | None:
    """Return the calls inside a call tag, each with its raw arguments; None where it holds none.

    Args:
        root: the tag.
        body: what stands behind it.
        is_closed: False where its closing tag is missing; then a value that has not ended is no call.
    """
    builder = _Builder(root)
    for token in _tokens(body):
        builder.take(token)
    return builder.end(is_closed=is_closed)


def typed_arguments(raw: Mapping[str, str], shape: Shape) -> JsonObject:
    """Return raw arguments as the schema has them."""
    arguments: dict[str, JsonValue] = {}
    for key, text in raw.items():
        arguments[key] = shape.property(key).read(from_xml_text(text))
    return arguments


def _tokens(body: str) -> Iterator[Token]:
    reader = TagReader(STRUCTURE, ignores_case=True)
    yield from reader.feed(body)
    yield from reader.end()


class _Builder:
    """Puts calls together from the tokens of a frame: a state machine that takes whatever comes."""

    def __init__(self, root: Tag) -> None:
        self._calls: list[tuple[str, dict[str, str]]] = []
        self._name = root.label
        self._call_tag = root.name
        self._arguments: dict[str, str] = {}
        self._key: str | None = None
        self._value: list[str] = []
        self._is_naming = False
        self._is_key_open = False
        self._in_cdata = False
        self._tail = ""

    def take(self, token: Token) -> None:
        """Take the next token."""
        if self._in_cdata or isinstance(token, str):
            self._text(token if isinstance(token, str) else token.raw)
        elif token.kind == "cdata":
            self._in_cdata = True
            self._tail = ""
            self._value.append(token.raw)
        elif token.name in _NAME_TAGS and self._takes_name(token):
            self._take_name_tag(token)
        elif token.name in _PARAMETER_TAGS:
            self._take_parameter_tag(token)
        elif self._ends_value(token):
            self._take_call_tag(token)
        else:
            self._value.append(token.raw)

    def end(self, *, is_closed: bool) -> list[tuple[str, dict[str, str]]] | None:
        """Return the calls; None where there are none, or where the text ended inside a value."""
        if self._key is not None and not is_closed:
            return None
        self._close_call()
        return self._calls or None

    def _text(self, text: str) -> None:
        self._value.append(text)
        if self._in_cdata:
            near = self._tail + text
            self._in_cdata = CDATA_CLOSE not in near
            self._tail = near[-2:]

    def _ends_value(self, token: Tag) -> bool:
        is_own_end = token.kind == "close" and token.name == self._call_tag
        return self._key is None or is_own_end or token.name in ("tool_call", "function")

    def _takes_name(self, token: Tag) -> bool:
        if token.kind == "close":
            return self._is_naming
        return self._is_key_open or (self._key is None and not self._name)

    def _take_name_tag(self, token: Tag) -> None:
        if token.kind == "open":
            self._is_naming = True
            self._value = []
            return
        self._is_naming = False
        name = from_xml_text("".join(self._value))
        self._value = []
        if self._is_key_open:
            self._key, self._is_key_open = name, False
        elif self._key is None:
            self._name = name

    def _take_parameter_tag(self, token: Tag) -> None:
        if token.kind != "close" and not token.label and self._key is not None:
            # Without a name it is no parameter of ours, but part of a value.
            self._value.append(token.raw)
            return
        self._close_parameter()
        if token.kind == "open":
            self._key = token.label
            self._is_key_open = not token.label
        elif token.kind == "empty" and token.label:
            self._arguments[token.label] = ""

    def _take_call_tag(self, token: Tag) -> None:
        self._close_parameter()
        if token.kind == "close":
            self._close_call()
            return
        if token.label or self._name:
            self._close_call()
        self._name = token.label
        self._call_tag = token.name
        if token.kind == "empty":
            self._close_call()

    def _close_parameter(self) -> None:
        if self._key:
            self._arguments[self._key] = "".join(self._value)
        self._key = None
        self._is_key_open = self._is_naming = False
        self._value = []

    def _close_call(self) -> None:
        self._close_parameter()
        if is_tag_name(self._name):
            self._calls.append((self._name, self._arguments))
        self._name = ""
        self._arguments = {}
