"""What the offline model takes from a reading or a search: sentences and rows, each with the place it is cited by."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from agentorchestra.models.render import RenderedContent, parse_contents


@dataclass(frozen=True)
class Cell:
    address: str
    header: str
    value: str


@dataclass(frozen=True)
class Passage:
    """A sentence, or the row of a table with its cells."""

    ref: str
    place: str
    text: str
    cells: tuple[Cell, ...] = ()


_LINE = re.compile(r"(\d{1,9})(?:, characters \d+-\d+)?\t(.*)")
_ROW = re.compile(r"row \d+|[A-Z]{1,3}\d+(?::[A-Z]{1,3}\d+)?")
_CELL = re.compile(r"(?:^|; )([A-Z]{1,3}\d+) (.{0,200}?): (.*?)(?=; [A-Z]{1,3}\d+ |$)", re.DOTALL)
_TABLE = re.compile(r"(.*!)?(?:rows? \d+|[A-Z]{1,3}\d+:)")
_NOTE = re.compile(r"^- ([^()\n]+) \(((?:p|pp|lines?|rows?)\.? [\d-]+|[A-Z]{1,3}\d+)\): (.+)$", re.MULTILINE)
_WHOLE = 600  # characters of what was found that are quoted as they are
_END = re.compile(
    r"(?:(?<=[^\W\d_]{3}[.!?])[\"'”’)\]]*|(?<=\d[.!?]))\s+(?=[\"'“‘(\[]?[A-ZÀ-Þ])(?!(?:It|Its|They|This|That|These)\b)"
    r"|\n\s*\n"
    r"|\n(?=[ \t]*(?:[-*+•]\s+\S|\(?\d{1,3}[.)]\s+\S|#{1,6}\s+\S|\w[\w .()/%°'’-]{0,50}:\s+\S))"
)
"""Where a sentence ends: with its mark, a paragraph, or before a line that begins an item, a heading or a label."""


def passages_in(text: str) -> list[Passage]:
    """Return the passages of files in a rendered message: contents with a place, and the notes of a summary."""
    contents = [content for content in parse_contents(text) if content.kind == "file" and content.place]
    notes = [Passage(*note) for note in _NOTE.findall(text)]
    return [passage for content in contents for passage in passages_of(content)] + notes


def passages_of(content: RenderedContent) -> Iterator[Passage]:
    table = _TABLE.match(content.place)
    if table is not None and content.text.startswith("row,A"):
        yield from _rows(content, table[1] or "")
    elif _ROW.fullmatch(content.place):
        cells = tuple(Cell(*cell) for cell in _CELL.findall(content.text))
        yield Passage(content.ref, content.place, content.text, cells)
    else:
        yield from _sentences(content)


def _rows(content: RenderedContent, sheet: str) -> Iterator[Passage]:
    """Yield the rows of a table that was read, each as a search writes it out."""
    letters, *records = csv.reader(io.StringIO(content.text, newline=""))
    first = records[0] if records and records[0] and records[0][0] == "1" else []
    titles = first if any(re.search(r"[^\W\d]", title) for title in first[1:]) else []
    for record in records[1:] if titles else records:
        if not record or not record[0].isdigit():
            return
        names = dict(zip(letters, titles, strict=False))
        pairs = [(letter, value.strip()) for letter, value in zip(letters[1:], record[1:], strict=False)]
        cells = tuple(Cell(f"{at}{record[0]}", names.get(at) or at, value) for at, value in pairs if value)
        text = "; ".join(f"{cell.address} {cell.header}: {cell.value}" for cell in cells)
        is_range = not content.place.removeprefix(sheet).startswith("row")
        span = f"{letters[1]}{record[0]}:{letters[-1]}{record[0]}" if is_range else f"row {record[0]}"
        yield Passage(content.ref, f"{sheet}{span}", text, cells)


def _sentences(content: RenderedContent) -> Iterator[Passage]:
    lines = [_LINE.fullmatch(line) for line in content.text.split("\n")]
    numbered = [line for line in lines if line is not None]
    is_read = len(numbered) == len(lines)
    text = "\n".join(line[2] for line in numbered) if is_read else content.text
    if not is_read and len(text) <= _WHOLE:
        yield Passage(content.ref, content.place, text)
        return
    path, mark, _ = content.place.rpartition("!")
    place, start, at, row = content.place, 0, 0, 0
    for end, following in [*(match.span() for match in _END.finditer(text)), (len(text), len(text))]:
        sentence = text[start:end].strip()
        if sentence and is_read:
            begin = text.index(sentence, start)
            row, at = row + text.count("\n", at, begin), begin
            first, last = numbered[row][1], numbered[row + sentence.count("\n")][1]
            place = f"{path}{mark}{f'line {first}' if first == last else f'lines {first}-{last}'}"
        if sentence:
            yield Passage(content.ref, place, sentence)
        start = following
