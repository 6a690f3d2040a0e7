"""Looks at a sandbox's processes from outside: memory of all of them together, and its temporary files.

Limits of single processes (setrlimit) do not add up, and a tmpfs counts for no process. So the tree below the sandbox's
first process is summed up several times a second; what is over the limit ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import psutil

from agentorchestra.runtime.sandbox.base import Ending, SandboxLimits

EVERY_S = 0.05
_PAGE = os.sysconf("SC_PAGE_SIZE")
_INSIDE = ("work", "tmp", "dev/shm")


class Watch:
    """A watch over the processes below one.

    Attributes:
        peak: the most memory seen, in bytes.
        detail: why it ended the program.
    """

    def __init__(self, pid: int, limits: SandboxLimits) -> None:
        self._pid = pid
        self._limits = limits
        self.peak = 0
        self.detail = ""

    async def run(self) -> Ending:
        """Look until something is over its limit."""
        while True:
            await asyncio.sleep(EVERY_S)
            ending = self.look()
            if ending is not None:
                return ending

    def look(self) -> Ending | None:
        """What is over its limit now, None if nothing is."""
        pids = list(_tree(self._pid))
        temporary, entries = _temporary(pids)
        used = sum(_resident(pid) for pid in pids) + temporary
        if used > self._limits.memory_bytes:
            used = sum(_proportional(pid) for pid in pids) + temporary  # pages that processes share counted once
        self.peak = max(self.peak, used)
        if used > self._limits.memory_bytes:
            self.detail = (
                f"it used {used >> 20:,} MiB of memory; at most {self._limits.memory_bytes >> 20:,} are allowed"
            )
            return "memory"
        if entries > self._limits.files:
            self.detail = f"it made {entries:,} files and folders; at most {self._limits.files:,} are allowed"
            return "files"
        return None


def _tree(pid: int) -> list[int]:
    """A process and all below it."""
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        found.append(one)
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                todo += [int(child) for child in (task / "children").read_text().split()]
        except FileNotFoundError:
            if Path(f"/proc/{one}").exists():  # a kernel without lists of children
                with contextlib.suppress(psutil.Error):
                    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
        except OSError:
            continue
    return found


def _resident(pid: int) -> int:
    """Anonymous and shared-memory pages, in bytes; pages of files on a disk do not count."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * _PAGE


def _proportional(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss_Anon:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return _resident(pid)


def _temporary(pids: list[int]) -> tuple[int, int]:
    """Bytes and entries in the temporary file systems that the last process of the tree sees; not in those of ours."""
    for pid in reversed(pids):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(f"/proc/{pid}/root/"), os.stat("/")):  # noqa: PTH116 - another root
                continue
        size = entries = 0
        seen: set[int] = set()
        for folder in _INSIDE:
            try:
                found = os.statvfs(f"/proc/{pid}/root/{folder}")
                device = os.stat(f"/proc/{pid}/root/{folder}").st_dev  # noqa: PTH116 - a path in another root
            except OSError:
                break
            if device not in seen:
                seen.add(device)
                size += (found.f_blocks - found.f_bfree) * found.f_frsize
                entries += found.f_files - found.f_ffree
        else:
            return size, entries
    return 0, 0


__all__ = ["Watch"]
