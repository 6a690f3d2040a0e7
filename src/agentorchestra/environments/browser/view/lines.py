"""A page's elements as the lines that a model is shown: what is in view, without repetitions, cut to a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from agentorchestra.environments.browser.view.frames import INTERACTIVE
from agentorchestra.environments.browser.view.snapshot import Box, PageNode, holds
from agentorchestra.environments.browser.view.text import address, exact, plain, quote

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


def keep_seen(page: PageNode, width: float, height: float, floating: list[Box] | None = None) -> None:
    """Drop what is not in view, `width` by `height` CSS pixels, and count it in the place it was in.

    What a scrolling place cuts off is not in view either, unless it lies in a floating box (a menu, a dialog).
    """
    seen = (0, 0, int(width), int(height))
    _keep(page, seen, seen, floating or [])


def _keep(node: PageNode, clip: Box, seen: Box, floating: list[Box]) -> bool:
    """Drop what is not in view; return True if anything of the element is. No size: where its place is."""
    box = node.box
    at = seen if floating and box is not None and any(holds(area, box) for area in floating) else clip
    has_size = box is not None and box[2] != 0 and box[3] != 0
    inside = box is None or not has_size or _meets(box, at)
    if box is not None and has_size and (node.cuts or node.role == "iframe"):
        clip = _common(at, box)
    if not node.children:
        return inside and not node.cut
    children: list[PageNode | str] = []
    for child in node.children:
        if isinstance(child, str):
            if inside:
                children.append(child)
        elif _keep(child, clip, seen, floating):
            children.append(child)
        elif child.box is not None:
            _, y, wide, high = child.box
            if y + high <= clip[1]:
                node.above += 1
            elif y >= clip[1] + clip[3]:
                node.below += 1
            elif wide > 0 and high > 0:
                node.beside += 1
    node.children = children
    return inside or any(isinstance(child, PageNode) for child in children)


def _meets(box: Box, at: Box) -> bool:
    return box[0] < at[0] + at[2] and box[1] < at[1] + at[3] and box[0] + box[2] > at[0] and box[1] + box[3] > at[1]


def _common(box: Box, other: Box) -> Box:
    x, y = max(box[0], other[0]), max(box[1], other[1])
    right, lower = min(box[0] + box[2], other[0] + other[2]), min(box[1] + box[3], other[1] + other[3])
    return x, y, max(right - x, 0), max(lower - y, 0)


def tidy(node: PageNode) -> None:
    """Leave out what says nothing: elements without a meaning around others, names that repeat what is in them."""
    if not node.children:
        return
    children: list[PageNode | str] = []
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
    names = {_compact(child.name) for child in children if isinstance(child, PageNode) and child.interactive}
    if names:
        children = [child for child in children if not (isinstance(child, str) and _compact(child) in names)]
    node.children = children
    if node.role in ("combobox", "listbox"):
        _tell_options(node)
    elif node.name and node.role in _NAMED_BY_CONTENT and node.children and not node.exact:
        used = any(part.interactive for child in children if isinstance(child, PageNode) for part in child.elements())
        inside = _compact("".join(_words(node.children)))
        if not used and inside in ("", _compact(node.name)):
            node.children = []
        elif used and inside == _compact(node.name):
            node.name = ""


def _says_nothing(node: PageNode) -> bool:
    if node.interactive or node.name or node.notes:
        return False
    if node.role == "generic" and (node.children or node.above or node.below):
        texts = any(isinstance(child, str) for child in node.children)
        return not texts or (not node.ref and len(node.children) == 1)
    if node.role in ("rowgroup", "paragraph") and not any(isinstance(child, str) for child in node.children):
        return node.role == "rowgroup" or len(node.children) < 2
    return node.role == "generic" and not node.children


def _tell_options(node: PageNode) -> None:
    """Note the options of a field, with the chosen ones as its value; those of an open list stay as they are."""
    options = [child for child in node.children if isinstance(child, PageNode)]
    if not options or any(option.role != "option" or option.ref or option.children for option in options):
        return
    selection = [option.name for option in options if "selected" in option.states]
    names = [quote(option.name, 60) for option in options[:_MOST_OPTIONS]]
    if len(options) > len(names):
        names.append(f"{len(options) - len(names):,} more")
    node.notes.append("options: " + ", ".join(names))
    node.children = list(selection[:5])


def _words(children: list[PageNode | str]) -> Iterator[str]:
    stack: list[PageNode | str] = list(reversed(children))
    while stack:
        child = stack.pop()
        if isinstance(child, str):
            yield child
        else:
            if child.name and not child.children:
                yield child.name
            stack.extend(reversed(child.children))


def _compact(text: str) -> str:
    return "".join(text.split())


def lines_of(page: PageNode, budget: int) -> tuple[str, ...]:
    """Return the page in at most `budget` characters, line ends counted; a line says how much is left out."""
    lines: list[str] = []
    for most, chars in _STEPS:
        lines = _lines(page, most, chars, budget * 4)
        if sum(map(len, lines)) + len(lines) <= budget:
            return tuple(lines)
    room, head = budget - 60, []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        head.append(line)
    return (*head, f"- ... {len(lines) - len(head):,} more lines below")


def lines_with(lines: Sequence[str], words: str, budget: int) -> tuple[str, ...]:
    """Return the first lines that hold some words, capitals or not, with those of the places they are in."""
    phrase = " ".join(words.lower().split())
    places: list[int] = []
    numbers: list[int] = []
    matches = count = size = 0
    for number, line in enumerate(lines):
        while places and _level(lines[places[-1]]) >= _level(line):
            places.pop()
        if phrase in line.lower():
            matches += 1
            new = [place for place in (*places, number) if not numbers or place > numbers[-1]]
            size += sum(len(lines[place]) + 1 for place in new)
            if size <= budget:
                numbers += new
                count += 1
        places.append(number)
    more = (f"- ... {matches - count:,} more lines with these words",) if matches > count else ()
    return (*(lines[place] for place in numbers), *more)


def _level(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _lines(page: PageNode, most: int, chars: int, enough: int) -> list[str]:
    lines: list[str] = []
    size = 0
    stack: list[tuple[PageNode | str, int]] = []  # a text is a line as it is

    def put(node: PageNode, depth: int) -> None:
        # What is put last comes first.
        children = node.children[:most]
        stack.append((_more(node.below + len(node.children) - len(children), "below"), depth))
        stack.append((_more(node.beside, "beside"), depth))
        for child in reversed(children):
            stack.append((quote(child, chars) if isinstance(child, str) else child, depth))
        stack.append((_more(node.above, "above"), depth))

    put(page, 0)
    while stack and size <= enough:
        node, depth = stack.pop()
        start = "  " * min(depth, _MOST_INDENT) + "- "
        if isinstance(node, str):
            if node and node != '""':
                lines.append(start + node)
                size += len(lines[-1]) + 1
            continue
        for _ in range(_MOST_HELD):
            if (inner := _only(node)) is None:
                break
            start += f"{node.role} > "
            node = inner
        if (row := _row(node, most, chars)) is not None:
            lines.append(start + row)
            size += len(lines[-1]) + 1
            continue
        first = next((n for n, child in enumerate(node.children) if not isinstance(child, str)), len(node.children))
        lines.append(start + _line(node, " ".join(map(str, node.children[:first])), chars))
        size += len(lines[-1]) + 1
        rest = node.children[first:]
        if rest or node.above or node.below or node.beside:
            put(PageNode(node.role, above=node.above, below=node.below, beside=node.beside, children=rest), depth + 1)
    return lines


def _only(node: PageNode) -> PageNode | None:
    """Return the element in a cell or the like that holds nothing else."""
    if node.role not in _HOLDERS or node.name or node.states or node.notes or node.above or node.below or node.beside:
        return None
    only = node.children[0] if len(node.children) == 1 else None
    return only if isinstance(only, PageNode) else None


def _row(node: PageNode, most: int, chars: int) -> str | None:
    """Return a row of a table on one line; None if its cells hold more than a text or one element each."""
    if node.role != "row" or not node.children or len(node.children) > most:
        return None
    cells = []
    for cell in node.children:
        if isinstance(cell, str) or cell.role not in _CELLS:
            return None
        inner = _only(cell) or cell
        if any(isinstance(child, PageNode) for child in inner.children) or inner.above or inner.below or inner.beside:
            return None
        cells.append(_cell(inner, " ".join(map(str, inner.children)), chars))
    return f"{_line(node, '', chars)}: {' | '.join(cells)}"


def _cell(node: PageNode, text: str, chars: int) -> str:
    if node.role not in ("cell", "gridcell"):
        return _line(node, text, chars)
    return _line(node, text, chars, role="generic" if text.strip() or node.name else "(empty)")


def _more(count: int, side: str) -> str:
    return f"... {count:,} more {side}" if count else ""


def _line(node: PageNode, text: str, chars: int, *, role: str = "") -> str:
    short = len(text) + len(node.name) + len(node.placeholder) + len(node.url) < _MOST_CACHED
    render = _plain_line if short else _plain_line.__wrapped__
    notes = tuple(node.notes)
    value, text = (f": {exact(text, chars)}", "") if node.exact else ("", text)
    line = render(role or node.role, node.name, node.ref, node.states, notes, node.placeholder, node.url, text, chars)
    return line + value


@lru_cache(maxsize=4096)  # most of a page is as it was when somebody looked last
def _plain_line(
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
        parts.append(quote(name, min(chars, _NAME_CHARS)))
    if states or notes or placeholder:
        remarks = [state.replace("=", " ") for state in states] + [plain(note, 600) for note in notes]
        if placeholder:
            remarks.append("shows " + quote(placeholder, 80))
        parts.append("(" + ", ".join(dict.fromkeys(remarks)) + ")")
    if url:
        parts.append("-> " + address(url))
    line = " ".join(parts)
    if not text.strip():
        return line
    return line + (": " if line not in ("", f"[{ref}]") else " " * bool(line)) + quote(text, chars)
