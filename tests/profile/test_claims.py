"""Claims: who owns a channel, how specifically, and when two profiles collide."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from ishiki.config import parse_yaml
from ishiki.errors import ConfigError
from ishiki.profile.claims import Claims, find_conflict, parse_claims
from ishiki.profile.router import Router

from .claims_kit import CHANNELS, SIDS, Channels, parsed, profiles, specificity


def test_a_claim_holds_if_a_pattern_matches_and_no_exclusion_does_in_any_order() -> None:
    """Specification, channel claims: order is irrelevant."""
    for patterns in (["group:*", "!group:1"], ["!group:1", "group:*"]):
        claims = parse_claims({"onebot:1": patterns})
        assert claims.owns("onebot:1", "group:2") is not None
        assert claims.owns("onebot:1", "group:1") is None
        assert claims.owns("onebot:1", "private:2") is None
        assert claims.owns("onebot:2", "group:2") is None


def test_an_exact_account_speaks_before_the_wildcard_of_its_profile() -> None:
    """Our choice: what the exact account's entry neither claims nor excludes is left to `onebot:*`."""
    claims = parse_claims({"onebot:*": ["*", "!group:1"], "onebot:1": ["group:1", "!group:2"]})
    assert claims.owns("onebot:1", "group:1") is not None
    assert claims.owns("onebot:1", "group:2") is None
    assert claims.owns("onebot:1", "group:3") is not None
    assert claims.owns("onebot:2", "group:1") is None
    assert claims.owns("onebot:2", "group:2") is not None


def test_specificity_orders_profile_account_exactness_and_prefix_length() -> None:
    """Design, addresses: the more specific claim wins; `fallback` before all of it is our choice."""
    rising = [
        parse_claims({"onebot:1": ["group:12"]}, is_fallback=True),
        parse_claims({"onebot:*": ["*"]}),
        parse_claims({"onebot:*": ["group:*"]}),
        parse_claims({"onebot:*": ["group:1*"]}),
        parse_claims({"onebot:*": ["group:12"]}),
        parse_claims({"onebot:1": ["*"]}),
        parse_claims({"onebot:1": ["group:12"]}),
    ]
    ranks = [claims.owns("onebot:1", "group:12") for claims in rising]
    assert None not in ranks
    assert sorted(rank for rank in ranks if rank) == ranks
    assert len(set(ranks)) == len(ranks)


def test_only_channels_named_with_their_account_are_exactly_claimed() -> None:
    """Design, start-up: runtimes are built early for exactly claimed channels."""
    claims = parse_claims({"onebot:1": ["group:1", "group:2*", "private:3"], "onebot:*": ["group:4"]})
    assert set(claims.exact_channels()) == {("onebot:1", "group:1"), ("onebot:1", "private:3")}


def test_claims_are_written_back_as_profiles_write_them() -> None:
    """Specification, extension API: a cross domain holds account -> filter."""
    claims = parse_claims({"onebot:1": ["!group:2", "*", "gr*", "group:1"]})
    assert claims.patterns() == {"onebot:1": ("group:1", "group:*", "*", "!group:2")}


@pytest.mark.parametrize(
    ("channels", "key"),
    [
        ({}, "channels"),
        ({"onebot:1": []}, 'channels["onebot:1"]'),
        ({"onebot:1": ["!group:1"]}, 'channels["onebot:1"]'),
        ({"onebot:1": ["group:1", "!group:*"]}, 'channels["onebot:1"][0]'),
        ({"onebot:*": ["!private:*", "*", "!group:*"]}, 'channels["onebot:*"][1]'),
        ({"10001": ["*"]}, "channels.10001"),
        ({"onebot:1": ["*", "!"]}, 'channels["onebot:1"][1]'),
    ],
)
def test_a_section_that_claims_nothing_somewhere_is_an_error_at_that_key(channels: Channels, key: str) -> None:
    """Specification, channel claims: empty pattern, bare `!`, no positive pattern, no account; the rest is ours."""
    with pytest.raises(ConfigError) as caught:
        parse_claims(channels)
    assert (caught.value.code, caught.value.key) == ("claim_invalid", key)


def test_an_exact_account_may_only_take_away_where_the_wildcard_gives() -> None:
    """Our choice: `onebot:*` with an exception for one account."""
    claims = parse_claims({"onebot:*": ["group:*"], "onebot:1": ["!group:5"]})
    assert claims.owns("onebot:1", "group:5") is None
    assert claims.owns("onebot:1", "group:6") is not None
    assert claims.owns("onebot:2", "group:5") is not None


def test_every_finding_of_a_section_is_reported_with_its_line() -> None:
    """Our choice: one start of the bot shows all slips of a section."""
    document = parse_yaml('channels:\n  "onebot:1": ["42", "grup:*"]\n  "qq": ["*"]\n', file=Path("profile.yaml"))
    with pytest.raises(ConfigError) as caught:
        parse_claims({"onebot:1": ["42", "grup:*"], "qq": ["*"]}, document=document)
    places = [(error.line, error.column) for error in (caught.value, *caught.value.others)]
    assert places == [(2, 16), (2, 22), (3, 3)]


@pytest.mark.parametrize(
    ("ours", "theirs", "collides"),
    [
        (["*"], ["*"], True),
        (["group:*"], ["gr*"], True),
        (["group:1"], ["group:1"], True),
        (["group:*", "!group:1"], ["group:*"], True),
        (["*", "!group:*"], ["*", "!private:*"], False),
        (["*", "group:*", "private:*"], ["*"], False),
        (["group:*"], ["private:*"], False),
        (["group:*"], ["group:1*"], False),
        (["group:1"], ["group:*"], False),
    ],
)
def test_equally_specific_claims_collide_unless_exclusions_part_them(
    ours: list[str], theirs: list[str], *, collides: bool
) -> None:
    """Design, addresses: equal specificity is an error; specification: exclusions make claims disjoint."""
    conflict = find_conflict(parse_claims({"onebot:1": ours}), parse_claims({"onebot:1": theirs}))
    assert (conflict is not None) is collides


def test_profiles_of_different_standing_never_collide() -> None:
    """Our choice: the shipped profile yields to any other that claims the same."""
    everything = {"onebot:*": ["*"]}
    assert find_conflict(parse_claims(everything), parse_claims(everything, is_fallback=True)) is None
    assert find_conflict(parse_claims(everything, is_fallback=True), parse_claims(everything, is_fallback=True))


@given(profiles)
def test_a_conflict_is_found_exactly_if_some_channel_has_two_equal_claims(drawn: list[tuple[bool, Channels]]) -> None:
    """Design, addresses: checked against the definition over every account and channel that can tell."""
    accepted = [(one, claims) for one in drawn if (claims := parsed(one[1], is_fallback=one[0]))]
    for (our_fallback, ours), our_claims in accepted:
        for (their_fallback, theirs), their_claims in accepted:
            ties = [
                (sid, channel)
                for sid in SIDS
                for channel in CHANNELS
                if (rank := specificity(ours, sid, channel, is_fallback=our_fallback)) is not None
                and rank == specificity(theirs, sid, channel, is_fallback=their_fallback)
            ]
            assert (find_conflict(our_claims, their_claims) is not None) is bool(ties)


@given(profiles)
def test_the_router_finds_what_the_definition_says(drawn: list[tuple[bool, Channels]]) -> None:
    """Design, router: the more specific claim first; checked against the definition, cold and from the cache."""
    kept: list[tuple[str, bool, Channels, Claims]] = []
    for index, (is_fallback, channels) in enumerate(drawn):
        claims = parsed(channels, is_fallback=is_fallback)
        if claims is not None and not any(find_conflict(claims, other) for *_, other in kept):
            kept.append((f"p{index}", is_fallback, channels, claims))
    router = Router((name, claims) for name, _, _, claims in kept)
    for _ in range(2):
        for sid in SIDS:
            for channel in CHANNELS:
                ranks = {
                    rank: name
                    for name, is_fallback, channels, _ in kept
                    if (rank := specificity(channels, sid, channel, is_fallback=is_fallback))
                }
                assert router.route(sid, channel) == (ranks[max(ranks)] if ranks else None)


def test_the_router_says_who_owns_what_the_most_specific_first() -> None:
    """Design, addresses: start-up lines say who owns what."""
    router = Router(
        [
            ("default", parse_claims({"onebot:*": ["*"]}, is_fallback=True)),
            ("neko", parse_claims({"onebot:10001": ["group:*", "!group:1"]})),
            ("rin", parse_claims({"onebot:*": ["private:*", "group:1"]})),
        ]
    )
    assert router.who_owns() == [
        "onebot:10001: group:* (not group:1) -> neko",
        "onebot:*: group:1, private:* -> rin",
        "onebot:*: * -> default (what no other profile claims)",
    ]


def test_the_router_keeps_answering_when_its_cache_is_full() -> None:
    """Our choice: ids come from outside, so the cache is bounded; the answers are not."""
    router = Router([("neko", parse_claims({"onebot:*": ["group:*"]}))])
    for number in range(20_001):
        assert router.route("onebot:1", f"group:{number}") == "neko"
    assert router.route("onebot:1", "private:1") is None
