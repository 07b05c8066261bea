"""The shipped examples at work in a running mind: what the model is asked and told, and what stands on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from ishiki.contracts.services import ServiceRegistry
from ishiki.jsonvalue import read_str
from ishiki.testing.openai_replies import Reply, call, reply_saying, tool_calls
from ishiki.testing.openai_server import ChatRequest

from .kit import EXAMPLES, Bot, load_example, profile_text, providing, running


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ServiceRegistry]:
    """Return what loads an example and returns a registry that has it."""

    def load(name: str) -> ServiceRegistry:
        services = providing()
        load_example(name, monkeypatch, services)
        return services

    return load


def systems(request: ChatRequest) -> list[str]:
    """Return the texts of a request's system messages."""
    return [read_str(message, "content") for message in request.messages if message.get("role") == "system"]


def tool_result(request: ChatRequest) -> str:
    """Return the text of the last tool result in a request."""
    results = [message for message in request.messages if message.get("role") == "tool"]
    return read_str(results[-1], "content")


async def answered(bot: Bot, content: str = "hello") -> ChatRequest:
    """Say something to the mind and return its last request once the turn is over."""
    bot.mention(content)
    await bot.quiet()
    return bot.server.requests[-1]


async def test_note_writes_a_line_and_tells_the_model_where(
    tmp_path: Path, example: Callable[[str], ServiceRegistry]
) -> None:
    """Specification, extension API, the example `note`."""
    text = profile_text("extends: {note: {config: {prefix: mine}}}")
    async with running(tmp_path, text, services=example("note")) as bot:
        bot.server.enqueue(tool_calls([call("note_write", {"text": "likes\ntea"})]), reply_saying("noted"))
        request = await answered(bot)
        assert (bot.home() / "notes.txt").read_text(encoding="utf-8") == "mine: likes tea\n"
        assert "local://notes.txt" in tool_result(request)
        assert "note_write" in systems(request)[0]
        assert request.tool_names == ["send_message", "finish", "note_write", "wait"]
        assert bot.platform.texts == ["noted"]


async def test_briefing_is_read_again_at_each_turn(tmp_path: Path, example: Callable[[str], ServiceRegistry]) -> None:
    """Specification, extension API, the example `briefing`: an edit counts from the next turn on."""
    text = profile_text("context: {engine: briefing}")
    async with running(tmp_path, text, services=example("briefing")) as bot:
        first = await answered(bot, "before")
        file = bot.profile_file().with_name("briefing.md")
        file.write_text("The fair is on Sunday.", encoding="utf-8")
        second = await answered(bot, "after")
        file.write_text("The fair is over.", encoding="utf-8")
        third = await answered(bot, "later")
        assert "The fair" not in systems(first)[0]
        assert systems(second)[0].endswith("The fair is on Sunday.")
        assert systems(third)[0].endswith("The fair is over.")
        assert "before" in third.all_text, "an engine with instructions alone still gets a conversation"
        assert len(bot.logs.holding("there is no briefing")) == 1


async def test_rhythm_wakes_by_its_own_clock_and_skips_a_beat_while_a_turn_runs(
    tmp_path: Path, example: Callable[[str], ServiceRegistry]
) -> None:
    """Specification, engine system, the example of a wakeup engine with a schedule of its own."""
    held = anyio.Event()

    async def respond(request: ChatRequest) -> Reply:
        await held.wait()
        return reply_saying("tick")

    text = profile_text("wakeup: {engine: rhythm, rhythm: {every_seconds: 30}}")
    async with running(tmp_path, text, services=example("rhythm")) as bot:
        bot.server.responder = respond
        bot.say("nobody is asked")
        await bot.quiet()
        await bot.clock.began(30)
        assert bot.server.requests == []
        bot.clock.advance(30)
        await bot.server.wait_requests(1)
        await bot.clock.began(30, times=2)
        bot.clock.advance(30)
        await bot.clock.began(30, times=3)
        held.set()
        await bot.quiet()
        assert len(bot.server.requests) == 1, "the beat during the turn was skipped"
        bot.clock.advance(30)
        await bot.platform.sent.at_least(2)
        await bot.quiet()
        assert bot.platform.texts == ["tick", "tick"]


async def test_rhythm_refuses_a_rhythm_below_a_second(
    tmp_path: Path, example: Callable[[str], ServiceRegistry]
) -> None:
    """Specification, engine system: `min(1)`; the profile does not run and the error has its place."""
    text = profile_text("wakeup: {engine: rhythm, rhythm: {every_seconds: 0.5}}")
    async with running(tmp_path, text, services=example("rhythm")) as bot:
        (line,) = bot.logs.holding("every_seconds")
        assert line.startswith("ERROR")
        assert f"{bot.profile_file()}:4:" in line


async def test_grounding_puts_one_system_message_into_every_request(
    tmp_path: Path, example: Callable[[str], ServiceRegistry]
) -> None:
    """Specification, extension API, the example `grounding`."""
    text = profile_text("toolcall: {engine: grounding, grounding: {instruction: Cite.}}")
    async with running(tmp_path, text, services=example("grounding")) as bot:
        bot.server.enqueue(tool_calls([call("nothing", {})]), reply_saying("done"))
        await answered(bot)
        assert [systems(request)[1:] for request in bot.server.requests] == [["Cite."], ["Cite."]]


async def test_clock_is_read_by_its_url_and_an_unknown_one_is_told_to_the_model(
    tmp_path: Path, example: Callable[[str], ServiceRegistry]
) -> None:
    """Specification, extension API, the example `clock://now`."""
    async with running(tmp_path, profile_text("extends: {clock: {}}"), services=example("clock")) as bot:
        bot.server.enqueue(
            tool_calls([call("look_up", {"url": "clock://now"})]),
            tool_calls([call("look_up", {"url": "clock://then"})]),
            reply_saying("it is late"),
        )
        await answered(bot)
        _, second, third = bot.server.requests
        assert tool_result(second) == "2025-11-29T07:06:40+00:00"
        assert "there is no 'clock://then'" in tool_result(third)
        assert bot.runtime().resources.schemes() == ("clock",)


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.stem)
def test_an_example_is_short_and_imports_from_ishiki_alone(file: Path) -> None:
    """Our choice: an example is what an author copies, so it fits on a page and uses the public door."""
    lines = file.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 60
    assert [line for line in lines if line.startswith(("from ishiki.", "import ishiki."))] == []
    assert not (file.parent / "__init__.py").exists()
