"""What a person types: a line to say, or a command. Pure.

A line that starts with `/` is a command; `//` says a line that starts with one `/`, such as a command of a plugin.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ishiki.errors import IshikiError

__all__ = [
    "HELP",
    "Attach",
    "Group",
    "Help",
    "Log",
    "Private",
    "Quit",
    "Quote",
    "Recall",
    "Say",
    "Typed",
    "TypedError",
    "User",
    "read_typed",
]

LOG_LINES = 15
"""How many lines `/log` shows."""


class TypedError(IshikiError):
    """A command that cannot be carried out; the text says how it is written."""

    default_code = "typed_wrong"


@dataclass(frozen=True, slots=True)
class Say:
    """Say a line in the present chat."""

    text: str


@dataclass(frozen=True, slots=True)
class Quote:
    """Say a line that quotes a message."""

    number: int | None
    """The message; None: the bot's last one in this chat."""
    text: str


@dataclass(frozen=True, slots=True)
class Recall:
    """Take a message back."""

    number: int | None
    """The message; None: the speaker's last one in this chat."""


@dataclass(frozen=True, slots=True)
class Attach:
    """Send a file, or an image."""

    kind: Literal["file", "image"]
    path: Path


@dataclass(frozen=True, slots=True)
class Group:
    """Go to a group."""

    group_id: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Private:
    """Go to the private chat with the bot."""


@dataclass(frozen=True, slots=True)
class User:
    """Speak as somebody else."""

    user_id: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """Show the newest lines of the present chat."""

    count: int = LOG_LINES


@dataclass(frozen=True, slots=True)
class Help:
    """Show the commands."""


@dataclass(frozen=True, slots=True)
class Quit:
    """End the chat."""


Typed: TypeAlias = Say | Quote | Recall | Attach | Group | Private | User | Log | Help | Quit
"""One typed line, understood."""


def read_typed(line: str) -> Typed:
    """Understand one line, which is not blank.

    Raises:
        TypedError: it is a command that does not exist, or its arguments are wrong.
    """
    if not line.startswith("/"):
        return Say(line)
    if line.startswith("//"):
        return Say(line[1:])
    word, _, rest = line[1:].partition(" ")
    read = _READERS.get(word)
    if read is None:
        close = difflib.get_close_matches(word, _READERS, n=1)
        hint = f"did you mean /{close[0]}?" if close else "/help lists the commands"
        raise TypedError(f"there is no /{word}; {hint} To say it to the bot, write /{line}")
    return read(rest.strip())


def _group(rest: str) -> Typed:
    number, _, name = rest.partition(" ")
    return Group(_identity(number, "/group 500 [name]"), name.strip() or None)


def _user(rest: str) -> Typed:
    number, _, name = rest.partition(" ")
    return User(_identity(number, "/user 42 [name]"), name.strip() or None)


def _quote(rest: str) -> Typed:
    number, _, text = rest.partition(" ")
    usage = "/quote 12 text, or /quote last text"
    if not text.strip():
        raise TypedError(f"write {usage}; /log shows the numbers")
    return Quote(_message(number, usage), text.strip())


def _recall(rest: str) -> Typed:
    return Recall(_message(rest, "/recall 12, or /recall last"))


def _file(rest: str) -> Typed:
    return Attach("file", _path(rest, "/file path"))


def _image(rest: str) -> Typed:
    return Attach("image", _path(rest, "/image path"))


def _log(rest: str) -> Typed:
    return Log(_number(rest, "/log [count]")) if rest else Log()


def _private(rest: str) -> Typed:
    return _alone(Private(), rest, "/private")


def _help(rest: str) -> Typed:
    return _alone(Help(), rest, "/help")


def _quit(rest: str) -> Typed:
    return _alone(Quit(), rest, "/quit")


_READERS: dict[str, Callable[[str], Typed]] = {
    "group": _group,
    "private": _private,
    "user": _user,
    "quote": _quote,
    "reply": _quote,
    "recall": _recall,
    "file": _file,
    "image": _image,
    "log": _log,
    "help": _help,
    "quit": _quit,
    "exit": _quit,
}

HELP = """\
text                 say it here; in a group @bot, @42, @Rin and @all mention
/group 500 [name]    go to a group; you join it where you are new
/private             go to your private chat with the bot
/user 42 [name]      speak as somebody else
/quote 12 text       answer message #12 (also /reply; `last`: the bot's last one)
/recall 12           take message #12 back (`last`: your last one)
/image path          send a picture
/file path           send a file
/log [count]         the newest messages here, with their numbers
/quit                end (also Ctrl-D)
//text               say a line that starts with /"""
"""The commands, one a line."""


def _alone(command: Typed, rest: str, usage: str) -> Typed:
    if rest:
        raise TypedError(f"{usage} takes nothing behind it")
    return command


def _number(text: str, usage: str) -> int:
    digits = text.removeprefix("#")
    if not (digits.isascii() and digits.isdigit() and int(digits) > 0):
        raise TypedError(f"write {usage}; {text!r} is no number" if text else f"write {usage}")
    return int(digits)


def _identity(text: str, usage: str) -> int:
    number = _number(text, usage)
    if number >= 1 << 63:
        raise TypedError(f"write {usage}; {text} is too long for an id")
    return number


def _message(text: str, usage: str) -> int | None:
    return None if text == "last" else _number(text, usage)


def _path(text: str, usage: str) -> Path:
    if not text:
        raise TypedError(f"write {usage}")
    return Path(text).expanduser()
