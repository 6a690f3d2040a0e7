"""`read_file`: a file from its beginning, or a part of it."""

from __future__ import annotations

import asyncio
from typing import Any

from agentorchestra.core.content import Block, Source, SourceKind, TextBlock, Trust
from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.tea.tool import ToolResult
from agentorchestra.tools.files.common import block, document_of, file_named, how_to_look, note, only_pictures
from agentorchestra.tools.files.documents import (
    Document,
    Leaf,
    PartsDocument,
    PdfDocument,
    TableDocument,
    TextDocument,
    joined,
    leaves,
    locate,
    only_part,
    pictures_of,
)
from agentorchestra.tools.files.index import PassageIndex
from agentorchestra.tools.files.passages import Passage, paragraphs
from agentorchestra.tools.files.places import Place, parse_place
from agentorchestra.tools.files.shown import is_media, show
from agentorchestra.tools.files.tables import TableView, has_nothing, table_view, trait_kinds, view_chars

PART_CHARS = 8_000
"""About how much text one `read_file` gives."""

_LEAST_TABLE = 1_000
"""So much of a table is given in any case, when a file with parts is read from its beginning."""

_LISTED = 40
"""Parts of a file, or columns of a table, that are listed; all of them can be read."""

_KINDS = {
    "vnd.openxmlformats-officedocument.spreadsheetml.sheet": "sheet",
    "vnd.ms-excel": "sheet",
    "vnd.oasis.opendocument.spreadsheet": "sheet",
    "vnd.openxmlformats-officedocument.presentationml.presentation": "slide",
    "x-ipynb+json": "cell",
    "epub+zip": "chapter",
    "zip": "member",
    "x-tar": "member",
    "gzip": "member",
    "x-bzip2": "member",
    "x-xz": "member",
}


async def read_part(ctx: RunContext[Any], index: PassageIndex, name: str, part: str | None) -> ToolResult:
    ref = file_named(ctx, name)
    if is_media(ref.media_type):
        return await show(ctx, ref, (), ref.media_type, part or "")
    document = await document_of(ctx, ref, index)
    names, found, inside = locate(document, part or "")
    if names and isinstance(found, TextDocument) and is_media(found.media_type):
        return await show(ctx, ref, names, found.media_type, inside)
    way = how_to_look(ctx)
    return ToolResult(content=await asyncio.to_thread(document_blocks, document, ref.name, part or "", way=way))


def document_blocks(
    document: Document, name: str, part: str, kind: SourceKind = "file", *, way: str = ""
) -> list[Block]:
    """A document from its beginning, or a part of it, every piece with its place; then how to go on.

    Args:
        document: what was read.
        name: its file's name or its address.
        part: as a place, "" for all.
        kind: of the source that blocks name.
        way: how pages that are pictures can be looked at, for whoever reads (`how_to_look`).

    Raises:
        ToolError: a sentence that lists what parts there are.
    """
    names, found, inside = locate(document, part)
    if inside and not names:
        found = only_part(found)  # a place may leave out the name of the only part
    path = "!".join(names)
    if isinstance(found, PartsDocument):
        if inside:
            raise ToolError(f"{name} has no part {part!r}; it has {described(found, path)}.")
        return _read_parts(name, found, path, kind, way)
    place = _part(name, found, inside, part)
    if isinstance(found, TableDocument):
        return _table(name, found, place, path, kind)
    passages = _read(found, place)
    if not passages:
        said = f"{name}: {joined(path, str(place))} holds no text."
        return [note(f"{said} Note: {unread}." if (unread := _unread(found, place.first, place.last, way)) else said)]
    blocks: list[Block] = [block(name, _inside(path, passage), kind) for passage in passages]
    if unread := _unread(found, place.first, _last_read(place, passages), way):
        blocks.append(note(f"Note: {unread}."))
    if more := _read_on(name, found, place, passages, path):
        blocks.append(note(more))
    if place == _extent(found):
        blocks.extend(note(f"Note: {one}.") for one in found.notes)
    return blocks


def _table(name: str, table: TableDocument, place: Place, path: str, kind: SourceKind) -> list[Block]:
    """Rows or cells of a table; of one that is given whole, what was left out of it and that it ends there."""
    view = table_view(table, place, PART_CHARS)
    if has_nothing(view):
        return [note(f"{name}: {joined(path, str(place))} holds no text.")]
    blocks = _table_blocks(table, view, name, path, kind)
    if place == _extent(table):
        blocks.extend(note(f"Note: {one}.") for one in table.notes)
        if not view.rest:
            blocks.append(note(f"{joined(name, path) if path else name} ends here."))
    return blocks


def _table_blocks(table: TableDocument, view: TableView, name: str, path: str, kind: SourceKind) -> list[Block]:
    """A view, what is to be known of it, and how to read on."""
    source = Source(kind=kind, ref=name, place=joined(path, str(view.place)))
    texts = filter(None, (view.text, view.traits))
    blocks: list[Block] = [TextBlock(text=text, source=source, trust=Trust.UNTRUSTED) for text in texts]
    blocks += [note(f"Note: {one}.") for one in view.notes]
    if view.rest:
        ways = " and ".join(repr(joined(path, str(one))) for one in view.rest)
        blocks.append(note(f"The table has {described(table)}. Read on with part={ways}."))
    return blocks


def _unread(found: Leaf, first: int, last: int, way: str) -> str:
    """Which pages from first to last could only be looked at, and how."""
    pages = pictures_of(found, first, last) if isinstance(found, PdfDocument) else ""
    return only_pictures(pages, way) if pages else ""


def _last_read(place: Place, passages: list[Passage]) -> int:
    """The last page of a place that was come to: behind it somebody reads on."""
    spent = sum(len(passage.text) for passage in passages)
    last = parse_place(passages[-1].place)
    return last.last if last is not None and spent >= PART_CHARS else place.last


def _inside(path: str, passage: Passage) -> Passage:
    return Passage(joined(path, passage.place), passage.text) if path else passage


# --- documents with parts -------------------------------------------------------------------------------------------


def _read_parts(file: str, document: PartsDocument, path: str, kind: SourceKind, way: str) -> list[Block]:
    """What the parts are, then their content from the first one on."""
    blocks: list[Block] = [note(f"{joined(file, path) if path else file} has {listing(document, path)}")]
    spent = 0
    for name, leaf in leaves(document, path):
        if isinstance(leaf, TableDocument):
            view = table_view(leaf, _extent(leaf), max(_LEAST_TABLE, PART_CHARS - spent))
            blocks.extend(_table_blocks(leaf, view, file, name, kind))
            spent += view_chars(view)
            if view.rest or spent >= PART_CHARS:
                blocks.append(note("Every part above can be read by its name."))
                return blocks
            continue
        found = _read(leaf, _extent(leaf), PART_CHARS - spent)
        blocks.extend(block(file, _inside(name, passage), kind) for passage in found)
        if unread := _unread(leaf, 1, _extent(leaf).last, way):
            blocks.append(note(f"Note: {joined(name, unread)}."))
        spent += sum(len(passage.text) for passage in found)
        more = _read_on(file, leaf, _extent(leaf), found, name) if found else ""
        if "Read on" in more or spent >= PART_CHARS:
            blocks.append(note(f"{more} Every part above can be read by its name.".strip()))
            return blocks
    blocks.append(note(f"{joined(file, path) if path else file} ends here."))
    return blocks


def listing(document: PartsDocument, path: str = "") -> str:
    """The parts, a line each, and what was left out."""
    lines = []
    for part in document.parts[:_LISTED]:
        size = f"{part.size:,} bytes; " if part.size is not None else ""
        lines.append(f"{joined(path, part.name)}: {size}{extent_of(part.document)}")
    if len(document.parts) > _LISTED:
        lines.append(f"and {len(document.parts) - _LISTED} more")
    lines += [f"Note: {one}." for one in document.notes]
    return "\n".join([f"{_counted(document)}:", *lines])


def _counted(document: PartsDocument) -> str:
    kind = _KINDS.get(document.media_type.partition("/")[2], "part")
    return f"{len(document.parts)} {kind}{'s' if len(document.parts) != 1 else ''}"


def extent_of(document: Document) -> str:
    """What a document has, in words: for a part of another."""
    if isinstance(document, PartsDocument):
        return _counted(document)
    if isinstance(document, TextDocument) and is_media(document.media_type):
        return ", ".join(document.text.split("\n"))
    if not isinstance(document, TableDocument):
        return described(document)
    names = [name for name in document.header if name.strip()]
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    kinds = trait_kinds(document)
    columns = [f"columns: {', '.join(names[:_LISTED])}{more}"] if names else []
    told = [f"with {', '.join(kinds)}"] if kinds else []
    return "; ".join([described(document), *columns, *told])


# --- parts ----------------------------------------------------------------------------------------------------------


def _extent(document: Leaf) -> Place:
    """The whole document as a place."""
    if isinstance(document, TextDocument):
        return Place("line", 1, document.line_count)
    if isinstance(document, PdfDocument):
        return Place("page", 1, len(document.pages))
    return Place("row", 1, document.last_row)


def _part(name: str, document: Leaf, inside: str, part: str) -> Place:
    """The place a `part` argument names, cut to what there is.

    Raises:
        ToolError: a sentence that lists what there is.
    """
    whole = _extent(document)
    if not inside:
        return whole
    place = parse_place(inside)
    cells = isinstance(document, TableDocument) and place is not None and place.unit == "cell"
    if place is None or place.part or (place.unit != whole.unit and not cells):
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


def described(document: Document, path: str = "") -> str:
    """What a document has, as places."""
    if isinstance(document, PartsDocument):
        names = [joined(path, part.name) for part in document.parts[:12]]
        more = f" and {len(document.parts) - 12} more" if len(document.parts) > 12 else ""
        return f"{_counted(document)}: {', '.join(names)}{more}"
    whole = _extent(document)
    if isinstance(document, TableDocument):
        last = Place("cell", whole.last, whole.last, document.width, document.width)
        return f"{whole} and the cells A1:{last}"
    if isinstance(document, PdfDocument) and document.parts:
        names = [part.name for part in document.parts]
        return f"{whole} and the tables {', '.join(names[:12])}" + (" ..." if len(names) > 12 else "")
    return str(whole)


def _read(document: Leaf, place: Place, limit: int = PART_CHARS) -> list[Passage]:
    return list(paragraphs(document, place.first, place.last, limit))


def _read_on(name: str, document: Leaf, place: Place, found: list[Passage], path: str = "") -> str:
    """How to go on reading, "" when the part was read to its end."""
    if path:
        name = f"{name}!{path}"
    last = parse_place(found[-1].place)
    if last is not None and isinstance(document, TextDocument) and _is_cut(document, last.last, found):
        rest = (
            f" Read on with part={joined(path, f'lines {last.last + 1}-{place.last}')!r}."
            if last.last < place.last
            else ""
        )
        return f"Line {last.last} is longer than one answer holds: find what its rest says by a search.{rest}"
    if last is None or last.last >= place.last:
        whole = _extent(document)
        complete = place.unit != "cell" and place.first == whole.first and place.last == whole.last
        return f"{name} ends here." if complete else ""
    following = Place(place.unit, last.last + 1, place.last, place.first_column, place.last_column)
    return f"{name} goes on; it has {described(document)}. Read on with part={joined(path, str(following))!r}."


def _is_cut(document: TextDocument, line: int, found: list[Passage]) -> bool:
    """Whether passages end inside their last line: they then hold fewer of its characters than it has."""
    start, end = document.span(line, line)
    if end - start <= PART_CHARS // 2:
        return False
    here = [passage.text for passage in found if passage.place == str(Place("line", line, line))]
    return sum(map(_ink, here)) < _ink(document.text[start:end])


def _ink(text: str) -> int:
    return sum(map(len, text.split()))
