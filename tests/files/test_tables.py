"""Tables as they are read: once, as CSV with addresses; how the rest is read on; what is told besides values."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.files import makers
from tests.support.examples import examples
from tests.support.file_tools import used
from tests.support.files import FakeContext

from agentorchestra.tools.files import verify_quote
from agentorchestra.tools.files.documents import (
    DocumentPart,
    PartsDocument,
    TableDocument,
    Trait,
    document_from_json,
    document_to_json,
    parts_of,
)
from agentorchestra.tools.files.places import Place, column_number
from agentorchestra.tools.files.quotes import quote_stands
from agentorchestra.tools.files.read import TABLE_CHARS, document_blocks
from agentorchestra.tools.files.readers import read_document_sync
from agentorchestra.tools.files.tables import MOST_CELL, MOST_TRAITS, TableView, table_view

_CELL = st.one_of(
    st.just(""), st.text(alphabet='ab1,";| \n\r…é', max_size=12), st.from_regex(r"[a-z]{1,40}", fullmatch=True)
)
_ROWS = st.lists(st.lists(_CELL, max_size=7), min_size=1, max_size=12)


def _table(rows: list[list[str]], named: bool) -> TableDocument:
    head = tuple(rows[0]) if named and rows[0] else ()
    return TableDocument(head, tuple(map(tuple, rows[1:] if head else rows)), 2 if head else 1)


def _cells(asked: Place, view: TableView) -> list[tuple[int, int, str]]:
    """The cells that a view shows, by row and column; one that was asked for alone is its value."""
    if asked.unit == "cell" and ":" not in str(asked):
        return [(asked.first, asked.first_column, view.text)]
    letters, *records = csv.reader(io.StringIO(view.text, newline=""))
    assert letters[0] == "row"
    return [
        (int(row), column_number(letter), value)
        for row, *values in records
        for letter, value in zip(letters[1:], values, strict=False)
        if value.strip()
    ]


def _read_whole(table: TableDocument, place: Place, limit: int) -> list[tuple[int, int, str]]:
    """All cells of a place, read on as long as there is something left."""
    todo, found, reads = [place], [], 0
    while todo:
        asked = todo.pop(0)
        view = table_view(table, asked, limit)
        shown = _cells(asked, view) if view.text else []
        assert len(shown) == len({one[:2] for one in shown}), "a cell twice in one read"
        found += [one for one in shown if view.place.first <= one[0] <= view.place.last]
        todo = [*view.rest, *todo]
        reads += 1
        assert reads < 1_000
    return found


@settings(max_examples=examples(300), deadline=None)
@given(_ROWS, st.booleans(), st.sampled_from([1, 30, 100, 8_000]))
def test_each_cell_with_a_value_is_shown_once(rows: list[list[str]], named: bool, limit: int) -> None:
    table = _table(rows, named)
    held = [(y, x, cell) for y, row in enumerate(rows, 1) for x, cell in enumerate(row, 1) if cell.strip()]
    assert sorted(_read_whole(table, Place("row", 1, table.last_row), limit)) == held


@settings(max_examples=examples(100), deadline=None)
@given(_ROWS, st.booleans(), st.data())
def test_what_is_shown_of_a_row_is_a_quote_of_it(rows: list[list[str]], named: bool, data: st.DataObject) -> None:
    table = _table(rows, named)
    width = max(table.width, 1)
    first = data.draw(st.integers(1, width))
    for number in range(1, table.last_row + 1):
        for place in (Place("row", number, number), Place("cell", number, number, first, width)):
            text = table_view(table, place, 8_000).text
            line = text[text.index(f"\n{number},") + 1 :] if text.startswith("row,") else text
            assert not line.strip() or quote_stands(table, str(place), line)


def test_a_row_is_quoted_as_it_is_shown_with_its_number_or_without(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('city,said\nUlm,"yes, ""well"""\n')
    assert verify_quote(path, "row 2", '2,Ulm,"yes, ""well"""')
    assert verify_quote(path, "row 2", 'Ulm,"yes, ""well"""')
    assert verify_quote(path, "B2", 'yes, "well"')
    assert verify_quote(path, "rows 1-2", '1,city,said\n2,Ulm,"yes, ""well"""')
    assert not verify_quote(path, "row 2", "3,Ulm")


def test_what_an_older_version_quoted_still_stands() -> None:
    table = TableDocument(("city", "people"), (("Ulm", "126"),), 2)
    for place, quote in (
        ("row 2", "A2 city: Ulm; B2 people: 126"),
        ("row 2", "city: Ulm; people: 126"),
        ("A1:B1", "A1 city: city; B1 people: people"),
        ("A2:B2", "Ulm,126"),
    ):
        assert quote_stands(table, place, quote), (place, quote)


def test_a_range_below_the_names_of_the_columns_has_them() -> None:
    table = TableDocument(("city", "people"), tuple((f"Town{n}", str(n)) for n in range(9)), 2)
    assert table_view(table, Place("row", 5, 6), 8_000).text == "row,A,B\n1,city,people\n5,Town3,3\n6,Town4,4"
    assert table_view(table, Place("cell", 5, 6, 2, 2), 8_000).text == "row,B\n1,people\n5,3\n6,4"
    assert table_view(table, Place("cell", 5, 5, 2, 2), 8_000).text == "3", "a cell alone is its value"


def test_a_long_cell_is_cut_and_read_by_its_address() -> None:
    long = "word " * 1_000
    view = table_view(TableDocument(("a", "b"), (("x", long),), 2), Place("row", 1, 2), 8_000)
    assert long[:MOST_CELL] + "…" in view.text
    assert view.notes == (f"B2 has 5,000 characters, of which {MOST_CELL:,} are shown; read it by its address",)
    alone = table_view(TableDocument(("a", "b"), (("x", long),), 2), Place("cell", 2, 2, 2, 2), 8_000)
    assert (alone.text, alone.notes) == (long, ())
    most = table_view(TableDocument((), (("x" * 40_000,),), 1), Place("cell", 1, 1, 1, 1), 8_000)
    assert most.notes == ("A1 has 40,000 characters, of which 33,000 are shown; a program reads all",)


# --- text files -----------------------------------------------------------------------------------------------------


def test_a_thousand_columns_are_bounded_and_read_on(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    rows = [[f"column{n}" for n in range(1_000)], *([f"{row}.{n}" for n in range(1_000)] for row in range(3))]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    table = read_document_sync(path)
    assert isinstance(table, TableDocument)
    blocks = document_blocks(table, "wide.csv", "")
    assert sum(len(one.text) for one in blocks if hasattr(one, "text")) < TABLE_CHARS + 1_000
    said = getattr(blocks[-1], "text", "")
    assert said.startswith("The table has rows 1-4 and the cells A1:ALL4. Read on with part='") and "' and '" in said
    held = [(y, x, cell) for y, row in enumerate(rows, 1) for x, cell in enumerate(row, 1)]
    assert sorted(_read_whole(table, Place("row", 1, 4), 8_000)) == held


def test_an_empty_first_row_does_not_hide_how_wide_the_next_is() -> None:
    table = TableDocument((), ((), ("x" * 3_000,) * 1_000), 1)
    view = table_view(table, Place("row", 1, 2), 8_000)
    assert len(view.text) < 8_000 and view.rest == (Place("cell", 1, 2, 4, 1_000),)


async def test_a_ragged_text_is_shown_as_it_is_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "ragged.csv"
    path.write_text('a;b;c\n1;2;3;4\n\n5\n6;"x\ny";7\n')
    blocks = await used(FakeContext([path], tmp_path / "run"), "read_file", name="ragged.csv")
    assert [one.text for one in blocks] == [
        'row,A,B,C,D\n1,a,b,c\n2,1,2,3,4\n4,5\n5,6,"x\ny",7',
        "Note: in the file, ';' stands between the cells.",
        "Note: row 2 has more than the 3 cells of row 1.",
        "Note: row 4 has fewer than the 3 cells of row 1.",
    ]


async def test_the_names_of_columns_are_found(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("species,heartwood\n")
    other = tmp_path / "more.csv"
    other.write_text("genus,sapwood\nQuercus,pale\n")
    ctx = FakeContext([path, other], tmp_path / "run")
    (found,) = await used(ctx, "search_files", query="heartwood")
    assert found.source is not None and (found.source.ref, found.source.place) == ("one.csv", "row 1")
    assert found.text == "A1: species; B1: heartwood"
    assert verify_quote(path, "row 1", found.text)
    assert "row 1" in [one.source.place for one in await used(ctx, "search_files", query="sapwood") if one.source]


# --- traits ---------------------------------------------------------------------------------------------------------


def _map(rows: int, columns: int) -> TableDocument:
    """A board of two colours without a value."""
    areas = [
        tuple((y, x, y, x) for y in range(1, rows + 1) for x in range(1, columns + 1) if (x + y) % 2 == odd)
        for odd in (0, 1)
    ]
    traits = (Trait("fill", "00FF00", areas[0]), Trait("fill", "0000FF", areas[1]))
    return TableDocument((), (("",) * columns,) * rows, 1, traits=traits)


def test_a_coloured_map_without_values_can_be_read_to_its_end() -> None:
    table = _map(60, 30)
    place: Place | None = Place("row", 1, 60)
    seen: list[str] = []
    while place is not None:
        view = table_view(table, place, 8_000)
        assert (view.text, view.rest) == ("", ()) and len(view.traits) <= MOST_TRAITS
        seen += [cell for part in view.traits.removeprefix("fills: ").split("; ") for cell in part[7:].split(", ")]
        place = view.trait_rest
    assert len(seen) == len(set(seen)) == 1_800


def test_a_row_with_more_to_tell_than_fits_says_so() -> None:
    view = table_view(_map(1, 2_000), Place("row", 1, 1), 8_000)
    assert len(view.traits) == MOST_TRAITS + 1
    assert view.notes == ("not all colours, formulas and the like of row 1 are told: read fewer columns of it",)
    parts = PartsDocument((DocumentPart("Map", _map(60, 30)), DocumentPart("Other", _map(1, 1))))
    notes = [text for text in _texts(document_blocks(parts, "a.xlsx", "Map")) if text.startswith("Colours")]
    (said,) = notes
    row = int(said.partition("row ")[2].partition(".")[0])
    assert said == (
        f"Colours, formulas and the like are told down to row {row}. Those below: part='Map!A{row + 1}:AD60'."
    )


def test_traits_are_kept_and_quoted() -> None:
    traits = (Trait("fill", "92D050", ((2, 1, 9, 1),)), Trait("comment", "why?", ((3, 2, 3, 2),)))
    table = TableDocument(("a", "b"), (("1", "2"),) * 8, 2, traits=traits)
    assert document_from_json(document_to_json(table)) == table
    assert "traits" not in document_to_json(TableDocument(("a",), (("1",),), 2)), "older versions read it"
    assert quote_stands(table, "B3", "why?")
    assert quote_stands(table, "A2:B9", "fills: 92D050 A2:A9")
    assert quote_stands(table, "A4", "92D050 A4")
    assert not quote_stands(table, "B2", "why?")


def _texts(blocks: list[Any]) -> list[str]:
    return [one.text for one in blocks]


@pytest.mark.parametrize("place", ["A1:C9", ""])
def test_traits_are_told_for_what_is_read_only(place: str) -> None:
    traits = (Trait("fill", "92D050", ((2, 1, 900, 1),)), Trait("hidden rows", "", ((5, 1, 6, 16_384),)))
    table = TableDocument(("a", "b", "c"), (("one", "two", "three"),) * 899, 2, traits=traits)
    text = _texts(document_blocks(table, "a.xlsx", place))[1]
    last = 9 if place else table_view(table, Place("row", 1, 900), TABLE_CHARS).place.last
    assert text == f"fills: 92D050 A2:A{last}\nhidden rows: 5-6" and last < 900 + bool(place)


# --- workbooks ------------------------------------------------------------------------------------------------------


@pytest.fixture
def plots(tmp_path: Path) -> Path:
    """A workbook with all that cells can have besides values."""
    import openpyxl  # type: ignore[import-untyped]
    from openpyxl.comments import Comment  # type: ignore[import-untyped]
    from openpyxl.formatting.rule import CellIsRule  # type: ignore[import-untyped]
    from openpyxl.styles import Color, Font, PatternFill  # type: ignore[import-untyped]

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Plots"
    for record in (["Plot", "Share", "Twice"], ["north", 0.125], ["south", 0.5], ["west", 0.25]):
        sheet.append(record)
    for row in (2, 3, 4):
        sheet.cell(row, 3, f"=B{row}*2")
        sheet.cell(row, 2).number_format = "0.0%"
    for address in ("A2", "A4", "E6", "F6"):
        sheet[address].fill = PatternFill("solid", fgColor="FF92D050")
    sheet["B1"].fill = PatternFill("solid", fgColor=Color(theme=4, tint=0.5))
    sheet["A3"].font = Font(color="FFFF0000")
    sheet["A2"].comment = Comment("sold in May", "Ann")
    sheet.merge_cells("A5:C5")
    sheet.row_dimensions[3].hidden = True
    sheet.column_dimensions["D"].hidden = True
    rule = CellIsRule(operator="greaterThan", formula=["0.3"], fill=PatternFill("solid", bgColor="FF0000"))
    sheet.conditional_formatting.add("B2:B4", rule)
    secret = book.create_sheet("Owners")
    secret.append(["Plot", "Owner"])
    secret.sheet_state = "hidden"
    book.create_sheet("Empty")
    path = tmp_path / "plots.xlsx"
    book.save(path)
    return path


async def test_what_cells_have_besides_values_is_told(plots: Path, tmp_path: Path) -> None:
    ctx = FakeContext([plots], tmp_path / "run")
    first, values, traits, *_ = _texts(await used(ctx, "read_file", name="plots.xlsx"))
    assert "Note: Owners: this sheet is hidden.\nNote: sheet Empty is empty." in first
    assert values == "row,A,B,C\n1,Plot,Share,Twice\n2,north,0.125,=B2*2\n3,south,0.5,=B3*2\n4,west,0.25,=B4*2"
    assert traits.split("\n") == [
        "fills: A7C0DE B1; 92D050 A2, A4, E6:F6",
        "font colours: FF0000 A3",
        "merged: A5:C5",
        "hidden rows: 3",
        "hidden columns: D",
        "coloured by rule: B2:B4",
        "number format 0.0%: B2:B4",
        "comment on A2: sold in May",
    ]
    (part,) = _texts(await used(ctx, "read_file", name="plots.xlsx", part="Plots!D5:F6"))
    assert part == "fills: 92D050 E6:F6\nhidden columns: D"
    assert verify_quote(plots, "Plots!A2", "92D050 A2") and verify_quote(plots, "Plots!A2", "sold in May")
    assert not verify_quote(plots, "Plots!A3", "92D050 A3")
    (owners,) = [one for one in await used(ctx, "search_files", query="owner") if one.source]
    assert owners.source is not None and owners.source.place == "Owners!row 1"


def test_cells_as_white_as_paper_have_no_fill(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    path.write_bytes(makers.coloured_xlsx(["FFFFFFFF", "FF92D050", "FFFFFFFF"]))
    (sheet,) = parts_of(read_document_sync(path))
    assert isinstance(sheet.document, TableDocument) and sheet.document.traits == (
        Trait("fill", "92D050", ((1, 2, 1, 2),)),
    )


def test_formulas_stand_beside_their_values(tmp_path: Path) -> None:
    saved = {f"=B{row}*2": row * 10 for row in range(2, 6)} | {"=SUM(B2:B5)": 14}
    rows: list[list[Any]] = [["Plot", "Share", "Twice"], *([f"p{row}", row, f"=B{row}*2"] for row in range(2, 6))]
    path = tmp_path / "a.xlsx"
    path.write_bytes(makers.xlsx({"S": [*rows, [None, "=SUM(B2:B5)"]]}, saved=saved))
    _, values, traits, *_ = _texts(document_blocks(read_document_sync(path), "a.xlsx", ""))
    assert values.endswith("2,p2,2,20\n3,p3,3,30\n4,p4,4,40\n5,p5,5,50\n6,,14")
    assert traits == "formula: C2:C5 =B2*2 (as written in C2, filled down)\nformula: B6 =SUM(B2:B5)"
    blocks = _texts(document_blocks(read_document_sync(path), "a.xlsx", "C4:C5"))
    assert blocks[1] == "formula: C4:C5 =B2*2 (as written in C2, filled down)"
    assert verify_quote(path, "B6", "=SUM(B2:B5)")


def test_formatted_cells_beyond_the_bound_are_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentorchestra.tools.files.formats import workbook as collected

    monkeypatch.setattr(collected, "MOST_CELLS", 5)

    found = collected.CellTraits(lambda style: ("FF0000", "", ""))
    filled = [found.row(n, [{"column": c, "value": None, "style_id": 1} for c in (1, 2)]) for n in range(1, 9)]
    assert filled == [2, 2, 0, 0, 0, 0, 0, 0]
    assert found.to_json() == [["fill", "FF0000", [[1, 1, 2, 2]]]]
    assert found.notes == ["the fills are told of the first 4 cells that have one, up to row 2"]


def test_an_old_workbook_tells_values_and_merged_cells(tmp_path: Path) -> None:
    import xlwt  # type: ignore[import-untyped]

    book = xlwt.Workbook()
    sheet = book.add_sheet("Plots")
    sheet.write(0, 0, "Plot")
    sheet.write(1, 0, "north", xlwt.easyxf("pattern: pattern solid, fore_colour lime; font: color red"))
    sheet.write(1, 1, 0.125, xlwt.easyxf(num_format_str="0.0%"))
    sheet.write_merge(3, 3, 0, 2, "all")
    sheet.row(1).hidden = True
    sheet.row(2).set_cell_error(0, "#DIV/0!")
    book.add_sheet("Owners").write(0, 0, "Ann")
    book.get_sheet(1).visibility = 1
    path = tmp_path / "plots.xls"
    book.save(str(path))
    first, values, traits, *_ = _texts(document_blocks(read_document_sync(path), "plots.xls", ""))
    assert "Note: Owners: this sheet is hidden." in first
    assert "only values and merged cells are told, errors (#N/A) as empty cells; save it as .xlsx" in first
    assert values == "row,A,B\n1,Plot\n2,north,0.125\n4,all"
    assert traits == "merged: A4:C4"


def test_an_open_workbook_tells_the_same(tmp_path: Path) -> None:
    from odf.office import Annotation  # type: ignore[import-untyped]
    from odf.table import TableCell  # type: ignore[import-untyped]
    from odf.text import P  # type: ignore[import-untyped]

    share = TableCell(valuetype="percentage", value=0.5, formula="of:=[.A1]*[.B2:.B3]", numbercolumnsspanned=2)
    noted = TableCell(valuetype="date", datevalue="2024-02-01T00:00:00")
    note = Annotation()
    note.addElement(P(text="sold in May"))
    noted.addElement(note)
    lines = TableCell(valuetype="string")
    for text in ("two", "lines"):
        lines.addElement(P(text=text))
    path = tmp_path / "plots.ods"
    path.write_bytes(makers.ods({"Plots": [["Plot", share], [noted, lines]], "Owners": [["Ann"]]}, hidden="Owners"))
    first, values, traits, *_ = _texts(document_blocks(read_document_sync(path), "plots.ods", ""))
    assert "Note: Owners: this sheet is hidden." in first
    assert values == 'row,A,B\n1,Plot,0.5\n2,2024-02-01,"two\nlines"'
    assert traits.split("\n") == [
        "merged: B1:C1",
        "number format percentage: B1",
        "number format date: A2",
        "comment on A2: sold in May",
        "formula: B1 =A1*B2:B3",
    ]


def test_an_open_text_is_read_as_markdown(tmp_path: Path) -> None:
    path = tmp_path / "a.odt"
    path.write_bytes(makers.odt(["Zoo", "One  line.", "Another."], [["Animal", "Grams"], ["Quoll", "4|17"]]))
    document = read_document_sync(path)
    assert getattr(document, "text", "") == (
        "# Zoo\n\nOne  line.\n\nAnother.\n\nTable 1 (A1:B2)\n\n| Animal | Grams |\n|---|---|\n| Quoll | 4\\|17 |\n"
    )
