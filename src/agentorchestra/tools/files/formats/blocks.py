"""Code and tables of a page, written out before its main part is looked for: who looks for that loses their lines.

In the tree stay the words of each, between two signs that the page does not use, with a number. `Blocks.back` puts the
lines there again, whatever became of the words on the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import unescape
from typing import Any

from .base import need, table_document
from .text import has_header

_SIGNS = range(0x101D0, 0x101FD)  # of the Phaistos disc: printable, which readers of pages keep, and on hardly any page
_ROWS, _COLUMNS = 5_000, 60  # of a table; a larger one is left as it is
_CELLS = ("td", "th")
_APART = ("p", "div", "li", "tr", *_CELLS)  # between what they hold and what follows stands white space
_AREAS = 12  # merged cells of a table that are named above it
_IN_NO_TABLE = ("table", "pre", "form", "h1", "h2", "h3", "h4", "h5", "h6", "textarea", "iframe")
_TABLE = re.compile(r"<table\b", re.IGNORECASE)
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_TAG = re.compile(r"<[a-zA-Z!/][^<>]{0,2000}>")


class Blocks:
    """The blocks of one page, whose text is `source`; of a file (`media_type`) its tables alone.

    In a page each row that a merged cell reaches down to says its text again, in a file the first row alone; there a
    line above the table has its number, its cells and which are merged.
    """

    def __init__(self, source: str, media_type: str = "") -> None:
        free = [chr(sign) for sign in _SIGNS if chr(sign) not in source]
        self._signs = free[:2] if len(free) > 1 else []  # a page that has all of them is read without this
        self._texts: list[tuple[str, dict[str, Any]]] = []  # each block, and the table that it is
        self._media_type = media_type

    def mark(self, tree: Any) -> None:
        """Write out code and tables of facts, and mark their places in the tree."""
        if not self._signs:
            return
        for table in tree.xpath("//table[.//pre]"):
            _out_of_numbers(table)
        for node in tree.xpath("//pre[not(ancestor::pre)]"):
            if text := _code(node).strip("\n"):
                fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`{3,}", text))])
                self._put(node, self._mark(f"{fence}\n{text}\n{fence}", text))
        self._mark_tables(tree)

    def with_marks(self, source: str, *, every: bool) -> str:
        """Return HTML with the places of its tables marked: `every` one, or those of facts alone."""
        if not self._signs or not _TABLE.search(source):
            return source
        lxml = need("lxml.html")
        tree = lxml.document_fromstring(_DECLARATION.sub("", source), parser=lxml.HTMLParser(huge_tree=True))
        self._mark_tables(tree, every=every)
        return str(lxml.tostring(tree, encoding="unicode"))

    def _mark_tables(self, tree: Any, *, every: bool = False) -> None:
        for node in tree.xpath("//table[not(ancestor::table)]" if every else "//table"):
            caption = " ".join("".join("".join(child.itertext()) for child in node.iterchildren("caption")).split())
            rows = _rows(node, every)
            if rows is not None and (mark := self.table(rows, caption, every=every)):
                self._put(node, mark)

    def table(
        self, rows: Iterable[Iterable[tuple[str, int, int]]], caption: str = "", *, every: bool = True
    ) -> str | None:
        """Return the mark of a table whose rows are as `grid` takes them; None for one that is left as it is."""
        records, merges = grid(rows)
        width = len(records[0]) if records else 0
        if not width or not (every or (1 < len(records) <= _ROWS and 1 < width <= _COLUMNS)):
            return None
        table: dict[str, Any] = {}
        if self._media_type:
            header = records[0] if has_header([records[0]]) else []
            table = table_document(self._media_type, header, records[1:] if header else records)
            table |= {"traits": [["merged", "", sorted(merges)]] if merges else [], "area": [1, 1, len(records), width]}
        else:
            for top, left, bottom, _ in merges:
                for below in records[top:bottom]:
                    below[left - 1] = records[top - 1][left - 1]
            records = [record for record in records if any(record)]
            if len(records) < 2:
                return None
        return self._mark(markdown_table(records, caption), " ".join(" ".join(record) for record in records), table)

    def _mark(self, text: str, words: str, table: dict[str, Any] | None = None) -> str:
        self._texts.append((text, table or {}))
        begin, end = self._signs
        return f"{begin}{len(self._texts) - 1} {words} {end}"

    @staticmethod
    def _put(node: Any, mark: str) -> None:
        for child in list(node):
            node.remove(child)
        node.tag = "pre"  # which readers of pages keep, where a short paragraph may go
        node.attrib.clear()
        node.text = mark

    def back(self, text: str) -> tuple[str, list[dict[str, Any]]]:
        """Return what was made of the page or a piece of it, with the lines of its blocks, and its tables in order."""
        tables: list[dict[str, Any]] = []
        if not self._signs:
            return text, tables

        def lines(match: re.Match[str]) -> str:
            text, table = self._texts[int(match[1])]
            if not table:
                return f"\n\n{text}\n\n"
            tables.append(table)
            areas = [_area(area) for kind in table["traits"] for area in kind[2]]
            more = f" and {len(areas) - _AREAS} more" if len(areas) > _AREAS else ""
            merges = f"; merged: {', '.join(areas[:_AREAS])}{more}" if areas else ""
            return f"\n\nTable {len(tables)} ({_area(table['area'])}{merges})\n\n{text}\n\n"

        begin, end = self._signs
        # The fence that a reader of pages may have put around it goes: a block has its own.
        pattern = re.compile(rf"\s*(?:`{{1,3}}\s*)?{begin}(\d+)[^{begin}{end}]*{end}(?:\s*`{{1,3}})?\s*")
        return pattern.sub(lines, text).strip("\n"), tables


def _out_of_numbers(table: Any) -> None:
    """Put code in the place of a table that only shows the numbers of its lines beside it."""
    codes = [code for code in table.iter("pre") if re.search(r"[^\d\s]", "".join(code.itertext()))]
    if len(codes) != 1 or any(code.tail and code.tail.strip() for code in table.iter("pre")):
        return
    rest = "".join(table.itertext()).replace("".join(codes[0].itertext()), "", 1)
    if table.getparent() is not None and not re.search(r"[^\d\s]", rest):
        codes[0].tail = table.tail
        table.getparent().replace(table, codes[0])


def _code(node: Any) -> str:
    """Return the text of code: its lines as they stand, with those that elements make."""
    out: list[str] = []
    for event, element in _walk(node):
        tag = element.tag if isinstance(element.tag, str) else ""
        if event == "end":
            if element is not node:
                out.append("\n" if tag in ("div", "li", "p", "tr") and not _at_line(out) else "")
                out.append(element.tail or "")
            continue
        out.append("\n" if tag == "br" else "")
        out.append((element.text or "") if tag else "")
    lines = "".join(out).replace("\r\n", "\n").replace("\r", "\n").replace("\xa0", " ").split("\n")
    return "\n".join(line.rstrip() for line in lines)


def _at_line(out: list[str]) -> bool:
    return next((piece for piece in reversed(out) if piece), "\n").endswith("\n")


def _walk(node: Any) -> Any:
    """Yield (start or end, element) of all in it; without recursion: pages nest without end."""
    pending = [("start", node)]
    while pending:
        event, element = pending.pop()
        yield event, element
        if event == "start":
            pending.append(("end", element))
            pending.extend(("start", child) for child in reversed(element))


def _rows(table: Any, every: bool) -> list[list[tuple[str, int, int]]] | None:
    """Return the cells of a table as `grid` takes them; None for one that only puts things in places."""
    if not every:
        if any(True for _ in table.iterdescendants(*_IN_NO_TABLE)):
            return None
        chars = len("".join(table.itertext()).strip())
        link_chars = sum(len("".join(link.itertext())) for link in table.iter("a"))
        if link_chars * 3 > chars * 2:  # a menu, most likely: whoever looks for the main part knows better
            return None
    own = table.xpath("./tr | ./thead/tr | ./tbody/tr | ./tfoot/tr") if every else table.iter("tr")
    cells = ([cell for cell in row if cell.tag in _CELLS] for row in own)
    return [
        [(_cell(cell), _span(cell, "rowspan", _ROWS), _span(cell, "colspan", _COLUMNS)) for cell in row]
        for row in cells
    ]


def grid(rows: Iterable[Iterable[tuple[str, int, int]]]) -> tuple[list[list[str]], list[list[int]]]:
    """Return texts at their rows and columns, and the areas of merged cells (first row and column, last ones).

    A cell is its text and how many rows and columns it spans; its text stands in the first of them, and nothing in the
    others. All rows have one length.
    """
    records: list[list[str]] = []
    merges: list[list[int]] = []
    until: dict[int, int] = {}  # by column: the last row that a cell above reaches down to
    for y, cells in enumerate(rows, 1):
        record: list[str] = []
        x = 1
        for text, down, across in cells:
            while until.get(x, 0) >= y:
                x += 1
            record += [""] * (x - 1 - len(record)) + [text]
            until |= dict.fromkeys(range(x, x + across), y + down - 1)
            merges += [[y, x, y + down - 1, x + across - 1]] if down > 1 or across > 1 else []
            x += across
        records.append(record)
    merges = [[top, left, min(bottom, len(records)), right] for top, left, bottom, right in merges]
    width = max([*map(len, records), *(area[3] for area in merges)], default=0)
    return [record + [""] * (width - len(record)) for record in records], merges


def _span(cell: Any, name: str, most: int) -> int:
    value = str(cell.get(name) or "").strip()
    return min(max(int(value), 1), most) if value.isascii() and value.isdigit() and len(value) < 6 else 1


def _cell(cell: Any) -> str:
    """Return what a cell says, with its links, in one line."""
    out: list[str] = []
    for event, element in _walk(cell):
        tag = element.tag if isinstance(element.tag, str) else ""
        if event == "end":
            target = element.get("href") if tag == "a" else None
            out.append(f"]({target})" if target else "")
            out.append(" " if tag in _APART else "")
            out.append((element.tail or "") if element is not cell else "")
        else:
            out.append(" " if tag in ("br", *_APART) else "[" if tag == "a" and element.get("href") else "")
            out.append((element.text or "") if tag not in ("", "script", "style") else "")
    return " ".join("".join(out).split())


def _area(area: list[int]) -> str:
    top, left, bottom, right = area
    return f"{_letters(left)}{top}:{_letters(right)}{bottom}"


def _letters(column: int) -> str:
    before, last = divmod(column - 1, 26)
    return (_letters(before) if before else "") + chr(ord("A") + last)


def markdown_table(rows: list[list[str]], caption: str = "") -> str:
    """Return rows as Markdown has them, the first one as the header."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    lines[1:1] = ["|" + "---|" * len(rows[0])] if rows else []
    return "\n".join([*([caption, ""] if caption else []), *lines])


def bare_words(source: str) -> str:
    """Return the words of a page without its structure, but for the lines of code and the rows of tables."""
    out: list[str] = []
    depth = 0
    for number, piece in enumerate(re.split(r"(?i)<(/?pre)\b[^<>]{0,2000}>", source)):
        if number % 2:
            depth = max(0, depth + (-1 if piece.startswith("/") else 1))
        elif depth:
            code = unescape(_TAG.sub("", re.sub(r"(?i)<br\b[^<>]{0,200}>", "\n", piece)))
            out.append(f"\n\n```\n{code.strip(chr(10))}\n```\n\n")
        else:
            words = " ".join(piece.split())
            words = re.sub(r"(?i)<tr\b", "\n<tr", re.sub(r"(?i)<(?=t[dh]\b)", " | <", words))
            out.append("\n".join(" ".join(line.split()) for line in unescape(_TAG.sub(" ", words)).split("\n")))
    return "".join(out)
