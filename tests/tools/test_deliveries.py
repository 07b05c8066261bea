"""Deliveries: what an unfinished turn is remembered to have said."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.contracts.events import ChannelRef
from ishiki.core.entries import DELIVERY, Entry, entry_from_json, entry_to_json, message_entry
from ishiki.core.messages import AssistantMessage, ToolCallPart, ToolMessage
from ishiki.jsonvalue import JsonValue
from ishiki.tools.deliveries import Delivery, DeliveryState, settle_entries, unfinished_deliveries

GROUP = ChannelRef("onebot:1", "group:5")


def delivery(
    state: DeliveryState, *, index: int = 0, call: str = "c1", turn: str = "t1", message_id: str = ""
) -> Entry:
    """Return one delivery entry; its content tells its call and index."""
    made = Delivery(call, index, GROUP, f"{call}/{index}", state, message_id)
    return made.to_entry(timestamp=1, turn_id=turn)


def batch(call: str, turn: str = "t1") -> Entry:
    """Return the assistant's entry of a step that made `call`."""
    message = AssistantMessage([ToolCallPart(call, "send_message", {"messages": ["x"]})])
    return message_entry(message, timestamp=2, turn_id=turn, step=0)


def told(entries: Sequence[Entry]) -> list[tuple[JsonValue, JsonValue]]:
    """Return input and result of each call that `entries` tell of."""
    if not entries:
        return []
    assistant, tool = (entry.message for entry in entries)
    assert isinstance(assistant, AssistantMessage)
    assert isinstance(tool, ToolMessage)
    assert [part.tool_call_id for part in tool.content] == [call.tool_call_id for call in assistant.tool_calls]
    return [(call.input, part.output.value) for call, part in zip(assistant.tool_calls, tool.content, strict=True)]


def test_a_delivery_reads_back_from_the_log() -> None:
    """Design, deliveries: the entry's fields."""
    made = Delivery("c1", 2, GROUP, "hi", "failed", "901", reason="muted", turn_id="t1", is_late=True)
    entry = entry_from_json(entry_to_json(made.to_entry(timestamp=1, turn_id="t1")))
    assert Delivery.from_entry(entry) == made
    assert entry.json_data == {
        "toolCallId": "c1",
        "index": 2,
        "state": "failed",
        "sid": "onebot:1",
        "channelId": "group:5",
        "content": "hi",
        "id": "901",
        "reason": "muted",
        "late": True,
    }
    assert Delivery.from_entry(Entry(DELIVERY, {"state": "lost"}, 0)).state == "unknown"


def test_what_a_killed_turn_had_sent_becomes_a_call_with_its_result() -> None:
    """Design, deliveries: the mind remembers what it said."""
    entries = [delivery("sending"), delivery("sent", message_id="901")]
    settled = settle_entries("t1", entries, 9)
    ((arguments, result),) = told(settled)
    assert arguments == {"messages": ["c1/0"]}
    assert result == {"ok": True, "ids": ["901"], "note": "delivered. The turn was cut off behind it."}
    assert [entry.turn_id for entry in settled] == ["t1", "t1"]


@pytest.mark.parametrize("states", [["sending"], ["sending", "unknown"]])
def test_without_a_confirmation_it_was_probably_delivered(states: list[DeliveryState]) -> None:
    """Design, deliveries: `sending` without an outcome is unknown, and unknown counts as said."""
    ((_, result),) = told(settle_entries("t1", [delivery(state) for state in states], 9))
    assert isinstance(result, dict)
    assert str(result["note"]).startswith("probably delivered; do not repeat it")


def test_what_failed_was_not_said() -> None:
    """Design, deliveries: any state but failed."""
    entries = [delivery("sending"), delivery("failed"), delivery("sent", index=1, message_id="902")]
    assert told(settle_entries("t1", entries, 9))[0][0] == {"messages": ["c1/1"]}
    assert settle_entries("t1", entries[:2], 9) == []


def test_a_call_whose_batch_is_there_is_not_told_twice() -> None:
    """Design, deliveries without their batch."""
    entries = [delivery("sent"), batch("c1"), delivery("sent", call="c2")]
    ((arguments, _),) = told(settle_entries("t1", entries, 9))
    assert arguments == {"messages": ["c2/0"]}


def test_other_turns_are_left_alone() -> None:
    """Our choice: each turn is settled by its own end."""
    entries = [delivery("sent"), delivery("sent", call="c2", turn="t2")]
    assert list(unfinished_deliveries(entries)) == ["t1", "t2"]
    assert told(settle_entries("t2", entries, 9))[0][0] == {"messages": ["c2/0"]}
    assert settle_entries("t3", entries, 9) == []


def test_in_cross_mode_the_call_names_its_target() -> None:
    """Our choice: the history has to look like what the model is to write."""
    ((arguments, _),) = told(settle_entries("t1", [delivery("sent")], 9, shows_target=True))
    assert arguments == {"messages": ["c1/0"], "target": {"sid": "onebot:1", "channelId": "group:5"}}


OUTCOMES: list[DeliveryState] = ["sent", "failed", "unknown"]
outcomes = st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=4)


@given(st.lists(outcomes, max_size=4), st.data())
def test_wherever_the_log_ends_everything_said_is_told_exactly_once(
    calls: list[list[DeliveryState]], data: st.DataObject
) -> None:
    """Design, at most once: settle after a kill at any entry; settling again adds nothing."""
    log: list[Entry] = []
    for number, states in enumerate(calls):
        for index, state in enumerate(states):
            log += [delivery(one, index=index, call=f"c{number}") for one in ("sending", state)]
        log.append(batch(f"c{number}"))
    cut = log[: data.draw(st.integers(0, len(log)))]
    settled = settle_entries("t1", cut, 9)
    final = {(one.tool_call_id, one.index): one for one in map(Delivery.from_entry, deliveries_of(cut))}
    recorded = {call.tool_call_id for entry in cut for call in calls_of(entry)}
    expected = [one.content for one in final.values() if one.state != "failed" and one.tool_call_id not in recorded]
    said = [content for arguments, _ in told(settled) for content in contents_of(arguments)]
    assert said == expected
    assert settle_entries("t1", [*cut, *settled], 9) == []


def deliveries_of(entries: Sequence[Entry]) -> list[Entry]:
    """Return the delivery entries."""
    return [entry for entry in entries if entry.type == DELIVERY]


def calls_of(entry: Entry) -> Sequence[ToolCallPart]:
    """Return the calls of an assistant's entry."""
    return entry.message.tool_calls if isinstance(entry.message, AssistantMessage) else ()


def contents_of(arguments: JsonValue) -> Sequence[JsonValue]:
    """Return the messages of a call."""
    assert isinstance(arguments, dict)
    messages = arguments["messages"]
    assert isinstance(messages, list)
    return messages
