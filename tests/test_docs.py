"""The documents beside the README: complete, reachable, and true of the tree as it is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.log_calls import log_calls
from tests.markdown_pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OVERVIEW = Page.read(DOCS / "architecture" / "overview.md")


def linked_from(page: Path) -> set[Path]:
    """Return the files that a page links to."""
    return {(page.parent / link.partition("#")[0]).resolve() for link in Page.read(page).links if "://" not in link}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading_that_exist(path: Path) -> None:
    """Our choice."""
    assert Page.read(path).broken_links() == []


def test_every_page_is_reached_from_the_index() -> None:
    """Our choice: docs/README.md lists every page; decisions have an index of their own."""
    decisions = DOCS / "decisions"
    reached = linked_from(DOCS / "README.md") | linked_from(decisions / "README.md")
    missing = {path for path in DOCS.rglob("*.md") if path != DOCS / "README.md"} - reached
    assert sorted(str(path.relative_to(ROOT)) for path in missing) == []
    assert decisions / "README.md" in linked_from(DOCS / "README.md")


def test_the_overview_names_every_package_and_top_module() -> None:
    """Issue 2: the architecture page shows the tree as it is."""
    (tree,) = [block.text for block in OVERVIEW.blocks if "ishiki/\n" in block.text]
    package = ROOT / "ishiki"
    names = [
        f"{path.parent.name}/" if path.name == "__init__.py" else path.name
        for path in (*package.glob("*/__init__.py"), *package.glob("*.py"))
        if not path.name.startswith("__") or path.parent != package
    ]
    assert [name for name in names if f"\n  {name} " not in tree] == []


def test_the_overview_names_nothing_that_is_gone() -> None:
    """Our choice: the other direction."""
    (tree,) = [block.text for block in OVERVIEW.blocks if "ishiki/\n" in block.text]
    named = re.findall(r"^  ([\w.]+/?)  ", tree, flags=re.MULTILINE)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / "ishiki" / name).exists()] == []


def test_the_overview_explains_every_import_contract() -> None:
    """Our choice: the table is drawn from the contracts that ./test enforces."""
    ids = [contract["id"] for contract in PYPROJECT["tool"]["importlinter"]["contracts"]]
    explained = re.findall(r"^\| `([\w-]+)` \|", OVERVIEW.prose, flags=re.MULTILINE)
    assert sorted(set(explained) & set(ids)) == sorted(ids)


def test_every_engine_variant_is_in_the_tree() -> None:
    """Our choice: a new engine is named where people look for it."""
    (tree,) = [block.text for block in OVERVIEW.blocks if "ishiki/\n" in block.text]
    (line,) = [line for line in tree.splitlines() if line.startswith("  engines/")]
    listed = {
        f"{family}/{name}"
        for family, names in re.findall(r"(context|wakeup|toolcall)/\{?([\w,-]+)\}?", line)
        for name in names.split(",")
    }
    variants = {
        f"{path.parent.name}/{path.stem.replace('_', '-')}"
        for path in (ROOT / "ishiki" / "engines").glob("*/*.py")
        if not path.name.startswith("_")
    }
    assert listed == variants


def test_files_named_in_the_architecture_pages_exist() -> None:
    """Our choice: a renamed module is renamed there too."""
    missing: list[str] = []
    for path in (DOCS / "architecture").glob("*.md"):
        for name in re.findall(r"`((?:\w+/)+\w+\.py)`", Page.read(path).prose):
            if not (ROOT / "ishiki" / name).exists() and not (ROOT / name).exists():
                missing.append(f"{path.name}: {name}")
    assert missing == []


def test_every_dependency_has_its_reason() -> None:
    """Our choice: docs/decisions/README.md says what each declared distribution is for, and lists no other."""
    project = PYPROJECT["project"]
    declared: list[str] = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    names = {re.split(r"[\[<>=~! ;]", line)[0] for line in declared}
    rows = re.findall(r"^\| (`.+?) \|", Page.read(DOCS / "decisions" / "README.md").prose, flags=re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([\w-]+)`", re.sub(r"\(extra `\w+`\)", "", row))}
    assert listed == names


@pytest.mark.parametrize("path", sorted((DOCS / "decisions").glob("*.md")), ids=lambda path: path.stem)
def test_a_decision_is_five_lines(path: Path) -> None:
    """Our choice: short records of one form."""
    if path.name == "README.md":
        return
    heads = re.findall(r"^\* \*\*(.+?):\*\* \S", Page.read(path).prose, flags=re.MULTILINE)
    assert heads == ["Decided", "Why", "Instead of", "Costs", "Where"]


def documented_lines() -> dict[str, set[str]]:
    """Return the log lines of docs/reference/logging.md, by level."""
    levels: dict[str, set[str]] = {}
    level = ""
    for line in (DOCS / "reference" / "logging.md").read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"## (\w+)", line):
            level = heading[1]
        elif row := re.match(r"\| `(.+?)` \|", line):
            levels.setdefault(level, set()).add(row[1])
    return levels


def test_every_documented_log_line_is_written_at_its_level() -> None:
    """Our choice: the page lists lines as the code has them."""
    calls = list(log_calls(ROOT, "ishiki"))
    for level, lines in documented_lines().items():
        written = {call.template for call in calls if call.level == level}
        assert sorted(lines - written) == [], f"{level}: reworded or gone; edit docs/reference/logging.md"


def test_every_error_line_is_documented() -> None:
    """Our choice: an ERROR says that a person must act, so it stands where that person looks it up."""
    documented = documented_lines()["ERROR"]
    missing = [
        f"{call.place}: {call.template}"
        for call in log_calls(ROOT, "ishiki")
        if call.level == "ERROR" and call.template not in documented
    ]
    assert missing == [], "add these to docs/reference/logging.md"
