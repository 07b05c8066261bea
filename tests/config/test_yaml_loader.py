"""The strict YAML loader: one test per trap, named by its outcome."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.config import ConfigDocument, load_yaml, parse_yaml, render_key
from ishiki.errors import ConfigError
from ishiki.jsonvalue import JsonValue


def refused(source: str | bytes) -> ConfigError:
    """Return the error that `source` is answered with."""
    with pytest.raises(ConfigError) as caught:
        parse_yaml(source, file="profile.yaml")
    assert str(caught.value).startswith("profile.yaml")
    return caught.value


def place(error: ConfigError) -> tuple[int | None, int | None]:
    """Return line and column."""
    return error.line, error.column


def test_a_duplicate_key_is_an_error_that_names_both_lines() -> None:
    """Specification, configuration: duplicate keys are errors."""
    error = refused("model: a\nmode: channel\nmodel: b\n")
    assert (error.code, *place(error)) == ("yaml_duplicate_key", 3, 1)
    assert "line 1" in error.problem
    assert "line 3" in error.problem


def test_a_duplicate_key_in_a_flow_mapping_or_in_quotes_is_an_error_too() -> None:
    """Our choice: keys are compared as text."""
    assert refused("a: {b: 1, b: 2}").code == "yaml_duplicate_key"
    assert refused('123: x\n"123": y\n').code == "yaml_duplicate_key"


@pytest.mark.parametrize("word", ["yes", "no", "on", "off", "y", "n", "Yes", "NO", "On", "OFF"])
def test_yes_and_no_words_are_text(word: str) -> None:
    """Specification, configuration: text where no boolean is due (`validate_config` refuses them where one is)."""
    assert parse_yaml(f"a: {word}").data == {"a": word}


@pytest.mark.parametrize("word", ["true", "True", "TRUE"])
def test_true_is_a_boolean(word: str) -> None:
    """YAML 1.2, core schema."""
    assert parse_yaml(f"a: {word}\nb: {word.replace('t', 'f', 1)}").data["a"] is True


@pytest.mark.parametrize("text", ["0123", "0o17", "0x1F", "0b11", "1_000", "00"])
def test_octal_hexadecimal_and_underscored_numbers_are_text(text: str) -> None:
    """Specification, configuration (octal); our choice for the others, which are as surprising."""
    assert parse_yaml(f"a: {text}").data == {"a": text}


@pytest.mark.parametrize("text", ["12:30:45", "1:30", "2024-01-01", "2024-01-01T10:00:00Z"])
def test_times_and_dates_are_text(text: str) -> None:
    """Specification, configuration (sexagesimal); our choice for dates: JSON has none."""
    assert parse_yaml(f"a: {text}").data == {"a": text}


@pytest.mark.parametrize("text", [".inf", "-.inf", ".nan"])
def test_infinities_are_text(text: str) -> None:
    """Our choice: JSON has no such numbers, so a number field refuses them."""
    assert parse_yaml(f"a: {text}").data == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("-5", -5), ("+5", 5), ("1.10", 1.1), (".5", 0.5), ("1e3", 1000.0), ("10001", 10001)]
)
def test_decimal_numbers_are_numbers(text: str, value: float) -> None:
    """YAML 1.2, core schema."""
    assert parse_yaml(f"a: {text}").data == {"a": value}


@pytest.mark.parametrize("text", ["", "~", "null"])
def test_nothing_is_null(text: str) -> None:
    """YAML 1.2, core schema."""
    assert parse_yaml(f"a: {text}").data == {"a": None}


def test_quoted_scalars_are_text() -> None:
    """YAML 1.2: quotes make text."""
    assert parse_yaml("a: '5'\nb: \"true\"\nc: ''\nd: |\n  5\n").data == {"a": "5", "b": "true", "c": "", "d": "5\n"}


@pytest.mark.parametrize("number", ["9223372036854775808", "1e999", "9" * 5000])
def test_a_number_that_json_cannot_keep_is_an_error_that_says_to_quote_it(number: str) -> None:
    """Our choice: an id must not be rounded in silence."""
    error = refused(f"a:\n  b: {number}")
    assert (error.code, *place(error)) == ("yaml_number", 2, 6)


@pytest.mark.parametrize(
    ("source", "quoted", "at"),
    [
        ("channels: {s: [*]}", '"*"', (1, 16)),
        ("channels:\n  s:\n  - *\n", '"*"', (3, 5)),
        ("*: x", '"*"', (1, 1)),
        ("a: *neko", '"*neko"', (1, 4)),
        ("channels: {s: ['*', !group:1]}", '"!group:1"', (1, 21)),
        ("channels:\n  s: [!group:1]\nmodel: x\n", '"!group:1"', (2, 7)),
        ("channels:\n  s:\n  - !group:1\n", '"!group:1"', (3, 5)),
        ("channels:\n  s:\n  - !group:*\n", '"!group:*"', (3, 5)),
        ("a: {b: !group:1}", '"!group:1"', (1, 8)),
        ("a: !x!y z", '"!x!y"', (1, 4)),
        ("{a: ${A:-b}}", '"${A:-b}"', (1, 6)),
        ("a: [${A}, b]", '"${A}"', (1, 6)),
        ("a: @neko", '"@neko"', (1, 4)),
        ("a: `x`", '"`x`"', (1, 4)),
        ("a: %x", '"%x"', (1, 4)),
        ("a: & b", '"&"', (1, 4)),
    ],
)
def test_text_that_yaml_reads_as_a_sign_is_answered_with_the_quotes_to_set(
    source: str, quoted: str, at: tuple[int, int]
) -> None:
    """Specification, configuration: an unquoted `*`, `!group:1` or `{a: ${A:-b}}`; the other signs are our choice."""
    error = refused(source)
    assert (error.code, place(error)) == ("yaml_quotes_needed", at)
    assert quoted in error.problem


def test_a_variable_outside_brackets_needs_no_quotes() -> None:
    """YAML: `{` opens a mapping only at the start of a value or within brackets."""
    assert parse_yaml("a: ${A:-b}").data == {"a": "${A:-b}"}


def test_a_tag_of_yaml_itself_is_an_error() -> None:
    """Our choice: quotes say the same."""
    assert refused("a: !!str 5").code == "yaml_quotes_needed"


def test_braces_as_text_are_answered_with_quotes() -> None:
    """Our choice: template text such as {{name}} is a mapping to YAML."""
    error = refused("a: {{name}}")
    assert error.code == "yaml_key"
    assert "quotes" in error.problem


def test_a_tab_as_indentation_is_an_error_that_says_spaces() -> None:
    """YAML 1.2: tabs do not indent."""
    error = refused("a:\n\tb: 1\n")
    assert (error.code, *place(error)) == ("yaml_tab", 2, 1)


def test_a_byte_order_mark_at_the_start_is_skipped_and_moves_no_column() -> None:
    """Our choice: editors on Windows write one."""
    document = parse_yaml(b"\xef\xbb\xbfa: 1")
    assert document.data == {"a": 1}
    assert document.positions["a",].key_column == 1


@pytest.mark.parametrize("source", ["a: \x00", "a: x\x07", "b: \x7f", "c: \ufeff", "a: \ufffe", "a: '\ud800'"])
def test_a_character_that_yaml_does_not_allow_is_an_error_with_its_place(source: str) -> None:
    """YAML 1.2, character set."""
    error = refused("x: 1\n" + source)
    assert error.code == "yaml_character"
    assert error.line == 2


def test_half_a_surrogate_pair_as_an_escape_is_an_error_and_a_whole_pair_is_its_character() -> None:
    """Our choice: JSON pasted into YAML writes emoji as pairs."""
    assert parse_yaml(r'a: "\ud83d\ude00"').data == {"a": "😀"}
    assert refused(r'a: "\ud83d"').code == "yaml_character"


def test_a_file_that_is_not_utf8_is_an_error_with_the_place_of_the_byte() -> None:
    """Our choice: GBK is what an old Windows editor writes."""
    error = refused("a: 1\nb: 你".encode("gbk"))
    assert (error.code, *place(error)) == ("yaml_encoding", 2, 4)


def test_a_utf16_file_is_an_error_that_says_so() -> None:
    """Our choice: Notepad's `Unicode`."""
    error = refused("a: 1".encode("utf-16"))
    assert error.code == "yaml_encoding"
    assert "UTF-16" in error.problem


@pytest.mark.parametrize("source", ["a: 1\n---\nb: 2\n", "--- {a: 1}\n--- {b: 1}\n"])
def test_a_second_document_is_an_error(source: str) -> None:
    """Our choice: what stands in it would be lost."""
    error = refused(source)
    assert (error.code, error.line) == ("yaml_documents", 2)


def test_one_document_may_have_its_marks() -> None:
    """YAML: `---` and `...` around the only document."""
    assert parse_yaml("---\na: 1\n...\n").data == {"a": 1}


def test_a_merge_key_is_an_error_that_says_what_to_write() -> None:
    """Our choice: YAML 1.2 has none."""
    assert refused("a: &d {x: 1}\nb:\n  <<: *d\n").code == "yaml_merge_key"


def test_an_alias_of_a_whole_value_is_filled_in() -> None:
    """Our choice: anchors of whole values are harmless and useful."""
    document = parse_yaml("a: &d {x: [1, 2]}\nb: *d\n")
    assert document.data == {"a": {"x": [1, 2]}, "b": {"x": [1, 2]}}
    assert document.positions["b",].key_line == 2
    assert document.positions["b", "x", 1].line == 1


def test_aliases_of_aliases_meet_a_bound() -> None:
    """Our choice: ten lines must not become a billion values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    assert refused("\n".join(lines)).code == "yaml_too_large"


def test_an_alias_inside_its_own_anchor_is_an_error() -> None:
    """Our choice: JSON has no cycles."""
    assert refused("a: &x [*x]").line == 1


@pytest.mark.parametrize("opening", ["[", "{a: ", "\n- "])
def test_deep_nesting_is_an_error_and_no_stack_overflow(opening: str) -> None:
    """Our choice: a bound of 50 levels."""
    source = "a: " + opening * 5000 if opening != "\n- " else "a:\n" + "".join(" " * i + "-\n" for i in range(200))
    assert refused(source).code == "yaml_depth"


def test_nesting_by_aliases_meets_the_same_bound() -> None:
    """Our choice: aliases add levels that the text does not show."""
    inner = "[" * 30 + "1" + "]" * 30
    assert refused(f"a: &a {inner}\nb: {'[' * 30}*a{']' * 30}\n").code == "yaml_depth"


@pytest.mark.parametrize(
    ("source", "code"), [("[a]: b", "yaml_key"), ("? {a: 1}\n: b", "yaml_key"), (": x", "yaml_key")]
)
def test_a_key_that_is_no_text_is_an_error(source: str, code: str) -> None:
    """Our choice: JSON keys are text."""
    assert refused(source).code == code


def test_keys_are_the_text_as_written() -> None:
    """Our choice: ids and words are common keys, and must not turn into numbers or booleans."""
    assert list(parse_yaml("123: a\n0123: b\non: c\ntrue: d\n1.0: e\nnull: f\n").data) == [
        "123",
        "0123",
        "on",
        "true",
        "1.0",
        "null",
    ]


@pytest.mark.parametrize("source", ["", "\n", "# only a comment\n", "---\n", "\ufeff"])
def test_an_empty_file_is_an_error_unless_it_is_allowed(source: str) -> None:
    """Our choice: an empty profile is a mistake, an empty models.yaml is not."""
    assert refused(source).code == "yaml_empty"
    assert parse_yaml(source, allow_empty=True).data == {}


@pytest.mark.parametrize("source", ["- a\n- b\n", "hello", "model:x", "'text'"])
def test_a_root_that_is_no_mapping_is_an_error(source: str) -> None:
    """Our choice: every file of ours is a mapping."""
    assert refused(source).code == "yaml_not_a_mapping"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("a: b: c", 1),
        ("a: 1\n b: 2", 2),
        ("a: [1, 2\nb: 3", 2),
        ("a: {x: 1\nb: 3", 2),
        ("a: 'x\nb: 2", 2),
        ('a: "\\q"', 1),
        ("a:\n  b: 1\n c: 2\n", 3),
        ("a: 1\nbroken\nb: 2\n", 3),
        ("a: >9x\n b", 1),
    ],
)
def test_a_syntax_error_names_its_line(source: str, line: int) -> None:
    """Specification, configuration: every error has file and line."""
    error = refused(source)
    assert (error.code, error.line) == ("yaml_syntax", line)


def test_a_huge_file_is_an_error() -> None:
    """Our choice: one MiB is a wrong file."""
    assert refused("a: " + "x" * 1024 * 1024).code == "yaml_too_large"


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    """Our choice: missing files and folders are the owner's to mend."""
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(ConfigError) as caught:
            load_yaml(path)
        assert (caught.value.code, caught.value.file) == ("config_unreadable", path)


def test_a_file_is_read_with_its_name(tmp_path: Path) -> None:
    """Specification, configuration: every error has its file."""
    path = tmp_path / "profile.yaml"
    path.write_text("model: main\n", encoding="utf-8")
    assert load_yaml(path) == parse_yaml("model: main\n", file=path)


def test_positions_tell_keys_from_values() -> None:
    """Specification, configuration: line and column of every key and value, 1-based, counted in code points."""
    document = parse_yaml("# 猫\nwakeup:\n  standard: {keywords: [猫, 1.10]}\n")
    block = document.positions["wakeup", "standard"]
    assert (block.key_line, block.key_column, block.line, block.column) == (3, 3, 3, 13)
    item = document.positions["wakeup", "standard", "keywords", 1]
    assert (item.line, item.column, item.raw) == (3, 28, "1.10")
    error = document.error("no", ("wakeup", "standard", "keywords", 1))
    assert error.key == "wakeup.standard.keywords[1]"
    assert place(error) == (3, 28)


def test_an_absent_key_is_blamed_at_its_owner() -> None:
    """Our choice: the line to look at is where the key would go."""
    error = parse_yaml("a: 1\nb:\n  c: {}\n").error("no", ("b", "c", "d"))
    assert (*place(error), error.key) == (3, 3, "b.c.d")


def test_a_key_with_other_signs_is_written_in_brackets() -> None:
    """Our choice: `onebot:10001` and `gpt-4.1` must not look like two keys."""
    assert render_key(("channels", "onebot:10001", 0)) == 'channels["onebot:10001"][0]'


# What JSON may leave unescaped and YAML does not allow.
_FORBIDDEN = "".join(map(chr, range(0x7F, 0xA0))) + "\ufeff\ufffe\uffff"
_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=_FORBIDDEN), max_size=20)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=20,
)


def paths_of(value: JsonValue, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return every path of `value`."""
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += paths_of(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += paths_of(inner, (*path, index))
    return found


@given(st.dictionaries(_TEXT, _JSON, min_size=1, max_size=4), st.booleans())
def test_any_json_object_reads_back_the_same_with_a_position_for_every_value(
    data: dict[str, JsonValue], ascii_only: bool
) -> None:
    """YAML 1.2: JSON is YAML. Whatever is quoted comes back untouched."""
    document: ConfigDocument = parse_yaml(json.dumps(data, ensure_ascii=ascii_only))
    assert document.data == data
    assert set(document.positions) == set(paths_of(data))


def is_refused(source: str | bytes) -> bool:
    """Return whether the loader refuses `source`; any exception but `ConfigError` is the test's failure."""
    try:
        json.dumps(parse_yaml(source).data, allow_nan=False)
    except ConfigError as error:
        return error.code.startswith("yaml_")
    return False


@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_text_that_reads_without_a_root_mapping_is_refused(source: str | bytes) -> None:
    """Our choice: nothing but `ConfigError` leaves the loader, and nothing but a mapping comes out."""
    assert is_refused(source) or isinstance(parse_yaml(source).data, dict)


@given(st.text("{}[]*&!:-?|>'\"%@`#,$<~ \n\tab0", max_size=40))
def test_any_mix_of_signs_reads_as_a_mapping_or_is_refused(source: str) -> None:
    """Our choice: the same, over the characters that mean something."""
    assert is_refused(source) or isinstance(parse_yaml(source).data, dict)
