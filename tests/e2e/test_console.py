"""Consoles that know less than Unicode: what they cannot show is escaped, and nothing fails at it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ishiki.testing.bot_process import BotProcess, models_yaml, profile_yaml

CONSOLES = [
    pytest.param({"PYTHONIOENCODING": "ascii"}, id="ascii"),
    pytest.param({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, id="C"),
    pytest.param({"PYTHONIOENCODING": "cp936"}, id="cp936"),
]
CAT = "\U0001f431"

PLUGIN = f"""
import logging
from nonebot.log import logger
logger.info("the host says {CAT}")
logging.getLogger("ishiki.mine").info("ishiki says {CAT}")
"""


@pytest.mark.parametrize("console", CONSOLES)
def test_a_log_line_that_the_console_cannot_show_is_escaped(tmp_path: Path, console: dict[str, str]) -> None:
    """Issue: no UTF-8 console; both loggers of the process."""
    bot = BotProcess(tmp_path, models=models_yaml("http://127.0.0.1:9/v1"), plugins={"cat.py": PLUGIN}, env=console)
    with bot:
        shown = "\n".join(bot.log)
    assert r"the host says \U0001f431" in shown
    assert r"ishiki says \U0001f431" in shown
    assert "Logging error" not in shown
    assert "UnicodeEncodeError" not in shown


@pytest.mark.parametrize("console", CONSOLES)
@pytest.mark.parametrize("command", [["check"], ["doctor"], ["usage"], ["replay", "none.jsonl", "--profile", CAT]])
def test_a_command_that_meets_what_the_console_cannot_show_ends_as_on_any_other(
    tmp_path: Path, console: dict[str, str], command: list[str]
) -> None:
    """Issue: no UTF-8 console; commands print names of profiles and folders, and faults."""
    folder = tmp_path / f"{CAT}"
    (folder / "profiles" / f"{CAT}").mkdir(parents=True)
    (folder / "profiles" / f"{CAT}" / "profile.yaml").write_text(profile_yaml(more=f"{CAT}: 1"), encoding="utf-8")
    (folder / "bot.py").touch()
    (folder / ".env").touch()
    done = subprocess.run(
        [sys.executable, "-m", "ishiki", *command],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", **console},
        capture_output=True,
        timeout=60,
    )
    assert b"UnicodeEncodeError" not in done.stderr
    assert b"Traceback" not in done.stderr
    assert done.returncode in (0, 1)
