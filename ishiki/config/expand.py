"""`${NAME}` and `${NAME:-default}` in the text values of a configuration, from an environment handed in.

Keys are never expanded. A variable that is set to nothing counts as unset, as an empty line in `.env` means. `$${`
writes a literal `${`; a `$` before anything else is just a `$`. Owns what was expanded where; whether an unset variable
is an error is the caller's to say, place by place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ishiki.config.document import ConfigDocument, KeyPath
from ishiki.errors import ConfigError
from ishiki.jsonvalue import JsonObject, JsonValue

__all__ = ["Expanded", "MissingVariable", "expand"]

_EXPRESSION = re.compile(r"\$\$\{|\$\{(?P<body>[^}]*)(?P<end>\}?)")
_BODY = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)
_SECRET_NAME = re.compile(r"key(?!word)|token(?!s)|secret|pass|pwd|auth|cred|cookie|header", re.IGNORECASE)

_LONG_SECRET = 8
"""From this length on any variable's value counts as a secret; below it only where its name or place says so."""


@dataclass(frozen=True, slots=True)
class MissingVariable:
    """A variable without value and default, and the value that needs it."""

    path: KeyPath
    variable: str


@dataclass(frozen=True, slots=True)
class Expanded:
    """A configuration with its variables filled in."""

    document: ConfigDocument
    """The same document with expanded data; `document.variables` says what came from where. A value with a missing
    variable keeps its text as written."""
    secrets: frozenset[str]
    """The variables' values that must not be shown: all of eight characters or more, and shorter ones whose variable or
    key is named like a secret. For `Redactor`."""
    missing: tuple[MissingVariable, ...]
    """Unset variables, in the order of the file."""

    def missing_at(self, path: KeyPath) -> tuple[MissingVariable, ...]:
        """Return the unset variables that the value at `path`, or a value inside it, needs."""
        return tuple(one for one in self.missing if one.path[: len(path)] == path)

    def missing_error(
        self, *, ignore: tuple[KeyPath, ...] = (), error_type: type[ConfigError] = ConfigError
    ) -> ConfigError | None:
        """Return the error that names every unset variable and its place, or None where nothing is missing.

        Args:
            ignore: paths whose own lack the caller treats otherwise, such as the providers left out as unconfigured;
                what lies inside them is ignored too.
            error_type: the class of the error.
        """
        faults = [
            self.document.error(
                f"the variable {one.variable!r} is not set; set it in .env, or give a default: ${{{one.variable}:-…}}",
                one.path,
                code="variable_unset",
                error_type=error_type,
            )
            for one in self.missing
            if not any(one.path[: len(path)] == path for path in ignore)
        ]
        return faults[0].joined(faults[1:]) if faults else None


def expand(document: ConfigDocument, environment: Mapping[str, str]) -> Expanded:
    """Fill in the variables of every text value of `document`.

    Raises:
        ConfigError: an expression is not closed or names no variable.
    """
    return _Expansion(document, environment).run()


class _Expansion:
    """One walk over one document."""

    def __init__(self, document: ConfigDocument, environment: Mapping[str, str]) -> None:
        self._document = document
        self._environment = environment
        self._variables: dict[KeyPath, tuple[str, ...]] = {}
        self._secrets: set[str] = set()
        self._missing: list[MissingVariable] = []

    def run(self) -> Expanded:
        data = self._mapping(self._document.data, ())
        document = replace(self._document, data=data, variables=self._variables)
        return Expanded(document, frozenset(self._secrets), tuple(self._missing))

    def _mapping(self, data: JsonObject, path: KeyPath) -> JsonObject:
        return {key: self._value(value, (*path, key)) for key, value in data.items()}

    def _value(self, value: JsonValue, path: KeyPath) -> JsonValue:
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, Mapping):
            return self._mapping(value, path)
        if value is None or isinstance(value, bool | int | float):
            return value
        return [self._value(item, (*path, index)) for index, item in enumerate(value)]

    def _text(self, text: str, path: KeyPath) -> str:
        if "${" not in text:
            return text
        parts: list[str] = []
        used: list[str] = []
        is_complete = True
        end = 0
        for match in _EXPRESSION.finditer(text):
            parts.append(text[end : match.start()])
            end = match.end()
            if match.group() == "$${":
                parts.append("${")
                continue
            name, filled = self._filled(match, path)
            if filled is None:
                is_complete = False
                self._missing.append(MissingVariable(path, name))
                continue
            used.append(name)
            parts.append(filled)
        if used:
            self._variables[path] = tuple(used)
        return "".join([*parts, text[end:]]) if is_complete else text

    def _filled(self, match: re.Match[str], path: KeyPath) -> tuple[str, str | None]:
        """Return an expression's variable and its text; None where it has neither value nor default."""
        body = _BODY.fullmatch(match["body"])
        if not match["end"]:
            raise self._bad(f"the expression {match.group()[:40]!r} is not closed; write '}}' at its end", path)
        if body is None:
            example = "write ${NAME} or ${NAME:-default}, or $${ for a literal ${"
            raise self._bad(f"the expression {match.group()[:40]!r} names no variable; {example}", path)
        name, default = body["name"], body["default"]
        if default is not None and "${" in default:
            raise self._bad(f"the default of {name!r} holds another variable; that is not supported", path)
        value = self._environment.get(name, "")
        if not value:
            return name, default
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise self._bad(f"the value of the variable {name!r} is not UTF-8", path)
        if len(value) >= _LONG_SECRET or _SECRET_NAME.search(
            " ".join((name, *(p for p in path if isinstance(p, str))))
        ):
            self._secrets.add(value)
        return name, value

    def _bad(self, problem: str, path: KeyPath) -> ConfigError:
        return self._document.error(problem, path, code="variable_syntax")
