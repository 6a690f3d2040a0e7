from __future__ import annotations

import struct
import time
from typing import Any

from agentorchestra.core.errors import ToolError
from agentorchestra.environments.computer.screen import XScreen

MOST_BYTES = 200_000
_WAIT_S = 2.0
_LOOK_S = 0.01
_ANY_TYPE = 0


class Clipboard:
    """The clipboard of a display; while it holds a text, the events of `screen` have to be read."""

    def __init__(self, screen: XScreen) -> None:
        self._screen = screen
        self._text: bytes | None = None
        self.window = screen.connection.generate_id()
        # A window that is never shown: selections belong to windows.
        screen.core.CreateWindow(0, self.window, screen.root, -1, -1, 1, 1, 0, 2, 0, 0, [])
        self._said: Any = None
        screen.listeners.append(self._event)

    @property
    def has_text(self) -> bool:
        return self._text is not None

    def write(self, text: str) -> None:
        self._text = text.encode()
        self._screen.core.SetSelectionOwner(self.window, self._screen.atom("CLIPBOARD"), 0)
        self._screen.sync()

    def read(self) -> str | None:
        """Return the text in the clipboard, None for nothing; a ToolError if it cannot be had as text."""
        screen = self._screen
        if not (owner := screen.core.GetSelectionOwner(screen.atom("CLIPBOARD")).reply().owner):
            return None
        if owner == self.window and self._text is not None:
            return self._text.decode()
        self._said = None
        place = screen.atom("AGENTORCHESTRA")
        screen.core.ConvertSelection(self.window, screen.atom("CLIPBOARD"), screen.atom("UTF8_STRING"), place, 0)
        end = time.monotonic() + _WAIT_S
        while self._said is None and time.monotonic() < end:
            screen.changed()
            if self._said is None:
                time.sleep(_LOOK_S)
        if self._said is None:
            raise ToolError(f"the program that has the clipboard did not answer within {_WAIT_S:g} s")
        if not self._said.property:
            raise ToolError("what is in the clipboard is no text")
        reply = screen.core.GetProperty(True, self.window, place, _ANY_TYPE, 0, MOST_BYTES // 4).reply()
        if reply.bytes_after or reply.type == screen.atom("INCR"):
            screen.core.DeleteProperty(self.window, place)
            raise ToolError(f"the clipboard holds more than {MOST_BYTES:,} bytes")
        return reply.value.buf().decode("utf-8", "replace") if reply.format == 8 else ""

    def _event(self, event: Any) -> None:
        proto = self._screen.x.xproto
        if isinstance(event, proto.SelectionNotifyEvent):
            self._said = event
        elif isinstance(event, proto.SelectionClearEvent):
            self._text = None
        elif isinstance(event, proto.SelectionRequestEvent):
            self._answer(event)

    def _answer(self, event: Any) -> None:
        """Give a program what it asks for, or say that there is no such thing."""
        screen = self._screen
        place = event.property or event.target
        targets, utf8 = screen.atom("TARGETS"), screen.atom("UTF8_STRING")
        if event.target == targets:
            data = struct.pack("=2I", targets, utf8)
            screen.core.ChangeProperty(0, event.requestor, place, screen.atom("ATOM"), 32, 2, data)
        elif event.target == utf8 and self._text is not None:
            screen.core.ChangeProperty(0, event.requestor, place, utf8, 8, len(self._text), self._text)
        else:
            place = 0
        notify = struct.pack("=BBHIIIII", 31, 0, 0, event.time, event.requestor, event.selection, event.target, place)
        screen.core.SendEvent(False, event.requestor, 0, notify.ljust(32, b"\0"))
        screen.sync()
