"""How the memory of a channel's facts is restored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ishiki.contracts.events import MESSAGE_CREATED, MessageCreated, MessageDeleted, User
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


@pytest.mark.parametrize("is_saved", [False, True], ids=["log", "checkpoint"])
def test_the_owners_words_are_kept_though_the_minds_own_had_their_id(*, is_saved: bool) -> None:
    """Bug: ids begin anew with the implementation, and what the owner wrote was taken for the report of our own."""
    delivery = Delivery("call-1", 0, OWN.channel, OWN.content, "sent", OWN.message_id)
    memory = FactMemory()
    memory.restore({}, [delivery.to_entry(timestamp=OWN.timestamp, turn_id="t")])
    if is_saved:
        saved, memory = memory.checkpoint(), FactMemory()
        memory.restore(saved, [])
    assert memory.is_known(replace(OWN, content=" it  is me"))
    assert not memory.is_known(replace(OWN, content="this is the owner"))
    assert not memory.is_known(replace(OWN, content='<img file="a.jpg"/>'))


def test_a_picture_of_the_minds_own_is_known_by_its_id_while_it_is_young() -> None:
    """Our choice: without words only the time can tell."""
    delivery = Delivery("call-1", 0, OWN.channel, '<img src="https://e.example.org/a"/>', "sent", OWN.message_id)
    memory = FactMemory()
    memory.restore({}, [delivery.to_entry(timestamp=OWN.timestamp, turn_id="t")])
    picture = replace(OWN, content='<img file="renamed.jpg"/>')
    assert memory.is_known(replace(picture, timestamp=OWN.timestamp + 60_000))
    assert not memory.is_known(replace(picture, timestamp=OWN.timestamp + 3_600_000))


FILE = replace(SAID, content='<file name="notes.pdf" size="1024" id="u1"/>')
NOTICE = replace(FILE, message_id="", content='<file name="notes.pdf" size="1024" id="/abc"/>', user=User("42"))


@pytest.mark.parametrize("first", [FILE, NOTICE], ids=["message first", "notice first"])
@pytest.mark.parametrize("is_restored", ["no", "log", "checkpoint"])
def test_the_message_and_the_notice_of_one_upload_are_one_line(first: MessageCreated, is_restored: str) -> None:
    """Our choice; NapCat and LLBot send both, in either order, with different ids of the file."""
    other = NOTICE if first is FILE else FILE
    memory = FactMemory()
    memory.note(first)
    if is_restored == "log":
        memory = FactMemory()
        memory.restore({}, [message_entry(CustomMessage(MESSAGE_CREATED, first.to_data()), timestamp=1)])
    elif is_restored == "checkpoint":
        saved, memory = memory.checkpoint(), FactMemory()
        memory.restore(saved, [])
    assert memory.is_known(replace(other, timestamp=first.timestamp + 1_000))
    assert memory.is_known(replace(other, content='<file name="notes.pdf"/>'))
    assert not memory.is_known(replace(other, content='<file name="notes.pdf" size="7"/>'))
    assert not memory.is_known(replace(other, user=User("43")))
    assert not memory.is_known(replace(other, timestamp=first.timestamp + 600_000))
    assert not memory.is_known(replace(FILE, message_id="901") if first is FILE else replace(NOTICE, timestamp=1))


def test_a_recall_of_an_id_that_began_anew_is_another_one() -> None:
    """Our choice: no id alone makes a duplicate."""
    recall = MessageDeleted(SAID.timestamp, "onebot", "10001", "group:500", "900", "42", "42")
    memory = FactMemory()
    memory.note(recall)
    assert memory.is_known(recall)
    assert not memory.is_known(replace(recall, timestamp=recall.timestamp + 5_000))
