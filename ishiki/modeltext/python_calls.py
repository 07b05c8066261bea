"""Calls written in Python's form: `[send_message(messages=["hi"])]`, with or without a `print` around. Nothing runs."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator, Sequence

from ishiki.jsonvalue import JsonObject, JsonValue, normalise

__all__ = ["read_python_calls"]

_MAX_CHARS = 32_000
_MAX_BRACKETS = 64
"""Brackets inside each other; the parser recurses."""

_START = re.compile(
    r"(?m)^[ \t]{0,9}+(?:\[?(?:print\()?(?:await )?(?:[A-Za-z_][\w-]{0,63}+\.)?[A-Za-z_][\w-]{0,63}+\()"
    r"|(?<=[>\]])\[?[A-Za-z_]\w{0,63}+\("
)
_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'", re.DOTALL)
_END = re.compile(r"```|</?[A-Za-z_|｜][^<>\n]{0,60}>")
_RESERVED = re.compile(rf"(?<=[(,\s])({'|'.join(keyword.kwlist)})(?=\s{{0,9}}+=(?!=))")
_PREFIX = "reserved_word_"
"""Stands before a parameter whose name Python keeps for itself, while Python reads it."""

_WORDS = {"true": True, "false": False, "null": None}


def read_python_calls(text: str) -> Iterator[tuple[str, Sequence[JsonValue], JsonObject]]:
    """Yield the calls of `text`: name, positional arguments and named ones. None of what is no literal."""
    start = _START.search(text)
    if start is None:
        return
    code = _readable(text[start.start() :].lstrip())
    for source in (code, code.split("\n", 1)[0]):
        if (tree := _parsed(source.strip().rstrip(";"))) is not None:
            for statement in tree.body:
                if isinstance(statement, ast.Expr):
                    yield from _calls(statement.value)
            return


def _readable(code: str) -> str:
    """Return the code up to a fence or a tag, with names that Python would refuse; strings stay as they are."""
    parts: list[str] = []
    start = index = 0
    limit = min(len(code), _MAX_CHARS)
    while index < limit:
        char = code[index]
        if char in "\"'":
            parts.append(_RESERVED.sub(rf"{_PREFIX}\1", code[start:index]))
            end = _STRING.match(code, index)
            start, index = index, limit if end is None else end.end()
            parts.append(code[start:index])
            start = index
            continue
        if char in "`<" and _END.match(code, index) is not None:
            break
        index += 1
    parts.append(_RESERVED.sub(rf"{_PREFIX}\1", code[start:index]))
    return "".join(parts)


def _parsed(source: str) -> ast.Module | None:
    depth = deepest = 0
    for char in source:
        depth += (char in "([{") - (char in ")]}")
        deepest = max(deepest, depth)
    if len(source) > _MAX_CHARS or deepest > _MAX_BRACKETS:
        return None
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _calls(node: ast.expr) -> Iterator[tuple[str, Sequence[JsonValue], JsonObject]]:
    match node:
        case ast.List(elts) | ast.Tuple(elts):
            for one in elts:
                yield from _calls(one)
        case ast.Await(value):
            yield from _calls(value)
        case ast.Call(func=ast.Name("print"), args=[ast.Call() as inner]):
            yield from _calls(inner)
        case ast.Call(func=ast.Name(name) | ast.Attribute(attr=name), args=args, keywords=keywords):
            try:
                named = {
                    word.arg.removeprefix(_PREFIX): _literal(word.value) for word in keywords if word.arg is not None
                }
                yield name, [_literal(one) for one in args], named
            except (ValueError, TypeError):
                return
        case _:
            return


def _literal(node: ast.expr) -> JsonValue:
    match node:
        case ast.Name(name) if name in _WORDS:
            return _WORDS[name]
        case ast.List(elts) | ast.Tuple(elts):
            return [_literal(one) for one in elts]
        case ast.Dict(keys, values):
            return {str(ast.literal_eval(key)): _literal(one) for key, one in zip(keys, values, strict=True) if key}
        case _:
            return normalise(ast.literal_eval(node))
