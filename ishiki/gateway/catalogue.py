"""models.yaml as a checked whole: which providers are usable, what a reference means.

Owns everything that depends on more than one value of the file, and the errors of references. Makes no calls.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from ishiki.config import ConfigDocument, Expanded, KeyPath, expand, load_yaml, nearest, validate_config
from ishiki.errors import ConfigError, GatewayError
from ishiki.gateway.addresses import address_advice
from ishiki.gateway.calls import RESERVED_SETTINGS
from ishiki.gateway.demo import DEMO_REF
from ishiki.gateway.schema import LEVELS, GroupConfig, ModelConfig, ModelsFile, ModelType, ProviderConfig
from ishiki.jsonvalue import JsonObject

__all__ = ["Catalogue", "ModelEntry", "ProviderEntry", "Reference", "read_catalogue"]

logger = logging.getLogger(__name__)

_KEYLESS = ("litellm", "demo")
"""Apis whose key may come from elsewhere, or that need none; `openai-completions` too where it has a base_url."""

_HTTP_URL = re.compile(r"https?://[^\s/?#]+[^\s]*$")


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One declared model."""

    provider_id: str
    config: ModelConfig

    @property
    def ref(self) -> str:
        """`provider:model`."""
        return f"{self.provider_id}:{self.config.id}"


@dataclass(frozen=True, slots=True)
class ProviderEntry:
    """One provider, usable or not."""

    provider_id: str
    config: ProviderConfig
    models: Mapping[str, ModelEntry]
    """By id, in declared order."""
    unset: tuple[str, ...] = ()
    """Environment variables that it needs and that are not set; with any, it is unconfigured."""

    @property
    def is_demo(self) -> bool:
        """Whether it answers without a network."""
        return self.config.api == "demo"


@dataclass(frozen=True, slots=True)
class Reference:
    """What `provider:model[:level]` stands for."""

    ref: str
    provider: ProviderEntry
    model: ModelEntry
    level: str | None = None


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything that models.yaml says, and the built-in demo."""

    file: Path | None
    providers: Mapping[str, ProviderEntry]
    groups: Mapping[str, GroupConfig]
    secrets: frozenset[str] = field(default_factory=frozenset[str])
    """Values that must not be shown."""
    document: ConfigDocument = field(default_factory=lambda: ConfigDocument({}))

    @property
    def unset(self) -> tuple[str, ...]:
        """The variables that would make further members of groups usable, each once; without any such, of providers."""
        in_groups = {ref.partition(":")[0] for group in self.groups.values() for ref in group.models}
        lacking = [provider for provider in self.providers.values() if provider.unset]
        asked = [provider for provider in lacking if provider.provider_id in in_groups] or lacking
        return tuple(dict.fromkeys(name for provider in asked for name in provider.unset))

    @property
    def unused(self) -> tuple[ProviderEntry, ...]:
        """The providers that lack a variable and that no group names: nobody has asked for them."""
        in_groups = {ref.partition(":")[0] for group in self.groups.values() for ref in group.models}
        return tuple(one for one in self.providers.values() if one.unset and one.provider_id not in in_groups)

    def models(self, model_type: ModelType | None = None) -> Iterator[ModelEntry]:
        """Yield the models of usable providers, of one type or of all."""
        for provider in self.providers.values():
            if not provider.unset:
                yield from (model for model in provider.models.values() if model_type in (None, model.config.type))

    def resolve(self, ref: str, *, at: KeyPath | None = None) -> Reference:
        """Return what a model reference stands for; it may belong to an unconfigured provider.

        Args:
            ref: `provider:model[:level]`.
            at: where in models.yaml it stands; None: somewhere else, and errors name the file only.

        Raises:
            GatewayError: it names nothing that is declared, nothing that thinks, or a level that the model lacks.
        """
        provider_id, _, rest = ref.partition(":")
        provider = self.providers.get(provider_id)
        if provider is None:
            listed = ", ".join(self.providers)
            hint = _did_you_mean(provider_id, self.providers)
            raise self._error(
                f"{ref!r} names no provider of models.yaml{hint} (known: {listed})", "unknown_provider", at
            )
        model, level = self._model_and_level(provider, ref, rest, at)
        if model.config.type != "language":
            problem = f"{ref!r} is of type {model.config.type!r}; a mind thinks with type 'language'"
            raise self._error(problem, "wrong_model_type", at)
        efforts = model.config.thinking.efforts if model.config.thinking is not None else ()
        if level is not None and efforts and level not in efforts:
            problem = f"{ref!r}: the model has no level {level!r} (thinking.efforts: {', '.join(efforts)})"
            raise self._error(problem, "unsupported_level", at)
        return Reference(ref, provider, model, level)

    def group(self, name: str) -> GroupConfig:
        """Return a group.

        Raises:
            GatewayError: there is none of that name.
        """
        group = self.groups.get(name)
        if group is None:
            known = [*self.groups, *(model.ref for model in self.models("language"))]
            hint = _did_you_mean(name, known)
            listed = ", ".join(self.groups) or "none"
            problem = f"{name!r} is neither a group nor a model as 'provider:model'{hint} (groups: {listed})"
            raise self._error(problem, "unknown_group", None)
        return group

    def usable(self, name: str) -> Sequence[Reference]:
        """Return the members of a group that can be asked: those configured, or its demo models where none is.

        Raises:
            GatewayError: there is no such group, or none of its members can be asked.
        """
        members = [self.resolve(ref) for ref in self.group(name).models]
        configured = [member for member in members if not member.provider.unset]
        found = [member for member in configured if not member.provider.is_demo] or configured
        if not found:
            unset = tuple(dict.fromkeys(one for member in members for one in member.provider.unset))
            problem = f"no model of the group {name!r} is configured; set one of {', '.join(unset)} in .env"
            raise self._error(f"{problem}, or add {DEMO_REF!r} to the group", "provider_unconfigured", ("groups", name))
        return found

    def unconfigured(self, reference: Reference) -> GatewayError:
        """Make the error for a model whose provider lacks a variable."""
        provider = reference.provider
        problem = f"{reference.ref!r} cannot be used: {_not_set(provider.unset)}; set it in .env"
        return self._error(problem, "provider_unconfigured", ("providers", provider.provider_id))

    def _model_and_level(
        self, provider: ProviderEntry, ref: str, rest: str, at: KeyPath | None
    ) -> tuple[ModelEntry, str | None]:
        # Ids may hold colons themselves (`qwen3:8b`): the whole is tried first.
        if (model := provider.models.get(rest)) is not None:
            return model, None
        model_id, _, level = rest.rpartition(":")
        model = provider.models.get(model_id)
        if model is not None and level in LEVELS:
            return model, level
        if model is not None:
            hint = _did_you_mean(level, LEVELS)
            raise self._error(
                f"{ref!r} ends in an unknown level{hint} (known: {', '.join(LEVELS)})", "unknown_level", at
            )
        hint = _did_you_mean(rest, provider.models)
        declared = ", ".join(provider.models) or "none"
        problem = f"{ref!r} names no declared model of {provider.provider_id!r}{hint} (declared: {declared})"
        raise self._error(
            f"{problem}; declare it under providers.{provider.provider_id}.models", "undeclared_model", at
        )

    def _error(self, problem: str, code: str, at: KeyPath | None) -> GatewayError:
        if at is None:
            return GatewayError(problem, file=self.file, code=code)
        on = "key" if len(at) == 2 else "value"  # a whole provider or group is pointed at by its name
        return cast("GatewayError", self.document.error(problem, at, on=on, code=code, error_type=GatewayError))


def read_catalogue(file: Path | None, environment: Mapping[str, str]) -> Catalogue:
    """Read models.yaml. Blocks on the disk.

    Args:
        file: the file; None, or one that does not exist: the built-in demo alone.
        environment: for `${NAME}`.

    Raises:
        ConfigError: the file is no valid models.yaml; every finding is in the error.
    """
    if file is None or not file.exists():
        if file is not None:
            logger.warning("%s does not exist: only %s answers; see docs/reference/models.md", file, DEMO_REF)
        return Catalogue(file, {"demo": _demo_provider(None)}, {})
    document = load_yaml(file, allow_empty=True)
    return _Builder(expand(document, environment)).build(file)


class _Builder:
    """One reading of one file."""

    def __init__(self, expanded: Expanded) -> None:
        self._expanded = expanded
        self._document = expanded.document
        self._errors: list[ConfigError] = []

    def build(self, file: Path) -> Catalogue:
        """Return the catalogue.

        Raises:
            ConfigError: everything that is wrong.
        """
        unset = self._unset_by_provider()
        missing = self._expanded.missing_error(
            ignore=tuple(path for paths in unset.values() for path in paths), error_type=GatewayError
        )
        if missing is not None:
            raise missing
        config = validate_config(ModelsFile, self._document.data, document=self._document, error_type=GatewayError)
        providers: dict[str, ProviderEntry] = {}
        for provider_id, provider in config.providers.items():
            providers[provider_id] = self._provider(provider_id, provider, unset.get(provider_id, {}))
        providers["demo"] = _demo_provider(providers.get("demo"))
        catalogue = Catalogue(file, providers, config.groups, self._secrets(config), self._document)
        self._check_groups(catalogue)
        self._raise_errors()
        unused = catalogue.unused
        for entry in providers.values():
            if entry.unset and entry not in unused:
                logger.warning("%s: provider %r is left out: %s", file, entry.provider_id, _not_set(entry.unset))
            elif not entry.unset:
                self._warn_of_address(entry)
        if unused:
            names = ", ".join(entry.provider_id for entry in unused)
            logger.info("%s: in no group, and without their keys: %s", file, names)
        return catalogue

    def _unset_by_provider(self) -> dict[str, dict[KeyPath, str]]:
        """Return the unset variables with their places, by provider; those inside its models are not among them."""
        found: dict[str, dict[KeyPath, str]] = {}
        for one in self._expanded.missing:
            match one.path:
                case ("providers", str(provider_id), str(key), *_) if key != "models":
                    found.setdefault(provider_id, {})[one.path] = one.variable
                case _:
                    pass
        return found

    def _provider(self, provider_id: str, config: ProviderConfig, unset: Mapping[KeyPath, str]) -> ProviderEntry:
        at: KeyPath = ("providers", provider_id)
        if ":" in provider_id or not provider_id:
            self._refuse("a provider's id cannot hold ':'; references are written provider:model", at, on="key")
        if provider_id == "demo" and config.api != "demo":
            self._refuse("the id 'demo' belongs to the built-in demo; choose another id", at, on="key")
        if config.api_key is None and config.api not in _KEYLESS and not self._is_keyless_server(config):
            problem = f'needs an api_key for api {config.api!r}; write api_key: "${{NAME}}" and set NAME in .env'
            self._refuse(problem, at, on="key", code="missing_key")
        if config.base_url is not None and not unset and not _HTTP_URL.match(config.base_url):
            self._refuse("must be an address such as https://host/v1", (*at, "base_url"), code="bad_base_url")
        for name in config.settings:
            if name in RESERVED_SETTINGS:
                self._refuse(
                    f"the setting {name!r} is not yours to set here; remove it", (*at, "settings", name), on="key"
                )
        models: dict[str, ModelEntry] = {}
        for index, model in enumerate(config.models):
            if model.id in models:
                self._warn_repeated(model.id, (*at, "models", index))
            # The last declaration wins and keeps the place of the first. Source: reference, gateway.
            models[model.id] = ModelEntry(provider_id, model)
            if config.api == "litellm" and "/" not in model.id:
                problem = f"must be named as LiteLLM names it, 'provider/model', is {model.id!r}"
                self._refuse(problem, (*at, "models", index, "id"))
        return ProviderEntry(provider_id, config, models, tuple(dict.fromkeys(unset.values())))

    def _is_keyless_server(self, config: ProviderConfig) -> bool:
        return config.api == "openai-completions" and config.base_url is not None

    def _check_groups(self, catalogue: Catalogue) -> None:
        for name, group in catalogue.groups.items():
            at: KeyPath = ("groups", name)
            if ":" in name or not name:
                self._refuse("a group's name cannot hold ':', which marks provider:model", at, on="key")
            for index, ref in enumerate(group.models):
                try:
                    catalogue.resolve(ref, at=(*at, "models", index))
                except GatewayError as error:
                    self._errors.append(error)

    def _secrets(self, config: ModelsFile) -> frozenset[str]:
        found = set(self._expanded.secrets)
        for provider in config.providers.values():
            found.update(header.get_secret_value() for header in provider.headers.values())
            if provider.api_key is not None:
                found.add(provider.api_key.get_secret_value())
        return frozenset(found)

    def _warn_of_address(self, entry: ProviderEntry) -> None:
        """Say what is wrong with an address that most likely answers nothing."""
        base_url = entry.config.base_url
        advice = address_advice(entry.config.api, base_url) if base_url is not None else None
        if advice is not None:
            place = self._document.error(f"{base_url!r} {advice}", ("providers", entry.provider_id, "base_url"))
            logger.warning("%s", place)

    def _warn_repeated(self, model_id: str, at: KeyPath) -> None:
        place = self._document.error(f"the model {model_id!r} is declared twice; the last one counts", at)
        logger.warning("%s", place)

    def _refuse(
        self, problem: str, at: KeyPath, *, on: Literal["key", "value"] = "value", code: str | None = None
    ) -> None:
        self._errors.append(self._document.error(problem, at, on=on, code=code, error_type=GatewayError))

    def _raise_errors(self) -> None:
        if self._errors:
            first, *others = sorted(self._errors, key=lambda error: (error.line or 0, error.column or 0))
            raise first.joined(others)


def _demo_provider(declared: ProviderEntry | None) -> ProviderEntry:
    """Return the built-in provider, with what a file declares beside its own model."""
    own = ModelEntry("demo", ModelConfig(id="offline", name="Offline demo", context_window=32_768))
    config = declared.config if declared is not None else ProviderConfig(api="demo")
    return ProviderEntry("demo", config, {"offline": own, **(declared.models if declared is not None else {})})


def settings_of(config: ProviderConfig) -> JsonObject:
    """Return a provider's settings as JSON, which they were read from."""
    return cast("JsonObject", config.settings)


def _not_set(variables: Sequence[str]) -> str:
    if len(variables) == 1:
        return f"the variable {variables[0]!r} is not set"
    return f"the variables {', '.join(map(repr, variables))} are not set"


def _did_you_mean(given: str, known: Sequence[str] | Mapping[str, object]) -> str:
    close = nearest(given, known)
    return f"; did you mean {close!r}?" if close else ""
