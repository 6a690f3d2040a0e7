"""`read_file`: a file from its beginning, or a part of it."""

from __future__ import annotations

import asyncio
from typing import Any

from agentorchestra.core.content import Block, MediaBlock, Source
from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import FileRef
from agentorchestra.tea.tool import ToolResult
from agentorchestra.tools.files.common import block, document_of, file_named, note
from agentorchestra.tools.files.index import PassageIndex
from agentorchestra.tools.files.passages import Passage, paragraphs, row_text
from agentorchestra.tools.files.places import Place, parse_place
from agentorchestra.tools.files.readers import Document, PdfDocument, TableDocument, TextDocument

PART_CHARS = 8_000
"""About how much text one `read_file` gives."""


async def read_part(ctx: RunContext[Any], index: PassageIndex, name: str, part: str | None) -> ToolResult:
    ref = file_named(ctx, name)
    if ref.media_type.startswith(("image/", "audio/")):
        return await _shown(ctx, ref)
    document = await document_of(ctx, ref, index)
    place = _part(ref.name, document, part)
    found = await asyncio.to_thread(_read, document, place)
    if not found:
        return ToolResult(content=[note(f"{ref.name}: {place} holds no text.")])
    blocks: list[Block] = [block(ref.name, passage) for passage in found]
    if more := _read_on(ref.name, document, place, found):
        blocks.append(note(more))
    return ToolResult(content=blocks)


async def _shown(ctx: RunContext[Any], ref: FileRef) -> ToolResult:
    """A picture or a recording, for models that take them; for the others it is named."""
    data = await asyncio.to_thread(ctx.file(ref.name).read_bytes)
    kept = await ctx.artifact(ref.name, data, ref.media_type)
    medium = MediaBlock(
        sha256=kept.sha256,
        media_type=ref.media_type,
        name=ref.name,
        size=len(data),
        source=Source(kind="file", ref=ref.name),
    )
    return ToolResult(content=[medium])


# --- parts ----------------------------------------------------------------------------------------------------------


def _extent(document: Document) -> Place:
    """The whole document as a place."""
    if isinstance(document, TextDocument):
        return Place("line", 1, document.line_count)
    if isinstance(document, PdfDocument):
        return Place("page", 1, len(document.pages))
    return Place("row", 1, document.last_row)


def _part(name: str, document: Document, part: str | None) -> Place:
    """The place a `part` argument names, cut to what there is.

    Raises:
        ToolError: a sentence that lists what there is.
    """
    whole = _extent(document)
    if part is None or not part.strip():
        return whole
    place = parse_place(part)
    cells = isinstance(document, TableDocument) and place is not None and place.unit == "cell"
    if place is None or (place.unit != whole.unit and not cells):
        example = {"line": "lines 1-40", "page": "p. 1", "row": "rows 1-20 or B2:D9"}[whole.unit]
        raise ToolError(f"{name} has no part {part!r}; it has {described(document)}: give e.g. {example!r}.")
    last_column = document.width if isinstance(document, TableDocument) else 0
    if place.first < 1 or place.first > whole.last or (cells and not 1 <= place.first_column <= last_column):
        raise ToolError(f"{name} has no part {part!r}; it has {described(document)}.")
    return Place(
        place.unit,
        place.first,
        min(place.last, whole.last),
        place.first_column,
        min(place.last_column, last_column),
    )


def described(document: Document) -> str:
    whole = _extent(document)
    if isinstance(document, TableDocument):
        last = Place("cell", whole.last, whole.last, document.width, document.width)
        return f"{whole} and the cells A1:{last}"
    return str(whole)


def _read(document: Document, place: Place) -> list[Passage]:
    if isinstance(document, TableDocument):
        if place.unit == "cell":
            return list(_cells(document, place))
        first = place.first
        names = []
        if first < document.first_row:  # the header says what the columns are; rows repeat it cell by cell
            names = [Passage("row 1", document.delimiter.join(document.header))]
            first = document.first_row
        return names + list(paragraphs(document, first, place.last, PART_CHARS))
    return list(paragraphs(document, place.first, place.last, PART_CHARS))


def _cells(table: TableDocument, place: Place) -> list[Passage]:
    if place.first == place.last and place.first_column == place.last_column:
        value = table.cell(place.first, place.first_column).strip()
        return [Passage(str(place), value[: 2 * PART_CHARS])] if value else []
    found = []
    spent = 0
    for row in range(place.first, place.last + 1):
        if text := row_text(table, row, place.first_column, place.last_column):
            found.append(Passage(str(Place("cell", row, row, place.first_column, place.last_column)), text))
            spent += len(text)
        if spent >= PART_CHARS:
            break
    return found


def _read_on(name: str, document: Document, place: Place, found: list[Passage]) -> str:
    """How to go on reading, "" when the part was read to its end."""
    last = parse_place(found[-1].place)
    if last is not None and isinstance(document, TextDocument) and _is_cut(document, last.last, found):
        rest = f" Read on with part='lines {last.last + 1}-{place.last}'." if last.last < place.last else ""
        return f"Line {last.last} is longer than one answer holds: find what its rest says by a search.{rest}"
    if last is None or last.last >= place.last:
        whole = _extent(document)
        complete = place.unit != "cell" and place.first == whole.first and place.last == whole.last
        return f"{name} ends here." if complete else ""
    following = Place(place.unit, last.last + 1, place.last, place.first_column, place.last_column)
    return f"{name} goes on; it has {described(document)}. Read on with part={str(following)!r}."


def _is_cut(document: TextDocument, line: int, found: list[Passage]) -> bool:
    """Whether passages end inside their last line: they then hold fewer of its characters than it has."""
    start, end = document.span(line, line)
    if end - start <= PART_CHARS // 2:
        return False
    here = [passage.text for passage in found if passage.place == str(Place("line", line, line))]
    return sum(map(_ink, here)) < _ink(document.text[start:end])


def _ink(text: str) -> int:
    return sum(map(len, text.split()))
