"""Reads one file in a process of its own: `python _worker.py REQUEST`, the request being JSON (worker.py writes it).

Run by path, not imported, so that nothing but formats/ is loaded. A parser of hostile input can neither be interrupted
nor bounded inside the caller's process, so it runs here, with limits set before any parser is imported, and dies with
its parent: by the kernel's parent-death signal on Linux, and everywhere by a pipe whose other end the parent holds.

Writes one JSON object: {"document": ...} and the like, or {"error": code, "detail": text}; a member of an archive as
its bytes behind a line of JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import json
import os
import resource
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


def limit(memory: int, cpu_s: int, output: int) -> None:
    """Bound memory, processor time and what is written (the result is a file); no core files."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (output, output))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an error of the write instead


def load_formats() -> None:
    """Make the folder formats/ a package, without the packages around it."""
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
    mode, name = request["mode"], request["name"]
    job = base.Job(mode == "check", time.monotonic() + request["seconds"] / 2, request["numbers"])
    try:
        with Path(request["path"]).open("rb") as file:
            data = file.read(request["numbers"]["bytes"] + 1)
        if request.get("member"):
            data = importlib.import_module("formats.convert").member_of(job, data, name, request["member"])
            name = request["member"][-1]
        if mode == "member":
            return {}, data
        if mode == "unpack":
            listed, data = importlib.import_module("formats.archives").unpack_all(job, data, name)
            return listed, data
        if mode in ("media", "frames"):
            media = importlib.import_module("formats.media")
            media_type = importlib.import_module("formats.sniff").sniff(data, name)
            if mode == "media":
                return {"text": media.describe_media(job, data, media_type)}, b""
            return {"frames": media.frames(job, data, media_type, request["at"], request["count"])}, b""
        if mode == "shape":
            media_type = importlib.import_module("formats.sniff").sniff(data, name)
            return importlib.import_module("formats.shapes").shaped(job, data, media_type, request["asked"]), b""
        if mode == "page":
            return importlib.import_module("formats.webpage").read_page(job, data, name, request["asked"]), b""
        document = importlib.import_module("formats.convert").convert(job, data, name)
        found = {"media_type": document["media_type"], "textless": document.get("textless", False)}
        return {"document": document if mode == "read" else found}, b""
    except base.Refused as error:
        return {"error": error.code, "detail": error.detail}, b""


def main() -> None:
    """Set the limits, read, write the result."""
    request = json.loads(sys.argv[1])
    die_with_parent(request["parent"], request["fd"])
    limit(request["memory"], request["cpu"], request["output"])
    load_formats()
    data = b""
    try:
        result, data = answer(request)
        written = json.dumps(result, ensure_ascii=False).encode("utf-8", "replace")
    except MemoryError:
        written = b'{"error": "memory", "detail": ""}'
    except RecursionError:
        written = b'{"error": "corrupt", "detail": "it is nested without end"}'
    except Exception as error:  # a library's, on broken input
        said = f"{type(error).__name__}: {error}"[:200]
        written = json.dumps({"error": "corrupt", "detail": " ".join(said.split())}).encode()
    try:
        with open(1, "wb", closefd=False) as out:
            out.write(written + b"\n" + data)
    except OSError:  # beyond the limit
        os._exit(3)
    os._exit(0)  # the watching thread is blocked in a read


if __name__ == "__main__":
    main()
