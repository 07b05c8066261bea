"""Process settings, their example file and their page."""

from __future__ import annotations

import ipaddress
import logging
import re
from pathlib import Path

import pytest

from ishiki.config import Settings, setting_rows
from ishiki.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]


def refused(values: dict[str, object]) -> ConfigError:
    """Return the error that `values` are answered with."""
    with pytest.raises(ConfigError) as caught:
        Settings.from_mapping(values)
    return caught.value


def test_the_defaults_are_the_specified_ones() -> None:
    """Specification, configuration: process settings."""
    settings = Settings.from_mapping({})
    assert settings == Settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 8080)
    assert (settings.profiles_dir, settings.data_dir) == (Path("profiles"), Path("data"))
    assert (settings.fsync, settings.timezone) == ("interval", None)
    assert (settings.max_model_calls, settings.max_resident_runtimes, settings.channel_queue) == (16, 200, 1000)
    assert not settings.dump_requests
    assert not settings.debug_stream


def test_text_and_decoded_values_read_the_same() -> None:
    """NoneBot, configuration: values of `.env` arrive as text or decoded."""
    text = Settings.from_mapping(
        {
            "PORT": "9000",
            "ONEBOT_ACCESS_TOKEN": "12345",
            "ONEBOT_WS_URLS": '["ws://127.0.0.1:3001"]',
            "SUPERUSERS": '["1", 2]',
            "ISHIKI_DUMP_REQUESTS": "true",
            "HOST": "0.0.0.0",
        }
    )
    decoded = Settings.from_mapping(
        {
            "port": 9000,
            "onebot_access_token": 12345,
            "onebot_ws_urls": ["ws://127.0.0.1:3001"],
            "superusers": {"2", "1"},
            "ishiki_dump_requests": True,
            "host": ipaddress.ip_address("0.0.0.0"),
        }
    )
    assert text == decoded
    assert text.superusers == {"1", "2"}
    assert text.onebot_access_token is not None
    assert text.onebot_access_token.get_secret_value() == "12345"


def test_an_empty_value_counts_as_unset() -> None:
    """Our choice: `NAME=` in `.env` is how people clear a setting."""
    assert Settings.from_mapping({"ISHIKI_TIMEZONE": "", "PORT": None, "ONEBOT_WS_URLS": ""}) == Settings()


def test_names_of_others_are_ignored() -> None:
    """Our choice: the mapping may be a whole environment."""
    assert Settings.from_mapping({"PATH": "/bin", "DEEPSEEK_API_KEY": "x", "PORTS": "1"}) == Settings()


def test_a_name_that_is_nearly_ours_is_an_error_that_names_ours() -> None:
    """Our choice: a setting with a typing mistake must not be without effect."""
    error = refused({"ISHIKI_PROFILE_DIR": "x"})
    assert (error.code, error.key) == ("unknown_setting", "ISHIKI_PROFILE_DIR")
    assert "ISHIKI_PROFILES_DIR" in error.problem


def test_a_foreign_name_with_our_prefix_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Our choice: Kubernetes sets `ISHIKI_PORT` and its kin for a service named ishiki."""
    with caplog.at_level(logging.WARNING):
        assert Settings.from_mapping({"ISHIKI_PORT": "tcp://10.0.0.1:80"}) == Settings()
    assert "ISHIKI_PORT" in caplog.text


def test_a_name_given_twice_with_two_values_is_an_error() -> None:
    """Our choice: letter case does not matter, so neither may win."""
    assert refused({"PORT": "1", "port": 2}).code == "setting_twice"
    assert Settings.from_mapping({"PORT": "1", "port": 1}).port == 1


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("PORT", "abc", "wrong_type"),
        ("PORT", "70000", "out_of_range"),
        ("PORT", "0", "out_of_range"),  # NoneBot refuses it, with a traceback
        ("ISHIKI_MAX_MODEL_CALLS", "0", "out_of_range"),
        ("ISHIKI_CHANNEL_QUEUE", "1_000", "wrong_type"),
        ("ISHIKI_DUMP_REQUESTS", "yes", "not_a_boolean"),
        ("ISHIKI_DEBUG_STREAM", "on", "not_a_boolean"),
        ("ISHIKI_FSYNC", "sometimes", "bad_choice"),
        ("ISHIKI_TIMEZONE", "Asia/Shangai", "config_invalid"),
        ("ISHIKI_TIMEZONE", "../etc/passwd", "config_invalid"),
        ("ISHIKI_TIMEZONE", "Asia", "config_invalid"),
        ("ONEBOT_WS_URLS", "ws://x", "wrong_type"),
        ("ONEBOT_WS_URLS", '["http://x"]', "config_invalid"),
        ("ONEBOT_WS_URLS", '["ws://x"', "wrong_type"),
    ],
)
def test_a_bad_value_is_an_error_that_names_the_setting(name: str, value: str, code: str) -> None:
    """Specification, configuration: a clear error that names the key."""
    error = refused({name.lower(): value})
    assert (error.code, error.key) == (code, name)


def test_a_bad_token_is_not_repeated() -> None:
    """Specification, safety: secrets appear in no log."""
    assert "hunter2" not in str(refused({"ONEBOT_ACCESS_TOKEN": "hunter2", "PORT": "x"}))
    assert "hunter2" not in repr(Settings.from_mapping({"ONEBOT_ACCESS_TOKEN": "hunter2"}))


def test_the_example_file_and_the_settings_agree_both_ways() -> None:
    """Specification, configuration: `.env.example` lists every setting with meaning, unit and default."""
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    own = text.partition("# ---- Your own")[0]
    found = re.findall(r"^# (.+)\n#([A-Z_]+)=(.*)$", own, re.MULTILINE)
    assert found == [(row.description, row.name, row.default) for row in setting_rows()]
    assert len(re.findall(r"^#?[A-Z_]+=", own, re.MULTILINE)) == len(found)


def test_the_example_file_changes_nothing_when_its_lines_are_taken_as_they_are() -> None:
    """Our choice: what it shows are the defaults."""
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert Settings.from_mapping(dict(re.findall(r"^#([A-Z_]+)=(.*)$", text, re.MULTILINE))) == Settings()


def test_the_settings_page_and_the_settings_agree_both_ways() -> None:
    """Our choice: the reference page is compared with the model."""
    text = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `([A-Z_]+)` \| (?:`(.*?)`|unset) \| (.*) \|$", text, re.MULTILINE)
    assert found == [(row.name, row.default, row.description) for row in setting_rows()]
