# ruff: noqa: RUF001 - what people type
"""What a refused setting is answered with: the line to write, which is taken as it stands and means what was meant."""

from __future__ import annotations

import io
import json
import logging
import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from dotenv import dotenv_values
from hypothesis import given
from hypothesis import strategies as st

from ishiki.config import Settings
from ishiki.config.host_settings import judge_host_settings
from ishiki.config.zones import meant_zone
from ishiki.errors import ConfigError
from ishiki.runtime.preflight import judge_settings

NAMES = (
    "SUPERUSERS", "ONEBOT_WS_URLS", "ONEBOT_V11_WS_URLS", "HOST", "PORT", "DRIVER", "LOG_LEVEL", "ISHIKI_TIMEZONE",
    "ISHIKI_FSYNC", "ISHIKI_DUMP_REQUESTS", "ISHIKI_CHANNEL_QUEUE", "NICKNAME", "COMMAND_START", "COMMAND_SEP",
    "API_TIMEOUT", "SESSION_EXPIRE_TIMEOUT", "FASTAPI_RELOAD", "FASTAPI_RELOAD_DIRS",
)  # fmt: skip


def advice(name: str, text: str) -> dict[str, str | None]:
    """Return what `.env` holds after the line was pasted that `name=text` is answered with."""
    with pytest.raises(ConfigError) as caught:
        judge_settings({name: text})
    _, mark, line = str(caught.value).rpartition("write ")
    assert mark, f"no advice: {caught.value}"
    return dict(dotenv_values(stream=io.StringIO(line)))


def meant(name: str, text: str) -> Settings:
    """Return the settings after that."""
    pasted = advice(name, text)
    assert set(pasted) == {name}
    return judge_settings({key: value or "" for key, value in pasted.items()})


@pytest.mark.parametrize(
    "text",
    [
        "111,222", "111 222", "111;222", "[111 222]", "['111','222']", "[111,222,]", '{"111","222"}', "(111, 222)",
        "［111，222］", "[“111”，“222”]", "[‘111’、‘222’]", '"111","222"', "'[\"111\",\"222\"]'", "111，222",
        '"[111, 222]"', '["111" "222"]', '[["111"],["222"]]', "111、222", "[111, 222] # owners", "1１1,222",
    ],
)  # fmt: skip
def test_a_list_of_ids_in_another_form_is_answered_with_that_list(text: str) -> None:
    """Our choice: what people write who do not know JSON."""
    assert meant("SUPERUSERS", text).superusers == {"111", "222"}


@pytest.mark.parametrize(
    "text",
    [
        "ws://a:3001/,ws://b:3002/?x=1", "['ws://a:3001/', 'ws://b:3002/?x=1']", "[ws://a:3001/ ws://b:3002/?x=1]",
        '["http://a:3001/","http://b:3002/?x=1"]', '["a:3001/","b:3002/?x=1"]', '{"ws://a:3001/","ws://b:3002/?x=1"}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["ONEBOT_WS_URLS", "ONEBOT_V11_WS_URLS"])
def test_a_list_of_addresses_in_another_form_is_answered_with_that_list(name: str, text: str) -> None:
    """Our choice: also of an address without its scheme, or with that of a web page."""
    assert meant(name, text).onebot_ws_urls == ("ws://a:3001/", "ws://b:3002/?x=1")


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("HOST", '"0.0.0.0"', "HOST=0.0.0.0"),
        ("HOST", "http://192.168.1.5:8080/", "HOST=192.168.1.5"),
        ("HOST", "*", "HOST=0.0.0.0"),
        ("HOST", "my-server", "HOST=127.0.0.1"),
        ("PORT", "8,081", "PORT=8081"),
        ("PORT", "9000 # mine", "PORT=9000"),
        ("PORT", "90000", "PORT=8080"),
        ("DRIVER", "~httpx+~fastapi", "DRIVER=~fastapi+~httpx"),
        ("DRIVER", "fastapi + httpx", "DRIVER=~fastapi+~httpx"),
        ("DRIVER", "~FastAPI", "DRIVER=~fastapi"),
        ("LOG_LEVEL", "warn", "LOG_LEVEL=WARNING"),
        ("LOG_LEVEL", "'debug'", "LOG_LEVEL=DEBUG"),
        ("ISHIKI_DUMP_REQUESTS", "是", "ISHIKI_DUMP_REQUESTS=true"),
        ("ISHIKI_FSYNC", "Always", "ISHIKI_FSYNC=always"),
        ("ISHIKI_CHANNEL_QUEUE", "1_000", "ISHIKI_CHANNEL_QUEUE=1000"),
        ("COMMAND_START", "/", 'COMMAND_START=["/"]'),
        ("NICKNAME", "neko，猫", 'NICKNAME=["neko","猫"]'),
        ("API_TIMEOUT", "30s", "API_TIMEOUT=30"),
        ("SESSION_EXPIRE_TIMEOUT", "two minutes", "SESSION_EXPIRE_TIMEOUT=PT2M"),
        ("FASTAPI_RELOAD", "nein", "FASTAPI_RELOAD=false"),
    ],
)
def test_a_value_in_another_form_is_answered_with_its_line(name: str, text: str, line: str) -> None:
    """Our choice: verbatim, so that it can be pasted."""
    with pytest.raises(ConfigError) as caught:
        judge_settings({name: text})
    assert str(caught.value).endswith(f"; write {line}")
    assert not judge_host_settings(dict([line.split("=", 1)]))


@pytest.mark.parametrize(
    "name",
    [
        "CST", "cst", "UTC+8", "UTC+08:00", "GMT+8", "gmt+8", "+8", "+08:00", "+0800", "Beijing", "beijing",
        "Asia/Beijing", "Asia/beijing", "北京", "北京时间", "上海", "中国", "China Standard Time",
        "Shanghai", "asia/shanghai",
        "Asia/Shangai", "UTC＋8", "东八区", "Etc/GMT+08", '"Asia/Shanghai"',
    ],
)  # fmt: skip
def test_the_zone_of_china_is_asia_shanghai_whatever_it_is_called(name: str) -> None:
    """Our choice: `CST` is no zone's name, and `GMT+8` in that database lies eight hours west."""
    assert meant("ISHIKI_TIMEZONE", name).timezone == "Asia/Shanghai"


@given(st.integers(-12, 14), st.sampled_from(["UTC{:+d}", "GMT{:+d}", "{:+d}", "utc {:+03d}:00"]))
def test_an_offset_is_answered_with_a_zone_that_has_it_now(hours: int, form: str) -> None:
    """Our choice: never the reverse."""
    zone = meant_zone(form.format(hours))
    assert zone is not None
    offset = ZoneInfo(zone).utcoffset(datetime(2026, 12, 1, tzinfo=UTC))
    assert offset is not None
    assert offset.total_seconds() == hours * 3600


def test_a_zone_with_a_reversed_sign_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """IANA database, etcetera: `Etc/GMT+8` is what people call UTC-8."""
    with caplog.at_level(logging.WARNING):
        assert Settings.from_mapping({"ISHIKI_TIMEZONE": "Etc/GMT+8"}).timezone == "Etc/GMT+8"
    assert "is UTC-8" in caplog.text
    assert "ISHIKI_TIMEZONE=Asia/Shanghai" in caplog.text


def refusal_of(environment: dict[str, str]) -> str:
    """Return what settings are refused with; nothing where they are taken."""
    try:
        judge_settings(environment)
    except ConfigError as error:
        return str(error)
    return ""


TEXTS = st.one_of(
    st.text(max_size=12),
    st.lists(st.sampled_from(["111", "'a'", '"b"', *",[]{} #，\\", "ws://h", "“c”"])).map("".join),
    st.lists(st.text(max_size=5)).map(json.dumps),
    st.integers().map(str),
    st.floats().map(str),
)  # fmt: skip


@given(st.sampled_from(NAMES), TEXTS)
def test_whatever_is_refused_with_a_line_takes_that_line(name: str, text: str) -> None:
    """Our choice: advice that is refused in its turn is worse than none."""
    refusal = refusal_of({name: text})
    found = re.search(r"; write ([A-Z0-9_]+=.*)\Z", refusal, re.DOTALL)
    assert found or not refusal or name == "ISHIKI_TIMEZONE", refusal
    if found:
        pasted = dotenv_values(stream=io.StringIO(found[1]), interpolate=False)
        assert set(pasted) == {name}
        assert refusal_of({name: pasted[name] or ""}) == ""
