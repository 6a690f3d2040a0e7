"""Watching a run that is driven here: a live picture at a terminal, plain lines elsewhere.

Both read the log, so what other processes do (tell, answer, cancel) is seen too; the bus only says that there is
something new, and brings what no log holds: streamed text and a tool's progress.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from agentorchestra.cli.output import cut_line, one_line, plural, say
from agentorchestra.cli.progress import Progress
from agentorchestra.core.events import Event
from agentorchestra.runtime.bus import Notice
from agentorchestra.workspace import Workspace

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

FRAME_S = 0.125  # seconds between two pictures
LOOK_S = 0.5  # how often the log is read while the bus is silent: other processes are not on it
LINES = 8  # lines of what a tool prints that are shown where there is no picture, besides its last one
_MOST_CHARS = 2000  # characters of streamed text that are kept for each effect

_SHOW_CURSOR = "\x1b[?25h"


class RunDisplay:
    """Shows a run while it is driven. Nothing that goes wrong here stops the run."""

    def __init__(self, workspace: Workspace[Any], run_id: str) -> None:
        self.stays = True  # what was shown last stays on the terminal; not for a run that is not driven here after all
        self._workspace = workspace
        self._run = run_id
        self._seen = 0
        self._held: list[Notice] = []  # taken from the queue, and not shown yet
        self._reading = asyncio.Lock()

    async def catch_up(self) -> None:
        """Take in what the log has that was not seen yet."""
        async with self._reading:
            for event in await self._workspace.log.events(self._run, after=self._seen):
                self._seen = event.seq
                self._event(event)

    @asynccontextmanager
    async def following(self, queue: asyncio.Queue[Notice]) -> AsyncIterator[None]:
        """Show the run while the context is open."""
        await self._begin()
        task = asyncio.create_task(self._follow(queue))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            with contextlib.suppress(Exception):
                await self.catch_up()
                self._said([*self._held, *_drain(queue)])
            self._end()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to a question."""
        yield

    def leave(self) -> None:
        """Put the terminal in order: the process ends at once."""

    async def _begin(self) -> None:
        """Prepare, before anything is driven."""

    async def _follow(self, queue: asyncio.Queue[Notice]) -> None:
        """Show what comes, until cancelled."""

    def _event(self, event: Event) -> None:
        """Take one more event of the log."""

    def _said(self, notices: list[Notice]) -> None:
        """Streamed text and progress."""

    def _end(self) -> None:
        """Finish, after the last event."""


def _drain(queue: asyncio.Queue[Notice]) -> list[Notice]:
    notices = []
    while not queue.empty():
        notices.append(queue.get_nowait())
    return notices


class PlainDisplay(RunDisplay):
    """Lines on stderr; of the events before only what later lines need, and their number of decisions."""

    def __init__(
        self, workspace: Workspace[Any], run_id: str, *, steps: int, before: Sequence[Event], talk: bool = False
    ) -> None:
        super().__init__(workspace, run_id)
        self._progress = Progress(talk=talk)
        for event in before:
            self._progress.line(event)
        self._progress.steps = steps
        self._seen = before[-1].seq if before else 0
        self._printed: dict[str, tuple[int, str]] = {}  # by each effect under way: how many lines, and the last one
        self._over: list[str] = []  # effects that ended

    async def _follow(self, queue: asyncio.Queue[Notice]) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    self._held.append(await queue.get())
                # An event is announced when it is queued for the log: a moment later it can be read there.
                await asyncio.sleep(FRAME_S / 4)
            self._held += _drain(queue)
            await self.catch_up()
            notices, self._held = self._held, []
            self._said(notices)

    def _event(self, event: Event) -> None:
        line = self._progress.line(event)
        if line:
            say(line)
        if event.type == "completed" and event.span:
            self._over.append(event.span)

    def _said(self, notices: list[Notice]) -> None:
        for notice in notices:
            for line in notice.text.splitlines() or [""] if notice.kind == "progress" else ():
                text = f"  {cut_line(line)}".rstrip()
                count = self._printed.get(notice.key, (0, ""))[0] + 1
                self._printed[notice.key] = count, text
                if count <= LINES:
                    say(text)
        for key in self._over:
            count, last = self._printed.pop(key, (0, ""))
            if count > LINES + 1:
                say(f"  [{plural(count - LINES - 1, 'further line')}]")
            if count > LINES:
                say(last)
        self._over.clear()


class PictureDisplay(RunDisplay):
    """Keeps the tree of agents, and has it drawn while the run goes on."""

    def __init__(self, workspace: Workspace[Any], run_id: str) -> None:
        from agentorchestra.cli.view.model import RunView

        super().__init__(workspace, run_id)
        self._view = RunView()
        self._texts: dict[str, str] = {}  # what is streamed or said now, by the key of its effect

    def _draw(self) -> None:
        """Draw what is known now."""

    def _picture(self, console: Console, height: int | None = None, *, last: bool = False) -> list[Text]:
        from agentorchestra.cli.view.picture import picture

        return picture(
            self._view,
            now=datetime.now(UTC),
            width=max(1, console.size.width - 1),
            height=height,
            said=self._texts,
            encoding=console.encoding,
            last=last,
        )

    async def _follow(self, queue: asyncio.Queue[Notice]) -> None:
        elapsed = LOOK_S
        while True:
            notices = _drain(queue)
            self._said(notices)
            elapsed += FRAME_S
            if elapsed >= LOOK_S or any(notice.kind == "event" for notice in notices):
                elapsed = 0.0
                await self.catch_up()
            self._draw()
            await asyncio.sleep(FRAME_S)

    def _event(self, event: Event) -> None:
        self._view.apply(event)
        if event.type in ("completed", "interrupted", "attempt_failed") and event.span:
            self._texts.pop(event.span, None)

    def _said(self, notices: list[Notice]) -> None:
        for notice in notices:
            if notice.kind in ("delta", "thinking"):
                self._texts[notice.key] = (self._texts.get(notice.key, "") + notice.text)[-_MOST_CHARS:]
            elif notice.kind == "progress":
                self._texts[notice.key] = notice.text[-_MOST_CHARS:]


class LiveDisplay(PictureDisplay):
    """The tree of agents, drawn anew while the run goes on; its last state stays on the terminal."""

    def __init__(self, workspace: Workspace[Any], run_id: str) -> None:
        super().__init__(workspace, run_id)
        self._console = terminal_console(sys.stderr)
        self._echo = _Echo()
        self._live: Live | None = None
        self._broken = False
        self._streams = (sys.stdout, sys.stderr)

    async def _begin(self) -> None:
        await self.catch_up()
        self._start()

    def _draw(self) -> None:
        if self._live is not None:
            with self._writing():
                self._live.refresh()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Take the picture away, and draw it again after."""
        self._stop()
        try:
            yield
        finally:
            self._start()

    def leave(self) -> None:
        self._echo.on()
        if self._live is not None:
            with contextlib.suppress(OSError, ValueError):
                os.write(sys.stderr.fileno(), f"{_SHOW_CURSOR}\n".encode())

    def _end(self) -> None:
        self._stop()
        if self.stays and not self._broken:
            with self._writing():
                for line in self._picture(self._console, last=True):
                    self._console.print(line, soft_wrap=True)

    def _start(self) -> None:
        from rich.console import Group
        from rich.live import Live

        if self._live is not None or self._broken:
            return
        self._streams = (sys.stdout, sys.stderr)
        self._echo.off()
        with self._writing():
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                # What a tool prints comes above the picture; a pipe gets it as it is.
                redirect_stdout=is_terminal(sys.stdout),
                get_renderable=lambda: Group(*self._picture(self._console, max(1, self._console.size.height - 2))),
            )
            self._live.start(refresh=True)

    def _stop(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            with self._writing():
                live.stop()
        self._echo.on()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Let what fails here end the picture, never the run."""
        try:
            yield
        except Exception as exc:
            self._broken, self._live = True, None
            self._echo.on()
            sys.stdout, sys.stderr = self._streams
            if not isinstance(exc, OSError):
                say(f"warning: the live view ended: {type(exc).__name__}: {one_line(str(exc))}")


class _Echo:
    """What is typed while the picture is drawn would be written into it."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def off(self) -> None:
        with contextlib.suppress(OSError, ValueError, termios.error):
            terminal = sys.stdin.fileno()
            if self._before is None and self._is_ours(terminal):
                modes = termios.tcgetattr(terminal)
                self._before = [*modes]
                modes[3] &= ~termios.ECHO
                termios.tcsetattr(terminal, termios.TCSANOW, modes)

    def on(self) -> None:
        before, self._before = self._before, None
        with contextlib.suppress(OSError, ValueError, termios.error):
            if before is not None and self._is_ours(sys.stdin.fileno()):
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, before)

    @staticmethod
    def _is_ours(terminal: int) -> bool:
        # A process in the background would be stopped for changing the terminal.
        return os.isatty(terminal) and os.tcgetpgrp(terminal) == os.getpgrp()


def terminal_console(stream: TextIO) -> Console:
    from rich.console import Console, ConsoleDimensions

    class Terminal(Console):
        """A console that leaves the end of the process to others."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

        @property
        def size(self) -> ConsoleDimensions:
            try:
                columns, lines = os.get_terminal_size(stream.fileno())
            except (OSError, ValueError):
                columns, lines = 0, 0
            return ConsoleDimensions(columns or 80, lines or 25)

        @size.setter
        def size(self, new: tuple[int, int]) -> None:
            """Refuse: nobody else decides it."""
            raise AttributeError("a terminal has the size it has")

    return Terminal(file=stream, force_terminal=True, highlight=False, markup=False, emoji=False)


def live_here() -> bool:
    return is_terminal(sys.stderr) and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except ValueError:  # closed
        return False
