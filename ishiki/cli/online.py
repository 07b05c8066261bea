"""`check --online`: which models are asked, and what is printed of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import anyio

from ishiki.cli.arguments import Online
from ishiki.errors import GatewayError
from ishiki.gateway import Catalogue, Gateway, Reference
from ishiki.gateway.proof import Proof, Prover
from ishiki.jsonvalue import JsonValue
from ishiki.profile import Profile

__all__ = ["prove_online"]


class Findings(Protocol):
    """Where problems go."""

    def warn(self, text: str) -> None:
        """Take something that may be meant so."""
        ...

    def complain(self, text: str) -> None:
        """Take something that is wrong."""
        ...

    def say(self, line: str) -> None:
        """Print a line, without secrets."""
        ...


@dataclass(slots=True)
class _Wanted:
    """One model that is to be asked."""

    reference: Reference
    with_tool: bool


def prove_online(
    which: Online, profiles: Sequence[Profile], catalogue: Catalogue, gateway: Gateway, found: Findings
) -> None:
    """Ask the models and print what came of each. Blocks on the network."""
    wanted = list(_wanted(which, profiles, catalogue))
    found.say("models, asked over the network:")
    if not wanted:
        found.say("  none: no profile uses a model of a configured provider")
        return
    anyio.run(_prove, wanted, catalogue, gateway, found)


async def _prove(wanted: Sequence[_Wanted], catalogue: Catalogue, gateway: Gateway, found: Findings) -> None:
    prover = Prover(catalogue, gateway)
    try:
        for one in wanted:
            _tell(await prover.prove(one.reference, with_tool=one.with_tool), found)
    finally:
        await gateway.aclose()


def _tell(proof: Proof, found: Findings) -> None:
    about = "about " if proof.is_estimate else ""
    tokens = f"{about}{proof.tokens:,} tokens" if proof.tokens else "no tokens"
    outcome = "fails" if proof.has_failed else "works"
    found.say(f"  {proof.ref}: {outcome}: {'; '.join([*proof.done, tokens])}")
    for severity, text in proof.problems:
        line = f"{proof.ref}: {text}"
        if severity == "error":
            found.complain(line)
        else:
            found.warn(line)


def _wanted(which: Online, profiles: Sequence[Profile], catalogue: Catalogue) -> Iterator[_Wanted]:
    """Yield the models to ask, each once; a tool is offered where a mind would offer one."""
    by_ref: dict[str, _Wanted] = {}
    for profile in profiles:
        is_native = profile.engine("toolcall") == "native"
        for ref in dict.fromkeys([profile.config.model, *_named(profile.document.data)]):
            for reference in _members(ref, catalogue):
                one = by_ref.setdefault(reference.ref, _Wanted(reference, with_tool=False))
                one.with_tool |= is_native and ref == profile.config.model
    if which == "all":
        asked = {one.reference.model.ref for one in by_ref.values()}
        for model in catalogue.models("language"):
            if model.ref not in asked:
                by_ref[model.ref] = _Wanted(catalogue.resolve(model.ref), with_tool=True)
    yield from (one for one in by_ref.values() if not one.reference.provider.is_demo)


def _named(block: JsonValue) -> Iterator[str]:
    """Yield what stands under a key `model`, at any depth: engines have models of their own."""
    if isinstance(block, dict):
        for key, value in block.items():
            if key == "model" and isinstance(value, str):
                yield value
            else:
                yield from _named(value)
    elif isinstance(block, list):
        for value in block:
            yield from _named(value)


def _members(ref: str, catalogue: Catalogue) -> Sequence[Reference]:
    """Return the configured models that answer for a reference; none for a faulty one, which is told elsewhere."""
    try:
        members = [catalogue.resolve(ref)] if ":" in ref else catalogue.usable(ref)
    except GatewayError:
        return []
    return [member for member in members if not member.provider.unset]
