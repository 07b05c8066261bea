"""A tool's JSON Schema as a model is shown it. Pure; the tool itself is checked against the whole schema.

Sources: JSON Schema 2020-12 for the keywords; Gemini API, function calling, `Schema`, for the subset.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_object, read_str

__all__ = ["lean_schema", "subset_schema"]

_NO_HELP = frozenset({"$schema", "$id", "$comment", "title", "additionalProperties", "unevaluatedProperties"})
"""Keywords that tell a model nothing: names for tools, and what is forbidden beyond what is described."""

_OF_NAMES = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value maps names of somebody's choice to schemas."""

_VALUES = frozenset({"const", "enum", "default", "examples", "required"})
"""Keywords whose value is data, never a schema."""

_SUBSET = frozenset(
    {
        "type", "format", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties", "required",
        "minimum", "maximum", "minLength", "maxLength", "anyOf",
    }
)  # fmt: skip
"""What Gemini's `Schema` has."""

_FORMATS = frozenset({"enum", "date-time", "float", "double", "int32", "int64"})
_MAX_DEPTH = 24
"""A schema that refers to itself is unfolded no deeper."""


def lean_schema(schema: JsonObject) -> JsonObject:
    """Return `schema` without what is of no help to a model; a default is told in the description.

    What servers refuse most, `additionalProperties` and `default`, is among it.
    """
    lean = _lean(schema, 0)
    return {"type": "object", "properties": {}, **lean} if lean.get("type", "object") == "object" else lean


def _lean(schema: JsonObject, depth: int) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for key, value in schema.items():
        if key == "additionalProperties" and isinstance(value, Mapping) and value:
            found[key] = _lean(value, depth + 1)  # what the values of a mapping are: that is a help
        elif key in _NO_HELP or key == "default":
            continue
        elif key in _VALUES or depth > _MAX_DEPTH:
            found[key] = value
        elif key in _OF_NAMES and isinstance(value, Mapping):
            found[key] = {name: _lean_value(inner, depth + 1) for name, inner in value.items()}
        else:
            found[key] = _lean_value(value, depth + 1)
    default = schema.get("default")
    if default is not None:
        told = f"Default: {json.dumps(default, ensure_ascii=False, default=dict)}."
        found["description"] = f"{read_str(found, 'description')} {told}".strip()
    return found


def _lean_value(value: JsonValue, depth: int) -> JsonValue:
    if isinstance(value, Mapping):
        return _lean(value, depth)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_lean_value(one, depth) for one in value]
    return value


def subset_schema(schema: JsonObject) -> JsonObject:
    """Return `schema` in the part of JSON Schema that Gemini's function declarations have.

    References are unfolded, `const` is an `enum` of one, a type beside null is `nullable`, values of an `enum` are
    text; what has no form there is left out, and the tool's own check sees to it.
    """
    return {"type": "object", **_subset(lean_schema(schema), _definitions(schema), 0)}


def _definitions(schema: JsonObject) -> Mapping[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for key in ("definitions", "$defs"):
        for name, inner in read_object(schema, key).items():
            found[f"#/{key}/{name}"] = inner
    return found


def _subset(schema: JsonObject, definitions: Mapping[str, JsonValue], depth: int) -> dict[str, JsonValue]:
    schema = _resolved(schema, definitions)
    if depth > _MAX_DEPTH:
        return {"type": "object"}
    found: dict[str, JsonValue] = {key: value for key, value in schema.items() if key in _SUBSET}
    if "const" in schema:
        found["enum"] = [schema["const"]]
    _simplify_type(found, schema)
    _simplify_choice(found, schema, definitions, depth)
    if "properties" in found:
        found["properties"] = {
            name: _subset(inner, definitions, depth + 1)
            for name, inner in read_object(found, "properties").items()
            if isinstance(inner, Mapping)
        }
        known = read_object(found, "properties")
        found["required"] = [name for name in read_array(found, "required") if name in known]
    if not found.get("required"):
        found.pop("required", None)
    if found.get("type") == "array" or "items" in found:
        items = found.get("items")
        found["items"] = _subset(items, definitions, depth + 1) if isinstance(items, Mapping) else {"type": "string"}
    _simplify_enum(found)
    if read_str(found, "format") not in _FORMATS:
        found.pop("format", None)
    return found


def _resolved(schema: JsonObject, definitions: Mapping[str, JsonValue]) -> JsonObject:
    for _ in range(_MAX_DEPTH):
        target = definitions.get(read_str(schema, "$ref"))
        if not isinstance(target, Mapping):
            break
        schema = {**_lean(target, 0), **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def _simplify_type(found: dict[str, JsonValue], schema: JsonObject) -> None:
    kind = schema.get("type")
    if isinstance(kind, Sequence) and not isinstance(kind, str):
        others = [one for one in kind if one != "null"]
        found["type"] = others[0] if others else "string"
        if len(others) < len(kind):
            found["nullable"] = True


def _simplify_choice(
    found: dict[str, JsonValue], schema: JsonObject, definitions: Mapping[str, JsonValue], depth: int
) -> None:
    """Write a choice as `anyOf` without null, or as its one schema where only one is left."""
    choices = [*read_array(schema, "anyOf"), *read_array(schema, "oneOf")]
    merged = [one for one in read_array(schema, "allOf") if isinstance(one, Mapping)]
    for one in merged:
        for key, value in _subset(one, definitions, depth + 1).items():
            found.setdefault(key, value)
    found.pop("anyOf", None)
    if not choices:
        return
    schemas = [_subset(one, definitions, depth + 1) for one in choices if isinstance(one, Mapping)]
    real = [one for one in schemas if one.get("type") != "null"]
    if len(real) < len(schemas):
        found["nullable"] = True
    if len(real) == 1:
        for key, value in real[0].items():
            found.setdefault(key, value)
    elif real:
        found["anyOf"] = list[JsonValue](real)


def _simplify_enum(found: dict[str, JsonValue]) -> None:
    values = [value for value in read_array(found, "enum") if value is not None]
    if "enum" not in found:
        return
    if not values:
        found.pop("enum")
        return
    written = [value if isinstance(value, str) else json.dumps(value) for value in values]
    if all(isinstance(value, str) for value in values):
        found["enum"] = list[JsonValue](written)
        found.setdefault("type", "string")
    else:
        # An enum of the API is of text only; numbers are told in words and checked by the tool.
        found.pop("enum")
        found["description"] = f"{read_str(found, 'description')} One of {', '.join(written)}.".strip()
