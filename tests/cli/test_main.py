from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ishiki.cli import main
from ishiki.cli.arguments import ChatArguments, parse_arguments
from ishiki.cli.typed import HELP


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Our choice."""
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert {"chat", "check"} <= set(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "argv", [["chatt"], [], ["chat", "--port"], ["chat", "--account", "me"], ["chat", "--timeout", "0"]]
)
def test_a_wrong_command_line_ends_with_status_2_and_the_usage(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Our choice: argparse's own status for wrong usage."""
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: python -m ishiki")


def test_flags_of_chat_are_read() -> None:
    """Our choice: flags override what the environment says."""
    found = parse_arguments(
        ["chat", "--url", "ws://h", "--token", "t", "--account", "7", "--user", "8", "--name", "林"]
    )
    assert found == ChatArguments(url="ws://h", token="t", account=7, user=8, name="林")


def test_version_prints_the_installed_version() -> None:
    """Our choice; as a process, because that is what `python -m` runs."""
    command = [sys.executable, "-m", "ishiki", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.split()[0] == "ishiki"
    assert done.stdout.split()[1][0].isdigit()


@pytest.mark.parametrize("module", ["ishiki.cli.chat", "ishiki.cli.check"])
def test_no_command_loads_the_host_or_the_model_library(module: str) -> None:
    """Design, who may import whom; and a person waits for the prompt."""
    code = f"import sys, {module}; print(*(name for name in ('nonebot', 'litellm', 'pytest') if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.split() == []


def test_the_guide_names_every_flag_and_command() -> None:
    """Our choice: docs/guide/chat.md is complete."""
    guide = (Path(__file__).resolve().parents[2] / "docs/guide/chat.md").read_text(encoding="utf-8")
    flags = ["--url", "--token", "--account", "--user", "--name", "--script", "--timeout", "--profiles"]
    assert [flag for flag in flags if flag not in guide] == []
    commands = [line.split()[0] for line in HELP.splitlines() if line.startswith("/")]
    assert [command for command in commands if f"`{command}" not in guide] == []
