"""The first program inside a sandbox: `python -I _supervisor.py WORK`.

It speaks JSON lines with the host over its standard input and output, starts the program under limits, passes on what
it prints and the calls it makes, and takes the files out at the end. Standard library only. It shares user and world
with the program, so nothing it says is believed: every bound is kept again by the host (driver.py).

In:  {"kind": "start", ...}, {"kind": "file", "name", "data"}, {"kind": "go"}, {"kind": "result", ...}, {"kind": "stop"}
Out: {"kind": "ready"}, {"kind": "out", "fd", "data"}, {"kind": "call", ...}, {"kind": "file", "name", "data", "last"},
     {"kind": "note", "text"}, {"kind": "end", ...}
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import resource
import selectors
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

CHUNK = 48_000
STOP = b'{"kind": "stop"}'  # the line that ends a program before its time
PRINTED_BYTES = 200_000  # of each output that is kept: the first and the last half
DRAIN_S = 0.2
DEEPEST = 50
COPIED_BYTES, COPIED_FILES = 1 << 20, 100
"""Size of a given file, and number of them, up to which the working folder holds copies."""
Mark = tuple[int, int, int, int]
HERE = os.path.dirname(os.path.abspath(__file__))


def say(kind: str, **fields: Any) -> None:
    line = json.dumps({"kind": kind, **fields}).encode() + b"\n"
    count = 0
    while count < len(line):
        count += os.write(1, line[count:])


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


class Output:
    """The beginning and the end of an output; here and on the host."""

    def __init__(self, head: bytes = b"", tail: bytes = b"", size: int = 0) -> None:
        self.head, self.tail, self.size = bytearray(head), bytearray(tail), size

    def add(self, data: bytes) -> None:
        half = PRINTED_BYTES // 2
        room = max(0, half - len(self.head))
        self.size += len(data)
        self.head += data[:room]
        self.tail += data[room:]
        if len(self.tail) > 2 * half:
            del self.tail[:-half]

    def ends(self) -> tuple[bytes, bytes]:
        return bytes(self.head), bytes(self.tail[-(PRINTED_BYTES // 2) :])

    def text(self) -> str:
        """Return it as text, with a note where some is left out."""
        head, tail = self.ends()
        left = self.size - len(head) - len(tail)
        note = f"\n[{left:,} bytes left out]\n".encode() if left > 0 else b""
        return (head + note + tail).decode("utf-8", "replace")


class Lines:
    def __init__(self, fd: int, most: int) -> None:
        self.fd, self.most, self.left, self.open = fd, most, b"", True

    def read(self) -> list[bytes]:
        """Return complete lines that have arrived; blocks until there is something or the end."""
        data = os.read(self.fd, 1 << 16)
        if not data:
            self.open = False
            return []
        *lines, self.left = (self.left + data).split(b"\n")
        if len(self.left) > self.most or any(len(line) > self.most for line in lines):
            raise ValueError("a line is longer than allowed")
        return lines


def prepare(lines: Lines) -> tuple[dict[str, Any], dict[str, Mark]]:
    """Take the start message and the files; return the message and the files' marks."""
    start: dict[str, Any] = {}
    before: dict[str, Mark] = {}
    pending: list[dict[str, Any]] = []
    names: set[str] = set()
    failed: set[str] = set()
    while True:
        while not pending:
            pending = [json.loads(line) for line in lines.read()]
            if not lines.open:
                sys.exit(3)
        message = pending.pop(0)
        if message["kind"] == "start":
            start = message
            if start["inputs"]:
                before |= give(start["inputs"], start["names"])
        elif message["kind"] == "file":
            name = message["name"]
            try:
                put(name, base64.b64decode(message["data"]), first=name not in names)
            except OSError as error:
                if name not in failed:
                    say("note", text=f"{name} could not be put into the working folder: {error.strerror}")
                failed.add(name)
            names.add(name)
            if message["last"] and name not in failed:
                before[name] = mark(os.lstat(name))
        elif message["kind"] == "go":
            return start, before
        else:
            sys.exit(3)  # the host ends it before it began


def give(inputs: str, names: list[str]) -> dict[str, Mark]:
    """Put the given files into the working folder; return the marks of those that are copies.

    Small files are copies: a program changes them in place, and Python looks for what a program imports beside the
    program itself, not beside the link to it. All else is a link.
    """
    marks: dict[str, Mark] = {}
    for name in names:
        with contextlib.suppress(OSError):
            source = os.path.join(inputs, name)
            status = os.lstat(source)
            if stat.S_ISREG(status.st_mode) and status.st_size <= COPIED_BYTES and len(marks) < COPIED_FILES:
                with open(source, "rb") as original, open(name, "xb") as copy:
                    copy.write(original.read())
                marks[name] = mark(os.lstat(name))
            else:
                os.symlink(source, name)
    with contextlib.suppress(OSError):
        os.symlink(inputs, "files")
    return marks


def put(name: str, data: bytes, *, first: bool) -> None:
    """Write a part of a file; what was given under that name gives way."""
    folder = os.path.dirname(name)
    if folder:
        os.makedirs(folder, exist_ok=True)
    if first and os.path.lexists(name) and not os.path.isdir(name):
        os.unlink(name)
    with open(name, "ab") as target:
        target.write(data)


def mark(status: os.stat_result) -> Mark:
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def child_setup(start: dict[str, Any], own: bool) -> Callable[[], None]:
    """Return what the child does between fork and exec."""

    def act() -> None:
        os.setsid()
        limits = start["limits"]
        bounds = (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_DATA, limits["memory_bytes"]),  # not RLIMIT_AS: Java maps more than it uses
            (resource.RLIMIT_CPU, limits["cpu_seconds"]),
            (resource.RLIMIT_FSIZE, limits["work_bytes"]),
            (resource.RLIMIT_NOFILE, 512),
            (resource.RLIMIT_NPROC, limits["processes"]),
        )
        for resource_number, most in bounds:
            if resource_number == resource.RLIMIT_NPROC and not own:
                continue
            _, hard = resource.getrlimit(resource_number)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(resource_number, (most, most))

    return act


def run(start: dict[str, Any], lines: Lines) -> tuple[int, str]:
    limits = start["limits"]
    calls_in, calls_out = os.pipe()  # the child's calls
    results_in, results_out = os.pipe()  # what they give
    if start["language"] == "python":
        program = os.path.join(start["temporary"], "program.py")
        # Not -I, which ignores PYTHONHASHSEED and PYTHONUNBUFFERED; the environment is ours.
        command = [sys.executable, "-P", "-s", "-B", os.path.join(HERE, "_program.py"), str(start["seed"]), program]
        command += [start["libraries"], str(results_in), str(calls_out), json.dumps(start["functions"])]
    else:
        program = os.path.join(start["temporary"], "program.sh")
        command = ["/bin/bash", program]
    with open(program, "w", encoding="utf-8", errors="surrogatepass") as target:
        target.write(start["code"])
    own = start.get("own_user", True)
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(results_in, calls_out),
            preexec_fn=child_setup(start, own),
            env={**os.environ, "PYTHONHASHSEED": str(start["seed"] % 4_294_967_295)},
        )
    finally:
        os.close(results_in)
        os.close(calls_out)
    assert child.stdout is not None and child.stderr is not None
    watch = selectors.DefaultSelector()
    from_child = Lines(calls_in, limits["call_bytes"])
    outputs = {child.stdout.fileno(): 1, child.stderr.fileno(): 2}
    for fd in outputs:
        watch.register(fd, selectors.EVENT_READ)
    watch.register(calls_in, selectors.EVENT_READ)
    watch.register(lines.fd, selectors.EVENT_READ)
    deadline, waiting, since = time.monotonic() + limits["seconds"], 0, 0.0
    output_size, stopped, ended_at, answering = 0, "", None, bytearray()
    os.set_blocking(results_out, False)
    while True:
        reap(child.pid)
        if ended_at is None and child.poll() is not None:
            ended_at = time.monotonic()
        if ended_at is not None and (not outputs or time.monotonic() - ended_at > 0.5):
            break  # what it left running in the background has had its moment
        now = time.monotonic()
        if not waiting and now > deadline and ended_at is None:
            stopped = "time"
        if output_size > limits["flood_bytes"]:
            stopped = "flood"
        if stopped:
            break
        for key, _ in watch.select(0.05 if outputs and ended_at is None else 0.005):
            if key.fd in outputs:
                data = os.read(key.fd, CHUNK)
                if not data:
                    watch.unregister(key.fd)
                    outputs.pop(key.fd)
                    continue
                output_size += len(data)
                say("out", fd=outputs[key.fd], data=encoded(data))
            elif key.fd == calls_in:
                try:
                    calls = [json.loads(line) for line in from_child.read()]
                except (ValueError, RecursionError):
                    stopped = "call"
                    break
                if not from_child.open:
                    watch.unregister(calls_in)
                for call in calls:
                    if not isinstance(call, dict):
                        stopped = "call"
                        break
                    if not waiting:
                        since = time.monotonic()
                    waiting += 1
                    try:
                        say("call", id=call.get("id"), name=call.get("name"), arguments=call.get("arguments"))
                    except RecursionError:
                        stopped = "call"
                        break
            else:
                answers = lines.read()
                if not lines.open:
                    sys.exit(3)  # the host is gone, and with this process everything else here
                for line in answers:
                    if line == STOP:
                        stopped = "host"
                        break
                    waiting -= 1
                    if not waiting:
                        deadline += time.monotonic() - since
                    answering += line + b"\n"
        if answering:
            with contextlib.suppress(OSError):  # a program that does not read its results must not hold this up
                del answering[: os.write(results_out, answering)]
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        child.kill()
    code = child.wait()
    if stopped != "flood":
        drain(outputs)
    return code, stopped


def drain(outputs: dict[int, int]) -> None:
    """Pass on what a killed program had printed; what it left running in the background may still hold its outputs."""
    watch = selectors.DefaultSelector()
    for fd in outputs:
        watch.register(fd, selectors.EVENT_READ)
    until, left = time.monotonic() + DRAIN_S, 1 << 20  # a pipe holds less
    while outputs and left > 0 and time.monotonic() < until:
        for key, _ in watch.select(DRAIN_S / 10):
            data = os.read(key.fd, CHUNK)
            left -= len(data)
            if data:
                say("out", fd=outputs[key.fd], data=encoded(data))
            else:
                watch.unregister(key.fd)
                outputs.pop(key.fd)


def reap(child: int) -> None:
    """End the bookkeeping of processes that lost their parent: this may be the first process of its world."""
    with contextlib.suppress(ChildProcessError):
        while (info := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and info.si_pid != child:
            os.waitpid(info.si_pid, os.WNOHANG)


def walk() -> Iterator[tuple[str, list[str]]]:
    """Yield folders with their entries that are no folders; os.walk calls itself for each level, however deep."""
    todo, cut = [("", 0)], False
    while todo:
        folder, depth = todo.pop()
        names: list[str] = []
        folders: list[str] = []
        with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
            for entry in entries:
                (folders if entry.is_dir(follow_symlinks=False) else names).append(entry.name)
        yield folder, sorted(names)
        if depth == DEEPEST and folders:
            cut = True
            continue
        below = sorted((folder for folder in folders if folder != "__pycache__"), reverse=True)
        todo += [(os.path.join(folder, name), depth + 1) for name in below]
    if cut:
        say("note", text=f"there are folders deeper than {DEEPEST}; what is in them was not looked at")


def take_out(before: dict[str, Mark], limits: dict[str, Any]) -> set[str]:
    """Send the regular files that are new or changed; return the names of kept ones that are gone."""
    seen: set[str] = set()
    count = size = entries = 0
    for folder, names in walk():
        for name in names:
            entries += 1
            if entries > limits["files"]:
                say("note", text=f"there are more than {limits['files']:,} files; the rest was not looked at")
                return before.keys() - seen
            path = os.path.normpath(os.path.join(folder, name))
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError:
                continue  # a link, or gone
            with open(fd, "rb") as source:
                status = os.fstat(fd)
                if not stat.S_ISREG(status.st_mode):
                    continue
                seen.add(path)
                if before.get(path) == mark(status):
                    continue
                if count >= limits["kept_files"] or size + status.st_size > limits["kept_bytes"]:
                    say("note", text=f"{path} ({status.st_size:,} bytes) was not kept: too many or too large files")
                    continue
                count, size, left = count + 1, size + status.st_size, status.st_size
                while True:
                    data = source.read(min(CHUNK, left))
                    left -= len(data)
                    last = left <= 0 or not data
                    say("file", name=path, data=encoded(data), last=last)
                    if last:
                        break
    return before.keys() - seen


def main() -> None:
    signal.signal(signal.SIGINT, lambda *_: None)  # not ignored, which what is started here would inherit
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: the program cannot look into this process
    os.chdir(sys.argv[1])
    say("ready")
    lines = Lines(0, 4 << 20)
    start, before = prepare(lines)
    code, stopped = run(start, lines)
    removed = set() if stopped == "host" else take_out(before, start["limits"])
    say("end", exit_code=code, stopped=stopped, removed=sorted(removed))
    os._exit(0)


if __name__ == "__main__":
    main()
