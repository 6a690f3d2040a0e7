"""Keys by name, and the bytes that a terminal sends for them (`xterm` in terminfo)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from agentorchestra.core.errors import KeysError

MOST_BYTES = 4_000
"""A terminal holds 4,095 bytes of a line."""

_CODES = {
    "enter": "\r",
    "tab": "\t",
    "shift+tab": "\x1b[Z",
    "escape": "\x1b",
    "space": " ",
    "backspace": "\x7f",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "insert": "\x1b[2~",
    "delete": "\x1b[3~",
    "end": "\x1b[F",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    **{f"f{number}": f"\x1bO{letter}" for number, letter in enumerate("PQRS", 1)},
    **{f"f{number}": f"\x1b[{code}~" for number, code in enumerate((15, 17, 18, 19, 20, 21, 23, 24), 5)},
}
_ALSO = {"return": "enter", "cr": "enter", "esc": "escape", "bs": "backspace", "del": "delete", "ctrl+space": "ctrl+@"}
_KEY = re.compile(r"<([^<>\s]+)>")


def encode_keys(keys: Sequence[str]) -> bytes:
    """Return what a terminal sends for texts and keys (`<enter>`); KeysError for an unknown key, none, too many."""
    data = "".join(_encode(key) for key in keys).encode("utf-8", "replace")
    if not data:
        raise KeysError('no keys; give texts and keys, e.g. ["print(1)", "<enter>"]')
    if len(data) > MOST_BYTES:
        raise KeysError(
            f"the keys have {len(data):,} bytes; at most {MOST_BYTES:,} are sent at once: write a longer text to a file"
        )
    return data


def _encode(key: str) -> str:
    if match := _KEY.fullmatch(key):
        code = _code(match[1])
        if code is None:
            raise KeysError(
                f"there is no key {key[:40]}; the keys: <{'>, <'.join(_CODES)}>, <ctrl+a> to <ctrl+z>, <alt+x>. "
                f"A text in angle brackets is given in two parts: {json.dumps(['<', key[1:40]])}"
            )
        return code
    for inside in _KEY.finditer(key):
        if _code(inside[1]) is not None:
            apart = json.dumps([part for part in (key[: inside.start()], inside[0], key[inside.end() :]) if part])
            raise KeysError(f"{inside[0]} stands in a text, where it is no key; give it apart: {apart[:200]}")
    return key.replace("\r\n", "\r").replace("\n", "\r")


def _code(name: str) -> str | None:
    if chord := re.fullmatch(r"(?:alt|m)[+-](.)", name, re.IGNORECASE):
        return f"\x1b{chord[1]}"
    name = _ALSO.get(name.lower(), name.lower())
    if chord := re.fullmatch(r"(?:CTRL|C)[+-]([@-_])", name.upper()):
        return chr(ord(chord[1]) & 0x1F)
    return _CODES.get(name)
