"""The stop rule: whether a turn goes on after a step. It reads nothing but what the step recorded.

Source: specification, built-in tools, stop rule; that some failures, and any two in a row, end a turn is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ishiki.core.messages import ToolCallPart, ToolOutput
from ishiki.core.plugin import StepResult
from ishiki.jsonvalue import JsonObject, read_object, read_str
from ishiki.tools.deliveries import SEND_MESSAGE
from ishiki.tools.finish import FINISH
from ishiki.tools.wait import WAIT

__all__ = ["MAX_FAILED_SENDS", "StopRule", "failed_sends", "goes_on"]

MAX_FAILED_SENDS = 2
"""Steps in a row whose sends all failed, after which a turn ends. Source: design: after a refusal the model may answer
once more."""

_FINAL_ERRORS = frozenset({"SendUnreachable", "MessageLimit", "CannotSpeak"})
"""Errors of `send_message` behind which nothing more can be said in the same turn."""


def goes_on(result: StepResult, *, failed_before: int = 0) -> bool | None:
    """Return whether the turn goes on; None leaves it to the loop's own rule. Pure.

    1. A direct `finish` ends it.
    2. So does an account that cannot be reached, a turn that has said all it may, and the second failed send in a row.
    3. So does speaking or waiting: at least one `send_message` or `wait`, nothing else beside them, no `send_message`
       that continues, all ok.

    Args:
        result: the step.
        failed_before: what `failed_sends` returned for the turn's step before; 0 for its first.
    """
    calls = result.assistant.tool_calls
    if any(call.tool_name == FINISH for call in calls):
        return False
    sends = [call for call in calls if call.tool_name == SEND_MESSAGE]
    waits = [call for call in calls if call.tool_name == WAIT]
    if not sends and not waits:
        return None
    values = [_value(result, call) for call in sends]
    if any(read_str(read_object(value, "error"), "name") in _FINAL_ERRORS for value in values):
        return False
    if failed_sends(result, failed_before) >= MAX_FAILED_SENDS:
        return False
    continues = any(isinstance(call.input, Mapping) and call.input.get("continue") is True for call in sends)
    are_ok = all(value.get("ok") is True for value in (*values, *(_value(result, call) for call in waits)))
    return False if are_ok and not continues and len(sends) + len(waits) == len(calls) else None


def failed_sends(result: StepResult, before: int) -> int:
    """Return how many steps in a row have failed to say anything; a step without `send_message` changes nothing.

    Calls of one step count once (our choice): the model wrote them all before it could read of the first failure.
    """
    values = [_value(result, call) for call in result.assistant.tool_calls if call.tool_name == SEND_MESSAGE]
    if not values:
        return before
    return 0 if any(value.get("ok") is True for value in values) else before + 1


@dataclass(slots=True)
class StopRule:
    """`goes_on` over the steps of an agent's turns, one turn at a time."""

    failed_before: Callable[[], bool] = lambda: False
    """Whether the turns before could say nothing: then the first failed send of a turn counts as its second."""
    _turn_id: str = ""
    _failed: int = 0

    def goes_on(self, result: StepResult) -> bool | None:
        """Return whether the turn goes on after this step; call it once for each step, in order."""
        if result.turn_id != self._turn_id:
            self._turn_id, self._failed = result.turn_id, int(self.failed_before())
        decision = goes_on(result, failed_before=self._failed)
        self._failed = failed_sends(result, self._failed)
        return decision


def _value(result: StepResult, call: ToolCallPart) -> JsonObject:
    """Return the call's result where it is a JSON object; an empty one for an error or anything else."""
    parts = () if result.results is None else result.results.content
    output: ToolOutput | None = next((part.output for part in parts if part.tool_call_id == call.tool_call_id), None)
    if output is None or output.type != "json" or not isinstance(output.value, Mapping):
        return {}
    return output.value
