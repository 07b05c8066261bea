"""docs/guide/extending.md says what the code does: its snippets run, its names exist, its examples are all there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import anyio
import pytest

from ishiki import ExtensionHost, SystemMessage, Tool, ToolContext
from ishiki.contracts.resources import RESERVED_SCHEMES
from ishiki.core.clock import SystemClock
from ishiki.core.disposer import resolved
from ishiki.core.signal import CancelSignal
from ishiki.errors import ResourceErrorCode, ToolError
from ishiki.profile import LimitsConfig
from ishiki.runtime.toolset import RESERVED_NAMES

from .kit import EXAMPLES

GUIDE = EXAMPLES.parents[1] / "docs" / "guide" / "extending.md"
PAGE = GUIDE.read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def names_of(snippet: str) -> dict[str, object]:
    """Run a snippet and return what it defines."""
    names: dict[str, object] = {"__name__": "snippet"}
    exec(compile(snippet, str(GUIDE), "exec"), names)
    return names


def context() -> ToolContext:
    """Return what a tool is handed."""

    async def record(*_: object) -> None:
        return None

    return ToolContext("call", "turn", 0, [SystemMessage("")], CancelSignal(), SystemClock(), record)


def section(title: str) -> str:
    """Return the text of one section."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_every_snippet_runs(number: int) -> None:
    """Our choice: what a guide shows is executed."""
    assert names_of(SNIPPETS[number])


async def test_the_tools_of_the_guide_do_what_it_says() -> None:
    """Our choice: schemas from annotations, the context unseen by the model, and a sentence for the model."""
    add = names_of(next(snippet for snippet in SNIPPETS if "@tool" in snippet))["add_stock"]
    assert isinstance(add, Tool)
    assert add.execute is not None
    assert add.input_schema["required"] == ["item", "count"]
    assert await resolved(add.execute({"item": "tea", "count": 2}, context())) == {"tea": 2}
    with pytest.raises(ToolError, match="at least 1"):
        await resolved(add.execute({"item": "tea", "count": 0}, context()))
    dice = names_of(next(snippet for snippet in SNIPPETS if "roll_dice" in snippet))["dice"]
    assert isinstance(dice, Tool)
    assert dice.execute is not None
    assert dice.execute({"sides": 6}, context()) == {"sides": 6, "rolled": 4}


async def test_the_test_of_the_guide_passes() -> None:
    """Our choice: what a guide shows is executed."""
    test = names_of(SNIPPETS[-1])["test_it_answers"]
    assert callable(test)
    with anyio.fail_after(5):
        await resolved(test())


def test_every_link_leads_somewhere() -> None:
    """Our choice: examples are included by reference, so the references have to hold."""
    links = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert [link for link in links if not (GUIDE.parent / link).exists()] == []


@pytest.mark.parametrize("page", [GUIDE, EXAMPLES.parent / "README.md"], ids=["guide", "plugins"])
def test_every_example_is_named(page: Path) -> None:
    """Our choice: an example that nobody finds teaches nobody."""
    text = page.read_text(encoding="utf-8")
    assert [file.name for file in EXAMPLES.glob("*.py") if f"examples/{file.name}" not in text] == []


def test_every_member_of_the_host_is_in_the_table() -> None:
    """Our choice: the table is the whole of what an author is offered."""
    members = {name for name in vars(ExtensionHost) if not name.startswith("_")}
    table = section("What the host offers")
    assert {name for name in members if not re.search(rf"`{name}\b", table)} == set()


def test_numbers_and_names_are_those_of_the_code() -> None:
    """Our choice: limits, reserved names and error codes are written down once and true."""
    limits = LimitsConfig()
    assert f"(`limits.hook_s`, {limits.hook_s:g} s)" in PAGE
    assert f"`limits.tool_s` ({limits.tool_s:g} s)" in PAGE
    assert {name for name in RESERVED_NAMES if f"`{name}`" not in section("Tools")} == set()
    assert {code for code in get_args(ResourceErrorCode) if f"`{code}`" not in section("Schemes")} == set()
    assert {scheme for scheme in RESERVED_SCHEMES if f"`{scheme}`" not in section("Schemes")} == set()
