"""The rules behind the guards, each by itself: they are pure, and their state space is the risk."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ishiki.contracts.events import ChannelRef
from ishiki.core.clock import SteadyTime
from ishiki.jsonvalue import read_object
from ishiki.runtime.guards.likeness import is_like, is_typed_too_fast, plain_words
from ishiki.runtime.guards.partners import REST_MS, PartnerWatch
from ishiki.runtime.guards.speech import SpeechMemory, text_key
from ishiki.runtime.guards.turns import HOUR_MS, TurnWindow
from ishiki.testing.clock import FakeClock
from ishiki.tools.deliveries import Delivery, DeliveryState

GROUP = ChannelRef("onebot:1", "group:5")
OTHER_GROUP = ChannelRef("onebot:1", "group:6")
NOW = 1_764_400_000_000
STEADY = SteadyTime(FakeClock(now_ms=NOW + 24 * HOUR_MS))
"""A day later, so that all of it is past."""

gaps = st.lists(st.integers(0, HOUR_MS), max_size=60)


@given(limit=st.integers(1, 8), gaps=gaps)
def test_no_hour_ever_holds_more_turns_than_its_bound(limit: int, gaps: list[int]) -> None:
    """Specification of the guard: the hour slides, so every hour counts and not only full ones."""
    window, now, begun = TurnWindow(limit), NOW, list[int]()
    for gap in gaps:
        now += gap
        if window.held_until(now) is None:
            window.began(now)
            begun.append(now)
    for position in range(len(begun) - limit):
        assert begun[position + limit] - begun[position] >= HOUR_MS


@given(limit=st.integers(1, 8), gaps=gaps)
def test_a_hold_ends_exactly_when_the_oldest_turn_leaves_the_hour(limit: int, gaps: list[int]) -> None:
    """Specification of the guard."""
    window, now = TurnWindow(limit), NOW
    for gap in gaps:
        now += gap
        window.began(now)
        if (until := window.held_until(now)) is not None:
            assert now < until <= now + HOUR_MS
            assert window.held_until(until - 1) == until
            later = TurnWindow(limit, window.starts)
            assert later.held_until(until) is None


@given(limit=st.integers(0, 8), gaps=gaps)
def test_a_window_that_was_written_down_holds_as_the_one_in_memory(limit: int, gaps: list[int]) -> None:
    """Our choice: a restart changes nothing."""
    window, now = TurnWindow(limit), NOW
    for gap in gaps:
        now += gap
        window.began(now)
        assert TurnWindow(limit, window.starts).held_until(now) == window.held_until(now)


def test_without_a_bound_nothing_is_held() -> None:
    """Specification of the guard: 0 sets no bound."""
    window = TurnWindow(0)
    for _ in range(1_000):
        window.began(NOW)
    assert window.held_until(NOW) is None


def test_an_hour_that_stays_full_is_told_once_and_again_after_it_was_half_empty() -> None:
    """Our choice: one episode is one line, not one line a turn."""
    window, now = TurnWindow(4), NOW
    for _ in range(4):
        window.began(now)
    window.is_announced = True
    for _ in range(10):
        now += HOUR_MS // 3
        window.began(now)
        assert window.is_announced
    now += 2 * HOUR_MS
    window.began(now)
    assert not window.is_announced


def test_a_turn_that_is_given_back_leaves_room_for_another() -> None:
    """Our choice: what came to nothing uses nothing up."""
    window = TurnWindow(2)
    for _ in range(2):
        window.began(NOW)
    window.give_back(NOW)
    window.give_back(NOW + 1)
    assert window.starts == [NOW]
    assert window.held_until(NOW) is None


def ping_pong(
    watch: PartnerWatch, user: str, turns: int, *, start: int = NOW, gap_ms: int = 500, words: str = "ping"
) -> list[str]:
    """Let `user` wake turns, each answered at once; return with whom bots were sent to rest."""
    rested: list[str] = []
    now = start
    for _ in range(turns):
        watch.heard(user, now, words)
        if (account := watch.turn_began(now)) is not None:
            rested.append(account)
        watch.said(now)
        now += gap_ms
    return rested


def test_the_sixth_turn_is_the_last_that_an_account_wakes_which_looks_like_a_bot() -> None:
    """Design, guards, two bots."""
    assert ping_pong(PartnerWatch(), "77", 5) == []
    watch = PartnerWatch()
    assert ping_pong(watch, "77", 6) == ["77"]
    assert watch.rests_until("77", NOW + 2_500, "ping") == NOW + 2_500 + REST_MS
    assert watch.rests_until("42", NOW + 2_500, "hi") is None
    assert watch.rests_until("77", NOW + 2_500 + REST_MS, "ping") is None


def test_somebody_who_rests_and_goes_on_like_a_person_wakes_again() -> None:
    """Design, guards: nobody is shut out who does."""
    watch = PartnerWatch()
    ping_pong(watch, "77", 6)
    assert watch.rests_until("77", NOW + 9_000, "sorry, was that too much?") is None
    watch.heard("77", NOW + 9_000, "sorry, was that too much?")
    assert watch.rests_until("77", NOW + 20_000, "ok then") is None


def test_talk_of_others_between_does_not_begin_the_count_anew() -> None:
    """Design, guards: several bots are no more than one, and people between them hide none."""
    watch = PartnerWatch()
    assert ping_pong(watch, "77", 4) == []
    watch.heard("42", NOW + 2_100, "what are you two doing", is_addressed=False)
    assert ping_pong(watch, "78", 3, start=NOW + 2_600) == ["78"]


def test_a_known_bot_rests_after_six_turns_however_slow_it_is_and_whatever_it_says() -> None:
    """Design, guards: an account in `bots` needs no sign."""
    watch = PartnerWatch(frozenset({"77"}))
    assert ping_pong(watch, "77", 6, gap_ms=60_000, words="") == ["77"]


def test_who_speaks_to_us_has_woken_the_turn_and_not_who_only_talks() -> None:
    """Our choice: chatter behind a known bot does not hide it."""
    watch = PartnerWatch(frozenset({"77"}))
    rested: list[str | None] = []
    for number in range(6):
        now = NOW + number * 10_000
        watch.heard("77", now)
        watch.heard("42", now + 1, is_addressed=False)
        rested.append(watch.turn_began(now + 1))
    assert rested == [None] * 5 + ["77"]


def test_a_turn_that_nobody_woke_counts_for_nobody() -> None:
    """Our choice: timers and waits."""
    watch = PartnerWatch()
    assert ping_pong(watch, "77", 5) == []
    assert watch.turn_began(NOW + 2_100) is None
    assert ping_pong(watch, "77", 1, start=NOW + 2_500) == ["77"]


def test_what_could_not_be_typed_in_time_is_told_from_what_could() -> None:
    """Our choice, `_MOST_CHARS_A_SECOND`; a wide character takes several strokes."""
    assert is_typed_too_fast("a sentence of forty-five characters, no less.", 2_500)
    assert not is_typed_too_fast("a sentence of forty-five characters, no less.", 3_500)
    assert is_typed_too_fast("\u4f60" * 18, 2_500)
    assert not is_typed_too_fast("ok", 1)


def test_a_template_repeats_itself_and_small_talk_does_not() -> None:
    """Our choice, `_LIKE`: numbers make no difference, and very short texts never repeat."""
    assert is_like(plain_words("Round 12: roll the dice!"), plain_words('<at id="9"/> round 345: roll the dice!'))
    assert not is_like(plain_words("what did you dream of?"), plain_words("what is for dinner"))
    assert not is_like(plain_words("A"), plain_words("A"))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["heard", "said", "turn"]), st.sampled_from(["42", "77", "78"]), st.integers(0, 5_000)
        ),
        max_size=60,
    ),
    st.integers(0, 60),
)
def test_a_watch_that_was_written_down_goes_on_as_the_one_in_memory(
    happenings: list[tuple[str, str, int]], cut: int
) -> None:
    """Our choice: a restart changes nothing."""
    bots = frozenset({"78"})
    whole, now, results = PartnerWatch(bots), NOW, list[str | None]()
    parted = PartnerWatch(bots)
    for position, (what, user, gap) in enumerate(happenings):
        now += gap
        if position == cut:
            written = {"partners": parted.checkpoint(STEADY)}
            parted = PartnerWatch(bots)
            parted.restore(read_object(written, "partners"), STEADY)
        for watch in (whole, parted):
            if what == "heard":
                watch.heard(user, now, "ping")
            elif what == "said":
                watch.said(now)
            else:
                results.append(watch.turn_began(now))
        assert [whole.rests_until(one, now, "ping") for one in ("42", "77", "78")] == [
            parted.rests_until(one, now, "ping") for one in ("42", "77", "78")
        ]
    assert results[::2] == results[1::2]


def test_what_reads_the_same_is_the_same() -> None:
    """Our choice: spaces, letter case, character forms and quotes do not make a text new; whom it mentions does."""
    same = ["hello there", "  Hello\n\nTHERE ", "\uff28\uff25\uff2c\uff2c\uff2f there", '<quote id="9"/>hello there']
    assert len({text_key(GROUP, text) for text in same}) == 1
    different = ["hello there", "hello", '<at id="42"/>hello there', '<img src="a.png"/>', '<img src="b.png"/>']
    assert len({text_key(GROUP, text) for text in different}) == len(different)
    assert text_key(GROUP, "hello") != text_key(OTHER_GROUP, "hello")


class Talk:
    """A memory with the messages that it let through."""

    def __init__(self, per_turn: int = 8) -> None:
        self.memory = SpeechMemory(per_turn)
        self.number = 0

    def say(self, text: str, *, turn: str = "t", now: int = NOW, state: DeliveryState = "sent") -> str:
        """Try to say something; return the name of the refusal, or ""."""
        refusal = self.memory.refusal(turn, GROUP, text, now)
        if refusal is not None:
            return refusal.name
        self.number += 1
        for told in ("sending", state):
            self.memory.note(Delivery(f"call{self.number}", 0, GROUP, text, told), turn, now)
        return ""


def test_the_same_text_is_said_once_a_turn_and_three_times_in_ten_minutes() -> None:
    """Design, guards."""
    talk = Talk()
    assert [talk.say("hi", turn="t1"), talk.say("hi", turn="t1")] == ["", "AlreadySaid"]
    assert [talk.say("hi", turn=f"t{number}") for number in range(2, 5)] == ["", "", "AlreadySaid"]
    assert talk.say("hi", turn="t5", now=NOW + 599_999) == "AlreadySaid"
    assert talk.say("hi", turn="t6", now=NOW + 600_000) == ""


def test_what_failed_was_not_said_but_counts_as_a_message_of_its_turn() -> None:
    """Our choice: the mind may say it again, but not hammer a chat that refuses it."""
    talk = Talk(per_turn=2)
    assert [talk.say("hi", state="failed"), talk.say("hi")] == ["", ""]
    assert talk.say("something else") == "MessageLimit"
    assert talk.say("something else", turn="next") == ""


def test_what_was_probably_delivered_was_said() -> None:
    """Design, deliveries: `unknown` counts as said, and is not repeated."""
    talk = Talk()
    assert [talk.say("hi", state="unknown"), talk.say("hi")] == ["", "AlreadySaid"]


def test_a_restart_forgets_no_text() -> None:
    """Our choice."""
    talk = Talk()
    for number in range(3):
        talk.say("hi", turn=f"t{number}")
    restored = SpeechMemory(8)
    restored.restore({"said": talk.memory.checkpoint(STEADY)}, STEADY)
    assert restored.refusal("new", GROUP, "hi", NOW) is not None
    assert restored.refusal("new", GROUP, "hello", NOW) is None
