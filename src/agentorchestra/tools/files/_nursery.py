"""Forks a worker for each of many files: `python _nursery.py FD`; what the formats import is loaded once, here.

Loading the libraries takes far longer than reading a small file. Each file still has a process of its own, with the
limits and the end of `_worker.py`; this one never opens a file.

Reads a JSON object a line: {"id", "out", "load", "request"} starts a worker that writes to the file `out`, after the
modules `load` are there; {"kill": id} ends one. Writes {"id", "status"} when a worker has ended. Ends with its input,
and with it, by the kernel and by the pipe FD, its workers.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import select
import signal
import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any


def load_worker() -> ModuleType:
    """Return the module `_worker.py`, by its path."""
    spec = importlib.util.spec_from_file_location("_worker", Path(__file__).with_name("_worker.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.load_formats()
    importlib.import_module("formats.convert")
    return module


def nothing(_signal: int, _frame: FrameType | None) -> None:
    """Do nothing: a handler, so that the signal's number is written to the waking pipe."""


class Nursery:
    """Starts workers and tells of their ends. `fd` is a pipe whose other end the caller holds."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._worker = load_worker()
        self._running: dict[int, Any] = {}
        self._loaded: set[str] = set()
        self._wake, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, nothing)

    def serve(self) -> None:
        """Serve until the input ends."""
        waiting = b""
        while True:
            ready, _, _ = select.select([0, self._wake], [], [])
            if self._wake in ready:
                os.read(self._wake, 4096)
                self._reap()
            if 0 in ready:
                more = os.read(0, 65_536)
                if not more:
                    return
                *lines, waiting = (waiting + more).split(b"\n")
                for line in lines:
                    self._do(json.loads(line))

    def end(self) -> None:
        """End every worker."""
        for pid in self._running:
            self._kill(pid)

    def _do(self, told: dict[str, Any]) -> None:
        if "kill" in told:
            for pid, name in self._running.items():
                if name == told["kill"]:
                    self._kill(pid)
            return
        for name in told["load"]:
            if name not in self._loaded:
                self._loaded.add(name)
                with contextlib.suppress(ImportError):  # the worker says which extra is missing
                    importlib.import_module(name)
                gc.freeze()  # the workers' collections leave these pages shared
        pid = os.fork()
        if pid == 0:
            self._work(told)
        self._running[pid] = told["id"]

    def _work(self, told: dict[str, Any]) -> None:
        """Be the worker: never returns."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            for target, path, flags in ((0, os.devnull, os.O_RDONLY), (1, told["out"], os.O_WRONLY)):
                opened = os.open(path, flags)
                os.dup2(opened, target)
                os.close(opened)
            request = {**told["request"], "parent": os.getppid(), "fd": self._fd}
            sys.argv = [sys.argv[0], json.dumps(request)]
            self._worker.main()
        finally:
            os._exit(4)

    def _reap(self) -> None:
        while self._running:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._kill(pid)  # what it started (ffmpeg)
            name = self._running.pop(pid)
            os.write(1, json.dumps({"id": name, "status": os.waitstatus_to_exitcode(status)}).encode() + b"\n")

    @staticmethod
    def _kill(pid: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def main() -> None:
    """Serve, then end every worker."""
    nursery = Nursery(int(sys.argv[1]))
    try:
        nursery.serve()
    finally:
        nursery.end()


if __name__ == "__main__":
    main()
