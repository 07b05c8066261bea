"""Settings in every form that is taken, and the real bot.py: what `check` passes starts, what it refuses does not."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ishiki.storage import FolderLock
from ishiki.testing.bot_process import BotProcess
from ishiki.testing.onebot_peer import OneBotPeer

from .stage import LIMIT_S

ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Make a folder with the repository's own bot.py and its profiles."""
    shutil.copy(ROOT / "bot.py", tmp_path)
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    return tmp_path


@pytest.fixture
def taken_port() -> Iterator[int]:
    """Give a port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def run(home: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run something in the folder to its end; return its status and what it printed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=home,
        env={"PATH": "", "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


async def test_settings_in_all_their_forms_start_and_count(home: Path) -> None:
    """Our choice: order, repetition, letter case, blanks, quotes, a mark, `export`, both names, nothing at all."""
    lines = [
        '\ufeffSUPERUSERS=["222","111","111"]',
        "export ONEBOT_V11_ACCESS_TOKEN = 'the-token' # of the end",
        'onebot_ws_urls=["ws://127.0.0.1:9/b","ws://127.0.0.1:9/a","ws://127.0.0.1:9/b"]',
        "LOG_LEVEL=debug",
        "COMMAND_START=",
        "NICKNAME=",
        "ISHIKI_TIMEZONE=",
        "port=1",
    ]
    (home / ".env").write_text("\r\n".join(lines) + "\r\n", encoding="utf-8", newline="")
    async with BotProcess(home, command=[sys.executable, "bot.py"], env={"HOST": "localhost"}) as bot:
        log = "\n".join(bot.log)
        assert f"ws://127.0.0.1:{bot.port}/onebot/v11/ws (with ONEBOT_ACCESS_TOKEN)" in log
        assert "connects to ws://127.0.0.1:9/b" in log
        async with OneBotPeer(bot.url, access_token="the-token") as peer:
            await peer.say("hello")
            await peer.wait_sent(1, within=LIMIT_S)
        status, said = run(home, "-m", "ishiki", "check", HOST="localhost", PORT=str(bot.port))
        assert status == 0, said
        assert "uses this data folder" in said


@pytest.mark.parametrize(
    "environment",
    [
        {"SUPERUSERS": '["222","111"]', "ONEBOT_WS_URLS": '["ws://127.0.0.1:9/b","ws://127.0.0.1:9/a"]'},
        {"DRIVER": "~fastapi", "LOG_LEVEL": "10", "NICKNAME": '["neko"]', "API_TIMEOUT": "5.5", "COMMAND_SEP": " "},
        {"DRIVER": "nonebot.drivers.fastapi:Driver+~aiohttp", "SESSION_EXPIRE_TIMEOUT": "PT1M", "superusers": "[111]"},
    ],
)
async def test_what_the_check_passes_starts(home: Path, environment: dict[str, str]) -> None:
    """Our choice: one judgement for both; what NoneBot's models take is asked of them in tests/plugin."""
    bot = BotProcess(home, command=[sys.executable, "bot.py"], env=environment)
    status, said = run(home, "-m", "ishiki", "check", PORT=str(bot.port), **environment)
    async with bot:
        assert bot.is_running
    assert (status, "0 errors" in said) == (0, True), said


@pytest.mark.parametrize(
    "environment",
    [
        {"SUPERUSERS": "111,222", "COMMAND_START": "/"},
        {"HOST": "my-server", "ISHIKI_TIMEZONE": "GMT+8"},
        {"DRIVER": "~httpx+~fastapi", "ONEBOT_V11_WS_URLS": "ws://a"},
    ],
)
def test_what_the_check_refuses_the_start_refuses_in_the_same_words(home: Path, environment: dict[str, str]) -> None:
    """Our choice: one judgement for both."""
    checked, said = run(home, "-m", "ishiki", "check", **environment)
    started, log = run(home, "bot.py", **environment)
    assert (checked, started) == (1, 1)
    errors = [line.removeprefix("error: ") for line in said.splitlines() if line.startswith("error: ")]
    assert errors
    assert all(error in log for error in errors)
    assert "Traceback" not in log


def test_a_port_in_use_is_told_by_both(home: Path, taken_port: int) -> None:
    """Our choice: before anything is started."""
    checked, said = run(home, "-m", "ishiki", "check", PORT=str(taken_port))
    started, log = run(home, "bot.py", PORT=str(taken_port))
    assert (checked, started) == (1, 1)
    assert f"127.0.0.1:{taken_port} cannot be listened on" in said
    assert f"127.0.0.1:{taken_port} cannot be listened on" in log


def test_a_second_bot_is_told_by_both_and_is_no_fault_of_the_configuration(home: Path) -> None:
    """Our choice: one checks an edit while the bot runs."""
    with FolderLock(home / "data"):
        checked, said = run(home, "-m", "ishiki", "check")
        started, log = run(home, "bot.py")
    assert (checked, started) == (0, 1)
    assert "uses this data folder" in said
    assert "uses this data folder" in log


def test_the_line_of_a_stock_adapter_is_told_by_both(home: Path) -> None:
    """Our choice: every project of `nb` has it."""
    file = home / "bot.py"
    lines = file.read_text(encoding="utf-8").replace(
        "    load_plugins(ROOT", "    nonebot.get_driver().register_adapter(V11)\n    load_plugins(ROOT"
    )
    file.write_text(
        lines.replace(
            "import nonebot\n", "import nonebot\nfrom nonebot.adapters.onebot.v11 import Adapter as V11\n", 1
        ),
        encoding="utf-8",
    )
    checked, said = run(home, "-m", "ishiki", "check")
    started, log = run(home, "bot.py")
    assert (checked, started) == (1, 1)
    assert "registers the stock OneBot V11 adapter" in said
    assert "registers the stock OneBot V11 adapter" in log
