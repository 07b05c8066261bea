"""`Gateway`: models.yaml at work. From a reference to something that answers.

Owns the current catalogue, the groups with their breakers, and what all models share: the wire and the limit of calls
in flight. Knows no profile.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from ishiki.config import Redactor
from ishiki.core.clock import Clock, Random, SystemClock, SystemRandom
from ishiki.core.model import LanguageModel, ModelInfo
from ishiki.errors import GatewayError
from ishiki.gateway.calls import Target
from ishiki.gateway.catalogue import Catalogue, ModelEntry, Reference, read_catalogue, settings_of
from ishiki.gateway.demo import DemoModel
from ishiki.gateway.dialects import dialect_form
from ishiki.gateway.failover import FailoverPolicy, GroupModel, ModelGroup
from ishiki.gateway.form_book import FormBook
from ishiki.gateway.limiter import DEFAULT_MAX_CALLS, CallLimiter
from ishiki.gateway.litellm_wire import LiteLLMWire
from ishiki.gateway.provider_model import ProviderModel, Watching
from ishiki.gateway.schema import ModelType
from ishiki.gateway.transcripts import RequestDump

__all__ = ["Gateway"]


class Gateway:
    """The models of one process."""

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        max_calls: int = DEFAULT_MAX_CALLS,
        redactor: Redactor | None = None,
        dump_folder: Path | None = None,
        debug_stream: bool = False,
    ) -> None:
        """Serve `catalogue`; usually made by `load`, which explains the rest."""
        self._clock = clock or SystemClock()
        self._random = random or SystemRandom()
        self._redactor = redactor or Redactor()
        self._limiter = CallLimiter(max_calls, self._clock)
        self._wire = LiteLLMWire(clock=self._clock, redact=self._redactor.redact)
        dump = RequestDump(dump_folder, clock=self._clock, redact=self._redactor.redact) if dump_folder else None
        self._watching = Watching(dump, debug_stream)
        # Outlives an edit of models.yaml: what a server takes does not change with it.
        self._forms = FormBook(self._clock)
        self._catalogue = catalogue
        self._models: dict[str, LanguageModel] = {}
        self._groups: dict[str, ModelGroup] = {}
        self.reconfigure(catalogue)

    @classmethod
    def load(
        cls,
        file: Path | None,
        *,
        env: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        max_calls: int = DEFAULT_MAX_CALLS,
        redactor: Redactor | None = None,
        dump_folder: Path | None = None,
        debug_stream: bool = False,
    ) -> Self:
        """Read models.yaml and make its gateway. Blocks on the disk, imports nothing heavy.

        Args:
            file: models.yaml; None, or one that does not exist: `demo:offline` alone.
            env: for `${NAME}`; None: the process's environment.
            clock: time; None: the machine's.
            random: for groups and pauses; None: the process's.
            max_calls: model calls in flight at once.
            redactor: learns the keys of the file; None: one of its own.
            dump_folder: where each request to a provider and its answer are written; None: nowhere.
            debug_stream: whether each part of an answer is logged at DEBUG.

        Raises:
            ConfigError: the file is no valid models.yaml (mostly a `GatewayError`); all findings are in it.
        """
        catalogue = read_catalogue(file, os.environ if env is None else env)
        return cls(
            catalogue,
            clock=clock,
            random=random,
            max_calls=max_calls,
            redactor=redactor,
            dump_folder=dump_folder,
            debug_stream=debug_stream,
        )

    @property
    def limiter(self) -> CallLimiter:
        """The limit of calls in flight."""
        return self._limiter

    @property
    def redactor(self) -> Redactor:
        """Takes the file's keys out of texts."""
        return self._redactor

    def reload(self, *, env: Mapping[str, str] | None = None) -> None:
        """Read the file again and replace everything at once: models, groups, breakers. Blocks on the disk.

        Models that were handed out go on answering as they were; ask `model` again for the new ones.

        Raises:
            ConfigError: the file is not valid; everything stays as it was.
        """
        self.reconfigure(read_catalogue(self._catalogue.file, os.environ if env is None else env))

    def reconfigure(self, catalogue: Catalogue) -> None:
        """Replace everything at once by `catalogue`."""
        self._redactor.add(catalogue.secrets)
        self._catalogue = catalogue
        self._models = {}
        self._groups = {}

    def model(self, ref: str, *, failover: FailoverPolicy | None = None) -> LanguageModel:
        """Return the model that `ref` names; everybody who asks shares its breakers.

        Args:
            ref: `provider:model[:level]`, or the name of a group.
            failover: how often another try is made; None: a single model once, a group once round its members.

        Raises:
            GatewayError: `ref` names nothing, or nothing that is configured; says which variable to set.
        """
        model = self._group_model(ref, failover) if ":" not in ref else self._single_model(ref)
        if ":" in ref and failover is not None and (failover.attempts or 1) > 1:
            group = self._groups.get(ref) or ModelGroup(ref, [model], clock=self._clock, random=self._random)
            self._groups[ref] = group
            return GroupModel(group, policy=failover, clock=self._clock, random=self._random)
        return model

    def models(self, model_type: ModelType | None = None) -> Sequence[ModelEntry]:
        """Return the models of configured providers, of one type or of all, in declared order."""
        return tuple(self._catalogue.models(model_type))

    def providers(self) -> Mapping[str, bool]:
        """Return the providers by id, each with whether it is configured."""
        return {name: not provider.unset for name, provider in self._catalogue.providers.items()}

    def unset_variables(self) -> Sequence[str]:
        """Return the environment variables that would make more providers usable, in declared order; each once."""
        return self._catalogue.unset

    def groups(self) -> Sequence[str]:
        """Return the names of the groups, in declared order."""
        return tuple(self._catalogue.groups)

    def group(self, name: str) -> ModelGroup:
        """Return a group, for its members and their breakers.

        Raises:
            GatewayError: there is none, or none of its members is configured.
        """
        group = self._groups.get(name)
        if group is None:
            members = [self._of(reference) for reference in self._catalogue.usable(name)]
            config = self._catalogue.group(name)
            group = ModelGroup(
                name,
                members,
                strategy=config.strategy,
                breaker=config.circuit_breaker,
                clock=self._clock,
                random=self._random,
            )
            self._groups[name] = group
        return group

    def supports_image(self, ref: str) -> bool:
        """Return whether whatever answers for `ref` reads images: of a group, every member that can be asked.

        An unknown reference counts as no.
        """
        try:
            return all("image" in reference.model.config.input for reference in self._references(ref))
        except GatewayError:
            return False

    def needs_litellm(self, refs: Iterable[str]) -> bool:
        """Return whether any of `refs` is answered through LiteLLM. Unknown ones count as no."""
        for ref in refs:
            try:
                references = self._references(ref)
            except GatewayError:
                continue
            if any(not one.provider.is_demo and not one.provider.unset for one in references):
                return True
        return False

    async def warm_up(self) -> None:
        """Import LiteLLM in a worker thread, so that the first turn does not wait for it. Idempotent; takes seconds."""
        await self._wire.load()

    async def aclose(self) -> None:
        """Close what is open to providers. Idempotent."""
        await self._wire.aclose()

    def _references(self, ref: str) -> Sequence[Reference]:
        return [self._catalogue.resolve(ref)] if ":" in ref else self._catalogue.usable(ref)

    def _group_model(self, name: str, failover: FailoverPolicy | None) -> LanguageModel:
        return GroupModel(self.group(name), policy=failover, clock=self._clock, random=self._random)

    def _single_model(self, ref: str) -> LanguageModel:
        reference = self._catalogue.resolve(ref)
        if reference.provider.unset:
            raise self._catalogue.unconfigured(reference)
        return self._of(reference)

    def _of(self, reference: Reference) -> LanguageModel:
        model = self._models.get(reference.ref)
        if model is None:
            if reference.provider.is_demo:
                model = DemoModel(reference.ref, variables=self._catalogue.unset)
            else:
                model = ProviderModel(
                    _target(reference),
                    wire=self._wire,
                    limiter=self._limiter,
                    forms=self._forms,
                    watching=self._watching,
                )
            self._models[reference.ref] = model
        return model


def _target(reference: Reference) -> Target:
    provider, model = reference.provider.config, reference.model.config
    info = ModelInfo(
        ref=reference.ref,
        context_window=model.context_window,
        max_output_tokens=model.max_tokens,
        input=frozenset[str](model.input),
        tool_call=model.tool_call,
        reasoning=model.reasoning,
    )
    return Target(
        ref=reference.ref,
        api=provider.api,
        model_id=model.id,
        info=info,
        level=reference.level,
        base_url=provider.base_url.rstrip("/") if provider.base_url is not None else None,
        api_key=provider.api_key.get_secret_value() if provider.api_key is not None else None,
        headers={name: value.get_secret_value() for name, value in provider.headers.items()},
        settings=settings_of(provider),
        sends_reasoning=model.thinking is not None and model.thinking.send_back,
        form=dialect_form(provider.dialect, provider.base_url if provider.api == "openai-completions" else None),
    )
