"""Simulated bots and people over the rule that tells them apart: bots are bounded, people are answered each time."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ishiki.runtime.guards.likeness import plain_words
from ishiki.runtime.guards.partners import REST_MS, PartnerWatch

NOW = 1_764_400_000_000
MOST_REPLIES = 14
"""Six, and what the first words of several accounts bring before anything is known of them."""

WORDS = [
    "the",
    "a",
    "cat",
    "garden",
    "river",
    "because",
    "maybe",
    "tomorrow",
    "wonderful",
    "question",
    "I",
    "think",
    "people",
    "often",
    "remember",
    "summer",
    "rain",
    "window",
    "music",
    "quietly",
    "although",
    "nobody",
    "expected",
    "such",
    "lovely",
    "answer",
    "about",
    "distant",
    "mountains",
    "and",
    "bread",
]

CHAT = [
    *("morning", "what did you dream of?", "no way", "and then the cat left", "who feeds her now", "poor thing"),
    *("mine eats twice a day", "fish, mostly", "are you hungry", "ha, fair", "what is for dinner", "same here"),
    *("brb", "back", "did I miss much", "lol", "tell me more", "why though", "I would not", "sure", "my turn?"),
]
"""What a person says who answers quickly."""

Text = Callable[[random.Random, str, int], str]
Delay = Callable[[random.Random], int]


def counting(_rng: random.Random, _ours: str, number: int) -> str:
    """Return a template."""
    return f"beep number {number}"


def echoing(_rng: random.Random, ours: str, _number: int) -> str:
    """Return what we said."""
    return f"you said: {ours}"


def varied(rng: random.Random, _ours: str, _number: int) -> str:
    """Return as a language model writes: long, and never the same."""
    return " ".join(rng.choices(WORDS, k=rng.randint(14, 40)))


def chatting(_rng: random.Random, _ours: str, number: int) -> str:
    """Return as a person writes who answers quickly."""
    return CHAT[number % len(CHAT)]


@dataclass(slots=True)
class Talk:
    """A mind that answers whoever may wake it, and what comes of it."""

    watch: PartnerWatch
    rng: random.Random
    now: int = NOW
    replies: int = 0
    silent: int = 0
    ours: str = "hello everybody"

    def hear(self, user: str, content: str) -> None:
        """Let somebody speak to the mind."""
        words = plain_words(content)
        if self.watch.rests_until(user, self.now, words) is not None:
            self.silent += 1
            self.watch.heard(user, self.now, words)
            return
        self.watch.asks_about(user, self.now, words)
        self.watch.heard(user, self.now, words)
        self.watch.turn_began(self.now)
        self.now += self.rng.randint(800, 4_000)  # the model, and the pause for typing
        self.ours = " ".join(self.rng.choices(WORDS, k=self.rng.randint(3, 15)))
        self.watch.said(self.now, plain_words(self.ours))
        self.replies += 1


def ten_minutes(talk: Talk, accounts: Sequence[str], text: Text, delay: Delay) -> None:
    """Let accounts speak in turns for ten minutes."""
    number = 0
    while talk.now < NOW + REST_MS:
        talk.now += delay(talk.rng)
        talk.hear(accounts[number % len(accounts)], text(talk.rng, talk.ours, number))
        number += 1


@pytest.mark.parametrize("text", [counting, echoing, varied])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
@given(seed=st.integers(0, 2**32), base=st.sampled_from([900, 2_000]), jitter=st.sampled_from([0, 100, 900]))
@settings(max_examples=6, deadline=None)
def test_bots_get_a_few_replies_in_ten_minutes(text: Text, count: int, seed: int, base: int, jitter: int) -> None:
    """Our choice: however many take turns, with a fixed or an uneven delay, and whatever they say."""
    talk = Talk(PartnerWatch(), random.Random(seed))
    ten_minutes(talk, [f"7{n}" for n in range(count)], text, lambda rng: base + rng.randint(0, jitter))
    assert talk.replies <= MOST_REPLIES


@given(seed=st.integers(0, 2**32), count=st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_named_bots_together_get_six_replies_in_ten_minutes(seed: int, count: int) -> None:
    """Design, guards: an account in `bots` needs no sign, so this bound is exact."""
    names = [f"7{n}" for n in range(count)]
    talk = Talk(PartnerWatch(frozenset(names)), random.Random(seed))
    ten_minutes(talk, names, chatting, lambda rng: rng.randint(500, 20_000))
    assert talk.replies <= 6


@given(seed=st.integers(0, 2**32), fixed=st.sampled_from([0, 1_500, 2_500, 6_000]))
@settings(max_examples=60, deadline=None)
def test_people_are_answered_each_time(seed: int, fixed: int) -> None:
    """Our choice: a fast typist and a regular of a quiet group; even one who answers like a clock."""
    talk = Talk(PartnerWatch(), random.Random(seed))
    ten_minutes(talk, ["42"], chatting, lambda rng: fixed or rng.randint(1_200, 9_000))
    assert talk.silent == 0
    assert talk.replies > 40


@given(seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_people_are_answered_each_time_where_bots_are_at_rest(seed: int) -> None:
    """Our choice: the breaker is for those who look like bots."""
    talk = Talk(PartnerWatch(), random.Random(seed))
    for number in range(40):
        talk.now += 500
        talk.hear("77", f"beep number {number}")
    assert talk.silent > 20
    talk.silent = 0
    for number in range(20):
        talk.now += talk.rng.randint(2_000, 9_000)
        talk.hear("42", CHAT[number])
    assert talk.silent == 0
