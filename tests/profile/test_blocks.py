"""Settings of engines and extensions: validated by their owners, whoever is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import Field

from ishiki.config import ConfigModel
from ishiki.contracts.engines import (
    ContextEngine,
    ContextEngineInstance,
    ToolcallEngine,
    ToolcallEngineInstance,
    WakeupEngine,
    WakeupEngineInstance,
)
from ishiki.contracts.extension import Extension, ExtensionInstance
from ishiki.contracts.host import ExtensionHost
from ishiki.contracts.services import ServiceRegistry
from ishiki.errors import ActivationError, ConfigError
from ishiki.jsonvalue import JsonObject
from ishiki.profile.blocks import ValidatedBlocks, validate_blocks
from ishiki.profile.profile import Profile
from ishiki.profile.reading import read_profile

from .folders import GOOD, write_profile


class RhythmConfig(ConfigModel):
    every_seconds: int = Field(default=60, ge=1, description="Seconds between two wakes.")


class NoteConfig(ConfigModel):
    prefix: str = Field(default="note", description="What notes begin with.")


class Context(ContextEngine[JsonObject]):
    name = "standard"

    def create(self, host: ExtensionHost, config: JsonObject) -> ContextEngineInstance:
        raise NotImplementedError


class Standard(WakeupEngine[JsonObject]):
    name = "standard"

    def create(self, host: ExtensionHost, config: JsonObject) -> WakeupEngineInstance:
        raise NotImplementedError


class Rhythm(WakeupEngine[RhythmConfig]):
    name = "rhythm"
    Config = RhythmConfig

    def create(self, host: ExtensionHost, config: RhythmConfig) -> WakeupEngineInstance:
        raise NotImplementedError


class Native(ToolcallEngine[JsonObject]):
    name = "native"

    def create(self, host: ExtensionHost, config: JsonObject) -> ToolcallEngineInstance:
        raise NotImplementedError


class Note(Extension[NoteConfig]):
    name = "note"
    Config: ClassVar[type[ConfigModel] | None] = NoteConfig

    def create(self, host: ExtensionHost, config: NoteConfig) -> ExtensionInstance | None:
        raise NotImplementedError


class Clock(Extension[JsonObject]):
    name = "clock"

    def create(self, host: ExtensionHost, config: JsonObject) -> ExtensionInstance | None:
        raise NotImplementedError


@pytest.fixture
def services() -> ServiceRegistry:
    """A registry with one engine per family, a second wakeup engine, and two extensions."""
    registry = ServiceRegistry()
    for provider in (Context(), Standard(), Rhythm(), Native(), Note(), Clock()):
        registry.provide(provider)
    return registry


def profile_of(directory: Path, more: str = "") -> Profile:
    """Read a profile with `more` behind its channels, which end in line 3."""
    return read_profile(write_profile(directory, "neko", GOOD + more).parent, {})


def validated(directory: Path, services: ServiceRegistry, more: str = "") -> ValidatedBlocks:
    """Validate such a profile."""
    return validate_blocks(profile_of(directory, more), services)


def test_absent_blocks_are_the_providers_defaults(tmp_path: Path, services: ServiceRegistry) -> None:
    """Design, contracts: `create` gets the validated instance of its own block; absent: defaults."""
    blocks = validated(tmp_path, services, "wakeup: {engine: rhythm}\nextends: {note: }\n")
    assert blocks.engines == {"context": {}, "wakeup": RhythmConfig(every_seconds=60), "toolcall": {}}
    assert blocks.extensions == {"note": NoteConfig(prefix="note")}
    assert (blocks.missing, blocks.warnings) == ((), ())


def test_blocks_are_validated_by_the_providers_config(tmp_path: Path, services: ServiceRegistry) -> None:
    """Specification, engine system: each engine gets its own block, camelCase accepted."""
    more = "wakeup: {engine: rhythm, rhythm: {everySeconds: 5}}\nextends: {clock: {}, note: {config: {prefix: n}}}\n"
    blocks = validated(tmp_path, services, more)
    assert blocks.engines["wakeup"] == RhythmConfig(every_seconds=5)
    assert list(blocks.extensions.items()) == [("clock", {}), ("note", NoteConfig(prefix="n"))]


def test_a_provider_without_config_gets_the_raw_block_read_only(tmp_path: Path, services: ServiceRegistry) -> None:
    """Design, contracts: `Config` None: `create` gets the raw mapping, read-only."""
    more = "extends: {clock: {config: {at: [1, {h: 2}], zone: utc}}}\n"
    block = validated(tmp_path, services, more).extensions["clock"]
    assert block == {"at": (1, {"h": 2}), "zone": "utc"}
    assert isinstance(block, Mapping)
    assert not hasattr(block, "__setitem__")


def test_a_slip_in_a_block_is_an_error_at_its_place(tmp_path: Path, services: ServiceRegistry) -> None:
    """Design, configuration: every error has file, line, column, key, the nearest known key."""
    with pytest.raises(ConfigError) as caught:
        validated(tmp_path, services, "wakeup:\n  engine: rhythm\n  rhythm: {every_second: 5}\n")
    error = caught.value
    assert (error.code, error.line, error.column, error.key) == ("unknown_key", 6, 12, "wakeup.rhythm.every_second")
    assert "'every_seconds'" in error.problem
    assert error.file == tmp_path / "neko" / "profile.yaml"


def test_the_slips_of_all_blocks_are_reported_together(tmp_path: Path, services: ServiceRegistry) -> None:
    """Our choice: one start of the bot shows everything there is to mend."""
    more = "wakeup: {engine: rhythm, rhythm: {every_seconds: 0}}\nextends:\n  note: {config: {prefix: 1}}\n"
    with pytest.raises(ConfigError) as caught:
        validated(tmp_path, services, more)
    found = [(error.line, error.key) for error in (caught.value, *caught.value.others)]
    assert found == [(4, "wakeup.rhythm.every_seconds"), (6, "extends.note.config.prefix")]


def test_a_known_engine_that_is_not_chosen_is_validated_too(tmp_path: Path, services: ServiceRegistry) -> None:
    """Design, contracts: blocks of known but unselected engines are validated too."""
    with pytest.raises(ConfigError) as caught:
        validated(tmp_path, services, "wakeup: {engine: standard, rhythm: {every_seconds: often}}\n")
    assert (caught.value.code, caught.value.key) == ("wrong_type", "wakeup.rhythm.every_seconds")


def test_a_block_that_waits_for_a_variable_is_not_validated_while_out_of_use(
    tmp_path: Path, services: ServiceRegistry
) -> None:
    """Our choice: an unset variable of an engine that nobody chose is no error, so neither is its text."""
    blocks = validated(tmp_path, services, 'wakeup: {engine: standard, rhythm: {every_seconds: "${EVERY}"}}\n')
    assert blocks.engines["wakeup"] == {}


def test_a_block_of_a_package_that_is_not_installed_is_kept_with_a_warning(
    tmp_path: Path, services: ServiceRegistry
) -> None:
    """Design, contracts: blocks of packages that are not installed are kept with a warning."""
    blocks = validated(tmp_path, services, "wakeup:\n  engine: standard\n  rythm: {every_seconds: 5}\n")
    (warning,) = blocks.warnings
    assert (warning.code, warning.line, warning.column, warning.key) == ("unknown_engine_block", 6, 3, "wakeup.rythm")
    assert "'rhythm'" in warning.problem


def test_a_missing_service_is_named_with_the_line_that_asks_for_it(tmp_path: Path, services: ServiceRegistry) -> None:
    """Design, contracts: one `missing required service …` with the profile's file and line; the profile waits."""
    profile = profile_of(tmp_path, "extends:\n  diary: {}\n  off: {enable: false}\nwakeup:\n  engine: moon\n")
    blocks = validate_blocks(profile, services)
    assert [(one.name, one.error.line, one.error.key) for one in blocks.missing] == [
        ("ishiki.ext.diary", 5, "extends.diary"),
        ("ishiki.engine.wakeup.moon", 8, "wakeup.engine"),
    ]
    error = blocks.missing_error(profile)
    assert isinstance(error, ActivationError)
    assert (error.code, error.profile_id) == ("service_missing", "neko")
    assert error.missing == ("ishiki.ext.diary", "ishiki.engine.wakeup.moon")
    assert f"{profile.file}:8:11: wakeup.engine: missing required service ishiki.engine.wakeup.moon" in str(error)


def test_a_default_engine_that_is_missing_is_named_too(tmp_path: Path) -> None:
    """Our choice: engines that the profile leaves out are services as well."""
    blocks = validated(tmp_path, ServiceRegistry())
    assert [one.name for one in blocks.missing] == [
        "ishiki.engine.context.standard",
        "ishiki.engine.wakeup.standard",
        "ishiki.engine.toolcall.native",
    ]
    assert blocks.engines == {}


def test_nothing_is_missing_once_a_provider_came(tmp_path: Path, services: ServiceRegistry) -> None:
    """Specification, engine system: the profile goes on when the service appears."""
    profile = profile_of(tmp_path, "extends: {note: }\n")
    services_without = ServiceRegistry()
    for provider in (Context(), Standard(), Native()):
        services_without.provide(provider)
    assert validate_blocks(profile, services_without).missing_error(profile) is not None
    services_without.provide(Note())
    assert validate_blocks(profile, services_without).missing_error(profile) is None
