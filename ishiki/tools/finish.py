"""`finish`: the turn ends without a word."""

from __future__ import annotations

from ishiki.core.tool import Tool, ToolContext
from ishiki.jsonvalue import JsonObject, JsonValue

__all__ = ["FINISH", "finish_tool"]

FINISH = "finish"


def finish_tool() -> Tool:
    """Make the tool. Ending the turn is the stop rule's doing."""

    def execute(arguments: JsonObject, context: ToolContext) -> JsonValue:
        return {"ok": True}

    return Tool(
        name=FINISH,
        description=(
            "End your turn without saying anything (more). Use it whenever you have nothing to add; being silent needs "
            "no explanation to the others."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "reason": {"type": "string", "description": "Why, for yourself only; nobody in the chat reads it."}
            },
            "additionalProperties": False,
        },
        execute=execute,
        sequential=True,
    )
