"""The keys of profile.yaml as a table: what docs/reference/profile.md lists. Reads the models, owns nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ishiki.jsonvalue import read_array, read_object
from ishiki.profile.schema import ExtensionEntry, ProfileConfig

__all__ = ["KeyRow", "key_rows", "render_rows"]


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One key."""

    key: str
    """Dotted, such as `limits.turn_s`."""
    default: str
    """As YAML would write it; "required" where there is none, "unset" where it may be left out."""
    bounds: str
    """`from 1 to 20`, the words to choose from, or ""."""
    description: str
    """What it is, with its unit."""


def key_rows() -> tuple[KeyRow, ...]:
    """Return every key of profile.yaml but engines' and extensions' own settings, in the order of the model."""
    return tuple(_rows(ProfileConfig, ""))


def render_rows() -> str:
    """Return the rows as the Markdown table of the reference page."""
    lines = ["| key | default | bounds | what it is |", "| --- | --- | --- | --- |"]
    lines += [f"| `{row.key}` | {_code(row.default)} | {row.bounds} | {row.description} |" for row in key_rows()]
    return "\n".join(lines)


def _code(default: str) -> str:
    return default if default in ("required", "unset", "none") else f"`{default}`"


def _rows(model: type[BaseModel], prefix: str) -> Iterator[KeyRow]:
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _rows(field.annotation, f"{key}.")
            continue
        yield KeyRow(key, _default(field), _bounds(model, name), field.description or "")
        if name == "extends":
            yield from _rows(ExtensionEntry, f"{key}.<name>.")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default: object = field.get_default(call_default_factory=True, validated_data={})
    return "unset" if default is None else json.dumps(default)


def _bounds(model: type[BaseModel], name: str) -> str:
    """Return the bounds or choices that the field's JSON Schema states."""
    schema = read_object(read_object(model.model_json_schema(by_alias=False), "properties"), name)
    stated = dict(schema)
    for alternative in read_array(schema, "anyOf"):
        stated |= alternative if isinstance(alternative, Mapping) else {}
    choices = read_array(stated, "enum")
    if choices:
        return " or ".join(f"`{choice}`" for choice in choices)
    words = {"minimum": "from", "maximum": "to"}
    return " ".join(f"{word} {stated[key]}" for key, word in words.items() if key in stated)
