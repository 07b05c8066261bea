"""Configuration models: what they take, and the errors they answer with."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

import pytest
from pydantic import Field, SecretStr, model_validator

from ishiki.config import ConfigModel, IdText, expand, parse_yaml, validate_config
from ishiki.errors import ConfigError, GatewayError
from ishiki.jsonvalue import JsonValue


class Fast(ConfigModel):
    kind: Literal["fast"] = Field(description="Always fast.")
    limit: int = Field(default=1, description="Calls.")


class Slow(ConfigModel):
    kind: Literal["slow"] = Field(description="Always slow.")
    delay_s: float = Field(default=1.0, description="Seconds.")


class Block(ConfigModel):
    keywords: tuple[str, ...] = Field(default=(), description="Words that wake.")
    is_on: bool = Field(default=False, description="Whether it is on.")
    max_tokens: int = Field(default=5, ge=1, le=10, description="Tokens.")
    ratio: float = Field(default=1.0, description="Share.")
    strategy: Literal["failover", "random"] = Field(default="failover", description="How to choose.")
    api_key: SecretStr | None = Field(default=None, description="The key.")


class Root(ConfigModel):
    model: str = Field(default="main", description="A model.")
    block: Block = Field(default=Block(), description="A block.")
    many: dict[str, tuple[Block, ...]] = Field(default={}, description="Blocks by name.")
    either: int | str | Block | None = Field(default=None, description="A number, a text or a block.")
    speed: Annotated[Fast | Slow, Field(discriminator="kind")] | None = Field(default=None, description="Fast or slow.")
    ids: frozenset[IdText] = Field(default=frozenset(), description="User ids.")
    waits: dict[IdText, int] = Field(default={}, description="Seconds by id.")


def refused(source: str, environment: Mapping[str, str] | None = None) -> list[ConfigError]:
    """Return all errors that the YAML text is answered with."""
    document = expand(parse_yaml(source, file="p.yaml"), environment or {}).document
    with pytest.raises(ConfigError) as caught:
        validate_config(Root, document.data, document=document)
    return [caught.value, *caught.value.others]


def summary(source: str, environment: Mapping[str, str] | None = None) -> list[tuple[str, str, int | None, int | None]]:
    """Return code, key, line and column of all errors that the YAML text is answered with."""
    return [(error.code, error.key, error.line, error.column) for error in refused(source, environment)]


def read(source: str, environment: Mapping[str, str] | None = None) -> Root:
    """Return the configuration that the YAML text holds."""
    document = expand(parse_yaml(source), environment or {}).document
    return validate_config(Root, document.data, document=document)


def test_snake_case_and_camel_case_keys_are_both_taken() -> None:
    """Specification, configuration: camelCase is accepted by alias."""
    root = read("block: {maxTokens: 7, is_on: true}\nmany: {a: [{apiKey: k, max_tokens: 2}]}\n")
    assert (root.block.max_tokens, root.block.is_on) == (7, True)
    assert root.many["a"][0].api_key == SecretStr("k")


def test_data_keys_are_never_rewritten() -> None:
    """Specification, configuration: never by rewriting keys."""
    assert list(read("many: {someName: [], some_name: []}").many) == ["someName", "some_name"]


@pytest.mark.parametrize("order", [("max_tokens", "maxTokens"), ("maxTokens", "max_tokens")])
def test_both_spellings_of_a_key_are_one_error_at_the_second(order: tuple[str, str]) -> None:
    """Our choice: neither may win in silence."""
    first, second = order
    assert summary(f"many:\n  a:\n  - {first}: 2\n    {second}: 3\n") == [
        ("both_spellings", f"many.a[0].{second}", 4, 5)
    ]


def test_an_unknown_key_is_an_error_that_names_the_nearest_one() -> None:
    """Specification, configuration: every error has file, line, column, key, the nearest known key."""
    (error,) = refused("block:\n  keyword: [a]\n")
    assert (error.code, error.key, error.file, error.line, error.column) == (
        "unknown_key",
        "block.keyword",
        "p.yaml",
        2,
        3,
    )
    assert "'keywords'" in error.problem
    assert "'max_tokens'" in refused("block: {max-token: 1}")[0].problem


def test_an_unknown_key_without_a_near_one_lists_the_known_ones() -> None:
    """Our choice: the list is short and saves a look into the documentation."""
    (error,) = refused("zzz: 1\n")
    assert error.code == "unknown_key"
    assert "block" in error.problem


@pytest.mark.parametrize(
    ("word", "meant"),
    [("yes", "true"), ("On", "true"), ("y", "true"), ("no", "false"), ("off", "false"), ("'true'", "true")],
)
def test_a_yes_or_no_word_where_a_boolean_is_due_is_an_error_that_names_the_boolean(word: str, meant: str) -> None:
    """Specification, configuration: an error that names true/false."""
    (error,) = refused(f"block:\n  is_on: {word}\n")
    assert (error.code, error.line, error.column) == ("not_a_boolean", 2, 10)
    assert f"write {meant}" in error.problem


def test_any_other_value_where_a_boolean_is_due_is_an_error_that_names_both() -> None:
    """Specification, configuration: an error that names true/false."""
    assert "true or false" in refused("block: {is_on: maybe}")[0].problem
    assert refused("block: {is_on: 2}")[0].code == "not_a_boolean"


@pytest.mark.parametrize(
    ("value", "cure"),
    [
        ("'5'", "5"),
        ("1_000", "1000"),
        ("0o17", "15"),
        ("0123", "123"),
        ("0x1F", "31"),
        ("12:30", "decimal"),
        ("many", "decimal"),
    ],
)
def test_text_where_a_number_is_due_is_an_error_that_says_what_to_write(value: str, cure: str) -> None:
    """Our choice: text never becomes a number by itself."""
    (error,) = refused(f"block: {{max_tokens: {value}}}")
    assert (error.code, error.key) == ("wrong_type", "block.max_tokens")
    assert cure in error.problem


@pytest.mark.parametrize(
    ("value", "quoted"), [("1.10", '"1.10"'), ("10001", '"10001"'), ("true", '"true"'), ("False", '"False"')]
)
def test_a_number_or_boolean_where_text_is_due_is_answered_with_the_quotes_to_set(value: str, quoted: str) -> None:
    """Our choice: `1.10` must come out as it was written."""
    (error,) = refused(f"block:\n  keywords: [a, {value}]\n")
    assert (error.code, error.key, error.line, error.column) == ("wrong_type", "block.keywords[1]", 2, 17)
    assert quoted in error.problem


@pytest.mark.parametrize(
    ("source", "key"),
    [
        ("block: {keywords: neko}", "block.keywords"),
        ("block: neko", "block"),
        ("block: [a]", "block"),
        ("block: {max_tokens: 1.5}", "block.max_tokens"),
        ("block: {max_tokens: true}", "block.max_tokens"),
        ("model: [a]", "model"),
        ("many: [a]", "many"),
        ("waits: {a: b}", "waits.a"),
    ],
)
def test_a_value_of_another_kind_is_an_error_at_the_value(source: str, key: str) -> None:
    """Our choice: no coercion between kinds."""
    (error,) = refused(source)
    assert (error.code, error.key) == ("wrong_type", key)


def test_a_whole_number_is_taken_where_a_fraction_may_stand() -> None:
    """Our choice: `ratio: 2` is what a person writes."""
    assert read("block: {ratio: 2}").block.ratio == 2.0


def test_a_key_without_value_is_an_error_that_says_so() -> None:
    """Our choice: a commented-out value is a common mistake."""
    assert summary("model:\nblock: {}\n") == [("empty_value", "model", 1, 7)]


def test_null_is_taken_where_the_field_allows_it() -> None:
    """Our choice: `null` is a value of optional fields."""
    assert read("either:\n").either is None


def test_a_bad_choice_names_the_choices_and_the_nearest() -> None:
    """Specification, configuration; our choice to guess."""
    (error,) = refused("block:\n  strategy: fail-over\n")
    assert (error.code, error.line) == ("bad_choice", 2)
    assert "'random'" in error.problem
    assert "did you mean 'failover'" in error.problem


def test_a_value_out_of_bounds_names_the_bound_and_the_unit() -> None:
    """Our choice: the description carries the unit."""
    (error,) = refused("block: {maxTokens: 0}")
    assert (error.code, error.key) == ("out_of_range", "block.maxTokens")
    assert "at least 1" in error.problem
    assert "Tokens" in error.problem


def test_a_missing_key_is_blamed_at_its_owner_under_its_own_name() -> None:
    """Our choice: the line to look at is where the key would go."""

    class Needy(ConfigModel):
        base_url: str = Field(description="Where.")

    document = parse_yaml("a:\n  b: {}\n", file="p.yaml")
    with pytest.raises(GatewayError) as caught:
        validate_config(Needy, {}, document=document, at=("a", "b"), error_type=GatewayError)
    assert (caught.value.code, caught.value.key, caught.value.line) == ("missing_key", "a.b.base_url", 2)
    assert "Where" in caught.value.problem


def test_all_errors_of_a_file_are_reported_in_its_order() -> None:
    """Our choice: one round of mending per file."""
    source = "many:\n  'onebot:1':\n  - {maxTokens: 11}\n  - {strategy: x}\nmodel: 1\nids: {a: b}\n"
    assert summary(source) == [
        ("out_of_range", 'many["onebot:1"][0].maxTokens', 3, 17),
        ("bad_choice", 'many["onebot:1"][1].strategy', 4, 16),
        ("wrong_type", "model", 5, 8),
        ("wrong_type", "ids", 6, 6),
    ]
    assert len(str(refused(source)[0]).splitlines()) == 4


def test_a_value_that_fits_no_member_of_a_union_is_one_error() -> None:
    """Our choice: a union's members are not reported one by one."""
    (error,) = refused("either: [1]")
    assert (error.code, error.key) == ("wrong_type", "either")
    assert "a whole number or text" in error.problem


def test_an_error_inside_a_union_is_reported_for_the_member_that_fits_best() -> None:
    """Our choice: a mapping was meant to be the block."""
    assert summary("either:\n  maxTokens: 11\n  zz: 1\n") == [
        ("out_of_range", "either.maxTokens", 2, 14),
        ("unknown_key", "either.zz", 3, 3),
    ]


def test_errors_of_a_tagged_union_point_at_the_member_that_the_tag_names() -> None:
    """Our choice: the tag says which keys are due."""
    assert summary("speed:\n  kind: slow\n  limit: 1\n") == [("unknown_key", "speed.limit", 3, 3)]
    (unknown,) = refused("speed:\n  kind: lazy\n")
    assert (unknown.code, unknown.key) == ("bad_choice", "speed")
    assert "'fast'" in unknown.problem
    assert summary("speed: {}\n") == [("missing_key", "speed", 1, 8)]


def test_an_id_may_be_written_as_a_bare_number() -> None:
    """Our choice: a QQ number is an id, and people write it without quotes."""
    assert read("ids: [10001, '10002', 0123]").ids == {"10001", "10002", "0123"}
    assert summary("ids: [true]") == [("wrong_type", "ids[0]", 1, 7)]


def test_text_of_a_variable_is_read_as_a_number_or_boolean_where_one_is_due() -> None:
    """Our choice: an environment holds text only."""
    root = read(
        "model: ${N}\nblock: {maxTokens: '${N}', is_on: '${B}', ratio: '${R:-0.5}', keywords: ['${N}']}\n",
        {"N": "7", "B": "true"},
    )
    assert (root.model, root.block.max_tokens, root.block.is_on, root.block.ratio) == ("7", 7, True, 0.5)
    assert root.block.keywords == ("7",)


def test_a_bad_value_of_a_variable_is_an_error_that_names_the_variable_and_not_its_value() -> None:
    """Specification, safety: secrets appear in no log."""
    (error,) = refused("block:\n  max_tokens: ${SECRET}\n", {"SECRET": "hunter22"})
    assert (error.code, error.line) == ("wrong_type", 2)
    assert "SECRET" in error.problem
    assert "hunter22" not in str(error)


def test_a_bad_value_of_a_secret_is_not_repeated() -> None:
    """Specification, safety: secrets appear in no log."""
    (error,) = refused("block: {apiKey: 123456789}")
    assert error.code == "wrong_type"
    assert "123456789" not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None


def test_a_block_is_validated_with_the_keys_and_positions_of_its_document() -> None:
    """Specification, contracts: each engine validates its own block."""
    document = parse_yaml("wakeup:\n  standard:\n    keyword: []\n", file="p.yaml")
    with pytest.raises(ConfigError) as caught:
        validate_config(Block, document.value_at(("wakeup", "standard")), document=document, at=("wakeup", "standard"))
    assert (caught.value.key, caught.value.line, caught.value.column) == ("wakeup.standard.keyword", 3, 5)


def test_text_of_a_variable_inside_a_list_is_read_as_a_number_too() -> None:
    """Our choice: wherever a number is due."""

    class Numbers(ConfigModel):
        values: tuple[int, ...] = Field(default=(), min_length=1, description="Numbers.")

    document = expand(parse_yaml("values: [1, '${N}']"), {"N": "2"}).document
    assert validate_config(Numbers, document.data, document=document).values == (1, 2)
    for text, code in (("2.5", "wrong_type"), ("9" * 30, "wrong_type")):
        document = expand(parse_yaml("values: [1, '${N}']"), {"N": text}).document
        with pytest.raises(ConfigError) as caught:
            validate_config(Numbers, document.data, document=document)
        assert (caught.value.code, caught.value.key) == (code, "values[1]")
    with pytest.raises(ConfigError) as caught:
        validate_config(Numbers, {"values": []})
    assert (caught.value.code, caught.value.key) == ("out_of_range", "values")


def test_a_bad_key_of_a_mapping_is_blamed_at_the_key() -> None:
    """Our choice: the key is what to change."""

    class Named(ConfigModel):
        by_name: dict[Annotated[str, Field(max_length=3)], int] = Field(default={}, description="Numbers by name.")

    document = parse_yaml("by_name:\n  long-name: 5\n")
    with pytest.raises(ConfigError) as caught:
        validate_config(Named, document.data, document=document)
    error = caught.value
    assert (error.code, error.key, error.line, error.column) == ("out_of_range", "by_name.long-name", 2, 3)


@pytest.mark.parametrize("data", [None, 5, "text", [1]])
def test_a_block_that_is_no_mapping_is_an_error_also_without_a_document(data: JsonValue) -> None:
    """Our choice: errors name keys where there is no file."""
    with pytest.raises(ConfigError) as caught:
        validate_config(Block, data)
    assert (caught.value.file, caught.value.line) == (None, None)


def test_a_read_only_mapping_is_taken() -> None:
    """Specification, contracts: raw configuration is handed on read-only."""
    data: Mapping[str, JsonValue] = MappingProxyType({"block": MappingProxyType({"keywords": ("a",)})})
    assert validate_config(Root, data).block.keywords == ("a",)


def test_a_models_own_check_becomes_an_error_at_its_block() -> None:
    """Our choice: rules over several fields are the model's."""

    class Ordered(ConfigModel):
        low: int = Field(default=0, description="Least.")
        high: int = Field(default=1, description="Most.")

        @model_validator(mode="after")
        def _ordered(self) -> Ordered:
            if self.low > self.high:
                raise ValueError("low must not be above high")
            return self

    document = parse_yaml("x: {low: 2}", file="p.yaml")
    with pytest.raises(ConfigError) as caught:
        validate_config(Ordered, document.value_at(("x",)), document=document, at=("x",))
    assert (caught.value.key, caught.value.column) == ("x", 4)
    assert "low must not be above high" in caught.value.problem


def test_a_model_with_an_undescribed_field_does_not_load() -> None:
    """Our choice: every field says what it is and its unit."""

    def declare() -> type[ConfigModel]:
        class Silent(ConfigModel):
            value: int = 1

        return Silent

    with pytest.raises(TypeError, match="description"):
        declare()


def test_an_instance_is_frozen() -> None:
    """Our choice: configuration is replaced, never changed."""
    block, name = Block(), "ratio"
    with pytest.raises(ValueError, match="frozen"):
        setattr(block, name, 2.0)
    assert block == Block()
