"""The settings of a profile's engines and extensions, validated by those who own them.

Knows providers by their service names and their `Config` only; creates nothing. Unknown blocks may belong to a package
that is not installed, so they are kept, with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from ishiki.config import ConfigModel, KeyPath, nearest, validate_config
from ishiki.contracts.engines import ChosenWakeup, ContextEngine, EngineFamily, ToolcallEngine, WakeupEngine
from ishiki.contracts.extension import Extension
from ishiki.contracts.services import Provider, ServiceRegistry, engine_service, extension_service
from ishiki.errors import ActivationError, ConfigError
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.profile.profile import ENGINE_FAMILIES, Profile

__all__ = ["BlockConfig", "MissingService", "ValidatedBlocks", "required_services", "validate_blocks"]

BlockConfig: TypeAlias = "ConfigModel | JsonObject"
"""What `create` is handed: an instance of the provider's `Config`, or the raw mapping, read-only."""

# `Any`: as in `Provider`; only the class's own `Config` is looked at here.
_KINDS: tuple[
    type[Extension[Any]] | type[ContextEngine[Any]] | type[WakeupEngine[Any]] | type[ToolcallEngine[Any]], ...
] = (
    Extension,
    ContextEngine,
    WakeupEngine,
    ToolcallEngine,
)


@dataclass(frozen=True, slots=True)
class MissingService:
    """A service that the profile needs and nobody provides."""

    name: str
    """Such as `ishiki.engine.wakeup.rhythm`."""
    error: ConfigError
    """`missing required service …`, with the place in the profile; never raised."""


@dataclass(frozen=True, slots=True)
class ValidatedBlocks:
    """The settings of everything that a profile uses."""

    engines: Mapping[EngineFamily, BlockConfig]
    """By family; without those whose provider is missing."""
    extensions: Mapping[str, BlockConfig]
    """By name, enabled ones only, in the order of `extends`; without those whose provider is missing."""
    missing: tuple[MissingService, ...] = ()
    """Extensions first, in the order of `extends`, then engines."""
    warnings: tuple[ConfigError, ...] = ()
    """Blocks that belong to no provider; never raised."""

    def missing_error(self, profile: Profile) -> ActivationError | None:
        """Return the error that says what `profile` waits for, one line per service; None where nothing is missing."""
        if not self.missing:
            return None
        lines = "\n".join(str(one.error) for one in self.missing)
        text = f"{lines}\nthe profile {profile.id!r} is waiting for it"
        return ActivationError(text, profile_id=profile.id, missing=[one.name for one in self.missing])


def required_services(profile: Profile) -> Mapping[str, KeyPath]:
    """Return the services that the profile needs, each with the key that asks for it."""
    extensions = {extension_service(name): ("extends", name) for name in profile.extensions}
    engines = {engine_service(family, profile.engine(family)): (family, "engine") for family in ENGINE_FAMILIES}
    return {**extensions, **engines}


def validate_blocks(profile: Profile, services: ServiceRegistry) -> ValidatedBlocks:
    """Validate the block of every engine and enabled extension that has a provider.

    Blocks of engines that are known but not chosen are validated too: a slip in them is found now, not on the day the
    engine is chosen.

    Raises:
        ConfigError: a block is faulty; the faults of all blocks are in its `others`, in the order of the file.
    """
    return _Validation(profile, services).run()


class _Validation:
    """One validation of one profile."""

    def __init__(self, profile: Profile, services: ServiceRegistry) -> None:
        self._profile = profile
        self._services = services
        self._errors: list[ConfigError] = []
        self._warnings: list[ConfigError] = []
        self._missing_bases: dict[str, KeyPath] = {}

    def run(self) -> ValidatedBlocks:
        extensions = self._extensions()
        engines = self._engines()
        if self._errors:
            # Each holds the faults of one block in the order of the file, so only the blocks need sorting.
            first, *rest = sorted(self._errors, key=lambda error: (error.line or 0, error.column or 0))
            raise first.joined(rest)
        missing = tuple(
            MissingService(name, self._profile.error(f"missing required service {name}", path, code="service_missing"))
            for name, path in {**required_services(self._profile), **self._missing_bases}.items()
            if not self._services.has(name)
        )
        return ValidatedBlocks(engines, extensions, missing, tuple(self._warnings))

    def _extensions(self) -> Mapping[str, BlockConfig]:
        configs: dict[str, BlockConfig] = {}
        for name in self._profile.extensions:
            provider = self._provider(extension_service(name))
            if provider is None:
                continue
            entry = self._profile.config.extends[name]
            block: JsonObject = {} if entry is None else entry.config
            config = self._validated(provider, block, ("extends", name, "config"))
            if config is not None:
                configs[name] = config
        return configs

    def _engines(self) -> Mapping[EngineFamily, BlockConfig]:
        configs: dict[EngineFamily, BlockConfig] = {}
        for family in ENGINE_FAMILIES:
            chosen = self._profile.engine(family)
            blocks = self._profile.blocks.get(family, {})
            for name in dict.fromkeys((chosen, *blocks)):
                provider = self._provider(engine_service(family, name))
                if provider is None:
                    if name != chosen:
                        self._warn_unknown(family, name, (family, name))
                    continue
                config = self._engine_config(provider, blocks.get(name, {}), (family, name), is_chosen=name == chosen)
                if name == chosen and config is not None:
                    configs[family] = config
        return configs

    def _engine_config(
        self, provider: Provider, block: JsonObject, path: KeyPath, *, is_chosen: bool
    ) -> BlockConfig | None:
        """Validate an engine's block, and in it the engine on which this one builds, if it says so."""
        key = provider.base_key if isinstance(provider, WakeupEngine) else None
        if key is None or block.get(key) is None:
            return self._validated(provider, block, path)
        base = self._base(block[key], (*path, key), is_chosen=is_chosen)
        config = self._validated(provider, {name: value for name, value in block.items() if name != key}, path)
        if base is None or not isinstance(config, ConfigModel):
            return None
        return config.model_copy(update={key: base})

    def _base(self, section: JsonValue, path: KeyPath, *, is_chosen: bool) -> ChosenWakeup | None:
        """Validate a section inside a block; None where it is faulty, or its engine is missing."""
        chosen = section.get("engine") if isinstance(section, Mapping) else None
        if not isinstance(section, Mapping) or not isinstance(chosen, str) or not chosen:
            problem = "names no engine; write {engine: standard}, with the engine's settings beside it under its name"
            self._errors.append(self._profile.error(problem, path, code="wrong_type"))
            return None
        found: ChosenWakeup | None = None
        blocks: dict[str, JsonValue] = {name: block for name, block in section.items() if name != "engine"}
        for name in dict.fromkeys((chosen, *blocks)):
            block = blocks.get(name) or {}
            service = engine_service("wakeup", name)
            provider = cast("WakeupEngine[Any] | None", self._services.get(service, WakeupEngine))
            if not isinstance(block, Mapping):
                problem = f"unknown key {name!r}; a setting of an engine stands one level deeper, under its name"
                self._errors.append(self._profile.error(problem, (*path, name), on="key", code="unknown_key"))
            elif provider is not None:
                config = self._engine_config(provider, block, (*path, name), is_chosen=is_chosen and name == chosen)
                if name == chosen and config is not None:
                    found = ChosenWakeup(provider, config)
            elif name != chosen:
                self._warn_unknown("wakeup", name, (*path, name))
            elif is_chosen:
                self._missing_bases[service] = (*path, "engine")
        return found

    def _provider(self, service: str) -> Provider | None:
        # The name says which kind it is; a registry holds each name once.
        return next((found for kind in _KINDS if (found := self._services.get(service, kind)) is not None), None)

    def _validated(self, provider: Provider, block: JsonObject, path: KeyPath) -> BlockConfig | None:
        if any(one[: len(path)] == path for one in self._profile.unset):
            return None
        if provider.Config is None:
            return _read_only(block)
        try:
            return validate_config(provider.Config, block, document=self._profile.document, at=path)
        except ConfigError as fault:
            self._errors.append(fault)
            return None

    def _warn_unknown(self, family: EngineFamily, name: str, path: KeyPath) -> None:
        prefix = engine_service(family, "")
        known = [service.removeprefix(prefix) for service in self._services.names() if service.startswith(prefix)]
        close = nearest(name, known)
        hint = f"did you mean {close!r}?" if close else f"known: {', '.join(known) or 'none'}"
        problem = f"no {family} engine of the name {name!r} is installed; its settings are kept and do nothing ({hint})"
        self._warnings.append(self._profile.error(problem, path, on="key", code="unknown_engine_block"))


def _read_only(block: JsonObject) -> JsonObject:
    return MappingProxyType({key: _frozen(value) for key, value in block.items()})


def _frozen(value: JsonValue) -> JsonValue:
    if isinstance(value, Mapping):
        return _read_only(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return tuple(_frozen(item) for item in value)
