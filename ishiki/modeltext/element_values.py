"""Arguments written as elements: one per parameter, `<item>` for what a list holds. The schema says what they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.modeltext.schema_values import Shape
from ishiki.modeltext.xml_scanner import Element, elements, from_xml_text, is_tag_name
from ishiki.modeltext.yaml_values import MAX_YAML_CHARS, read_yaml_arguments

__all__ = ["ITEM", "MAX_DEPTH", "only_parameter", "read_arguments"]

ITEM = "item"
"""The element of one thing in a list."""

MAX_DEPTH = 16
"""Elements inside each other that are still read as such; what is deeper is read as JSON or text."""

_MAX_KEY_CHARS = 100


def read_arguments(body: str, shape: Shape, *, is_closed: bool = True) -> JsonObject | None:
    """Return the arguments that the inside of a call's element holds; None where it is no call.

    Args:
        body: the inside, raw.
        shape: what the tool takes.
        is_closed: False where the closing tag is missing. Then only whole elements, with nothing between, are taken.
    """
    found, outside = elements(body, _wanted(shape))
    if found:
        if not is_closed and (outside.strip() or not all(element.is_closed for element in found)):
            return None
        return _object(found, shape, 0)
    if not is_closed:
        return None
    text = from_xml_text(body)
    if text.startswith("{") and isinstance(value := _json_object(text, shape), Mapping):
        return value
    if not text:
        return {}
    if (listed := _yaml(body, text, shape)) is not None:
        return listed
    only = only_parameter(shape)
    return {only: text} if only is not None and "string" in shape.property(only).types else None


def _wanted(shape: Shape) -> Callable[[str], bool]:
    """Return which tags count: the properties; any where the schema lists none but takes more than none."""
    names = frozenset(shape.properties())
    return names.__contains__ if names else is_tag_name


def _json_object(text: str, shape: Shape) -> JsonValue:
    try:
        return shape.json.read(text).value
    except ValueError:
        return None


def _yaml(body: str, text: str, shape: Shape) -> JsonObject | None:
    """Return the arguments of a YAML mapping whose first key is one of the tool's parameters."""
    key, colon, _ = text[:_MAX_KEY_CHARS].partition(":")
    if not colon or key.strip() not in shape.properties() or len(body) > MAX_YAML_CHARS:
        return None
    try:
        return read_yaml_arguments(body, shape)
    except ValueError:
        return None


def only_parameter(shape: Shape) -> str | None:
    """Return the one parameter that a lone value can be: the only required one, else the only one."""
    names = shape.properties()
    required = [name for name in names if name in shape.required()]
    candidates = required or names
    return candidates[0] if len(candidates) == 1 else None


def _object(found: Sequence[Element], shape: Shape, depth: int) -> JsonObject:
    groups: dict[str, list[str]] = {}
    for element in found:
        groups.setdefault(element.tag.name, []).append(element.inner)
    return {name: _value(inners, shape.property(name), depth + 1) for name, inners in groups.items()}


def _value(inners: Sequence[str], shape: Shape, depth: int) -> JsonValue:
    """Return the value of all elements of one name."""
    if depth < MAX_DEPTH and shape.has_type("array"):
        return _array(inners, shape, depth)
    return _single(inners[-1], shape, depth)


def _single(inner: str, shape: Shape, depth: int) -> JsonValue:
    if depth < MAX_DEPTH and shape.has_type("object"):
        found, outside = elements(inner, _wanted(shape))
        if found and not outside.strip():
            return _object(found, shape, depth)
        if not inner.strip():
            return {}
    return shape.read(from_xml_text(inner))


def _array(inners: Sequence[str], shape: Shape, depth: int) -> JsonValue:
    items = shape.items()
    if len(inners) > 1:
        return [_value([inner], items, depth + 1) for inner in inners]
    found, outside = elements(inners[0], lambda name: name == ITEM)
    if found and not outside.strip():
        return [_value([element.inner], items, depth + 1) for element in found]
    text = from_xml_text(inners[0])
    if not text:
        return []
    value = shape.read(text)
    if value is None or not isinstance(value, str):
        return value
    # One value where a list is due is a list of one, unless the schema takes the value itself.
    return value if "string" in shape.types else [_value([inners[0]], items, depth + 1)]
