"""Python processes that begin with the package imported: each is forked from one that has it and does nothing else.

They are processes like any other, with a pid, files and an end of their own, and can be killed; but the hundreds that
the tests need do not import the same modules one after the other. What is about the start of a process, its signals or
its terminal, starts `sys.executable`.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import runpy
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.warmed"])
_ONE = threading.Lock()
"""multiprocessing looks after all its processes when one is started: not from two threads at once."""


def run(
    words: Sequence[str | Path],
    *,
    environ: Mapping[str, str],
    cwd: Path | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run Python with these words (`-m MODULE ...`, `-c CODE`, `FILE ...`) in a process, to its end.

    Args:
        words: what follows `python`.
        environ: its whole environment.
        cwd: its folder, by default the one of this process.
        timeout: in seconds; it is killed then.

    Returns:
        Its exit code, negative for a signal, and what it wrote.

    Raises:
        subprocess.TimeoutExpired: if it took longer.
    """
    given = [str(word) for word in words]
    with tempfile.TemporaryDirectory(prefix="agentorchestra-warm-") as place:
        out, err = Path(place) / "out", Path(place) / "err"
        arguments = (given, dict(environ), str(cwd or Path.cwd()), str(out), str(err))
        process = _CONTEXT.Process(target=_work, args=arguments)
        with _ONE:
            process.start()
        deadline = time.monotonic() + timeout
        while (code := _ended(process)) is None:
            if time.monotonic() > deadline:
                process.kill()
                raise subprocess.TimeoutExpired(given, timeout, _text(out), _text(err))
            time.sleep(0.005)
        process.close()
        return subprocess.CompletedProcess(given, code, _text(out), _text(err))


def _ended(process: multiprocessing.process.BaseProcess) -> int | None:
    with _ONE:
        return process.exitcode


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape") if path.exists() else ""


def _work(words: list[str], environ: dict[str, str], cwd: str, out: str, err: str) -> None:
    for number, path in ((1, out), (2, err)):
        stream = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(cwd)
    random.seed()  # or all of them would throw the same dice
    wanted = [one for one in environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    sys.path[:] = [*wanted, *(one for one in sys.path if one not in wanted)]
    match words:
        case ["-m", module, *rest]:
            sys.argv = [module, *rest]
            sys.path.insert(0, cwd)
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *rest]:
            sys.argv = ["-c", *rest]
            sys.path.insert(0, cwd)
            main = sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(code, "<string>", "exec"), main.__dict__)
        case [file, *rest]:
            sys.argv = [file, *rest]
            sys.path.insert(0, str(Path(file).parent))
            main = sys.modules["__main__"] = ModuleType("__main__")
            main.__file__ = file
            exec(compile(Path(file).read_text(encoding="utf-8"), file, "exec"), main.__dict__)
