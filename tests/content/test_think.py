import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.content import strip_think
from ishiki.testing.call_grammars import REASONING_FORMS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>secret</think>hello", "hello"),
        ("hi <think>secret</think> there", "hi  there"),
        ("hello <think>secret", "hello"),
        ("secret</think>\n\nhello", "hello"),
        ("<think>a<think>b</think>c</think>d", "d"),
        ("<THINK>secret</Think>hello", "hello"),
        ('<think class="x">secret</think >hello', "hello"),
        ("<thinking>secret</thinking>hello", "hello"),
        ("< thought >secret</ thought >hello", "hello"),
        ("<think>secret</thinking>hello", "hello"),
        ("<think/>hello", "hello"),
        ("<think>secret</think>", ""),
        ("hello<think", "hello"),
        ("secret</think", ""),
        ("one</think>two</think>three", "three"),
        ("a<think>secret</think>b</think>c", "c"),
        ("I think <thinker> of <b>you</b> ", "I think <thinker> of <b>you</b> "),
        ("&lt;think&gt; is a tag", "&lt;think&gt; is a tag"),
    ],
)
def test_reasoning_is_removed(text: str, expected: str) -> None:
    """Design, what a group never sees: paired; unclosed: to the end; only closed: from the start."""
    assert strip_think(text) == expected


@given(
    st.lists(
        st.sampled_from(["<think>", "</think>", "SECRET", "<thinking a='b'>", " ", "</THINKING>", "ok"]), max_size=10
    )
)
def test_nothing_of_a_tag_is_left_and_stripping_again_changes_nothing(pieces: list[str]) -> None:
    """Our choice: when in doubt, text is removed."""
    left = strip_think("".join(pieces))
    assert "think" not in left.lower()
    assert strip_think(left) == left


@given(st.text(max_size=20), st.text(max_size=20))
def test_what_a_pair_holds_is_never_left(before: str, secret: str) -> None:
    """Design, what a group never sees."""
    assert strip_think(f"{before}<think>{secret}SECRET</think>").find("SECRET") == -1


@pytest.mark.parametrize("form", REASONING_FORMS.values(), ids=REASONING_FORMS)
def test_reasoning_in_every_vendors_form_is_taken_out(form: str) -> None:
    """Chat templates of the vendors; in front of words, between them, and where it is never closed."""
    assert strip_think(f"{form}hello") == "hello"
    assert "SECRET" not in strip_think(f"one {form} two")
    assert "SECRET" not in strip_think(f"hello {form[: form.index('SECRET') + 6]}")


@pytest.mark.parametrize("text", ["[think] about it", "the channel is on", "<thanks>you</thanks>", "think: yes", "◁x▷"])
def test_what_only_looks_like_reasoning_stays(text: str) -> None:
    """Our choice."""
    assert strip_think(text) == text
