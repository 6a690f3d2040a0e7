from __future__ import annotations

import asyncio
import os
import sys
import termios
import textwrap
from typing import Any

from agentorchestra.cli.output import argument_lines, clean, say
from agentorchestra.cli.view.live import RunDisplay
from agentorchestra.core.spec import Question
from agentorchestra.workspace import Workspace

_LOOK_S = 1.0  # how often it is looked whether the question was answered from elsewhere


class TerminalAsker:
    """Asks on stderr and reads from the terminal on stdin; Ctrl-D leaves the question open.

    The terminal is read by the event loop, so Ctrl-C ends the waiting like any other work, and no thread stays behind.
    What shows the run (`display`) leaves the terminal to the question.
    """

    by = "terminal"

    def __init__(self, workspace: Workspace[Any], run_id: str, display: RunDisplay | None = None) -> None:
        self._workspace = workspace
        self._run = run_id
        self._display = display

    async def __call__(self, question: Question) -> str | bool | None:
        """Return the answer; True, False or the reason of a refusal for an approval; None leaves it open."""
        if self._display is None:
            return await self._ask(question)
        await self._display.catch_up()  # what led to the question stands above it
        with self._display.pause():
            return await self._ask(question)

    async def _ask(self, question: Question) -> str | bool | None:
        lines = ["", question.question]
        for line in argument_lines(question):
            # A break in a value is a break here too, behind its sign; what goes on stands deeper than a value begins.
            pieces = line.replace("\\n", "\\n\n").split("\n")
            parts = [part for piece in pieces for part in textwrap.wrap(piece, _columns() - 7, break_on_hyphens=False)]
            lines += [f"{'      ' if place else '  '}{part}" for place, part in enumerate(parts)]
        await self._show(lines)
        look = asyncio.create_task(self._answered_elsewhere(question.key))
        ask = asyncio.create_task(self._approval() if question.kind == "approval" else self._text())
        try:
            await asyncio.wait({look, ask}, return_when=asyncio.FIRST_COMPLETED)
            if ask.done():
                return ask.result()
            await self._show(["", "answered from elsewhere"])
            return None
        finally:
            for task in (look, ask):
                task.cancel()
            await asyncio.gather(look, ask, return_exceptions=True)

    async def _show(self, lines: list[str]) -> None:
        """Print lines; what was typed before they were seen does not answer them."""
        for line in lines:
            say(line)
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    async def _read(self, prompt: str) -> str | None:
        return await read_line(prompt)

    async def _text(self) -> str | None:
        while True:
            line = await self._read("Answer (Ctrl-D leaves it open): ")
            if line is None or line.strip():
                return line.strip() if line else None

    async def _approval(self) -> str | bool | None:
        prompt = question = "Allow it? y or n (Ctrl-D leaves it open): "
        while True:
            line = await self._read(prompt)
            if line is None:
                return None
            if line.strip().lower() in ("y", "yes"):
                return True
            if line.strip().lower() in ("n", "no"):
                return (await self._read("Reason (may be empty): ") or "").strip() or False  # only True approves
            prompt = f"Type y or n. {question}"

    async def _answered_elsewhere(self, key: str) -> None:
        seen = 0
        while True:
            for event in await self._workspace.log.events(self._run, after=seen):
                seen = event.seq
                if event.type == "answered" and event.body.get("question") == key:
                    return
            await asyncio.sleep(_LOOK_S)


def _columns() -> int:
    try:
        return max(os.get_terminal_size(sys.stderr.fileno()).columns, 24)
    except (OSError, ValueError):
        return 80


async def read_line(prompt: str) -> str | None:
    """Return a line from the terminal on stdin without its end; None at its end (Ctrl-D)."""
    loop = asyncio.get_running_loop()
    terminal = sys.stdin.fileno()
    line: asyncio.Future[str | None] = loop.create_future()
    buffer = bytearray()

    def ready() -> None:
        try:
            data = os.read(terminal, 4096)
        except OSError:
            data = b""  # the terminal is gone
        buffer.extend(data)
        if line.done() or (data and b"\n" not in data):
            return
        line.set_result(None if not buffer else buffer.decode("utf-8", "replace").rstrip("\r\n"))

    sys.stderr.write(clean(prompt))
    sys.stderr.flush()
    loop.add_reader(terminal, ready)
    try:
        return await line
    finally:
        loop.remove_reader(terminal)
