"""Extension `note`: a tool that keeps notes in the runtime's data folder, and a sentence that tells the model of it.

Shows `Extension`, a `Config`, `@tool` on a method, and `host.home`. In a profile:

    extends:
      note: {config: {prefix: note}}
"""

from __future__ import annotations

import aiofiles
from pydantic import Field

from ishiki import ConfigModel, Extension, ExtensionHost, ExtensionInstance, Tool, provide, tool


class NoteConfig(ConfigModel):
    """What stands under `extends.note.config`."""

    prefix: str = Field(default="note", description="Text in front of each note.")


class Notes(ExtensionInstance):
    """The notes of one runtime."""

    def __init__(self, host: ExtensionHost, config: NoteConfig) -> None:
        """Write below the runtime's own folder."""
        self._file = host.home / "notes.txt"
        self._prefix = config.prefix

    def extend_instructions(self) -> str:
        """Tell the model what the tool is for."""
        return "Use note_write to keep what you want to remember for long."

    def extend_tools(self) -> list[Tool]:
        """Return the one tool; its schemas come from the annotations."""
        return [tool(self.note_write)]

    async def note_write(self, text: str) -> dict[str, str]:
        """Keep one short note for good."""
        line = " ".join(text.split())  # a note is one line, whatever the model wrote
        async with aiofiles.open(self._file, "a", encoding="utf-8") as file:
            await file.write(f"{self._prefix}: {line}\n")
        return {"url": "local://notes.txt"}


class NoteExtension(Extension[NoteConfig]):
    """The provider; one per process."""

    name = "note"
    Config = NoteConfig

    def create(self, host: ExtensionHost, config: NoteConfig) -> Notes:
        """Make the notes of one runtime."""
        return Notes(host, config)


provide(NoteExtension())
