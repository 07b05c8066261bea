"""Checks a tool's input and output against its JSON Schema.

jsonschema is imported at the first check, or by `preload` in a worker thread: its import is a tenth of the bot's start,
and nothing needs it before the first tool call.
"""

from __future__ import annotations

from typing import Protocol, cast

from ishiki.jsonvalue import JsonObject, JsonValue

__all__ = ["preload", "schema_problem"]


class _Validator(Protocol):
    """The one method of jsonschema's validators that is used; their stubs leave its parameters untyped."""

    def validate(self, instance: JsonValue, /) -> None: ...


def preload() -> None:
    """Import what checks need. Blocks for a tenth of a second the first time."""
    schema_problem({}, {})


def schema_problem(value: JsonValue, schema: JsonObject) -> str:
    """Return where and how `value` breaks `schema`, for the model; "" where it fits."""
    # Here and not above: heavy at the start, see the module's docstring.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import UnknownType, ValidationError

    try:
        cast("_Validator", Draft202012Validator(dict(schema))).validate(value)
    except ValidationError as error:
        place = error.json_path.removeprefix("$").removeprefix(".")
        return f"{place or 'arguments'}: {error.message[:300]}"
    except UnknownType as error:
        return f"the tool's own schema is not valid JSON Schema: there is no type {error.type!r}"
    return ""
