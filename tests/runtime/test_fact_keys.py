"""How the memory of a channel's facts is restored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ishiki.contracts.events import MESSAGE_CREATED, MessageCreated, User
from ishiki.core.entries import message_entry
from ishiki.core.messages import CustomMessage
from ishiki.runtime.facts import FactMemory
from ishiki.tools.deliveries import Delivery, DeliveryState

SAID = MessageCreated(1_700_000_000_000, "onebot", "10001", "group:500", "900", "hi", False, User("42", "Rin"))


def test_a_fact_read_from_the_log_is_the_same_as_the_one_that_was_heard() -> None:
    """Design, channel queue: duplicates are known over restarts; id, sender and time all count."""
    memory = FactMemory()
    memory.restore({}, [message_entry(CustomMessage(MESSAGE_CREATED, SAID.to_data()), timestamp=1)])
    assert memory.is_known(SAID)
    assert not memory.is_known(replace(SAID, message_id="901"))
    assert not memory.is_known(replace(SAID, user=User("43")))
    assert not memory.is_known(replace(SAID, timestamp=SAID.timestamp + 1))
    assert not memory.is_known(replace(SAID, channel_id="group:501"))


def test_a_fact_without_an_id_is_no_duplicate_after_a_restart_either() -> None:
    """Design, channel queue: without a usable id nothing is a duplicate."""
    nameless = replace(SAID, message_id="")
    memory = FactMemory()
    memory.restore({}, [message_entry(CustomMessage(MESSAGE_CREATED, nameless.to_data()), timestamp=1)])
    assert not memory.is_known(nameless)


OWN = replace(SAID, message_id="950", content="it is me", is_self=True, user=User("10001"))


def restored(*states: DeliveryState) -> FactMemory:
    """Return the memory of a log that tells of one message of the mind's own; one that was sent has an id."""
    delivery = Delivery("call-1", 0, OWN.channel, OWN.content)
    told = [replace(delivery, state=state, message_id="949" if state == "sent" else "") for state in states]
    memory = FactMemory()
    memory.restore({}, [one.to_entry(timestamp=1, turn_id="t") for one in told])
    return memory


@pytest.mark.parametrize("states", [("sending",), ("sending", "unknown")])
def test_a_message_without_an_outcome_is_recognised_by_its_words_in_the_history(
    states: tuple[DeliveryState, ...],
) -> None:
    """Bug: what a kill cut off while it was sent came back by backfill, as if the mind had said it twice."""
    memory = restored(*states)
    assert memory.settle(replace(OWN, content="it is somebody else")) is None
    assert memory.settle(replace(OWN, channel_id="group:501")) is None
    assert memory.settle(replace(OWN, is_self=False)) is None
    settled = memory.settle(OWN)
    assert settled is not None
    assert (settled.state, settled.message_id, settled.turn_id, settled.is_late) == ("sent", "950", "t", True)
    assert memory.is_known(OWN)
    assert memory.settle(replace(OWN, message_id="951")) is None


@pytest.mark.parametrize("states", [("sending", "sent"), ("sending", "failed")])
def test_a_message_with_an_outcome_hides_nothing_that_the_owner_says_in_the_same_words(
    states: tuple[DeliveryState, ...],
) -> None:
    """Design, our own messages: what this process did not send is a fact."""
    assert restored(*states).settle(OWN) is None


@pytest.mark.parametrize("states", [("sending",), ("sending", "unknown")])
def test_a_message_without_an_outcome_is_recognised_after_a_checkpoint_as_well(
    states: tuple[DeliveryState, ...],
) -> None:
    """Bug: after a stop in order, the history brought back what was only probably delivered."""
    memory = FactMemory()
    memory.restore(restored(*states).checkpoint(), [])
    assert memory.settle(OWN) is not None
