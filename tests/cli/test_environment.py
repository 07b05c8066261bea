from __future__ import annotations

from pathlib import Path

import pytest

from ishiki.cli.environment import project_environment, project_folder
from ishiki.errors import ConfigError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make the folder of a project."""
    (tmp_path / "bot.py").touch()
    return tmp_path


def test_the_project_is_found_from_a_folder_inside(project: Path) -> None:
    """Our choice: bot.py reads `.env` beside itself, wherever a person stands."""
    inside = project / "plugins" / "mine"
    inside.mkdir(parents=True)
    (inside / ".env").write_text("PORT=1\n", encoding="utf-8")
    (project / ".env").write_text("PORT=2\n", encoding="utf-8")
    assert project_folder(inside) == project
    assert project_environment(inside, {}) == {"PORT": "2"}


def test_outside_of_a_project_its_own_env_file_counts(tmp_path: Path) -> None:
    """Our choice: an installed package may be run from a folder that holds nothing but `.env`."""
    (tmp_path / ".env").write_text("PORT=3\n", encoding="utf-8")
    assert project_environment(tmp_path, {}) == {"PORT": "3"}


def test_the_process_wins_over_the_environment_s_file_and_that_over_env(project: Path) -> None:
    """NoneBot, configuration: the order of precedence."""
    (project / ".env").write_text(
        '# comment\nENVIRONMENT=dev\nHOST=file\nPORT=1 # inline\nTOKEN="a b"\nBARE\n', encoding="utf-8"
    )
    (project / ".env.dev").write_text("PORT=2\nEXTRA=${PORT}\n", encoding="utf-8")
    (project / ".env.prod").write_text("PORT=9\n", encoding="utf-8")
    assert project_environment(project, {"HOST": "process"}) == {
        "ENVIRONMENT": "dev",
        "PORT": "2",
        "TOKEN": "a b",
        "EXTRA": "2",
        "HOST": "process",
    }


def test_an_env_file_in_another_encoding_is_an_error_that_names_it(project: Path) -> None:
    """Our choice."""
    (project / ".env").write_bytes("NAME=林".encode("gbk"))
    with pytest.raises(ConfigError) as raised:
        project_environment(project, {})
    assert (raised.value.code, raised.value.file) == ("config_unreadable", project / ".env")
