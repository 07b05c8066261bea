"""Bots in processes of their own, to be measured from outside: ours, and a bare NoneBot bot to compare it with."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import anyio

from bench.kernel import cpu_s, resident_bytes
from ishiki.config import setting_rows
from ishiki.contracts.events import ChannelRef
from ishiki.runtime.paths import LOG_NAME, runtime_home

__all__ = ["DEMO_MODELS", "PROFILE", "RunningBot", "bare_bot", "our_bot", "profile"]

PROFILE: Final = "mind"

DEMO_MODELS: Final = 'groups: {main: {models: ["demo:offline"]}}\n'
"""A models.yaml for which LiteLLM is never loaded."""

_OURS: Final = """
import nonebot

nonebot.init()
if nonebot.load_plugin("ishiki.plugin") is None:
    raise SystemExit("ishiki.plugin could not be loaded")
nonebot.run()
"""

_BARE: Final = """
import nonebot
from nonebot import on_message
from nonebot.adapters.onebot.v11 import Adapter

nonebot.init()
nonebot.get_driver().register_adapter(Adapter)

@on_message().handle()
async def nothing() -> None:
    pass

nonebot.run()
"""

_START_S = 60.0
_STOP_S = 30.0
_LOOK_S = 0.002
_QUIET_CPU_S = 0.002
_QUIET_S = 0.25
_SHOWN_LINES = 30


class RunningBot:
    """A bot's process, its log at `folder/bot.log`."""

    def __init__(self, script: str, folder: Path, env: Mapping[str, str]) -> None:
        """Start it; return when it takes connections.

        Raises:
            RuntimeError: it ended or did not listen in time; the text shows its log.
        """
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "bot.log"
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        began = time.monotonic()
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", script],
                cwd=folder,
                env=_environment(self.port, env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() - began > _START_S:
                self._process.kill()
                raise RuntimeError(f"the bot did not start\n{self.log}")
            time.sleep(_LOOK_S)
        self.ready_s = time.monotonic() - began
        """Seconds from its start to its first connection."""
        self.ready_cpu_s = self.cpu_s
        """CPU seconds that this took."""

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=0.5).close()
        except OSError:
            return False
        return True

    @property
    def url(self) -> str:
        """Where a OneBot end connects."""
        return f"ws://127.0.0.1:{self.port}/onebot/v11/ws"

    @property
    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def cpu_s(self) -> float:
        """CPU seconds that it has used."""
        return cpu_s(self.pid)

    @property
    def resident_bytes(self) -> int:
        """Its memory."""
        return resident_bytes(self.pid)

    def log_of(self, channel: ChannelRef) -> Path:
        """Return where a channel's log is."""
        return runtime_home(self.folder / "data", PROFILE, channel.sid, channel.channel_id) / LOG_NAME

    async def quiet(self, *, at_least_s: float = 0.0) -> None:
        """Return when it does nothing any more: what was asked of it is done, whatever that was.

        Args:
            at_least_s: seconds to wait in any case, for what it does later.
        """
        await anyio.sleep(at_least_s)
        before = self.cpu_s
        while True:
            await anyio.sleep(_QUIET_S)
            now = self.cpu_s
            if now - before < _QUIET_CPU_S:
                return
            before = now

    def stop(self) -> None:
        """End it in order."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise


@contextmanager
def our_bot(
    folder: Path, *, models: str = DEMO_MODELS, profile_text: str | None = None, **env: str
) -> Generator[RunningBot]:
    """Run an Ishiki bot in `folder`."""
    for path, text in (("models.yaml", models), (f"{PROFILE}/profile.yaml", profile_text or profile())):
        file = folder / "profiles" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    with _running(RunningBot(_OURS, folder, env)) as bot:
        yield bot


@contextmanager
def bare_bot(folder: Path, **env: str) -> Generator[RunningBot]:
    """Run a NoneBot bot whose one handler does nothing."""
    with _running(RunningBot(_BARE, folder, env)) as bot:
        yield bot


@contextmanager
def _running(bot: RunningBot) -> Generator[RunningBot]:
    """Stop the bot at the end; an error of whoever measures it shows the end of its log."""
    try:
        yield bot
    except BaseException as error:
        error.add_note("\n".join(["the bot's log ends with:", *bot.log.splitlines()[-_SHOWN_LINES:]]))
        raise
    finally:
        bot.stop()


def profile(*, model: str = "main", more: str = "") -> str:
    """Return a profile.yaml that claims everything, types without a pause, and may speak as often as it likes."""
    return (
        f'model: "{model}"\n'
        'channels: {"onebot:*": ["*"]}\n'
        "typing: {base_delay: 0, char_per_second: 0, min_delay: 0, max_delay: 0}\n"
        f"guards: {{turns_per_hour: 0}}\n{more}\n"
    )


def _environment(port: int, more: Mapping[str, str]) -> dict[str, str]:
    settings = {row.name for row in setting_rows()}
    # As for whoever deploys it: the second start finds the byte code of the first.
    left_out = settings | {"PYTHONDONTWRITEBYTECODE"}
    inherited = {name: value for name, value in os.environ.items() if name.upper() not in left_out}
    driver = next(row.default for row in setting_rows() if row.name == "DRIVER")
    ours = {"HOST": "127.0.0.1", "PORT": str(port), "DRIVER": driver, "NO_PROXY": "127.0.0.1,localhost"}
    return inherited | ours | dict(more)
