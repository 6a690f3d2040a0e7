"""A page's elements as the lines that a model is shown: what is in view, without repetitions, cut to a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from agentorchestra.environments.browser.view.frames import INTERACTIVE
from agentorchestra.environments.browser.view.snapshot import Box, Node, holds
from agentorchestra.environments.browser.view.text import address, exact, plain, quoted

_NAMED_BY_CONTENT = INTERACTIVE | frozenset(("heading", "row", "cell", "columnheader", "rowheader", "listitem", "img"))
_CELLS = frozenset(("cell", "gridcell", "columnheader", "rowheader"))
_HOLDERS = _CELLS | frozenset(("listitem", "row"))
_MOST_HELD = 3
_MOST_INDENT = 12
_NAME_CHARS = 200
_MOST_OPTIONS = 20
_MOST_CACHED = 500  # characters of an element whose line is remembered
# How many children of a place, and how many characters of a text, are shown: the first that fits.
_STEPS = (
    *((100_000, 1500), (400, 800), (200, 500), (100, 300), (60, 200), (40, 160), (25, 120)),
    *((15, 100), (10, 80), (6, 60), (4, 40)),
)


def keep_seen(page: Node, width: float, height: float, floating: list[Box] | None = None) -> None:
    """Drop what is not in view, `width` by `height` CSS pixels, and count it in the place it was in.

    What a scrolling place cuts off is not in view either, unless it lies in a floating box (a menu, a dialog).
    """
    seen = (0, 0, int(width), int(height))
    _keep(page, seen, seen, floating or [])


def _keep(node: Node, clip: Box, seen: Box, floating: list[Box]) -> bool:
    """Drop what is not in view; return True if anything of the element is. No size: where its place is."""
    box = node.box
    at = seen if floating and box is not None and any(holds(one, box) for one in floating) else clip
    sized = box is not None and box[2] != 0 and box[3] != 0
    inside = box is None or not sized or _meets(box, at)
    if box is not None and sized and (node.cuts or node.role == "iframe"):
        clip = _common(at, box)
    if not node.children:
        return inside and not node.clipped
    kept: list[Node | str] = []
    for child in node.children:
        if isinstance(child, str):
            if inside:
                kept.append(child)
        elif _keep(child, clip, seen, floating):
            kept.append(child)
        elif child.box is not None:
            _, y, wide, high = child.box
            if y + high <= clip[1]:
                node.above += 1
            elif y >= clip[1] + clip[3]:
                node.below += 1
            elif wide > 0 and high > 0:
                node.beside += 1
    node.children = kept
    return inside or any(isinstance(child, Node) for child in kept)


def _meets(box: Box, at: Box) -> bool:
    return box[0] < at[0] + at[2] and box[1] < at[1] + at[3] and box[0] + box[2] > at[0] and box[1] + box[3] > at[1]


def _common(one: Box, other: Box) -> Box:
    x, y = max(one[0], other[0]), max(one[1], other[1])
    right, lower = min(one[0] + one[2], other[0] + other[2]), min(one[1] + one[3], other[1] + other[3])
    return x, y, max(right - x, 0), max(lower - y, 0)


def tidy(node: Node) -> None:
    """Leave out what says nothing: elements without a meaning around others, names that repeat what is in them."""
    if not node.children:
        return
    children: list[Node | str] = []
    for child in node.children:
        if isinstance(child, str):
            if node.exact or plain(child, 9):
                children.append(child)
            continue
        tidy(child)
        if _says_nothing(child):
            node.above += child.above
            node.below += child.below
            node.beside += child.beside
            children += child.children
        else:
            children.append(child)
    # A label stands beside its field, and in its name.
    names = {_pressed(child.name) for child in children if isinstance(child, Node) and child.interactive}
    if names:
        children = [child for child in children if not (isinstance(child, str) and _pressed(child) in names)]
    node.children = children
    if node.role in ("combobox", "listbox"):
        _tell_options(node)
    elif node.name and node.role in _NAMED_BY_CONTENT and node.children and not node.exact:
        used = any(one.interactive for child in node.children if isinstance(child, Node) for one in child.elements())
        inside = _pressed("".join(_words(node.children)))
        if not used and inside in ("", _pressed(node.name)):
            node.children = []
        elif used and inside == _pressed(node.name):
            node.name = ""


def _says_nothing(node: Node) -> bool:
    if node.interactive or node.name or node.notes:
        return False
    if node.role == "generic" and (node.children or node.above or node.below):
        texts = any(isinstance(child, str) for child in node.children)
        return not texts or (not node.ref and len(node.children) == 1)
    if node.role in ("rowgroup", "paragraph") and not any(isinstance(child, str) for child in node.children):
        return node.role == "rowgroup" or len(node.children) < 2
    return node.role == "generic" and not node.children


def _tell_options(node: Node) -> None:
    """Note the options of a field, with the chosen ones as its value; those of an open list stay as they are."""
    options = [child for child in node.children if isinstance(child, Node)]
    if not options or any(one.role != "option" or one.ref or one.children for one in options):
        return
    chosen = [one.name for one in options if "selected" in one.states]
    names = [quoted(one.name, 60) for one in options[:_MOST_OPTIONS]]
    if len(options) > len(names):
        names.append(f"{len(options) - len(names):,} more")
    node.notes.append("options: " + ", ".join(names))
    node.children = list(chosen[:5])


def _words(children: list[Node | str]) -> Iterator[str]:
    stack: list[Node | str] = list(reversed(children))
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            yield one
        else:
            if one.name and not one.children:
                yield one.name
            stack.extend(reversed(one.children))


def _pressed(text: str) -> str:
    return "".join(text.split())


def lines_of(page: Node, budget: int) -> tuple[str, ...]:
    """Return the page in at most `budget` characters, line ends counted; a line says how much is left out."""
    lines: list[str] = []
    for most, chars in _STEPS:
        lines = _lines(page, most, chars, budget * 4)
        if sum(map(len, lines)) + len(lines) <= budget:
            return tuple(lines)
    room, kept = budget - 60, []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return (*kept, f"- ... {len(lines) - len(kept):,} more lines below")


def lines_with(lines: Sequence[str], words: str, budget: int) -> tuple[str, ...]:
    """Return the first lines that hold some words, capitals or not, with those of the places they are in."""
    wanted = " ".join(words.lower().split())
    places: list[int] = []
    kept: list[int] = []
    matches = shown = size = 0
    for number, line in enumerate(lines):
        while places and _level(lines[places[-1]]) >= _level(line):
            places.pop()
        if wanted in line.lower():
            matches += 1
            new = [one for one in (*places, number) if not kept or one > kept[-1]]
            size += sum(len(lines[one]) + 1 for one in new)
            if size <= budget:
                kept += new
                shown += 1
        places.append(number)
    more = (f"- ... {matches - shown:,} more lines with these words",) if matches > shown else ()
    return (*(lines[one] for one in kept), *more)


def _level(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _lines(page: Node, most: int, chars: int, enough: int) -> list[str]:
    lines: list[str] = []
    size = 0
    stack: list[tuple[Node | str, int]] = []  # a text is a line as it is

    def put(node: Node, depth: int) -> None:
        # What is put last comes first.
        shown = node.children[:most]
        stack.append((_more(node.below + len(node.children) - len(shown), "below"), depth))
        stack.append((_more(node.beside, "beside"), depth))
        for child in reversed(shown):
            stack.append((quoted(child, chars) if isinstance(child, str) else child, depth))
        stack.append((_more(node.above, "above"), depth))

    put(page, 0)
    while stack and size <= enough:
        one, depth = stack.pop()
        start = "  " * min(depth, _MOST_INDENT) + "- "
        if isinstance(one, str):
            if one and one != '""':
                lines.append(start + one)
                size += len(lines[-1]) + 1
            continue
        for _ in range(_MOST_HELD):
            if (inner := _only(one)) is None:
                break
            start += f"{one.role} > "
            one = inner
        if (row := _row(one, most, chars)) is not None:
            lines.append(start + row)
            size += len(lines[-1]) + 1
            continue
        first = next((n for n, child in enumerate(one.children) if not isinstance(child, str)), len(one.children))
        lines.append(start + _line(one, " ".join(map(str, one.children[:first])), chars))
        size += len(lines[-1]) + 1
        rest = one.children[first:]
        if rest or one.above or one.below or one.beside:
            put(Node(one.role, above=one.above, below=one.below, beside=one.beside, children=rest), depth + 1)
    return lines


def _only(node: Node) -> Node | None:
    """Return the element in a cell or the like that holds nothing else."""
    if node.role not in _HOLDERS or node.name or node.states or node.notes or node.above or node.below or node.beside:
        return None
    only = node.children[0] if len(node.children) == 1 else None
    return only if isinstance(only, Node) else None


def _row(node: Node, most: int, chars: int) -> str | None:
    """Return a row of a table on one line; None if its cells hold more than a text or one element each."""
    if node.role != "row" or not node.children or len(node.children) > most:
        return None
    cells = []
    for cell in node.children:
        if isinstance(cell, str) or cell.role not in _CELLS:
            return None
        inner = _only(cell) or cell
        if any(isinstance(child, Node) for child in inner.children) or inner.above or inner.below or inner.beside:
            return None
        cells.append(_cell(inner, " ".join(map(str, inner.children)), chars))
    return f"{_line(node, '', chars)}: {' | '.join(cells)}"


def _cell(node: Node, text: str, chars: int) -> str:
    if node.role not in ("cell", "gridcell"):
        return _line(node, text, chars)
    return _line(node, text, chars, role="generic" if text.strip() or node.name else "(empty)")


def _more(count: int, where: str) -> str:
    return f"... {count:,} more {where}" if count else ""


def _line(node: Node, text: str, chars: int, *, role: str = "") -> str:
    short = len(text) + len(node.name) + len(node.placeholder) + len(node.url) < _MOST_CACHED
    said = _said if short else _said.__wrapped__
    notes = tuple(node.notes)
    value, text = (f": {exact(text, chars)}", "") if node.exact else ("", text)
    line = said(role or node.role, node.name, node.ref, node.states, notes, node.placeholder, node.url, text, chars)
    return line + value


@lru_cache(maxsize=4096)  # most of a page is as it was when somebody looked last
def _said(
    role: str,
    name: str,
    ref: str,
    states: tuple[str, ...],
    notes: tuple[str, ...],
    placeholder: str,
    url: str,
    text: str,
    chars: int,
) -> str:
    parts = [f"[{ref}]"] if ref else []
    if role != "generic" or not (text or name):
        parts.append(role)
    if name:
        parts.append(quoted(name, min(chars, _NAME_CHARS)))
    if states or notes or placeholder:
        said = [state.replace("=", " ") for state in states] + [plain(note, 600) for note in notes]
        if placeholder:
            said.append("shows " + quoted(placeholder, 80))
        parts.append("(" + ", ".join(dict.fromkeys(said)) + ")")
    if url:
        parts.append("-> " + address(url))
    line = " ".join(parts)
    if not text.strip():
        return line
    return line + (": " if line not in ("", f"[{ref}]") else " " * bool(line)) + quoted(text, chars)
