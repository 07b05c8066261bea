"""Values between text and a tool's JSON Schema: what text means where the schema says which types may stand.

`Shape.read` and `Shape.write` are each other's inverse for every value that fits the schema.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_object
from ishiki.modeltext.json_text import JsonReader, compact_json, strict_json

__all__ = ["HasSchema", "Shape"]

_ANY = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
_TEXT = frozenset({"string"})
_OBJECT = frozenset({"object"})
_ORDER = ("string", "integer", "number", "boolean", "array", "object", "null")
_MAX_PARTS = 100
"""Parts of one schema that are looked at; references can run in circles."""

_MAX_WHOLE_DIGITS = 15
"""A float has no more digits; beyond that its whole form would be invented."""


class HasSchema(Protocol):
    """A tool, or what stands for one."""

    @property
    def input_schema(self) -> JsonObject:
        """The JSON Schema of its arguments."""
        ...


@dataclass(frozen=True, slots=True)
class Shape:
    """One place in a tool's schema."""

    schema: JsonObject = field(default_factory=dict[str, JsonValue])
    root: JsonObject = field(default_factory=dict[str, JsonValue])
    """The whole schema, for references."""
    json: JsonReader = field(default_factory=JsonReader)
    """Reads what stands where a list or an object is due."""

    @classmethod
    def of(cls, tool: HasSchema | None, json: JsonReader | None = None) -> Shape:
        """Return the shape of a tool's arguments; of a tool that is not there, one that allows anything."""
        schema: JsonObject = {} if tool is None else tool.input_schema
        return cls(schema, schema, json or JsonReader())

    @property
    def types(self) -> frozenset[str]:
        """The JSON Schema types that may stand here; a number may be whole."""
        found: set[str] = set()
        for part in self._parts():
            found |= _own_types(part)
        if "number" in found:
            found.add("integer")
        return frozenset(found) or _ANY

    @property
    def is_text(self) -> bool:
        """Whether only text may stand here."""
        return self.types == _TEXT

    @property
    def is_object(self) -> bool:
        """Whether only an object may stand here."""
        return self.types == _OBJECT

    def has_type(self, name: str) -> bool:
        """Whether the schema asks for `name`; not, where it allows just anything."""
        types = self.types
        return name in types and types != _ANY

    def properties(self) -> Sequence[str]:
        """Return the names of the properties that the schema lists, in order."""
        return list(dict.fromkeys(name for part in self._parts() for name in read_object(part, "properties")))

    def required(self) -> frozenset[str]:
        """Return the names of the properties that have to be there."""
        return frozenset(
            name for part in self._parts() for name in read_array(part, "required") if isinstance(name, str)
        )

    def choices(self) -> Sequence[JsonValue]:
        """Return the values of a closed choice; none where it is open."""
        found = [item for part in self._parts() for item in read_array(part, "enum")]
        return [*found, *(part["const"] for part in self._parts() if "const" in part)]

    def label(self) -> str:
        """Return the types as the model is told them: `string`, `integer|null`; a list names what it holds."""
        types = self.types
        if types == _ANY:
            return "any"
        names = [name for name in _ORDER if name in types and not (name == "integer" and "number" in types)]
        return "|".join(f"array of {self.items().label()}" if name == "array" else name for name in names)

    def is_nested(self) -> bool:
        """Whether one name of a type does not say all: there are rules for what is inside, or a choice of values."""
        return bool(self.types & {"object", "array"}) or any("enum" in part for part in self._parts())

    def property(self, name: str) -> Shape:
        """Return the shape of one property."""
        for part in self._parts():
            if name in (properties := read_object(part, "properties")):
                return self._below(properties[name])
        return self._first("additionalProperties")

    def items(self) -> Shape:
        """Return the shape of a list's items."""
        return self._first("items")

    def read(self, text: str) -> JsonValue:
        """Return what `text` means here; the text itself where it means nothing that fits."""
        types = self.types
        if types == _TEXT:
            return text
        stripped = text.strip()
        value = _parsed(stripped)
        if isinstance(value, _Nothing):
            value = _as_word(stripped, types)
        elif isinstance(value, str) and "string" not in types:
            # A number in quotation marks, where only a number can be.
            value = _parsed(value)
        if not isinstance(value, _Nothing) and not isinstance(fitting := _fitting(value, types), _Nothing):
            return fitting
        if "string" not in types and stripped[:1] in ("{", "[") and types & {"object", "array"}:
            try:
                repaired = _fitting(self.json.read(stripped).value, types)
            except ValueError:
                return text
            if not isinstance(repaired, _Nothing):
                return repaired
        return text

    def write(self, value: JsonValue) -> str:
        """Return text that `read` turns back into `value`: text as it is where it cannot be mistaken, else JSON."""
        if not isinstance(value, str):
            return compact_json(value)
        again = self.read(value)
        return value if isinstance(again, str) and again == value else compact_json(value)

    def _parts(self) -> Iterator[JsonObject]:
        """Yield the schema and everything it is put together from."""
        waiting: list[JsonObject] = [self.schema]
        seen = 0
        while waiting and seen < _MAX_PARTS:
            part = waiting.pop(0)
            seen += 1
            yield part
            reference = part.get("$ref")
            if isinstance(reference, str) and (target := self._target(reference)):
                waiting.append(target)
            for word in ("anyOf", "oneOf", "allOf"):
                waiting.extend(item for item in read_array(part, word) if isinstance(item, Mapping))

    def _target(self, reference: str) -> JsonObject:
        here: JsonObject = self.root
        if not reference.startswith("#"):
            return {}
        for step in reference[1:].split("/")[1:]:
            here = read_object(here, step.replace("~1", "/").replace("~0", "~"))
        return here

    def _first(self, word: str) -> Shape:
        for part in self._parts():
            if isinstance(part.get(word), Mapping):
                return self._below(part[word])
        return self._below({})

    def _below(self, schema: JsonValue) -> Shape:
        return Shape(schema if isinstance(schema, Mapping) else {}, self.root, self.json)


class _Nothing:
    """Stands for no value, where null is one."""


_NOTHING = _Nothing()


def _parsed(text: str) -> JsonValue | _Nothing:
    try:
        return strict_json(text)
    except ValueError:
        return _NOTHING


def _as_word(text: str, types: frozenset[str]) -> JsonValue | _Nothing:
    """Return the value of a word that models write for a JSON literal, where no text may stand."""
    if "string" in types:
        return _NOTHING
    word = text.lower()
    if word in ("true", "false"):
        return word == "true"
    if word in ("", "null", "none") and "null" in types:
        return None
    try:
        # "+5", "007" and "1_000" are numbers for people.
        number = float(text) if "." in text or "e" in word else int(text)
    except ValueError:
        return _NOTHING
    return number if math.isfinite(number) else _NOTHING


def _fitting(value: JsonValue, types: frozenset[str]) -> JsonValue | _Nothing:
    match value:
        case None:
            kind = "null"
        case bool():
            kind = "boolean"
        case int():
            kind = "integer"
        case float():
            if "number" not in types and value.is_integer() and abs(value) < 10**_MAX_WHOLE_DIGITS:
                return int(value) if "integer" in types else _NOTHING
            kind = "number"
        case str():
            kind = "string"
        case Mapping():
            kind = "object"
        case _:
            kind = "array"
    return value if kind in types else _NOTHING


def _own_types(part: JsonObject) -> frozenset[str]:
    """Return the types that one part of a schema asks for by itself; all for one that says nothing at all."""
    given = part.get("type")
    if isinstance(given, str):
        return frozenset({given})
    if names := [name for name in read_array(part, "type") if isinstance(name, str)]:
        return frozenset(names)
    values = [*read_array(part, "enum"), *([part["const"]] if "const" in part else [])]
    if values:
        return frozenset(
            name for value in values for name in _ANY if not isinstance(_fitting(value, frozenset({name})), _Nothing)
        )
    if "properties" in part or "additionalProperties" in part:
        return frozenset({"object"})
    if "items" in part:
        return frozenset({"array"})
    says_more = any(word in part for word in ("$ref", "anyOf", "oneOf", "allOf"))
    is_rule = any(
        word in part for word in ("required", "not", "if", "minLength", "maxLength", "pattern", "description")
    )
    return frozenset() if says_more or is_rule else _ANY
