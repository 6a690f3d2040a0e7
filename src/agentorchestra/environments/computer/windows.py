"""The windows of a display, as its window manager has them: titles, places, the one in front; bounded looks."""

from __future__ import annotations

import struct
import time
from itertools import count
from typing import NamedTuple

from agentorchestra.environments.computer.screen import XScreen

MOST = 40  # windows that are looked at, the frontmost; the others are counted
TITLE_BYTES = 400
_ANY_TYPE = 0
_STRUCTURE = 0x00180000  # SubstructureRedirect and SubstructureNotify: who hears what the window manager is asked
_SUBSTRUCTURE_NOTIFY = 0x00080000
_EVENT_MASK = 0x800
_PAGER = 2
_LOOK_S = 0.005
_PINGS = count(1)  # of a display no two questions have the same number
_ASK_AGAIN_S = 0.1


class DesktopWindow(NamedTuple):
    """One window, its frame not counted."""

    window: int  # its number in X
    title: str  # as it says itself, cut
    x: int  # x, y, width, height: in pixels
    y: int
    width: int
    height: int
    has_focus: bool = False  # whether it has the keyboard
    hidden: bool = False  # minimized


class Windows(NamedTuple):
    """The frontmost windows, the first in front, and how many there are in all."""

    front: tuple[DesktopWindow, ...] = ()
    total: int = 0


def windows_of(screen: XScreen) -> Windows:
    numbers, total = _numbers(screen, screen.root, "_NET_CLIENT_LIST_STACKING", MOST)
    active, _ = _numbers(screen, screen.root, "_NET_ACTIVE_WINDOW", 1)
    windows = (_window(screen, number, number in active) for number in reversed(numbers))
    return Windows(tuple(window for window in windows if window is not None), total)


def _window(screen: XScreen, number: int, has_focus: bool) -> DesktopWindow | None:
    try:
        size = screen.core.GetGeometry(number).reply()
        place = screen.core.TranslateCoordinates(number, screen.root, 0, 0).reply()
        hidden = screen.atom("_NET_WM_STATE_HIDDEN") in _numbers(screen, number, "_NET_WM_STATE", 32)[0]
        title = _text(screen, number, "_NET_WM_NAME") or _text(screen, number, "WM_NAME", "latin-1")
    except screen.x.Error:  # it was closed meanwhile
        return None
    return DesktopWindow(number, title, place.dst_x, place.dst_y, size.width, size.height, has_focus, hidden)


def _numbers(screen: XScreen, window: int, name: str, most: int) -> tuple[list[int], int]:
    head = screen.core.GetProperty(False, window, screen.atom(name), _ANY_TYPE, 0, 0).reply()
    total = head.bytes_after // 4 if head.format == 32 else 0
    if not total:
        return [], 0
    first = max(0, total - most)
    reply = screen.core.GetProperty(False, window, screen.atom(name), _ANY_TYPE, first, most).reply()
    data = reply.value.buf()
    return list(struct.unpack(f"={len(data) // 4}I", data[: len(data) // 4 * 4])), total


def _text(screen: XScreen, window: int, name: str, coding: str = "utf-8") -> str:
    reply = screen.core.GetProperty(False, window, screen.atom(name), _ANY_TYPE, 0, TITLE_BYTES // 4).reply()
    text = reply.value.buf().decode(coding, "ignore") if reply.format == 8 else ""
    return "".join(char if char.isprintable() else " " for char in text).strip()


def _message(screen: XScreen, window: int, name: str, *values: int) -> bytes:
    return struct.pack("=BBHII5I", 33, 32, 0, window, screen.atom(name), *(*values, 0, 0, 0, 0, 0)[:5])


def ask(screen: XScreen, window: int, name: str, *values: int) -> None:
    screen.core.SendEvent(False, screen.root, _STRUCTURE, _message(screen, window, name, *values))
    screen.sync()


def raise_window(screen: XScreen, window: int) -> None:
    ask(screen, window, "_NET_ACTIVE_WINDOW", _PAGER)


def place_window(screen: XScreen, window: int, x: int, y: int, width: int, height: int) -> None:
    static, every = 10, 0b1111 << 8
    ask(screen, window, "_NET_MOVERESIZE_WINDOW", static | every | _PAGER << 12, x, y, width, height)


def close_window(screen: XScreen, window: int) -> None:
    ask(screen, window, "_NET_CLOSE_WINDOW", 0, _PAGER)


def manager_keeps_up(screen: XScreen, window: int, seconds: float) -> bool:
    """Return True if the window manager answers a question about a window of ours within so many seconds."""
    screen.core.DeleteProperty(window, screen.atom("_NET_FRAME_EXTENTS"))
    start = time.monotonic()
    count = 0
    while time.monotonic() < start + seconds:
        if time.monotonic() >= start + count * _ASK_AGAIN_S:  # one that only now begins hears nothing for a while
            ask(screen, window, "_NET_REQUEST_FRAME_EXTENTS")
            count += 1
        if _numbers(screen, window, "_NET_FRAME_EXTENTS", 4)[0]:
            return True
        time.sleep(_LOOK_S)
    return False


def caught_up(screen: XScreen, seconds: float) -> bool | None:
    """Return True once the program with the keyboard has read its input, False if late, None if it cannot be asked."""
    active, _ = _numbers(screen, screen.root, "_NET_ACTIVE_WINDOW", 1)
    ping = screen.atom("_NET_WM_PING")
    try:
        if not active or not active[0] or ping not in _numbers(screen, active[0], "WM_PROTOCOLS", 32)[0]:
            return None
    except screen.x.Error:
        return None
    payload = [ping, next(_PINGS) & 0x7FFFFFFF, active[0]]
    # Answers go to the root window; who listens there hears of all windows, so only for that long.
    screen.core.ChangeWindowAttributes(screen.root, _EVENT_MASK, [_SUBSTRUCTURE_NOTIFY])
    try:
        screen.core.SendEvent(False, active[0], 0, _message(screen, active[0], "WM_PROTOCOLS", *payload))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            screen.sync()
            answers = [event for event in screen.events() if isinstance(event, screen.x.xproto.ClientMessageEvent)]
            if any(answer.window == screen.root and list(answer.data.data32[:3]) == payload for answer in answers):
                return True
            time.sleep(_LOOK_S)
    finally:
        screen.core.ChangeWindowAttributes(screen.root, _EVENT_MASK, [0])
    return False
