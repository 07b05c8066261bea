"""The stop rule: when a turn has said what it had to say."""

from __future__ import annotations

import pytest

from ishiki.core.messages import AssistantMessage, ToolCallPart, ToolMessage, ToolOutput, ToolResultPart, Usage
from ishiki.core.plugin import StepResult
from ishiki.jsonvalue import JsonObject
from ishiki.tools.stop_rule import StopRule, goes_on

OK = ToolOutput("json", {"ok": True, "ids": ["901"]})
REFUSED = ToolOutput("json", {"ok": False, "error": {"name": "SendRefused", "message": "muted"}})
MUTED = ToolOutput("json", {"ok": False, "error": {"name": "CannotSpeak", "message": "muted"}})
UNREACHABLE = ToolOutput("json", {"ok": False, "error": {"name": "SendUnreachable", "message": "away"}})
INVALID = ToolOutput("error-text", "messages: 'x' is not of type 'array'")
BLOCKED = ToolOutput("json", {"blocked": True, "reason": "guard"})
OTHER = ToolOutput("text", "found")

Call = tuple[str, JsonObject, ToolOutput]
FINISHED: Call = ("finish", {}, ToolOutput("json", {"ok": True}))
SEARCHED: Call = ("search", {}, OTHER)


def send(output: ToolOutput, *, goes_on: bool | None = None) -> Call:
    """Return a call of send_message with its result."""
    return "send_message", {} if goes_on is None else {"continue": goes_on}, output


SAID = send(OK)
WAITED: Call = ("wait", {"seconds": 60}, ToolOutput("json", {"ok": True, "id": "w1"}))
NOT_WAITED: Call = ("wait", {}, ToolOutput("error-text", "Say what you wait for"))


def step(*calls: Call, turn_id: str = "t") -> StepResult:
    """Return a step with these calls and results."""
    parts = [ToolCallPart(f"c{number}", name, arguments) for number, (name, arguments, _) in enumerate(calls)]
    results = [ToolResultPart(f"c{number}", name, output) for number, (name, _, output) in enumerate(calls)]
    tool = ToolMessage(results) if calls else None
    return StepResult(turn_id, 0, AssistantMessage(parts), tool, Usage(), "tool-calls")


@pytest.mark.parametrize(
    ("calls", "decision"),
    [
        ([], None),
        ([FINISHED], False),
        ([FINISHED, SEARCHED], False),
        ([send(REFUSED), FINISHED], False),
        ([SAID], False),
        ([SAID, SAID], False),
        ([send(OK, goes_on=True)], None),
        ([send(OK, goes_on=False)], False),
        ([SAID, send(OK, goes_on=True)], None),
        ([SAID, SEARCHED], None),
        ([SEARCHED], None),
        ([send(REFUSED)], None),
        ([send(INVALID)], None),
        ([send(BLOCKED)], None),
        ([SAID, send(REFUSED)], None),
        ([send(UNREACHABLE)], False),
        ([send(MUTED)], False),
        ([send(MUTED, goes_on=True), SEARCHED], False),
        ([send(UNREACHABLE, goes_on=True), SEARCHED], False),
        ([WAITED], False),
        ([WAITED, WAITED], False),
        ([SAID, WAITED], False),
        ([FINISHED, WAITED], False),
        ([WAITED, SEARCHED], None),
        ([SAID, WAITED, SEARCHED], None),
        ([send(OK, goes_on=True), WAITED], None),
        ([send(REFUSED), WAITED], None),
        ([NOT_WAITED], None),
        ([WAITED, NOT_WAITED], None),
        ([SAID, NOT_WAITED], None),
    ],
)
def test_a_step_decides_by_its_own_calls_and_results(calls: list[Call], decision: bool | None) -> None:
    """Specification, stop rule; that an unreachable account and a wait end the turn is design, section 7."""
    assert goes_on(step(*calls)) is decision


@pytest.mark.parametrize("failure", [REFUSED, INVALID, BLOCKED])
def test_two_failed_sends_in_a_row_end_the_turn(failure: ToolOutput) -> None:
    """Design, section 7: the model may answer once more."""
    rule = StopRule()
    assert rule.goes_on(step(send(failure))) is None
    assert rule.goes_on(step(SEARCHED)) is None
    assert rule.goes_on(step(send(REFUSED))) is False


def test_the_first_failed_send_ends_a_turn_whose_forerunners_could_say_nothing() -> None:
    """Issue, property 2: a try costs one request."""
    rule = StopRule(lambda: True)
    assert rule.goes_on(step(send(REFUSED))) is False
    assert rule.goes_on(step(send(OK, goes_on=True), turn_id="u")) is None
    assert rule.goes_on(step(send(REFUSED), turn_id="u")) is None


def test_a_sent_message_and_a_new_turn_begin_the_count_anew() -> None:
    """Design, section 7: in a row."""
    rule = StopRule()
    failed = send(REFUSED, goes_on=True)
    assert rule.goes_on(step(failed)) is None
    assert rule.goes_on(step(send(OK, goes_on=True))) is None
    assert rule.goes_on(step(failed)) is None
    assert rule.goes_on(step(failed, turn_id="u")) is None
    assert rule.goes_on(step(failed, turn_id="u")) is False


def test_calls_of_one_step_fail_once() -> None:
    """Our choice: they were written before the first failure could be read."""
    failed = send(REFUSED)
    rule = StopRule()
    assert rule.goes_on(step(failed, failed)) is None
    assert rule.goes_on(step(failed)) is False
