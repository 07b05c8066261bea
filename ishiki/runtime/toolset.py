"""The tool set of a turn: the kernel's, then each extension's in the order of `extends`. A name has one owner."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ishiki.contracts.extension import ExtensionTools
from ishiki.core.tool import Tool, ToolSet
from ishiki.errors import HookError, ToolConflictError

__all__ = ["RESERVED_NAMES", "ToolMerge"]

RESERVED_NAMES = frozenset({"read", "send_message", "finish", "wait", "codemode", "search"})
"""Names of the kernel, whether or not the tool is there in this profile. Source: specification, extension API."""

_KERNEL = "the kernel"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolMerge:
    """Collects tools with their owners."""

    def __init__(self, kernel: ToolSet) -> None:
        """Start with the kernel's own tools."""
        self._tools: dict[str, Tool] = dict(kernel)
        self._owners = dict.fromkeys(RESERVED_NAMES | kernel.keys(), _KERNEL)

    @property
    def tools(self) -> ToolSet:
        """The tools so far, in order."""
        return self._tools

    def append(self, kernel: ToolSet) -> None:
        """Add those of the kernel's tools that stand behind the extensions'; their names are reserved."""
        self._tools.update(kernel)

    def add(self, owner: str, contributed: ExtensionTools) -> None:
        """Add what `owner` contributed.

        Raises:
            ToolConflictError: a name is taken or reserved.
            HookError: what was contributed is no tool, or its name is none that a model's API takes.
        """
        for name, tool in _by_name(owner, contributed).items():
            if not _NAME.fullmatch(name):
                problem = f"returned a tool named {name!r}; use 1 to 64 letters, digits, '_' or '-'"
                raise HookError(owner, "extend_tools", problem)
            if name in self._owners:
                raise ToolConflictError(name, (self._owners[name], owner))
            self._tools[name] = tool
            self._owners[name] = owner


def _by_name(owner: str, contributed: ExtensionTools) -> ToolSet:
    if contributed is None:
        return {}
    if isinstance(contributed, Mapping):
        return contributed
    named: dict[str, Tool] = {}
    for tool in contributed:
        if tool.name in named:
            raise ToolConflictError(tool.name, (owner, owner))
        named[tool.name] = tool
    return named
