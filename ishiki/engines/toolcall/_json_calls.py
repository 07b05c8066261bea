"""Calls written as JSON: `{"name": …, "arguments": …}`, one or a list of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ishiki.engines.toolcall._frames import Call, Frame
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.modeltext.json_text import JsonReader, strict_json

__all__ = ["calls_of"]

_ARGUMENTS = ("arguments", "parameters", "args", "input")
"""Keys under which models write arguments; the first is what they are told."""


def calls_of(frame: Frame, json: JsonReader) -> list[Call] | None:
    """Return the calls that a frame holds as JSON; None where it holds none, or anything that is no call.

    JSON is repaired in a closed frame only: in an open one nobody knows what is missing.
    """
    try:
        value = json.read_answer(frame.body).value if frame.is_closed else strict_json(frame.body)
    except ValueError:
        return None
    items: Sequence[JsonValue] = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    calls = [_call(item) for item in items if isinstance(item, Mapping)]
    found = [call for call in calls if call is not None]
    return found if found and len(found) == len(items) else None


def _call(data: JsonObject) -> Call | None:
    name = data.get("name")
    if isinstance(name, Mapping) or not isinstance(name, str):
        inner = data.get("function")
        # The shape of a native call, which some models write out.
        return _call(inner) if isinstance(inner, Mapping) else None
    if not name.strip():
        return None
    key = next((key for key in _ARGUMENTS if key in data), None)
    return Call(name.strip(), {} if key is None else data[key])
