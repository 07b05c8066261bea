"""The chat as a process, as a person or a pipe runs it."""

from __future__ import annotations

import os
import pty
import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

import anyio
from anyio.abc import Process

from .bot_end import bot_end, echo, silent

COMMAND = [sys.executable, "-m", "ishiki", "chat"]


def environ_of(variables: Mapping[str, str]) -> dict[str, str]:
    """Return this process's variables with those of a bot."""
    return {**os.environ, **variables}


async def test_a_script_runs_as_a_process_with_host_and_port_from_the_environment(tmp_path: Path) -> None:
    """Issue: `.ci/run` runs it so."""
    script = tmp_path / "hello.chat"
    script.write_text("hello\nexpect hello\n", encoding="utf-8")
    async with bot_end() as bot:
        command = [*COMMAND, "--script", str(script)]
        done = await anyio.run_process(command, env=environ_of(bot.environ), check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert done.stdout.decode().endswith("hello.chat: passed, 1 expectation met\n")


async def test_piped_lines_are_said_and_the_last_one_is_answered_before_it_ends() -> None:
    """Our choice: `echo hello | python -m ishiki chat` shows the answer. A wrong command does not end it."""
    typed = "你好\n\n/nonsense\n/group 5\n@bot last words"  # without an end of line
    async with bot_end() as bot:
        command = [*COMMAND, "--name", "林"]
        done = await anyio.run_process(command, input=typed.encode(), env=environ_of(bot.environ), check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    out = done.stdout.decode().splitlines()
    assert "[private 42] 林 #1: 你好" in out
    assert any(line.startswith("- there is no /nonsense") for line in out)
    assert out[-1].startswith("[group 5] bot #")
    assert out[-1].endswith("you said: last words")


async def test_a_reader_that_leaves_early_does_not_break_the_dialogue(tmp_path: Path) -> None:
    """Our choice: `… --script FILE | head -1` still tells by its status how the script went."""
    script = tmp_path / "hello.chat"
    script.write_text("hello\nexpect hello\n/group 5\n@bot hello\nexpect hello\n", encoding="utf-8")
    async with bot_end() as bot:
        command = f"{shlex.join([*COMMAND, '--script', str(script)])} | head -n 1; exit ${{PIPESTATUS[0]}}"
        done = await anyio.run_process(["bash", "-c", command], env=environ_of(bot.environ), check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")


async def test_closed_input_is_an_end_of_input() -> None:
    """Our choice: a service may start it without a standard input."""
    async with bot_end() as bot:
        command = f"exec {shlex.join(COMMAND)} <&-"
        done = await anyio.run_process(["bash", "-c", command], env=environ_of(bot.environ), check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")


async def test_quit_ends_it_while_input_is_still_open() -> None:
    """Our choice: the reader that is left behind does not keep the process."""
    async with (
        bot_end() as bot,
        await anyio.open_process([*COMMAND], env=environ_of(bot.environ)) as process,
    ):
        assert process.stdin is not None
        await process.stdin.send(b"/quit\n")
        with anyio.fail_after(20):
            assert await process.wait() == 0


async def test_ctrl_c_ends_it_without_a_traceback_while_it_reads_a_pipe() -> None:
    """Issue: Ctrl-C is a clean exit."""
    async with (
        bot_end(silent) as bot,
        await anyio.open_process([*COMMAND], env=environ_of(bot.environ)) as process,
    ):
        assert process.stdin is not None
        assert process.stderr is not None
        await process.stdin.send(b"hello\n")
        await bot.events.at_least(1, within=20)
        process.send_signal(signal.SIGINT)
        with anyio.fail_after(20):
            assert await process.wait() == 130
            assert b"".join([part async for part in process.stderr]) == b""


class Terminal:
    """A pseudo-terminal with a chat on it."""

    def __init__(self, process: Process, screen: int) -> None:
        self._process = process
        self._screen = screen
        self.shown = ""

    def press(self, keys: str) -> None:
        """Type on the keyboard."""
        os.write(self._screen, keys.encode())

    async def see(self, text: str) -> None:
        """Wait until the screen has shown `text`."""
        with anyio.fail_after(20):
            while text not in self.shown:
                await anyio.wait_readable(self._screen)
                self.shown += os.read(self._screen, 65536).decode(errors="replace")


async def test_a_person_on_a_terminal_gets_a_prompt_an_answer_and_their_terminal_back() -> None:
    """Issue: works interactively; Ctrl-C is a clean exit, also in the middle of a line."""
    screen, keyboard = pty.openpty()
    before = termios.tcgetattr(keyboard)
    try:
        async with (
            bot_end(echo) as bot,
            await anyio.open_process(
                [*COMMAND],
                env=environ_of({**bot.environ, "TERM": "xterm", "NO_COLOR": "1"}),
                stdin=keyboard,
                stdout=keyboard,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):
            terminal = Terminal(process, screen)
            await terminal.see("private 42 Rin> ")
            terminal.press("你好\n")
            await terminal.see("[private 42] bot #2: you said: 你好")
            terminal.press("/group 500\n")
            await terminal.see("group 500 Rin> ")
            terminal.press("half a li")
            await terminal.see("half a li")
            await bot.call("send_group_msg", group_id=500, message="by the way")
            # What is typed so far stands below what has arrived.
            await terminal.see("[group 500] bot #3: by the way\r\ngroup 500 Rin> half a li")
            process.send_signal(signal.SIGINT)
            with anyio.fail_after(20):
                assert await process.wait() == 130
        assert "Traceback" not in terminal.shown
        assert termios.tcgetattr(keyboard) == before
    finally:
        os.close(screen)
        os.close(keyboard)


async def test_the_end_of_input_on_a_terminal_ends_it() -> None:
    """Issue: EOF ends cleanly."""
    screen, keyboard = pty.openpty()
    try:
        async with (
            bot_end(silent) as bot,
            await anyio.open_process(
                [*COMMAND],
                env=environ_of({**bot.environ, "TERM": "dumb"}),
                stdin=keyboard,
                stdout=keyboard,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):
            terminal = Terminal(process, screen)
            await terminal.see("Rin> ")
            terminal.press("\x04")
            with anyio.fail_after(20):
                assert await process.wait() == 0
    finally:
        os.close(screen)
        os.close(keyboard)
