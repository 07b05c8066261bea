"""A bot in a process of its own, as a deployer runs it: its folder, its log, its facts on disk, its signals.

    async with OpenAIServer() as server:
        async with BotProcess(tmp_path, models=models_yaml(server.base_url), profiles={"mind": profile_yaml()}) as bot:
            async with OneBotPeer(bot.url) as peer:
                await peer.mention("are you there?", group_id=500)
                await peer.wait_sent(1, within=15)
        assert len(bot.facts(ChannelRef("onebot:10001", "group:500"))) == 1

Used with `with` it blocks while it starts and stops, so that one bot can serve a whole module from a plain fixture;
with `async with` the peer and the model server of the same test go on meanwhile. It needs an installed `ishiki` and no
`bot.py`.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import anyio
import anyio.to_thread
import orjson
from watchfiles import watch

from ishiki.config import setting_rows
from ishiki.contracts.events import (
    MESSAGE_CREATED,
    MESSAGE_DELETED,
    ChannelRef,
    ChatEvent,
    MessageCreated,
    MessageDeleted,
)
from ishiki.core.entries import Entry, entry_from_json
from ishiki.core.messages import CustomMessage
from ishiki.runtime.paths import LOG_NAME, runtime_home

__all__ = ["BotProcess", "models_yaml", "profile_yaml"]

R = TypeVar("R")

_START_S = 30.0
"""Seconds until a bot must be ready. It takes 1 to 4; a loaded machine takes longer."""

_STOP_S = 20.0
"""Seconds after which a bot that does not stop is killed and the test fails. A stop takes at most about 8."""

_WITHIN_S = 5.0
"""What the other waits of this kit allow by default, see `ishiki.testing.journal`."""

_LOOK_MS = 100
"""How often a log is read again where the system reports no change, as some file systems do not."""

_SHOWN_LINES = 60
"""How much of the log a failure shows."""

_READY = "Ishiki is ready"
_LISTENING = "Uvicorn running on"
"""The socket opens a moment after the bot is ready; only then can an end connect."""

_SCRIPT = """
import nonebot

from ishiki.config.settings import MAX_FRAME_BYTES

nonebot.init()
if nonebot.load_plugin("ishiki.plugin") is None:
    raise SystemExit("ishiki.plugin could not be loaded; the lines above say why")
nonebot.load_plugins("plugins")
nonebot.run(ws_max_size=MAX_FRAME_BYTES)
"""


def models_yaml(base_url: str, *, api_key: str = "sk-test-key", model_id: str = "test-model") -> str:
    """Return a models.yaml with one model, `test:<model_id>`, at an OpenAI-compatible server."""
    return (
        "providers:\n"
        "  test:\n"
        "    api: openai-completions\n"
        f'    base_url: "{base_url}"\n'
        f'    api_key: "{api_key}"\n'
        "    models:\n"
        f'      - {{id: "{model_id}", context_window: 65536}}\n'
    )


def profile_yaml(*, claims: str = '{"onebot:*": ["*"]}', model: str = "test:test-model", more: str = "") -> str:
    """Return a profile.yaml that types without a pause.

    Args:
        claims: the value of `channels`, in one line.
        model: the value of `model`.
        more: further top-level keys, as lines.
    """
    return (
        f'model: "{model}"\n'
        f"channels: {claims}\n"
        "typing: {base_delay: 0, char_per_second: 0, min_delay: 0, max_delay: 0}\n"
        f"{more}\n"
    )


class BotProcess:
    """One bot. It may be started again after it has ended; folder, port and log stay.

    Args:
        folder: the project's folder; made, and filled with what is given. What stands there already stays.
        models: the text of profiles/models.yaml; None writes none.
        profiles: profile id -> the text of its profile.yaml.
        plugins: file name -> the text of a plugin in plugins/.
        env: variables over the process's own, of which settings of a bot (`PORT`, `ISHIKI_…`) are left out.
        command: what is started; None: this Python with the few lines of a `bot.py`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        models: str | None = None,
        profiles: Mapping[str, str] | None = None,
        plugins: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        self.folder = folder
        self.port = _free_port()
        self.exit_code: int | None = None
        """How it ended last, as a shell tells it: 143 after SIGTERM; None while it runs."""
        self._env = dict(env or {})
        self._command = list(command or [sys.executable, "-c", _SCRIPT])
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._lines: list[str] = []
        self._grown = threading.Condition()
        self._is_open = False
        (folder / "data").mkdir(parents=True, exist_ok=True)
        (folder / "plugins").mkdir(exist_ok=True)
        if models is not None:
            self.write("profiles/models.yaml", models)
        for profile_id, text in (profiles or {}).items():
            self.write(f"profiles/{profile_id}/profile.yaml", text)
        for name, text in (plugins or {}).items():
            self.write(f"plugins/{name}", text)

    def __enter__(self) -> Self:
        self._start(_START_S)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._note(exc)
        if self.is_running:
            self._stop(signal.SIGTERM, _STOP_S)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._note(exc)
        with anyio.CancelScope(shield=True):
            if self.is_running:
                await self.stop()

    # Its life

    @property
    def url(self) -> str:
        """Where a reverse WebSocket connects."""
        return f"ws://127.0.0.1:{self.port}/onebot/v11/ws"

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The number of the process.

        Raises:
            RuntimeError: it does not run.
        """
        if self._process is None or not self.is_running:
            raise RuntimeError("the bot does not run")
        return self._process.pid

    async def start(self, *, within: float = _START_S) -> None:
        """Start it, and return when it takes connections.

        Raises:
            RuntimeError: it ended, or was not ready within `within` seconds; the text shows its log.
        """
        await anyio.to_thread.run_sync(partial(self._start, within))

    async def stop(self, number: signal.Signals = signal.SIGTERM, *, within: float = _STOP_S) -> int:
        """Send a signal and return the exit code when the process has ended and its log is complete.

        Raises:
            TimeoutError: it did not end within `within` seconds, and was killed.
        """
        return await anyio.to_thread.run_sync(partial(self._stop, number, within))

    async def wait_end(self, *, within: float = _STOP_S) -> int:
        """Return the exit code when the process has ended by itself, or by `send_signal`.

        Raises:
            TimeoutError: it did not end within `within` seconds, and was killed.
        """
        return await anyio.to_thread.run_sync(partial(self._wait_end, within))

    async def kill(self) -> None:
        """End it as a power cut does, and return when it has ended."""
        await self.stop(signal.SIGKILL)

    async def restart(self, *, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop it and start it again in the same folder at the same port; returns how it ended."""
        code = await self.stop(number)
        await self.start()
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal and return at once.

        Raises:
            RuntimeError: it does not run.
        """
        if self._process is None or not self.is_running:
            raise RuntimeError("the bot does not run")
        self._process.send_signal(number)

    # Its log

    @property
    def log(self) -> list[str]:
        """The lines of its output so far, oldest first, of all its starts; a copy."""
        with self._grown:
            return list(self._lines)

    @property
    def tail(self) -> str:
        """The newest lines of its output."""
        lines = self.log
        return "\n".join(["--- log of the bot ---", *lines[-_SHOWN_LINES:], "--- end of the log ---"])

    async def wait_log(self, pattern: str, *, since: int = 0, within: float = _WITHIN_S) -> str:
        """Wait for the first line, from position `since` of `log` on, in which a regular expression is found.

        Raises:
            TimeoutError: none came within `within` seconds, or the process ended first; the text shows the log.
        """
        found = partial(self._wait_log, re.compile(pattern), since, within)
        return await anyio.to_thread.run_sync(found, abandon_on_cancel=True)

    # Its folder

    def write(self, path: str, text: str) -> Path:
        """Write a file below the folder, with the folders above it."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def home(self, channel: ChannelRef, *, profile: str = "mind") -> Path:
        """Return the folder of one channel's data."""
        return runtime_home(self.folder / "data", profile, channel.sid, channel.channel_id)

    def entries(self, channel: ChannelRef, *, profile: str = "mind") -> list[Entry]:
        """Return every entry of a channel's log, in the order of the file; empty without one.

        The header is left out, and so is a last line that is being written.
        """
        try:
            raw = (self.home(channel, profile=profile) / LOG_NAME).read_bytes()
        except FileNotFoundError:
            return []
        lines = raw.split(b"\n")[1:-1]
        return [entry_from_json(orjson.loads(line)) for line in lines if line]

    def facts(self, channel: ChannelRef, *, profile: str = "mind") -> list[ChatEvent]:
        """Return what a channel's log holds of what people did, in the order of the file."""
        return [fact for entry in self.entries(channel, profile=profile) if (fact := _fact(entry)) is not None]

    async def wait_facts(
        self, count: int, channel: ChannelRef, *, profile: str = "mind", within: float = _WITHIN_S
    ) -> list[ChatEvent]:
        """Wait until a channel's log holds `count` facts in all, and return all of them.

        Raises:
            TimeoutError: there were fewer within `within` seconds; the text shows the bot's log.
        """

        def find() -> list[ChatEvent] | None:
            facts = self.facts(channel, profile=profile)
            return facts if len(facts) >= count else None

        return await self._wait_disk(find, f"{count} facts of {channel}", within)

    async def wait_entry(
        self, matches: Callable[[Entry], bool], channel: ChannelRef, *, profile: str = "mind", within: float = _WITHIN_S
    ) -> Entry:
        """Wait for the first entry of a channel's log that `matches` accepts.

        Raises:
            TimeoutError: there was none within `within` seconds; the text shows the bot's log.
        """

        def find() -> Entry | None:
            return next((entry for entry in self.entries(channel, profile=profile) if matches(entry)), None)

        return await self._wait_disk(find, f"a matching entry of {channel}", within)

    async def _wait_disk(self, find: Callable[[], R | None], wanted: str, within: float) -> R:
        stop = threading.Event()
        try:
            with anyio.move_on_after(within):
                look = partial(self._watch_disk, find, stop)
                if (found := await anyio.to_thread.run_sync(look, abandon_on_cancel=True)) is not None:
                    return found
        finally:
            stop.set()
        raise TimeoutError(f"waited {within} s for {wanted}\n{self.tail}")

    def _watch_disk(self, find: Callable[[], R | None], stop: threading.Event) -> R | None:
        """Look at once, and again whenever something below data/ has changed."""
        if (found := find()) is not None:
            return found
        changes = watch(
            self.folder / "data",
            watch_filter=None,
            debounce=20,
            step=5,
            stop_event=stop,
            rust_timeout=_LOOK_MS,
            yield_on_timeout=True,
        )
        return next((found for _ in changes if (found := find()) is not None), None)

    # The process

    def _environment(self) -> dict[str, str]:
        """Return the process's own variables without what would set a bot up, and ours over them."""
        settings = {row.name for row in setting_rows()}
        inherited = {name: value for name, value in os.environ.items() if name.upper() not in settings}
        driver = next(row.default for row in setting_rows() if row.name == "DRIVER")
        ours = {
            "HOST": "127.0.0.1",
            "PORT": str(self.port),
            "DRIVER": driver,
            "NO_PROXY": "127.0.0.1,localhost",
            "PYTHONUNBUFFERED": "1",
        }
        return inherited | ours | self._env

    def _start(self, within: float) -> None:
        if self.is_running:
            raise RuntimeError("the bot runs already")
        since = len(self.log)
        self.exit_code = None
        process = subprocess.Popen(
            self._command,
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._process = process
        self._is_open = True
        self._reader = threading.Thread(target=self._read, args=(process,), name="log of the bot", daemon=True)
        self._reader.start()
        began = time.monotonic()
        try:
            self._wait_log(re.compile(_READY), since, within)
            self._wait_log(re.compile(_LISTENING), since, within - (time.monotonic() - began))
        except TimeoutError as error:
            if self._is_open:
                process.kill()
            self._wait_end(_STOP_S)  # its output closes a moment before it has ended by itself
            raise RuntimeError(f"the bot did not start: {error}") from None

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                with self._grown:
                    self._lines.append(line.rstrip("\n"))
                    self._grown.notify_all()
        with self._grown:
            self._is_open = False
            self._grown.notify_all()

    def _wait_log(self, pattern: re.Pattern[str], since: int, within: float) -> str:
        looked_at = since
        until = time.monotonic() + within
        with self._grown:
            while True:
                while looked_at < len(self._lines):
                    line = self._lines[looked_at]
                    if pattern.search(line):
                        return line
                    looked_at += 1
                if not self._is_open or (left := until - time.monotonic()) <= 0:
                    break
                self._grown.wait(left)
        why = f"waited {within:.1f} s" if self._is_open else "the process ended"
        raise TimeoutError(f"{why}; no line matches {pattern.pattern!r}\n{self.tail}")

    def _stop(self, number: signal.Signals, within: float) -> int:
        self.send_signal(number)
        return self._wait_end(within, after=f" of {number.name}")

    def _wait_end(self, within: float, after: str = "") -> int:
        process, reader = self._process, self._reader
        if process is None or reader is None:
            raise RuntimeError("the bot was never started")
        try:
            code = process.wait(within)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            reader.join(within)
            raise TimeoutError(f"the bot did not end within {within:g} s{after}\n{self.tail}") from None
        reader.join(within)
        self.exit_code = code if code >= 0 else 128 - code
        return self.exit_code

    def _note(self, error: BaseException | None) -> None:
        if error is not None:
            error.add_note(self.tail)


def _fact(entry: Entry) -> ChatEvent | None:
    message = entry.message
    if not isinstance(message, CustomMessage):
        return None
    if message.type == MESSAGE_CREATED:
        return MessageCreated.from_data(message.data)
    return MessageDeleted.from_data(message.data) if message.type == MESSAGE_DELETED else None


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
