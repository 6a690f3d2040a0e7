"""The keyboard: names of keys, chords, and text in any script whatever layout the display has.

A character that no key has is put on a key that has nothing (or only a symbol of a media keyboard) for as long as it is
needed; each time on the one whose last use is longest ago, because a program may look up what a key means some time
after the key was pressed.
"""

from __future__ import annotations

import time
import unicodedata
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from agentorchestra.core.errors import ToolError
from agentorchestra.environments.computer.screen import PRESS, RELEASE, XScreen, library
from agentorchestra.environments.computer.windows import caught_up

MOST_CHARACTERS = 10_000
_MODIFIERS = {"ctrl": "Control_L", "control": "Control_L", "shift": "Shift_L", "alt": "Alt_L", "super": "Super_L"}
_MODIFIERS |= {"meta": "Super_L", "cmd": "Super_L", "win": "Super_L", "altgr": "ISO_Level3_Shift"}
_NAMES = {"enter": "Return", "esc": "Escape", "backspace": "BackSpace", "del": "Delete", "space": "space"}
_NAMES |= {"pageup": "Prior", "page_up": "Prior", "pagedown": "Next", "page_down": "Next", "plus": "plus"}
_NAMES |= {f"arrow{way}": way.capitalize() for way in ("up", "down", "left", "right")}
_NAMES |= {"minus": "minus", "capslock": "Caps_Lock", "printscreen": "Print"}
_LOCK = 2
_MEDIA_KEYS = range(0x10080000, 0x11000000)
_UNICODE = 0x01000000
_SETTLE_S = 0.1  # how long programs get to notice new keys before they are pressed
# How long a program that cannot be asked gets to take in what was typed, before other characters get its keys.
_PAUSE_S = 0.4
_NEW_AT_ONCE = 0.4  # of the keys that can be given away: so many are given away before programs get time again


def named_key(name: str) -> int:
    """Return the keysym of a key's name or of a character; a ToolError for unknown names."""
    if len(name) == 1:
        code = ord(name)
        return code if 0x20 <= code <= 0x7E or 0xA0 <= code <= 0xFF else _UNICODE | code
    keysyms = library("keysymdef")
    plain = _NAMES.get(name.lower()) or _MODIFIERS.get(name.lower()) or name
    for spelling in (plain, plain.capitalize()):
        keysym = getattr(keysyms, f"XK_{spelling}", None)
        if isinstance(keysym, int):
            return keysym
    raise ToolError(
        f"there is no key {name[:60]!r}; keys are single characters, Return, Escape, Tab, BackSpace, Delete, Up, Down, "
        "Left, Right, Home, End, Page_Up, Page_Down, F1 to F12 and other names of X"
    )


def chord(keys: str) -> tuple[tuple[int, ...], int]:
    """Return the modifiers and the key of `ctrl+shift+t`; a ToolError for what is no key."""
    parts = keys.split("+")
    if keys == "+" or keys.endswith("++"):  # the key is the plus
        parts = [*keys[:-1].split("+")[:-1], "+"]
    *before, last = parts
    modifiers = []
    for part in before:
        if (name := _MODIFIERS.get(part.strip().lower())) is None:
            raise ToolError(f"{part[:60]!r} in {keys[:60]!r} is not held with other keys; ctrl, shift, alt, super are")
        modifiers.append(named_key(name))
    if not last.strip() and last != " ":
        raise ToolError(f"{keys[:60]!r} names no key; give one, e.g. Return or ctrl+s")
    return tuple(modifiers), named_key(last if last == " " else last.strip())


def unknown_character(text: str) -> str:
    """Return the first character of a text that is on no keyboard, "" if there is none."""
    allowed = "\n\r\t"
    return next((char for char in text if unicodedata.category(char) in ("Cc", "Cs") and char not in allowed), "")


class Keyboard:
    def __init__(self, screen: XScreen) -> None:
        self._screen = screen
        self._assigned: OrderedDict[int, int] = OrderedDict()  # keysym -> keycode, the longest unused first
        self._layout: dict[int, tuple[int, bool]] = {}
        self._free: list[int] = []
        self._media: list[int] = []
        self.read_layout()

    def read_layout(self) -> None:
        """Read what the keys mean now; a program may have changed it."""
        setup = self._screen.connection.get_setup()
        first, count = setup.min_keycode, setup.max_keycode - setup.min_keycode + 1
        reply = self._screen.core.GetKeyboardMapping(first, count).reply()
        width, symbols = reply.keysyms_per_keycode, list(reply.keysyms)
        self._layout.clear()
        self._assigned = OrderedDict(
            (symbol, code) for symbol, code in self._assigned.items() if symbol in symbols[(code - first) * width :][:2]
        )
        codes = set(self._assigned.values())
        self._free, self._media = [], []
        for index in range(count):
            row = symbols[index * width : (index + 1) * width]
            code = first + index
            if code in codes:
                continue
            if not any(row):
                self._free.append(code)
            elif row[:1] == row[1:2] and _UNICODE <= row[0] <= _UNICODE | 0x10FFFF:
                self._assigned[row[0]] = code  # of an earlier connection
            elif all(not symbol or symbol in _MEDIA_KEYS for symbol in row):
                self._media.append(code)
            else:
                for column, symbol in enumerate(row[:2]):
                    if symbol:
                        self._layout.setdefault(symbol, (code, column == 1))

    def press(self, modifiers: tuple[int, ...], key: int, count: int = 1) -> None:
        with self.hold(modifiers):
            self._assign([key])
            for _ in range(count):
                self._tap(key, modifiers)

    @contextmanager
    def hold(self, keys: tuple[int, ...]) -> Iterator[None]:
        self.read_layout()
        self._assign(keys)
        self._send(PRESS, keys)
        self._screen.sync()
        try:
            yield
        finally:
            self._send(RELEASE, keys[::-1])
            self._screen.sync()

    def down(self, modifiers: tuple[int, ...], key: int) -> None:
        """Press keys that stay down until `up` is called with the same."""
        self.read_layout()
        self._assign((*modifiers, key))
        self._send(PRESS, (*modifiers, *self._shift(key, modifiers), key))
        self._screen.sync()

    def up(self, modifiers: tuple[int, ...], key: int) -> None:
        self._send(RELEASE, (key, *self._shift(key, modifiers), *modifiers[::-1]))
        self._screen.sync()

    def type(self, text: str, seconds: float) -> int:
        """Type a text, waiting at most `seconds` for a slow program; return how many characters were typed."""
        until = time.monotonic() + seconds
        self.read_layout()
        if self._screen.pointer().mask & _LOCK:
            self._tap(named_key("capslock"))
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        symbols = [named_key({"\n": "enter", "\t": "tab"}.get(char, char)) for char in text]
        room = max(1, int(_NEW_AT_ONCE * (len(self._assigned) + len(self._free) + len(self._media))))
        start = 0
        while start < len(symbols):
            new: dict[int, None] = {}
            end = start
            while end < len(symbols):
                if symbols[end] not in self._layout:
                    new[symbols[end]] = None
                if len(new) > room:
                    new.popitem()
                    break
                end += 1
            if new and start:
                done = caught_up(self._screen, max(0.0, until - time.monotonic()))
                if done is False or time.monotonic() > until:
                    break
                if done is None:  # the program cannot be asked
                    time.sleep(_PAUSE_S)
            self._assign(new)
            for symbol in symbols[start:end]:
                self._tap(symbol)
            self._screen.sync()
            start = end
        return start

    def _tap(self, symbol: int, modifiers: tuple[int, ...] = ()) -> None:
        """Press and release a symbol's key, with shift if it needs that and it is not held."""
        shift = self._shift(symbol, modifiers)
        self._send(PRESS, (*shift, symbol))
        self._send(RELEASE, (symbol, *shift))

    def _shift(self, symbol: int, modifiers: tuple[int, ...]) -> tuple[int, ...]:
        needs_shift = symbol in self._layout and self._layout[symbol][1] and named_key("shift") not in modifiers
        return (named_key("shift"),) if needs_shift else ()

    def _send(self, kind: int, symbols: tuple[int, ...]) -> None:
        for symbol in symbols:
            self._screen.send(kind, self._layout[symbol][0] if symbol in self._layout else self._assigned[symbol])

    def _assign(self, symbols: Iterable[int]) -> None:
        new: dict[int, int] = {}
        for symbol in symbols:
            if symbol in self._layout:
                continue
            if symbol in self._assigned:
                self._assigned.move_to_end(symbol)
                continue
            if pool := self._free or self._media:
                code = pool.pop()
            elif self._assigned:
                _, code = self._assigned.popitem(last=False)
            else:
                raise ToolError("the display's keyboard has no key left that a character could be put on")
            self._assigned[symbol] = code
            new[code] = symbol
        if not new:
            return
        codes = sorted(new)
        while codes:  # neighbours together, as every change makes every program look again
            count = next((number for number in range(1, len(codes)) if codes[number] != codes[0] + number), len(codes))
            symbols = [symbol for code in codes[:count] for symbol in (new[code], new[code])]
            self._screen.core.ChangeKeyboardMapping(count, codes[0], 2, symbols)
            codes = codes[count:]
        self._screen.sync()
        time.sleep(_SETTLE_S)
