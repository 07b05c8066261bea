"""Standard input as lines that can be awaited.

A thread reads, because neither a terminal with line editing nor a redirected file can be awaited. It may be left behind
in the middle of a read: when the chat ends, whoever types must not be asked to press Enter first.
"""

from __future__ import annotations

import asyncio
import io
import math
import queue
import sys
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TextIO

import anyio

try:
    import readline
except ImportError:  # Python can be built without it: no history then, all else works
    readline = None

__all__ = ["InputLines"]


class InputLines:
    """The lines of standard input, one at a time; on a terminal with a prompt, editing and history.

    Use it with `with`: leaving it gives the terminal back as it was.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        """Read `stream`, which has a file descriptor; standard input by default."""
        # None where the process was started with its standard input closed.
        self._stream: TextIO | None = sys.stdin if stream is None else stream
        self.is_terminal = self._stream is not None and self._stream.isatty() and sys.stdout.isatty()
        """Whether a person types."""
        self._prompts: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._asked: str | None = None
        self._saved: list[int | list[bytes | int]] | None = None
        self._thread: threading.Thread | None = None
        # One line for each prompt, so the number of lines that wait is bounded by the prompts.
        self._arriving, self._arrived = anyio.create_memory_object_stream[str | None](math.inf)

    def __enter__(self) -> InputLines:
        if self._stream is not None and self.is_terminal:
            self._saved = termios.tcgetattr(self._stream)
            if readline is not None:
                # Its escape codes would stay switched on in the terminal when the thread is left behind.
                readline.parse_and_bind("set enable-bracketed-paste off")
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._arriving.close()
        self._arrived.close()
        if self._stream is not None and self._saved is not None:
            with suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(self._stream, termios.TCSADRAIN, self._saved)

    @property
    def typed(self) -> str | None:
        """The prompt with what is typed behind it, or None while nobody is asked."""
        if self._asked is None or not self.is_terminal:
            return None
        return self._asked + (readline.get_line_buffer() if readline is not None else "")

    async def read(self, prompt: str) -> str | None:
        """Return the next line without its end, or None at the end of input."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, args=(asyncio.get_running_loop(),), name="standard input", daemon=True
            )
            self._thread.start()
        self._asked = prompt
        self._prompts.put(prompt)
        try:
            return await self._arrived.receive()
        finally:
            self._asked = None

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        read = self._read_terminal if self.is_terminal else self._reader()
        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            while True:
                line = read(self._prompts.get())
                loop.call_soon_threadsafe(self._arrive, line)

    def _arrive(self, line: str | None) -> None:
        with suppress(anyio.ClosedResourceError):
            self._arriving.send_nowait(line)

    def _read_terminal(self, prompt: str) -> str | None:
        try:
            return input(prompt)
        except UnicodeDecodeError as fault:
            return fault.object.decode(errors="replace")
        except (EOFError, OSError):
            return None

    def _reader(self) -> Callable[[str], str | None]:
        if self._stream is None:
            return lambda _prompt: None
        # Unbuffered: a thread left behind inside a buffered stream would hold its lock when the interpreter ends.
        raw = io.FileIO(self._stream.fileno(), closefd=False)

        def read(_prompt: str) -> str | None:
            try:
                line = raw.readline()
            except OSError:
                return None
            return line.decode(errors="replace").rstrip("\r\n") if line else None

        return read
