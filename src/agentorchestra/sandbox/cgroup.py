"""Memory and number of all processes of a sandbox together, held by the kernel: control groups, version 2 or 1.

A limit of address space (RLIMIT_AS) would end a Java program, or anything that maps a large file. A control group
counts what is really used, temporary files included, and the kernel kills the largest process when it is too much.
Where no group can be made (no root, nothing delegated to this user) `monitor.py` adds the processes up, and the limit
of a user's processes (RLIMIT_NPROC) holds their number.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import psutil

Controller = Literal["memory", "pids"]
_LIMIT: dict[tuple[Controller, int], str] = {
    ("memory", 2): "memory.max",
    ("memory", 1): "memory.limit_in_bytes",
    ("pids", 2): "pids.max",
    ("pids", 1): "pids.max",
}
_SWAP = {2: ("memory.swap.max", "0"), 1: ("memory.swappiness", "0")}
_KILL_FILES = {2: "memory.events", 1: "memory.oom_control"}
_EXTRA = 8  # processes of a sandbox that are not the program's: bubblewrap's, the supervisor, what changes the user
_NAME = "agentorchestra-"
_ENTER = 'echo $$ >"${}/cgroup.procs" && '
_numbers = itertools.count()


class ControlGroup(NamedTuple):
    """A control group of this machine, and the version of control groups, 2 or 1."""

    path: Path
    version: int


@dataclass
class Group:
    """Control groups with limits, by what they count: one of version 2, of version 1 one for each."""

    places: dict[Controller, ControlGroup] = field(default_factory=dict)
    _kills: int = 0

    @property
    def _paths(self) -> list[Path]:
        return list(dict.fromkeys(place.path for place in self.places.values()))

    def elsewhere(self, parent: ControlGroup) -> bool:
        """Return True if a group below this one would be left for another: a process is in one group of version 2."""
        return parent.version == 2 and any(
            place.version == 2 and place.path.parent != parent.path for place in self.places.values()
        )

    def inside(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs `command`, with all it starts, in these groups."""
        paths = self._paths
        # A shell takes itself into the groups and becomes the command.
        steps = "".join(_ENTER.format(number) for number in range(len(paths)))
        return ["/bin/sh", "-c", f'{steps}shift {len(paths) - 1} && exec "$@"', *map(str, paths), *command]

    def kills(self) -> int:
        """Return how many processes the kernel ended because they used more memory than they may."""
        if "memory" in self.places:
            path, version = self.places["memory"]
            with contextlib.suppress(OSError, ValueError):
                for line in (path / _KILL_FILES[version]).read_text().splitlines():
                    if line.startswith("oom_kill "):
                        self._kills = int(line.split()[1])
        return self._kills  # of a group that is gone, what was seen last

    def remove(self) -> None:
        """Remove them; one whose last process is slow to go is removed when a later process makes a group."""
        self.kills()
        for path in self._paths:
            with contextlib.suppress(OSError):
                path.rmdir()


def new_group(memory_bytes: int, processes: int) -> Group | None:
    """Return a group in which a sandbox may use so much memory and processes; None if nothing can be counted."""
    name = f"{_NAME}{os.getpid()}-{next(_numbers)}"
    group = Group()
    limits: tuple[tuple[Controller, int], ...] = (("memory", memory_bytes), ("pids", processes + _EXTRA))
    for controller, most in limits:
        parent = parent_group(controller)
        if parent is None or group.elsewhere(parent):
            continue
        _remove_old(parent.path)
        place = ControlGroup(parent.path / name, parent.version)
        try:
            place.path.mkdir(exist_ok=True)  # in version 2 one folder has both controllers
            (place.path / _LIMIT[controller, place.version]).write_text(str(most))
        except OSError:
            if place.path not in group._paths:
                with contextlib.suppress(OSError):
                    place.path.rmdir()
            continue
        group.places[controller] = place
    if "memory" in group.places:
        path, version = group.places["memory"]
        swap, no_swap = _SWAP[version]
        with contextlib.suppress(OSError):  # a kernel without swap has no such file
            (path / swap).write_text(no_swap)
    return group if group.places else None


@functools.cache
def parent_group(controller: Controller = "memory") -> ControlGroup | None:
    """Return the group below which groups can be made here that count this, None for none. One is made to know."""
    for candidate in _candidates(controller):
        trial = Group({controller: ControlGroup(candidate.path / f"{_NAME}{os.getpid()}-trial", candidate.version)})
        path = trial.places[controller].path
        try:
            path.mkdir()
        except OSError:
            continue
        try:
            (path / _LIMIT[controller, candidate.version]).write_text(str(1 << 20 if controller == "pids" else 1 << 30))
            if subprocess.run(trial.inside(["/bin/true"]), capture_output=True, check=False).returncode == 0:
                return candidate
        except OSError:
            continue
        finally:
            trial.remove()
    return None


def _candidates(controller: Controller) -> Iterator[ControlGroup]:
    """Yield this process's groups that may count this, and the group above, which a user's service manager may own."""
    try:
        groups = Path("/proc/self/cgroup").read_text().splitlines()
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return
    for line in mounts:
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        version = 2 if kind == "cgroup2" else 1 if kind == "cgroup" and controller in options.split(",") else 0
        if not version:
            continue
        root, place = left.split()[3:5]
        for group in groups:
            number, controllers, own = group.split(":", 2)
            if (number == "0") if version == 2 else (controller in controllers.split(",")):
                path = Path(place) / own.removeprefix(root.rstrip("/")).lstrip("/")
                yield ControlGroup(path, version)
                if path != Path(place):
                    yield ControlGroup(path.parent, version)


def _remove_old(parent: Path) -> None:
    with contextlib.suppress(OSError):
        for path in parent.glob(f"{_NAME}*-*"):
            owner = path.name.removeprefix(_NAME).partition("-")[0]
            if owner.isdigit() and not psutil.pid_exists(int(owner)):
                with contextlib.suppress(OSError):
                    path.rmdir()
