"""The windows of a display, as its window manager has them: titles, places, the one in front; bounded looks."""

from __future__ import annotations

import struct
import time
from typing import NamedTuple

from agentorchestra.environments.computer.screen import Screen

MOST = 40  # windows that are looked at, the frontmost; the others are counted
TITLE_BYTES = 400
_ANY = 0
_STRUCTURE = 0x00180000  # SubstructureRedirect and SubstructureNotify: who hears what the window manager is asked
_SUBSTRUCTURE_NOTIFY = 0x00080000
_EVENT_MASK = 0x800
_PAGER = 2
_LOOK_S = 0.005
_ASK_AGAIN_S = 0.1


class Window(NamedTuple):
    """One window, its frame not counted."""

    window: int  # its number in X
    title: str  # as it says itself, cut
    x: int  # x, y, width, height: in pixels
    y: int
    width: int
    height: int
    focused: bool = False  # whether it has the keyboard
    hidden: bool = False  # minimized


class Windows(NamedTuple):
    """The frontmost windows, the first in front, and how many there are in all."""

    shown: tuple[Window, ...] = ()
    total: int = 0


def windows_of(screen: Screen) -> Windows:
    """Return the windows, the frontmost first."""
    numbers, count = _numbers(screen, screen.root, "_NET_CLIENT_LIST_STACKING", MOST)
    active, _ = _numbers(screen, screen.root, "_NET_ACTIVE_WINDOW", 1)
    found = (_window(screen, one, one in active) for one in reversed(numbers))
    return Windows(tuple(one for one in found if one is not None), count)


def _window(screen: Screen, number: int, focused: bool) -> Window | None:
    try:
        size = screen.core.GetGeometry(number).reply()
        place = screen.core.TranslateCoordinates(number, screen.root, 0, 0).reply()
        hidden = screen.atom("_NET_WM_STATE_HIDDEN") in _numbers(screen, number, "_NET_WM_STATE", 32)[0]
        title = _text(screen, number, "_NET_WM_NAME") or _text(screen, number, "WM_NAME", "latin-1")
    except screen.x.Error:  # it was closed meanwhile
        return None
    return Window(number, title, place.dst_x, place.dst_y, size.width, size.height, focused, hidden)


def _numbers(screen: Screen, window: int, name: str, most: int) -> tuple[list[int], int]:
    """Return the last numbers of a property, and how many it has."""
    head = screen.core.GetProperty(False, window, screen.atom(name), _ANY, 0, 0).reply()
    count = head.bytes_after // 4 if head.format == 32 else 0
    if not count:
        return [], 0
    first = max(0, count - most)
    reply = screen.core.GetProperty(False, window, screen.atom(name), _ANY, first, most).reply()
    data = reply.value.buf()
    return list(struct.unpack(f"={len(data) // 4}I", data[: len(data) // 4 * 4])), count


def _text(screen: Screen, window: int, name: str, coding: str = "utf-8") -> str:
    reply = screen.core.GetProperty(False, window, screen.atom(name), _ANY, 0, TITLE_BYTES // 4).reply()
    text = reply.value.buf().decode(coding, "ignore") if reply.format == 8 else ""
    return "".join(one if one.isprintable() else " " for one in text).strip()


# -- what the window manager is asked ------------------------------------------------------------------------------


def ask(screen: Screen, window: int, name: str, *values: int) -> None:
    """Ask the window manager something about a window."""
    data = struct.pack("=5I", *(value & 0xFFFFFFFF for value in (*values, 0, 0, 0, 0, 0)[:5]))
    event = struct.pack("=BBHII", 33, 32, 0, window, screen.atom(name)) + data
    screen.core.SendEvent(False, screen.root, _STRUCTURE, event)
    screen.sync()


def raise_window(screen: Screen, window: int) -> None:
    """Bring a window to the front and give it the keyboard; a minimized one too."""
    ask(screen, window, "_NET_ACTIVE_WINDOW", _PAGER)


def place_window(screen: Screen, window: int, x: int, y: int, width: int, height: int) -> None:
    """Move and resize a window's content."""
    static, every = 10, 0b1111 << 8
    ask(screen, window, "_NET_MOVERESIZE_WINDOW", static | every | _PAGER << 12, x, y, width, height)


def close_window(screen: Screen, window: int) -> None:
    """Ask a window to close, as its button would."""
    ask(screen, window, "_NET_CLOSE_WINDOW", 0, _PAGER)


# -- whether a program keeps up ------------------------------------------------------------------------------------


def manager_keeps_up(screen: Screen, window: int, seconds: float) -> bool:
    """Return True if the window manager answers a question about a window of ours within so many seconds."""
    screen.core.DeleteProperty(window, screen.atom("_NET_FRAME_EXTENTS"))
    begun = time.monotonic()
    asked = 0
    while time.monotonic() < begun + seconds:
        if time.monotonic() >= begun + asked * _ASK_AGAIN_S:  # one that only now begins hears nothing for a while
            ask(screen, window, "_NET_REQUEST_FRAME_EXTENTS")
            asked += 1
        if _numbers(screen, window, "_NET_FRAME_EXTENTS", 4)[0]:
            return True
        time.sleep(_LOOK_S)
    return False


class Pings:
    """Asks programs whether they have read what was sent to their windows, as window managers do."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._last = 0

    def caught_up(self, seconds: float) -> bool | None:
        """Return True once the program with the keyboard has read its input, False if it has not in time.

        None where there is no such program, or it does not answer such questions.
        """
        screen = self._screen
        found, _ = _numbers(screen, screen.root, "_NET_ACTIVE_WINDOW", 1)
        protocols, ping = screen.atom("WM_PROTOCOLS"), screen.atom("_NET_WM_PING")
        if not found or not found[0]:
            return None
        try:
            if ping not in _numbers(screen, found[0], "WM_PROTOCOLS", 32)[0]:
                return None
        except screen.x.Error:
            return None
        self._last = self._last % 0x7FFFFFFF + 1
        wanted = [ping, self._last, found[0]]
        data = struct.pack("=5I", *wanted, 0, 0)
        # Answers go to the root window; who listens there hears of all windows, so only for that long.
        self._listen(_SUBSTRUCTURE_NOTIFY)
        try:
            screen.core.SendEvent(False, found[0], 0, struct.pack("=BBHII", 33, 32, 0, found[0], protocols) + data)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                screen.sync()
                answers = [one for one in screen.events() if isinstance(one, screen.x.xproto.ClientMessageEvent)]
                if any(one.window == screen.root and list(one.data.data32[:3]) == wanted for one in answers):
                    return True
                time.sleep(_LOOK_S)
        finally:
            self._listen(0)
        return False

    def _listen(self, mask: int) -> None:
        self._screen.core.ChangeWindowAttributes(self._screen.root, _EVENT_MASK, [mask])


__all__ = [
    "Pings",
    "Window",
    "Windows",
    "close_window",
    "manager_keeps_up",
    "place_window",
    "raise_window",
    "windows_of",
]
