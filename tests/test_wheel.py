"""The wheel: what is in it, and that somebody else's test runs with it, far from this folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

THIRD_PARTY_TEST = """\
import anyio
from ishiki import Agent, UserMessage
from ishiki.core.store import MemoryStore
from ishiki.testing.scripted_model import ScriptedModel, text

async def test_it_answers() -> None:
    agent = Agent("mine", model=ScriptedModel([text("hello")]), store=MemoryStore())
    async with anyio.create_task_group() as group:
        await group.start(agent.serve)
        assert [event.type async for event in agent.run(UserMessage("hi"))][-1] == "turn.done"
        await agent.stop()
"""
"""As an author of an engine would write it; it may use what the wheel installs, pytest and pytest-asyncio."""


def run(*command: str, cwd: Path, environ: dict[str, str] | None = None) -> str:
    """Run a command of this Python, and return what it printed; its failure is the test's."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=os.environ | (environ or {}),
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built from this folder without asking a registry."""
    folder = tmp_path_factory.mktemp("wheel")
    run("-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT), cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheel's content as pip installs it, and nothing else."""
    target = tmp_path_factory.mktemp("target")
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-compile")
    run(*pip, "--target", str(target), str(wheel), cwd=target)
    return target


def test_the_wheel_holds_the_whole_package_its_type_marker_and_nothing_else(wheel: Path) -> None:
    """Our choice: types reach authors (PEP 561), and neither tests nor a deployer's files travel along."""
    names = zipfile.ZipFile(wheel).namelist()
    ours = {path.relative_to(ROOT).as_posix() for path in (ROOT / "ishiki").rglob("*.py")}
    assert ours - set(names) == set()
    assert "ishiki/py.typed" in names
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"ishiki"}
    assert [name for name in names if "/tests/" in name or name.endswith((".yaml", ".env", ".lock"))] == []


def test_a_third_party_test_runs_with_the_installed_wheel(installed: Path, tmp_path: Path) -> None:
    """Issue: a test builds the wheel, installs it elsewhere and runs a ten-line third-party test with it."""
    where = f"import ishiki\n\ndef test_it_is_the_wheel():\n    assert ishiki.__file__.startswith({str(installed)!r})\n"
    (tmp_path / "test_mine.py").write_text(f"{THIRD_PARTY_TEST}\n{where}", encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n", encoding="utf-8")
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:nonebug", "-p", "no:randomly")
    printed = run("-m", "pytest", *options, cwd=tmp_path, environ={"PYTHONPATH": str(installed)})
    assert "2 passed" in printed


def test_the_installed_command_says_what_it_can_do(installed: Path, tmp_path: Path) -> None:
    """Our choice: `python -m ishiki` works from the wheel alone."""
    printed = run("-m", "ishiki", "--help", cwd=tmp_path, environ={"PYTHONPATH": str(installed)})
    assert "chat" in printed
