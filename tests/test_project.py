"""What the project says about itself: its dependencies, its lock, and who imports whom."""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import grimp
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
ENGINE_FAMILIES = ("context", "wakeup", "toolcall")

NEVER_IMPORTED = {
    "aiofiles": "what extensions write files with: plugins/examples/note.py",
    "tzdata": "zoneinfo reads its data where the system has none",
}
"""Declared distributions that no line of ours imports, each with what needs it."""


def requirements(extra: str | None = None) -> list[Requirement]:
    """Return what pyproject.toml declares, for the base or for one extra."""
    project = PYPROJECT["project"]
    lines: list[str] = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    return [Requirement(line) for line in lines]


def sources() -> Iterator[Path]:
    """Yield every module that is installed or started: the package and bot.py."""
    yield ROOT / "bot.py"
    yield from sorted((ROOT / "ishiki").rglob("*.py"))


def imported_packages(path: Path) -> Iterator[tuple[str, int]]:
    """Yield name and line of each top-level package in `path` that is neither ours nor the standard library's."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        else:
            continue
        for name in names:
            package = name.partition(".")[0]
            if package != "ishiki" and package not in sys.stdlib_module_names:
                yield package, node.lineno


def distributions_of(package: str) -> set[str]:
    """Return the canonical names of the distributions that provide `package`, or its own name where none is."""
    return {canonicalize_name(name) for name in installed_packages().get(package, [package])}


@functools.cache
def installed_packages() -> Mapping[str, list[str]]:
    """Return the distributions that provide each top-level package; looked up once, as it reads every one of them."""
    return importlib.metadata.packages_distributions()


def pins() -> dict[str, str]:
    """Return the version of each distribution in the lock, by canonical name."""
    found = re.findall(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)", LOCK, flags=re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def test_every_imported_package_is_declared() -> None:
    """Our choice (design, dependencies): what is imported is declared, not taken from another's dependencies."""
    declared = {canonicalize_name(one.name) for extra in (None, "mcp") for one in requirements(extra)}
    undeclared = [
        f"{path.relative_to(ROOT)}:{line}: {package}"
        for path in sources()
        for package, line in imported_packages(path)
        if not distributions_of(package) & declared
    ]
    assert undeclared == [], "declare these in pyproject.toml and run tools/lock.sh"


def test_every_declared_package_is_imported_or_has_its_reason() -> None:
    """Our choice (design, dependencies): a dependency that nobody uses any more leaves pyproject.toml."""
    imported = {
        name for path in sources() for package, _ in imported_packages(path) for name in distributions_of(package)
    }
    declared = {canonicalize_name(one.name) for one in requirements()}
    assert declared - imported == set(NEVER_IMPORTED)


def test_import_directions_hold() -> None:
    """Design, who may import whom: the contracts of pyproject.toml, as ./test runs them."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Design, who may import whom: no cycles. Imports that only a type checker sees do not count."""
    graph = grimp.build_graph("ishiki", exclude_type_checking_imports=True, cache_dir=None)
    order = graphlib.TopologicalSorter(
        {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    )
    try:
        order.prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_engine_variants_share_only_private_modules() -> None:
    """Design, who may import whom: `engines/*` never import each other; one family may share a private module."""
    graph = grimp.build_graph("ishiki", cache_dir=None)
    wrong: list[str] = []
    for family in ENGINE_FAMILIES:
        package = f"ishiki.engines.{family}"
        variants = graph.find_children(package) if package in graph.modules else set[str]()
        for importer in variants:
            inside = {importer} | graph.find_descendants(importer)
            imported = {name for module in inside for name in graph.find_modules_directly_imported_by(module)}
            for other in variants - {importer}:
                is_private = other.rpartition(".")[2].startswith("_")
                if not is_private and any(name == other or name.startswith(f"{other}.") for name in imported):
                    wrong.append(f"{importer} -> {other}")
    assert wrong == []


def test_importing_ishiki_loads_no_host_no_model_library_and_no_test_tool() -> None:
    """Design, who may import whom: `import ishiki` is for authors and stays light."""
    heavy = ("nonebot", "litellm", "pytest", "hypothesis", "nonebug", "ishiki.testing")
    code = f"import sys, ishiki; print(*(name for name in {heavy!r} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=50, check=True
    )
    assert done.stdout.split() == []


def test_the_lock_names_no_address_and_hashes_every_line() -> None:
    """Our choice (design, commands): the lock works with any registry and trusts none."""
    assert re.findall(r"\S*://\S*|^--\S+.*|^\S+\s*@.*", LOCK, flags=re.MULTILINE) == []
    entries = re.split(r"\n(?=\S)", LOCK.strip())
    assert len(entries) == len(pins())
    one_entry = re.compile(r"[\w.-]+==[^\s;\\]+( ; [^\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+")
    assert [entry for entry in entries if not one_entry.fullmatch(entry.strip())] == []


@pytest.mark.parametrize("extra", [None, "dev"])
def test_the_lock_satisfies_what_is_declared(extra: str | None) -> None:
    """Our choice (design, commands): an edit of pyproject.toml without tools/lock.sh is noticed."""
    locked = pins()
    wanted, seen = requirements(extra), set[str]()
    missing: list[str] = []
    while wanted:
        one = wanted.pop()
        if str(one) in seen:
            continue
        seen.add(str(one))
        version = locked.get(canonicalize_name(one.name))
        if version is None or not one.specifier.contains(version, prereleases=True):
            missing.append(f"{one}, locked: {version}")
            continue
        for line in importlib.metadata.requires(one.name) or []:
            below = Requirement(line)
            extras = one.extras or {""}
            if below.marker is None or any(below.marker.evaluate({"extra": name}) for name in extras):
                wanted.append(below)
    assert missing == [], "run tools/lock.sh and commit requirements.lock"
