"""What the host's end of a shell is made of: how it is started, what watches it, what is read from it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentorchestra.core.errors import ToolError
from agentorchestra.sandbox.base import SandboxLimits
from agentorchestra.sandbox.ground import use_of
from agentorchestra.sandbox.monitor import Watch
from agentorchestra.sandbox.pipes import Broken, OnKill, decoded, printable, shown
from agentorchestra.sandbox.shell import Job, ShellEnding

SHELL_FILES = (
    "_shell.py",
    "_commands.py",
    "_jobs.py",
    "_keeping.py",
    "_processes.py",
    "_supervisor.py",
    "_after.sh",
)
"""What has to be there inside."""

_LOOK_S, _IDLE_LOOK_S = 0.05, 0.5
_CROWDED_S = 3.0
"""How long the sandbox may be full of processes."""
_LONGEST_COMMAND = 1 << 20


@dataclass(frozen=True)
class Launch:
    """How a sandbox with a shell is started.

    Attributes:
        command: starts `_shell.py` in the sandbox.
        env: of the command.
        pass_fds: descriptors that it needs.
        on_kill: awaited when it was killed.
        done: called when it is over.
    """

    command: Sequence[str]
    env: dict[str, str]
    pass_fds: Sequence[int] = ()
    on_kill: OnKill | None = None
    done: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Inside:
    """What a shell finds inside.

    Attributes:
        root: the working folder's name there.
        temporary: a folder for what the shell needs.
        own_user: whether the number of processes can be limited for it alone.
        watched: temporary file systems that are looked at from here; None where processes cannot be.
        user: whose the folder's files have to be, None for ours.
    """

    root: str
    temporary: str = "/tmp"
    own_user: bool = True
    watched: tuple[str, ...] | None = ("tmp", "dev/shm")
    user: int | None = None


class Lost(Exception):
    """The sandbox is gone."""

    def __init__(self, ending: ShellEnding, detail: str) -> None:
        super().__init__(detail)
        self.ending: ShellEnding = ending
        self.detail = detail
        self.told = False


async def watched(
    pid: int, folder: Path, limits: SandboxLimits, temporary: tuple[str, ...] | None, runs: Callable[[], bool]
) -> Lost:
    """Look at processes and files until something is over its limit.

    Args:
        pid: the first process.
        folder: what the commands work in.
        limits: what they may use.
        temporary: as in Inside.watched.
        runs: whether a command runs now: then it is looked more often.
    """
    loop = asyncio.get_running_loop()
    watch = Watch(pid, limits, temporary) if temporary is not None else None
    crowded: float | None = None
    look_again, busy = 0.0, False
    before: tuple[int, int] | None = None
    while True:
        await asyncio.sleep(_LOOK_S if runs() else _IDLE_LOOK_S)
        now = loop.time()
        if watch is not None:
            ending = watch.look()
            if ending is not None:
                return Lost(ending, watch.detail)
            crowded = (crowded or now) if watch.processes >= limits.processes else None
            if crowded is not None and now - crowded > _CROWDED_S:
                return Lost("processes", f"it kept more than {limits.processes} processes running")
        first = before is None or (runs() and not busy)
        busy = runs()
        if first or now >= look_again:
            use = await asyncio.to_thread(use_of, folder, limits.files)
            detail = _too_much(use, limits)
            # What was too much before a command may be removed by it.
            if detail and not first and before is not None and (use[0] > before[0] or use[1] > before[1]):
                return Lost("files", detail)
            before = use
            look_again = loop.time() + max(0.5, 20 * (loop.time() - now))


def _too_much(use: tuple[int, int], limits: SandboxLimits) -> str:
    size, entries = use
    if entries > limits.files:
        return f"the folder has more than {limits.files:,} files and folders"
    if size > limits.work_bytes:
        return f"the folder has {size >> 20:,} MiB; at most {limits.work_bytes >> 20:,} are allowed"
    return ""


def problem_of(command: str) -> str:
    if "\0" in command:
        return "a command cannot hold a zero character"
    size = len(command.encode("utf-8", "surrogatepass"))
    if size > _LONGEST_COMMAND:
        return (
            f"the command has {size:,} bytes; at most {_LONGEST_COMMAND:,} are taken: write it to a file and run that"
        )
    return ""


def job_of(message: object) -> Job:
    if not isinstance(message, dict):
        raise ToolError("the sandbox said something that is no job")
    number, pid, code, printed = (message.get(name) for name in ("job", "pid", "exit_code", "size"))
    said = message.get("is")
    output = None
    if "head" in message:
        with contextlib.suppress(Broken):
            head, tail = decoded({"data": message["head"]}), decoded({"data": message.get("tail", "")})
            left = (printed if isinstance(printed, int) else 0) - len(head) - len(tail)
            note = f"\n[{left:,} bytes left out]\n".encode() if left > 0 else b""
            output = (head + note + tail).decode("utf-8", "replace")
    return Job(
        job=number if isinstance(number, int) else 0,
        command=printable(" ".join(shown(message.get("command", "")).split()))[:1000],
        pid=pid if isinstance(pid, int) else 0,
        state=said if said in ("running", "flood") else "ended",
        exit_code=code if isinstance(code, int) else None,
        output=output,
        printed=printed if isinstance(printed, int) else 0,
    )


def clean_environment() -> dict[str, str]:
    """Of the command that starts a sandbox."""
    return {"PATH": os.environ.get("PATH", os.defpath)}


__all__ = [
    "SHELL_FILES",
    "Inside",
    "Launch",
    "Lost",
    "clean_environment",
    "job_of",
    "problem_of",
    "watched",
]
