"""The two READMEs: they say the same, their links lead somewhere, and what they show works."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ishiki.contracts.services import extension_service
from ishiki.gateway import read_catalogue
from ishiki.profile import load_profiles
from tests.markdown_pages import Page

ROOT = Path(__file__).resolve().parent.parent
ENGLISH = Page.read(ROOT / "README.md")
CHINESE = Page.read(ROOT / "README.zh-CN.md")


def shown(first_line: str) -> list[str]:
    """Return the blocks that begin with `# <first_line>`, which is the name of the file that they show."""
    return [block.text for block in ENGLISH.blocks if block.text.startswith(f"# {first_line}\n")]


def test_both_have_the_same_headings_in_the_same_order() -> None:
    """Issue 2: README.zh-CN.md has the same headings; they are translated, so their levels are compared."""
    assert [heading.level for heading in CHINESE.headings] == [heading.level for heading in ENGLISH.headings]


def test_both_show_the_same_blocks_byte_for_byte() -> None:
    """Issue 2: the same code blocks, so that a command is right in both or in neither."""
    assert CHINESE.blocks == ENGLISH.blocks


def test_both_link_to_the_same_files() -> None:
    """Our choice: what one README points to, the other does too, but for each other and its own headings."""
    others = ("README.md", "README.zh-CN.md")

    def files(page: Page) -> list[str]:
        return [link for link in page.links if link not in others and not link.startswith("#")]

    assert files(CHINESE) == files(ENGLISH)


@pytest.mark.parametrize("page", [ENGLISH, CHINESE], ids=lambda page: page.path.name)
def test_every_link_leads_to_a_file_and_a_heading_that_exist(page: Page) -> None:
    """Our choice."""
    assert page.broken_links() == []


def test_they_open_with_the_two_commands() -> None:
    """Issue 2: README opens with `./run` and `./test`."""
    assert ENGLISH.blocks[0].text == "./run\n./test"


def test_every_json_block_is_json() -> None:
    """Our choice: settings of other programs are pasted as they stand."""
    blocks = [block for block in ENGLISH.blocks if block.language == "json"]
    assert len(blocks) == 6, "NapCat, Lagrange and LLBot, each in both directions"
    for block in blocks:
        assert "change-me" in json.dumps(json.loads(block.text))


def test_the_shown_profile_loads_without_a_problem(tmp_path: Path) -> None:
    """Our choice: a newcomer copies it."""
    (text,) = shown("profiles/neko/profile.yaml")
    (tmp_path / "neko").mkdir()
    (tmp_path / "neko" / "profile.yaml").write_text(text, encoding="utf-8")
    loaded = load_profiles(tmp_path, {})
    assert [str(problem) for problem in loaded.problems] == []
    assert loaded.router().route("onebot:10001", "group:500") == "neko"
    assert loaded.router().route("onebot:10001", "private:10086") is None


def test_the_shown_models_are_usable(tmp_path: Path) -> None:
    """Our choice: each models.yaml of the README has a group `main`, as the shipped profile expects."""
    texts = shown("profiles/models.yaml")
    assert len(texts) == 2
    for text in texts:
        file = tmp_path / "models.yaml"
        file.write_text(text, encoding="utf-8")
        catalogue = read_catalogue(file, {"MINE_API_KEY": "key"})
        assert catalogue.usable("main")[0].ref != "demo:offline"


def test_the_shown_extension_provides_itself(tmp_path: Path) -> None:
    """Our choice: the plugin of the README is a whole one. In a process of its own: it registers itself for good."""
    (text,) = shown("plugins/dice.py")
    (tmp_path / "dice.py").write_text(text, encoding="utf-8")
    code = "import dice; from ishiki.contracts.services import services; print(*services.names())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=50, check=True
    )
    assert done.stdout.split() == [extension_service("dice")]
