"""`@tool`: a typed function becomes a `Tool`. Annotations make its schemas, the docstring its description."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo

from ishiki.core.disposer import resolved
from ishiki.core.tool import Tool, ToolContext
from ishiki.errors import ToolError
from ishiki.jsonvalue import JsonObject, JsonValue

__all__ = ["tool"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SCHEMAS_BY_NAME = frozenset({"properties", "$defs", "patternProperties"})
_ALIASES: Mapping[str, Any] = {
    "JsonValue": object,
    "JsonObject": Mapping[str, object],
    "Mapping": Mapping,
    "Sequence": Sequence,
}
"""What our JSON aliases mean in an annotation: they are written in quotes, and their names are unknown elsewhere."""

_PLAIN_DATA = frozenset({"default", "const", "enum", "examples"})

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
        TypeError: at decoration: the name is none that a model can call, a parameter has no annotation or cannot be
            passed by name, an annotation cannot be read, or there is neither docstring nor description.
    """

    def decorate(target: ToolFunction) -> Tool:
        return _make(target, name, description, sequential)

    return decorate if function is None else decorate(function)


def _make(function: ToolFunction, name: str, description: str, sequential: bool) -> Tool:
    own_name = name or getattr(function, "__name__", "tool")
    if not _NAME.fullmatch(own_name):
        raise TypeError(f"tool {own_name}: models take names of letters, digits, _ and - only, up to 64; pass name=")
    text = description or inspect.getdoc(function) or ""
    if not text:
        raise TypeError(f"tool {own_name}: write a docstring, or pass description=; the model reads it")
    hints = _hints(function, own_name)
    fields, context_name = _fields(function, hints, own_name)
    # The model's name shows in the schema's title only, which is dropped below.
    with warnings.catch_warnings():
        # A field may be called `json` or `copy` like a method of the base class: nobody calls that here.
        warnings.filterwarnings("ignore", message="Field name .* shadows an attribute", category=UserWarning)
        config = ConfigDict(extra="forbid", protected_namespaces=())
        model = create_model(f"{own_name}_input", __config__=config, **fields)
    output = TypeAdapter[object](hints["return"]) if _has_output(hints) else None

    async def execute(arguments: JsonObject, context: ToolContext) -> JsonValue:
        values = _values(model, arguments)
        if context_name:
            values[context_name] = context
        result = await resolved(function(**values))
        if output is None:
            return cast("JsonValue", result)
        # What does not fit the annotation is found by the output schema, with a text for the model.
        return cast("JsonValue", output.dump_python(result, mode="json", by_alias=True, warnings="none"))

    return Tool(
        name=own_name,
        description=text,
        input_schema=_without_titles(model.model_json_schema()),
        output_schema=None if output is None else _without_titles(output.json_schema(mode="serialization")),
        execute=execute,
        sequential=sequential,
    )


def _hints(function: ToolFunction, own_name: str) -> dict[str, Any]:
    known: dict[str, Any] = getattr(inspect.unwrap(function), "__globals__", {})
    aliases = {name: kind for name, kind in _ALIASES.items() if isinstance(known.get(name, ""), str)}
    try:
        return get_type_hints(function, localns={**known, **aliases}, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"tool {own_name}: {error}; its annotations are read while the bot runs: "
            "import their names at the top of the module, outside TYPE_CHECKING"
        ) from error


def _fields(function: ToolFunction, hints: Mapping[str, Any], own_name: str) -> tuple[dict[str, Any], str]:
    """Return the fields of the input model, and the name of the parameter that takes the context, or ""."""
    fields: dict[str, Any] = {}
    context_name = ""
    for parameter in inspect.signature(function).parameters.values():
        problem = ""
        if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            problem = "cannot be passed by name"
        elif parameter.name not in hints:
            problem = "needs an annotation"
        elif parameter.name.startswith("_"):
            problem = "may not begin with an underscore"
        if problem:
            raise TypeError(f"tool {own_name}: parameter {parameter.name!r} {problem}")
        if hints[parameter.name] is ToolContext:
            context_name = parameter.name
        else:
            fields[parameter.name] = (hints[parameter.name], _default(parameter))
    return fields, context_name


def _default(parameter: inspect.Parameter) -> FieldInfo:
    if isinstance(parameter.default, FieldInfo):
        return parameter.default  # `count: int = Field(ge=1)`
    return Field() if parameter.default is inspect.Parameter.empty else Field(default=parameter.default)


def _has_output(hints: Mapping[str, Any]) -> bool:
    return hints.get("return") not in (None, type(None))


def _values(model: type[BaseModel], arguments: JsonObject) -> dict[str, object]:
    try:
        return dict(model.model_validate(dict(arguments)))
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}" for item in error.errors()]
        raise ToolError("; ".join(problems), code="tool_refused") from None


def _without_titles(schema: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Drop pydantic's titles: they repeat the names and cost tokens in every request."""
    out: dict[str, JsonValue] = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in _SCHEMAS_BY_NAME:
            named = cast("Mapping[str, Mapping[str, Any]]", value)
            out[key] = {name: _without_titles(part) for name, part in named.items()}
        else:
            out[key] = value if key in _PLAIN_DATA else _inner(value)
    return out


def _inner(value: object) -> JsonValue:
    if isinstance(value, Mapping):
        return _without_titles(cast("Mapping[str, Any]", value))
    if isinstance(value, list):
        return [_inner(item) for item in cast("list[object]", value)]
    return cast("JsonValue", value)
