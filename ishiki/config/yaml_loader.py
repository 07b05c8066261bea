"""The one strict reader of YAML files: plain JSON data, and the line and column of every key and value.

Stricter than YAML 1.1 where that surprises people: duplicate keys, tags, merge keys, keys that are no scalar and
further documents are errors; unquoted scalars are typed by `scalars` only; keys are always text, as written. Aliases of
whole values are allowed, within a bound. Works on the parser's events, so that deep nesting meets a bound and never the
interpreter's stack.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import yaml

from ishiki.config.document import ConfigDocument, KeyPath, Position
from ishiki.config.scalars import NumberRangeError, resolve_plain
from ishiki.config.yaml_faults import quote_hint, syntax_error, token_at
from ishiki.errors import ConfigError
from ishiki.jsonvalue import JsonValue

__all__ = ["MAX_DEPTH", "MAX_FILE_BYTES", "MAX_VALUES", "load_yaml", "parse_yaml"]

MAX_FILE_BYTES = 1024 * 1024
"""A hundred times a long profile; beyond it a file is the wrong file."""

MAX_DEPTH = 50
"""Levels of nesting; the deepest real configuration has about eight."""

MAX_VALUES = 50_000
"""Values after aliases are filled in: what keeps a small file from growing to gigabytes by aliases of aliases."""

_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")


def load_yaml(path: Path, *, allow_empty: bool = False) -> ConfigDocument:
    """Read the YAML file at `path`. Blocks on the disk.

    Args:
        path: the file, UTF-8 with or without a byte order mark.
        allow_empty: whether a file without any key reads as an empty mapping instead of an error.

    Raises:
        ConfigError: the file cannot be read, or `parse_yaml` refuses it.
    """
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
    except OSError as fault:
        reason = fault.strerror or type(fault).__name__
        raise ConfigError(f"cannot be read: {reason}", file=path, code="config_unreadable") from fault
    return parse_yaml(raw, file=path, allow_empty=allow_empty)


def parse_yaml(source: str | bytes, *, file: Path | str | None = None, allow_empty: bool = False) -> ConfigDocument:
    """Read YAML text.

    Args:
        source: the text, or its bytes.
        file: what errors name as the file.
        allow_empty: whether text without any key reads as an empty mapping instead of an error.

    Raises:
        ConfigError: at the first thing that is no valid configuration, with line, column and what to do.
    """
    if len(source) > MAX_FILE_BYTES:
        raise ConfigError(
            f"longer than {MAX_FILE_BYTES} bytes; is it the right file?", file=file, code="yaml_too_large"
        )
    text = _decode(source, file).removeprefix("\ufeff")
    _refuse_control_characters(text, file)
    try:
        root = _TreeReader(text, file).read()
    except yaml.MarkedYAMLError as fault:
        raise syntax_error(fault, text, file) from fault
    if root is None or (isinstance(root, _Scalar) and root.is_plain and not root.text):
        if allow_empty:
            return ConfigDocument({}, file)
        raise ConfigError(
            "holds no key; write at least one 'key: value'", file=file, line=1, column=1, code="yaml_empty"
        )
    if not isinstance(root, _Mapping):
        raise _error("must be a mapping of 'key: value' lines at the top", root, file, "yaml_not_a_mapping")
    return _DataBuilder(file).document(root)


def _decode(source: str | bytes, file: Path | str | None) -> str:
    if isinstance(source, str):
        return source
    if source.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError("is saved as UTF-16; save it as UTF-8", file=file, line=1, column=1, code="yaml_encoding")
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as fault:
        before = source[: fault.start].decode("utf-8").removeprefix("\ufeff")
        raise ConfigError(
            f"is not UTF-8 (byte 0x{source[fault.start]:02x}); save it as UTF-8",
            file=file,
            line=before.count("\n") + 1,
            column=len(before) - before.rfind("\n"),
            code="yaml_encoding",
        ) from fault


def _refuse_control_characters(text: str, file: Path | str | None) -> None:
    found = _FORBIDDEN.search(text)
    if found is None:
        return
    start = found.start()
    raise ConfigError(
        f"holds the character U+{ord(found.group()):04X}, which YAML does not allow; remove it",
        file=file,
        line=text.count("\n", 0, start) + 1,
        column=start - text.rfind("\n", 0, start),
        code="yaml_character",
    )


@dataclass(frozen=True, slots=True)
class _Scalar:
    line: int
    column: int
    text: str
    is_plain: bool


@dataclass(frozen=True, slots=True)
class _Sequence:
    line: int
    column: int
    items: list[_Node] = field(default_factory=list["_Node"])


@dataclass(frozen=True, slots=True)
class _Mapping:
    line: int
    column: int
    pairs: dict[str, tuple[_Scalar, _Node]] = field(default_factory=dict[str, "tuple[_Scalar, _Node]"])


_Node: TypeAlias = "_Scalar | _Sequence | _Mapping"


@dataclass(slots=True)
class _Frame:
    """An open collection; `key` is the mapping key whose value comes next."""

    node: _Sequence | _Mapping
    anchor: str | None
    key: _Scalar | None = None


def _error(problem: str, at: _Node, file: Path | str | None, code: str) -> ConfigError:
    return ConfigError(problem, file=file, line=at.line, column=at.column, code=code)


class _TreeReader:
    """Builds the node tree from the parser's events; a node that is aliased appears once and is shared."""

    def __init__(self, text: str, file: Path | str | None) -> None:
        self._text = text
        self._file = file
        self._open: list[_Frame] = []
        self._anchors: dict[str, _Node] = {}
        self._root: _Node | None = None
        self._documents = 0

    def read(self) -> _Node | None:
        """Return the root of the only document, or None where there is no document."""
        for event in yaml.parse(self._text, Loader=yaml.SafeLoader):
            match event:
                case yaml.DocumentStartEvent():
                    self._documents += 1
                    if self._documents > 1:
                        problem = "a second document starts here; keep one per file and remove the '---'"
                        raise self._error_at(event, problem, "yaml_documents")
                case yaml.ScalarEvent() | yaml.SequenceStartEvent() | yaml.MappingStartEvent() | yaml.AliasEvent():
                    self._node(event)
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    frame = self._open.pop()
                    if frame.anchor is not None:
                        self._anchors[frame.anchor] = frame.node
                case _:
                    pass
        return self._root

    def _node(
        self, event: yaml.ScalarEvent | yaml.SequenceStartEvent | yaml.MappingStartEvent | yaml.AliasEvent
    ) -> None:
        line, column = _place(event)
        if isinstance(event, yaml.AliasEvent):
            self._add(self._aliased(event), event)
            return
        if event.tag is not None:
            token = token_at(self._text, event.start_mark.index if event.start_mark else 0)
            problem = f"text that starts with '!' means a tag in YAML, and tags are not used here; {quote_hint(token)}"
            raise self._error_at(event, problem, "yaml_quotes_needed")
        if isinstance(event, yaml.ScalarEvent):
            node = _Scalar(line, column, self._joined_surrogates(event), event.style is None)
            self._add(node, event)
            if event.anchor is not None:
                self._anchors[event.anchor] = node
            return
        if len(self._open) >= MAX_DEPTH:
            raise self._error_at(event, f"nested deeper than {MAX_DEPTH} levels; flatten it", "yaml_depth")
        collection = _Sequence(line, column) if isinstance(event, yaml.SequenceStartEvent) else _Mapping(line, column)
        self._add(collection, event)
        self._open.append(_Frame(collection, event.anchor))

    def _aliased(self, event: yaml.AliasEvent) -> _Node:
        name = event.anchor or ""
        node = self._anchors.get(name)
        if node is None:
            token = token_at(self._text, event.start_mark.index if event.start_mark else 0)
            problem = (
                f"text that starts with '*' means an alias in YAML, and no '&{name}' ends above; {quote_hint(token)}"
            )
            raise self._error_at(event, problem, "yaml_quotes_needed")
        return node

    def _add(self, node: _Node, event: yaml.Event) -> None:
        """Put `node` where the innermost open collection expects one."""
        if not self._open:
            self._root = node
            return
        frame = self._open[-1]
        if isinstance(frame.node, _Sequence):
            frame.node.items.append(node)
        elif frame.key is None:
            frame.key = self._checked_key(node, frame.node, event)
        else:
            frame.node.pairs[frame.key.text] = (frame.key, node)
            frame.key = None

    def _checked_key(self, node: _Node, mapping: _Mapping, event: yaml.Event) -> _Scalar:
        if not isinstance(node, _Scalar):
            problem = 'a key must be plain text; text with { } or [ ] needs quotes, such as "{{name}}"'
            raise self._error_at(event, problem, "yaml_key")
        if node.is_plain and not node.text:
            raise self._error_at(event, "a key is missing before the ':'", "yaml_key")
        if node.is_plain and node.text == "<<":
            problem = "merge keys ('<<') are not supported; write the keys out, or alias a whole value ('key: *name')"
            raise self._error_at(event, problem, "yaml_merge_key")
        if node.text in mapping.pairs:
            first = mapping.pairs[node.text][0]
            line, _ = _place(event)
            problem = f"the key {node.text!r} stands in line {first.line} and again in line {line}; remove one"
            raise self._error_at(event, problem, "yaml_duplicate_key")
        return node

    def _joined_surrogates(self, event: yaml.ScalarEvent) -> str:
        r"""Return the text with JSON's escaped pairs ("\ud83d\ude00") joined to the character they mean."""
        try:
            return event.value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as fault:
            problem = "half of a surrogate pair is no character; write the character itself"
            raise self._error_at(event, problem, "yaml_character") from fault

    def _error_at(self, event: yaml.Event, problem: str, code: str) -> ConfigError:
        line, column = _place(event)
        return ConfigError(problem, file=self._file, line=line, column=column, code=code)


def _place(event: yaml.Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


class _DataBuilder:
    """Turns the node tree into data and positions; shared nodes are copied, within `MAX_VALUES`."""

    def __init__(self, file: Path | str | None) -> None:
        self._file = file
        self._positions: dict[KeyPath, Position] = {}

    def document(self, root: _Mapping) -> ConfigDocument:
        """Return the document of `root`."""
        self._positions[()] = Position(root.line, root.column, root.line, root.column)
        return ConfigDocument(self._children(root, ()), self._file, self._positions)

    def _value(self, node: _Node, key: _Scalar | None, path: KeyPath) -> JsonValue:
        if len(self._positions) >= MAX_VALUES:
            problem = f"more than {MAX_VALUES} values once aliases are filled in; use fewer aliases"
            raise _error(problem, node, self._file, "yaml_too_large")
        if len(path) > MAX_DEPTH:
            raise _error(
                f"nested deeper than {MAX_DEPTH} levels by aliases; flatten it", node, self._file, "yaml_depth"
            )
        at = key or node
        raw = node.text if isinstance(node, _Scalar) and node.is_plain else None
        self._positions[path] = Position(node.line, node.column, at.line, at.column, raw)
        match node:
            case _Scalar():
                return self._scalar(node)
            case _Sequence():
                return [self._value(item, None, (*path, index)) for index, item in enumerate(node.items)]
            case _Mapping():
                return self._children(node, path)

    def _children(self, node: _Mapping, path: KeyPath) -> Mapping[str, JsonValue]:
        return {name: self._value(value, key, (*path, name)) for name, (key, value) in node.pairs.items()}

    def _scalar(self, node: _Scalar) -> JsonValue:
        if not node.is_plain:
            return node.text
        try:
            return resolve_plain(node.text)
        except NumberRangeError as fault:
            problem = (
                f"the number {node.text[:40]!r} is too large to keep; if it is an id, {quote_hint(node.text[:40])}"
            )
            raise _error(problem, node, self._file, "yaml_number") from fault
