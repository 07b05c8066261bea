"""A read configuration file: its plain data, where each part of it stands, and which parts came from the environment.

Owns the key path and its written form. Knows neither YAML nor any model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from ishiki.errors import ConfigError
from ishiki.jsonvalue import JsonObject, JsonValue

__all__ = ["ConfigDocument", "KeyPath", "Position", "render_key"]

KeyPath: TypeAlias = "tuple[str | int, ...]"
"""The way from the root to a value: keys as text, list indices from 0. The root is `()`."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


def render_key(path: KeyPath) -> str:
    """Write `path` as a dotted key: `wakeup.standard.keywords[0]`, `channels["onebot:10001"]`; the root is ""."""
    written = ""
    for part in path:
        if isinstance(part, int):
            written += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            written += f".{part}" if written else part
        else:
            written += f'["{part}"]'
    return written


@dataclass(frozen=True, slots=True)
class Position:
    """Where one value stands in its file. Lines and columns are 1-based; columns count code points."""

    line: int
    """The line of the value."""
    column: int
    """The column of the value."""
    key_line: int
    """The line of the key; of the value itself for a list item and the root."""
    key_column: int
    """The column of the key; of the value itself for a list item and the root."""
    raw: str | None = None
    """An unquoted scalar as it is written (`1.10`, `0123`); None for quoted ones, mappings and lists."""


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    """One configuration as plain JSON data, with what error messages need to point into it."""

    data: JsonObject
    """The root mapping; keys in the order of the file."""
    file: Path | str | None = None
    """The file, or None for data that has none."""
    positions: Mapping[KeyPath, Position] = field(default_factory=dict[KeyPath, Position])
    """A position for every path in `data`; empty for data without a file."""
    variables: Mapping[KeyPath, tuple[str, ...]] = field(default_factory=dict[KeyPath, tuple[str, ...]])
    """The values that hold text of environment variables, with the variables' names; filled by `expand`."""

    def value_at(self, path: KeyPath) -> JsonValue:
        """Return the value at `path`.

        Raises:
            KeyError: nothing stands there.
        """
        node: JsonValue = self.data
        for part in path:
            if isinstance(part, str):
                if not isinstance(node, Mapping) or part not in node:
                    raise KeyError(render_key(path))
                node = node[part]
            else:
                if isinstance(node, Mapping | str) or not isinstance(node, Sequence) or part >= len(node):
                    raise KeyError(render_key(path))
                node = node[part]
        return node

    def error(
        self,
        problem: str,
        path: KeyPath = (),
        *,
        on: Literal["key", "value"] = "value",
        code: str | None = None,
        error_type: type[ConfigError] = ConfigError,
    ) -> ConfigError:
        """Make (not raise) an error that points at `path`, or at the nearest part around it that the file has.

        Args:
            problem: what is wrong and what to do.
            path: the blamed key or value; it may be absent from the file.
            on: whether the key itself or its value is to blame.
            code: the stable code, or None for the class's own.
            error_type: the class of the error.
        """
        known = path
        while known and known not in self.positions:
            known = known[:-1]
        place = self.positions.get(known)
        # Above an absent key its owner's key is the place to look at.
        by_key = on == "key" or known != path
        line = None if place is None else place.key_line if by_key else place.line
        column = None if place is None else place.key_column if by_key else place.column
        return error_type(problem, file=self.file, line=line, column=column, key=render_key(path), code=code)
