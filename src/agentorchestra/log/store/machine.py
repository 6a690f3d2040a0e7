"""The machine a process runs on: its boot, and a clock that nobody sets."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path


def place() -> tuple[str, str]:
    """Return the boot and the namespaces of this process; ("", "") where the system does not tell them."""
    try:
        if Path("/proc/self").readlink() != Path(str(os.getpid())):
            return "", ""  # the /proc of another PID namespace
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # Starts, and the time since the boot, are counted by the clock of the time namespace.
        return boot, " ".join(str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("pid", "time"))
    except OSError:
        return "", ""


@cache
def boot_clock(pid: int) -> str:
    """Return a name for the clock behind `since_boot` in this process; "" where the system does not tell it."""
    boot, space = place()
    return boot_clock_of(boot, space) if boot else ""


def boot_clock_of(boot: str, space: str) -> str:
    """Return the name of the clock that processes of a boot and of its namespaces have: those of PIDs do not matter."""
    return f"{boot} {space.rpartition(' ')[2]}"


def wall() -> float:
    """Return the time by the machine's clock, in seconds since 1970; somebody may set it."""
    return time.time()


def since_boot() -> float:
    """Return the seconds since the boot, those of a suspended machine too; nobody sets this clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


__all__ = ["boot_clock", "boot_clock_of", "place", "since_boot", "wall"]
