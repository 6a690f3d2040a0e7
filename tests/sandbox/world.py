"""What programs in a sandbox must not reach: secrets, files, servers, processes of the host, made for one attempt."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.support.patience import LONGEST_S

WON = "WON"
BEGAN = "the attempt began"
NOBODY = 1_000_000 + os.getpid()
"""A user of this process of the tests alone, under whom the controls run that would be harmful with more rights."""

PRELUDE = f"""
import ctypes, json, os, resource, signal, socket, stat, struct, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def won(text=""): print("W" + "ON", text, flush=True)
def system_call(*numbers):
    found = libc.syscall(*[ctypes.c_long(one) if isinstance(one, int) else one for one in numbers])
    return found if found >= 0 else -ctypes.get_errno()
def others():  # processes that are not this one's own: all of a sandbox, few outside
    few = [n for n in map(int, filter(str.isdigit, os.listdir("/proc"))) if n < 30]
    return sorted({{W["victim"], os.getppid(), *few}} - {{os.getpid()}}, reverse=True)
def tried(act, *things):
    for one in things:
        try: yield act(one)
        except (OSError, ValueError): pass
print({BEGAN!r}, flush=True)
"""


class World:
    """Where an attempt could show an effect.

    Attributes:
        token: stands in every secret; whatever comes back with it has leaked.
        folder: the task's files, which programs see read only.
        facts: what the attempts know.
    """

    def __init__(self) -> None:
        self.token = f"secret-{secrets.token_hex(8)}"
        self.root = Path(tempfile.mkdtemp(prefix="world-"))
        self.root.chmod(0o755)
        self.folder = self.root / "task"
        self.facts: dict[str, str | int] = {}
        self.heard: list[str] = []
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._files()
        self._servers()
        environment = {"PATH": os.environ["PATH"], "SECRET": self.token}
        self.victim = subprocess.Popen(
            ["/bin/sh", "-c", "exec 9<secret.txt; echo up; sleep 1000; :", f"argument-{self.token}", str(self.folder)],
            cwd=self.root / "private",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            user=NOBODY if os.geteuid() == 0 else None,
            start_new_session=True,
        )
        assert self.victim.stdout is not None
        self.victim.stdout.readline()
        self.facts |= {"victim": self.victim.pid, "hostname": socket.gethostname(), "token_end": self.token[-6:]}

    def _files(self) -> None:
        private, other = self.root / "private", self.root / "workspace" / "runs" / "other"
        for folder in (private, other, self.folder):
            folder.mkdir(parents=True)
        for path in (private / "secret.txt", other / "notes.txt"):
            path.write_text(self.token)
        with contextlib.closing(sqlite3.connect(self.root / "workspace" / "agentorchestra.db")) as database:
            database.execute("create table events (body text)")
            database.execute("insert into events values (?)", (self.token,))
            database.commit()
        (self.root / "outside.txt").write_text("unchanged")
        (self.folder / "given.txt").write_text("given")
        (self.folder / "link.txt").symlink_to(private / "secret.txt")
        shutil.copy("/usr/bin/id", self.folder / "setuid-id")
        (self.folder / "setuid-id").chmod(0o4755)
        self.facts |= {
            "task": str(self.folder),
            "secret": str(private / "secret.txt"),
            "other_run": str(other),
            "database": str(self.root / "workspace" / "agentorchestra.db"),
            "outside": str(self.root / "outside.txt"),
        }

    def _servers(self) -> None:
        abstract = f"\0{self.token[-10:]}"
        unix = str(self.root / "server.sock")
        for name, family, address in (
            ("tcp", socket.AF_INET, ("127.0.0.1", 0)),
            ("tcp6", socket.AF_INET6, ("::1", 0)),
            ("abstract", socket.AF_UNIX, abstract),
            ("unix", socket.AF_UNIX, unix),
        ):
            server = socket.socket(family, socket.SOCK_STREAM)
            server.bind(address)
            server.listen()
            self.facts[name] = server.getsockname()[1] if name.startswith("tcp") else str(address)
            self._serve(name, server, self._accept)
        os.chmod(unix, 0o777)  # noqa: PTH101
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind(("127.0.0.1", 0))
        self.facts["udp"] = datagrams.getsockname()[1]
        self._serve("udp", datagrams, self._answer)

    def _serve(self, name: str, server: socket.socket, act: object) -> None:
        self._sockets.append(server)
        thread = threading.Thread(target=act, args=(name, server), daemon=True)  # type: ignore[arg-type]
        thread.start()
        self._threads.append(thread)

    def _accept(self, name: str, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                self.heard.append(name)
                with connection, contextlib.suppress(OSError):
                    connection.sendall(self.token.encode())

    def _answer(self, name: str, server: socket.socket) -> None:
        """A name server with one answer, whatever the question."""
        with contextlib.suppress(OSError):
            while True:
                asked, sender = server.recvfrom(2048)
                if asked == b"close":
                    return
                self.heard.append(name)
                answer = asked[:2] + b"\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00" + asked[12:]
                server.sendto(answer + b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x0a\x01\x02\x03", sender)

    def code(self, language: str, code: str) -> str:
        """A program that knows where everything is."""
        if language == "bash":
            lines = [
                f"{name}={shlex.quote(str(value))}" for name, value in self.facts.items() if "\0" not in str(value)
            ]
            return "\n".join([*lines, f"echo {shlex.quote(BEGAN)}", code])
        return f"W = {json.dumps(self.facts)}\n{PRELUDE}\n{code}"

    def evidence(self, came_back: bytes) -> str:
        """What shows that an attempt succeeded, "" when nothing does.

        Args:
            came_back: all that the program gave back: outputs, files, their names, notes.
        """
        if self.token.encode() in came_back:
            return "a secret came back"
        if WON.encode() in came_back:
            return "it did what it must not be able to do"
        if (self.root / "outside.txt").read_text() != "unchanged" or (self.folder / "given.txt").read_text() != "given":
            return "a file outside was changed"
        if {path.name for path in self.root.iterdir()} != {
            "private",
            "workspace",
            "task",
            "outside.txt",
            "server.sock",
        }:
            return "a file was made outside"
        if self.heard:
            return f"a server of the host was reached: {self.heard}"
        if self.victim.poll() is not None:
            return "a process of the host was ended"
        if left := self.left_over():
            return f"processes were left behind: {left}"
        return ""

    def left_over(self) -> list[int]:
        """Processes with the mark of an attempt in their arguments; those of a sandbox have a moment to go."""
        until = time.monotonic() + LONGEST_S
        while (found := self.left_over_now()) and time.monotonic() < until:
            time.sleep(0.05)
        return found

    def close(self) -> None:
        """End and remove everything."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.victim.pid, signal.SIGKILL)
        self.victim.wait()
        if self.victim.stdout is not None:
            self.victim.stdout.close()
        for pid in self.left_over_now():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for server in self._sockets:
            if server.type == socket.SOCK_DGRAM:
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                    sender.sendto(b"close", server.getsockname())
            else:
                with contextlib.suppress(OSError):
                    server.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for server in self._sockets:
            server.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def left_over_now(self) -> list[int]:
        """As `left_over`, without waiting."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if f"left-{self.token[-6:]}" in " ".join(process.cmdline()):
                    found.append(process.pid)
        return found


@contextlib.contextmanager
def world() -> Iterator[World]:
    """A world, removed at the end."""
    made = World()
    try:
        yield made
    finally:
        made.close()


__all__ = ["BEGAN", "NOBODY", "WON", "World", "world"]
