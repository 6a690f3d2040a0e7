"""One connection to a display: what is seen, and the pointer. Every call blocks; `desktop.py` bounds them.

The client library is xcffib (libxcb): the connection is made on a socket that was opened for it, so neither DISPLAY nor
a name of a display is ever looked at.
"""

from __future__ import annotations

import importlib
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

from agentorchestra.core.errors import MissingExtraError

MOTION, PRESS, RELEASE, BUTTON_PRESS, BUTTON_RELEASE = 6, 2, 3, 4, 5  # kinds of events that the XTEST extension makes
BUTTONS = {"left": 1, "middle": 2, "right": 3}
SCROLLS = {"up": 4, "down": 5, "left": 6, "right": 7}  # numbers of buttons
_Z_PIXMAP = 2
_ALL_PLANES = 0xFFFFFFFF
_REPLY_BYTES = 32
_DAMAGE_NON_EMPTY = 3
_EVENTS_AT_ONCE = 10_000


class Capture(NamedTuple):
    """Pixels: four bytes each (blue, green, red, nothing), row by row."""

    width: int
    height: int
    data: bytes


class Pointer(NamedTuple):
    """The place of the mouse, in pixels from the upper left corner, and what is held (X's mask)."""

    x: int
    y: int
    mask: int

    @property
    def buttons(self) -> tuple[str, ...]:
        return tuple(name for name, number in BUTTONS.items() if self.mask & 1 << 7 + number)


def library(name: str = "") -> Any:
    """Import a module of xcffib; a MissingExtraError without the extra, or the C library below it."""
    try:
        return importlib.import_module(f"xcffib.{name}" if name else "xcffib")
    except ImportError:
        raise MissingExtraError("the desktop needs xcffib and Pillow: pip install 'agentorchestra[computer]'") from None
    except OSError as exc:
        raise MissingExtraError(
            f"the desktop needs the library libxcb ({exc}); Debian and Ubuntu: apt-get install libxcb1"
        ) from None


class GoneError(Exception):
    """The display takes no more requests."""


class XScreen:
    """A connection to a display by a connected socket, which it takes over; a GoneError if the display refuses.

    `authority` is name and cookie, with a colon in between.
    """

    def __init__(self, sock: socket.socket, authority: bytes) -> None:
        self.x = library()
        for name in ("xproto", "xtest", "xfixes", "damage"):
            library(name)
        ffi, lib = self.x.ffi, self.x.lib
        kind, _, cookie = authority.partition(b":")
        # By hand: xcffib's own `auth` lets go of name and cookie before they are used.
        buffers = (ffi.new("char[]", kind), ffi.new("char[]", cookie))
        auth = ffi.new("xcb_auth_info_t *")
        auth.name, auth.namelen, auth.data, auth.datalen = buffers[0], len(kind), buffers[1], len(cookie)
        handle = lib.xcb_connect_to_fd(sock.detach(), auth)
        try:
            self.connection = self.x.wrap(handle)
        except self.x.XcffibException as exc:
            lib.xcb_disconnect(handle)
            raise GoneError(str(exc)) from None
        self.core = self.connection.core
        setup = self.connection.get_setup().roots[0]
        self.root: int = setup.root
        self.width: int = setup.width_in_pixels
        self.height: int = setup.height_in_pixels
        self._test = self.connection(self.x.xtest.key)
        self._fixes = self.connection(self.x.xfixes.key)
        self._fixes.QueryVersion(4, 0).reply()
        self._damage = self.connection(self.x.damage.key)
        self._damage.QueryVersion(1, 1).reply()
        self._damaged = self.connection.generate_id()
        self._damage.Create(self._damaged, self.root, _DAMAGE_NON_EMPTY)
        self._atoms: dict[str, int] = {}
        self.listeners: list[Callable[[Any], None]] = []

    def close(self) -> None:
        self.connection.disconnect()

    def atom(self, name: str) -> int:
        if name not in self._atoms:
            self._atoms[name] = self.core.InternAtom(False, len(name), name).reply().atom
        return self._atoms[name]

    def changed(self) -> bool:
        self._damage.Subtract(self._damaged, 0, 0)
        self.sync()  # what was drawn until now is known after any answer
        return any(isinstance(event, self.x.damage.NotifyEvent) for event in self.events())

    def events(self) -> list[Any]:
        """Return what happened since the last call; all listeners hear it."""
        events: list[Any] = []
        for _ in range(_EVENTS_AT_ONCE):
            try:
                event = self.connection.poll_for_event()
            except self.x.Error:  # of a request whose window was gone
                continue
            if event is None:
                break
            events.append(event)
        for event in events:
            for listener in self.listeners:
                listener(event)
        return events

    def capture(self, x: int = 0, y: int = 0, width: int = 0, height: int = 0) -> Capture:
        """Return the pixels of a part of the screen with the mouse pointer, of all by default."""
        width, height = width or self.width - x, height or self.height - y
        request = self.core.GetImage(_Z_PIXMAP, self.root, x, y, width, height, _ALL_PLANES)
        # The reply as it is: as xcffib's object, each byte would be a number in a list.
        data = bytearray(self.connection.wait_for_reply(request.sequence).buf[_REPLY_BYTES:])
        data = data[: width * height * 4]
        image = self._fixes.GetCursorImage().reply()
        left, top = image.x - image.xhot - x, image.y - image.yhot - y
        for index, pixel in enumerate(image.cursor_image):
            column, row = left + index % image.width, top + index // image.width
            if pixel >> 24 >= 128 and 0 <= column < width and 0 <= row < height:
                at = 4 * (row * width + column)
                data[at : at + 4] = pixel.to_bytes(4, "little")
        return Capture(width, height, bytes(data))

    def pointer(self) -> Pointer:
        reply = self.core.QueryPointer(self.root).reply()
        return Pointer(reply.root_x, reply.root_y, reply.mask)

    def send(self, kind: int, detail: int = 0, x: int = 0, y: int = 0) -> None:
        self._test.FakeInput(kind, detail, 0, self.root, x, y, 0)

    def move(self, x: int, y: int) -> None:
        self.send(MOTION, 0, x, y)
        self.sync()

    def click(self, button: int, count: int = 1) -> None:
        for _ in range(count):
            self.send(BUTTON_PRESS, button)
            self.send(BUTTON_RELEASE, button)
        self.sync()

    def sync(self) -> None:
        """Wait until the server has done everything asked so far."""
        self.core.GetInputFocus().reply()
