"""One profile as it was read: its settings, claims and engine blocks, and where each of them stands in its file.

Knows no other profile, no provider and no running thing. The persona is read when it is asked for, so that an edit
counts from the next turn on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio

from ishiki.config import ConfigDocument, KeyPath
from ishiki.contracts.engines import EngineFamily
from ishiki.errors import ConfigError
from ishiki.jsonvalue import JsonObject
from ishiki.profile.claims import Claims
from ishiki.profile.schema import ProfileConfig

__all__ = ["ENGINE_FAMILIES", "MAX_PERSONA_BYTES", "PERSONA_FILE", "Profile"]

ENGINE_FAMILIES: tuple[EngineFamily, ...] = ("context", "wakeup", "toolcall")
"""The sections that choose an engine, in the order in which engines are attached."""

PERSONA_FILE = "persona.md"

MAX_PERSONA_BYTES = 256 * 1024
"""More than any model's window should spend on a persona; beyond it a file is the wrong file."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile: one mind, one persona. Never changes; an edit makes a new one."""

    id: str
    """The name of its folder."""
    folder: Path
    file: Path
    """Its profile.yaml or profile.yml."""
    config: ProfileConfig
    claims: Claims
    document: ConfigDocument
    """The file's data with variables filled in, and the place of every key."""
    blocks: Mapping[EngineFamily, Mapping[str, JsonObject]]
    """What stands beside `engine` in the three sections, by family and engine name; not validated yet."""
    unset: frozenset[KeyPath] = frozenset()
    """Values in blocks of engines and extensions out of use that need a variable without a value."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Values of variables that no log may show; for the process's `Redactor`."""
    fingerprint: str = field(default="", repr=False)
    """Equal for two readings with the same settings, whatever changed in comments and layout."""

    @property
    def extensions(self) -> tuple[str, ...]:
        """The names of the enabled extensions, in the order of the file."""
        return tuple(name for name, entry in self.config.extends.items() if entry is None or entry.enable)

    @property
    def persona_path(self) -> Path:
        """Where its persona stands; the file may be absent."""
        return self.folder / PERSONA_FILE

    @property
    def memory_folder(self) -> Path:
        """Where its memory blocks stand; the folder may be absent."""
        return self.folder / "memory"

    def engine(self, family: EngineFamily) -> str:
        """Return the name of the engine that the profile chose."""
        return {
            "context": self.config.context.engine,
            "wakeup": self.config.wakeup.engine,
            "toolcall": self.config.toolcall.engine,
        }[family]

    def error(
        self, problem: str, path: KeyPath = (), *, on: Literal["key", "value"] = "value", code: str | None = None
    ) -> ConfigError:
        """Make (not raise) an error that points at `path` in its file, or at the nearest part around it."""
        return self.document.error(problem, path, on=on, code=code)

    async def persona(self) -> str:
        """Read the persona, without white space around it; "" where there is no file.

        Raises:
            ConfigError: the file cannot be read, is no UTF-8, or is far too long.
        """
        path = anyio.Path(self.persona_path)
        try:
            async with await path.open("rb") as stream:
                raw = await stream.read(MAX_PERSONA_BYTES + 1)
        except FileNotFoundError:
            return ""
        except OSError as fault:
            reason = fault.strerror or type(fault).__name__
            raise ConfigError(f"cannot be read: {reason}", file=self.persona_path, code="config_unreadable") from fault
        return _persona_text(raw, self.persona_path)


def _persona_text(raw: bytes, file: Path) -> str:
    if len(raw) > MAX_PERSONA_BYTES:
        problem = f"is longer than {MAX_PERSONA_BYTES} bytes; is it the right file? Keep the persona short"
        raise ConfigError(problem, file=file, code="persona_too_large")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError("is saved as UTF-16; save it as UTF-8", file=file, line=1, column=1, code="persona_encoding")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        # Counted over the original: the decoder's own offset does not include the byte order mark.
        mark = len(raw) - len(raw.removeprefix(b"\xef\xbb\xbf"))
        before = raw[mark : mark + fault.start].decode("utf-8")
        raise ConfigError(
            f"is not UTF-8 (byte 0x{fault.object[fault.start]:02x}); save it as UTF-8",
            file=file,
            line=before.count("\n") + 1,
            column=len(before) - before.rfind("\n"),
            code="persona_encoding",
        ) from fault
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()
