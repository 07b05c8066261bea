"""`wait`: what a model may ask to be woken for, and what it is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta, timezone
from pathlib import Path

import pytest

from ishiki.contracts.events import MessageCreated, User
from ishiki.core.disposer import resolved
from ishiki.core.entries import Entry
from ishiki.core.schema import schema_problem
from ishiki.core.signal import CancelSignal
from ishiki.core.tool import ToolContext
from ishiki.errors import StorageError, ToolError
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.clock import FakeClock
from ishiki.tools.wait import MAX_WAITS, MessageCondition, Wait, wait_tool

EAST = timezone(timedelta(hours=8))
"""The clock's first moment, 07:06:40 UTC, is 15:06:40 there."""

NOW_MS = FakeClock().now_ms()
WEEK_MS = 7 * 86_400_000


@dataclass(slots=True)
class Keeper:
    """Keeps waits in memory, or refuses."""

    refusal: StorageError | None = None
    kept: list[Wait] = field(default_factory=list[Wait])

    @property
    def pending_count(self) -> int:
        return len(self.kept)

    async def keep(self, wait: Wait, context: ToolContext) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.kept.append(wait)


async def waiting(keeper: Keeper, **arguments: JsonValue) -> JsonValue:
    """Call the tool as a turn would, behind its schema."""
    tool = wait_tool(keeper, EAST)
    assert tool.execute is not None
    assert schema_problem(arguments, tool.input_schema) == ""

    async def record(*entries: Entry) -> None:
        raise AssertionError("the keeper records")

    context = ToolContext("c1", "t1", 0, (), CancelSignal(), FakeClock(), record)
    return await resolved(tool.execute(arguments, context))


async def kept(**arguments: JsonValue) -> Wait:
    """Return what is kept of one call."""
    keeper = Keeper()
    await waiting(keeper, **arguments)
    (wait,) = keeper.kept
    return wait


async def test_seconds_wait_for_a_moment_and_the_model_reads_when_it_is() -> None:
    """Design, wait: `seconds`; the time is told in the profile's zone."""
    keeper = Keeper()
    result = await waiting(keeper, seconds=90, reason="the  tea\nis ready")
    (wait,) = keeper.kept
    assert result == {"ok": True, "id": wait.id, "expires_at": "2025-11-29T15:08:10+08:00"}
    assert (wait.until_ms, wait.wakes_in_time, wait.message) == (NOW_MS + 90_000, True, None)
    assert wait.prompt == "wait: the tea is ready"


@pytest.mark.parametrize(
    ("until", "seconds"),
    [
        ("2025-11-29T15:06:41", 1),
        ("2025-11-29 15:10", 200),
        ("2025-11-29T07:10:00Z", 200),
        ("2025-11-29T08:10:00+01:00", 200),
        ("2025-12-06T15:06:40", 7 * 86_400),
    ],
)
async def test_a_time_without_a_zone_is_one_of_the_profiles_zone(until: str, seconds: int) -> None:
    """Our choice: what a mind calls eight o'clock is eight o'clock where it lives."""
    assert (await kept(until=until)).until_ms == NOW_MS + seconds * 1000


async def test_of_two_times_the_earlier_one_counts() -> None:
    """Design, wait: the first to come true."""
    assert (await kept(until="2025-11-29T15:10:00", seconds=30)).until_ms == NOW_MS + 30_000
    assert (await kept(until="2025-11-29T15:10:00", seconds=300)).until_ms == NOW_MS + 200_000


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "at least one"),
        ({"reason": "nothing"}, "at least one"),
        ({"until": "tomorrow"}, "'tomorrow' is no time"),
        ({"until": "0001-01-01T00:00:00"}, "0001-01-01"),
        ({"until": "2025-11-29T15:06:40"}, "too soon, or over"),
        ({"until": "2025-11-29T15:06:00"}, "It is 2025-11-29T15:06:40+08:00 now"),
        ({"until": "2025-12-06T15:06:41"}, "more than 7 days away"),
        ({"message": {}}, "say which one"),
        ({"message": {"any": False}}, "say which one"),
        ({"message": {"from": " ", "contains": ""}}, "say which one"),
    ],
)
async def test_what_cannot_be_waited_for_is_told_to_the_model_and_not_kept(arguments: JsonObject, told: str) -> None:
    """Design, wait: at least one condition, from 1 second to 7 days."""
    keeper = Keeper()
    with pytest.raises(ToolError) as caught:
        await waiting(keeper, **arguments)
    assert told in str(caught.value)
    assert keeper.kept == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"seconds": 0},
        {"seconds": 0.5},
        {"seconds": 7 * 86_400 + 1},
        {"seconds": "90"},
        {"minutes": 1},
        {"message": {"user": "42"}},
        {"message": "any"},
    ],
)
def test_the_schema_refuses_what_is_out_of_bounds_or_unknown(arguments: dict[str, JsonValue]) -> None:
    """Design, wait; an unknown key is a misspelt one."""
    assert schema_problem(arguments, wait_tool(Keeper(), EAST).input_schema)


async def test_a_wait_for_a_message_alone_is_given_up_after_a_week() -> None:
    """Design, wait: at most 7 days."""
    keeper = Keeper()
    result = await waiting(keeper, message={"from": "42"})
    (wait,) = keeper.kept
    assert (wait.until_ms, wait.wakes_in_time) == (NOW_MS + WEEK_MS, False)
    assert result == {"ok": True, "id": wait.id}, "it has no time at which it wakes"


async def test_no_more_than_eight_waits_may_be_pending() -> None:
    """Design, wait."""
    keeper = Keeper()
    for _ in range(MAX_WAITS):
        await waiting(keeper, seconds=60)
    with pytest.raises(ToolError, match="8 waits are pending"):
        await waiting(keeper, seconds=60)
    assert len(keeper.kept) == MAX_WAITS == 8


async def test_a_wait_that_cannot_be_written_down_is_refused_without_a_path_of_the_host() -> None:
    """Our choice: a promise that a restart forgets is none; the model has no use for paths."""
    keeper = Keeper(StorageError("no space", path=Path("/srv/data/agenda.json")))
    with pytest.raises(ToolError) as caught:
        await waiting(keeper, seconds=60)
    assert "/srv" not in str(caught.value)
    assert "nobody will wake you" in str(caught.value)


@pytest.mark.parametrize(
    ("condition", "content", "holds"),
    [
        (MessageCondition(), "anything", True),
        (MessageCondition(user_id="42"), "anything", True),
        (MessageCondition(user_id="43"), "anything", False),
        (MessageCondition(text="Done"), "it is DONE now", True),
        (MessageCondition(text="done"), "not yet", False),
        (MessageCondition(text="a<b"), "a&lt;b", True),
        (MessageCondition(text="img"), '<img src="asset://1"/>', False),
        (MessageCondition(user_id="42", text="done"), "not yet", False),
        (MessageCondition(user_id="43", text="done"), "done", False),
        (MessageCondition(user_id="42", text="done"), "done", True),
    ],
)
def test_a_message_ends_a_wait_where_all_that_is_given_holds(
    condition: MessageCondition, content: str, holds: bool
) -> None:
    """Design, wait: `message`; that letter case makes no difference and markup does not count is our choice."""
    said = MessageCreated(NOW_MS, "onebot", "10001", "group:500", "m1", content, is_direct=False, user=User("42"))
    assert condition.holds(said) is holds


@pytest.mark.parametrize(
    "wait",
    [
        Wait("w1", NOW_MS, wakes_in_time=True),
        Wait("w1", NOW_MS, wakes_in_time=True, message=MessageCondition("42", "done"), reason="tea"),
        Wait("w1", NOW_MS, wakes_in_time=False, message=MessageCondition()),
    ],
)
def test_a_wait_reads_back_from_the_form_of_the_log(wait: Wait) -> None:
    """Format of `ishiki.wait`, of checkpoints and of the agenda."""
    assert Wait.from_data(wait.to_data()) == wait
    assert Wait.from_data(wait.to_entry("set", timestamp=NOW_MS).json_data) == wait


def test_the_end_of_a_wait_names_it_and_nothing_else() -> None:
    """Format of `ishiki.wait`."""
    entry = Wait("w1", NOW_MS, wakes_in_time=True, reason="tea").to_entry("over", timestamp=NOW_MS)
    assert (entry.type, entry.json_data) == ("ishiki.wait", {"state": "over", "id": "w1"})
