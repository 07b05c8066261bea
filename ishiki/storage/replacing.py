"""`replace_file`: a small file is exchanged whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["replace_file"]


def replace_file(file: Path, content: bytes) -> None:
    """Replace `file` by `content`, all or nothing, also over a power loss. Blocks.

    Raises:
        OSError: it is as it was.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.new")
    with beside.open("wb") as target:
        target.write(content)
        target.flush()
        os.fsync(target.fileno())
    beside.replace(file)
