"""Secrets in texts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.config import Redactor


def test_a_known_value_is_replaced_wherever_it_stands() -> None:
    """Specification, concurrency: errors are redacted before they reach a log or an entry."""
    assert Redactor(["s3cret"]).redact("401 for key s3cret (s3cret)") == "401 for key *** (***)"


def test_a_value_inside_a_longer_one_does_not_leave_the_rest() -> None:
    """Our choice: the longest value first."""
    assert Redactor(["abcd", "abcdefgh"]).redact("abcdefgh") == "***"


def test_a_value_is_found_as_json_and_url_write_it() -> None:
    """Our choice: errors quote requests and addresses."""
    secret = 'pass/"wört +1'
    text = f"{json.dumps(secret)} pass%2F%22w%C3%B6rt%20%2B1 {secret!r}"
    assert "rt" not in Redactor([secret]).redact(text)


def test_short_values_are_left_alone() -> None:
    """Our choice: three letters protect nothing and would blank half of every text."""
    assert Redactor(["abc", ""]).redact("abc") == "abc"


def test_values_learned_later_are_replaced_too() -> None:
    """Our choice: models.yaml is read again while the process runs."""
    redactor = Redactor(["first-key"])
    redactor.add(["second-key"])
    redactor.add(["second-key"])
    assert redactor.redact("first-key second-key") == "*** ***"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer ***"),
        ("{'Authorization': 'Bearer abcdef'}", "{'Authorization': 'Bearer ***'}"),
        ("got bearer eyJhbGciOi.J9", "got bearer ***"),
        ("Incorrect API key provided: sk-proj-abc123DEF456.", "Incorrect API key provided: ***."),
        ("GET /v1?api_key=abcdef&x=1", "GET /v1?api_key=***&x=1"),
        ('{"api_key": "abcdef"}', '{"api_key": "***"}'),
        ("x-api-key: abcdef", "x-api-key: ***"),
        ("ws://host/?access_token=abcdef", "ws://host/?access_token=***"),
        ("http://user:password1@proxy:8080/", "http://***@proxy:8080/"),
        ("key AIzaSyA1234567890abcdefghijkl", "key ***"),
    ],
)
def test_text_shaped_like_a_key_is_replaced(text: str, expected: str) -> None:
    """Our choice: a vendor may quote a key that was never registered."""
    assert Redactor().redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "basic information",
        "max_tokens: 4096",
        "the bearer of news",
        "sk-learn and hf_hub",
        "http://host:8080/a@b",
        "a token",
    ],
)
def test_plain_words_are_left_alone(text: str) -> None:
    """Our choice: an error must stay readable."""
    assert Redactor().redact(text) == text


@given(
    st.text(st.characters(exclude_characters="*", exclude_categories=["Cs"]), min_size=4, max_size=12),
    st.text(),
    st.text(),
)
def test_no_known_value_survives(secret: str, before: str, after: str) -> None:
    """Specification, safety: secrets appear in no log, entry or prompt."""
    assert secret not in Redactor([secret]).redact(before + secret + after)
