"""Looks at processes and ends them. Inside of the sandbox."""

from __future__ import annotations

import contextlib
import os
import signal


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def kill_group(group: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGCONT)  # what is stopped hears nothing
        os.killpg(group, number)


def catches_interrupts(pid: int) -> bool:
    """Whether a process does something of its own when it is interrupted."""
    with (
        contextlib.suppress(OSError, ValueError),
        open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as said,
    ):
        for line in said:
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) & 1 << signal.SIGINT - 1)
    return True


def below(pid: int) -> list[int]:
    """All processes below one."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as source:
                parent = int(source.read().rpartition(b")")[2].split()[1])
                parents.setdefault(parent, []).append(int(name))
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found
