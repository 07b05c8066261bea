"""Whatever our judgement lets pass, NoneBot, its driver and the adapter take: their own models are asked."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import nonebot.config
import nonebot.drivers.fastapi
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nonebot.adapters.onebot.v11.config import Config as AdapterConfig

from ishiki.config import ENV_ENCODING, Settings, environment_files, read_environment
from ishiki.config.host_settings import blank_overrides
from ishiki.errors import ConfigError
from ishiki.runtime.preflight import judge_settings

VALUES = st.one_of(
    st.sampled_from(
        [
            "", " ", '["222","111"]', "[111,222]", '["111","111"]', "111", "debug", "INFO", "10", "-1", "localhost",
            "::1", "0.0.0.0", "8080", "0", "~fastapi", "~none", "~fastapi+~httpx+~websockets", "~httpx+~httpx",
            "null", "true", '["ws://b:2","ws://a:1"]', '["ws://"]', '["ws://a b"]', '{"1":"http://x"}', '{"1":"x"}',
            "1.5", "PT2M", "{}",
        ]
    ),
    st.text(st.characters(codec="ascii", exclude_characters="\0\r\n'\\$"), max_size=8),
)  # fmt: skip
NAMES = st.sampled_from(
    [
        "HOST", "host", "PORT", "DRIVER", "LOG_LEVEL", "Log_Level", "SUPERUSERS", "superusers", "NICKNAME",
        "COMMAND_START", "COMMAND_SEP", "API_TIMEOUT", "SESSION_EXPIRE_TIMEOUT", "ONEBOT_ACCESS_TOKEN",
        "ONEBOT_V11_ACCESS_TOKEN", "ONEBOT_WS_URLS", "ONEBOT_V11_WS_URLS", "ONEBOT_API_ROOTS", "ONEBOT_SECRET",
        "FASTAPI_RELOAD", "FASTAPI_RELOAD_DELAY", "FASTAPI_RELOAD_DIRS", "FASTAPI_EXTRA", "FASTAPI_DOCS_URL",
    ]
)  # fmt: skip


@contextmanager
def project(in_file: dict[str, str], in_environment: dict[str, str]) -> Generator[Path]:
    """Make a folder with a `.env`, under an environment."""
    with TemporaryDirectory() as name, patch.dict(os.environ, in_environment, clear=True):
        lines = "".join(f"{key}='{value}'\n" for key, value in in_file.items())
        (Path(name) / ".env").write_text(lines, encoding="utf-8")
        yield Path(name)


def start(folder: Path) -> tuple[Settings, nonebot.config.Config, AdapterConfig]:
    """Return what counts, as `bot.py` and NoneBot have it.

    Raises:
        ConfigError: our judgement stands against it; anything else is NoneBot's.
    """
    environment = read_environment(folder)
    settings = judge_settings(environment)
    os.environ.update(blank_overrides(environment))
    options: dict[str, Any] = {**settings.host_options(), "_env_file_encoding": ENV_ENCODING}
    config = nonebot.config.Config(_env_file=environment_files(folder), **options)
    dumped = config.model_dump()
    nonebot.drivers.fastapi.Config.model_validate(dumped)
    nonebot._resolve_combine_expr(config.driver)  # pyright: ignore[reportPrivateUsage] what `nonebot.init` asks
    return settings, config, AdapterConfig.model_validate(dumped)


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.dictionaries(NAMES, VALUES, max_size=3))
@example(in_file={}, in_environment={"ONEBOT_WS_URLS": '["ws://b:2","ws://a:1"]'})
def test_what_is_judged_good_is_good_for_nonebot(in_file: dict[str, str], in_environment: dict[str, str]) -> None:
    """Our choice: `check` and the start run the same judgement, so what passes must start."""
    with project(in_file, in_environment) as folder:
        try:
            settings, config, adapter = start(folder)
        except ConfigError:
            return
        assert (str(config.host), config.port) == (settings.host, settings.port)
        assert config.superusers == settings.superusers
        assert {str(url).rstrip("/") for url in adapter.onebot_ws_urls} == {
            url.rstrip("/") for url in settings.onebot_ws_urls
        }
        token = settings.onebot_access_token
        assert adapter.onebot_access_token == (None if token is None else token.get_secret_value())
        # The plugin, which reads after NoneBot, comes to the same.
        assert Settings.from_host(read_environment(folder), config.model_dump()) == settings


@pytest.mark.parametrize("name", ["ONEBOT_ACCESS_TOKEN", "ONEBOT_V11_ACCESS_TOKEN", "onebot_v11_access_token"])
@pytest.mark.parametrize("is_in_file", [True, False])
def test_a_token_counts_under_each_of_its_names(name: str, is_in_file: bool) -> None:
    """OneBot adapter, configuration: both names; NoneBot hands it none that stands in the environment alone."""
    given = {name: "a-token"}
    with project(given if is_in_file else {}, {} if is_in_file else given) as folder:
        settings, _, adapter = start(folder)
    assert adapter.onebot_access_token == "a-token"
    assert settings.listening_host == "127.0.0.1"


def test_the_environment_stands_above_the_file_in_any_letter_case() -> None:
    """NoneBot, configuration: real variables first, names in any case."""
    with project({"port": "9001", "superusers": '["1"]'}, {"PORT": "9002", "SUPERUSERS": '["2"]'}) as folder:
        settings, config, _ = start(folder)
    assert (settings.port, config.port, settings.superusers) == (9002, 9002, {"2"})


def test_without_a_token_of_any_name_only_this_machine_is_listened_on() -> None:
    """Design, safety defaults."""
    assert judge_settings({"HOST": "0.0.0.0"}).listening_host == "127.0.0.1"
    assert judge_settings({"HOST": "0.0.0.0", "ONEBOT_V11_ACCESS_TOKEN": "x"}).listening_host == "0.0.0.0"
