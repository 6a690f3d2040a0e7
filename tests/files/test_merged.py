"""Tables with merged cells, of every format that has them: each cell once, at its row and column, merged as written."""

from __future__ import annotations

import io
import time
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.files import makers

from agentorchestra.tools.files.documents import Document, TableDocument, document_from_json, leaves
from agentorchestra.tools.files.formats.base import ReadJob
from agentorchestra.tools.files.formats.convert import convert
from agentorchestra.tools.files.worker import LIMITS


@dataclass(frozen=True)
class Cell:
    """A cell as it was written: its first row and column from 0, and how far it reaches."""

    row: int
    column: int
    down: int
    across: int

    @property
    def text(self) -> str:
        return f"cell {'abcdef'[self.row]}{'uvwxyz'[self.column]}"


Table = list[list[Cell]]


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Rows of cells that cover a rectangle, some of them over several rows and columns."""
    height, width = draw(st.integers(2, 5)), draw(st.integers(2, 5))
    taken: set[tuple[int, int]] = set()
    rows: Table = []
    for y in range(height):
        rows.append([])
        for x in range(width):
            if (y, x) in taken:
                continue
            free = next((n for n in range(1, width - x) if (y, x + n) in taken), width - x)
            across, down = draw(st.integers(1, min(free, 3))), draw(st.integers(1, min(height - y, 3)))
            taken |= {(y + a, x + b) for a in range(down) for b in range(across)}
            rows[-1].append(Cell(y, x, down, across))
    return rows


def _size(table: Table) -> tuple[int, int]:
    return len(table), max(one.column + one.across for row in table for one in row)


def _html(table: Table) -> bytes:
    rows = (
        "".join(f'<td rowspan="{one.down}" colspan={one.across}>{escape(one.text)}</td>' for one in row)
        for row in table
    )
    return (
        f"<html><body><p>Above.</p><table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table></body></html>".encode()
    )


def _docx(table: Table) -> bytes:
    """As Word writes it: a cell that reaches down is written in each row."""
    height, width = _size(table)
    over = {(one.row + a, one.column): (one, a) for row in table for one in row for a in range(one.down)}
    rows = ""
    for y in range(height):
        cells = ""
        for x in range(width):
            if (y, x) not in over:
                continue
            one, below = over[y, x]
            merge = f"<w:vMerge{'' if below else ' w:val=' + chr(34) + 'restart' + chr(34)}/>" if one.down > 1 else ""
            text = "" if below else f"<w:r><w:t>{one.text}</w:t></w:r>"
            cells += f'<w:tc><w:tcPr><w:gridSpan w:val="{one.across}"/>{merge}</w:tcPr><w:p>{text}</w:p></w:tc>'
        rows += f"<w:tr>{cells}</w:tr>"
    return makers.docx_of(f"<w:p><w:r><w:t>Above.</w:t></w:r></w:p><w:tbl>{rows}</w:tbl>")


def _pptx(table: Table) -> bytes:
    from pptx import Presentation

    deck = Presentation()
    height, width = _size(table)
    made = deck.slides.add_slide(deck.slide_layouts[6]).shapes.add_table(height, width, 0, 0, 9_000_000, 900_000).table
    for one in (cell for row in table for cell in row):
        if one.down > 1 or one.across > 1:
            made.cell(one.row, one.column).merge(made.cell(one.row + one.down - 1, one.column + one.across - 1))
        made.cell(one.row, one.column).text = one.text
    return makers.saved(deck)


def _xlsx(table: Table) -> bytes:
    import xlsxwriter  # type: ignore[import-untyped]

    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True}) as book:
        sheet = book.add_worksheet("S")
        for one in (cell for row in table for cell in row):
            if one.down > 1 or one.across > 1:
                sheet.merge_range(one.row, one.column, one.row + one.down - 1, one.column + one.across - 1, one.text)
            else:
                sheet.write(one.row, one.column, one.text)
    return buffer.getvalue()


def _open(table: Table) -> list[list[Any]]:
    """Cells of OpenDocument, whose rows have the covered ones too."""
    from odf.table import CoveredTableCell, TableCell  # type: ignore[import-untyped]
    from odf.text import P  # type: ignore[import-untyped]

    height, width = _size(table)
    first = {(one.row, one.column): one for row in table for one in row}
    rows: list[list[Any]] = [[] for _ in range(height)]
    for y in range(height):
        for x in range(width):
            cell = CoveredTableCell()
            if (one := first.get((y, x))) is not None:
                cell = TableCell(valuetype="string", numberrowsspanned=one.down, numbercolumnsspanned=one.across)
                cell.addElement(P(text=one.text))
            rows[y].append(cell)
    return rows


MADE = {
    "docx": _docx,
    "html": _html,
    "ods": lambda table: makers.ods({"S": _open(table)}),
    "odp": lambda table: makers.odp([["Above."]], _open(table)),
    "odt": lambda table: makers.odt(["Above."], _open(table)),
    "pptx": _pptx,
    "xlsx": _xlsx,
}


def document(data: bytes, name: str) -> Document:
    return document_from_json(convert(ReadJob(False, time.monotonic() + 60, asdict(LIMITS)), data, name))


def only_table(found: Document) -> TableDocument:
    (table,) = [leaf for _, leaf in leaves(found) if isinstance(leaf, TableDocument)]
    return table


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", MADE)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(table=tables())
def test_each_cell_stands_once_at_its_row_and_column(kind: str, table: Table) -> None:
    found = document(MADE[kind](table), f"a.{kind}")
    read = only_table(found)
    cells = {
        (row - 1, column): text
        for row in range(1, read.last_row + 1)
        for column, text in enumerate(read.record(row))
        if text
    }
    written = [one for row in table for one in row]
    assert cells == {(one.row, one.column): one.text for one in written}
    merged = {area for trait in read.traits if trait.kind == "merged" for area in trait.areas}
    assert merged == {
        (one.row + 1, one.column + 1, one.row + one.down, one.column + one.across)
        for one in written
        if one.down > 1 or one.across > 1
    }
