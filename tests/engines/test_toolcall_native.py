"""Toolcall `native`, and what of the built-in engines is registered."""

from __future__ import annotations

from ishiki.contracts.services import ServiceRegistry
from ishiki.engines import BUILTIN_ENGINES
from ishiki.engines.toolcall.native import NativeToolcall
from ishiki.testing.scripted_model import ScriptedModel


def test_native_leaves_the_model_as_it_is() -> None:
    """Specification, toolcall `native`: returns the same object."""
    model = ScriptedModel([])
    assert NativeToolcall().wrap(model) is model


def test_each_built_in_engine_is_found_under_its_name() -> None:
    """Design, contracts: the service `ishiki.engine.<family>.<name>`."""
    registry = ServiceRegistry()
    for provider in BUILTIN_ENGINES:
        registry.provide(provider)
    assert set(registry.names()) >= {
        "ishiki.engine.context.standard",
        "ishiki.engine.toolcall.native",
        "ishiki.engine.wakeup.standard",
    }
