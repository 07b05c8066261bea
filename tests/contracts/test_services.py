"""`provide` and the registry: in any order, one provider a name, and both modules named where there are two."""

from __future__ import annotations

import pytest

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
from ishiki.contracts.services import (
    ServiceRegistry,
    engine_service,
    extension_service,
    provide,
    service_name,
    services,
)
from ishiki.errors import ServiceConflictError
from ishiki.jsonvalue import JsonObject


class Note(Extension[JsonObject]):
    name = "note"

    def create(self, host: ExtensionHost, config: JsonObject) -> ExtensionInstance | None:
        return None


class Memory(ContextEngine[JsonObject]):
    name = "memory"

    def create(self, host: ExtensionHost, config: JsonObject) -> ContextEngineInstance:
        raise NotImplementedError


class Rhythm(WakeupEngine[JsonObject]):
    name = "rhythm"

    def create(self, host: ExtensionHost, config: JsonObject) -> WakeupEngineInstance:
        raise NotImplementedError


class Dialect(ToolcallEngine[JsonObject]):
    name = "dialect"

    def create(self, host: ExtensionHost, config: JsonObject) -> ToolcallEngineInstance:
        raise NotImplementedError


def test_each_kind_of_provider_has_its_service_name() -> None:
    """Design, section 4: ishiki.ext.<name>, ishiki.engine.<family>.<name>."""
    assert [service_name(provider) for provider in (Note(), Memory(), Rhythm(), Dialect())] == [
        "ishiki.ext.note",
        "ishiki.engine.context.memory",
        "ishiki.engine.wakeup.rhythm",
        "ishiki.engine.toolcall.dialect",
    ]
    assert extension_service("note") == "ishiki.ext.note"
    assert engine_service("wakeup", "rhythm") == "ishiki.engine.wakeup.rhythm"


def test_a_provider_is_found_under_its_name_by_who_asks_for_its_kind() -> None:
    """Our choice: a name of the wrong kind is not handed out."""
    registry = ServiceRegistry()
    note, rhythm = Note(), Rhythm()
    registry.provide(note)
    registry.provide(rhythm)
    assert registry.names() == ["ishiki.engine.wakeup.rhythm", "ishiki.ext.note"]
    assert registry.get("ishiki.ext.note", Note) is note
    assert registry.get("ishiki.ext.note", Rhythm) is None
    assert registry.get("ishiki.ext.nobody", Note) is None
    assert registry.has("ishiki.ext.note")
    assert not registry.has("ishiki.ext.nobody")


@pytest.mark.parametrize(("first", "second"), [("plugins.a", "plugins.b"), ("", "")])
def test_a_second_provider_is_refused_naming_both_modules_and_the_first_stays(first: str, second: str) -> None:
    """Design, section 4."""
    registry = ServiceRegistry()
    note = Note()
    registry.provide(note, module=first)
    with pytest.raises(ServiceConflictError) as caught:
        registry.provide(Note(), module=second)
    for text in ("ishiki.ext.note", first or "an unnamed module", second or "an unnamed module"):
        assert text in str(caught.value)
    assert registry.get("ishiki.ext.note", Note) is note


def test_a_disposer_frees_the_name_once_and_never_takes_a_later_provider_along() -> None:
    """Design, section 4: disposers are idempotent."""
    registry = ServiceRegistry()
    withdraw = registry.provide(Note())
    withdraw()
    assert registry.names() == []
    registry.provide(Note())
    withdraw()
    assert registry.has("ishiki.ext.note")


def test_watchers_hear_of_every_change_and_one_that_raises_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Design, section 4: profiles that need a service wait, activate, and wait again."""
    registry = ServiceRegistry()
    heard: list[tuple[str, bool]] = []

    def bad(name: str) -> None:
        raise RuntimeError("bad watcher")

    registry.watch(bad)
    stop = registry.watch(lambda name: heard.append((name, registry.has(name))))
    withdraw = registry.provide(Note())
    withdraw()
    stop()
    stop()
    registry.provide(Note())
    assert heard == [("ishiki.ext.note", True), ("ishiki.ext.note", False)]
    assert "bad watcher" in caplog.text


def test_provide_registers_in_the_process_and_names_the_calling_module() -> None:
    """Specification, extension API: provide at import of a plugin."""
    withdraw = provide(Note())
    try:
        assert services.has("ishiki.ext.note")
        with pytest.raises(ServiceConflictError) as caught:
            provide(Note())
        assert str(caught.value).count(__name__) == 2
    finally:
        withdraw()
    assert not services.has("ishiki.ext.note")
