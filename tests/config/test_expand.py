"""`${NAME}` in configuration."""

from __future__ import annotations

import pytest

from ishiki.config import expand, parse_yaml
from ishiki.errors import ConfigError, GatewayError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A}", "one"),
        ("x${A}y${A}", "xoneyone"),
        ("${UNSET:-two}", "two"),
        ("${UNSET:-}", ""),
        ("${EMPTY:-three}", "three"),
        ("${A:-two}", "one"),
        ("${UNSET:-a:-b}", "a:-b"),
        ("$${A}", "${A}"),
        ("$${A}${A}", "${A}one"),
        ("$A $ $$ {A}", "$A $ $$ {A}"),
        ("5$", "5$"),
    ],
)
def test_a_variable_is_filled_in(text: str, expected: str) -> None:
    """Specification, configuration: `${NAME}` and `${NAME:-default}`; the escape `$${` is our choice."""
    document = parse_yaml(f"a:\n- '{text}'\n")
    assert expand(document, {"A": "one", "EMPTY": ""}).document.data == {"a": [expected]}


def test_an_expanded_value_is_not_expanded_again() -> None:
    """Our choice: what an environment holds is data."""
    assert expand(parse_yaml("a: ${A}"), {"A": "${B}", "B": "no"}).document.data == {"a": "${B}"}


def test_keys_and_values_that_are_no_text_stay() -> None:
    """Our choice: only text values are expanded."""
    document = parse_yaml("'${A}': [1, 2.5, true, null]")
    expanded = expand(document, {"A": "one"}).document
    assert expanded.data == document.data
    assert expanded.positions == document.positions


def test_an_unset_variable_is_reported_with_its_place_and_the_value_stays_as_written() -> None:
    """Specification, configuration: an unset key makes a provider unconfigured; other places are errors."""
    document = parse_yaml(
        "providers:\n  a: {api_key: '${KEY}'}\n  b: {api_key: '${EMPTY}-${OTHER}'}\n", file="models.yaml"
    )
    expanded = expand(document, {"EMPTY": ""})
    assert expanded.document.data == document.data
    assert [(one.path[1], one.variable) for one in expanded.missing] == [("a", "KEY"), ("b", "EMPTY"), ("b", "OTHER")]
    assert [one.variable for one in expanded.missing_at(("providers", "b"))] == ["EMPTY", "OTHER"]
    assert expanded.missing_at(("providers", "b", "base_url")) == ()


def test_the_error_for_unset_variables_names_each_and_leaves_out_what_the_caller_ignores() -> None:
    """Specification, configuration: an error naming the variable."""
    document = parse_yaml("a: {key: '${ONE}'}\nb: ['${TWO}']\nc: '${THREE}'\n", file="models.yaml")
    expanded = expand(document, {})
    error = expanded.missing_error(ignore=(("a",),), error_type=GatewayError)
    assert isinstance(error, GatewayError)
    assert (error.code, error.key, error.line, error.column) == ("variable_unset", "b[0]", 2, 5)
    assert "'TWO'" in error.problem
    assert [other.key for other in error.others] == ["c"]
    assert "'THREE'" in str(error)
    assert expanded.missing_error(ignore=((),)) is None


@pytest.mark.parametrize("text", ["${A", "x ${", "${}", "${1A}", "${A-b}", "${A b}", "${A:-${B}}", "${A:?gone}"])
def test_a_malformed_expression_is_an_error_with_its_place(text: str) -> None:
    """Our choice: a typing mistake must not become a password."""
    with pytest.raises(ConfigError) as caught:
        expand(parse_yaml(f"a:\n  b: '{text}'\n"), {"A": "one"})
    assert (caught.value.code, caught.value.key, caught.value.line) == ("variable_syntax", "a.b", 2)


def test_a_value_that_is_no_utf8_is_an_error() -> None:
    """Our choice: such bytes arrive as lone surrogates."""
    with pytest.raises(ConfigError) as caught:
        expand(parse_yaml("a: ${A}"), {"A": "\udcff"})
    assert "\udcff" not in str(caught.value)


def test_it_records_which_value_came_from_which_variable() -> None:
    """Our choice: messages name the variable instead of its value; a default is no variable's."""
    expanded = expand(parse_yaml("a: x${A}${B:-y}\nb: ${B:-z}\nc: [plain]"), {"A": "one"})
    assert dict(expanded.document.variables) == {("a",): ("A", "B"), ("b",): ("B",)}


def test_values_that_may_be_secrets_are_collected() -> None:
    """Specification, concurrency: errors are redacted of the values of all expanded secrets."""
    document = parse_yaml(
        "api_key: ${A}\nurl: ${B}\nport: ${C}\nheaders: {x: '${D}'}\nkeywords: ['${E}', '${F:-fallback-text}']"
    )
    environment = {"A": "short", "B": "https://host/path", "C": "8080", "D": "app1", "E": "neko"}
    assert expand(document, environment).secrets == {"short", "https://host/path", "app1"}
