"""Runs the tool calls of one step. What the model wrote is untrusted: nothing runs before it has passed its schema.

Calls run concurrently; those of sequential tools run one after another in call order beside them. Results come back
in call order. Cancellation is passed on and never turned into a tool error.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio

from ishiki.core.clock import Clock
from ishiki.core.disposer import resolved
from ishiki.core.events import AgentEvent, ErrorInfo, ToolBlocked, ToolDone, ToolFailed, ToolStart
from ishiki.core.feed import AgentFeed
from ishiki.core.messages import ModelMessage, ToolCallPart, ToolOutput, ToolResultPart
from ishiki.core.model import ToolCall
from ishiki.core.plugin import AgentPlugin, Allow, Block, Replace, ToolCallInfo, ToolDecision, ToolOutcome, overrides
from ishiki.core.schema import schema_problem
from ishiki.core.signal import CancelSignal
from ishiki.core.tool import Tool, ToolContext, ToolExecute, ToolInvocation, ToolSet, default_output
from ishiki.errors import ToolError
from ishiki.jsonvalue import JsonObject, JsonValue, normalise, without_surrogates
from ishiki.modeltext.coercion import coerced, unwrapped
from ishiki.modeltext.json_text import arguments_json
from ishiki.modeltext.schema_values import Shape

__all__ = ["ToolRunner", "parse_arguments"]

logger = logging.getLogger(__name__)


def parse_arguments(call: ToolCall, schema: JsonObject | None = None, *, is_cut: bool = False) -> tuple[JsonValue, str]:
    """Return the arguments of `call` and what is wrong with them ("" for nothing).

    No arguments at all, in any of the ways in which models write that, are an empty object. JSON that is nearly right,
    and values in another form than the schema's, are taken where they are unmistakable.

    Args:
        call: what the model wrote.
        schema: the tool's; None for a tool that is not there.
        is_cut: whether the model was stopped before its end.
    """
    text = call.arguments.strip()
    if text in ("", "null", '""', "[]"):
        return {}, ""
    problem = ""
    value: JsonValue
    try:
        value = normalise(json.loads(text, parse_constant=_refuse_constant))
    except (ValueError, TypeError, RecursionError) as error:
        problem = f"The arguments are not valid JSON ({error}). Call the tool again with a JSON object."
        value = arguments_json(text, is_cut=is_cut)
        if value is None:
            return without_surrogates(call.arguments), problem
        value = normalise(value)
    if schema is not None:
        value = _coerced(value, schema)
    elif not isinstance(value, Mapping):
        value = unwrapped(value, Shape())
    if not isinstance(value, Mapping):
        return value, "The arguments have to be a JSON object. Call the tool again with a JSON object."
    return value, ""


def _coerced(value: JsonValue, schema: JsonObject) -> JsonValue:
    """Return the arguments as the schema has them where that is unmistakable; a schema that is broken says nothing."""
    try:
        return coerced(value, schema, schema_problem)
    except Exception:  # noqa: BLE001 - boundary: a tool's own schema; the call itself is answered with what is wrong
        return value


def _fitting(args: JsonValue, schema: JsonObject) -> tuple[JsonObject, str]:
    """Return the arguments as `schema` has them, and what is wrong with them where that cannot be."""
    given: JsonObject = args if isinstance(args, Mapping) else {}
    problem = schema_problem(args, schema)
    if not problem:
        return given, ""
    changed = coerced(args, schema, schema_problem)
    return (given, problem) if changed is args or not isinstance(changed, Mapping) else (changed, "")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _plain(tool_name: str, deed: str, value: object) -> JsonValue:
    """Return what a tool gave us as JSON.

    Raises:
        TypeError: it has no JSON form; names the tool.
    """
    try:
        return normalise(value)
    except TypeError as error:
        raise TypeError(f"The tool {tool_name!r} {deed} what cannot be passed on: {error}.") from error


@dataclass(slots=True)
class ToolRunner:
    """The tools of one turn."""

    turn_id: str
    tools: ToolSet
    plugins: Sequence[AgentPlugin]
    feed: AgentFeed
    clock: Clock
    signal: CancelSignal
    record: Callable[..., Awaitable[None]]
    limit_s: float
    extra: JsonObject = field(default_factory=dict[str, JsonValue])
    refused: int = 0
    """How many calls were refused before they ran: no such tool, or arguments that cannot be used."""

    async def run(
        self, calls: Sequence[tuple[ToolCallPart, str]], *, step: int, messages: Sequence[ModelMessage]
    ) -> list[ToolResultPart]:
        """Run `calls`, each with what was wrong with its arguments, and return their results in the same order."""
        outputs: dict[str, ToolOutput] = {}

        async def run_one(call: ToolCallPart, problem: str) -> None:
            outputs[call.tool_call_id] = await self._run_one(call, problem, step, messages)

        async def run_in_order(pairs: Sequence[tuple[ToolCallPart, str]]) -> None:
            for call, problem in pairs:
                await run_one(call, problem)

        in_order = [pair for pair in calls if self._is_sequential(pair[0])]
        at_once = [pair for pair in calls if not self._is_sequential(pair[0])]
        async with anyio.create_task_group() as group:
            for call, problem in at_once:
                group.start_soon(run_one, call, problem)
            await run_in_order(in_order)
        return [ToolResultPart(call.tool_call_id, call.tool_name, outputs[call.tool_call_id]) for call, _ in calls]

    def _is_sequential(self, call: ToolCallPart) -> bool:
        tool = self.tools.get(call.tool_name)
        return tool is not None and tool.sequential

    async def _run_one(
        self, call: ToolCallPart, problem: str, step: int, messages: Sequence[ModelMessage]
    ) -> ToolOutput:
        tool = self.tools.get(call.tool_name)
        if tool is None:
            known = ", ".join(self.tools) or "none"
            return await self._refuse(call, f"There is no tool {call.tool_name!r}. The tools are: {known}.")
        if tool.execute is None:
            return await self._refuse(call, f"The tool {call.tool_name!r} cannot be run here.")
        args: JsonObject = call.input if isinstance(call.input, Mapping) else {}
        if problem:
            return await self._refuse(call, problem)
        info = ToolCallInfo(self.turn_id, step, call.tool_name, call.tool_call_id, args)
        try:
            args, problem = _fitting(args, tool.input_schema)
            if problem:
                return await self._refuse(call, problem)
            info = replace(info, args=args)
            match await self._decide(info):
                case Block(reason):
                    await self.feed.emit(ToolBlocked(self.turn_id, call.tool_name, call.tool_call_id, reason))
                    return ToolOutput("json", {"blocked": True, "reason": reason})
                case Replace(changed):
                    args, problem = _fitting(normalise(changed), tool.input_schema)
                    info = replace(info, args=args)
                    if problem:
                        return await self._refuse(call, problem)
                case Allow():
                    pass
            return await self._execute(tool, tool.execute, info, messages)
        except Exception as error:  # noqa: BLE001 - boundary: a tool call; the model is told and the turn goes on
            return await self._failed(info, error)

    async def _decide(self, info: ToolCallInfo) -> ToolDecision:
        decision: ToolDecision = Allow()
        for plugin in self.plugins:
            if overrides(plugin, "before_tool_call"):
                decision = await resolved(plugin.before_tool_call(decision, info)) or decision
        return decision

    async def _execute(
        self, tool: Tool, execute: ToolExecute, info: ToolCallInfo, messages: Sequence[ModelMessage]
    ) -> ToolOutput:
        context = ToolContext(
            tool_call_id=info.tool_call_id,
            turn_id=info.turn_id,
            step=info.step,
            messages=messages,
            signal=self.signal,
            clock=self.clock,
            record=self.record,
            extra=self.extra,
            tools=self.tools,
        )
        await self.feed.emit(ToolStart(info.turn_id, info.tool_name, info.tool_call_id, info.args))
        result = _plain(info.tool_name, "returned", await self._run_in_time(tool, execute, info, context))
        problem = "" if tool.output_schema is None else schema_problem(result, tool.output_schema)
        if problem:
            raise ToolError(f"The tool returned what its own output schema does not allow ({problem}).")
        outcome = await self._transform(ToolOutcome(info, result, is_error=False))
        output = default_output(outcome.result)
        if tool.to_model_output is not None:
            output = await resolved(tool.to_model_output(ToolInvocation(info.tool_call_id, info.args, outcome.result)))
            output = replace(output, value=_plain(info.tool_name, "wrote for the model", output.value))
        await self.feed.emit(ToolDone(info.turn_id, info.tool_name, info.tool_call_id, outcome.result))
        return output

    async def _run_in_time(self, tool: Tool, execute: ToolExecute, info: ToolCallInfo, context: ToolContext) -> object:
        limit_s = self.limit_s if tool.limit_s is None else tool.limit_s
        with anyio.move_on_after(limit_s):
            return await resolved(execute(info.args, context))
        raise ToolError(f"The call did not return within {limit_s:g} seconds.", code="tool_timeout")

    async def _failed(self, info: ToolCallInfo, error: Exception) -> ToolOutput:
        if not isinstance(error, ToolError):
            logger.warning("tool %s raised", info.tool_name, exc_info=error)
        said = ErrorInfo.of(error).message
        text = said if isinstance(error, ToolError) else f"{type(error).__name__}: {said}"
        outcome = await self._transform(ToolOutcome(info, without_surrogates(text), is_error=True))
        await self.feed.emit(
            ToolFailed(info.turn_id, info.tool_name, info.tool_call_id, info.args, ErrorInfo.of(error))
        )
        return ToolOutput("error-text" if isinstance(outcome.result, str) else "error-json", outcome.result)

    async def _transform(self, outcome: ToolOutcome) -> ToolOutcome:
        for plugin in self.plugins:
            if overrides(plugin, "after_tool_call"):
                try:
                    changed = await resolved(plugin.after_tool_call(outcome)) or outcome
                    outcome = changed if changed is outcome else replace(changed, result=normalise(changed.result))
                except Exception:
                    logger.warning("after_tool_call of %s raised", plugin.name, exc_info=True)
        return outcome

    async def _refuse(self, call: ToolCallPart, problem: str) -> ToolOutput:
        self.refused += 1
        event: AgentEvent = ToolFailed(
            self.turn_id, call.tool_name, call.tool_call_id, call.input, ErrorInfo("ToolError", problem, "tool_refused")
        )
        await self.feed.emit(event)
        return ToolOutput("error-text", problem)
