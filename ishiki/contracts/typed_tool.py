"""`@tool`: a typed function becomes a `Tool`. Annotations make its schemas, the docstring its description."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, cast, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.fields import FieldInfo

from ishiki.core.disposer import resolved
from ishiki.core.tool import Tool, ToolContext
from ishiki.jsonvalue import JsonObject, JsonValue

__all__ = ["tool"]

ToolFunction: TypeAlias = "Callable[..., Awaitable[object] | object]"


@overload
def tool(function: ToolFunction, /) -> Tool: ...
@overload
def tool(*, name: str = "", description: str = "", sequential: bool = False) -> Callable[[ToolFunction], Tool]: ...
def tool(
    function: ToolFunction | None = None, /, *, name: str = "", description: str = "", sequential: bool = False
) -> Tool | Callable[[ToolFunction], Tool]:
    """Make a `Tool` of a sync or async function.

    Parameters become properties of the input schema: those without a default are required, a description comes from
    `Annotated[…, Field(description=…)]`. A parameter annotated `ToolContext` is handed the context instead. The return
    annotation becomes the output schema.

    Args:
        function: the function, when used without parentheses.
        name: the tool's name; by default the function's.
        description: what the model reads; by default the docstring.
        sequential: see `Tool.sequential`.

    Raises:
        TypeError: at decoration: a parameter has no annotation, or there is neither docstring nor description.
    """

    def decorate(target: ToolFunction) -> Tool:
        return _make(target, name, description, sequential)

    return decorate if function is None else decorate(function)


def _make(function: ToolFunction, name: str, description: str, sequential: bool) -> Tool:
    own_name = name or getattr(function, "__name__", "tool")
    text = description or inspect.getdoc(function) or ""
    if not text:
        raise TypeError(f"tool {own_name}: write a docstring, or pass description=; the model reads it")
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    context_name = ""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name not in hints:
            raise TypeError(f"tool {own_name}: parameter {parameter.name!r} needs an annotation")
        if hints[parameter.name] is ToolContext:
            context_name = parameter.name
            continue
        default: FieldInfo = (
            Field() if parameter.default is inspect.Parameter.empty else Field(default=parameter.default)
        )
        fields[parameter.name] = (hints[parameter.name], default)
    # "_input": pydantic puts the model's name into the schema's title only, which is dropped below.
    model = create_model(f"{own_name}_input", __config__=ConfigDict(extra="forbid"), **fields)
    output = TypeAdapter[object](hints["return"]) if hints.get("return", None) not in (None, type(None)) else None

    async def execute(arguments: JsonObject, context: ToolContext) -> JsonValue:
        values = _values(model.model_validate(dict(arguments)))
        if context_name:
            values[context_name] = context
        result = await resolved(function(**values))
        return cast("JsonValue", result if output is None else output.dump_python(result, mode="json"))

    return Tool(
        name=own_name,
        description=text,
        input_schema=_without_titles(model.model_json_schema()),
        output_schema=None if output is None else _without_titles(output.json_schema()),
        execute=execute,
        sequential=sequential,
    )


def _values(model: BaseModel) -> dict[str, object]:
    return {name: getattr(model, name) for name in type(model).model_fields}


def _without_titles(schema: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Drop pydantic's titles: they repeat the names and cost tokens in every request."""
    out: dict[str, JsonValue] = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key == "properties" and isinstance(value, Mapping):
            out[key] = {
                name: _without_titles(part) for name, part in cast("Mapping[str, Mapping[str, Any]]", value).items()
            }
        elif isinstance(value, Mapping):
            out[key] = _without_titles(cast("Mapping[str, Any]", value))
        else:
            out[key] = value
    return out
