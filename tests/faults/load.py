"""How long something took, told apart from how long nobody was let do it: two cores are shared with other tests."""

from __future__ import annotations

import time
from pathlib import Path

__all__ = ["Stopwatch"]


class Stopwatch:
    """Measures the time that a process and this one together take for something.

    What either of them waited for a free core is left out, as the kernel counts it (proc(5), `schedstat`): on a machine
    that has nothing else to do, that is nothing.
    """

    def __init__(self, pid: int) -> None:
        """Begin to measure."""
        self._pid = pid
        self._began = time.monotonic()
        self._waited_before = self._waited()

    @property
    def seconds(self) -> float:
        """The time since the beginning, without the waits for a core."""
        return time.monotonic() - self._began - (self._waited() - self._waited_before)

    def _waited(self) -> float:
        return _waited_for_core("self") + _waited_for_core(str(self._pid))


def _waited_for_core(process: str) -> float:
    """Return the seconds that a process's main thread was ready to run and did not."""
    _, waited_ns, _ = Path(f"/proc/{process}/schedstat").read_text(encoding="ascii").split()
    return int(waited_ns) / 1e9
