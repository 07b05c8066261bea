"""Finds the calls that write log lines, as `docs/reference/logging.md` lists them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LEVELS = {
    "critical": "CRITICAL",
    "error": "ERROR",
    "exception": "ERROR",
    "warning": "WARNING",
    "info": "INFO",
    "debug": "DEBUG",
}


@dataclass(frozen=True, slots=True)
class LogCall:
    """One call of a logger with a text of its own."""

    level: str
    template: str
    """With … for every placeholder."""
    place: str


def log_calls(root: Path, package: str) -> Iterator[LogCall]:
    """Yield the calls below `root / package` whose text says something, in order of files and lines."""
    for path in sorted((root / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            level = LEVELS.get(node.func.attr)
            text = node.args[0]
            is_logger = re.search(r"log(ger)?$", ast.unparse(node.func.value)) is not None
            if level is None or not is_logger or not isinstance(text, ast.Constant) or not isinstance(text.value, str):
                continue
            template = re.sub(r"%[-.\d]*[a-z]", "…", text.value)
            if re.search(r"\w", template):
                yield LogCall(level, template, f"{path.relative_to(root)}:{node.lineno}")
