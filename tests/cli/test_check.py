from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from ishiki.cli.arguments import CheckArguments
from ishiki.cli.check import run_check

ROOT = Path(__file__).resolve().parents[2]

GOOD_MODELS = """\
providers:
  far:
    api: openai-completions
    base_url: https://models.example.org/v1
    api_key: "${FAR_KEY}"
    models:
      - {id: big}
groups:
  main: {models: ["far:big", "demo:offline"]}
"""
GOOD_PROFILE = 'model: main\nchannels: {"onebot:*": ["group:*"]}\n'


class Checked:
    """What a check said."""

    def __init__(self, status: int, out: str) -> None:
        self.status = status
        self.lines = out.splitlines()

    def starting(self, prefix: str) -> list[str]:
        """Return the lines with this beginning, without it."""
        return [line.removeprefix(prefix) for line in self.lines if line.startswith(prefix)]


class Project:
    """A folder with a bot.py and profiles."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        self.write("bot.py", "")
        self.write("profiles/models.yaml", GOOD_MODELS)
        self.write("profiles/neko/profile.yaml", GOOD_PROFILE)

    def write(self, name: str, content: str) -> None:
        """Write a file of the project."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")

    def check(self, arguments: CheckArguments | None = None, **environ: str) -> Checked:
        """Check it."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            free = str(listener.getsockname()[1])
        status = run_check(arguments or CheckArguments(), folder=self.folder, environ={"PORT": free} | environ)
        return Checked(status, self._capsys.readouterr().out)


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Project:
    """Make a good project."""
    return Project(tmp_path, capsys)


def test_a_good_configuration_shows_providers_models_and_owners(project: Project) -> None:
    """Issue: who owns which channels, which providers are unconfigured."""
    checked = project.check()
    assert checked.status == 0
    assert "  far: not configured: set FAR_KEY in .env" in checked.lines
    assert any(line.startswith("  neko ") and line.endswith("model main = demo:offline") for line in checked.lines)
    assert "  onebot:*: group:* -> neko" in checked.lines
    assert checked.starting("error: ") == []


def test_a_key_in_env_configures_its_provider_and_is_not_shown(project: Project) -> None:
    """Design, safety defaults: secrets appear in no output."""
    project.write(".env", "FAR_KEY=very-secret-key\n")
    checked = project.check()
    assert "  far: configured" in checked.lines
    assert any(line.endswith("model main = far:big") for line in checked.lines)
    assert "very-secret-key" not in "\n".join(checked.lines)


def test_every_problem_has_its_own_line_with_file_line_and_column(project: Project) -> None:
    """Issue: prints every problem with its place and what to do, of one file and of all files."""
    project.write("profiles/neko/profile.yaml", 'modle: main\nchannels: {"onebot:*": ["42"]}\nmode: both\n')
    project.write("profiles/models.yaml", GOOD_MODELS + "  other: {models: [far:bigg]}\n")
    checked = project.check()
    errors = checked.starting("error: ")
    assert checked.status == 1
    assert any(one.startswith("profiles/models.yaml:10:20: ") and "far:big" in one for one in errors)
    assert any(one.startswith("profiles/neko/profile.yaml:1:1: modle: ") and "model" in one for one in errors)
    assert any(one.startswith("profiles/neko/profile.yaml:3:7: mode: ") for one in errors)
    assert checked.lines[-1].startswith(f"{len(errors)} errors, ")


def test_a_model_that_nothing_declares_is_an_error_of_the_profile(project: Project) -> None:
    """Our choice: found now, not when the first message arrives."""
    project.write("profiles/neko/profile.yaml", GOOD_PROFILE.replace("main", "mian"))
    (error,) = project.check().starting("error: ")
    assert error.startswith("profiles/neko/profile.yaml:1:8: model: ")
    assert "main" in error


def test_a_broken_setting_of_an_engine_is_found(project: Project) -> None:
    """Design, contracts: each engine's block is validated by its owner."""
    project.write("profiles/neko/profile.yaml", GOOD_PROFILE + "context: {standard: {max_tokens: many}}\n")
    (error,) = project.check().starting("error: ")
    assert error.startswith("profiles/neko/profile.yaml:3:34: context.standard.max_tokens: ")


def test_what_only_a_plugin_provides_is_a_warning(project: Project) -> None:
    """Our choice: plugins are not loaded, and a missing service may be theirs."""
    project.write("profiles/neko/profile.yaml", GOOD_PROFILE + "extends: {weather: {}}\n")
    checked = project.check()
    assert checked.status == 0
    assert any("ishiki.ext.weather" in one for one in checked.starting("warning: "))


def test_two_profiles_with_one_channel_are_an_error(project: Project) -> None:
    """Design, configuration: equal specificity is an error of the later profile."""
    project.write("profiles/zeta/profile.yaml", GOOD_PROFILE)
    (error,) = project.check().starting("error: ")
    assert error.startswith("profiles/zeta/profile.yaml:2:")
    assert "profiles/neko/profile.yaml:2" in error


def test_a_persona_that_cannot_be_read_is_an_error(project: Project) -> None:
    """Our choice: the bot would meet it at the first turn."""
    (project.folder / "profiles/neko/persona.md").write_bytes("你好".encode("gbk"))
    (error,) = project.check().starting("error: ")
    assert error.startswith("profiles/neko/persona.md:1:1: ")


def test_a_broken_setting_is_an_error_before_any_profile(project: Project) -> None:
    """Our choice: the bot would not start."""
    checked = project.check(ISHIKI_FSYNC="sometimes")
    assert checked.status == 1
    assert checked.starting("error: ")[0].startswith("ISHIKI_FSYNC: ")


def test_a_line_of_env_that_sets_nothing_is_a_warning_with_its_number(project: Project) -> None:
    """Our choice: what NoneBot cannot read it leaves out, and the owner believes that it is set."""
    project.write(".env", 'ISHIKI_FSYNC=never\nSUPERUSERS="["111"]"\nNICKNAME\n')
    checked = project.check()
    assert checked.status == 0
    numbers = [one.partition(": ")[0] for one in checked.starting("warning: ") if "this line sets nothing" in one]
    assert numbers == [".env:2", ".env:3"]


def test_a_zone_of_a_profile_is_answered_with_its_name(project: Project) -> None:
    """Our choice: as in `.env`."""
    project.write("profiles/neko/profile.yaml", GOOD_PROFILE + "timezone: GMT+8\n")
    (error,) = project.check().starting("error: ")
    assert error.startswith("profiles/neko/profile.yaml:3:11: timezone: ")
    assert "write Asia/Shanghai" in error


def test_another_folder_is_checked_by_flag_and_by_setting(project: Project) -> None:
    """Issue: `--profiles DIR`."""
    project.write("elsewhere/zeta/profile.yaml", GOOD_PROFILE.replace("main", "demo:offline"))
    by_flag = project.check(CheckArguments(profiles=Path("elsewhere")))
    by_setting = project.check(ISHIKI_PROFILES_DIR="elsewhere")
    assert by_flag.lines == by_setting.lines
    assert "  onebot:*: group:* -> zeta" in by_flag.lines


def test_a_folder_that_is_not_there_is_a_warning(project: Project) -> None:
    """Issue: no `profiles/` is a warning and a running bot."""
    checked = project.check(CheckArguments(profiles=Path("nowhere")))
    assert checked.status == 0
    assert any(one.startswith("nowhere: ") for one in checked.starting("warning: "))
    assert "  nobody claims any" in checked.lines


def test_the_shipped_profiles_are_without_errors_and_talk_of_no_provider_that_nobody_asked_for(
    project: Project,
) -> None:
    """Issue: with nothing configured the shipped profile answers."""
    shutil.copytree(ROOT / "profiles", project.folder / "shipped")
    checked = project.check(CheckArguments(profiles=Path("shipped")))
    assert checked.status == 0
    assert checked.starting("error: ") == []
    (warning,) = checked.starting("warning: ")
    assert "DEEPSEEK_API_KEY" in warning
    (ready,) = checked.starting("  ready for their keys, and in no group: ")
    assert "qwen (DASHSCOPE_API_KEY)" in ready


def test_a_plugin_that_cannot_be_loaded_is_a_warning_with_its_line(project: Project) -> None:
    """Our choice: a bad plugin hurts only itself; it is read here, and not run."""
    project.write("plugins/good.py", "import json\nfrom plugins.torn import x\nraise SystemExit\n")
    project.write("plugins/torn.py", "import json\ndef f(:\n")
    project.write("plugins/lacking/__init__.py", "import json\n\nfrom nobody_has_this.at_all import x\n")
    checked = project.check()
    assert checked.status == 0
    found = [one for one in checked.starting("warning: ") if one.startswith("plugins")]
    assert [one.partition(": ")[0] for one in found] == ["plugins/lacking/__init__.py:3", "plugins/torn.py:2"]
    assert "'nobody_has_this'" in found[0]


@pytest.mark.parametrize(
    ("provider", "right"),
    [
        (
            "{api: openai-completions, base_url: https://api.deepseek.com/v1/chat/completions}",
            "https://api.deepseek.com/v1",
        ),
        ("{api: openai-completions, base_url: https://models.example.org}", "https://models.example.org/v1"),
        ("{api: openai-completions, base_url: https://platform.deepseek.com}", "https://api.deepseek.com/v1"),
        ("{api: openai-completions, base_url: https://api.deepseek.com/anthropic}", "https://api.deepseek.com/v1"),
    ],
)
def test_an_address_that_answers_nothing_is_a_warning_with_the_right_one(
    project: Project, provider: str, right: str
) -> None:
    """Our choice: silence in the group told nobody before."""
    project.write("profiles/models.yaml", GOOD_MODELS.replace("groups:", f"  odd: {provider}\ngroups:"))
    (warning,) = [one for one in project.check(FAR_KEY="key").starting("warning: ") if "odd" in one]
    assert warning.startswith("profiles/models.yaml:8:")
    assert warning.endswith(right)
