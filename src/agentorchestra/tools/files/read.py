"""`read_file`: a file from its beginning, or a part of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentorchestra.core.content import Block, Source, SourceKind, TextBlock, Trust
from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.runtime.results import room_of_caller
from agentorchestra.tea.calling.tool import ToolResult
from agentorchestra.tools.files.common import block, document_at, file_named, how_to_look, note, only_pictures
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
from agentorchestra.tools.files.media import is_media, show
from agentorchestra.tools.files.passages import Passage
from agentorchestra.tools.files.places import Place, parse_place
from agentorchestra.tools.files.tables import has_nothing, table_view, trait_kinds
from agentorchestra.tools.files.views import View, length, page_view, text_view

PART_CHARS = 16_000
"""About how much text one `read_file` gives; less than what is cut from the middle of a long result."""

_LEAST_CHARS = 1_000

_CUT_NAMED = 3  # lines that are cut for which it is said how to read on
TABLE_CHARS = 12_000  # the same of a table; what its cells have besides values comes on top
_LEAST_TABLE = 1_000  # so much of a table is given in any case, when a file with parts is read from its beginning
NO_NEWLINE = "The last line does not end with a newline."  # told of a text that is read; whoever edits it has to know
_LISTED = 40  # parts of a file, or columns of a table, that are listed; all of them can be read
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


async def read_part(
    ctx: RunContext[Any], index: PassageIndex, name: str, part: str = "", view_range: Sequence[int] = ()
) -> ToolResult:
    ref = file_named(ctx, name)
    if is_media(ref.media_type):
        return await show(ctx, ref, (), ref.media_type, part)
    document, part = await document_at(ctx, ref, index, part)
    names, found, inside = locate(document, part)
    if names and isinstance(found, TextDocument) and is_media(found.media_type):
        return await show(ctx, ref, names, found.media_type, inside)
    asked = Asked(part, span_of(view_range), way=how_to_look(ctx), ranged=True, limit=room_for(ctx))
    return ToolResult(content=await asyncio.to_thread(read_blocks, document, ref.name, asked))


def room_for(ctx: RunContext[Any]) -> int:
    """Return characters that one reading may give an agent: fewer where its window is small."""
    room = room_of_caller(ctx)
    return PART_CHARS if room is None else max(_LEAST_CHARS, min(PART_CHARS, room * 4 // 5))


def span_of(view_range: Sequence[int]) -> tuple[int, int] | None:
    """Return the first and last line of a `view_range`, None for none; -1 stands for the last line there is."""
    if not view_range:
        return None
    if len(view_range) != 2 or view_range[0] < 1 or not (view_range[1] == -1 or view_range[1] >= view_range[0]):
        raise ToolError(f"view_range is {[*view_range]}; give the first and the last line, e.g. [1, 400]")
    return view_range[0], view_range[1]


@dataclass(frozen=True)
class Asked:
    """What of a document is read, and how it is told."""

    part: str = ""  # a place, "" for all
    span: tuple[int, int] | None = None  # the first and last line, page or row, in place of those of `part`
    kind: SourceKind = "file"  # of the source that blocks name
    way: str = ""  # how pages that are pictures can be looked at, for whoever reads (`how_to_look`)
    ranged: bool = False  # whether the tool takes `view_range`, to say how to read on
    limit: int = PART_CHARS  # characters


def document_blocks(
    document: Document, name: str, part: str, kind: SourceKind = "file", *, way: str = "", limit: int = PART_CHARS
) -> list[Block]:
    """Do as `read_blocks`, for tools that take a `part` only."""
    return read_blocks(document, name, Asked(part, kind=kind, way=way, limit=limit))


def read_blocks(document: Document, name: str, asked: Asked) -> list[Block]:
    """Return a document from its beginning, or a part of it, with its place; then what is not shown and how to read on.

    Lines of a text are one block, each page and each part is one.

    Raises:
        ToolError: a sentence that lists what parts there are.
    """
    names, found, inside = locate(document, asked.part)
    if (inside or asked.span) and not names:
        found = only_part(found)  # a place may leave out the name of the only part
    path = "!".join(names)
    if isinstance(found, PartsDocument):
        if inside:
            raise ToolError(f"{name} has no part {asked.part!r}; it has {described(found, path)}.")
        if asked.span:
            raise ToolError(f"{name} has parts: give one with view_range, as `part`; it has {described(found, path)}.")
        return _read_parts(name, found, path, asked)
    if asked.span and inside:
        raise ToolError(f"part {asked.part!r} names a place already; leave view_range out")
    place = _ranged(name, found, asked.span) if asked.span else _part(name, found, inside, asked.part)
    leaf = _leaf(name, found, place, path, asked)
    if leaf.blocks:
        return _with_form(found, place, leaf)
    said = f"{name}: {joined(path, str(place))} holds no text."
    return [note(" ".join([said, *(_text_of(one) for one in leaf.notes)]))]


def _text_of(block: Block) -> str:
    return block.text if isinstance(block, TextBlock) else ""


@dataclass(frozen=True)
class _Read:
    """What was read of a part of a document."""

    blocks: list[Block]  # its content
    notes: list[Block]  # what was left out, and how to read on
    ends: bool = True  # whether it was read to its end


def _with_form(document: Leaf, place: Place, read: _Read) -> list[Block]:
    """Put content below a line on how its file is written, where that is unusual, and above what was left out."""
    said = document.form if isinstance(document, TextDocument) and document.form else ""
    notes = [*read.notes]
    if place == _extent(document):
        notes.extend(note(f"Note: {one}.") for one in document.notes)
    return [*([note(said, outside=False)] if said else []), *read.blocks, *notes]


def _leaf(name: str, document: Leaf, place: Place, path: str, asked: Asked) -> _Read:
    """Return the content at a place, lines in one block, and what is said of it."""
    if isinstance(document, TableDocument):
        return _table(name, document, place, path, asked)
    notes: list[Block] = []
    if isinstance(document, PdfDocument):
        view = page_view(document, place, asked.limit)
        if pages := pictures_of(document, place.first, view.last):
            said = only_pictures(joined(path, pages), asked.way)
            notes.append(note(f"Note: {said}.", outside=bool(path)))
    else:
        view = text_view(document, place, asked.limit)
    # A place in a part has the part's name in it, which is a word from outside.
    notes.extend(note(one, outside=bool(path)) for one in _rest(document, place, view, path, asked))
    blocks: list[Block] = [
        block(name, Passage(joined(path, str(where)), text), asked.kind)
        for where, text in view.pieces
        if where.unit == "line" or text.strip()
    ]
    return _Read(blocks, notes, ends=not view.cut and view.last == place.last)


def _rest(document: TextDocument | PdfDocument, place: Place, view: View, path: str, asked: Asked) -> list[str]:
    """Return what is not shown of a place, and how to read on."""
    said = []
    for one in view.cut[:_CUT_NAMED]:
        size = length(document, one.first)
        if _goes_on(document, one):
            rest = replace(one, first_char=one.last_char + 1, last_char=min(one.last_char + asked.limit, size))
            unit = str(Place(one.unit, one.first, one.first)).capitalize()
            said.append(
                f"{unit} has {size:,} characters; {one.first_char:,}-{one.last_char:,} are shown. "
                f"Read on with part={joined(path, str(rest))!r}."
            )
    if len(view.cut) > _CUT_NAMED:
        said.append(f"{len(view.cut) - _CUT_NAMED:,} more are cut; the numbers of their lines say where.")
    last, whole = view.last, _extent(document)
    if last < place.last:
        following = Place(place.unit, last + 1, place.last)
        span = f"[{following.first}, {following.last}]"
        on = f"view_range={span}" if asked.ranged and not path else f"part={joined(path, str(following))!r}"
        said.append(f"{_not_shown(following)} Read on with {on}.")
    elif place.last < whole.last and not place.first_char:
        said.append(f"It has {whole.last:,} {'lines' if whole.unit == 'line' else 'pages'}.")
    cut = any(one.first == last and _goes_on(document, one) for one in view.cut)
    if last == whole.last and not cut and _is_open(document):
        said.append(NO_NEWLINE)
    return said


def _goes_on(document: TextDocument | PdfDocument, stretch: Place) -> bool:
    """Return True if a stretch of a line or page ends before that does."""
    return stretch.last_char < length(document, stretch.first)


def _is_open(document: TextDocument | PdfDocument) -> bool:
    """Return True if a text that stands in its file as it is ends without a newline."""
    return isinstance(document, TextDocument) and document.form is not None and not document.text.endswith("\n")


def _not_shown(place: Place) -> str:
    what = {"line": "Line", "page": "Page", "row": "Row", "cell": "Row"}[place.unit]
    if place.first == place.last:
        return f"{what} {place.first:,} is not shown."
    return f"{what}s {place.first:,}-{place.last:,} are not shown."


# --- documents with parts -------------------------------------------------------------------------------------------


def _read_parts(file: str, document: PartsDocument, path: str, asked: Asked) -> list[Block]:
    """Return what the parts are, then their content from the first one on."""
    source = Source(kind=asked.kind, ref=file)
    listed = f"{joined(file, path) if path else file} has {listing(document, path)}"
    blocks: list[Block] = [TextBlock(text=listed, source=source, trust=Trust.UNTRUSTED)]
    left = asked.limit
    for name, leaf in leaves(document, path):
        if left <= 0:
            blocks.append(note("The other parts are not shown; read them by their names as `part`.", outside=False))
            return blocks
        read = _leaf(file, leaf, _extent(leaf), name, replace(asked, limit=left))
        blocks += [*read.blocks, *read.notes]
        left -= sum(len(_text_of(one)) for one in read.blocks)
        left = left if read.ends else 0
    return blocks


def listing(document: PartsDocument, path: str = "") -> str:
    """Return the parts, a line each, and what was left out."""
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
    """Return what a document has, in words: for a part of another."""
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
    """Return the whole document as a place."""
    if isinstance(document, TextDocument):
        return Place("line", 1, document.line_count)
    if isinstance(document, PdfDocument):
        return Place("page", 1, len(document.pages))
    return Place("row", 1, document.last_row)


def _part(name: str, document: Leaf, inside: str, part: str) -> Place:
    """Return the place a `part` argument names, cut to what there is."""
    whole = _extent(document)
    if not inside:
        return whole
    place = parse_place(inside)
    cells = isinstance(document, TableDocument) and place is not None and place.unit == "cell"
    if place is None or place.part or (place.unit != whole.unit and not cells):
        example = {"line": "lines 1-40", "page": "p. 1", "row": "rows 1-20 or B2:D9"}[whole.unit]
        raise ToolError(f"{name} has no part {part!r}; it has {described(document)}: give e.g. {example!r}.")
    last_column = document.width if isinstance(document, TableDocument) else 0
    if place.first_char and isinstance(document, TextDocument | PdfDocument) and 1 <= place.first <= whole.last:
        size = length(document, place.first)
        if place.first_char > size:
            where = Place(place.unit, place.first, place.first)
            raise ToolError(f"{name} has no part {part!r}; {where} has {size:,} characters.")
        return replace(place, last_char=min(place.last_char, size))
    if place.first < 1 or place.first > whole.last or (cells and not 1 <= place.first_column <= last_column):
        raise ToolError(f"{name} has no part {part!r}; it has {described(document)}.")
    return Place(
        place.unit,
        place.first,
        min(place.last, whole.last),
        place.first_column,
        min(place.last_column, last_column),
    )


def _ranged(name: str, document: Leaf, span: tuple[int, int]) -> Place:
    """Return the lines, pages or rows of a `view_range`, cut to what there is."""
    whole = _extent(document)
    first, last = span[0], whole.last if span[1] == -1 else min(span[1], whole.last)
    if first > whole.last:
        raise ToolError(f"{name} has nothing in view_range {[*span]}; it has {described(document)}.")
    return Place(whole.unit, first, last)


def described(document: Document, path: str = "") -> str:
    """Return what a document has, as places."""
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


# --- tables ---------------------------------------------------------------------------------------------------------


def _table(name: str, table: TableDocument, place: Place, path: str, asked: Asked) -> _Read:
    """Return rows or cells of a table in one block, what else is to be known of them, and how to read on."""
    view = table_view(table, place, max(min(asked.limit, TABLE_CHARS), _LEAST_TABLE))
    if has_nothing(view):
        return _Read([], [])
    source = Source(kind=asked.kind, ref=name, place=joined(path, str(view.place)))
    texts = filter(None, (view.text, view.traits))
    blocks: list[Block] = [TextBlock(text=text, source=source, trust=Trust.UNTRUSTED) for text in texts]
    notes: list[Block] = [note(f"Note: {one}.", outside=False) for one in view.notes]
    if view.untold:
        said = f"Colours, formulas and the like are told down to row {view.untold.first - 1}."
        notes.append(note(f"{said} Those below: part={joined(path, str(view.untold))!r}.", outside=bool(path)))
    if view.rest:
        ways = " and ".join(repr(joined(path, str(one))) for one in view.rest)
        notes.append(note(f"The table has {described(table)}. Read on with part={ways}.", outside=bool(path)))
    return _Read(blocks, notes, ends=not view.rest)


__all__ = [
    "PART_CHARS",
    "Asked",
    "described",
    "document_blocks",
    "extent_of",
    "listing",
    "read_blocks",
    "read_part",
    "span_of",
]
