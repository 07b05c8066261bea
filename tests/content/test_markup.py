import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.content import (
    TAGS,
    Element,
    Node,
    Text,
    canonical,
    element,
    escape,
    escape_attribute,
    map_text,
    parse,
    serialise,
    unescape,
)
from ishiki.content.markup import MAX_DEPTH

HOSTILE = st.text(
    st.sampled_from([*"<>&\"'=/ ;#x3amp\n\t()[]", "\0", "\r", "\x85", "\u2028", "\ufeff", "😀", "中"]), max_size=40
)
TAG_PIECES = [
    "<at",
    "<at id='1'>",
    '<at id="2"/>',
    "</at>",
    "<forward>",
    "</forward>",
    "<message name=x>",
    "</message>",
]
OTHER_PIECES = [
    "&lt;",
    "&#10;",
    "&#x41;",
    "&#99999999;",
    "&amp;amp;",
    "<b>",
    "</b>",
    "<!--",
    "]]>",
    "<card type='json'>",
]
FRAGMENTS = st.lists(HOSTILE | st.sampled_from([*TAG_PIECES, *OTHER_PIECES]), max_size=12).map("".join)
ATTRIBUTE_NAMES = st.sampled_from(["id", "name", "src", "user_id", "data-x"])
ATTRIBUTES = st.dictionaries(ATTRIBUTE_NAMES, st.text(max_size=10) | HOSTILE, max_size=3)


def _element(name: str, attributes: dict[str, str], content: tuple[Node, ...]) -> Element:
    return Element(name, tuple(attributes.items()), content if TAGS[name].is_container else ())


def _elements(children: st.SearchStrategy[tuple[Node, ...]]) -> st.SearchStrategy[Element]:
    return st.builds(_element, st.sampled_from(sorted(TAGS)), ATTRIBUTES, children)


def _many(nodes: st.SearchStrategy[Node], count: int) -> st.SearchStrategy[tuple[Node, ...]]:
    return st.lists(nodes, max_size=count).map(tuple)


TEXTS = st.builds(Text, st.text(max_size=10) | HOSTILE)
NODES = st.recursive(_many(TEXTS, 2), lambda inner: _many(TEXTS | _elements(inner), 4), max_leaves=8)


def _merged(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Element):
            result.append(Element(node.name, node.attributes, _merged(node.children)))
        elif result and isinstance(last := result[-1], Text):
            result[-1] = Text(last.value + node.value)
        elif node.value:
            result.append(node)
    return tuple(result)


@given(NODES)
def test_what_is_written_is_read_back(nodes: tuple[Node, ...]) -> None:
    """Our choice: writing and reading are inverse, for any text and any attribute value."""
    assert parse(serialise(nodes)) == _merged(nodes)


@given(FRAGMENTS)
def test_any_text_is_read_and_reading_is_stable(markup: str) -> None:
    """Design, content: reading never raises; what it made of broken markup is what its canonical form says."""
    nodes = parse(markup)
    assert nodes == _merged(nodes)
    assert parse(serialise(nodes)) == nodes


@given(st.text() | HOSTILE | FRAGMENTS)
def test_typed_text_never_becomes_an_element(typed: str) -> None:
    """Design, content: what a user typed can never become markup."""
    assert _merged(parse(escape(typed))) == ((Text(typed),) if typed else ())
    assert unescape(escape(typed)) == typed


@given(st.text() | HOSTILE | FRAGMENTS)
def test_a_typed_name_never_becomes_an_attribute(typed: str) -> None:
    """Design, content: a value stays one value, on one line."""
    written = f'<at id="1" name="{escape_attribute(typed)}"/>'
    assert parse(written) == (Element("at", (("id", "1"), ("name", typed))),)
    assert len(written.splitlines()) == 1


@given(st.text(st.characters(exclude_characters="&"), max_size=30))
def test_text_without_a_known_tag_loses_nothing(typed: str) -> None:
    """Design, content: in what the model writes, unknown tags and stray signs are text."""
    markup = f"<b>{typed.replace('<', '< ')}</b> 1 < 2 <p"
    assert parse(markup) == (Text(markup),)


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ('<at id="42" name="Rin"/>', (element("at", id="42", name="Rin"),)),
        ("<at id='42' />", (element("at", id="42"),)),
        ("<at id=42/>", (element("at", id="42"),)),
        ("<img src=https://x.example/a/b.png/>", (element("img", src="https://x.example/a/b.png"),)),
        ('<at id="42">', (element("at", id="42"),)),
        ('<at id="42"></at> hi', (element("at", id="42"), Text(" hi"))),
        ('<at id="42">Rin</at> hi', (element("at", id="42"), Text("Rin hi"))),
        ('<at id="42"', (Text('<at id="42"'),)),
        ('<at id="1" id="2"/>', (Text('<at id="1" id="2"/>'),)),
        ("<at id/>", (Text("<at id/>"),)),
        ("<atx id='1'/>", (Text("<atx id='1'/>"),)),
        ("</at>", (Text("</at>"),)),
        ("<at id=1></at x</at/>", (element("at", id="1"), Text("</at x</at/>"))),
        ("a</forward>b", (Text("a</forward>b"),)),
        ("<forward>a", (Text("<forward>a"),)),
        ("<forward/>", (element("forward"),)),
        ("<forward><message>a</forward>b", (element("forward", Text("<message>a")), Text("b"))),
        ("a &amp &lt;b&gt; &nbsp; &#65;&#x42;&#xD800;", (Text("a &amp <b> &nbsp; AB&#xD800;"),)),
        ("[CQ:at,qq=all]", (Text("[CQ:at,qq=all]"),)),
        ("", ()),
    ],
)
def test_the_grammar(markup: str, expected: tuple[Node, ...]) -> None:
    """Our choice, documented in docs/formats/markup.md: what models write is read kindly, the rest is text."""
    assert parse(markup) == expected


def test_nesting_beyond_the_limit_is_text() -> None:
    """Our choice: no depth of nesting can exhaust the stack."""
    deep = 5000
    nodes = parse("<forward>" * deep + "x" + "</forward>" * deep)
    depth = 0
    while nodes and isinstance(first := nodes[0], Element):
        depth, nodes = depth + 1, first.children
    assert depth == MAX_DEPTH
    assert isinstance(nodes[0], Text)


def test_a_tag_with_too_many_attributes_is_text() -> None:
    """Our choice: bounds the work that one hostile text can cause."""
    markup = "<at " + " ".join(f'a{number}="x"' for number in range(40)) + "/>"
    assert parse(markup) == (Text(markup),)


@pytest.mark.parametrize(
    ("name", "attributes", "children"),
    [("b", (), ()), ("at", (), (Text("x"),)), ("at", (('id="1" x', "y"),), ())],
)
def test_an_element_that_could_not_be_read_back_is_refused(
    name: str, attributes: tuple[tuple[str, str], ...], children: tuple[Node, ...]
) -> None:
    """Our choice: a mistake of the caller is an error where it is made."""
    with pytest.raises(ValueError, match=r"tag|content|attribute"):
        Element(name, attributes, children)


def test_an_empty_attribute_is_left_out_and_get_has_a_default() -> None:
    """Our choice."""
    at = element("at", id="42", name=None, type="")
    assert at.attributes == (("id", "42"),)
    assert (at.get("id"), at.get("name"), at.get("name", "?")) == ("42", "", "?")


def test_texts_are_changed_also_inside_containers() -> None:
    """Our choice: what is done to text leaves elements alone, and a text that becomes empty leaves."""
    nodes = parse('a<forward><message name="a">a</message></forward>b')
    changed = map_text(nodes, lambda text: text.replace("a", ""))
    assert changed == (element("forward", element("message", name="a")), Text("b"))


@pytest.mark.parametrize(
    ("markup", "meant"),
    [
        ('<at qq="42"/>', '<at id="42"/>'),
        ('<at user_id="42" name="Rin"/>', '<at id="42" name="Rin"/>'),
        ("<at uid=42>", '<at id="42"/>'),
        ('<at qq="1" id="42"/>', '<at qq="1" id="42"/>'),
        ('<quote message_id="7"/>hi', '<quote id="7"/>hi'),
        ('<img url="https://a.b/c.png"/>', '<img src="https://a.b/c.png"/>'),
        ('<markdown>**<at qq="42"/>**</markdown>', '<markdown>**<at id="42"/>**</markdown>'),
        ('<at id="42"/>', '<at id="42"/>'),
    ],
)
def test_an_attribute_under_another_name_is_the_one_that_is_meant(markup: str, meant: str) -> None:
    """Reports: models write the platform's names; the mention was lost."""
    assert serialise(canonical(parse(markup))) == meant
