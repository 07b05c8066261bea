"""The one way to validate configuration: an instance, or a `ConfigError` that points at file, line, column and key.

Every further finding of the same reading is in the error's `others`. Knows no particular setting.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import SecretStr, ValidationError

from ishiki.config.document import ConfigDocument, KeyPath
from ishiki.config.model import ConfigModel
from ishiki.config.problems import Finding, Problem, describe, due_of, not_any_of, shown_value, unknown_key
from ishiki.config.redact import MASK
from ishiki.config.scalars import NumberRangeError, resolve_plain
from ishiki.config.schema import Location, both_spellings, locate, models_of, shown_name
from ishiki.errors import ConfigError
from ishiki.jsonvalue import JsonValue

__all__ = ["validate_config"]

_Config = TypeVar("_Config", bound=ConfigModel)

_SECRET_KEY = re.compile(r"api_?key|token$|secret|password|authorization", re.IGNORECASE)


def validate_config(
    model: type[_Config],
    data: JsonValue,
    *,
    document: ConfigDocument | None = None,
    at: KeyPath = (),
    error_type: type[ConfigError] = ConfigError,
) -> _Config:
    """Validate `data` against `model`.

    Text that came from an environment variable is read as a number or boolean where one is due.

    Args:
        model: the model.
        data: the block: plain JSON data.
        document: the document that `data` was taken from, for positions and variables; None: errors name keys only.
        at: the path of `data` in the document.
        error_type: the class of the error.

    Raises:
        ConfigError: the first finding in the order of the file; the rest is in its `others`.
    """
    source = document or ConfigDocument({})
    reports: list[_Report] = []
    try:
        instance = _validated(model, data)
    except ValidationError as fault:
        instance, reports = _retried(model, data, fault, source, at)
    both = both_spellings(data, model)
    # Pydantic calls one of the two unknown.
    doubled = {(*at, *path, key) for path, *keys in both for key in keys}
    reports = [one for one in reports if one.problem.code != "unknown_key" or one.path not in doubled]
    for path, first, second in both:
        problem = Problem("both_spellings", f"is the same key as {first!r}, which is given too; remove one")
        reports.append(_Report((*at, *path, second), problem, is_key=True))
    # Raised outside the handler: pydantic's own text holds values, which may be secrets.
    if reports or instance is None:
        raise _gathered(reports, source, error_type)
    return instance


@dataclass(frozen=True, slots=True)
class _Report:
    """One finding, ready to become an error."""

    path: KeyPath
    problem: Problem
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class _Fault:
    """One of pydantic's errors, located."""

    kind: str
    message: str
    context: Mapping[str, object]
    where: Location


def _validated(model: type[_Config], data: JsonValue) -> _Config:
    # As JSON, because only there does strict mode take a list for a tuple and refuse text for a number.
    return model.model_validate_json(json.dumps(data, default=dict))


def _retried(
    model: type[_Config], data: JsonValue, fault: ValidationError, source: ConfigDocument, at: KeyPath
) -> tuple[_Config | None, list[_Report]]:
    """Try again with variables' text read as numbers and booleans where those were due."""
    faults = _located(fault, data, model)
    for one in faults:
        kind = one.kind.partition("_")[0]
        if kind in ("bool", "int", "float") and (*at, *one.where.path) in source.variables:
            data = _with_plain(data, one.where.path)
    try:
        return _validated(model, data), []
    except ValidationError as again:
        faults = _located(again, data, model)
    return None, _reports(faults, data, source, at)


def _located(fault: ValidationError, data: JsonValue, model: type[ConfigModel]) -> list[_Fault]:
    return [
        _Fault(one["type"], one["msg"], one.get("ctx", {}), locate(one["loc"], data, model))
        for one in fault.errors(include_url=False)
    ]


def _with_plain(data: JsonValue, path: KeyPath) -> JsonValue:
    """Return `data` with the text at `path` read like an unquoted scalar."""
    if not path:
        try:
            return resolve_plain(data) if isinstance(data, str) else data
        except NumberRangeError:
            return data
    head, rest = path[0], path[1:]
    if isinstance(data, Mapping):
        return {key: _with_plain(value, rest) if key == head else value for key, value in data.items()}
    if data is None or isinstance(data, str | bool | int | float):
        return data
    return [_with_plain(value, rest) if index == head else value for index, value in enumerate(data)]


def _reports(faults: list[_Fault], data: JsonValue, source: ConfigDocument, at: KeyPath) -> list[_Report]:
    reports: list[_Report] = []
    for group in _by_union(faults):
        where = group[0].where
        if len(group) > 1:
            dues = [due for one in group if (due := due_of(one.kind, one.context))]
            reports.append(_Report((*at, *where.path), not_any_of(dues, _finding(group[0], data, source, at))))
            continue
        reports.append(_report(group[0], data, source, at))
    return reports


def _by_union(faults: list[_Fault]) -> Iterable[list[_Fault]]:
    """Yield the errors to report: several in a list where a value fits no member of a union.

    Of a union's members that got further than the kind of the value, only the one with the fewest errors is reported.
    """
    unions: dict[KeyPath, dict[str, list[_Fault]]] = {}
    for one in faults:
        if one.where.branch is None:
            yield [one]
        else:
            unions.setdefault(one.where.branch_path, {}).setdefault(one.where.branch, []).append(one)
    for path, branches in unions.items():
        deeper = [found for found in branches.values() if not all(_is_kind_mismatch(one, path) for one in found)]
        if deeper:
            yield from ([one] for one in min(deeper, key=len))
        else:
            yield [one for found in branches.values() for one in found]


def _is_kind_mismatch(one: _Fault, union: KeyPath) -> bool:
    return one.where.path == union and due_of(one.kind, one.context) is not None


def _finding(one: _Fault, data: JsonValue, source: ConfigDocument, at: KeyPath) -> Finding:
    where = one.where
    path = (*at, *where.path)
    value = _value_at(data, where.path)
    place = source.positions.get(path)
    raw = place.raw if place else None
    shown = shown_value(value, raw)
    names = source.variables.get(path)
    if names:
        shown = f"the value of {' and '.join(f'${{{name}}}' for name in names)}"
    elif value is not None and _is_secret(where):
        shown = MASK
    return Finding(
        kind=one.kind,
        message=one.message,
        value=value,
        shown=shown,
        raw=raw,
        is_hidden=bool(names) or shown == MASK,
        context=one.context,
        description=where.description,
    )


def _report(one: _Fault, data: JsonValue, source: ConfigDocument, at: KeyPath) -> _Report:
    path = (*at, *one.where.path)
    if one.kind == "extra_forbidden":
        return _Report(path, unknown_key(str(one.where.path[-1]), _known_keys(one.where)), is_key=True)
    return _Report(path, describe(_finding(one, data, source, at)), one.where.is_key)


def _known_keys(where: Location) -> list[str]:
    models = models_of(where.owner_types)
    return [shown_name(name, field) for model in models for name, field in model.model_fields.items()]


def _is_secret(where: Location) -> bool:
    is_named_so = any(isinstance(part, str) and _SECRET_KEY.search(part) for part in where.path[-1:])
    return is_named_so or SecretStr in where.types


def _value_at(data: JsonValue, path: KeyPath) -> JsonValue:
    try:
        return ConfigDocument({"": data}).value_at(("", *path))
    except KeyError:
        return None


def _gathered(reports: list[_Report], source: ConfigDocument, error_type: type[ConfigError]) -> ConfigError:
    errors = [
        source.error(
            report.problem.text,
            report.path,
            on="key" if report.is_key else "value",
            code=report.problem.code,
            error_type=error_type,
        )
        for report in reports
    ]
    errors.sort(key=lambda error: (error.line or 0, error.column or 0))
    return errors[0].joined(errors[1:])
