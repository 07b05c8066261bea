import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.content import contains_keyword, escape, is_at_all, is_at_self, plain_preview, visible_text


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('<at id="42"/> hi', True),
        ('hi <at id="42" name="Neko"/> there', True),
        ('hi <at name="x" id="42"/>', True),
        ('<at id="420"/>', False),
        ('<at type="all"/>', False),
        ('<at id="42" type="all"/>', False),
        ("&lt;at id=&quot;42&quot;/&gt;", False),
        ("@Neko 42", False),
        ('<forward><message><at id="42"/></message></forward>', False),
        ('<markdown><at id="42"/></markdown>', True),
        ("<at id=", False),
    ],
)
def test_only_a_mention_of_the_account_is_at_self(content: str, expected: bool) -> None:
    """Specification, mention test; what was forwarded mentions nobody (our choice)."""
    assert is_at_self(content, "42") is expected


def test_an_empty_account_id_is_never_mentioned() -> None:
    """Our choice: an `<at>` without an id is nobody's."""
    assert not is_at_self("<at/>", "")


def test_everyone_is_a_mention_of_its_own() -> None:
    """Design, content: `<at type="all"/>`."""
    assert is_at_all('<at type="all"/> lunch')
    assert not is_at_all('<at id="42"/>')
    assert not is_at_all(escape('<at type="all"/>'))


@given(st.text(max_size=40), st.sampled_from(['<at id="42"/>', "<at id='42'>", '<at type="all"/>', "[CQ:at,qq=42]"]))
def test_nobody_can_type_a_mention(typed: str, forged: str) -> None:
    """Design, content."""
    content = escape(typed + forged + typed)
    assert not is_at_self(content, "42")
    assert not is_at_all(content)


def test_keywords_are_found_in_the_sender_s_own_words_only() -> None:
    """Specification, wakeup standard: plain, case-sensitive, empty keywords skipped; own words are our choice."""
    assert contains_keyword("hello neko!", ["", "neko"])
    assert contains_keyword("I &lt;3 you", ["<3"])
    assert not contains_keyword("hello Neko", ["neko"])
    assert not contains_keyword("hello", ["", ""])
    assert not contains_keyword('<img src="neko.png" summary="neko"/>', ["neko"])
    assert not contains_keyword('ne<img src="x"/>ko', ["neko"])
    assert not contains_keyword('<card type="share" title="x">neko</card>', ["neko"])
    assert not contains_keyword("a &lt; b", ["lt"])


def test_visible_text_has_no_markup() -> None:
    """Specification, typing formula: on visible text only."""
    assert visible_text('<at id="1" name="Rin"/> a &lt; b<img src="x"/>!') == " a < b!"
    assert visible_text("plain") == "plain"
    assert visible_text("<markdown>**b**</markdown><forward><message>x</message></forward>") == "**b**"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('<at id="1" name="Rin"/> hi\n  there', "@Rin hi there"),
        ('<at id="1"/><at type="all"/>', "@1@everyone"),
        ('<img src="x"/><img src="x" summary="[动画表情]"/>', "[image][image: 动画表情]"),
        ('<audio src="x"/><video src="x"/><file name="a.txt"/>', "[audio][video][file: a.txt]"),
        ('<face id="14" name="smile"/><face id="14"/>', "[face: smile][face: 14]"),
        ('<quote id="1"/> yes', "yes"),
        ('<card type="json" title="News">{}</card><forward><message>x</message></forward>', "[card: News][forward]"),
        ('<dice result="3"/><unknown type="hologram"/><shake/>', "[dice: 3][unknown: hologram][shake]"),
        ("a\0b\u2028c", "ab c"),
        ("<markdown>**b** &lt;3</markdown>", "**b** <3"),
        ("&lt;b&gt;", "<b>"),
    ],
)
def test_a_preview_is_one_plain_line(content: str, expected: str) -> None:
    """Our choice: what a reader would see at a glance."""
    assert plain_preview(content, 60) == expected


def test_a_preview_is_cut_between_visible_characters() -> None:
    """Our choice: never half an emoji."""
    assert plain_preview("ab👨\u200d👩\u200d👧c", 4) == "ab…"
    assert plain_preview("abcd", 4) == "abcd"


@given(st.text(max_size=200), st.integers(1, 40))
def test_any_preview_is_short_and_one_line(typed: str, limit: int) -> None:
    """Our choice."""
    preview = plain_preview(escape(typed), limit)
    assert len(preview) <= limit + 1
    assert len(preview.splitlines()) <= 1
