"""The wording of YAML mistakes: turns what the parser says into what the file's owner should change.

Owns texts and quote hints only; reading is `yaml_loader`'s.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from ishiki.errors import ConfigError

__all__ = ["quote_hint", "syntax_error", "token_at"]

_TOKEN = re.compile(r"[^\s,\]}]+")
_VARIABLE = re.compile(r"\$\{[^}\n]*\}?")


def token_at(text: str, index: int) -> str:
    """Return the word of `text` that starts at `index`, up to white space or the end of a flow item."""
    match = _TOKEN.match(text, index)
    return match.group().removesuffix(":") if match else ""


def quote_hint(token: str) -> str:
    """Return the advice to put `token` in quotes, with the quotes set."""
    return f"write it in quotes: {json.dumps(token, ensure_ascii=False)}"


def syntax_error(fault: yaml.MarkedYAMLError, text: str, file: Path | str | None) -> ConfigError:
    """Make the error for a fault of the scanner or parser, with the quotes to set where quotes are the cure."""
    mark = fault.problem_mark or fault.context_mark
    context = fault.context or ""
    code = "yaml_syntax"
    index = mark.index if mark else 0
    if fault.context_mark and context.startswith(
        ("while scanning an alias", "while scanning an anchor", "while scanning a tag")
    ):
        mark = fault.context_mark
        code, problem = "yaml_quotes_needed", _special_start(token_at(text, mark.index))
    elif (fault.problem or "").startswith("found undefined tag handle"):
        code, problem = "yaml_quotes_needed", _special_start(token_at(text, index))
    elif text[index : index + 1] == "{" and text[index - 1 : index] == "$":
        variable = _VARIABLE.match(text, index - 1)
        token = variable.group() if variable else "${NAME}"
        code, problem = "yaml_quotes_needed", f"inside {{ }} or [ ] a variable needs quotes; {quote_hint(token)}"
    else:
        code, problem = _common_fault(fault, text, index)
    line = mark.line + 1 if mark else None
    return ConfigError(problem, file=file, line=line, column=mark.column + 1 if mark else None, code=code)


def _special_start(token: str) -> str:
    meaning = {"*": "an alias", "&": "an anchor", "!": "a tag"}.get(token[:1], "something else")
    return f"text that starts with {token[:1]!r} means {meaning} in YAML; {quote_hint(token)}"


def _common_fault(fault: yaml.MarkedYAMLError, text: str, index: int) -> tuple[str, str]:
    """Return code and text for the mistakes that need no token of their own."""
    problem = fault.problem or "is not YAML"
    opened = f" (opened in line {fault.context_mark.line + 1})" if fault.context_mark else ""
    if "cannot start any token" in problem:
        if text[index : index + 1] == "\t":
            return "yaml_tab", "a tab cannot indent in YAML; use spaces"
        token = token_at(text, index)
        return "yaml_quotes_needed", f"text cannot start with {token[:1]!r} in YAML; {quote_hint(token)}"
    if problem == "mapping values are not allowed here":
        return (
            "yaml_syntax",
            (
                "a second ': ' in one value, a wrong indentation, or a line above without a space after its ':'; "
                "a value that holds ': ' needs quotes"
            ),
        )
    if problem.startswith("could not find expected ':'"):
        return "yaml_syntax", "a key without ': ' behind it; write 'key: value' with a space after the colon"
    if problem.startswith("found unexpected end of stream"):
        return "yaml_syntax", f"a quote{opened} is not closed; add the closing quote"
    if problem.startswith(("expected ',' or ']'", "expected ',' or '}'")):
        bracket = problem[len("expected ',' or '")]
        return "yaml_syntax", f"a comma or {bracket!r} is missing{opened}; text with one of , [ ] {{ }} needs quotes"
    if problem == "expected <block end>, but found ':'":
        return "yaml_key", "a key is missing before the ':'"
    if problem.startswith("expected <block end>"):
        return (
            "yaml_syntax",
            "the indentation does not fit the lines above; give keys of one mapping the same indentation",
        )
    if problem.startswith("found unknown escape character"):
        return "yaml_syntax", f"{problem}; in double quotes write \\\\ for a backslash, or use single quotes"
    if problem.startswith("found duplicate anchor"):
        return "yaml_syntax", f"{problem}; give each anchor its own name"
    return "yaml_syntax", f"this is not YAML: {', '.join(part for part in (fault.context, problem) if part)}{opened}"
