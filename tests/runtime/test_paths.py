"""Folder names of profiles, accounts and channels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.runtime.paths import folder_name, runtime_home

NAMES = st.one_of(
    st.text(),
    st.text(alphabet="aA.%~-_:/\\ \0é凛\ud800", max_size=8),
    st.text(alphabet="ab", min_size=115, max_size=130),
    st.text(alphabet="凛", min_size=10, max_size=20),
)


@given(NAMES, NAMES)
def test_different_names_get_different_folders(one: str, other: str) -> None:
    """Design, data: two channels never share a folder."""
    assert (folder_name(one) == folder_name(other)) == (one == other)


@given(NAMES, NAMES)
def test_folders_stay_different_where_letter_case_does_not_count(one: str, other: str) -> None:
    """Our choice: ids of the platforms are digits, so only names that differ in case alone may meet there."""
    if one.lower() != other.lower() and one.upper() != other.upper():
        assert folder_name(one) != folder_name(other)


@given(NAMES)
def test_a_folder_name_is_one_plain_short_step_down(name: str) -> None:
    """Design, data: percent-encoded outside `[A-Za-z0-9._-]`, hashed beyond 120 bytes; never a way out."""
    folder = folder_name(name)
    assert re.fullmatch(r"[A-Za-z0-9._%~-]{1,120}", folder)
    assert folder not in (".", "..")
    assert Path("/data", folder).parent == Path("/data")


@given(NAMES, NAMES)
def test_a_hashed_name_is_never_a_plain_one(one: str, other: str) -> None:
    """Our choice: `~` stands in no plain name."""
    if "~" in folder_name(one):
        assert folder_name(other) != folder_name(one) or one == other


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("group:500", "group%3A500"),
        ("onebot:10001", "onebot%3A10001"),
        ("neko", "neko"),
        ("a/../b", "a%2F..%2Fb"),
        ("..", "%2E%2E"),
        ("凛", "%E5%87%9B"),
        ("", "%"),
    ],
)
def test_names_read_as_what_they_are(name: str, folder: str) -> None:
    """Design, data: a person who looks into `data/` finds his way."""
    assert folder_name(name) == folder


def test_a_channel_lives_below_its_profile_and_account(tmp_path: Path) -> None:
    """Design, data: `data/<profile>/<sid>/<channel>/`."""
    home = runtime_home(tmp_path, "neko", "onebot:10001", "group:500")
    assert home == tmp_path / "neko" / "onebot%3A10001" / "group%3A500"
