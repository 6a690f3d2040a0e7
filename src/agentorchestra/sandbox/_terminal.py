"""The terminal of a job, inside the sandbox: bytes drawn, keys sent; the host makes the screen of it (screen.py)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable

Size = tuple[int, int]  # columns and lines
SIZE = 120, 40  # where nobody chose another
NAME = "xterm"  # the entry of terminfo whose sequences the host's screen knows; with 256 colours less is reversed
DRAWN_BYTES = 64 << 10  # of what was drawn, the last bytes are kept
_READS = {"x86_64": (0, 19), "aarch64": (63, 65)}  # the numbers of read and readv
_POLLS = {"x86_64": (7, 23, 232, 270, 271, 281, 441), "aarch64": (22, 72, 73, 441)}
"""The numbers of poll, select and epoll_wait with their kin."""
_PEER = 0x5441  # TIOCGPTPEER, which Python names from 3.13


class PseudoTerminal:
    """A pseudo-terminal of some columns and lines; `end` is ours, the programs have the other one."""

    def __init__(self, size: Size) -> None:
        self.end, self._theirs = os.openpty()
        self.resize(size)
        os.set_blocking(self.end, False)
        self.drawn = bytearray()
        self.size = self.looked_at = 0

    def resize(self, size: Size) -> None:
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.since = time.monotonic()

    def start(self, command: list[str], work: str, limit: Callable[[], None]) -> subprocess.Popen[bytes]:
        """Start a program at it, which leads a session of its own."""

        def before() -> None:
            limit()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        tty, environment = self._theirs, {**os.environ, "TERM": NAME}
        try:
            return subprocess.Popen(
                command, stdin=tty, stdout=tty, stderr=tty, preexec_fn=before, cwd=work, env=environment
            )
        finally:
            os.close(tty)

    def hear(self) -> bool:
        """Take what was drawn; return False when nobody has the terminal open any more."""
        try:
            data = os.read(self.end, DRAWN_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.size, self.since = self.size + len(data), time.monotonic()
        self.drawn += data
        del self.drawn[:-DRAWN_BYTES]
        return bool(data)

    def type(self, keys: bytes) -> int:
        """Send keys; return how many of the bytes were taken."""
        self.since = time.monotonic()
        with contextlib.suppress(OSError):  # there is no room for more
            return os.write(self.end, keys)
        return 0

    def close(self) -> None:
        if self.end >= 0:
            os.close(self.end)
            self.end = -1

    def after(self, position: int) -> bytes:
        """Return what was drawn from a position on; less if that is not kept any more."""
        self.looked_at = self.size
        count = max(0, self.size - position)
        return bytes(self.drawn[-count:]) if count else b""

    def waits(self) -> bool | None:
        """Return True if a program in the foreground waits for keys, None where the system does not tell.

        It does if one of its threads is in `read` of the terminal, or waits for one of several things and takes every
        key by itself; and if no key is left that it has not read.
        """
        machine = platform.machine()
        try:
            if machine not in _READS or not (group := os.tcgetpgrp(self.end)):
                return None
            takes_lines = bool(termios.tcgetattr(self.end)[3] & termios.ICANON)
            peer = fcntl.ioctl(self.end, _PEER, os.O_RDWR | os.O_NOCTTY)
            try:
                if struct.unpack("i", fcntl.ioctl(peer, termios.FIONREAD, b"\0" * 4))[0]:
                    return False
            finally:
                os.close(peer)
            calls = [call for pid in members(group) for call in system_calls(pid)]
        except (OSError, termios.error):
            return None
        if not calls:
            return None
        for pid, number, first in calls:
            if number in _POLLS[machine] and not takes_lines:
                return True
            if number in _READS[machine] and is_terminal(pid, first):
                return True
        return False

    def interrupt(self) -> None:
        with contextlib.suppress(OSError):
            if group := os.tcgetpgrp(self.end):
                os.killpg(group, signal.SIGINT)


def members(group: int) -> list[int]:
    pids = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as source:
                if int(source.read().rpartition(b")")[2].split()[2]) == group:
                    pids.append(int(name))
    return pids


def system_calls(pid: int) -> list[tuple[int, int, int]]:
    """Return for each thread the process, the system call that it is in (-1: none) and the call's first argument."""
    calls = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/task/{task}/syscall") as source:
                words = source.read().split()
                is_waiting = words and words[0] not in ("running", "-1")
                calls.append((pid, int(words[0]), int(words[1], 16)) if is_waiting else (pid, -1, 0))
    return calls


def is_terminal(pid: int, fd: int) -> bool:
    """Return True if a process has a terminal under this number."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/fd/{fd}").startswith(("/dev/pts/", "/dev/tty"))
    return False
