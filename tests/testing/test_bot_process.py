"""The bot in a process of its own, mostly with a few lines of Python in the bot's place."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from ishiki.contracts.events import ChannelRef
from ishiki.testing.bot_process import BotProcess, profile_yaml
from ishiki.testing.onebot_peer import OneBotPeer

CHANNEL = ChannelRef("onebot:10001", "group:500")

_READY = "print('Ishiki is ready.'); print('Uvicorn running on'); "


def stand_in(folder: Path, script: str, **env: str) -> BotProcess:
    """Return a process that runs `script`."""
    return BotProcess(folder, command=[sys.executable, "-c", script], env=env)


async def test_a_bot_that_ends_instead_of_starting_is_an_error_that_shows_its_log(tmp_path: Path) -> None:
    """Our choice."""
    bot = stand_in(tmp_path, "print('the key is missing'); raise SystemExit(3)")
    with pytest.raises(RuntimeError, match="the key is missing"):
        await bot.start()
    assert not bot.is_running


async def test_a_bot_that_is_not_ready_in_time_is_an_error_and_is_ended(tmp_path: Path) -> None:
    """Our choice: nothing is left behind by a failed start."""
    bot = stand_in(tmp_path, "import signal; print('loading'); signal.pause()")
    with pytest.raises(RuntimeError, match="did not start"):
        await bot.start(within=0.5)
    assert not bot.is_running


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, 137)])
async def test_the_exit_code_is_the_one_that_a_shell_tells(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """POSIX shells: 128 and the signal's number."""
    script = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); " + _READY + "signal.pause()"
    async with stand_in(tmp_path, script) as bot:
        assert await bot.stop(number) == code
        assert bot.exit_code == code


async def test_a_bot_that_ignores_its_signal_is_killed_and_the_wait_fails(tmp_path: Path) -> None:
    """Our choice."""
    script = "import signal; signal.signal(signal.SIGTERM, lambda *_: None); " + _READY + "\nwhile True: signal.pause()"
    bot = stand_in(tmp_path, script)
    await bot.start()
    with pytest.raises(TimeoutError, match="SIGTERM"):
        await bot.stop(within=0.3)
    assert not bot.is_running


async def test_a_failed_wait_shows_the_log(tmp_path: Path) -> None:
    """Our choice: what the bot said is what explains a failure."""
    async with stand_in(tmp_path, _READY + "import signal; print('all is lost'); signal.pause()") as bot:
        await bot.wait_log("is lost")
        with pytest.raises(TimeoutError, match="all is lost"):
            await bot.wait_log("found", within=0.1)
        with pytest.raises(TimeoutError, match="all is lost"):
            await bot.wait_facts(1, CHANNEL, within=0.1)


async def test_the_settings_of_the_testers_own_environment_do_not_reach_the_bot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our choice: a tester may run a bot of his own from the same shell."""
    monkeypatch.setenv("ISHIKI_DATA_DIR", "/elsewhere")
    monkeypatch.setenv("onebot_access_token", "mine")
    monkeypatch.setenv("OTHER", "kept")
    names = "('ISHIKI_DATA_DIR', 'onebot_access_token', 'OTHER', 'GIVEN')"
    script = f"import os; print([os.environ.get(name) for name in {names}]); {_READY}"
    bot = stand_in(tmp_path, script + "import signal; signal.pause()", GIVEN="given")
    async with bot:
        assert bot.log[0] == "[None, None, 'kept', 'given']"


async def test_a_restarted_bot_has_its_port_its_facts_and_its_log(tmp_path: Path) -> None:
    """Our choice: also after a kill."""
    bot = BotProcess(tmp_path, profiles={"mind": profile_yaml(model="demo:offline")})
    async with bot:
        url = bot.url
        async with OneBotPeer(bot.url) as peer:
            await peer.say("first", group_id=500, user_id=41)
            await bot.wait_facts(1, CHANNEL, within=15)
        assert await bot.restart(number=signal.SIGKILL) == 137
        assert bot.url == url
        async with OneBotPeer(bot.url) as peer:
            await peer.say("second", group_id=500, user_id=42)
            assert len(await bot.wait_facts(2, CHANNEL, within=15)) == 2
        assert len([line for line in bot.log if "Ishiki is ready" in line]) == 2


def test_a_bot_can_be_run_without_an_event_loop(tmp_path: Path) -> None:
    """Our choice: a plain fixture keeps one bot for many tests."""
    with stand_in(tmp_path, _READY + "import signal; signal.pause()") as bot:
        assert bot.is_running
    assert not bot.is_running
    assert bot.exit_code == 143
