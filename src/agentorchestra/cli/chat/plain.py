"""A chat where no prompt can stay on the screen: each line of stdin is a message or a command."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from agentorchestra.cli.chat.conversation import SAVED
from agentorchestra.cli.chat.loop import Chat
from agentorchestra.cli.chat.message import MOST_CHARS, kept_as_file, mention
from agentorchestra.cli.delivery import Out, hand_over
from agentorchestra.cli.driver import Stop, at_terminal, drive
from agentorchestra.cli.entry import sentence_of
from agentorchestra.cli.output import clean, say
from agentorchestra.cli.project import Landing, finish
from agentorchestra.core.errors import ChatError

if TYPE_CHECKING:
    from pathlib import Path

    from agentorchestra.cli.chat.conversation import Conversation
    from agentorchestra.core.protocols import RunRecord


class PlainScreen:
    """Prints on stderr."""

    left = False

    async def show(self, *parts: Any) -> None:
        """Print lines."""
        for one in parts:
            say(str(one))

    def put_back(self, text: str) -> None:
        """Do nothing: what was typed is above."""

    def edit(self) -> None:
        """Refuse; see ChatScreen."""
        raise ChatError("$EDITOR needs a terminal that can draw; type the message")

    def leave(self) -> None:
        """End the chat behind this line."""
        self.left = True


class PlainChat(Chat):
    """A conversation line by line; see Chat."""

    def __init__(self, talk: Conversation, folder: Path) -> None:
        self.talk, self.folder, self.saved = talk, folder, talk.workspace.folder / SAVED
        self.screen: Any = PlainScreen()
        self._turn = self._work = None
        self._elsewhere = ""
        self._wanted: RunRecord | None = None
        self._code = 0

    async def run(self, stop: Stop) -> int:
        """Carry out the lines of stdin; return the exit code of the last turn, or of a line that was refused."""
        if not at_terminal():
            return await self._lines_of_stdin(stop)
        await self.screen.show(*self._header())
        return await self._lines_of_stdin(stop)

    async def _lines_of_stdin(self, stop: Stop) -> int:
        if self.left_open:
            self.drive(self.talk.last)
            await self._drive(stop)
        async for line in _lines():
            try:
                if len(line) > MOST_CHARS:
                    line = f"Read what is in {mention(kept_as_file(line, self.saved))}"
                await self.take(line)
            except Exception as exc:
                self._code, text = sentence_of(exc)
                say(f"error: {text}")
            await self._drive(stop)
            if self.screen.left or (self.left_open and not at_terminal()):
                break  # nobody is here to answer, and the next turn could not begin
        return self._code

    def drive(self, record: RunRecord | None) -> None:
        """Have a turn worked on before the next line."""
        self._wanted = record

    async def _drive(self, stop: Stop) -> None:
        record, self._wanted = self._wanted, None
        if record is None:
            return
        workspace, ask = self.talk.workspace, self.talk.on_ask != "deny"
        result = await drive(workspace, record.id, stop, folder=self.folder, as_json=False, ask=ask)
        self.talk.last = await workspace.store.get_run(record.id)
        handed = await hand_over(workspace, result, Out(), self.folder)
        self._code = await finish(workspace, result, Landing(), self.folder, as_json=False, handed=handed)


async def _lines() -> AsyncIterator[str]:
    """Yield the lines of stdin. A thread reads them, which nobody waits for: a terminal may never give one."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def put(line: str | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(lines.put_nowait, line)

    def read() -> None:
        rest = b""
        while True:
            try:
                data = os.read(sys.stdin.fileno(), 1 << 16)
            except (OSError, ValueError):
                data = b""
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                put(line.decode("utf-8", "replace"))
            if not data:
                if rest:
                    put(rest.decode("utf-8", "replace"))
                return put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        if at_terminal():
            sys.stderr.write(clean("> "))
            sys.stderr.flush()
        line = await lines.get()
        if line is None:
            return
        yield line.rstrip("\r")
