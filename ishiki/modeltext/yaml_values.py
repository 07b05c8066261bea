"""Arguments written as a YAML mapping. Of YAML only what JSON has is read: no tags, aliases or dates; `yes` is text."""

from __future__ import annotations

import yaml

from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.modeltext.schema_values import Shape

__all__ = ["MAX_YAML_CHARS", "read_yaml_arguments"]

MAX_YAML_CHARS = 32_000
"""What the YAML of one answer may have in all; our choice. Reading it takes a second at most."""

_MAX_DEPTH = 32


def read_yaml_arguments(body: str, shape: Shape, *, is_closed: bool = True) -> JsonObject:
    """Return the arguments that `body` holds.

    Args:
        body: YAML, with whatever indentation its lines share.
        shape: what the tool takes.
        is_closed: whether all of it is there; nothing at all is no arguments only then.

    Raises:
        ValueError: it holds no YAML mapping.
    """
    body = _dedented(body)
    if body.lstrip().startswith("<"):
        raise ValueError("elements, not YAML")
    if not body.strip():
        if not is_closed:
            raise ValueError("the element is not closed")
        return {}
    try:
        node = yaml.compose(body, Loader=_JsonYamlLoader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(node, yaml.MappingNode):
        raise ValueError("no mapping")
    return _mapping(node, shape, 0)


def _dedented(body: str) -> str:
    """Return `body` without its first line break and the indentation that all its lines share."""
    lines = body.removeprefix("\r").removeprefix("\n").split("\n")
    margins = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
    margin = min(margins, default=0)
    return "\n".join(line[margin:] if line[:margin].strip() == "" else line for line in lines)


class _JsonYamlLoader(yaml.SafeLoader):
    """Composes nodes; refuses aliases, with which a short text stands for an endless one."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not taken here")
        return super().compose_node(parent, index)


def _mapping(node: yaml.MappingNode, shape: Shape, depth: int) -> JsonObject:
    found: dict[str, JsonValue] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ValueError("a key is no text")
        found[key.value] = _value(value, shape.property(key.value), depth + 1)
    return found


def _value(node: yaml.Node, shape: Shape, depth: int) -> JsonValue:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    match node:
        case yaml.MappingNode():
            return _mapping(node, shape, depth)
        case yaml.SequenceNode():
            items = shape.items()
            return [_value(item, items, depth + 1) for item in node.value]
        case yaml.ScalarNode():
            text: str = node.value
            # What stands in quotes or in a block is text; the schema may still know better than a model's habits.
            is_text = node.style is not None and "string" in shape.types
            return text if is_text else _plain(text, shape)
        case _:
            raise ValueError("an unknown kind of node")


def _plain(text: str, shape: Shape) -> JsonValue:
    if text in ("", "~") and not shape.is_text:
        return None
    return shape.read(text)
