"""Tables as they are read: as CSV with columns' letters and row numbers, then colours, formulas and so on by area."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from agentorchestra.tools.files.documents import Area, TableDocument, Trait
from agentorchestra.tools.files.places import Place, column_name, column_number

MOST_CELL = 2_000  # characters of a cell that are shown among others
MOST_ALONE = 33_000  # characters of a cell that is read alone: more than a cell of a workbook can hold
MAX_CELL = 400  # characters of a cell shown in its row by a search; the whole cell is read by its address
MOST_TRAITS = 4_000  # characters of what is told besides values
_MOST_COMMENT = 500
_MOST_NAMES = 12  # rows or cells that are named in a sentence
_CSV = ("text/csv", "text/tab-separated-values")
_VIEW = re.compile(r"row,([A-Z]{1,3})(?:,[A-Z]{1,3})*\n(?=\d)")
_ROW = re.compile(r"\d{1,9}")
_ADDRESS = re.compile(r"(^|; )[A-Z]{1,3}\d+:? ", re.MULTILINE)


@dataclass(frozen=True)
class TableView:
    """A part of a table as it is shown."""

    text: str  # CSV, or the value of the one cell that is read; "" where no cell has a value
    place: Place  # what of the table was come to
    traits: str = ""  # what its cells have besides values, "" for nothing
    rest: tuple[Place, ...] = ()  # the places that are left to read, in order
    notes: tuple[str, ...] = ()  # what is to be known of it
    trait_rest: Place | None = None  # the cells of the place whose traits are left out, None for none


def table_view(table: TableDocument, place: Place, limit: int) -> TableView:
    """Return rows or cells in about `limit` characters: one row at least, below the names of the columns."""
    if place.unit == "cell" and (place.first, place.first_column) == (place.last, place.last_column):
        return _one_cell(table, place)
    left, end = (place.first_column, place.last_column) if place.unit == "cell" else (1, table.width)
    head = [1] if table.first_row > 1 and place.first > 1 else []
    value_rows = (row for row in range(place.first, place.last + 1) if _has_value(table, row, left, end))
    right = _fitting(table, [*head, *islice(value_rows, 1)], left, end, limit)
    rows, last = _rows(table, head, place, left, right, limit)
    rest = [Place("cell", place.first, last, right + 1, end)] if right < end else []
    if last < place.last:
        cells = (left, end) if place.unit == "cell" else (0, 0)
        rest.append(Place(place.unit, last + 1, place.last, *cells))
    seen = Place("cell", place.first, last, left, right)
    traits, notes, trait_rest = _traits_shown(table.traits, seen)
    if place.unit == "row" and right == end:
        seen = Place("row", place.first, last)
        notes = [*_separator_note(table, seen), *_uneven(table, rows), *notes]
    text = ""
    if len(rows) > len(head):
        widest = max(len(table.record(row)[left - 1 : right]) for row in rows)
        letters = _line(["row", *(column_name(column) for column in range(left, left + widest))])
        text = "\n".join([letters, *(_row_line(table, row, left, right) for row in rows)])
    notes = [*_long_cells(table, rows, left, right), *notes]
    return TableView(text, seen, traits, tuple(rest), tuple(notes), trait_rest)


def _one_cell(table: TableDocument, place: Place) -> TableView:
    value = table.cell(place.first, place.first_column)
    notes = []
    if len(value) > MOST_ALONE:
        notes.append(f"{place} has {len(value):,} characters, of which {MOST_ALONE:,} are shown; a program reads all")
    text = value[:MOST_ALONE] if value.strip() else ""
    return TableView(text, place, traits_text(table.traits, place), (), tuple(notes))


def _fitting(table: TableDocument, rows: Iterable[int], left: int, end: int, limit: int) -> int:
    """Return the last column with which these rows fit, the first at least."""
    records = [table.record(row) for row in rows]
    chars = 0
    for column in range(left, end + 1):
        cells = [record[column - 1] for record in records if column <= len(record)]
        chars += len(column_name(column)) + 1 + sum(len(_line([_cut(cell)])) + 1 for cell in cells)
        if chars > limit and column > left:
            return column - 1
    return end


def _rows(
    table: TableDocument, head: Sequence[int], place: Place, left: int, right: int, limit: int
) -> tuple[list[int], int]:
    """Return the rows with values that fit, and the last row that was come to."""
    rows = list(head)
    chars = sum(len(column_name(column)) + 1 for column in range(left, right + 1))
    chars += sum(len(_row_line(table, row, left, right)) for row in head)
    for row in range(place.first, place.last + 1):
        if not _has_value(table, row, left, right):
            continue
        chars += len(_row_line(table, row, left, right))
        if chars > limit and len(rows) > len(head):
            return rows, row - 1
        rows.append(row)
    return rows, place.last


def _has_value(table: TableDocument, row: int, left: int, right: int) -> bool:
    return any(cell.strip() for cell in table.record(row)[left - 1 : right])


def _row_line(table: TableDocument, row: int, left: int, right: int) -> str:
    return _line([str(row), *map(_cut, table.record(row)[left - 1 : right])])


def _line(cells: Sequence[str]) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\r\n").writerow(cells)  # what ends a line is what it puts into quotes
    return out.getvalue()[:-2]


def _cut(value: str) -> str:
    return value if len(value) <= MOST_CELL else f"{value[:MOST_CELL]}…"


def _long_cells(table: TableDocument, rows: Iterable[int], left: int, right: int) -> Iterator[str]:
    for row in rows:
        for column, value in enumerate(table.record(row)[left - 1 : right], left):
            if len(value) > MOST_CELL:
                place = Place("cell", row, row, column, column)
                yield f"{place} has {len(value):,} characters, of which {MOST_CELL:,} are shown; read it by its address"


def _separator_note(table: TableDocument, seen: Place) -> Iterator[str]:
    """Give what stands between the cells of a text, where it is no comma; said with its first row."""
    if table.media_type in _CSV and table.delimiter != "," and seen.first == 1:
        separator = "a tab" if table.delimiter == "\t" else repr(table.delimiter)
        yield f"in the file, {separator} stands between the cells"


def _uneven(table: TableDocument, rows: Sequence[int]) -> Iterator[str]:
    """Give rows of a text that have more or fewer cells than its first line."""
    if table.media_type not in _CSV or not rows:
        return
    usual = len(table.record(1))
    for word, numbers in (
        ("more", [row for row in rows if len(table.record(row)) > usual]),
        ("fewer", [row for row in rows if len(table.record(row)) < usual]),
    ):
        if numbers:
            more = f" and {len(numbers) - _MOST_NAMES:,} more" if len(numbers) > _MOST_NAMES else ""
            noun, have = ("rows", "have") if len(numbers) > 1 else ("row", "has")
            subject = f"{noun} {', '.join(map(str, numbers[:_MOST_NAMES]))}{more}"
            yield f"{subject} {have} {word} than the {usual} cells of row 1"


def row_text(table: TableDocument, row: int, first: int = 1, last: int | None = None) -> str:
    """Return a row as `A7 country: Kenya; B7 year: 1952`, without empty cells; a header as `A1: country; B1: year`."""
    return _labels(table, row, first, last, with_names=row >= table.first_row)


def _labels(table: TableDocument, row: int, first: int, last: int | None, *, with_names: bool) -> str:
    cells = []
    record = table.record(row)
    for column in range(first, min(last or len(record), len(record)) + 1):
        value = record[column - 1].strip()
        if value:
            text = value if len(value) <= MAX_CELL or first == last else value[:MAX_CELL] + "…"
            name = f" {table.name(column)}" if with_names else ""
            cells.append(f"{column_name(column)}{row}{name}: {text}")
    return "; ".join(cells)


def labelled_views(text: str) -> list[str]:
    """Return rows of a `table_view` as `row_text` gives them, row 1 taken as header and as none; [] for other text."""
    if (first := _VIEW.match(text)) is None:
        return []
    _, *lines = csv.reader(io.StringIO(text, newline=""))
    if not all(line and _ROW.fullmatch(line[0]) for line in lines):
        return []
    before = ("",) * (column_number(first[1]) - 1)
    rows = {int(line[0]): (*before, *line[1:]) for line in lines}
    return [
        "\n".join(
            row_text(TableDocument(header, (cells,), max(row, 2 if header else 1)), row) for row, cells in rows.items()
        )
        for header in dict.fromkeys((rows.get(1, ()), ()))
    ]


def table_forms(table: TableDocument, place: Place) -> list[str]:
    """Return rows or cells in the forms they may be quoted in: as tools show or once showed them, as the file does."""
    first, last = (place.first_column, place.last_column) if place.unit == "cell" else (1, None)
    rows = range(place.first, min(place.last, table.last_row) + 1)
    records = [table.record(row)[first - 1 : last] for row in rows]
    labels = "\n".join(row_text(table, row, first, last) for row in rows)
    cells = Place("cell", place.first, place.last, first, last or table.width)
    return [
        "\n".join(table.delimiter.join(record) for record in records),
        "\n".join(_line([str(row), *record]) for row, record in zip(rows, records, strict=True)),
        "\n".join(map(_line, records)),
        labels,
        _ADDRESS.sub(r"\1", labels),
        "\n".join(_labels(table, row, first, last, with_names=True) for row in rows if row < table.first_row),
        *filter(None, (traits_text(table.traits, cells),)),
    ]


def traits_text(traits: Iterable[Trait], place: Place, most_comment: int | None = None) -> str:
    """Return what the cells of a place have besides values, a line for each colour, format, formula and comment."""
    groups: dict[str, list[str]] = {}
    lines: list[str] = []
    for trait in traits:
        overlaps = [(area, inside) for area in trait.areas if (inside := _inside(area, place)) is not None]
        areas = [area if trait.kind == "merged" else inside for area, inside in overlaps]
        if not areas:
            continue
        address = ", ".join(_address(trait.kind, area) for area in areas)
        if trait.kind in ("fill", "font colour"):
            groups.setdefault(trait.kind, []).append(f"{trait.value} {address}")
        elif trait.kind in ("merged", "hidden rows", "hidden columns", "coloured by rule"):
            groups.setdefault(trait.kind, []).append(address)
        elif trait.kind in ("comment", "text box"):
            text = trait.value
            if most_comment is not None and len(text) > most_comment:
                text = f"{text[:most_comment]}… ({len(text):,} characters; read the cell for all)"
            lines.append(f"{trait.kind} on {address}: {text}")
        elif trait.kind == "formula":
            top, column, bottom, _ = trait.areas[0]
            origin = f" (as written in {_address('', (top, column, top, column))}, filled down)"
            lines.append(f"formula: {address} {trait.value}{origin if top != bottom else ''}")
        else:
            lines.append(f"{trait.kind} {trait.value}: {address}")
    plurals = {"fill": "fills", "font colour": "font colours"}
    return "\n".join([*(f"{plurals.get(kind, kind)}: {'; '.join(texts)}" for kind, texts in groups.items()), *lines])


def _inside(area: Area, place: Place) -> Area | None:
    top, left = max(area[0], place.first), max(area[1], place.first_column)
    bottom, right = min(area[2], place.last), min(area[3], place.last_column)
    return (top, left, bottom, right) if top <= bottom and left <= right else None


def _address(kind: str, area: Area) -> str:
    if kind == "hidden rows":
        return str(area[0]) if area[0] == area[2] else f"{area[0]}-{area[2]}"
    if kind == "hidden columns":
        first, last = column_name(area[1]), column_name(area[3])
        return first if first == last else f"{first}-{last}"
    return str(Place("cell", area[0], area[2], area[1], area[3]))


def _traits_shown(traits: Sequence[Trait], place: Place) -> tuple[str, list[str], Place | None]:
    """Return the traits of a place, cut behind a row where they are too long, notes, and the cells left out."""
    if len(text := traits_text(traits, place, _MOST_COMMENT)) <= MOST_TRAITS:
        return text, [], None
    first, last = place.first, place.last
    while first < last:  # the last row down to which they fit
        middle = (first + last + 1) // 2
        fits = len(traits_text(traits, replace(place, last=middle), _MOST_COMMENT)) <= MOST_TRAITS
        first, last = (middle, last) if fits else (first, middle - 1)
    text = traits_text(traits, replace(place, last=first), _MOST_COMMENT)
    notes = []
    if len(text) > MOST_TRAITS:
        text = text[:MOST_TRAITS] + "…"
        notes.append(f"not all colours, formulas and the like of row {first} are told: read fewer columns of it")
    return text, notes, replace(place, first=first + 1) if first < place.last else None
