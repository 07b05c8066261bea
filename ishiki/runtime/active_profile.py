"""A profile that runs, waits for a service, or cannot run: what activation found out about it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ishiki.config import KeyPath
from ishiki.contracts.engines import ContextEngine, ToolcallEngine, WakeupEngine
from ishiki.contracts.extension import Extension
from ishiki.contracts.services import ServiceRegistry, engine_service, extension_service
from ishiki.core.disposer import resolved
from ishiki.core.model import LanguageModel
from ishiki.errors import IshikiError
from ishiki.gateway import FailoverPolicy, Gateway
from ishiki.profile import ENGINE_FAMILIES, BlockConfig, Profile, ValidatedBlocks, validate_blocks

__all__ = ["ActiveProfile", "activate"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ActiveProfile:
    """A profile with everything that it needs. An edit makes another one."""

    profile: Profile
    blocks: ValidatedBlocks
    context: ContextEngine[Any]
    wakeup: WakeupEngine[Any]
    toolcall: ToolcallEngine[Any]
    extensions: Sequence[tuple[Extension[Any], BlockConfig]]
    """In the order of `extends`, with their validated settings."""
    closers: list[Callable[[], Awaitable[None] | None]] = field(
        default_factory=list[Callable[[], Awaitable[None] | None]]
    )
    """What extensions want called when the profile closes."""

    @property
    def id(self) -> str:
        """The profile's id."""
        return self.profile.id

    def config_of(self, family: str) -> BlockConfig:
        """Return the validated settings of the chosen engine of `family`."""
        return next(block for name, block in self.blocks.engines.items() if name == family)

    def find_model(self, gateway: Gateway, ref: str | None) -> LanguageModel:
        """Return a model by reference; None: the profile's own, with its settings for failover."""
        if ref is not None:
            return gateway.model(ref)
        config = self.profile.config.failover
        policy = FailoverPolicy(
            attempts=config.attempts, backoff_s=config.backoff_ms / 1000, failover_on=config.failover_on
        )
        return gateway.model(self.profile.config.model, failover=policy)

    async def close(self) -> None:
        """Call what extensions registered, newest first; a raise is logged."""
        while self.closers:
            closer = self.closers.pop()
            try:
                await resolved(closer())
            except Exception:
                logger.warning("profile %s: a close function raised", self.id, exc_info=True)


def activate(
    profile: Profile, services: ServiceRegistry, gateway: Gateway, before: ActiveProfile | None = None
) -> ActiveProfile:
    """Check that `profile` can run and return it with its providers.

    Args:
        profile: the profile as it was read.
        services: where its engines and extensions are found.
        gateway: where its model is found.
        before: an earlier form of it that it takes over from, with what is to be called when the profile closes.

    Raises:
        ActivationError: services are missing (`missing` names them); it may be tried again when one appears.
        ConfigError: a block, the model or a capability is faulty; the text says where.
    """
    blocks = validate_blocks(profile, services)
    for warning in blocks.warnings:
        logger.warning("%s", warning)
    for path, what in _without_effect(profile):
        logger.warning("%s", profile.error(f"has no effect: this version has no {what} yet", path))
    missing = blocks.missing_error(profile)
    if missing is not None:
        raise missing
    _check_model(profile, gateway)
    # Missing ones have been reported above, so every look-up finds its provider.
    names = {family: engine_service(family, profile.engine(family)) for family in ENGINE_FAMILIES}
    extensions = [
        (cast("Extension[Any]", services.get(extension_service(name), Extension)), config)
        for name, config in blocks.extensions.items()
    ]
    return ActiveProfile(
        profile,
        blocks,
        cast("ContextEngine[Any]", services.get(names["context"], ContextEngine)),
        cast("WakeupEngine[Any]", services.get(names["wakeup"], WakeupEngine)),
        cast("ToolcallEngine[Any]", services.get(names["toolcall"], ToolcallEngine)),
        extensions,
        # The same list and no copy: runtimes of the earlier form still have it.
        [] if before is None else before.closers,
    )


def _without_effect(profile: Profile) -> Iterator[tuple[KeyPath, str]]:
    """Yield the settings that somebody may rely on and that nothing reads yet, each with what it would switch on."""
    config = profile.config
    if config.codemode.enable:
        yield ("codemode", "enable"), "code mode"
    if config.toolsearch.enable:
        yield ("toolsearch", "enable"), "tool search"
    if config.resources.image_input:
        yield ("resources", "image_input"), "images for the model"


def _check_model(profile: Profile, gateway: Gateway) -> None:
    reference = profile.config.model
    try:
        gateway.model(reference)
    except IshikiError as error:
        raise profile.error(str(error), ("model",), code=error.code) from error
    if profile.config.resources.image_input and not gateway.supports_image(reference):
        problem = f"is true, but {reference!r} has a member whose models.yaml entry does not list 'image' in its input"
        raise profile.error(problem, ("resources", "image_input"), code="capability_missing")
