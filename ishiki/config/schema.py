"""Walks a configuration's data and its model side by side: which model owns a key, and under which spelling.

Pydantic reports field names and union branches; a file has keys. This module maps the one to the other.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from ishiki.config.document import KeyPath
from ishiki.jsonvalue import JsonValue

__all__ = ["Location", "both_spellings", "locate", "models_of", "shown_name", "spellings"]

_Types: TypeAlias = "tuple[object, ...]"
"""Annotations that a value may be validated against: one, or the members of a union."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a validation error points."""

    path: KeyPath
    """The keys as the file spells them; the last one may be absent from it."""
    types: _Types
    """The annotations of the value at `path`; those of its owner when a key is missing."""
    owner_types: _Types
    """The annotations of the mapping or list that holds it."""
    branch: str | None
    """The first union branch that the error belongs to, or None outside unions."""
    branch_path: KeyPath
    """The path of that union."""
    is_key: bool
    """Whether a mapping's key is to blame rather than its value."""
    description: str
    """The description of the field at `path`; "" where no field stands there."""


def spellings(name: str, field: FieldInfo) -> tuple[str, ...]:
    """Return every key that fills the field: its name first, then its aliases."""
    alias = field.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else (alias, field.alias)
    return tuple(dict.fromkeys((name, *(choice for choice in choices if isinstance(choice, str)))))


def shown_name(name: str, field: FieldInfo) -> str:
    """Return the spelling that messages use: the field's name, or an alias that its author wrote by hand."""
    alias = field.validation_alias
    return alias if isinstance(alias, str) and alias != to_camel(name) else name


def models_of(types: _Types) -> tuple[type[BaseModel], ...]:
    """Return the models among `types`."""
    return tuple(one for one in types if isinstance(one, type) and issubclass(one, BaseModel))


def locate(loc: Sequence[str | int], data: JsonValue, model: type[BaseModel]) -> Location:
    """Map the location of one of pydantic's errors to the place in `data`."""
    node: JsonValue = data
    path: KeyPath = ()
    types: _Types = (model,)
    owner_types: _Types = ()
    branch: str | None = None
    branch_path: KeyPath = ()
    is_key = False
    description = ""
    for index, part in enumerate(loc):
        if isinstance(part, str) and isinstance(node, Mapping):
            name, inner, about = _field_key(part, node, types)
            if name in node:
                path, owner_types, types, node, description = (*path, name), types, inner, node[name], about
                continue
            if about and index == len(loc) - 1:
                path, description = (*path, name), about
                continue
        elif isinstance(part, int) and isinstance(node, Sequence) and not isinstance(node, str) and part < len(node):
            path, owner_types, types, node = (*path, part), types, _item_types(types), node[part]
            description = ""
            continue
        if part == "[key]":
            is_key = True
            continue
        types = _members_named(types, str(part))
        if branch is None:
            branch, branch_path = str(part), path
    return Location(path, types, owner_types, branch, branch_path, is_key, description)


def _members_named(types: _Types, label: str) -> _Types:
    """Return the union member that pydantic's label means: a class name or a tag; `types` where it names no model."""
    named = tuple(
        model
        for model in models_of(types)
        if model.__name__ == label or any(label in _literals(field) for field in model.model_fields.values())
    )
    return named or types


def _literals(field: FieldInfo) -> tuple[object, ...]:
    return get_args(field.annotation) if get_origin(field.annotation) is Literal else ()


def both_spellings(data: JsonValue, model: type[BaseModel]) -> list[tuple[KeyPath, str, str]]:
    """Return the fields that `data` gives in two spellings: the path of their mapping, the first and the second."""
    found: dict[tuple[KeyPath, str, str], None] = {}
    _collect_both(data, (model,), (), found)
    return list(found)


def _collect_both(node: JsonValue, types: _Types, path: KeyPath, found: dict[tuple[KeyPath, str, str], None]) -> None:
    if isinstance(node, Mapping):
        for model in models_of(types):
            for name, field in model.model_fields.items():
                given = [key for key in node if key in spellings(name, field)]
                found.update(((path, given[0], key), None) for key in given[1:])
        for key, value in node.items():
            _collect_both(value, _field_key(key, node, types)[1], (*path, key), found)
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for index, item in enumerate(node):
            _collect_both(item, _item_types(types), (*path, index), found)


def _field_key(part: str, node: Mapping[str, JsonValue], types: _Types) -> tuple[str, _Types, str]:
    """Return the key of `node` that the location part means, the annotations of its value, and the field's description.

    Where no model has such a field the description is "".
    """
    for model in models_of(types):
        for name, field in model.model_fields.items():
            names = spellings(name, field)
            if part in names:
                key = next((spelling for spelling in names if spelling in node), shown_name(name, field))
                return key, _flat(field.annotation), field.description or name
    return part, tuple(inner for one in types for inner in _mapping_values(one)), ""


def _item_types(types: _Types) -> _Types:
    return tuple(inner for one in types for inner in _sequence_items(one))


def _mapping_values(annotation: object) -> _Types:
    origin = get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _flat(get_args(annotation)[1])
    return ()


def _sequence_items(annotation: object) -> _Types:
    origin = get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, Sequence | set | frozenset):
        return tuple(inner for one in get_args(annotation) if one is not Ellipsis for inner in _flat(one))
    return ()


def _flat(annotation: object) -> _Types:
    """Return the members of unions, without `Annotated` and alias wrappers."""
    # What `type X = …` makes, from Python 3.12 on or from typing_extensions: there is no common class to test for.
    aliased: object = getattr(annotation, "__value__", None)
    if aliased is not None:
        return _flat(aliased)
    origin = get_origin(annotation)
    if origin is Annotated:
        return _flat(get_args(annotation)[0])
    if origin is Union or origin is types.UnionType:
        return tuple(inner for one in get_args(annotation) for inner in _flat(one))
    return (annotation,)
