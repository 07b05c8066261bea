"""What `morph-xml` and `yaml-xml` share: a call is an element named after its tool, results are elements too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ishiki.core.messages import ToolResultPart
from ishiki.core.model import ToolSpec
from ishiki.engines.toolcall._history import output_value
from ishiki.jsonvalue import JsonValue, read_str
from ishiki.modeltext.json_text import compact_json
from ishiki.modeltext.schema_values import Shape
from ishiki.modeltext.xml_scanner import fenced, is_tag_name

__all__ = ["describe", "parameter_lines", "render_element_result"]

_RESULT_TAGS = ("tool_response", "tool_name", "result")
_MAX_RESULT_DEPTH = 32
"""Deeper results are written as JSON."""


def describe(tool: ToolSpec, *, has_schema: bool = True) -> str:
    """Return a tool's entry in the catalogue: name, description, a line per parameter, the schema."""
    lines = [f"name: {tool.name}", f"description: {tool.description}", *parameter_lines(tool)]
    if has_schema:
        lines.append(f"schema: {compact_json(tool.input_schema)}")
    return "\n".join(lines)


def parameter_lines(tool: ToolSpec) -> list[str]:
    """Return what a tool's parameters are, one a line, top level only."""
    shape = Shape.of(tool)
    names = shape.properties()
    if not names:
        return ["params: none"]
    required = shape.required()
    lines = ["params:"]
    for name in names:
        place = shape.property(name)
        mark = " **(required)**" if name in required else ""
        description = read_str(place.schema, "description")
        lines.append(f"  {name}: ({place.label()}){mark}{f' {description}' if description else ''}")
    return lines


def render_element_result(part: ToolResultPart) -> str:
    """Return a result as nested elements, lists as `<item>`."""
    return (
        f"<tool_response>\n  <tool_name>{part.tool_name}</tool_name>\n"
        f"  <result>{_nested(output_value(part.output), 2)}</result>\n</tool_response>"
    )


def _nested(value: JsonValue, depth: int) -> str:
    match value:
        case str():
            return fenced(value, _RESULT_TAGS)
        case Mapping() if depth < _MAX_RESULT_DEPTH and value and all(map(_can_be_tag, value)):
            return _lines(list(value.items()), depth)
        case Sequence() if depth < _MAX_RESULT_DEPTH and value and not isinstance(value, str):
            return _lines([("item", item) for item in value], depth)
        case _:
            return fenced(compact_json(value), _RESULT_TAGS)


def _can_be_tag(name: str) -> bool:
    return is_tag_name(name) and name not in _RESULT_TAGS


def _lines(items: Sequence[tuple[str, JsonValue]], depth: int) -> str:
    indent = "  " * depth
    lines = [f"{indent}<{name}>{_nested(value, depth + 1)}</{name}>" for name, value in items]
    return "\n" + "\n".join(lines) + "\n" + "  " * (depth - 1)
