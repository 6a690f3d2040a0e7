"""The terminal of a chat: a line that can be typed in at any time, what is drawn above it, questions in its place."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, merge_formatted_text, to_formatted_text
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import RenderableType
from rich.text import Text

from agentorchestra.cli.chat.message import MOST_CHARS, MessageCompleter
from agentorchestra.cli.output import clean
from agentorchestra.cli.view.live import terminal_console

_BELOW = 6  # rows that are left to the typed text, its completions and the line at the bottom


class Typing(Protocol):
    """What takes the lines and keys of a chat."""

    saved: Path
    """The folder of the history."""

    def names(self) -> list[str]:
        """Return what may stand behind a /."""

    def status(self) -> str:
        """Return the line at the bottom."""

    def accept(self, line: str) -> None:
        """Take a line."""

    def paste(self, text: str) -> str:
        """Return what stands in a line for a text that is too long for it."""

    def stop(self) -> bool:
        """Stop what is worked on; return False where nothing is."""

    def pause(self) -> None:
        """Pause it."""

    def switch(self) -> None:
        """Deny approvals, or ask again."""


class ChatScreen:
    """A prompt that stays while turns go on; what is typed is for `chat`."""

    def __init__(self, chat: Typing) -> None:
        self.console = terminal_console(sys.stdout)
        self._chat = chat
        self._drawn: StyleAndTextTuples = []
        self._reading: tuple[str, asyncio.Future[str | None]] | None = None
        self._leaving = False  # Ctrl-C was pressed on the empty line
        self._session: PromptSession[None] = PromptSession(
            self._message,
            multiline=True,
            completer=MessageCompleter(chat.names),
            history=FileHistory(_private(chat.saved / "history")),
            key_bindings=self._bindings(),
            bottom_toolbar=self._toolbar,
            enable_open_in_editor=True,
            enable_suspend=True,
            tempfile_suffix=".md",
            reserve_space_for_menu=4,
            erase_when_done=True,
        )
        self._session.app.ttimeoutlen = 0.1  # seconds until Esc is the key, and no beginning of another one
        self._session.app.timeoutlen = 0.3
        self._session.app.renderer.cpr_not_supported_callback = lambda: None  # a slow terminal is no news to its user
        self._resize, self._session.app._on_resize = self._session.app._on_resize, self._redraw  # type: ignore[method-assign]
        if isinstance(keys := self._session.app.input, Vt100Input):  # a long paste in few pieces
            keys.stdin_reader.read = partial(keys.stdin_reader.read, 65_536)  # type: ignore[method-assign]
        self._buffer.on_text_changed += lambda buffer: setattr(self, "_leaving", False)

    def _redraw(self) -> None:
        """Take away what was drawn, of which a narrower terminal made more lines, and draw it anew."""
        app = self._session.app
        screen, columns = app.renderer.last_rendered_screen, max(1, app.output.get_size().columns)
        if screen is not None:
            cursor = screen.get_cursor_position(app.layout.current_window)
            rows = (screen.data_buffer[row] for row in range(cursor.y))
            ends = [max((at for at, cell in row.items() if cell.char.strip()), default=0) for row in rows]
            app.output.cursor_up(sum(end // columns for end in [*ends, cursor.x]))
        self._resize()

    @property
    def _buffer(self) -> Buffer:
        return self._session.default_buffer

    async def listen(self) -> None:
        """Take what is typed, until the user leaves."""
        with patch_stdout(raw=True):
            await self._session.prompt_async(handle_sigint=False, set_exception_handler=False)

    # -- what is shown ---------------------------------------------------------------------------------------------

    async def show(self, *parts: RenderableType) -> None:
        """Print above the prompt, for good."""

        def write() -> None:
            for part in parts:
                self.console.print(Text(clean(part)) if isinstance(part, str) else part)

        await run_in_terminal(write)

    def draw(self, text: str) -> None:
        """Show a text above the prompt until another one takes its place; it may hold colours."""
        self._drawn = to_formatted_text(ANSI(text))
        self._session.app.invalidate()

    def refresh(self) -> None:
        """Draw the line at the bottom anew."""
        self._session.app.invalidate()

    @property
    def asking(self) -> bool:
        """True while the line that is typed answers a question."""
        return self._reading is not None

    @property
    def free_rows(self) -> int:
        """Rows that `draw` may fill."""
        rows: int = min(self._buffer.document.line_count, 8)
        return max(2, self.console.size.height - _BELOW - rows)

    def _message(self) -> StyleAndTextTuples:
        # The prompt itself stays short: one as wide as the terminal leaves no room to type.
        lines = [] if self._reading is None else textwrap.wrap(self._reading[0], max(10, self.console.size.width - 1))
        return to_formatted_text(merge_formatted_text([self._drawn, [("bold", "\n".join([*lines, "> "]))]]))

    def _toolbar(self) -> str:
        line = "Ctrl-C once more leaves the chat" if self._leaving else self._chat.status()
        return clean(line)[: max(1, self.console.size.width - 1)]

    # -- what is typed ---------------------------------------------------------------------------------------------

    async def ask(self, prompt: str) -> str | None:
        """Return the next line; None for Ctrl-D. What was typed before is put aside, and comes back afterwards."""
        aside: Document = self._buffer.document
        self._buffer.reset()
        line: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._reading = clean(prompt), line
        self._session.app.invalidate()
        try:
            return await line
        finally:
            self._reading = None
            self._buffer.reset(aside)
            self._session.app.invalidate()

    def put_back(self, text: str) -> None:
        """Let a text be typed further, if nothing else was typed meanwhile."""
        if not self._buffer.text:
            self._buffer.reset(Document(text))
            self._session.app.invalidate()

    def leave(self) -> None:
        """End `listen`."""
        if self._session.app.is_running:
            self._session.app.exit()

    def _bindings(self) -> KeyBindings:
        bindings, chat, typing = KeyBindings(), self._chat, has_focus(DEFAULT_BUFFER)

        @bindings.add("c-j", filter=typing)  # what Enter was before the chat took the terminal
        @bindings.add("enter", filter=typing)
        def _enter(event: KeyPressEvent) -> None:
            buffer, text = event.current_buffer, event.current_buffer.text
            if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
                buffer.complete_state = None  # it is taken; the next Enter sends
            elif self._reading is not None:
                self._answer(text)
            else:
                if text.strip():
                    buffer.append_to_history()
                buffer.reset()
                chat.accept(text)

        @bindings.add("c-c", filter=typing)
        def _stop(event: KeyPressEvent) -> None:
            if chat.stop():
                return
            if self._reading is not None:
                self._answer(None)
            elif event.current_buffer.text:
                event.current_buffer.reset()
            elif self._leaving:
                self.leave()
            else:
                self._leaving = True

        @bindings.add("c-d", filter=typing)
        def _end(event: KeyPressEvent) -> None:
            if event.current_buffer.text:
                event.current_buffer.delete()
            elif self._reading is not None:
                self._answer(None)
            else:
                self.leave()

        @bindings.add(Keys.BracketedPaste, filter=typing)
        def _paste(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            event.current_buffer.insert_text(chat.paste(text) if len(text) > MOST_CHARS else text)

        bindings.add("escape", "enter", filter=typing)(lambda event: event.current_buffer.insert_text("\n"))
        bindings.add("escape", filter=typing)(lambda event: chat.pause())
        bindings.add("s-tab", filter=typing)(lambda event: chat.switch())
        return bindings

    def _answer(self, text: str | None) -> None:
        if self._reading is not None and not self._reading[1].done():
            self._buffer.reset()
            self._reading[1].set_result(text)


def _private(path: Path) -> str:
    """Make a file that only its user reads, and return its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_APPEND, 0o600))
    return str(path)
