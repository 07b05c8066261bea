"""What Linux knows of a process: its CPU time and memory; and what machine this is."""

from __future__ import annotations

import gc
import os
import platform
import re
import time
from pathlib import Path

__all__ = ["cpu_s", "machine", "resident_bytes", "settled_resident_bytes"]


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that all threads of a process, ended ones too, have used. To the microsecond.

    Source: clock_getcpuclockid(3), the clock's number as Linux makes it of a process id.
    """
    return time.clock_gettime((~pid << 3) | 2)


def resident_bytes(pid: int) -> int:
    """Return the bytes of memory that a process has now (VmRSS)."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, flags=re.MULTILINE)
    if found is None:
        raise RuntimeError(f"process {pid} has no memory: it has ended")
    return int(found[1]) * 1024


def settled_resident_bytes() -> int:
    """Return this process's memory after its garbage is collected."""
    gc.collect()
    return resident_bytes(os.getpid())


def machine() -> str:
    """Return what a result depends on, in one line that names no place and no person."""
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(encoding="ascii"))
    size = "" if memory is None else f", {int(memory[1]) / 1024**2:.0f} GiB"
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    return (
        f"{cores} cores {platform.machine()}{size}, {platform.system()} {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}, load {load:.1f}"
    )
