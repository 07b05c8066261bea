"""What people write into a profile by mistake: each slip over a real file, with the place that the error names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from ishiki.errors import ConfigError
from ishiki.profile.profile import Profile
from ishiki.profile.reading import read_profile

from .folders import GOOD, write_profile


def read(directory: Path, text: str, environment: Mapping[str, str] | None = None) -> Profile:
    """Read `text` as the profile `neko`."""
    return read_profile(write_profile(directory, "neko", text).parent, environment or {})


def fault(directory: Path, text: str, environment: Mapping[str, str] | None = None) -> ConfigError:
    """Return the error that reading `text` ends with; its file is the profile's."""
    with pytest.raises(ConfigError) as caught:
        read(directory, text, environment)
    assert caught.value.file == directory / "neko" / "profile.yaml"
    return caught.value


@dataclass(frozen=True, slots=True)
class Trap:
    """One slip."""

    name: str
    text: str
    code: str
    place: tuple[int | None, int | None]
    key: str
    says: str


TRAPS = [
    Trap("yes_for_true", f"{GOOD}plain_text: yes\n", "not_a_boolean", (4, 13), "plain_text", "write true"),
    Trap(
        "off_for_false",
        f"{GOOD}codemode: {{enable: off}}\n",
        "not_a_boolean",
        (4, 20),
        "codemode.enable",
        "write false",
    ),
    Trap("text_for_true", f'{GOOD}fallback: "true"\n', "not_a_boolean", (4, 11), "fallback", "write true"),
    Trap(
        "unquoted_star",
        'model: main\nchannels:\n  "onebot:1": [*]\n',
        "yaml_quotes_needed",
        (3, 16),
        "",
        '"*"',
    ),
    Trap(
        "unquoted_star_in_a_list",
        'model: main\nchannels:\n  "onebot:1":\n    - *\n',
        "yaml_quotes_needed",
        (4, 7),
        "",
        '"*"',
    ),
    Trap(
        "unquoted_exclusion",
        'model: main\nchannels:\n  "onebot:1": ["*", !group:1]\n',
        "yaml_quotes_needed",
        (3, 21),
        "",
        '"!group:1"',
    ),
    Trap(
        "variable_in_braces",
        f"{GOOD}failover: {{backoff_ms: ${{BACKOFF:-5}}}}\n",
        "yaml_quotes_needed",
        (4, 25),
        "",
        '"${BACKOFF:-5}"',
    ),
    Trap(
        "number_for_a_channel",
        'model: main\nchannels:\n  "onebot:1": [123]\n',
        "wrong_type",
        (3, 16),
        'channels["onebot:1"][0]',
        '"123"',
    ),
    Trap(
        "bare_id_for_a_channel",
        'model: main\nchannels:\n  "onebot:1": ["123"]\n',
        "claim_invalid",
        (3, 16),
        'channels["onebot:1"][0]',
        '"group:123" or "private:123"',
    ),
    Trap(
        "octal_looking_id",
        'model: main\nchannels:\n  "onebot:1": [0123]\n',
        "claim_invalid",
        (3, 16),
        'channels["onebot:1"][0]',
        '"group:123" or "private:123"',
    ),
    Trap(
        "octal_looking_id_of_a_group",
        'model: main\nchannels:\n  "onebot:1": [group:0123]\n',
        "claim_invalid",
        (3, 16),
        'channels["onebot:1"][0]',
        '"group:123"',
    ),
    Trap("octal_looking_bot", f"{GOOD}guards: {{bots: [0123]}}\n", "config_invalid", (4, 16), "guards.bots", "'0123'"),
    Trap(
        "octal_looking_number",
        f"{GOOD}guards: {{messages_per_turn: 010}}\n",
        "wrong_type",
        (4, 29),
        "guards.messages_per_turn",
        "10, or 8 if octal was meant",
    ),
    Trap(
        "mapping_for_a_channel",
        'model: main\nchannels:\n  "onebot:1":\n    - group: 123\n',
        "wrong_type",
        (4, 7),
        'channels["onebot:1"][0]',
        "text",
    ),
    Trap(
        "mapping_for_the_channels",
        'model: main\nchannels:\n  "onebot:1":\n    group: 123\n',
        "wrong_type",
        (4, 5),
        'channels["onebot:1"]',
        "a list",
    ),
    Trap(
        "no_quotes_round_an_account",
        "model: main\nchannels:\n  10001: [group:1]\n",
        "claim_invalid",
        (3, 3),
        "channels.10001",
        '"onebot:10001"',
    ),
    Trap(
        "same_key_twice",
        f"{GOOD}mode: cross\nmode: channel\n",
        "yaml_duplicate_key",
        (5, 1),
        "",
        "line 4 and again in line 5",
    ),
    Trap("tab", f"{GOOD}limits:\n\tcall_s: 5\n", "yaml_tab", (5, 1), "", "spaces"),
    Trap(
        "both_spellings",
        f"{GOOD}plain_text: true\nplainText: true\n",
        "both_spellings",
        (5, 1),
        "plainText",
        "plain_text",
    ),
    Trap("slip_in_a_key", f"{GOOD}wake_up: {{}}\n", "unknown_key", (4, 1), "wake_up", "'wakeup'"),
    Trap(
        "slip_in_an_inner_key", f"{GOOD}limits: {{turns_s: 5}}\n", "unknown_key", (4, 10), "limits.turns_s", "'turn_s'"
    ),
    Trap(
        "slip_in_engine", f"{GOOD}wakeup: {{enigne: standard}}\n", "unknown_key", (4, 10), "wakeup.enigne", "'engine'"
    ),
    Trap(
        "setting_of_an_engine_one_level_too_high",
        f"{GOOD}wakeup:\n  engine: standard\n  keywords: [neko]\n",
        "unknown_key",
        (6, 3),
        "wakeup.keywords",
        "wakeup: {engine: standard, standard: {keywords: …}}",
    ),
    Trap(
        "list_of_engines",
        f"{GOOD}wakeup: {{engine: [standard, timers]}}\n",
        "wrong_type",
        (4, 18),
        "wakeup.engine",
        "one engine",
    ),
    Trap("text_for_a_section", f"{GOOD}wakeup: standard\n", "wrong_type", (4, 9), "wakeup", "mapping"),
    Trap("list_for_extends", f"{GOOD}extends: [note]\n", "wrong_type", (4, 10), "extends", "mapping"),
    Trap(
        "text_for_a_number",
        f'{GOOD}typing: {{base_delay: "500"}}\n',
        "wrong_type",
        (4, 22),
        "typing.base_delay",
        "without quotes",
    ),
    Trap(
        "too_large",
        f"{GOOD}toolsearch:\n  max_results: 500\n",
        "out_of_range",
        (5, 16),
        "toolsearch.max_results",
        "at most 100",
    ),
    Trap("too_small", f"{GOOD}limits: {{fetch_s: 0}}\n", "out_of_range", (4, 19), "limits.fetch_s", "at least 0.1"),
    Trap("least_over_most", f"{GOOD}typing: {{min_delay: 5000}}\n", "config_invalid", (4, 9), "typing", "swap them"),
    Trap("slip_in_a_choice", f"{GOOD}mode: chanel\n", "bad_choice", (4, 7), "mode", "'channel'"),
    Trap(
        "slip_in_a_time_zone",
        f"{GOOD}timezone: Asia/Shanghia\n",
        "config_invalid",
        (4, 11),
        "timezone",
        "Asia/Shanghai",
    ),
    Trap(
        "space_before_the_level",
        'model: deepseek:deepseek-chat: high\nchannels:\n  "onebot:1": ["*"]\n',
        "yaml_syntax",
        (1, 30),
        "",
        "quotes",
    ),
    Trap(
        "no_model_after_the_colon",
        GOOD.replace("demo:offline", "'demo:'"),
        "config_invalid",
        (1, 8),
        "model",
        "provider:model",
    ),
    Trap("no_model", 'channels:\n  "onebot:1": ["*"]\n', "missing_key", (1, 1), "model", "add it"),
    Trap("no_channels", "model: main\n", "missing_key", (1, 1), "channels", "add it"),
    Trap("nothing_behind_channels", "model: main\nchannels:\n", "empty_value", (2, 10), "channels", "no value"),
    Trap("unset_variable", GOOD.replace("demo:offline", '"${MODEL}"'), "variable_unset", (1, 8), "model", "'MODEL'"),
    Trap("empty_file", "# nothing yet\n", "yaml_empty", (1, 1), "", "key: value"),
]


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_a_slip_is_an_error_with_file_line_column_key_and_cure(trap: Trap, tmp_path: Path) -> None:
    """Design, configuration: every error has file, line, column, key, the nearest known key."""
    error = fault(tmp_path, trap.text)
    assert (error.code, (error.line, error.column), error.key) == (trap.code, trap.place, trap.key)
    assert trap.says in error.problem
    assert error.others == ()


def test_camel_case_is_accepted_by_alias(tmp_path: Path) -> None:
    """Design, configuration: the originals' camelCase is accepted, never by rewriting keys."""
    profile = read(tmp_path, f"{GOOD}plainText: true\nfailover: {{backoffMs: 9}}\ntyping: {{charPerSecond: 7}}\n")
    assert (profile.config.plain_text, profile.config.failover.backoff_ms) == (True, 9)
    assert profile.config.typing.char_per_second == 7


@pytest.mark.parametrize("reference", ["deepseek:deepseek-chat:high", "ollama:qwen3:8b:low", "main"])
def test_a_model_with_a_level_needs_no_quotes(reference: str, tmp_path: Path) -> None:
    """Design, configuration: `provider:model[:level]`, or a group; which of them exist is the gateway's to say."""
    assert read(tmp_path, GOOD.replace("demo:offline", reference)).config.model == reference


def test_a_time_zone_is_taken_by_its_name(tmp_path: Path) -> None:
    """Design, configuration: profiles may override the process's time zone; empty means that it is not set."""
    assert read(tmp_path, f"{GOOD}timezone: Asia/Shanghai\n").config.timezone == "Asia/Shanghai"
    assert read(tmp_path, f"{GOOD}timezone:\n").config.timezone is None


def test_an_engine_block_without_anything_is_its_defaults(tmp_path: Path) -> None:
    """Our choice: `standard:` with all its settings commented out is no slip."""
    assert read(tmp_path, f"{GOOD}wakeup:\n  standard:\n").blocks["wakeup"] == {"standard": {}}


def test_ids_of_bots_may_be_bare_numbers(tmp_path: Path) -> None:
    """Our choice: ids are text, and people write them as numbers."""
    assert read(tmp_path, f'{GOOD}guards: {{bots: [10002, "10003"]}}\n').config.guards.bots == ("10002", "10003")


def test_a_variable_fills_a_number_and_a_default_stands_in(tmp_path: Path) -> None:
    """Design, configuration: `${NAME}` and `${NAME:-default}`."""
    text = f'{GOOD}limits: {{call_s: "${{CALL}}"}}\ninstruction: "${{HINT:-be brief}}"\n'
    config = read(tmp_path, text, {"CALL": "90"}).config
    assert (config.limits.call_s, config.instruction) == (90, "be brief")


def test_all_slips_of_a_file_are_reported_in_its_order(tmp_path: Path) -> None:
    """Our choice: one start of the bot shows everything there is to mend."""
    error = fault(
        tmp_path,
        f"{GOOD}wakeup: {{keywords: [a]}}\nplain_text: yes\ninstruction: ${{NOBODY}}\nlimits: {{turns_s: 1}}\n",
    )
    found = [(one.line, one.key) for one in (error, *error.others)]
    assert found == [(4, "wakeup.keywords"), (5, "plain_text"), (6, "instruction"), (7, "limits.turns_s")]


def test_an_unset_variable_of_something_out_of_use_is_no_error(tmp_path: Path) -> None:
    """Our choice: the key of a judge that nobody asks need not exist."""
    profile = read(
        tmp_path,
        f"{GOOD}wakeup: {{engine: standard, jev: {{api_key: '${{JEV}}'}}}}\n"
        "extends: {map: {enable: false, config: {key: '${MAP}'}}}\n",
    )
    assert profile.unset == {("wakeup", "jev", "api_key"), ("extends", "map", "config", "key")}
    error = fault(tmp_path, f"{GOOD}wakeup: {{engine: jev, jev: {{api_key: '${{JEV}}'}}}}\n")
    assert (error.code, error.key) == ("variable_unset", "wakeup.jev.api_key")


def test_a_value_from_a_variable_is_not_shown_in_its_error(tmp_path: Path) -> None:
    """Design, safety: secrets appear in no log."""
    error = fault(tmp_path, f'{GOOD}limits: {{call_s: "${{SECRET}}"}}\n', {"SECRET": "hunter2hunter2"})
    assert (error.line, error.key) == (4, "limits.call_s")
    assert "hunter2" not in str(error)
