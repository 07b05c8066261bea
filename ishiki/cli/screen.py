"""What the chat prints. On a terminal, what arrives while a person types goes above the line that they are typing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TextIO

__all__ = ["Screen"]

_ERASE_LINE = "\r\x1b[K"
_DIM, _BOLD, _PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[0m"


def _nothing_typed() -> str | None:
    return None


class Screen:
    """Prints the dialogue, line by line."""

    def __init__(
        self, out: TextIO | None = None, *, is_styled: bool = False, typed: Callable[[], str | None] = _nothing_typed
    ) -> None:
        """Print to `out`.

        Args:
            out: where to; standard output by default.
            is_styled: whether it is a terminal that shows styles.
            typed: gives the prompt with what is typed behind it so far, or None while nobody is asked for a line.
        """
        self._out = sys.stdout if out is None else out
        self._is_styled = is_styled
        self._typed = typed

    def message(self, head: str, text: str) -> None:
        """Print a message; the further lines of its text stand below its first."""
        first, *rest = text.split("\n")
        body = "\n".join([f"{first}", *(f"    {line}" for line in rest)])
        self._print(f"{_BOLD}{head}{_PLAIN} {body}" if self._is_styled else f"{head} {body}")

    def note(self, text: str) -> None:
        """Print a remark of the chat itself."""
        indented = text.replace("\n", "\n  ")
        self._print(f"{_DIM}- {indented}{_PLAIN}" if self._is_styled else f"- {indented}")

    def text(self, text: str) -> None:
        """Print lines as they are."""
        self._print(text)

    def _print(self, lines: str) -> None:
        typed = self._typed()
        try:
            if typed is None:
                print(lines, file=self._out, flush=True)
            else:
                print(f"{_ERASE_LINE}{lines}\n{typed}", end="", file=self._out, flush=True)
        except BrokenPipeError:
            # Whoever read the output has gone (`| head`). The dialogue goes on, and its status is still worth having;
            # without this the interpreter's last flush would complain.
            with open(os.devnull, "w", encoding="utf-8") as nowhere:
                os.dup2(nowhere.fileno(), self._out.fileno())
