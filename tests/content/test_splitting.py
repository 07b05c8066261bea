import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.content import Element, Node, Text, element, parse, serialise, shorten_markup, split_reply, split_text
from ishiki.content.graphemes import cut_at_or_after, cut_at_or_before, is_boundary

CLUSTERS = [
    "👨\u200d👩\u200d👧\u200d👦",
    "❤\ufe0f\u200d🔥",
    "👍🏽",
    "🇯🇵",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "1\ufe0f\u20e3",
    "e\u0301\u0323",
    "한",
    "\u1112\u1161\u11ab",
    "क्षि",
    "\r\n",
    "葛\U000e0100",
]
PROSE = st.lists(
    st.sampled_from(
        [*CLUSTERS, "。", "！", "？”", ". ", "! ", "...", "……", "\n", "\n\n", " ", "，", ", ", "3.14", "a", "字"]
    )
    | st.text(max_size=5),
    max_size=30,
).map("".join)
ELEMENTS = st.sampled_from([element("at", id="42", name="Rin"), element("face", id="14"), element("img", src="x")])
REPLIES = st.lists(st.builds(Text, PROSE) | ELEMENTS, max_size=5).map(lambda nodes: tuple[Node, ...](nodes))


def _solid(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_visible_character_has_no_boundary_inside(cluster: str) -> None:
    """Unicode Standard Annex 29: extended grapheme clusters."""
    text = f"x{cluster}y"
    inside = range(2, 1 + len(cluster))
    assert [index for index in inside if is_boundary(text, index)] == []
    assert is_boundary(text, 1)
    assert is_boundary(text, 1 + len(cluster))
    for index in inside:
        assert (cut_at_or_before(text, index), cut_at_or_after(text, index)) == (1, 1 + len(cluster))


def test_flags_are_paired_from_their_start() -> None:
    """Unicode Standard Annex 29: two flags are two characters, not three."""
    assert [is_boundary("🇯🇵🇫🇷", index) for index in range(5)] == [True, False, True, False, True]


@given(PROSE, st.integers(1, 30))
def test_pieces_give_the_text_back_and_never_cut_a_character(text: str, limit: int) -> None:
    """Design, long replies: joined, the pieces are the text but for white space."""
    pieces = split_text(text, limit)
    assert _solid("".join(pieces)) == _solid(text)
    assert all(piece.strip() for piece in pieces)
    position = 0
    for piece in pieces:
        start = text.index(piece, position)
        position = start + len(piece)
        assert is_boundary(text, start) or text[start - 1].isspace()
        assert is_boundary(text, position) or text[position].isspace()
        single = cut_at_or_after(piece, 1) >= len(piece.rstrip())
        assert len(piece) <= limit or cut_at_or_before(piece, limit) == 0 or single


@given(REPLIES, st.integers(1, 30))
def test_elements_stay_whole_and_in_order(nodes: tuple[Node, ...], limit: int) -> None:
    """Design, long replies: never inside an element."""
    pieces = split_reply(nodes, limit)
    flat = [node for piece in pieces for node in piece]
    assert [node for node in flat if isinstance(node, Element)] == [node for node in nodes if isinstance(node, Element)]
    assert _solid(serialise(flat)) == _solid(serialise(nodes))
    assert all(pieces)


@pytest.mark.parametrize(
    ("text", "limit", "pieces"),
    [
        ("short", 10, ("short",)),
        ("  \n ", 10, ()),
        ("今天很好。明天也很好。后天呢？", 8, ("今天很好。", "明天也很好。", "后天呢？")),
        ("他说：“走吧。”然后走了。", 9, ("他说：“走吧。”", "然后走了。")),
        ("It is 3.14 now. Yes, it is. Good.", 20, ("It is 3.14 now.", "Yes, it is. Good.")),
        ("First line\nsecond line", 14, ("First line", "second line")),
        ("One. Two.\n\nThree. Four.", 18, ("One. Two.", "Three. Four.")),
        ("one two three", 8, ("one two", "three")),
        ("字字字，字字字字", 6, ("字字字，", "字字字字")),
        ("abcdefghij", 4, ("abcd", "efgh", "ij")),
        ("哈哈哈……真的吗", 6, ("哈哈哈……", "真的吗")),
        ("👨\u200d👩\u200d👧👨\u200d👩\u200d👧", 3, ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧")),
    ],
)
def test_the_best_place_to_cut_wins(text: str, limit: int, pieces: tuple[str, ...]) -> None:
    """Design, long replies: at sentence ends; paragraphs and lines before, clauses and words after (our choice)."""
    assert split_text(text, limit) == pieces


def test_a_mention_counts_as_its_name_and_is_never_cut() -> None:
    """Our choice: the platform shows `@Rin`."""
    nodes = parse('abcde <at id="1" name="Rin"/> fgh')
    assert [serialise(piece) for piece in split_reply(nodes, 8)] == ["abcde", '<at id="1" name="Rin"/> fgh']


def test_a_limit_below_one_is_an_error() -> None:
    """Our choice."""
    with pytest.raises(ValueError, match="limit"):
        split_text("x", 0)


def test_content_is_shortened_to_well_formed_markup() -> None:
    """Design, guards: a long message is cut for the model, and says so."""
    assert shorten_markup("short", 5) == "short"
    content = 'hello <forward><message name="Rin">' + "x" * 100 + "</message></forward>" + '<img src="y"/>'
    short = shorten_markup(content, 20)
    assert short.startswith('hello <forward><message name="Rin">xxxx')
    assert "</message></forward> [… " in short
    assert shorten_markup('<img src="' + "y" * 100 + '"/>', 20) == " [… 113 more characters]"
    assert shorten_markup("a" + "👨\u200d👩\u200d👧" * 9, 4).startswith("a [… ")
    assert shorten_markup('<at id="1" name="a"/>' * 2, 30) == '<at id="1" name="a"/>' * 2
