"""From one profile's folder to one `Profile`, or to the errors of its file. Blocks on the disk; knows no neighbours."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ishiki.config import ConfigDocument, Expanded, KeyPath, expand, load_yaml, nearest, validate_config
from ishiki.contracts.engines import EngineFamily
from ishiki.errors import ConfigError
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.profile.claims import parse_claims
from ishiki.profile.profile import ENGINE_FAMILIES, Profile
from ishiki.profile.schema import ProfileConfig

__all__ = ["PROFILE_FILES", "NoProfileFileError", "find_profile_file", "read_profile"]

PROFILE_FILES = ("profile.yaml", "profile.yml")


class NoProfileFileError(ConfigError):
    """A folder without a profile file: skipped with a warning, because it may be anything."""

    default_code = "profile_file_missing"


def find_profile_file(folder: Path) -> Path:
    """Return the folder's profile file. Both spellings at once are an error, because one of them would be ignored.

    Raises:
        NoProfileFileError: there is none.
        ConfigError: there are both, or the folder cannot be read.
    """
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError as fault:
        reason = fault.strerror or type(fault).__name__
        raise ConfigError(f"cannot be read: {reason}", file=folder, code="config_unreadable") from fault
    found = [name for name in PROFILE_FILES if name in names]
    if len(found) > 1:
        problem = f"stands beside {PROFILE_FILES[0]}; keep one of the two and remove the other"
        raise ConfigError(problem, file=folder / PROFILE_FILES[1], code="profile_file_twice")
    if found:
        return folder / found[0]
    close = nearest(PROFILE_FILES[0], [name for name in names if name.lower().endswith((".yaml", ".yml"))])
    hint = f"rename {close!r} to {PROFILE_FILES[0]}" if close else f"write {PROFILE_FILES[0]}, or remove the folder"
    raise NoProfileFileError(f"has no {PROFILE_FILES[0]} and is skipped; {hint}", file=folder)


def read_profile(folder: Path, environment: Mapping[str, str]) -> Profile:
    """Read the profile in `folder`.

    Raises:
        NoProfileFileError: there is no profile file.
        ConfigError: the file is faulty; further findings of the same reading are in its `others`.
    """
    file = find_profile_file(folder)
    written = load_yaml(file)
    expanded = expand(written, environment)
    document = expanded.document
    split = _split_blocks(document)
    errors = list(split.errors)
    config: ProfileConfig | None = None
    try:
        config = validate_config(ProfileConfig, split.kernel, document=document)
    except ConfigError as fault:
        errors.extend(_each(fault))
    idle = _idle_blocks(config, split)
    missing = expanded.missing_error(ignore=idle)
    if missing is not None:
        unset = _each(missing)
        # A value that was not filled in may look wrong as well; the variable is the one thing to mend.
        errors = [error for error in errors if error.key not in {one.key for one in unset}]
        errors.extend(unset)
    if config is None or errors:
        raise _first_of(errors)
    return Profile(
        id=folder.name,
        folder=folder,
        file=file,
        config=config,
        claims=parse_claims(config.channels, document=document, is_fallback=config.fallback),
        document=document,
        blocks=split.blocks,
        unset=_unset_in(expanded, idle),
        secrets=expanded.secrets,
        fingerprint=hashlib.sha256(json.dumps(document.data, default=dict).encode()).hexdigest(),
    )


@dataclass(frozen=True, slots=True)
class _Split:
    """The data of a profile, taken apart: what the kernel validates, and the engines' own blocks."""

    kernel: JsonObject
    blocks: Mapping[EngineFamily, Mapping[str, JsonObject]]
    errors: tuple[ConfigError, ...]


def _split_blocks(document: ConfigDocument) -> _Split:
    kernel = dict(document.data)
    blocks: dict[EngineFamily, Mapping[str, JsonObject]] = {}
    errors: list[ConfigError] = []
    for family in ENGINE_FAMILIES:
        section = kernel.get(family)
        blocks[family] = {}
        if not isinstance(section, Mapping):
            continue
        chosen = section.get("engine")
        is_list = isinstance(chosen, Sequence) and not isinstance(chosen, str)
        if is_list:
            problem = "takes one engine, not a list; an engine that builds on another names it in its own settings"
            errors.append(document.error(problem, (family, "engine"), code="wrong_type"))
        kernel[family] = {"engine": chosen} if "engine" in section and not is_list else {}
        own: dict[str, JsonObject] = {}
        for name, block in section.items():
            if name == "engine":
                continue
            if isinstance(block, Mapping):
                own[name] = block
            elif block is None:
                own[name] = {}
            else:
                problem = _misplaced(name, chosen, family)
                errors.append(document.error(problem, (family, name), on="key", code="unknown_key"))
        blocks[family] = own
    return _Split(kernel, blocks, tuple(errors))


def _misplaced(name: str, chosen: JsonValue, family: str) -> str:
    """Word a key beside `engine` that holds no block."""
    if nearest(name, ["engine"]):
        return f"unknown key {name!r}; did you mean 'engine'?"
    engine = chosen if isinstance(chosen, str) and chosen else "<engine>"
    return (
        f"unknown key {name!r}; a setting of an engine stands one level deeper, under the engine's name: "
        f"{family}: {{engine: {engine}, {engine}: {{{name}: …}}}}"
    )


def _idle_blocks(config: ProfileConfig | None, split: _Split) -> tuple[KeyPath, ...]:
    """Return the blocks that are out of use: what they need from the environment may be unset."""
    if config is None:
        return ()
    chosen = {"context": config.context.engine, "wakeup": config.wakeup.engine, "toolcall": config.toolcall.engine}
    engines = [(family, name) for family, own in split.blocks.items() for name in own if name != chosen[family]]
    disabled = [("extends", name) for name, entry in config.extends.items() if entry is not None and not entry.enable]
    return (*engines, *disabled)


def _unset_in(expanded: Expanded, paths: Iterable[KeyPath]) -> frozenset[KeyPath]:
    return frozenset(one.path for path in paths for one in expanded.missing_at(path))


def _each(error: ConfigError) -> tuple[ConfigError, ...]:
    """Return the findings of one reading, each as an error of its own."""
    others, error.others = error.others, ()
    return (error, *others)


def _first_of(errors: Iterable[ConfigError]) -> ConfigError:
    """Return the first finding of the file; the others follow in its `others`."""
    first, *rest = sorted(errors, key=lambda error: (error.line or 0, error.column or 0))
    return first.joined(rest)
