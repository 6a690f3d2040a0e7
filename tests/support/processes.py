"""The processes, descriptors and files that something leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path

import psutil

PROJECT = Path(__file__).parents[2]


class Seen:
    """The processes that were seen below one, to be asked later whether they are gone."""

    def __init__(self, pid: int | None = None) -> None:
        self._above = psutil.Process(pid)
        self._before = set(self._below()) if pid is None else set[psutil.Process]()
        self.processes: set[psutil.Process] = set()

    def _below(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            return self._above.children(recursive=True)
        return []

    def look(self) -> None:
        self.processes |= set(self._below()) - self._before

    async def keep_looking(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(0.01)

    def alive(self) -> list[psutil.Process]:
        found = []
        for process in self.processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    async def gone(self) -> None:
        """Wait until all are gone; the test's own limit says when that takes too long."""
        while self.alive():  # noqa: ASYNC110 - other processes set no event
            await asyncio.sleep(0.02)


@contextlib.contextmanager
def nothing_left(temporary: Path) -> Iterator[None]:
    """No descriptor, no mount, no file."""
    gc.collect()
    files, mounts = psutil.Process().num_fds(), Path("/proc/self/mountinfo").read_text()
    yield
    gc.collect()
    assert psutil.Process().num_fds() <= files  # fewer: what an earlier test left to the garbage collector
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert list(temporary.iterdir()) == []
