"""models.yaml: what is taken, what is refused and with which words, what a reference means."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ishiki.config import Redactor
from ishiki.errors import ConfigError, GatewayError
from ishiki.gateway import Gateway, read_catalogue

from .kit import write_models

ROOT = Path(__file__).resolve().parents[2]

GOOD = """
providers:
  relay:
    api: openai-completions
    base_url: https://relay.example/v1
    api_key: "${RELAY_KEY}"
    models:
      - {id: main, input: [text, image], thinking: {mode: effort, efforts: [low, high]}, context_window: 1000}
      - {id: "qwen3:8b", max_tokens: 100}
      - {id: embed, type: embedding, dimensions: 3}
  local:
    api: openai-completions
    baseUrl: http://127.0.0.1:11434/v1
    models: [{id: small, toolCall: false}]
groups:
  fast: {strategy: round-robin, models: ["relay:main", "local:small"]}
  pictures: {models: ["relay:main:low"]}
  fallback: {models: ["demo:offline", "relay:main"], circuit_breaker: {failure_threshold: 1, cooldown_seconds: 5}}
"""
KEYS = {"RELAY_KEY": "sk-relay-0123456789"}


def load(folder: Path, text: str = GOOD, env: dict[str, str] | None = None) -> Gateway:
    """Return the gateway of a models.yaml with this text."""
    return Gateway.load(write_models(folder, text), env=KEYS if env is None else env)


def refused(folder: Path, text: str) -> ConfigError:
    """Return the error that a models.yaml with this text meets."""
    with pytest.raises(ConfigError) as raised:
        load(folder, text)
    return raised.value


def test_the_shipped_file_answers_by_the_demo_until_its_key_is_set() -> None:
    """Design, configuration: setting a key is the only step to a real model."""
    shipped = ROOT / "profiles" / "models.yaml"
    bare = Gateway.load(shipped, env={})
    assert [member.model.ref for member in bare.group("main").members] == ["demo:offline"]
    assert not bare.needs_litellm(["main"])
    keyed = Gateway.load(shipped, env={"DEEPSEEK_API_KEY": "sk-0123456789"})
    assert [member.model.ref for member in keyed.group("main").members] == ["deepseek:deepseek-flash"]
    assert keyed.needs_litellm(["demo:offline", "main"])


def test_blanks_around_an_address_are_not_part_of_it(tmp_path: Path) -> None:
    """Our choice: they come with a copied line, and no address has any."""
    text = 'providers: {far: {api: openai-completions, base_url: "${BASE}", models: [{id: m}]}}'
    catalogue = read_catalogue(write_models(tmp_path, text), {"BASE": " https://models.example.org/v1 "})
    assert catalogue.providers["far"].config.base_url == "https://models.example.org/v1"


def test_a_provider_that_nobody_asked_for_is_told_in_one_line_for_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Our choice: the shipped file has blocks for many vendors."""
    block = "{{api: openai-completions, api_key: '${{{0}_KEY}}', models: [{{id: m}}]}}"
    text = f"providers: {{a: {block.format('A')}, b: {block.format('B')}, c: {block.format('C')}}}\n"
    with caplog.at_level(logging.INFO):
        catalogue = read_catalogue(write_models(tmp_path, text + "groups: {main: {models: ['c:m']}}"), {})
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "in no group, and without their keys: a, b" in caplog.text
    assert catalogue.unset == ("C_KEY",)


def test_models_providers_and_groups_are_listed_in_order(tmp_path: Path) -> None:
    """Reference, models.yaml: models(type), providers(), groups()."""
    gateway = load(tmp_path)
    assert [model.ref for model in gateway.models("language")] == [
        "relay:main",
        "relay:qwen3:8b",
        "local:small",
        "demo:offline",
    ]
    assert [model.ref for model in gateway.models("embedding")] == ["relay:embed"]
    assert gateway.providers() == {"relay": True, "local": True, "demo": True}
    assert gateway.groups() == ("fast", "pictures", "fallback")


@pytest.mark.parametrize(
    "ref", ["relay:main", "relay:main:high", "relay:qwen3:8b", "relay:qwen3:8b:max", "demo:offline"]
)
def test_a_reference_is_provider_model_and_perhaps_a_level(tmp_path: Path, ref: str) -> None:
    """Reference, models.yaml: text before the first colon is the provider; ids may hold colons."""
    assert load(tmp_path).model(ref).ref == ref


def test_a_models_declaration_is_its_info(tmp_path: Path) -> None:
    """Core, ModelInfo: what is known of a model before it is asked; of a group, what all members can do."""
    gateway = load(tmp_path)
    info = gateway.model("relay:main").info
    assert (info.context_window, info.input, info.tool_call) == (1000, {"text", "image"}, True)
    assert gateway.model("relay:qwen3:8b").info.max_output_tokens == 100
    group = gateway.model("fast").info
    assert (group.ref, group.context_window, group.input, group.tool_call) == ("fast", 1000, {"text"}, False)


@pytest.mark.parametrize(
    ("ref", "code", "named"),
    [
        ("relai:main", "unknown_provider", "relay"),
        ("relay:mane", "undeclared_model", "main"),
        ("relay:main:hihg", "unknown_level", "high"),
        ("relay:main:max", "unsupported_level", "low, high"),
        ("relay:embed", "wrong_model_type", "embedding"),
        ("fats", "unknown_group", "fast"),
        ("", "unknown_group", "fast"),
    ],
)
def test_a_reference_to_nothing_is_an_error_that_names_what_was_meant(
    tmp_path: Path, ref: str, code: str, named: str
) -> None:
    """Reference, models.yaml: all configuration errors are GatewayErrors with the reference named."""
    with pytest.raises(GatewayError) as raised:
        load(tmp_path).model(ref)
    assert raised.value.code == code
    assert named in str(raised.value)
    assert repr(ref) in str(raised.value)


def test_an_unset_key_leaves_the_provider_out_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Design, configuration: unconfigured providers are left out; an error only for who names one directly."""
    with caplog.at_level(logging.WARNING, "ishiki.gateway"):
        gateway = load(tmp_path, env={})
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "'RELAY_KEY'" in caplog.text
    assert [member.model.ref for member in gateway.group("fast").members] == ["local:small"]
    assert [member.model.ref for member in gateway.group("fallback").members] == ["demo:offline"]
    for ref in ("relay:main", "relay:main:high", "pictures"):
        with pytest.raises(GatewayError) as raised:
            gateway.model(ref)
        assert raised.value.code == "provider_unconfigured"
        assert "RELAY_KEY" in str(raised.value)
        assert raised.value.line is not None


def test_a_variable_in_address_or_headers_counts_like_the_key(tmp_path: Path) -> None:
    """Our choice: whatever a provider lacks, it is left out; it would not work."""
    text = GOOD.replace("https://relay.example/v1", '"${RELAY_URL}"')
    assert load(tmp_path, text).providers()["relay"] is False


def test_an_unset_variable_elsewhere_is_an_error(tmp_path: Path) -> None:
    """Configuration: a variable without value and default is an error where nothing else is decided."""
    error = refused(tmp_path, GOOD.replace("strategy: round-robin", 'strategy: "${HOW}"'))
    assert error.code == "variable_unset"


def test_the_demo_is_used_only_where_nothing_else_is_configured(tmp_path: Path) -> None:
    """Design, configuration: demo:offline is never a failover target."""
    gateway = load(tmp_path)
    assert [member.model.ref for member in gateway.group("fallback").members] == ["relay:main"]


def test_only_a_group_whose_every_member_reads_images_does(tmp_path: Path) -> None:
    """Reference, capability check: every member, levels stripped, unknown counts as no."""
    gateway = load(tmp_path)
    refs = ("relay:main", "relay:main:low", "pictures", "fast", "demo:offline", "nothing", "no:thing")
    assert [gateway.supports_image(ref) for ref in refs] == [True, True, True, False, False, False, False]


@pytest.mark.parametrize(
    ("old", "new", "code", "line", "key"),
    [
        ("openai-completions\n    base", "openai\n    base", "bad_choice", 4, "providers.relay.api"),
        ("strategy", "stratgy", "unknown_key", 16, "groups.fast.stratgy"),
        ("context_window: 1000", "context_window: -1", "out_of_range", 8, "providers.relay.models[0].context_window"),
        ("https://relay.example/v1", "relay.example", "bad_base_url", 5, "providers.relay.base_url"),
        ('"${RELAY_KEY}"', '""', "out_of_range", 6, "providers.relay.api_key"),
        ('["relay:main:low"]', "[]", "out_of_range", 17, "groups.pictures.models"),
        ('["relay:main:low"]', '["relay:min"]', "undeclared_model", 17, "groups.pictures.models[0]"),
        ('["relay:main:low"]', '["fast"]', "unknown_provider", 17, "groups.pictures.models[0]"),
        ('["relay:main:low"]', '["relay:main:max"]', "unsupported_level", 17, "groups.pictures.models[0]"),
        ('    baseUrl: http://127.0.0.1:11434/v1\n', "", "missing_key", 11, "providers.local"),
        ("  local:", '  "lo:cal":', "gateway_invalid", 11, 'providers["lo:cal"]'),
        ("  fast:", '  "fa:st":', "gateway_invalid", 16, 'groups["fa:st"]'),
        ("  local:", "  demo:", "gateway_invalid", 11, "providers.demo"),
        ("local:\n", "local:\n    settings: {stream: 3}\n", "gateway_invalid", 12, "providers.local.settings.stream"),
    ],
)  # fmt: skip
def test_a_bad_file_is_an_error_with_its_place(
    tmp_path: Path, old: str, new: str, code: str, line: int, key: str
) -> None:
    """Issue, gateway: every error names file, line and key."""
    assert old in GOOD
    error = refused(tmp_path, GOOD.replace(old, new, 1))
    found = next(one for one in (error, *error.others) if one.key == key)
    assert (found.code, found.line, found.file) == (code, line, tmp_path / "models.yaml")
    assert isinstance(found, GatewayError)


def test_every_finding_of_a_file_is_in_its_error(tmp_path: Path) -> None:
    """Configuration: one reading shows all errors, in the order of the file."""
    text = GOOD.replace('["relay:main:low"]', '["relay:no"]').replace('"local:small"', '"loc:small"')
    error = refused(tmp_path, text)
    assert [one.key for one in (error, *error.others)] == ["groups.fast.models[1]", "groups.pictures.models[0]"]


def test_a_repeated_model_id_keeps_its_place_and_takes_the_last_declaration(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Reference, gateway: the last entry wins but keeps the first one's position."""
    gateway = load(tmp_path, GOOD.replace("id: embed, type: embedding, dimensions: 3", "id: main, context_window: 7"))
    assert [model.ref for model in gateway.models()][:2] == ["relay:main", "relay:qwen3:8b"]
    assert gateway.model("relay:main").info.context_window == 7
    assert "twice" in caplog.text


def test_a_litellm_model_is_named_as_litellm_names_it(tmp_path: Path) -> None:
    """Design, models.yaml: api litellm takes any LiteLLM provider, which its model ids name."""
    text = "providers: {aws: {api: litellm, models: [{id: nova}]}}"
    assert refused(tmp_path, text).key == "providers.aws.models[0].id"
    assert load(tmp_path, text.replace("nova", "bedrock/nova")).model("aws:bedrock/nova").ref == "aws:bedrock/nova"


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "providers: {}"])
def test_an_empty_file_leaves_the_demo(tmp_path: Path, text: str) -> None:
    """Our choice: a file without keys is a file without providers."""
    gateway = load(tmp_path, text)
    assert gateway.model("demo:offline").ref == "demo:offline"
    assert gateway.groups() == ()


def test_a_missing_file_leaves_the_demo_and_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Issue: no `profiles/`: a warning and a running bot."""
    gateway = Gateway.load(tmp_path / "models.yaml", env={})
    assert gateway.model("demo:offline").ref == "demo:offline"
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_the_redactor_learns_keys_and_headers(tmp_path: Path) -> None:
    """Design, safety: secrets appear in no log, entry or prompt; also those written out in the file."""
    redactor = Redactor()
    text = GOOD.replace('"${RELAY_KEY}"', "plain-key-77\n    headers: {X-App: header-88}")
    Gateway.load(write_models(tmp_path, text), env={}, redactor=redactor)
    assert redactor.redact("plain-key-77 header-88") == "*** ***"


def test_reloading_replaces_everything_at_once_and_a_bad_file_nothing(tmp_path: Path) -> None:
    """Reference, gateway: reconfiguring replaces everything; design: a bad edit is refused, the old one stays."""
    gateway = load(tmp_path)
    before = gateway.model("fast")
    gateway.group("fast").members[0].breaker.failure()
    write_models(tmp_path, GOOD.replace("fast", "quick").replace("round-robin", "sideways"))
    with pytest.raises(ConfigError):
        gateway.reload(env=KEYS)
    assert gateway.group("fast").status()["relay:main"].failures == 1
    write_models(tmp_path, GOOD.replace("fast", "quick"))
    gateway.reload(env=KEYS)
    assert gateway.groups()[0] == "quick"
    assert gateway.group("quick").status()["relay:main"].failures == 0
    assert before.ref == "fast"
    with pytest.raises(GatewayError):
        gateway.model("fast")


def test_who_asks_for_the_same_group_shares_its_breakers(tmp_path: Path) -> None:
    """Our choice: a provider that is down is down for every channel."""
    gateway = load(tmp_path)
    assert gateway.group("fast") is gateway.group("fast")


def test_each_level_of_a_model_has_a_breaker_of_its_own(tmp_path: Path) -> None:
    """Reference, models.yaml: every level has its own breaker; one that thinks too long says nothing of the others."""
    text = """
providers:
  relay: {api: openai-completions, base_url: https://relay.example/v1, models: [{id: main}]}
groups:
  deep: {models: ["relay:main:high", "relay:main:low"]}
"""
    group = load(tmp_path, text).group("deep")
    group.members[0].breaker.failure()
    counts = {ref: status.failures for ref, status in group.status().items()}
    assert counts == {"relay:main:high": 1, "relay:main:low": 0}
