"""Workers for many files: forked by a process that has loaded what they import, instead of started one by one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agentorchestra.tools.files.worker import (
    FORKER,
    Limits,
    Request,
    WorkersGoneError,
    asked,
    environment,
    lifeline,
    timed_out,
)
from agentorchestra.tools.files.worker import outcome as worker_outcome

MANY = 8  # files from which on loading the libraries for all of them is worth it
_LIBRARIES: dict[str, tuple[str, ...]] = {
    "application/pdf": ("pypdf", "pdfplumber"),
    "application/json": (),
    "application/xml": (),
    "application/gzip": (),
    "application/x-tar": (),
}
"""What the workers import for a type of file; `markitdown` brings the libraries of all others."""

_END_S = 1.0


class Nursery:
    """While it is open, files that this task reads are read by forked workers.

    The limits are those of single workers, and each file has a process of its own.
    """

    def __init__(self, kinds: set[str]) -> None:
        self._load = sorted({name for kind in kinds for name in _LIBRARIES.get(kind, ("markitdown",))})
        self._ids = itertools.count()
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._stack = contextlib.ExitStack()
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        fd = self._stack.enter_context(lifeline())
        script = Path(__file__).with_name("_nursery.py")
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", str(script), str(fd)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment(),
            pass_fds=(fd,),
            start_new_session=True,
        )
        self._listening = asyncio.create_task(self._listen(self._process))
        self._token = FORKER.set(self.run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        FORKER.reset(self._token)
        assert self._process is not None and self._listening is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()  # the kernel ends its workers, and so does the pipe
        self._stack.close()
        await self._process.wait()
        await self._listening

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            told = json.loads(line)
            future = self._waiting.pop(told["id"], None)
            if future is not None and not future.done():
                future.set_result(told["status"])
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(WorkersGoneError())
        self._waiting.clear()

    async def run(self, request: Request, limits: Limits) -> tuple[dict[str, Any], bytes]:
        """Do as `worker.run_async`; WorkersGoneError if there is no process that forks."""
        name = next(self._ids)
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self._listening is None or self._listening.done():
            raise WorkersGoneError
        self._waiting[name] = ended
        with tempfile.NamedTemporaryFile() as out:
            self._tell({"id": name, "out": out.name, "load": self._load, "request": asked(request, limits)})
            try:
                async with asyncio.timeout(limits.seconds):
                    status = await asyncio.shield(ended)
            except TimeoutError:
                raise timed_out(request.path, limits) from None
            finally:
                if not ended.done():
                    self._tell({"kill": name})
                    await asyncio.wait([ended], timeout=_END_S)  # it may be loading: then the end of all ends it
                if not ended.cancelled():
                    ended.exception()  # looked at, wherever this is left
            return await asyncio.to_thread(worker_outcome, request.path, out, status, limits)

    def _tell(self, what: dict[str, Any]) -> None:
        assert self._process is not None and self._process.stdin is not None
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._process.stdin.write(json.dumps(what).encode() + b"\n")


__all__ = ["MANY", "Nursery"]
