"""Python processes that begin with the package imported: each is forked from one that has it and does nothing else.

They are processes like any other, with a pid, files and an end of their own, and can be killed; but the hundreds that
the tests need do not import the same modules one after the other. What is about the start of a process, its signals or
its terminal, starts `sys.executable`.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import multiprocessing
import os
import random
import resource
import runpy
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing import reduction
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any, cast

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.warmed"])
_ONE = threading.Lock()
"""multiprocessing looks after all its processes when one is started: not from two threads at once."""


def run(
    words: Sequence[str | Path], *, environ: Mapping[str, str], cwd: Path | None = None, timeout: float = 300
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
        while (code := _exit_code(process)) is None:
            if time.monotonic() > deadline:
                process.kill()
                raise subprocess.TimeoutExpired(given, timeout, _text(out), _text(err))
            time.sleep(0.005)
        process.close()
        return subprocess.CompletedProcess(given, code, _text(out), _text(err))


class Running:
    """A process that goes on, with what tests use of `subprocess.Popen`."""

    def __init__(self, process: BaseProcess, streams: list[io.TextIOWrapper | None]) -> None:
        self._process = process
        self.pid = process.pid or 0
        self.stdin, self.stdout, self.stderr = streams

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it goes on."""
        return _exit_code(self._process)

    @property
    def returncode(self) -> int | None:
        """The same."""
        return self.poll()

    def wait(self, timeout: float = 300) -> int:
        """Return its exit code.

        Raises:
            subprocess.TimeoutExpired: if it goes on for longer.
        """
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a warm process", timeout)
            time.sleep(0.005)
        return code

    def communicate(self, text: str = "", timeout: float = 300) -> tuple[str, str]:
        """Write to its stdin; return all that it writes to its pipes, at its end.

        Raises:
            subprocess.TimeoutExpired: if it goes on for longer; it is killed then.
        """
        texts = ["", ""]
        streams = (self.stdout, self.stderr)

        def read(index: int) -> None:
            stream = streams[index]
            if stream is not None and not stream.closed:  # what was read at its end stays so
                with stream:
                    texts[index] = stream.read()

        if self.stdin is not None and not self.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self.stdin.write(text)
                self.stdin.close()
        readers = [threading.Thread(target=read, args=(index,)) for index in range(2)]
        for reader in readers:
            reader.start()
        try:
            self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            for reader in readers:
                reader.join(timeout)
        return texts[0], texts[1]

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it goes on."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


def start(
    words: Sequence[str | Path],
    *,
    environ: Mapping[str, str],
    cwd: Path | None = None,
    streams: Sequence[Any],
    session: bool = False,
    limits: Mapping[int, int] | None = None,
) -> subprocess.Popen[str]:
    """Start Python with these words, as `run` does, and leave it running.

    Args:
        words: what follows `python`.
        environ: its whole environment.
        cwd: its folder, by default the one of this process.
        streams: its stdin, stdout and stderr: a descriptor, a file, `subprocess.PIPE` or `subprocess.DEVNULL` each.
        session: it leads a session of its own on the terminal that its stdin is.
        limits: of its resources, by `resource.RLIMIT_...`.

    Returns:
        A `Running`, which tests use like a `subprocess.Popen`.
    """
    ours: list[io.TextIOWrapper | None] = []
    theirs: list[int] = []
    opened: list[int] = []
    for number, stream in enumerate(streams):
        if stream == subprocess.PIPE:
            ends = os.pipe()
            child, parent = ends if number == 0 else ends[::-1]
            ours.append(os.fdopen(parent, "r" if number else "w", encoding="utf-8", errors="surrogateescape"))
            opened.append(child)
        else:
            number_of = stream if isinstance(stream, int) else stream.fileno()
            child = os.open(os.devnull, os.O_RDWR) if stream == subprocess.DEVNULL else number_of
            ours.append(None)
            opened += [child] if stream == subprocess.DEVNULL else []
        theirs.append(child)
    descriptors = [_Descriptor(number) for number in theirs]
    place = str(cwd or Path.cwd())
    arguments = ([str(word) for word in words], dict(environ), place, descriptors, session, dict(limits or {}))
    process = _CONTEXT.Process(target=_work_on, args=arguments)
    try:
        with _ONE:
            process.start()
    finally:
        for number in opened:
            os.close(number)
    return cast("subprocess.Popen[str]", Running(process, ours))


class _Descriptor:
    """A descriptor of this process, which is copied into the one that is started."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _copied_descriptor, (reduction.DupFd(self.number),)


def _copied_descriptor(copy: Any) -> _Descriptor:
    return _Descriptor(copy.detach())


def _work_on(
    words: list[str],
    environ: dict[str, str],
    cwd: str,
    streams: list[_Descriptor],
    session: bool,
    limits: dict[int, int],
) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, most in limits.items():
        resource.setrlimit(number, (most, most))
    if session:
        os.setsid()
        fcntl.ioctl(streams[0].number, termios.TIOCSCTTY, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream.number, number)
    for stream in streams:
        if stream.number > 2:
            os.close(stream.number)
    sys.stdin = os.fdopen(0, encoding="utf-8", errors="surrogateescape", closefd=False)
    for name, number in (("stdout", 1), ("stderr", 2)):
        errors = "surrogateescape" if number == 1 else "backslashreplace"
        buffering = 1 if number == 2 or os.isatty(1) else -1
        text = os.fdopen(number, "w", buffering, encoding="utf-8", errors=errors, closefd=False)
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)
    _run_words(words, environ, cwd)


def _exit_code(process: BaseProcess) -> int | None:
    with _ONE:
        return process.exitcode


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape") if path.exists() else ""


def _work(words: list[str], environ: dict[str, str], cwd: str, out: str, err: str) -> None:
    for number, path in ((1, out), (2, err)):
        stream = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(stream, number)
        os.close(stream)
    _run_words(words, environ, cwd)


def _run_words(words: list[str], environ: dict[str, str], cwd: str) -> None:
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
