"""The watch over a sandbox from outside: the memory of all its processes together, and its files.

Limits of single processes (setrlimit) do not add up, and neither a tmpfs nor what waits in sockets counts for any
process. So the tree below the sandbox's first process is summed up several times a second; what is over the limit ends
it. Memory that has neither a process nor a file (memfd, System V) is refused by the filter of system calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import psutil

from agentorchestra.sandbox.base import Ending, SandboxLimits
from agentorchestra.sandbox.cgroup import Group
from agentorchestra.sandbox.changes import WORTH, FolderWatch
from agentorchestra.sandbox.ground import use_of
from agentorchestra.sandbox.shell import ShellEnding

EVERY_S = 0.05
_IDLE_S = 0.5
_CROWDED_S = 3.0  # how long the sandbox of a shell may be full of processes
_INSIDE = ("work", "tmp", "dev/shm")
_UNIX_SOCKETS = 1_000  # at the same time: each may hold some 200 KiB for which nobody is charged


class Watch:
    """A watch over the processes below `pid`; `temporary` are the folders inside that are temporary file systems.

    With a `group` it also notices that the kernel ended one of them, which used too much memory.
    """

    def __init__(
        self, pid: int, limits: SandboxLimits, temporary: tuple[str, ...] = _INSIDE, group: Group | None = None
    ) -> None:
        self._pid = pid
        self._limits = limits
        self._inside = temporary
        self._group = group
        self.processes = 0  # at the last look
        self.used = self.peak = 0  # bytes of memory at the last look, and the most
        self.detail = ""  # why it ended the program

    async def run(self) -> Ending:
        """Look until something is over its limit."""
        while True:
            await asyncio.sleep(EVERY_S)
            ending = self.look()
            if ending is not None:
                return ending

    def look(self) -> Ending | None:
        pids = list(_tree(self._pid))
        self.processes = len(pids)
        temporary, entries = _temporary(pids, self._inside)
        waiting, sockets = _sockets(pids)
        elsewhere = temporary + waiting
        used = sum(_memory(pid, shared=False) for pid in pids) + elsewhere
        if used > self._limits.memory_bytes:
            used = sum(_memory(pid, shared=True) for pid in pids) + elsewhere  # pages that processes share counted once
        self.used = used
        self.peak = max(self.peak, used)
        if self._group is not None and self._group.kills():
            self.detail = too_much_memory(self._limits)
            return "memory"
        if used > self._limits.memory_bytes:
            self.detail = (
                f"it used {used >> 20:,} MiB of memory; at most {self._limits.memory_bytes >> 20:,} are allowed"
            )
            return "memory"
        if sockets > _UNIX_SOCKETS:
            self.detail = f"it opened {sockets:,} sockets; at most {_UNIX_SOCKETS:,} are allowed"
            return "memory"
        if entries > self._limits.files:
            self.detail = f"it made {entries:,} files and folders; at most {self._limits.files:,} are allowed"
            return "files"
        return None


def too_much_memory(limits: SandboxLimits) -> str:
    return f"a process was ended: all together used more memory than the {limits.memory_bytes >> 20:,} MiB allowed"


async def watched_shell(
    pid: int,
    folder: Path,
    limits: SandboxLimits,
    temporary: tuple[str, ...] | None,
    runs: Callable[[], bool],
    changes: FolderWatch,
    layer: Path | None = None,
) -> tuple[ShellEnding, str]:
    """Look at a shell's processes and files until something is over its limit; return what, and a sentence.

    `temporary` are file systems inside, None where processes cannot be looked at. While a command `runs` it is looked
    more often. `changes` are those of the folder: what is large and did not change is not looked at for a command.
    A `layer` counts as the folder does.
    """
    loop = asyncio.get_running_loop()
    watch = Watch(pid, limits, temporary) if temporary is not None else None
    crowd_since: float | None = None
    look_again, busy = 0.0, False
    before: tuple[int, int] | None = None
    while True:
        await asyncio.sleep(EVERY_S if runs() else _IDLE_S)
        now = loop.time()
        if watch is not None:
            ending = watch.look()
            if ending is not None:
                return ending, watch.detail
            crowd_since = (crowd_since or now) if watch.processes >= limits.processes else None
            if crowd_since is not None and now - crowd_since > _CROWDED_S:
                return "processes", f"it kept more than {limits.processes} processes running"
        first = before is None or (runs() and not busy)
        busy = runs()
        if (
            first
            and before is not None
            and before[1] >= WORTH
            and await asyncio.to_thread(changes.take, "use") == set()
        ):
            first = False  # as it was when it was looked at last
        if first or now >= look_again:
            size, entries = use = await asyncio.to_thread(use_of, [folder, *([layer] if layer else [])], limits.files)
            detail = ""
            if entries > limits.files:
                detail = f"the folder has more than {limits.files:,} files and folders"
            elif size > limits.work_bytes:
                detail = f"the folder has {size >> 20:,} MiB; at most {limits.work_bytes >> 20:,} are allowed"
            # What was too much before a command may be removed by it.
            if detail and not first and before is not None and (size > before[0] or entries > before[1]):
                return "files", detail
            before = use
            look_again = loop.time() + max(0.5, 20 * (loop.time() - now))


def _tree(pid: int) -> list[int]:
    pids, todo = [], [pid]
    while todo:
        current = todo.pop()
        pids.append(current)
        try:
            for task in Path(f"/proc/{current}/task").iterdir():
                todo += [int(child) for child in (task / "children").read_text().split()]
        except FileNotFoundError:
            if Path(f"/proc/{current}").exists():  # a kernel without lists of children
                with contextlib.suppress(psutil.Error):
                    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
        except OSError:
            continue
    return pids


def _memory(pid: int, *, shared: bool) -> int:
    """Return the bytes of anonymous pages and of shared memory; pages of files on a disk do not count.

    With `shared` each page is divided by the number of processes that share it.
    """
    name, fields = ("smaps_rollup", ("Pss_Anon:", "Pss_Shmem:")) if shared else ("status", ("RssAnon:", "RssShmem:"))
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/{name}").read_text().splitlines()
    size = sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(fields))
    return size or (_memory(pid, shared=False) if shared else 0)


def _sockets(pids: list[int]) -> tuple[int, int]:
    """Return the bytes that wait in sockets, and how many sockets hide theirs; none of a network of ours."""
    own = Path("/proc/self/ns/net").readlink()
    for pid in reversed(pids):
        waiting = 0
        try:
            if Path(f"/proc/{pid}/ns/net").readlink() == own:
                continue
            for kind in ("tcp", "tcp6", "udp", "udp6"):
                path = Path(f"/proc/{pid}/net/{kind}")
                for line in path.read_text().splitlines()[1:] if path.exists() else ():
                    sending, _, receiving = line.split()[4].partition(":")
                    waiting += int(sending, 16) + int(receiving, 16)
            return waiting, Path(f"/proc/{pid}/net/unix").read_bytes().count(b"\n") - 1
        except (OSError, ValueError, IndexError):
            continue
    return 0, 0


def _temporary(pids: list[int], inside: tuple[str, ...]) -> tuple[int, int]:
    """Return bytes and entries in the temporary file systems that the tree's last process sees; not in ours."""
    for pid in reversed(pids):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(f"/proc/{pid}/root/"), os.stat("/")):  # noqa: PTH116 - another root
                continue
        size = entries = 0
        seen: set[int] = set()
        for folder in inside:
            try:
                usage = os.statvfs(f"/proc/{pid}/root/{folder}")
                device = os.stat(f"/proc/{pid}/root/{folder}").st_dev  # noqa: PTH116 - a path in another root
            except OSError:
                break
            if device not in seen:
                seen.add(device)
                size += (usage.f_blocks - usage.f_bfree) * usage.f_frsize
                entries += usage.f_files - usage.f_ffree
        else:
            return size, entries
    return 0, 0
