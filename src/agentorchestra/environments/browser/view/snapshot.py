"""Playwright's accessibility snapshots, read into nodes.

The text is YAML in a form of its own: one node a line, every value on its line. Reading it line by line is as exact as
a YAML parser (tests hold the two together) and twenty times as fast; a YAML 1.1 parser would also take `1:30` for a
number and break lines where the writer did not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

Box = tuple[int, int, int, int]  # x, y, width, height in CSS pixels
_MOST_CACHED = 500  # characters of a node that is remembered
_NAMES = json.JSONDecoder(strict=False)
MOST_LEVELS = 100  # what lies deeper is read as if it lay here
_ATTRIBUTE = re.compile(r"\[([a-z-]+)(?:=([^\]]*))?\]")
_KEY = re.compile(r"(?P<key>'(?:[^']|'')*'|.*?)(?P<colon>:(?= |$)|$)")
_ESCAPE = re.compile(r'\\(x[0-9a-fA-F]{2}|[\\"bfnrt])')
_CHARACTERS = {"\\": "\\", '"': '"', "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SHOWN_STATES = ("checked", "disabled", "expanded", "active", "invalid", "level", "pressed", "selected")


@dataclass(slots=True, eq=False)
class PageNode:
    role: str  # `link`, `textbox`, ... of ARIA; `generic` for none
    name: str = ""  # its accessible name
    ref: str = ""  # its reference; empty if it has none
    box: Box | None = None  # where it is, None if that is not known
    states: tuple[str, ...] = ()  # `checked`, `level=2`, ... as the snapshot says
    url: str = ""
    placeholder: str = ""
    pointer: bool = False  # it has the cursor of something that can be clicked
    interactive: bool = False  # something can be done with it
    cuts: bool = False  # it cuts off what lies beyond it
    cut: bool = False  # it is cut off itself
    exact: bool = False  # its text is the value of a field, with every blank
    notes: list[str] = field(default_factory=list)  # what else is said of it: `required`, `covered by ...`
    above: int = 0  # above, below, beside: how many of its children were left out, by where they lie
    below: int = 0
    beside: int = 0
    children: list[PageNode | str] = field(default_factory=list)  # elements and texts, in their order

    def elements(self) -> Iterator[PageNode]:
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            if node.children:
                stack.extend([child for child in reversed(node.children) if isinstance(child, PageNode)])


def holds(place: Box, box: Box) -> bool:
    right, lower = place[0] + place[2], place[1] + place[3]
    return place[0] <= box[0] and box[0] + box[2] <= right and place[1] <= box[1] and box[1] + box[3] <= lower


def parse(text: str) -> PageNode:
    """Return the page of a snapshot, as a node that holds its parts. Lines that are in no form known are left out."""
    page = PageNode("page")
    path = [page]
    for line in text.split("\n"):
        body = line.lstrip(" ")
        if not body.startswith("- "):
            continue
        level = min((len(line) - len(body)) // 2, len(path) - 1)
        key, value, fields = _read(body) if len(body) < _MOST_CACHED else _read.__wrapped__(body)
        parent = path[level]
        if key == "text":
            parent.children.append(value)
        elif key == "/url":
            parent.url = value
        elif key == "/placeholder":
            parent.placeholder = value
        elif fields is not None:
            role, name, ref, box, states, pointer, hidden = fields
            node = PageNode(role, name, ref, box, states, pointer=pointer)
            if hidden:
                node.notes.append("hidden from screen readers")
            if value:
                node.children.append(value)
            parent.children.append(node)
            if level < MOST_LEVELS:
                path[level + 1 :] = [node]
    return page


_Fields = tuple[str, str, str, Box | None, tuple[str, ...], bool, bool]


@lru_cache(maxsize=4096)  # most of a page is as it was when somebody looked last
def _read(body: str) -> tuple[str, str, _Fields | None]:
    """Return a line's key, the text behind it, and the element that it begins, if it does."""
    match = _KEY.match(body, 2)
    assert match is not None  # the pattern matches everything
    key, value = match["key"], _scalar(body[match.end() :].removeprefix(" "))
    if key.startswith("'"):
        key = key[1:-1].replace("''", "'")
    return key, value, None if key in ("text", "/url", "/placeholder") else _fields(key)


def _scalar(value: str) -> str:
    if value.startswith('"') and value.endswith('"') and len(value) > 1:
        return _ESCAPE.sub(lambda match: _CHARACTERS.get(match[1]) or chr(int(match[1][1:], 16)), value[1:-1])
    return value


def _fields(key: str) -> _Fields | None:
    """Return role, name, reference, box, states, `the cursor is a hand`, `hidden`; None for no node."""
    role, _, rest = key.partition(" ")
    if not role.isalpha():
        return None
    title, ref, states = "", "", []
    box, pointer, hidden = None, False, False
    if rest.startswith('"'):
        try:
            title, end = _NAMES.raw_decode(rest)
        except ValueError:
            return None
        rest = rest[end:]
    for name, value in _ATTRIBUTE.findall(rest):
        if name == "ref":
            ref = value
        elif name == "box":
            box = _box(value)
        elif name == "cursor":
            pointer = value == "pointer"
        elif name == "aria-hidden":
            hidden = True
        elif name in _SHOWN_STATES:
            states.append(f"{name}={value}" if value else name)
    return role, title, ref, box, tuple(states), pointer, hidden


def _box(text: str) -> Box | None:
    try:
        x, y, width, height = (int(part) for part in text.split(","))
    except ValueError:
        return None
    return x, y, width, height
