"""A display and the connection to it, from a loop: every call is bounded, a connection that hangs is cut."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from agentorchestra.core.errors import MissingExtraError, ToolError
from agentorchestra.environments.computer.clipboard import Clipboard
from agentorchestra.environments.computer.display import Display
from agentorchestra.environments.computer.keyboard import Keyboard
from agentorchestra.environments.computer.screen import GoneError, XScreen, library
from agentorchestra.environments.computer.windows import caught_up, manager_keeps_up

T = TypeVar("T")
CALL_S = 5.0  # how long the display may take for one call
_CUT_S = 5.0
_STILL_S, _STILL_MOST_S = 0.12, 1.5
_CATCH_UP_S = 3.0  # how long an action waits for the program with the keyboard
_SERVE_S = 0.1
_MANAGER_S = 5.0  # how long the window manager has to begin


class StuckError(Exception):
    """The display did not answer in time or cut the connection; the next call makes another one."""


class LostError(Exception):
    """The display ended; the next call starts another one."""


class DesktopConnection:
    """One connection to the display, with all that works by it."""

    def __init__(self, sock: socket.socket, authority: bytes) -> None:
        self.screen = XScreen(sock, authority)
        self.keyboard = Keyboard(self.screen)
        self.clipboard = Clipboard(self.screen)

    def is_managed(self, seconds: float = _CATCH_UP_S) -> bool:
        return manager_keeps_up(self.screen, self.clipboard.window, seconds)


class Desktop:
    """One desktop; started by the first call. `place` is a folder that is made for its display."""

    def __init__(self, place: Path, width: int, height: int) -> None:
        self._place, self._size = place, (width, height)
        self.display: Display | None = None
        self._connection: DesktopConnection | None = None
        self._line: socket.socket | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._one_call = asyncio.Lock()
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> Display:
        """Return the display, started if it is not; a ToolError if that is not possible here."""
        if self.display is None:
            try:
                library()  # before anything is started: what is missing is said at once
            except MissingExtraError as exc:
                raise ToolError(str(exc)) from None
            display = Display(self._place, *self._size)
            await display.start()
            self.display = display
        return self.display

    async def do(self, work: Callable[[DesktopConnection], T], seconds: float = CALL_S) -> T:
        """Do something with the display in a thread, in time; ToolError if it refuses, else StuckError, LostError."""
        async with self._one_call:
            display = await self.start()
            if self._thread is None:
                self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="agentorchestra-desktop")

            def begin() -> T:
                if self._connection is None:
                    sock = display.connect()
                    self._line = sock.dup()  # the connection's own descriptor belongs to the C library
                    self._connection = DesktopConnection(sock, display.authority)
                    self._connection.is_managed(_MANAGER_S)
                return work(self._connection)

            running = asyncio.get_running_loop().run_in_executor(self._thread, begin)
            try:
                async with asyncio.timeout(seconds if self._connection is not None else seconds + _MANAGER_S):
                    return await asyncio.shield(running)
            except TimeoutError:
                await self._cut(running)
                raise StuckError(f"did not answer within {seconds:g} s") from None
            except asyncio.CancelledError:
                await asyncio.shield(self._cut(running))
                raise
            except Exception as exc:
                errors = library()
                if isinstance(exc, errors.Error):
                    raise ToolError(f"the display refused it ({type(exc).__name__})") from None
                if isinstance(exc, (GoneError, OSError, errors.XcffibException)):
                    raise await self._explain_loss(running, str(exc)) from None
                raise

    async def _explain_loss(self, running: asyncio.Future[Any], problem: str) -> Exception:
        await self._cut(running)
        reason = await self.display.ending() if self.display is not None else problem
        if not reason:
            return StuckError(f"ended the connection ({problem})")
        await self._end()
        return LostError(reason)

    async def _cut(self, running: asyncio.Future[Any]) -> None:
        """End a connection that may be in the middle of a call."""
        line, self._line = self._line, None
        if line is not None:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)  # whoever waits in the thread finds its end
            line.close()
        await asyncio.wait({running}, timeout=_CUT_S)
        if running.done() and not running.cancelled():
            running.exception()
        connection, self._connection = self._connection, None
        if connection is not None and running.done() and self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, connection.screen.close)

    async def still(self) -> bool:
        """Wait until the program with the keyboard has read its input and nothing is drawn; False if it is too slow."""
        loop = asyncio.get_running_loop()
        keeps_up = await self.do(lambda connection: caught_up(connection.screen, _CATCH_UP_S)) is not False
        end = loop.time() + _STILL_MOST_S
        await self.do(lambda connection: connection.screen.changed())
        while loop.time() < end:
            await asyncio.sleep(_STILL_S)
            if not await self.do(lambda connection: connection.screen.changed()):
                break
        return keeps_up

    async def manage(self) -> bool:
        """Return True if the window manager keeps up; otherwise start it anew."""
        if await self.do(DesktopConnection.is_managed):
            return True
        if self.display is not None:
            await self.display.manage()
            await self.do(DesktopConnection.is_managed)
        return False

    def serve(self) -> None:
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        def look(connection: DesktopConnection) -> bool:
            connection.screen.changed()
            return connection.clipboard.has_text

        with contextlib.suppress(StuckError, LostError, ToolError):
            while self.display is not None and await self.do(look):  # noqa: ASYNC110 - the thread hears the events
                await asyncio.sleep(_SERVE_S)

    async def _end(self) -> None:
        display, self.display = self.display, None
        if display is not None:
            await display.close()

    async def close(self) -> None:
        """End the display and all that shows on it; the next call starts another one."""
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
        async with self._one_call:
            await self._cut(asyncio.ensure_future(asyncio.sleep(0)))
            await self._end()
            thread, self._thread = self._thread, None
            if thread is not None:
                thread.shutdown(wait=False)
