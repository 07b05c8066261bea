"""What becomes of a mind when what others wrote for it raises, hangs or clashes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio
import pytest

from ishiki import (
    Agent,
    AgentRuntime,
    ContextEngineInstance,
    ContextRequest,
    Disposer,
    Entry,
    Extension,
    ExtensionHost,
    ExtensionInstance,
    ExtensionTools,
    JsonObject,
    JsonValue,
    Tool,
    ToolContext,
    WakeupEngineInstance,
)
from ishiki.errors import StorageError
from ishiki.runtime.paths import LOG_NAME
from ishiki.storage import EventLog, LogFiles
from ishiki.testing.openai_replies import call, reply_saying, tool_calls

from .kit import GROUP, PROFILE, Bot, failure, profile_text, providing, running
from .providers import Contributing, Silent, context_engine, echo, extension, wakeup_engine

QUICK = "limits: {hook_s: 0.1}"


async def one_turn(bot: Bot) -> tuple[object, str]:
    """Let the mind have one turn and return how it ended, with the error's text."""
    bot.mention("hello")
    await bot.quiet()
    return failure(bot.ends()[-1])


async def test_two_owners_of_one_tool_name_fail_the_turn_and_both_are_named(tmp_path: Path) -> None:
    """Specification, extension API: a clash appears as `turn.failed`; the design has it name both owners."""
    services = providing(
        extension("one", lambda host: Contributing(lambda: [echo("look")])),
        extension("two", lambda host: Contributing(lambda: {"look": echo("")})),
    )
    async with running(tmp_path, profile_text("extends: {one: {}, two: {}}"), services=services) as bot:
        kind, text = await one_turn(bot)
        assert kind == "turn.failed"
        assert "'look'" in text
        assert "extension one" in text
        assert "extension two" in text
        assert bot.platform.texts == [], "a group never sees an error"


@pytest.mark.parametrize("name", ["read", "send_message", "finish", "wait", "codemode", "search"])
async def test_a_reserved_name_fails_the_turn(tmp_path: Path, name: str) -> None:
    """Specification, extension API: names of the kernel are reserved, whether or not the tool is there."""
    services = providing(extension("one", lambda host: Contributing(lambda: [echo(name)])))
    async with running(tmp_path, profile_text("extends: {one: {}}"), services=services) as bot:
        kind, text = await one_turn(bot)
        assert (kind, f"{name!r} is contributed by the kernel and by extension one" in text) == ("turn.failed", True)


async def test_tools_are_merged_in_the_order_of_extends(tmp_path: Path) -> None:
    """Specification, extension API: the kernel's tools, then each extension's in the order of `extends`."""
    services = providing(
        extension("one", lambda host: Contributing(lambda: [echo("c"), echo("a")])),
        extension("two", lambda host: Contributing(lambda: {"b": echo("")})),
        extension("none", lambda host: None),
    )
    async with running(tmp_path, profile_text("extends: {two: {}, none: {}, one: {}}"), services=services) as bot:
        await one_turn(bot)
        assert bot.server.requests[0].tool_names == ["send_message", "finish", "b", "c", "a", "wait"]


class Bad(ExtensionInstance):
    """Misbehaves in one hook for as long as it is told to."""

    def __init__(self, hook: str, how: Callable[[], Awaitable[None]]) -> None:
        self.hook = hook
        self.how = how
        self.is_mended = False

    async def extend_tools(self) -> ExtensionTools:
        await self._misbehave("extend_tools")
        return None

    async def extend_instructions(self) -> str | None:
        await self._misbehave("extend_instructions")
        return "Be kind."

    async def _misbehave(self, hook: str) -> None:
        if hook == self.hook and not self.is_mended:
            await self.how()


async def raising() -> None:
    """Raise."""
    raise RuntimeError("out of ideas")


async def timing_out() -> None:
    """Raise what a limit of somebody else's raises."""
    raise TimeoutError("its own server is slow")


WAYS = [
    (raising, "raised RuntimeError: out of ideas"),
    (timing_out, "raised TimeoutError: its own server is slow"),
    (anyio.sleep_forever, "did not return within 0.1 s"),
]


@pytest.mark.parametrize("hook", ["extend_tools", "extend_instructions"])
@pytest.mark.parametrize(("way", "told"), WAYS)
async def test_a_hook_that_raises_or_hangs_fails_the_turn_by_name_and_the_next_one_works(
    tmp_path: Path, hook: str, way: Callable[[], Awaitable[None]], told: str
) -> None:
    """Design, contracts for authors: the turn ends as `turn.failed` with the owner's name."""
    bad = Bad(hook, way)
    services = providing(extension("bad", lambda host: bad))
    async with running(tmp_path, profile_text(f"extends: {{bad: {{}}}}\n{QUICK}"), services=services) as bot:
        assert await one_turn(bot) == ("turn.failed", f"extension bad: {hook} {told}")
        assert bot.server.requests == []
        bad.is_mended = True
        assert await one_turn(bot) == ("turn.done", "")
        assert bot.platform.texts == ["reply 1"]
        assert bot.facts() == ['<at id="10001"/> hello'] * 2


class BadContext(ContextEngineInstance):
    """A context engine that misbehaves in one hook."""

    def __init__(self, hook: str, how: Callable[[], Awaitable[None]]) -> None:
        self.hook = hook
        self.how = how

    async def instructions(self) -> str | None:
        if self.hook == "instructions":
            await self.how()
        return None

    async def prepare_entries(self, entries: Sequence[Entry], request: ContextRequest) -> Sequence[Entry]:
        if self.hook == "prepare_entries":
            await self.how()
        return entries


@pytest.mark.parametrize(
    ("hook", "way", "told"),
    [*(("instructions", way, told) for way, told in WAYS), ("prepare_entries", *WAYS[0])],
)
async def test_a_context_engine_that_misbehaves_fails_the_turn_by_name(
    tmp_path: Path, hook: str, way: Callable[[], Awaitable[None]], told: str
) -> None:
    """Design, contracts for authors. `prepare_entries` has no limit of its own: it may ask a model for a summary."""
    services = providing(context_engine("bad", lambda host: BadContext(hook, way)))
    async with running(tmp_path, profile_text(f"context: {{engine: bad}}\n{QUICK}"), services=services) as bot:
        assert await one_turn(bot) == ("turn.failed", f"context engine bad: {hook} {told}")


class BadAttach(ExtensionInstance):
    """Misbehaves when the runtime is built."""

    def __init__(self, how: Callable[[], Awaitable[None]]) -> None:
        self.how = how

    async def attach(self, runtime: AgentRuntime) -> Disposer | None:
        await self.how()
        return None

    def extend_instructions(self) -> str:
        return "I am still here."


@pytest.mark.parametrize(("way", "told"), WAYS)
async def test_an_attach_that_raises_or_hangs_is_a_warning_and_the_runtime_lives(
    tmp_path: Path, way: Callable[[], Awaitable[None]], told: str
) -> None:
    """Specification, extension API: an error in `attach` is a warning and does not keep the runtime from starting."""
    services = providing(extension("bad", lambda host: BadAttach(way)))
    async with running(tmp_path, profile_text(f"extends: {{bad: {{}}}}\n{QUICK}"), services=services) as bot:
        assert await one_turn(bot) == ("turn.done", "")
        (line,) = bot.logs.holding("extension bad: attach")
        assert line.startswith("WARNING")
        assert told in line
        assert "I am still here." in bot.server.requests[0].all_text


class BadWakeup(WakeupEngineInstance):
    """Misbehaves when the runtime is built."""

    def __init__(self, how: Callable[[], Awaitable[None]]) -> None:
        self.how = how

    async def attach(self, agent: Agent) -> Disposer:
        await self.how()
        return lambda: None


@pytest.mark.parametrize(("way", "told"), WAYS)
async def test_a_wakeup_engine_whose_attach_fails_is_a_warning_and_facts_are_kept(
    tmp_path: Path, way: Callable[[], Awaitable[None]], told: str
) -> None:
    """Design, contracts for authors: the mind does not wake by itself, and an explicit wake still works."""
    services = providing(wakeup_engine("bad", lambda host: BadWakeup(way)))
    async with running(tmp_path, profile_text(f"wakeup: {{engine: bad}}\n{QUICK}"), services=services) as bot:
        bot.say("one")
        await bot.quiet()
        bot.runtime().wake("now")
        await bot.quiet()
        (line,) = bot.logs.holding("wakeup engine bad: attach")
        assert told in line
        assert bot.facts() == ["one"]
        assert bot.platform.texts == ["reply 1"]


@pytest.mark.parametrize("where", ["extends: {bad: {}}", "context: {engine: bad}", "wakeup: {engine: bad}"])
async def test_a_mind_that_cannot_be_built_keeps_its_facts_and_says_who_is_to_blame_once(
    tmp_path: Path, where: str
) -> None:
    """Design, section 2: if the runtime cannot be built (an engine raises), the fact is still appended."""
    is_mended: list[bool] = []

    def fail() -> None:
        if not is_mended:
            raise RuntimeError("no licence")

    def make_extension(host: ExtensionHost) -> ExtensionInstance:
        fail()
        return ExtensionInstance()

    def make_context(host: ExtensionHost) -> ContextEngineInstance:
        fail()
        return ContextEngineInstance()

    def make_wakeup(host: ExtensionHost) -> WakeupEngineInstance:
        fail()
        return Silent()

    services = providing(
        extension("bad", make_extension), context_engine("bad", make_context), wakeup_engine("bad", make_wakeup)
    )
    async with running(tmp_path, profile_text(where), services=services) as bot:
        bot.say("one")
        bot.say("two")
        await bot.quiet()
        assert bot.facts() == ["one", "two"]
        assert bot.supervisor.resident_count == 0
        (line,) = bot.logs.holding("create raised")
        assert line.startswith("ERROR")
        assert " bad: create raised RuntimeError: no licence" in line
        is_mended.append(True)
        bot.say("three")
        await bot.quiet()
        bot.runtime().wake()
        await bot.quiet()
        assert bot.facts() == ["one", "two", "three"]
        assert all(word in bot.server.requests[0].all_text for word in ("one", "two", "three"))


async def test_a_create_that_hangs_counts_as_one_that_raises(tmp_path: Path) -> None:
    """Our choice: a provider that waits for something holds up its channel for `limits.hook_s` and not for ever."""

    class Hanging(Extension[JsonObject]):
        name = "hanging"

        async def create(self, host: ExtensionHost, config: JsonObject) -> ExtensionInstance | None:
            await anyio.sleep_forever()
            return None

    text = profile_text(f"extends: {{hanging: {{}}}}\n{QUICK}")
    async with running(tmp_path, text, services=providing(Hanging())) as bot:
        bot.say("one")
        await bot.quiet()
        assert bot.facts() == ["one"]
        assert len(bot.logs.holding("extension hanging: create did not return within 0.1 s")) == 1


class Recorded(ExtensionInstance):
    """Writes down when it is stopped, and whether the log is still open then."""

    def __init__(self, host: ExtensionHost, name: str, steps: list[str]) -> None:
        self.file = host.home / LOG_NAME
        self.name = name
        self.steps = steps

    async def attach(self, runtime: AgentRuntime) -> Disposer:
        async def undo() -> None:
            self.steps.append(f"{self.name}: disposer")

        return undo

    async def stop(self) -> None:
        self.steps.append(f"{self.name}: stop")


async def test_a_runtime_stops_in_reverse_with_stop_before_the_disposer_of_attach(tmp_path: Path) -> None:
    """Specification, extension API: `stop` runs before the disposer; design: extensions in reverse, stores last."""
    steps: list[str] = []

    class Watching(Silent):
        def attach(self, agent: Agent) -> Disposer:
            return lambda: steps.append("wakeup: disposer")

    services = providing(
        extension("one", lambda host: Recorded(host, "one", steps)),
        extension("two", lambda host: Recorded(host, "two", steps)),
        wakeup_engine("watching", lambda host: Watching()),
    )
    text = profile_text("extends: {one: {}, two: {}}\nwakeup: {engine: watching}")
    async with running(tmp_path, text, services=services) as bot:
        bot.say("hello")
        await bot.quiet()
        assert steps == []
    assert steps == ["wakeup: disposer", "two: stop", "two: disposer", "one: stop", "one: disposer"]


async def test_the_log_is_open_until_the_last_extension_has_stopped(tmp_path: Path) -> None:
    """Design, section 8: stores last."""
    codes: list[str] = []
    files: list[LogFiles] = []

    class Looking(ExtensionInstance):
        def __init__(self, host: ExtensionHost) -> None:
            self.file = host.home / LOG_NAME

        async def stop(self) -> None:
            try:
                await EventLog.open(self.file, sid=GROUP.sid, channel_id=GROUP.channel_id, files=files[0])
            except StorageError as error:
                codes.append(error.code)

    services = providing(extension("looking", Looking))
    async with running(tmp_path, profile_text("extends: {looking: {}}"), services=services) as bot:
        files.append(bot.log_files)
        bot.say("hello")
        await bot.quiet()
    assert codes == ["storage_in_use"]


async def test_extensions_of_a_mind_that_cannot_be_built_are_stopped(tmp_path: Path) -> None:
    """Bug: what they had opened in `create` stayed open, once more with every message."""
    steps: list[str] = []

    def refuse(host: ExtensionHost) -> ContextEngineInstance:
        raise RuntimeError("no")

    services = providing(
        extension("one", lambda host: Recorded(host, "one", steps)), context_engine("refusing", refuse)
    )
    text = profile_text("extends: {one: {}}\ncontext: {engine: refusing}")
    async with running(tmp_path, text, services=services) as bot:
        bot.say("hello")
        await bot.quiet()
        assert steps == ["one: stop"]


async def test_stop_hooks_that_raise_or_hang_keep_nobody_from_stopping(tmp_path: Path) -> None:
    """Our choice: a warning each; the others are stopped and the log is closed."""
    steps: list[str] = []

    class Bad(ExtensionInstance):
        def attach(self, runtime: AgentRuntime) -> Disposer:
            return lambda: steps.append("bad: disposer")

        async def stop(self) -> None:
            raise RuntimeError("no")

    services = providing(
        extension("one", lambda host: Recorded(host, "one", steps)), extension("bad", lambda host: Bad())
    )
    async with running(tmp_path, profile_text("extends: {one: {}, bad: {}}"), services=services) as bot:
        bot.say("hello")
        await bot.quiet()
        logs = bot.logs
    assert steps == ["bad: disposer", "one: stop", "one: disposer"]
    assert len(logs.holding("extension bad: stop raised RuntimeError: no")) == 1


async def test_a_spawned_task_that_raises_ends_alone(tmp_path: Path) -> None:
    """Design, contracts for authors: a raise is logged and ends that task only."""

    class Spawning(ExtensionInstance):
        def __init__(self, host: ExtensionHost) -> None:
            host.spawn("bad luck", raising)

    services = providing(extension("spawning", Spawning))
    async with running(tmp_path, profile_text("extends: {spawning: {}}"), services=services) as bot:
        assert await one_turn(bot) == ("turn.done", "")
        assert len(bot.logs.holding(f"{PROFILE}/{GROUP}: the task bad luck raised and ends")) == 1


async def test_a_tool_that_raises_is_told_to_the_model_and_the_turn_goes_on(tmp_path: Path) -> None:
    """Design, section 2: whatever a tool raises, the model is told."""

    def fail(arguments: JsonObject, context: ToolContext) -> JsonValue:
        raise RuntimeError("no more paper")

    printing = Tool("Prints.", {"type": "object"}, fail, name="print")
    services = providing(extension("printing", lambda host: Contributing(lambda: [printing])))
    async with running(tmp_path, profile_text("extends: {printing: {}}"), services=services) as bot:
        bot.server.enqueue(tool_calls([call("print", {})]), reply_saying("sorry"))
        assert await one_turn(bot) == ("turn.done", "")
        assert "RuntimeError: no more paper" in bot.server.requests[1].all_text
        assert bot.platform.texts == ["sorry"]
