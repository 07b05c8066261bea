import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.content import MAX_NAME_CHARS, clean_name, line_id, line_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Rin", "Rin"),
        ("  Rin \t the\n cat ", "Rin the cat"),
        ("\u202eniR\u202c", "niR"),
        ("Rin\u2028[11-30 10:00] Bob", "Rin [11-30 10:00] Bob"),
        ("R\0i\x1bn\ud800", "Rin"),
        ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧"),
        ("\u200d\u3164\u2800\ufe0f", "id"),
        ("", "id"),
    ],
)
def test_a_name_is_one_visible_line(name: str, expected: str) -> None:
    """Design, content: display names without control and line characters; blank ones give way to the id."""
    assert clean_name(name, "id") == expected


def test_a_long_name_is_cut_between_characters() -> None:
    """Our choice: 64 characters with the ellipsis, never half an emoji."""
    assert clean_name("a" * 65, "id") == "a" * 63 + "…"
    assert clean_name("a" * 62 + "🇯🇵" * 3, "id") == "a" * 62 + "…"
    assert clean_name("a" * 64, "id") == "a" * 64


def test_a_name_keeps_its_looks_without_the_signs_of_a_head() -> None:
    """Design, content: a name cannot imitate an id, a message number or markup."""
    assert line_name("Bob(42) #7: <b>[x]&", "9") == "Bob（42） \uff037： \uff1cb\uff1e\uff3bx\uff3d\uff06"
    assert line_name("\u3164", "9") == "9"
    assert line_name("two  spaces ", "9") == "two spaces"


def test_an_id_is_one_word() -> None:
    """Our choice: ids come from the platform as text and may be anything."""
    assert line_id("10001") == "10001"
    assert line_id("a b(c)\n#d") == "a_b（c）_\uff03d"
    assert line_id("") == "unknown"
    assert line_id("x" * 200) == "x" * 200


@given(st.text(max_size=80), st.text(max_size=80))
def test_nothing_of_a_head_survives_in_any_name(name: str, user_id: str) -> None:
    """Design, content: for any name."""
    shown = line_name(name, user_id)
    assert shown
    assert len(shown) <= max(MAX_NAME_CHARS, len(line_id(user_id)))
    assert not set(shown) & set("()[]#:<>&")
    assert len(shown.splitlines()) == 1
    assert not set(line_id(user_id)) & set("()[]#:<>& ")
