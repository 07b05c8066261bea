"""How the memory of a channel's facts is restored."""

from __future__ import annotations

from dataclasses import replace

from ishiki.contracts.events import MESSAGE_CREATED, MessageCreated, User
from ishiki.core.entries import message_entry
from ishiki.core.messages import CustomMessage
from ishiki.runtime.facts import FactMemory

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
