"""Reads files, each in a process of its own: `python _worker.py FD`, whose other end the caller holds (worker.py).

Run by path, so that nothing but formats/ is loaded. A parser of hostile input can neither be interrupted nor bounded
inside the caller's process: it runs here, with limits set before it sees anything, and dies with its parent (by the
kernel's parent-death signal on Linux, and everywhere by the pipe FD).

Loading the libraries takes far longer than reading a small file, so this process forks one for each file. It reads a
JSON object a line: {"id", "out", "load", "request"} starts a worker, after the modules `load` are there: those that
workers before it loaded themselves. {"kill": id} ends one. It writes {"id", "status"} when one has ended, {"id": null}
after a while without work. It ends with its input, and its workers with it.

A worker writes to the file `out` one JSON object, an error as {"error": code, "detail": text}; `loaded` names the
modules that it had to load. A member of an archive follows as its bytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import resource
import select
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any


def die_with_parent(parent: int, fd: int) -> None:
    """End this process as soon as the parent is gone, however it went."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:  # it died before the call above
        os._exit(1)

    def watch() -> None:
        with contextlib.suppress(OSError):
            os.read(fd, 1)  # nothing is ever written: this returns when the parent's end is closed
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def limit(numbers: dict[str, Any]) -> None:
    """Bound memory, processor time and what is written (the result is a file); no core files."""
    cpu_s = max(1, int(numbers["seconds"] + 0.999))
    resource.setrlimit(resource.RLIMIT_AS, (numbers["memory_bytes"],) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (numbers["output_bytes"],) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an error of the write instead


def load_formats() -> None:
    """Make the folder formats/ a package, without the packages around it."""
    if "formats" in sys.modules:
        return
    folder = Path(__file__).resolve().parent / "formats"
    spec = importlib.util.spec_from_file_location(
        "formats", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["formats"] = package
    spec.loader.exec_module(package)


def answer(request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return the result of a request, and the bytes that follow it."""
    base = importlib.import_module("formats.base")
    path, mode, numbers = Path(request["path"]), request["mode"], request["numbers"]
    name = path.name
    job = base.ReadJob(mode == "check", time.monotonic() + numbers["seconds"] / 2, numbers, request["encoding"])
    try:
        with path.open("rb") as file:
            data = file.read(numbers["max_bytes"] + 1)
        if request["member"]:
            data = importlib.import_module("formats.convert").member_of(job, data, name, request["member"])
            name = request["member"][-1]
        if mode == "member":
            return {}, data
        if mode == "unpack":
            return importlib.import_module("formats.archives").unpack_all(job, data, name)  # type: ignore[no-any-return]
        if mode in ("media", "frames", "shape"):
            media_type = importlib.import_module("formats.sniff").sniff(data, name)
            media = importlib.import_module("formats.media")
            if mode == "shape":
                return media.shape(job, data, media_type, request["asked"]), b""
            if mode == "media":
                return {"text": media.describe_media(data, media_type)}, b""
            return {"frames": media.frames(job, data, media_type, request["at"], request["count"])}, b""
        if mode == "page":
            return importlib.import_module("formats.webpage").read_page(job, data, name, request["asked"]), b""
        document = importlib.import_module("formats.convert").convert(job, data, name)
        facts = {"media_type": document["media_type"], "textless": document.get("textless", False)}
        return {"document": document if mode == "read" else facts}, b""
    except base.Refused as error:
        return {"error": error.code, "detail": error.detail}, b""


def work(request: dict[str, Any]) -> None:
    """Set the limits, read, write the result; never returns."""
    old_modules = set(sys.modules)
    die_with_parent(request["parent"], request["fd"])
    limit(request["numbers"])
    load_formats()
    data = b""
    try:
        result, data = answer(request)
        result["loaded"] = [name for name in sys.modules if name not in old_modules]
        reply = json.dumps(result, ensure_ascii=False).encode("utf-8", "replace")
    except MemoryError:
        reply = b'{"error": "memory", "detail": ""}'
    except RecursionError:
        reply = b'{"error": "corrupt", "detail": "it is nested without end"}'
    except Exception as error:  # a library's, on broken input
        detail = f"{type(error).__name__}: {error}"[:200]
        reply = json.dumps({"error": "corrupt", "detail": " ".join(detail.split())}).encode()
    try:
        with open(1, "wb", closefd=False) as out:
            out.write(reply + b"\n" + data)
    except OSError:  # beyond the limit
        os._exit(3)
    os._exit(0)  # the watching thread is blocked in a read


_IDLE_S = 60.0  # without a file to read


def address_space() -> int:
    """Return the bytes of address space of this process; 0 where the system does not say."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return 0


class ForkServer:
    """Starts workers and tells of their ends. `fd` is a pipe whose other end the caller holds."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        load_formats()
        importlib.import_module("formats.convert")
        self._running: dict[int, Any] = {}
        self._size, self._held = address_space(), 0  # what the libraries take that other files needed
        self._wake, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler, so that its number is written to the pipe

    def serve(self) -> None:
        waiting = b""
        while True:
            ready, _, _ = select.select([0, self._wake], [], [], None if self._running else _IDLE_S)
            if not ready:
                os.write(1, b'{"id": null}\n')
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
        for pid in self._running:
            self._kill(pid)

    def _do(self, message: dict[str, Any]) -> None:
        if "kill" in message:
            for pid, name in self._running.items():
                if name == message["kill"]:
                    self._kill(pid)
            return
        for name in message["load"]:
            with contextlib.suppress(Exception):  # a worker that needs it says what is wrong
                importlib.import_module(name)
        if message["load"]:
            gc.freeze()  # the workers' collections leave these pages shared
            self._held = max(0, address_space() - self._size)
        message["request"]["numbers"]["memory_bytes"] += self._held
        pid = os.fork()
        if pid == 0:
            self._work(message)
        self._running[pid] = message["id"]

    def _work(self, message: dict[str, Any]) -> None:
        """Be the worker: never returns."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            for target, path, flags in ((0, os.devnull, os.O_RDONLY), (1, message["out"], os.O_WRONLY)):
                fd = os.open(path, flags)
                os.dup2(fd, target)
                os.close(fd)
            request = {**message["request"], "parent": os.getppid(), "fd": self._fd}
            work(request)
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
    """Serve until the input ends."""
    server = ForkServer(int(sys.argv[1]))
    try:
        server.serve()
    finally:
        server.end()


if __name__ == "__main__":
    main()
