"""Files that are read by forked workers, as the index reads many (`ForkServer`): one process loads the libraries once.

The workers, their limits and their results are the real ones. Tests of how a worker starts leave the fixture out.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import select
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.tools.files import readers, worker
from agentorchestra.tools.files.worker import FORKER, Limits, Request
from agentorchestra.tools.web import pages

_LOAD = ("markitdown", "pdfplumber", "pypdf", "trafilatura")
_SLOWEST_START_S = 100.0


class Forked:
    """A `_worker.py --fork` that lives as long as the tests of this process; one file after the other."""

    def __init__(self, fd: int) -> None:
        self.environ = worker.environment()
        self._ids = itertools.count()
        self._lock = threading.Lock()
        self.process = subprocess.Popen(
            [*worker._COMMAND, "--fork", str(fd)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self.environ,
            pass_fds=(fd,),
            start_new_session=True,
        )
        self._ask(Request(Path(__file__), "check"), worker.LIMITS, _SLOWEST_START_S)  # it loads here

    def run(self, request: Request, limits: Limits) -> tuple[dict[str, Any], bytes]:
        """Do as `worker.run`."""
        if worker.environment() != self.environ:  # the test wants a worker that finds other libraries
            return worker.run(request, limits)
        with self._lock:
            return self._ask(request, limits, limits.seconds)

    def _ask(self, request: Request, limits: Limits, seconds: float) -> tuple[dict[str, Any], bytes]:
        assert self.process.stdout is not None
        name = next(self._ids)
        with tempfile.NamedTemporaryFile() as out:
            self._tell({"id": name, "out": out.name, "load": _LOAD, "request": worker.asked(request, limits)})
            if not select.select([self.process.stdout], [], [], seconds)[0]:
                self._tell({"kill": name})
                self.process.stdout.readline()
                raise worker.refused(request.path, "time", "", limits)
            told = json.loads(self.process.stdout.readline())
            assert told["id"] == name
            return worker.outcome(request.path, out, told["status"], limits)

    def _tell(self, what: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what).encode() + b"\n")
        self.process.stdin.flush()


@pytest.fixture(scope="session")
def forked_workers() -> Iterator[Forked]:
    """The one of this process."""
    with worker.lifeline() as fd:
        made = Forked(fd)
        with contextlib.closing(made.process.stdout), contextlib.closing(made.process.stdin):  # type: ignore[type-var]
            yield made
            made.process.kill()
            made.process.wait()


@pytest.fixture
def forked(forked_workers: Forked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files so in this test."""

    async def run_async(request: Request, limits: Limits) -> tuple[dict[str, Any], bytes]:
        if FORKER.get() is not None:
            return await worker.run_async(request, limits)
        return await asyncio.to_thread(forked_workers.run, request, limits)

    monkeypatch.setattr(readers, "run", forked_workers.run)
    monkeypatch.setattr(readers, "run_async", run_async)
    monkeypatch.setattr(pages, "run_async", run_async)
