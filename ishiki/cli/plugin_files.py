"""What can be told of the plugins in a folder without running them: no Python, or packages missing.

A plugin that fails hurts only itself, so these are warnings.
"""

from __future__ import annotations

import ast
import importlib.util
import pkgutil
from collections.abc import Iterator
from pathlib import Path

__all__ = ["plugin_faults"]


def plugin_faults(folder: Path) -> Iterator[str]:
    """Yield what is wrong with the plugins in `folder`, each with its file and line; nothing where it is missing."""
    own = {module.name for module in pkgutil.iter_modules([str(folder)])}
    for module in sorted(pkgutil.iter_modules([str(folder)]), key=lambda module: module.name):
        if module.name.startswith("_"):
            continue
        file = folder / module.name / "__init__.py" if module.ispkg else folder / f"{module.name}.py"
        try:
            tree = ast.parse(file.read_bytes(), filename=str(file))
        except SyntaxError as fault:
            yield f"{file}:{fault.lineno or 1}: the plugin cannot be loaded: {fault.msg}"
        except (OSError, ValueError) as fault:
            yield f"{file}: the plugin cannot be loaded: {fault}"
        else:
            yield from _missing_imports(file, tree, own)


def _missing_imports(file: Path, tree: ast.Module, own: set[str]) -> Iterator[str]:
    """Yield packages that the file itself imports, without condition, and that are not installed."""
    for node in tree.body:
        match node:
            case ast.Import():
                names = [name.name for name in node.names]
            case ast.ImportFrom(module=str(name), level=0):
                names = [name]
            case _:
                continue
        for package in dict.fromkeys(name.partition(".")[0] for name in names):
            if package not in own and package != "plugins" and importlib.util.find_spec(package) is None:
                yield f"{file}:{node.lineno}: the plugin cannot be loaded: {package!r} is not installed"
