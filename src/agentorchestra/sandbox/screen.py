"""The screen of a job: what a person would see, drawn by pyte from the bytes that the job's terminal was sent.

Programs of a model sent them, so no byte changes the size, and none costs more than a few hundred steps.
"""

from __future__ import annotations

import codecs
import contextlib
import copy
import functools
import re
import unicodedata
from collections import defaultdict
from typing import Any

import pyte
from pyte.screens import StaticDefaultDict
from wcwidth import wcwidth

from agentorchestra.sandbox._terminal import SIZE, Size
from agentorchestra.sandbox.shell import Picture

_PIECE = 256
_STRING = rb"\x1b[PX^_][^\x1b]{0,4096}"
_ODD = rb"\x1b\[(?=[0-9;?]{0,64}[<=>: -/])[0-?]{0,64}[ -/]{0,8}[@-~]"  # with parts of which pyte knows none
_UNKNOWN = re.compile(_ODD + rb"|\x1b\[\?[0-9;]*[^0-9;hlJK]|" + _STRING + rb"\x1b\\")
"""Sequences that pyte would print or fail over; a terminal ignores them."""
_START = re.compile(rb"\x1b(?:\[[0-?]{0,64}[ -/]?)?$|" + _STRING + rb"\x1b?$")  # a sequence whose end is still to come
_UNDRAWN_BYTES = 4_096  # after so many without a character that is shown, a sequence counts as never ended
_ALTERNATE = {47, 1047, 1049}  # modes that show a second screen and, when they are reset, the first one again
_IGNORED_MODES = {3, 5}  # modes that change the size, and all characters at once
_SAVED_CURSORS = 8
_HIGHLIGHTS, _HIGHLIGHTED_CHARS = 12, 80
_CURSOR_KEYS, _CURSOR_KEY = 1 << 5, re.compile(rb"\x1b\[([ABCDFH])")  # the mode in which these begin otherwise


class Screen:
    def __init__(self, size: Size = SIZE) -> None:
        self._drawn = _Drawn(*size)
        self._stream = pyte.Stream()
        self._stream.csi = pyte.Stream.csi | {"S": "scroll_up", "T": "scroll_down", "Z": "tab_back", "b": "repeat"}
        self._stream.escape = pyte.Stream.escape | {"E": "next_line"}
        self._stream.sharp = {}  # no test picture
        self._stream.use_utf8 = False  # only so does pyte draw lines
        self._stream.attach(self._drawn)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = b""
        self._undrawn = 0

    def pieces(self, data: bytes) -> list[bytes]:
        """Return bytes as `draw` is to have them: without what pyte does not know, and what is not whole yet."""
        data = self._rest + data
        match = _START.search(data)
        end = match.start() if match is not None else len(data)
        data, self._rest = data[:end], data[end:]
        content = _UNKNOWN.sub(b"", data)
        return [content[at : at + _PIECE] for at in range(0, len(content), _PIECE)]

    def draw(self, piece: bytes) -> None:
        with contextlib.suppress(Exception):  # pyte fails over some nonsense; what is left of the piece is not drawn
            self._stream.feed(self._decoder.decode(piece))
        self._undrawn = 0 if self._drawn.has_drawn else self._undrawn + len(piece)
        self._drawn.has_drawn = False
        if self._undrawn > _UNDRAWN_BYTES:
            self._undrawn = 0
            self._stream.detach(self._drawn)
            self._stream.attach(self._drawn)

    def answers(self) -> bytes:
        """Return what the terminal says to programs that asked where the cursor is, or what it is."""
        answers, self._drawn.answers = self._drawn.answers, ""
        return answers.encode()

    def resize(self, size: Size) -> None:
        self._drawn.resize(*reversed(size))
        self._drawn.tabstops.update(range(8, size[0], 8))
        self._drawn.cursor_position(self._drawn.cursor.y + 1, self._drawn.cursor.x + 1)  # it may be outside now

    def keys_for(self, keys: bytes) -> bytes:
        return _CURSOR_KEY.sub(b"\x1bO\\1", keys) if _CURSOR_KEYS in self._drawn.mode else keys

    def picture(self) -> Picture:
        screen, lines, highlights = self._drawn, list[str](), list[str]()
        line = column = 0
        wraps = False
        for y in range(screen.lines):
            row: Any = screen.buffer[y]
            cells = [row[x] for x in range(screen.columns)]
            before = lines.pop() if wraps else ""
            if y == screen.cursor.y:
                line, column = len(lines), len(before) + len("".join(cell.data for cell in cells[: screen.cursor.x]))
            lines.append(before + "".join(cell.data for cell in cells))
            wraps = getattr(row, "wraps", False) and cells[-1].data != " "
            reverse = "".join(cell.data if cell.reverse else "\n" for cell in cells)
            highlights += [text.strip() for text in reverse.split("\n") if text.strip()]
        lines = [line.rstrip() for line in lines]
        while lines and not lines[-1]:
            lines.pop()
        marks = tuple(text[:_HIGHLIGHTED_CHARS] for text in highlights[:_HIGHLIGHTS])
        return Picture(tuple(lines), line + 1, column + 1, marks)


class _Drawn(pyte.Screen):
    """pyte's screen, bounded, with the second screen of xterm, answers, and a note of lines that were wrapped."""

    has_drawn = False
    answers = ""
    _first: tuple[Any, Any] | None = None  # the first screen and its cursor while the second one is shown
    _wrapping = False
    _last = ""  # the character that `repeat` draws again

    def next_line(self) -> None:
        self.carriage_return()
        self.linefeed()

    def scroll_up(self, count: int = 1, edit: Any = pyte.Screen.delete_lines) -> None:
        at, self.cursor.y = (self.cursor.x, self.cursor.y), (self.margins or (0, 0))[0]
        edit(self, count)
        self.cursor.x, self.cursor.y = at

    scroll_down = functools.partialmethod(scroll_up, edit=pyte.Screen.insert_lines)

    def tab_back(self, count: int = 1) -> None:
        for _ in range(min(count or 1, self.columns)):
            self.cursor.x = max((stop for stop in self.tabstops if stop < self.cursor.x), default=0)

    def repeat(self, count: int = 1) -> None:
        self.draw(self._last * min(count or 1, self.columns))

    def draw(self, data: str) -> None:
        self.has_drawn = self._wrapping = True
        if not (data.isascii() and data.isprintable()):
            # pyte drops what follows a character without width, and a cell could grow without end.
            data = "".join(char for char in unicodedata.normalize("NFC", data) if wcwidth(char) > 0)
        super().draw(data)
        self._wrapping, self._last = False, data[-1:] or self._last

    def linefeed(self) -> None:
        if self._wrapping:
            _wraps(self.buffer[self.cursor.y], True)
        super().linefeed()

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        super().erase_in_line(how, private)
        _wraps(self.buffer[self.cursor.y], False)

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        if how == 3:  # only what was scrolled away
            return
        first, last = {0: (self.cursor.y + 1, self.lines), 1: (0, self.cursor.y)}.get(how, (0, self.lines))
        for y in range(first, last):
            self.buffer.pop(y, None)
        if how in (0, 1):
            self.erase_in_line(how)

    def save_cursor(self) -> None:
        super().save_cursor()
        del self.savepoints[:-_SAVED_CURSORS]

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        if kwargs.get("private"):
            if _ALTERNATE.intersection(modes) and self._first is None:
                self._first = self.buffer, copy.copy(self.cursor)
                self.buffer = defaultdict(lambda: StaticDefaultDict(self.default_char))
            modes = tuple(mode for mode in modes if mode not in _IGNORED_MODES)
        super().set_mode(*modes, **kwargs)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        if kwargs.get("private"):
            if _ALTERNATE.intersection(modes) and self._first is not None:
                (self.buffer, self.cursor), self._first = self._first, None
                self.cursor_position(self.cursor.y + 1, self.cursor.x + 1)  # the screen may be smaller now
            modes = tuple(mode for mode in modes if mode not in _IGNORED_MODES)
        super().reset_mode(*modes, **kwargs)

    def write_process_input(self, data: str) -> None:
        self.answers = (self.answers + data)[:200]


def _wraps(row: Any, value: bool) -> None:
    """Note on a row if its text goes on in the next one; the note moves with the row."""
    row.wraps = value
