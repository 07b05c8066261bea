"""Profiles and models.yaml edited while the bot runs: real files, real notifications."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from ishiki import ExtensionHost, ExtensionInstance
from ishiki.contracts.events import ChannelRef
from ishiki.testing.openai_replies import Reply, reply_saying
from ishiki.testing.openai_server import ChatRequest

from .kit import GROUP, PROFILE, SELF, Bot, profile_text, providing, running
from .providers import extension

ACTIVE = f"profile {PROFILE} is active"


class Gate:
    """Holds the model's answers back until it is opened."""

    def __init__(self, bot: Bot) -> None:
        self.opened = anyio.Event()
        bot.server.responder = self._respond

    async def _respond(self, request: ChatRequest) -> Reply:
        if request.number == 1:
            await self.opened.wait()
        return reply_saying(f"reply {request.number}")


async def test_an_edited_model_is_asked_from_the_next_turn_on(tmp_path: Path) -> None:
    """Design, configuration: a good edit replaces the profile between turns."""
    async with running(tmp_path) as bot:
        bot.mention("one")
        await bot.quiet()
        await bot.edited(profile_text(model="test:b"), until=ACTIVE)
        bot.mention("two")
        await bot.quiet()
        assert [request.model for request in bot.server.requests] == ["a", "b"]
        assert "one" in bot.server.requests[1].all_text


async def test_an_edited_persona_counts_without_any_reload(tmp_path: Path) -> None:
    """Design, configuration: persona and memory are read at each turn."""
    async with running(tmp_path) as bot:
        persona = bot.profile_file().with_name("persona.md")
        persona.write_text("You are a cat.", encoding="utf-8")
        bot.mention("one")
        await bot.quiet()
        persona.write_text("You are a dog.", encoding="utf-8")
        bot.mention("two")
        await bot.quiet()
        first, second = bot.server.requests
        assert "You are a cat." in first.all_text
        assert "You are a cat." not in second.all_text
        assert "You are a dog." in second.all_text


async def test_edited_limits_are_those_of_the_next_runtime(tmp_path: Path) -> None:
    """Design, configuration: limits are the profile's, and the mind goes over to the new ones."""
    async with running(tmp_path) as bot:
        bot.say("one")
        await bot.quiet()
        await bot.edited(profile_text("limits: {stale_after: 1}"), until=ACTIVE)
        await bot.quiet()
        late = bot.message(f'<at id="{SELF}"/> two')
        bot.clock.advance(2)
        bot.supervisor.offer(late)
        await bot.quiet()
        assert bot.facts() == ["one", late.content]
        assert bot.server.requests == [], "a fact that is older than stale_after wakes nobody"


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (profile_text("wakup: {engine: standard}"), "wakeup"),
        (profile_text("limits: {tool_s: no}"), "tool_s"),
        (profile_text(model="test:missing"), "missing"),
        ("model: [", "profile.yaml"),
    ],
    ids=["unknown key", "wrong kind", "unknown model", "no YAML"],
)
async def test_a_bad_edit_is_refused_with_its_place_and_the_mind_goes_on(tmp_path: Path, bad: str, told: str) -> None:
    """Design, configuration: a bad edit is refused with its error and the old one stays."""
    async with running(tmp_path) as bot:
        bot.mention("one")
        await bot.quiet()
        line = await bot.edited(bad, until="goes on as it was before")
        assert line.startswith(f"ERROR {bot.profile_file()}:")
        assert told in line
        bot.mention("two")
        await bot.quiet()
        assert bot.platform.texts == ["reply 1", "reply 2"]
        await bot.edited(profile_text(model="test:b"), until=ACTIVE)
        bot.mention("three")
        await bot.quiet()
        assert [request.model for request in bot.server.requests] == ["a", "a", "b"]


async def test_a_profile_that_appears_takes_its_channels(tmp_path: Path) -> None:
    """Our choice: a new folder counts without a restart, and its more specific claim wins at once."""
    async with running(tmp_path) as bot:
        bot.say("one")
        await bot.quiet()
        file = bot.profile_file("rabbit")
        file.parent.mkdir()
        file.write_text(profile_text().replace('"group:*", "private:*"', '"group:500"'), encoding="utf-8")
        await bot.logs.saying("profile rabbit is active")
        bot.say("two")
        await bot.quiet(profile_id="rabbit")
        assert bot.facts() == ["one"]
        assert [entry["type"] for entry in bot.entries(profile_id="rabbit")] == ["message"]


async def test_a_removed_profile_ends_and_keeps_nothing_more(tmp_path: Path) -> None:
    """Our choice: removing a folder is how a mind is switched off."""
    closed: list[str] = []

    class Closing(ExtensionInstance):
        def __init__(self, host: ExtensionHost) -> None:
            host.on_profile_close(note_closed)

    def note_closed() -> None:
        closed.append("closed")
        gone.set()

    gone = anyio.Event()
    services = providing(extension("closing", Closing))
    async with running(tmp_path, profile_text("extends: {closing: {}}"), services=services) as bot:
        bot.say("one")
        await bot.quiet()
        bot.profile_file().unlink()
        bot.profile_file().parent.rmdir()
        with anyio.fail_after(5):
            await gone.wait()
        bot.say("two")
        await bot.quiet()
        assert bot.facts() == ["one"]
        assert bot.supervisor.counts.unclaimed == 1
        assert bot.supervisor.resident_count == 0
    assert closed == ["closed"]


async def test_on_profile_close_is_called_once_however_often_and_by_whom_it_is_registered(tmp_path: Path) -> None:
    """Design, contracts for authors: once, when the profile closes, and not when it is edited."""
    closed: list[int] = []

    class Closing(ExtensionInstance):
        def __init__(self, host: ExtensionHost) -> None:
            host.on_profile_close(note_closed)

    def note_closed() -> None:
        closed.append(bot.supervisor.resident_count)

    services = providing(extension("closing", Closing))
    async with running(tmp_path, profile_text("extends: {closing: {}}"), services=services) as bot:
        for number in range(3):
            bot.say("hello", channel=ChannelRef(GROUP.sid, f"group:{number}"))
            await bot.quiet(ChannelRef(GROUP.sid, f"group:{number}"))
        await bot.edited(profile_text("extends: {closing: {}}", model="test:b"), until=ACTIVE)
        bot.say("hello", channel=ChannelRef(GROUP.sid, "group:1"))
        await bot.quiet()
        assert closed == []
    assert closed == [0], "once, with no runtime left"


async def test_an_edit_during_a_turn_lets_it_finish_and_what_is_said_meanwhile_joins_it(tmp_path: Path) -> None:
    """Design, hand-over: the queue feeds the old runtime until it is idle."""
    async with running(tmp_path) as bot:
        gate = Gate(bot)
        bot.mention("think")
        await bot.server.wait_requests(1)
        await bot.edited(profile_text(model="test:b"), until=ACTIVE)
        bot.mention("and this?")
        with anyio.fail_after(5):
            await bot.supervisor.drained()
            await bot.agent().written()
        assert len(bot.facts()) == 2, "what is said during a hand-over is on disk at once"
        gate.opened.set()
        await bot.platform.sent.at_least(2)
        await bot.quiet()
        assert bot.platform.texts == ["reply 1", "reply 2"]
        assert [end["type"] for end in bot.ends()] == ["turn.done", "turn.done"]
        bot.mention("more")
        await bot.quiet()
        assert [request.model for request in bot.server.requests] == ["a", "a", "b"]


async def test_a_turn_that_outlasts_the_hand_over_is_interrupted_and_its_pending_wake_moves_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design, hand-over: at most 60 s, then interrupted; the pending wake moves over."""
    monkeypatch.setattr("ishiki.runtime.residents._HANDOVER_S", 0.3)
    async with running(tmp_path) as bot:
        Gate(bot)
        bot.mention("think for ever")
        await bot.server.wait_requests(1)
        bot.mention("and this?")
        with anyio.fail_after(5):
            await bot.supervisor.drained()
            await bot.agent().written()
        await bot.edited(profile_text(model="test:b"), until=ACTIVE)
        _, second = await bot.server.wait_requests(2)
        await bot.quiet()
        assert second.model == "b"
        assert "think for ever" in second.all_text
        assert "and this?" in second.all_text
        assert [end["type"] for end in bot.ends()] == ["turn.aborted", "turn.done"]
        assert bot.platform.texts == ["reply 2"]


async def test_prompts_of_wakes_that_were_pending_move_over_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design, hand-over; prompts merge with `; ` as they do without it."""
    monkeypatch.setattr("ishiki.runtime.residents._HANDOVER_S", 0.3)
    async with running(tmp_path) as bot:
        Gate(bot)
        bot.mention("think for ever")
        await bot.server.wait_requests(1)
        bot.runtime().wake("water the plants")
        bot.runtime().wake("feed the cat")
        await bot.edited(profile_text(model="test:b"), until=ACTIVE)
        _, second = await bot.server.wait_requests(2)
        await bot.quiet()
        assert second.last_user_text.endswith("water the plants; feed the cat")
        assert [end["type"] for end in bot.ends()] == ["turn.aborted", "turn.done"]


async def test_an_edited_models_yaml_is_used_from_the_next_request_on(tmp_path: Path) -> None:
    """Design, contracts: edits of models.yaml only change what the model slot points to."""
    async with running(tmp_path) as bot:
        bot.mention("one")
        await bot.quiet()
        runtime = bot.runtime()
        models = bot.profiles_dir / "models.yaml"
        before = models.read_text(encoding="utf-8")
        models.write_text(before.replace("models:", "settings: {seed: 7}\n    models:"), encoding="utf-8")
        await bot.logs.saying("models.yaml was read again")
        bot.mention("two")
        await bot.quiet()
        assert [request.body.get("seed") for request in bot.server.requests] == [None, 7]
        assert bot.runtime() is runtime, "no mind is built anew for it"


async def test_a_bad_models_yaml_is_refused_and_the_models_stay(tmp_path: Path) -> None:
    """Design, configuration: a bad edit is refused with its error and the old one stays."""
    async with running(tmp_path) as bot:
        models = bot.profiles_dir / "models.yaml"
        before = models.read_text(encoding="utf-8")
        models.write_text(before.replace("openai-completions", "openai-completion"), encoding="utf-8")
        line = await bot.logs.saying("the set of models goes on as it was before")
        assert line.startswith(f"ERROR {models}:3:")
        bot.mention("one")
        await bot.quiet()
        assert bot.platform.texts == ["reply 1"]
