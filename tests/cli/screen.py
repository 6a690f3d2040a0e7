"""A real terminal for tests: a pseudo-terminal, and an emulator that says what a person would see on it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyte
import pytest

from tests import warm
from tests.support.patience import LONGEST_S

_WIDE = 400
"""Columns of the emulator: a line that is too long for the terminal is seen as such, and not wrapped."""

COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7]|38;)")


class _Emulator(pyte.Screen):
    """Answers when it is asked where the cursor is, as terminals do."""

    def __init__(self, columns: int, lines: int, answer: Callable[[str], None]) -> None:
        super().__init__(columns, lines)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        """Type the answer."""
        self._answer(data)


class Screen:
    """A pseudo-terminal of a size, and what is on it.

    Attributes:
        ours, theirs: its two ends.
        written: everything that was written to it.
        longest: columns of the longest line that was ever on it.
    """

    def __init__(self, *, columns: int = 100, lines: int = 40) -> None:
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._screen = _Emulator(_WIDE, lines, self.type)
        self._stream = pyte.ByteStream(self._screen)
        self._changing = threading.Lock()  # a thread may feed it while it is looked at
        self.written = b""
        self.longest = 0

    def feed(self) -> bool:
        """Take what was written; False at the end."""
        try:
            data = os.read(self.ours, 65536)
        except OSError:
            return False
        with self._changing:
            self.written += data
            self._stream.feed(data)
            self.longest = max([self.longest, *(len(line.rstrip()) for line in self._screen.display)])
        return bool(data)

    @property
    def text(self) -> str:
        """What is on it now."""
        with self._changing:
            return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def hides_cursor(self) -> bool:
        """Whether whoever types next sees no cursor."""
        return bool(self._screen.cursor.hidden)

    @property
    def coloured(self) -> bool:
        """Whether any colour was ever written."""
        return bool(COLOUR.search(self.written.decode("utf-8", "replace")))

    def type(self, text: str) -> None:
        """Keys."""
        os.write(self.ours, text.encode())

    def close(self) -> None:
        """Both ends."""
        for end in (self.ours, self.theirs):
            with contextlib.suppress(OSError):
                os.close(end)


class HereScreen(Screen):
    """The terminal of this very process, for tests that call the command line's functions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **size: int) -> None:
        super().__init__(**size)
        self._files = [open(os.dup(self.theirs), mode, encoding="utf-8") for mode in ("r", "w", "w")]  # noqa: SIM115, PTH123
        for name, file in zip(("stdin", "stdout", "stderr"), self._files, strict=True):
            monkeypatch.setattr(sys, name, file)
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)
        asyncio.get_running_loop().add_reader(self.ours, self.feed)

    async def shows(self, *texts: str) -> None:
        """Until all of these are on it at once."""
        deadline = time.monotonic() + LONGEST_S
        while not all(text in self.text for text in texts):
            assert time.monotonic() < deadline, f"{texts} did not come:\n{self.text}"
            await asyncio.sleep(0.02)

    async def shows_cursor(self) -> None:
        """Until it has a cursor again: what was written last may not be read yet."""
        deadline = time.monotonic() + LONGEST_S
        while self.hides_cursor():
            assert time.monotonic() < deadline, f"the cursor stays hidden:\n{self.text}"
            await asyncio.sleep(0.02)

    def close(self) -> None:
        """Give the terminal back."""
        asyncio.get_running_loop().remove_reader(self.ours)
        for file in self._files:
            file.close()
        super().close()


class ProcessScreen(Screen):
    """The terminal of a process, which leads a session of its own on it."""

    _hung_up = False

    def start(
        self, command: list[str], *, prepare: Callable[[], object] = lambda: None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start it there; `prepare` is called in it first."""
        theirs = self.theirs

        def take() -> None:
            # A process started in the background may have inherited that it ignores Ctrl-C.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
            prepare()

        process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, preexec_fn=take, **options
        )
        os.close(theirs)
        self._watch()
        return process

    def start_warm(
        self, words: Sequence[str | Path], *, environ: Mapping[str, str], cwd: Path
    ) -> subprocess.Popen[str]:
        """Start Python with these words there, in a fork of a process that imported the package."""
        process = warm.start(words, environ=environ, cwd=cwd, streams=[self.theirs] * 3, session=True)
        os.close(self.theirs)
        self._watch()
        return process

    def _watch(self) -> None:
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while not self._hung_up:
            # A read that waits would keep the terminal alive while it is being closed.
            if select.select([self.ours], [], [], 0.05)[0] and not self.feed():
                return

    def wait(self, ready: Callable[[], bool], *, seconds: float = LONGEST_S) -> None:
        """Until `ready` says so."""
        deadline = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < deadline, f"it did not happen in time:\n{self.text}"
            assert self._hung_up or self._reader.is_alive() or ready(), f"it ended before:\n{self.text}"
            time.sleep(0.1)  # looking at all of it costs more than a moment

    def hang_up(self) -> None:
        """The window is closed."""
        self._hung_up = True
        self._reader.join(30)
        os.close(self.ours)

    def end(self) -> None:
        """Everything the process wrote has been taken."""
        self._reader.join(30)
