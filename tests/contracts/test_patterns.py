"""Accounts and channel patterns: what they match, and what is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ishiki.contracts.patterns import ChannelPattern, PatternError, check_account, is_covered, parse_pattern


@pytest.mark.parametrize(
    ("written", "channel", "matches"),
    [
        ("*", "group:1", True),
        ("*", "private:1", True),
        ("group:*", "group:1", True),
        ("group:*", "private:1", False),
        ("group:1", "group:1", True),
        ("group:1", "group:12", False),
        ("group:1*", "group:12", True),
        ("group:1*", "group:2", False),
        ("gr*", "group:1", True),
        ("gr*", "private:1", False),
    ],
)
def test_a_pattern_matches_everything_a_prefix_or_one_channel(written: str, channel: str, *, matches: bool) -> None:
    """Specification, channel claims."""
    pattern, is_exclusion = parse_pattern(written)
    assert not is_exclusion
    assert pattern.matches(channel) is matches


def test_a_leading_exclamation_mark_excludes() -> None:
    """Specification, channel claims."""
    assert parse_pattern("!group:1") == (ChannelPattern("group:1", is_exact=True), True)
    assert parse_pattern("!private:*") == (ChannelPattern("private:", is_exact=False), True)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("42", ["group:42", "private:42"]),
        ("0123", ["group:123", "private:123"]),
        ("group:0123", ["group:123"]),
        ("group:", ["group:*"]),
        ("group", ["group:*"]),
        ("grup:*", ["group:*"]),
        ("Group:7", ["group:7"]),
        ("group\uff1a7", ["group:7"]),
        ("group: 7", ["group:7"]),
        ("friend:7", ["private:7"]),
        ("!7", ["!group:7", "!private:7"]),
        ("!!group:7", ["!group:7"]),
        ("group:*7", ["group:7"]),
        ("group:**", ["group:*"]),
        ("somewhere*", ["group:*", "private:*"]),
    ],
)
def test_a_pattern_that_can_match_nothing_is_answered_with_what_was_meant(written: str, meant: list[str]) -> None:
    """Our choice: such a pattern is always a slip, and a silent one costs its owner an evening."""
    with pytest.raises(PatternError) as caught:
        parse_pattern(written)
    assert re.findall(r'"([^"]+)"', str(caught.value).partition("did you mean")[2]) == meant


@pytest.mark.parametrize("written", ["", "!"])
def test_an_empty_pattern_is_refused(written: str) -> None:
    """Specification, channel claims."""
    with pytest.raises(PatternError, match="names no channel"):
        parse_pattern(written)


@given(st.text(alphabet="group:private*!0123 \uff1a{}$xG", max_size=12))
@example(":${")
def test_every_suggestion_is_itself_a_valid_pattern(written: str) -> None:
    """Our choice: advice that is refused in turn would be worse than none."""
    try:
        parse_pattern(written)
    except PatternError as error:
        advice = re.split("did you mean|write for example", str(error), maxsplit=1)[1]
        suggestions = re.findall(r'"([^"]+)"', advice)
        assert suggestions
        for suggestion in suggestions:
            parse_pattern(suggestion)


@pytest.mark.parametrize("written", ["onebot:10001", "onebot:*"])
def test_an_account_is_one_of_a_platform_or_all_of_them(written: str) -> None:
    """Specification, channel claims: an account contains a colon; `onebot:*` is ours."""
    check_account(written)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("10001", '"onebot:10001"'),
        ("onebot", '"onebot:*"'),
        ("onebot:", '"onebot:*"'),
        ("*", '"onebot:*"'),
        ("onebt:1", '"onebot:1"'),
        ("OneBot:1", '"onebot:1"'),
        ("onebot:1*", '"onebot:*"'),
        ("onebot:012", '"onebot:12"'),
        ("onebot: 1", '"onebot:1"'),
        ("onebot:${QQ}", "keys are not expanded"),
    ],
)
def test_an_account_that_nobody_can_have_is_answered_with_what_was_meant(written: str, meant: str) -> None:
    """Our choice: as for patterns."""
    with pytest.raises(PatternError) as caught:
        check_account(written)
    assert meant in str(caught.value)


IDS = ("1", "2", "12", "123", "21")
CHANNELS = [
    f"{kind}:{number}{tail}" for kind in ("group", "private") for number in ("", *IDS) for tail in ("", "0", "9")
]
PATTERNS = st.sampled_from(
    ["*", *(f"{kind}:{tail}" for kind in ("group", "private") for tail in ("*", "1*", "12*", "2*", "1", "12", "123"))]
)


@given(PATTERNS, st.lists(PATTERNS, max_size=4))
def test_a_pattern_is_covered_exactly_if_no_channel_escapes(written: str, by: list[str]) -> None:
    """Our choice: coverage is exact; checked over ids that end differently from every pattern's."""
    pattern = parse_pattern(written)[0]
    covers = [parse_pattern(one)[0] for one in by]
    channels = [channel for channel in CHANNELS if channel.partition(":")[2] and pattern.matches(channel)]
    escapes = [channel for channel in channels if not any(one.matches(channel) for one in covers)]
    assert is_covered(pattern, covers) is (not escapes)
